"""Learners that know the noise: they find the model of the true labels, and planted mistakes do not."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from p2p_sim import load_scenario, run
from p2p_sim.learning.cluster_and_features import ClusterAndFeaturesConfig, _Evidence, ratios
from p2p_sim.learning.learner import Received
from p2p_sim.learning.logistic_regression import LinearSoftmax, LogisticRegressionConfig, SoftLogisticRegressionConfig
from p2p_sim.learning.noise_correction import BackwardCorrectionConfig, ForwardCorrectionConfig, Objective, Observed
from p2p_sim.learning.scikit_learner import BoostedTreesConfig
from p2p_sim.measures.intervals import mean_interval
from p2p_sim.mechanisms.noise_law import NoiseLaw
from p2p_sim.mechanisms.outcome import LabelRelease

SKEWED = np.array([[0.7, 0.25, 0.05], [0.05, 0.65, 0.3], [0.3, 0.0, 0.7]])
TRANSPOSED = SKEWED.T / SKEWED.T.sum(axis=1, keepdims=True)
TRUE = LinearSoftmax(np.array([[1.5, -0.5, -1.0], [0.0, 1.2, -1.2], [0.3, -0.3, 0.0]]))
CLUSTERS, USERS = 60, 200


@cache
def people() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels and clusters of users under `TRUE`; clusters differ by the means of their features."""
    rng = np.random.default_rng(1)
    means = rng.normal(0, 1.5, (CLUSTERS, 2))
    features = np.repeat(means, USERS, axis=0) + rng.normal(0, 0.7, (CLUSTERS * USERS, 2))
    shares = TRUE.probabilities(features).cumsum(axis=1)
    labels = (rng.random(len(features))[:, None] > shares[:, :2]).sum(axis=1)
    return features, labels, np.arange(0, len(features) + 1, USERS)


def received(law: NoiseLaw, seed: int = 1, actual: np.ndarray = SKEWED) -> Received:
    """A release whose noise is `actual`, for a learner who thinks that it is `law`."""
    features, labels, offsets = people()
    rng = np.random.default_rng(seed + 1000)
    if law.source == "cluster":
        users = np.arange(len(features))
        labels = labels[users // USERS * USERS + rng.integers(0, USERS, len(users))]
    noisy = (rng.random(len(labels))[:, None] > actual.cumsum(axis=1)[labels, :2]).sum(axis=1)
    release = LabelRelease(np.arange(len(labels), dtype=np.int32), noisy.astype(np.uint8))
    return Received(features, release, 3, offsets, law)


def distance(predictor, features) -> float:
    """Mean L1 distance of predicted distributions from the true ones."""
    return float(np.abs(predictor.probabilities(features) - TRUE.probabilities(features)).sum(axis=1).mean())


def exact(law: NoiseLaw, actual: np.ndarray) -> Observed:
    """What infinitely many users would release, for a learner who thinks that the noise is `law`."""
    features, _, offsets = people()
    p = TRUE.probabilities(features)
    starts = np.arange(len(features))
    if law.source == "cluster":
        starts = offsets[:-1]
        p = np.add.reduceat(p, starts) / USERS
    bag = np.repeat(np.arange(len(starts)), 3)
    return Observed(features, starts, bag, np.tile(law.transition[0].T, (len(starts), 1)), (p @ actual).ravel() * 1000)


@pytest.mark.parametrize("source", ["user", "cluster"])
def test_exact_expectations_give_the_true_model(source):
    """No randomness: what is left, below 0.005, is the penalty's. Transposed, twice and left out are the controls."""
    learner, features = ForwardCorrectionConfig(l2=1e-3), people()[0]

    def found(thought: np.ndarray) -> float:
        return distance(learner.fitted(exact(NoiseLaw.common(thought, source), SKEWED), 3), features)

    assert found(SKEWED) < 0.005
    assert found(TRANSPOSED) > 0.15
    assert found(SKEWED @ SKEWED) > 0.15
    assert found(np.eye(3)) > 0.3


def test_backward_correction_is_exact_on_average():
    """The mean weights under the noise are the true distributions, so that the fits agree to 1e-4."""
    features = people()[0]
    p, soft = TRUE.probabilities(features), SoftLogisticRegressionConfig()

    def found(thought: np.ndarray) -> np.ndarray:
        mean = p @ SKEWED @ NoiseLaw.common(thought).weights(np.arange(3))
        return soft.fit(features, mean).probabilities(features)

    without = soft.fit(features, p).probabilities(features)
    assert np.abs(found(SKEWED) - without).max() < 1e-4
    assert np.abs(found(TRANSPOSED) - without).mean() > 0.03
    assert np.abs(found(SKEWED @ SKEWED) - without).mean() > 0.03


LEARNERS = [ForwardCorrectionConfig(), BackwardCorrectionConfig()]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: one.kind)
def test_released_labels_of_many_users(learner):
    """12,000 users, whose labels are noisy in five ways: the 95% interval of the distance to the noiseless fit's
    predictions ends below 0.08; without correction it begins above 0.3, and with planted mistakes above 0.15."""
    features, labels, _ = people()
    without = LogisticRegressionConfig().fit(features, np.eye(3)[labels]).probabilities(features)

    def interval(learner, thought):
        learned = [learner.learn(received(NoiseLaw.common(thought), seed)) for seed in range(5)]
        return mean_interval([np.abs(one.probabilities(features) - without).sum(axis=1).mean() for one in learned])

    assert interval(learner, SKEWED).high < 0.08
    assert interval(learner, TRANSPOSED).low > 0.15
    assert interval(learner, SKEWED @ SKEWED).low > 0.15
    assert interval(LogisticRegressionConfig(), SKEWED).low > 0.3


def test_labels_of_clusters_give_the_model_of_users():
    """From labels of random users of the cluster; plain logistic regression learns the mixture, however many there
    are, and so does backward correction."""
    given = received(NoiseLaw.common(SKEWED, "cluster"))
    forward = distance(ForwardCorrectionConfig().learn(given), given.features)
    backward = distance(BackwardCorrectionConfig().learn(given), given.features)
    mistaken = distance(ForwardCorrectionConfig().learn(replace(given, noise=NoiseLaw.common(SKEWED))), given.features)
    assert forward < 0.1 < 0.2 < min(backward, mistaken)


@pytest.mark.parametrize("source", ["user", "cluster"])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_gradient_is_that_of_finite_differences(source, classes):
    rng = np.random.default_rng(3)
    noise = SKEWED if classes == 3 else np.array([[0.8, 0.2], [0.3, 0.7]])
    release = LabelRelease(np.arange(2, 30, dtype=np.int32), rng.integers(0, classes, 28).astype(np.uint8))
    given = Received(rng.normal(size=(30, 4)), release, classes, np.array([0, 1, 7, 30]))
    objective = Objective(Observed.of(given, NoiseLaw.common(noise, source)), classes, 0.7)
    at = rng.normal(size=int(np.prod(objective.shape)))
    numeric = approx_fprime(at, lambda w: objective(w)[0], 1e-7)
    assert objective(at)[1] == pytest.approx(numeric, abs=1e-4)


def test_bags_count_the_labels_of_a_cluster():
    """By a plain loop over released labels; the cluster without labels has no bag."""
    rng = np.random.default_rng(4)
    offsets = np.array([0, 5, 9, 12])
    release = LabelRelease(np.array([0, 1, 3, 9, 11], np.int32), np.array([0, 2, 2, 1, 0], np.uint8))
    law = NoiseLaw(np.stack([SKEWED, TRANSPOSED]), "cluster", np.array([0, 0, 1, 1, 0]))
    observed = Observed.of(Received(rng.normal(size=(12, 2)), release, 3, offsets, law), law)
    p = rng.dirichlet(np.ones(3), 8)  # users 0..4 and 9..11
    mean = {0: p[:5].mean(axis=0), 2: p[5:].mean(axis=0)}
    expected = 0.0
    for user, label, group in zip(release.user, release.payload, law.groups(5), strict=True):
        expected -= np.log(mean[0 if user < 5 else 2] @ law.transition[group][:, label])
    assert observed.loss(p)[0] == pytest.approx(expected)
    assert observed.count.sum() == 5


@pytest.mark.parametrize("classes", [2, 3])
def test_without_noise_it_is_logistic_regression(classes):
    features, labels, offsets = people()
    labels = np.minimum(labels, classes - 1).astype(np.uint8)
    release = LabelRelease(np.arange(len(labels), dtype=np.int32), labels)
    given = Received(features, release, classes, offsets, NoiseLaw.common(np.eye(classes)))
    plain = LogisticRegressionConfig().fit(features, np.eye(classes)[labels]).probabilities(features)
    for learner in LEARNERS:
        assert np.abs(learner.learn(given).probabilities(features) - plain).max() < 2e-3


def test_trees_find_what_is_not_linear():
    """A label that changes with the feature's sign twice; the transposed law is the control."""
    rng = np.random.default_rng(5)
    features = rng.uniform(-1.5, 1.5, (6000, 1))
    labels = np.digitize(features[:, 0], [-0.5, 0.5]) % 3
    noisy = (rng.random(6000)[:, None] > SKEWED.cumsum(axis=1)[labels, :2]).sum(axis=1).astype(np.uint8)
    release = LabelRelease(np.arange(6000, dtype=np.int32), noisy)

    def error(thought: np.ndarray) -> float:
        given = Received(features, release, 3, np.array([0, 6000]), NoiseLaw.common(thought))
        learned = BoostedTreesConfig(trees=30).learn(given).probabilities(features)
        assert learned.sum(axis=1) == pytest.approx(np.ones(6000))
        return float(np.abs(learned - np.eye(3)[labels]).sum(axis=1).mean())

    assert error(SKEWED) < 0.25
    assert error(TRANSPOSED) > 2 * error(SKEWED)


def test_predictions_are_moved_to_shares():
    rng = np.random.default_rng(6)
    predicted, offsets = rng.dirichlet(np.ones(3), 90), np.array([0, 20, 60, 90])
    shares = np.array([[0.2, 0.3, 0.5], [0.98, 0.01, 0.01], [0.5, 0.5, 0.0]])
    moved = predicted * np.repeat(ratios(predicted, offsets, shares), [20, 40, 30], axis=0)
    moved /= moved.sum(axis=1, keepdims=True)
    assert np.add.reduceat(moved, offsets[:-1]) / [[20], [40], [30]] == pytest.approx(shares, abs=1e-5)


@pytest.mark.parametrize("source", ["user", "cluster"])
@pytest.mark.slow_where(lambda source: source == "user")
def test_clusters_help_where_features_do_not_tell_them_apart(source):
    """Labels of half of the clusters are shifted by one class, which no global model explains: it then trusts clusters
    more than where the model explains all."""
    given = received(NoiseLaw.common(SKEWED, source))
    features, labels, _ = people()
    shifted = (labels + (np.arange(len(labels)) // USERS) % 2) % 3
    rng = np.random.default_rng(7)
    if source == "cluster":
        shifted = shifted[np.arange(len(shifted)) // USERS * USERS + rng.integers(0, USERS, len(shifted))]
    noisy = (rng.random(len(shifted))[:, None] > SKEWED.cumsum(axis=1)[shifted, :2]).sum(axis=1).astype(np.uint8)
    apart = replace(given, release=LabelRelease(given.release.user, noisy))
    learner = ClusterAndFeaturesConfig()
    parts = [_Evidence.of(release, release.law(learner.kind)) for release in (apart, given)]
    strengths = [learner._strength(part, learner._penalty(part)) for part in parts]
    assert strengths[0] <= 10 < strengths[1]
    truth = np.eye(3)[shifted if source == "user" else (labels + (np.arange(len(labels)) // USERS) % 2) % 3]
    wrong = [
        float((one.learn(apart).probabilities(features).argmax(axis=1) != truth.argmax(axis=1)).mean())
        for one in (learner, ForwardCorrectionConfig())
    ]
    assert wrong[0] < wrong[1] - 0.05


@pytest.mark.parametrize("kind", ["forward_correction", "cluster_and_features", "boosted_trees", "backward_correction"])
def test_the_same_seed_gives_the_same_row(kind):
    scenario = load_scenario("quickstart", ["engine='vectorised'", f"learner.kind='{kind}'"])
    assert run(scenario, 3).row == run(scenario, 3).row


@pytest.mark.parametrize("learner", [*LEARNERS, ClusterAndFeaturesConfig(), BoostedTreesConfig()], ids=lambda o: o.kind)
@pytest.mark.parametrize("arrived", [0, 1])
def test_few_labels_are_no_failure(learner, arrived):
    release = LabelRelease(np.zeros(arrived, np.int32), np.ones(arrived, np.uint8))
    for source in ("user", "cluster"):
        law = NoiseLaw.common(SKEWED, source)
        found = learner.learn(Received(np.ones((4, 2)), release, 3, np.array([0, 2, 4]), law))
        assert found.probabilities(np.ones((2, 2))).sum(axis=1) == pytest.approx(np.ones(2))


def errors(learner: str, *changes: str) -> np.ndarray:
    scenario = load_scenario("quickstart", ["engine='vectorised'", f"learner.kind='{learner}'", *changes])
    return np.array([run(scenario, replicate).row["error_rate"] for replicate in range(10)])


@pytest.mark.slow
def test_knowing_the_cluster_helps_on_the_quickstart():
    """α = 0.1, ten replicates, paired: the 95% interval of the gain in accuracy over plain logistic regression is above
    0.01. Label proportions alone gain .010 [.003, .017] in 20 replicates."""
    assert mean_interval(errors("logistic_regression") - errors("cluster_and_features")).low > 0.01


@pytest.mark.slow
def test_label_proportions_help_on_ten_digits():
    """The same for ten classes and the learner from label proportions."""
    ten = "population.task='classes'"
    assert mean_interval(errors("logistic_regression", ten) - errors("forward_correction", ten)).low > 0.01
