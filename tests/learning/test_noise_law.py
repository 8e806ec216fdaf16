"""The public law of released labels: it is that of the sampler, it undoes the noise on average, and it is refused."""

import math

import numpy as np
import pytest

from p2p_sim import load_scenario, run
from p2p_sim.base.errors import InputError
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.noise_law import NoiseLaw, cluster_shares, to_simplex
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.mechanisms.rr_with_prior import RRWithPrior
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import exchange
from p2p_sim.scenario import Scenario
from tests.learning.received import received

SKEWED = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7]])
DRAWS = 100_000
FAR = math.sqrt(math.log(2 / 1e-9) / (2 * DRAWS))
"""Hoeffding: a share of so many draws is farther from its probability once in 1e9."""


def shares_sent(noise, label: int, seed: int) -> np.ndarray:
    sent = noise.randomize(np.full(DRAWS, label, np.uint8), np.random.default_rng(seed))
    return np.bincount(sent, minlength=noise.num_classes) / DRAWS


@pytest.mark.parametrize(
    "noise",
    [
        RandomizedResponse(0.2),
        RandomizedResponse(0.5, 4),
        RRWithPrior(1.0, 4, (0.45, 0.4, 0.1, 0.05)),
        RRWithPrior(1.0, 3, (0.98, 0.01, 0.01)),
        RRWithPrior(2.0, 3),
    ],
)
def test_the_law_is_that_of_the_sampler(noise):
    """Each of at most 16 shares at 1e-9; another class's row is the control."""
    for label in range(noise.num_classes):
        assert np.abs(shares_sent(noise, label, label) - noise.transition[label]).max() < FAR
    if getattr(noise, "candidates", 2) > 1:
        assert np.abs(shares_sent(noise, 0, 0) - noise.transition[1]).max() > 10 * FAR


def test_weights_undo_the_noise_on_average():
    law = NoiseLaw.common(SKEWED)
    weights = law.weights(np.arange(3))
    assert pytest.approx(np.eye(3)) == SKEWED @ weights
    assert weights.sum(axis=1) == pytest.approx(np.ones(3))
    other = NoiseLaw.common(SKEWED.T / SKEWED.T.sum(axis=1, keepdims=True)).weights(np.arange(3))
    assert np.abs(SKEWED @ other - np.eye(3)).max() > 0.05


def test_weights_are_those_of_debiased_randomised_response():
    noise, labels = RandomizedResponse(0.3, 5), np.arange(5, dtype=np.uint8)
    assert NoiseLaw.common(noise.transition).weights(labels) == pytest.approx(noise.debiased(labels))


def test_labels_of_several_groups_have_their_own_matrices():
    law = NoiseLaw(np.stack([SKEWED, np.eye(3)]), "user", np.array([1, 0]))
    labels = np.array([2, 2])
    assert law.likelihoods(labels) == pytest.approx(np.array([[0, 0, 1], [0.1, 0.1, 0.7]]))
    assert law.weights(labels)[0] == pytest.approx([0, 0, 1])
    assert law.weights(labels)[1] == pytest.approx(np.linalg.inv(SKEWED)[2])


def test_noise_that_cannot_be_undone_is_refused():
    law = NoiseLaw.common(np.array([[0.5, 0.5], [0.5, 0.5]]))
    with pytest.raises(InputError, match="cannot be undone on average"):
        law.weights(np.array([0]))
    assert law.likelihoods(np.array([0])) == pytest.approx(np.array([[0.5, 0.5]]))


@pytest.mark.parametrize("wrong", [np.eye(2)[None] * 0.9, np.eye(2), np.ones((1, 2, 3)) / 3, [[[1.5, -0.5], [0, 1]]]])
def test_what_is_no_law_is_refused(wrong):
    with pytest.raises(InputError, match="noise law"):
        NoiseLaw(np.asarray(wrong))


def test_the_nearest_distribution():
    """Against a search over a grid of distributions."""
    rng = np.random.default_rng(1)
    grid = np.array([(a, b, 100 - a - b) for a in range(101) for b in range(101 - a)]) / 100
    for point in rng.normal(0.3, 0.7, (50, 3)):
        found = to_simplex(point[None])[0]
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1)
        assert np.sum((found - point) ** 2) <= np.sum((grid - point) ** 2, axis=1).min() + 1e-12


def test_shares_of_clusters_are_estimated_without_their_noise():
    """Exact counts of noisy labels give the exact shares back; a cluster without labels has equal ones."""
    truth = np.array([[0.2, 0.5, 0.3], [0.0, 0.0, 1.0]])
    counts = np.rint(truth @ SKEWED * 1000).astype(int)
    labels = np.concatenate([np.repeat(np.arange(3), row) for row in counts])
    cluster = np.repeat([0, 1], counts.sum(axis=1))
    shares, number = cluster_shares(NoiseLaw.common(SKEWED, "cluster"), labels, cluster, 3)
    assert shares == pytest.approx(np.vstack([truth, np.full(3, 1 / 3)]), abs=2e-3)
    assert number.tolist() == [1000, 1000, 0]


def scenario(mechanism: dict, **more) -> Scenario:
    population = {"kind": "circle", "users": 600, "num_classes": 4}
    return Scenario.from_tree(
        {"name": "t", "engine": "vectorised", "population": population, "mechanism": mechanism,
         "clusters": {"kind": "kmeans", "count": 4, "min_size": 40}, **more}
    )  # fmt: skip


def released(mechanism: dict) -> tuple[Outcome, NoiseLaw | None]:
    done = exchange(Replicate(scenario(mechanism, learner={"kind": "knn"}), 0))
    return done.outcome, done.mechanism.noise_law(done.outcome)


def test_two_stages_publish_a_matrix_for_each_set_of_candidates():
    outcome, law = released({"kind": "rr_with_prior", "target_epsilon": 1.0, "neighbours": 20})
    assert law is not None
    assert outcome.labels.candidates is not None
    release = outcome.labels
    among = np.unpackbits(outcome.labels.candidates, axis=1, count=4).astype(bool)
    assert among[np.arange(len(release)), release.payload.astype(int)].all()
    assert len(law.transition) > 2
    own = law.transition[law.groups(len(release))]
    assert (own.sum(axis=1) > 0).tolist() == among.tolist()
    joined = Outcome.join([outcome, outcome])
    assert joined.labels.candidates is not None
    assert len(joined.labels.candidates) == 2 * len(release)


def test_the_exchange_and_the_shuffler_release_labels_of_the_cluster():
    for mechanism in ({"kind": "label_exchange", "flip_prob": 0.2}, {"kind": "shuffled_response", "flip_prob": 0.2}):
        law = released(mechanism)[1]
        assert law is not None
        assert law.source == "cluster"
        assert law.transition[0] == pytest.approx(RandomizedResponse(0.2, 4).transition)
    own = released({"kind": "randomized_response", "flip_prob": 0.2})[1]
    assert own is not None
    assert own.source == "user"


@pytest.mark.parametrize(
    "mechanism",
    [
        {"kind": "vector_approximation", "target_epsilon": 1.0},
        {"kind": "cluster_rr", "target_epsilon": 1.0, "heterogeneity": 0.2},
    ],
)
def test_other_releases_have_no_law(mechanism):
    assert released(mechanism)[1] is None


@pytest.mark.parametrize(
    "learner", ["forward_correction", "backward_correction", "cluster_and_features", "boosted_trees"]
)
def test_a_learner_refuses_labels_whose_law_is_not_public(learner):
    secret = scenario({"kind": "cluster_rr", "target_epsilon": 1.0, "heterogeneity": 0.2}, learner={"kind": learner})
    with pytest.raises(InputError, match=rf"learner\.kind = '{learner}': needs hard labels whose noise law is public"):
        run(secret)
    with pytest.raises(InputError, match=rf"learner\.kind = '{learner}': takes hard"):
        scenario({"kind": "vector_approximation", "target_epsilon": 1.0}, learner={"kind": learner})
    config = load_scenario("quickstart", [f"learner.kind = '{learner}'"]).learner
    release = LabelRelease(np.arange(2, dtype=np.int32), np.zeros(2, np.uint8))
    with pytest.raises(InputError, match="noise law"):
        config.learn(received(np.zeros((2, 1)), release, 2, np.array([0, 2])))


def test_labels_released_alike_are_refused_in_one_line():
    prior = {"kind": "rr_with_prior", "target_epsilon": 1.0, "stages": 1, "prior": [0.48, 0.48, 0.02, 0.02]}
    alike = scenario(prior, learner={"kind": "backward_correction"})
    with pytest.raises(InputError, match="cannot be undone on average") as refusal:
        run(alike)
    assert "\n" not in str(refusal.value)


def test_a_calibrated_mechanism_publishes_its_noise():
    config = scenario({"kind": "randomized_response", "target_epsilon": 1.0}).mechanism
    mechanism = config.deployed(Setup(np.array([600]), 4, 1e-5))
    law = mechanism.noise_law(Outcome(LabelRelease(np.zeros(0, np.int32), np.zeros(0, np.uint8))))
    assert law is not None
    assert math.log(law.transition[0, 0, 0] / law.transition[0, 1, 0]) == pytest.approx(1.0)
