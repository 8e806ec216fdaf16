"""Vector approximation: its law, its ε, its bits and what learners make of them.

Every statistical test has a false-alarm rate of 1e-9 and a control that must fail.
"""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, chi2

from benchmarks.timing import peak_bytes
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import BLOCK, Streams
from p2p_sim.learning.learner import one_hot
from p2p_sim.learning.local_averages import KnnConfig
from p2p_sim.learning.logistic_regression import LogisticRegressionConfig, OneVsRestConfig
from p2p_sim.mechanisms.noisy_vectors import VectorApproximation
from p2p_sim.mechanisms.outcome import LabelRelease
from p2p_sim.privacy.randomized_response import law_delta, law_epsilon
from p2p_sim.privacy.rivals.vector_approximation import (
    bit_flip_prob_of,
    vector_delta,
    vector_epsilon,
    vector_law,
)
from p2p_sim.replicate.run import run
from p2p_sim.results.release_export import export_release
from p2p_sim.scenario import Scenario
from tests.learning.received import received

FALSE_ALARM = 1e-9
CIRCLE = {"kind": "circle", "num_classes": 5, "users": 2000, "holdout": 500}


def scenario(mechanism: dict, **more: object) -> Scenario:
    tree = {"name": "vector", "engine": "vectorised", "population": CIRCLE, "mechanism": mechanism, **more}
    return Scenario.from_tree(tree)


def drawn(labels: np.ndarray, flip: float, k: int, seed: int = 1) -> np.ndarray:
    """Unpacked bits (n, K)."""
    packed = VectorApproximation(flip, k).randomize(labels, Streams(seed, 0).generator("flip"))
    return np.unpackbits(packed, axis=1, count=k)


# -- the law ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_half_of_epsilon_a_bit_is_epsilon_in_all(k, epsilon):
    flip = bit_flip_prob_of(epsilon)
    assert flip == pytest.approx(1.0 / (1.0 + math.exp(epsilon / 2)), rel=1e-14)
    law = vector_law(flip, k)
    assert law_epsilon(law) == pytest.approx(epsilon, abs=1e-12)
    assert law_epsilon(law) <= vector_epsilon(flip) * (1 + 1e-14)
    assert vector_epsilon(flip) <= epsilon
    for below in (0.0, 0.4 * epsilon, 0.99 * epsilon):
        bracket = vector_delta(flip, below)
        assert bracket.lower - 1e-14 <= law_delta(law, below) <= bracket.upper + 1e-14
    assert law_epsilon(vector_law(1 / (1 + math.exp(epsilon)), k)) == pytest.approx(2 * epsilon, abs=1e-12)


def test_an_output_that_only_one_label_gives_has_no_epsilon_and_a_table_must_be_a_law():
    assert law_epsilon(np.eye(2)) == math.inf
    assert law_delta(np.eye(2), 5.0) == 1.0
    assert vector_epsilon(0.0) == math.inf
    with pytest.raises(ValueError, match="law: must be a table"):
        law_epsilon(np.array([[0.5, 0.4], [0.5, 0.5]]))


def test_mean_bits_keep_the_order_of_the_label_distribution():
    flip, eta = 0.3, np.array([0.1, 0.4, 0.3, 0.2])
    bits = (np.arange(16) >> np.arange(4)[:, None]) & 1
    assert np.allclose(bits @ (eta @ vector_law(flip, 4)), flip + (1 - 2 * flip) * eta, atol=1e-15)


def test_the_largest_law_has_all_vectors_of_sixteen_bits():
    law = vector_law(0.1, 16)
    assert law.shape == (16, 65_536)
    assert law.sum(axis=1) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("epsilon", [1e-9, 0.37, 1.0, 50.0, 100.0])
def test_the_flip_probability_never_costs_more_than_asked(epsilon):
    assert vector_epsilon(bit_flip_prob_of(epsilon)) <= epsilon
    assert vector_epsilon(bit_flip_prob_of(epsilon)) == pytest.approx(epsilon, rel=1e-6, abs=1e-12)


def test_bad_numbers_are_refused():
    with pytest.raises(ValueError, match="epsilon = 0"):
        bit_flip_prob_of(0.0)
    with pytest.raises(ValueError, match="num_classes = 17"):
        vector_law(0.1, 17)
    with pytest.raises(InputError, match=r"labels: must lie in 0\.\.2"):
        VectorApproximation(0.1, 3).randomize(np.array([3], np.uint8), np.random.default_rng(0))


# -- the sampler -----------------------------------------------------------------------------------------------------


def joint_p_value(bits: np.ndarray, labels: np.ndarray, flip: float) -> float:
    """Chi-squared test of all vectors given all labels."""
    k = bits.shape[1]
    place = labels * 2**k + bits @ (1 << np.arange(k))
    counts = np.bincount(place, minlength=k * 2**k)
    expected = (vector_law(flip, k) * np.bincount(labels, minlength=k)[:, None]).ravel()
    assert expected.min() >= 20
    return float(chi2.sf(np.sum((counts - expected) ** 2 / expected), k * (2**k - 1)))


def test_all_bits_together_follow_the_law():
    """Detects bits that hang together or a flip probability off by 0.01, the control."""
    labels = np.random.default_rng(3).integers(0, 4, 60_000).astype(np.uint8)
    bits = drawn(labels, 0.3, 4)
    assert joint_p_value(bits, labels, 0.3) > FALSE_ALARM
    assert joint_p_value(drawn(labels, 0.31, 4), labels, 0.3) < FALSE_ALARM


@pytest.mark.parametrize("k", [2, 7, 8, 9, 30, 256])
def test_every_bit_is_that_of_its_class_in_every_block(k):
    """Detects a bit in the wrong place or flipped 8% too often, also where a block ends; the control shifts classes."""
    n = 3 * (BLOCK // k) + 5
    labels = np.random.default_rng(k).integers(0, k, n).astype(np.uint8)
    truth, bits = one_hot(labels, k).astype(np.uint8), drawn(labels, 0.25, k)
    wrong = int(np.count_nonzero(bits != truth))
    assert binomtest(wrong, n * k, 0.25).pvalue > FALSE_ALARM > binomtest(wrong, n * k, 0.27).pvalue
    own = int(np.count_nonzero(bits[np.arange(n), labels]))
    assert binomtest(own, n, 0.75).pvalue > FALSE_ALARM
    if n > 1000:
        shifted = int(np.count_nonzero(bits[np.arange(n), (labels + 1) % k]))
        assert binomtest(shifted, n, 0.75).pvalue < FALSE_ALARM


def test_a_budget_of_epsilon_a_bit_is_noticed():
    """At ε = 0.5 and K = 30 the planted bug flips a bit with probability 0.378 instead of 0.438."""
    labels = np.random.default_rng(0).integers(0, 30, 2_000).astype(np.uint8)
    honest = 1.0 / (1.0 + math.exp(0.25))
    wrong = [
        int(np.count_nonzero(drawn(labels, flip, 30) != one_hot(labels, 30)))
        for flip in (honest, 1.0 / (1.0 + math.exp(0.5)))
    ]
    assert binomtest(wrong[0], labels.size * 30, honest).pvalue > FALSE_ALARM
    assert binomtest(wrong[1], labels.size * 30, honest).pvalue < FALSE_ALARM


def test_padding_is_zero_and_memory_does_not_grow_with_the_users():
    noise, labels = VectorApproximation(0.4, 30), np.zeros(200_000, np.uint8)
    packed = noise.randomize(labels, Streams(1, 0).generator("flip"))
    assert packed.shape == (200_000, 4)
    assert not np.any(packed[:, 3] & 0b11)
    beyond = [
        peak_bytes(lambda n=n: noise.randomize(labels[:n], Streams(1, 0).generator("flip"))) - 4 * n
        for n in (20_000, 200_000)
    ]
    assert beyond[1] <= 1.1 * beyond[0]


# -- in a scenario ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["knn", "one_vs_rest"])
def test_a_scenario_releases_bits_and_learns_from_them(learner):
    result = run(scenario({"kind": "vector_approximation", "target_epsilon": 2.0}, learner={"kind": learner}))
    assert result.release.kind == "bits"
    assert result.release.payload.shape == (2000, 1)
    assert result.row["epsilon_upper"] <= 2.0
    assert result.row["epsilon_local"] == result.row["epsilon_upper"]
    assert result.row["epsilon_lower"] == pytest.approx(2.0, abs=1e-3)
    assert result.row["bit_flip_prob"] == pytest.approx(1 / (1 + math.e))
    assert result.row["error_rate"] < 0.4
    assert result.row["trust"] == "nobody"


def test_bits_are_exported_one_column_a_class(tmp_path):
    bits = scenario({"kind": "vector_approximation", "target_epsilon": 2.0}, learner={"kind": "knn"}, replicates=1)
    assert export_release(bits, tmp_path / "bits.csv") == 2000
    table = pd.read_csv(tmp_path / "bits.csv")
    payload = run(bits).release.payload
    assert np.array_equal(table[[f"label_{j}" for j in range(5)]], np.unpackbits(payload, axis=1, count=5))


def test_without_noise_no_finite_epsilon_is_attained():
    assert VectorApproximation(0.0, 3).attained(1e-5) == math.inf


def test_the_lower_figure_is_attained():
    result = run(scenario({"kind": "vector_approximation", "target_epsilon": 1.0}, learner={"kind": "knn"}))
    law = vector_law(result.row["bit_flip_prob"], 5)
    assert law_delta(law, result.row["epsilon_lower"] * (1 - 1e-9)) > result.row["delta"]
    assert law_delta(law, result.row["epsilon_lower"] * (1 + 1e-9)) < result.row["delta"]


def test_learners_that_know_no_bits_refuse_them():
    with pytest.raises(InputError, match=r"learner.kind = 'logistic_regression'.*releases bits ones"):
        scenario({"kind": "vector_approximation", "target_epsilon": 1.0}, learner={"kind": "logistic_regression"})


# -- learners --------------------------------------------------------------------------------------------------------


def random_release(kind: str, m: int, k: int) -> LabelRelease:
    rng, user = np.random.default_rng(2), np.arange(m, dtype=np.int32)
    if kind == "hard":
        return LabelRelease(user, rng.integers(0, k, m).astype(np.uint8))
    if kind == "bits":
        return LabelRelease(user, np.packbits(rng.random((m, k)) < 0.4, axis=1), "bits")
    return LabelRelease(user, rng.dirichlet(np.ones(k), m), "soft")


@pytest.mark.parametrize("kind", ["hard", "bits", "soft"])
def test_neighbours_are_averaged(kind):
    rng = np.random.default_rng(1)
    features, points, release = rng.normal(size=(300, 2)), rng.normal(size=(40, 2)), random_release(kind, 300, 11)
    predicted = KnnConfig(neighbours=17).learn(received(features, release, 11)).probabilities(points)
    vectors = received(features, release, 11).weights
    for point, shares in zip(points, predicted, strict=True):
        near = np.argsort(np.sum((features - point) ** 2, axis=1))[:17]
        mean = vectors[near].mean(axis=0)
        assert np.allclose(shares, mean / mean.sum(), atol=1e-6)


def test_neighbours_of_few_or_no_labels():
    features = np.zeros((3, 2))
    few = LabelRelease(np.arange(3, dtype=np.int32), np.array([0, 1, 1], np.uint8))
    none = LabelRelease(np.zeros(0, np.int32), np.zeros(0, np.uint8))
    learner = KnnConfig(neighbours=200)
    assert np.allclose(learner.learn(received(features, few, 3)).probabilities(features), [[1 / 3, 2 / 3, 0]] * 3)
    assert np.allclose(learner.learn(received(features, none, 3)).probabilities(features), 1 / 3)
    assert np.allclose(learner.fit(features, one_hot(few.payload, 3)).probabilities(features[:1]), [[1 / 3, 2 / 3, 0]])


def test_one_vs_rest_is_one_logistic_regression_a_bit():
    features, release = np.random.default_rng(1).normal(size=(300, 2)), random_release("bits", 300, 3)
    predicted = OneVsRestConfig(l2=0.5).learn(received(features, release, 3)).probabilities(features)
    bits = received(features, release, 3).weights.astype(np.uint8)
    single = [
        LogisticRegressionConfig(l2=0.5).fit(features, one_hot(bits[:, j], 2)).probabilities(features) for j in range(3)
    ]
    scores = np.stack([one[:, 1] for one in single], axis=1)
    assert np.allclose(predicted, scores / scores.sum(axis=1, keepdims=True), atol=1e-4)


def test_one_vs_rest_on_certain_soft_labels_is_that_on_hard_ones():
    features, release = np.random.default_rng(1).normal(size=(200, 2)), random_release("hard", 200, 4)
    soft = LabelRelease(release.user, one_hot(release.payload, 4), "soft")
    learner = OneVsRestConfig()
    hard = learner.learn(received(features, release, 4)).probabilities(features)
    assert np.allclose(hard, learner.learn(received(features, soft, 4)).probabilities(features))
    assert np.allclose(hard, learner.fit(features, one_hot(release.payload, 4)).probabilities(features))
