"""The attack on PATE's results: it passes a sound curator and finds planted errors.

An audit fails a sound mechanism with probability at most 1e-9; seeds are fixed.
"""

import math

import numpy as np
import pytest

from p2p_sim.audit.one_run import OneRunAudit
from p2p_sim.audit.small_exchange_attack import audit_at_own_size
from p2p_sim.audit.votes_attack import audit_votes, best_results, splits
from p2p_sim.base.errors import InputError
from p2p_sim.mechanisms.pate import PateConfig
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare
from p2p_sim.scenario import Scenario

TRIALS = 4_000
PLAIN = {"teachers": 20, "queries": 24, "answers": 8, "threshold": 0.0, "test_noise": 100.0, "noise_multiplier": 1.6}
"""Half of the tests are passed, whatever the votes, and tell hardly anything."""


def case(kind: str = "pate", **settings) -> Replicate:
    tree = {"name": "s", "population": {"kind": "wine"}, "clusters": {"kind": "kmeans", "count": 3, "min_size": 2}}
    return Replicate(Scenario.from_tree(tree | {"mechanism": {"kind": kind} | settings}), 0)


class Overlapping(PateConfig):
    """Planted: every user is in the shards of two teachers."""

    def votes(self, labels, inputs, asked, rng):
        return super().votes(labels, inputs, asked, rng) + super().votes(labels, inputs, asked, rng)


def test_a_sound_curator_passes_and_the_attack_is_strong():
    given = case(**PLAIN)
    done = audit_at_own_size(given, TRIALS)
    assert isinstance(done, OneRunAudit)
    assert done.passed
    assert done.targets == TRIALS
    assert done.attacked[0] > 0.65 * done.certified[0]
    assert done.mechanism == "pate"


@pytest.mark.parametrize("fault", ["one vote moves", "one answer counts", "shards overlap"])
def test_planted_errors_are_found(fault):
    """Noise as if one vote moved instead of two, √2 times too small; noise for one answer; shards that overlap."""
    given = case(**PLAIN)
    claimed = prepare(given).mechanism
    less = {"one vote moves": math.sqrt(2.0), "one answer counts": math.sqrt(8.0), "shards overlap": 1.0}[fault]
    kind = Overlapping if fault == "shards overlap" else PateConfig
    # the noise of the tests stays as it is
    weaker = {"noise_multiplier": claimed.noise_multiplier / less, "test_noise": claimed.test_noise * less}
    planted = kind(**PLAIN).deployed(claimed.setup).model_copy(update=weaker)
    trials = 3 * TRIALS if fault == "one vote moves" else TRIALS
    assert not audit_votes(given, trials, mechanism=planted).passed


def test_noise_of_the_tests_is_attacked_too():
    """Few answers with much noise: what is told is whether tests are passed. The control: half their noise."""
    given = case(teachers=20, queries=30, answers=30, threshold=0.5, test_noise=0.05, noise_multiplier=60.0)
    claimed = prepare(given).mechanism
    sound = audit_votes(given, TRIALS)
    assert sound.passed
    assert sound.attacked[0] > 0.6 * sound.certified[0]
    weak = claimed.model_copy(update={"test_noise": claimed.test_noise / 2.0})
    assert not audit_votes(given, TRIALS, mechanism=weak).passed


def test_splits_leave_one_vote_to_the_target():
    mechanism = prepare(case(**PLAIN)).mechanism
    for classes in (2, 3, 7):
        found = list(splits(mechanism, classes))
        assert found
        assert all(votes.sum() == 19 and len(votes) == classes and votes.min() >= 0 for votes in found)


def test_ties_tell_most_of_answers():
    known = best_results(prepare(case(**PLAIN)).mechanism, 3, 1)
    assert abs(int(known.others[0] - known.others[1])) <= 1
    assert known.gains[1] > 0.0 > known.gains[0]
    assert np.isfinite(known.gains).all()


def test_other_mechanisms_have_no_votes():
    with pytest.raises(InputError, match="'randomized_response': teachers do not vote"):
        audit_votes(case("randomized_response", flip_prob=0.1), 100)
