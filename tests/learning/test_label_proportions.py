"""The learner from noisy class shares of bags, on a known law: bags are clusters whose users have different labels."""

from functools import cache

import numpy as np
import pytest

from p2p_sim import load_scenario, run
from p2p_sim.base.errors import InputError
from p2p_sim.learning.learner import Received
from p2p_sim.learning.logistic_regression import LinearSoftmax, LogisticRegressionConfig
from p2p_sim.learning.noise_correction import LabelProportionsConfig, bags_of
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.noisy_aggregates import NoisyAggregatesConfig, noise_share, shares_of
from p2p_sim.mechanisms.outcome import LabelRelease

TRUE = LinearSoftmax(np.array([[2.0], [0.0], [0.8]]))
"""ln odds of class 1: 2 x₁ + 0.8."""
CLUSTERS, USERS = 40, 200


@cache
def people() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels and offsets; the means of clusters differ little, so that class 1 is nearly always in front."""
    rng = np.random.default_rng(2)
    means = rng.normal(0, [0.25, 1.0], (CLUSTERS, 2))
    features = np.repeat(means, USERS, axis=0) + rng.normal(0, 1.0, (CLUSTERS * USERS, 2))
    labels = rng.random(len(features)) < TRUE.probabilities(features)[:, 1]
    return features, labels.astype(np.uint8), np.arange(0, len(features) + 1, USERS)


def received(epsilon: float, order: np.ndarray | None = None) -> Received:
    """Noisy shares of clusters. order: in which users' true labels are counted; the control."""
    features, labels, offsets = people()
    scale = NoisyAggregatesConfig(target_epsilon=epsilon).deployed(Setup(np.diff(offsets), 2, 1e-6)).noise_scale
    counts = (labels if order is None else labels[order]).reshape(CLUSTERS, USERS).sum(axis=1)
    noisy = counts[:, None] + noise_share((CLUSTERS, 1), 1, scale, np.random.default_rng(3))
    soft = np.repeat(shares_of(noisy, np.full(CLUSTERS, USERS), 2), USERS, axis=0)
    release = LabelRelease(np.arange(len(features), dtype=np.int32), soft.astype(np.float32), "soft")
    return Received(features, release, 2, offsets)


def accuracy(predictor) -> float:
    """Mean probability that the prediction is right, under the law, over the users' features."""
    features = people()[0]
    p = TRUE.probabilities(features)
    return float(p[np.arange(len(p)), predictor.probabilities(features).argmax(axis=1)].mean())


def test_it_beats_the_majority_label_of_every_bag():
    """Nearly every bag has the same majority; the control counts shuffled labels, whose shares tell nothing."""
    given, learner = received(1.0), LabelProportionsConfig()
    majority = given.release.payload.argmax(axis=1).astype(np.uint8)
    plain = accuracy(LogisticRegressionConfig().fit(given.features, np.eye(2)[majority]))
    best, found = accuracy(TRUE), accuracy(learner.learn(given))
    assert found > plain + 0.08
    assert found > best - 0.02
    mixed = received(1.0, np.random.default_rng(4).permutation(len(people()[1])))
    assert accuracy(learner.learn(mixed)) < plain + 0.08


def test_mean_predictions_of_bags_are_the_shares():
    given = received(8.0)
    found = LabelProportionsConfig(l2=1e-3).learn(given).probabilities(given.features)
    gaps = np.abs(found.reshape(CLUSTERS, USERS, 2).mean(axis=1) - given.release.payload[::USERS])
    assert gaps.mean() < 0.04


def test_bags_are_the_users_of_a_cluster_with_equal_shares():
    soft = np.array([[0.2, 0.8], [0.6, 0.4], [0.2, 0.8], [0.2, 0.8]], dtype=np.float32)
    release = LabelRelease(np.array([0, 1, 3, 4], dtype=np.int32), soft, "soft")
    found = bags_of(Received(np.arange(5.0)[:, None], release, 2, np.array([0, 4, 5])))
    assert found.features.ravel().tolist() == [0.0, 3.0, 1.0, 4.0]
    assert found.starts.tolist() == [0, 2, 3]
    assert found.count == pytest.approx([0.4, 1.6, 0.6, 0.4, 0.2, 0.8])


@pytest.mark.parametrize("arrived", [0, 1])
def test_few_labels_are_no_failure(arrived):
    release = LabelRelease(np.zeros(arrived, np.int32), np.full((arrived, 3), 1 / 3, np.float32), "soft")
    found = LabelProportionsConfig().learn(Received(np.ones((4, 2)), release, 3, np.array([0, 2, 4])))
    assert found.probabilities(np.ones((2, 2))).sum(axis=1) == pytest.approx(np.ones(2))


def test_it_runs_as_a_scenario_and_takes_nothing_but_shares():
    changes = ["learner.kind='label_proportions'", "learner.max_iterations=20"]
    scenario = load_scenario("noise-shares", changes)
    row = run(scenario, 0).row
    assert row["error_rate"] < 0.5
    assert row == run(scenario, 0).row
    with pytest.raises(InputError, match="'label_proportions': takes soft labels"):
        load_scenario("quickstart", changes)
