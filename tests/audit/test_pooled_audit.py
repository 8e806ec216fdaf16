"""Audits of a shuffler and of a curator who releases noisy labels: sound ones pass, too little noise fails.

Each audit fails a sound mechanism with probability at most 1e-9; seeds are fixed.
"""

import itertools
import math

import numpy as np
import pytest

from p2p_sim.audit.exchange_targets import Batch, ClusterTargets, copies
from p2p_sim.audit.local_attack import audit_local
from p2p_sim.audit.pooled_attack import PairRatio, ShuffledRatio, audit_pooled, pooled_curves
from p2p_sim.audit.scores import ClusterAttack
from p2p_sim.base.errors import InputError
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.outcome import LabelRelease
from p2p_sim.mechanisms.randomized_response import ShuffledResponseConfig
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare
from p2p_sim.scenario import Scenario
from tests.false_alarms import false_alarms

SYNTHETIC = {"kind": "synthetic", "users": 3000, "num_clusters": 100}
TABLE = {"kind": "table"}


def case(mechanism: dict, **keys) -> Replicate:
    return Replicate(Scenario.from_tree({"name": "pooled", "population": SYNTHETIC, "mechanism": mechanism} | keys))


SHUFFLED = case({"kind": "shuffled_response", "flip_prob": 0.2})
CLASSES = case({"kind": "shuffled_response", "flip_prob": 0.4}, population={"kind": "digits", "task": "classes"})
CURATOR = {"kind": "cluster_rr", "resampling_prob": 0.8, "noise_scale": 2.0, "threshold": 0.1}


class Unshuffled(ShuffledResponseConfig):
    """Planted: every noisy label stays with its owner."""

    def release(self, labels, features, clusters, streams):
        return LabelRelease.of(self.noise.randomize(labels, streams.generator("flip")))


def shuffler(flip_prob: float, classes: int = 2, kind: type[ShuffledResponseConfig] = ShuffledResponseConfig):
    return kind(flip_prob=flip_prob).deployed(Setup(np.array([31]), classes, 1e-5))


def view(size: int, ones: int, zeros: int, sent: tuple[int, int]) -> Batch:
    """One target, and what the shuffler shows of her cluster: noisy ones and noisy zeros."""
    counts = (np.array([count]) for count in (size, ones, zeros, size, *sent, 1, 1, 1))
    return Batch(np.array([True]), *counts, None, None)


@pytest.mark.parametrize(("size", "ones"), [(2, 0), (5, 2), (6, 5)])
def test_the_score_is_the_exact_likelihood_ratio(size, ones):
    """Every pattern of flips is enumerated."""
    labels, alpha, laws = [1] * ones + [0] * (size - 1 - ones), 0.3, np.zeros((2, size + 1))
    for own, flips in itertools.product((0, 1), itertools.product((0, 1), repeat=size)):
        noisy = [label ^ flip for label, flip in zip([own, *labels], flips, strict=True)]
        laws[own, sum(noisy)] += math.prod(alpha if flip else 1.0 - alpha for flip in flips)
    for k in range(size + 1):
        [score] = ShuffledRatio(alpha, 1.0, True)(view(size, ones, size - 1 - ones, (k, size - k)))
        assert score == pytest.approx(math.log(laws[1, k] / laws[0, k]), abs=1e-9)


def test_scores_of_large_clusters_and_many_classes_are_about_that():
    views = [view(400, 150, 249, (k, 400 - k)) for k in range(150, 260)]
    exact, near, pair = (
        np.concatenate([ratio(one) for one in views])
        for ratio in (ShuffledRatio(0.3, 1.0, True), ShuffledRatio(0.3, 1.0, False), PairRatio(0.3, 2))
    )
    assert np.abs(near - exact).max() < 0.03
    assert np.abs(pair - exact).max() < 0.03


@pytest.mark.parametrize(
    ("asked", "share"),
    [(SHUFFLED, 0.6), pytest.param(CLASSES, 0.5, marks=pytest.mark.slow)],
    ids=["two classes", "ten classes"],
)
def test_a_shuffler_passes_and_the_attack_is_worth_something(asked, share):
    done = audit_pooled(asked, 20_000)
    assert done.passed
    assert done.attacked[0] > share * done.certified[0]
    assert done.smallest_rise is not None
    assert done.clusters is not None
    assert done.clusters[0] < done.clusters[1]


def test_too_little_noise_and_no_shuffling_are_caught():
    """The controls: α is half of what is claimed, or labels stay with their owners."""
    for planted in (shuffler(0.1), shuffler(0.2, kind=Unshuffled)):
        assert not audit_pooled(SHUFFLED, 20_000, mechanism=planted).passed
    weak = shuffler(0.2, 10)
    assert not audit_pooled(CLASSES, 5_000, mechanism=weak).passed


@pytest.mark.parametrize("approximate", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_curator_passes_and_too_little_resampling_is_caught(approximate):
    """The control: a tenth of the labels is resampled, or with what resampling hides accounted for, three tenths."""
    users = {"kind": "synthetic", "users": 1000, "num_clusters": 5} if approximate else SYNTHETIC
    asked = case(CURATOR | {"approximate": approximate}, learner=TABLE, population=users)
    done, sound = audit_pooled(asked, 10_000), prepare(asked).mechanism
    assert done.passed
    assert done.attacked[0] > 0.0
    weak = sound.model_copy(update={"resampling_prob": 0.3 if approximate else 0.1})
    assert not audit_pooled(asked, 10_000, mechanism=weak).passed


def test_the_power_is_that_of_a_mechanism_whose_epsilon_is_so_much_larger():
    """The factor on δ belongs to the α at which ε is half as large again, found by trying many."""
    curves = pooled_curves(prepare(SHUFFLED).mechanism, np.array([30]), 1e-5)
    target = 1.5 * curves.accountant(30).epsilon(1e-5).epsilon_upper
    shares = np.linspace(0.3, 1.0, 300)
    share = next(s for s in shares if curves.weaker(30, s).epsilon(1e-5).epsilon_upper <= target)
    factors = curves.reached([0.0, 0.5], 1.5) / curves.reached([0.0, 0.5], 1.0)
    for epsilon, factor in zip((0.0, 0.5), factors, strict=True):
        weak, own = (
            accountant.delta(epsilon).upper for accountant in (curves.weaker(30, share), curves.accountant(30))
        )
        assert 1.0 < factor == pytest.approx(weak / own, rel=0.02)


@pytest.mark.slow
def test_simulated_audits_of_a_sound_shuffler_hardly_ever_fail():
    """1,000 audits at error .01: 25 or more false alarms have probability below 1e-4; at error 1e-9 there are none."""
    labels = np.zeros(31, dtype=np.uint8)
    mechanism = shuffler(0.2)
    targets = ClusterTargets(SHUFFLED, mechanism, copies(labels))
    attack = ClusterAttack.prepared(targets, ShuffledRatio(0.2, 1.0, True), True, 5_000, 0)
    account = pooled_curves(mechanism, np.array([31]), 1e-5)
    often, never = false_alarms(attack, account)
    assert often <= 25
    assert never == 0


def test_other_mechanisms_are_refused():
    with pytest.raises(InputError, match="releases no labels, or more than noisy labels alone"):
        audit_pooled(case(CURATOR | {"bias_correction": 0.5}, learner={"kind": "soft_logistic_regression"}), 1000)
    with pytest.raises(InputError, match="users do not send messages of their own"):
        audit_local(SHUFFLED, 1000)
