"""The trimmed learner undoes inverted labels, says what it cannot undo, and is plain logistic regression without."""

import numpy as np
import pytest
from scipy.stats import hypergeom

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.learning.logistic_regression import LogisticRegressionConfig, TrimmedClustersConfig, trimmed_shares
from p2p_sim.measures.risk import best_logistic_risk, log_risk
from p2p_sim.mechanisms.outcome import LabelRelease
from p2p_sim.population.synthetic import SyntheticConfig
from tests.learning.received import received


def expected_share(total: int, honest_ones: int, inverted: int, trim: float) -> float:
    """Mean trimmed share of ones if that many labels, at random, are inverted; by enumeration."""
    hit = np.arange(inverted + 1)  # ones among the inverted
    ones = honest_ones - hit + (inverted - hit)
    shares = trimmed_shares(np.stack([total - ones, ones], axis=1), trim)[:, 1]
    return float(hypergeom(total, honest_ones, inverted).pmf(hit) @ shares)


@pytest.mark.parametrize("ones", [40, 50, 85, 100, 160])
def test_inverted_labels_are_undone_on_average(ones):
    """To the 3e-9 that cutting at 0 and 1 costs here; trimming a tenth instead of a fifth is the control."""
    assert expected_share(200, ones, 40, 0.2) == pytest.approx(ones / 200, abs=1e-8)
    if ones != 100:
        assert abs(expected_share(200, ones, 40, 0.1) - ones / 200) > 0.01


def test_shares_are_cut_at_nothing():
    counts = np.array([[8, 2], [9, 1], [5, 5], [0, 0], [10, 0]])
    expected = [[1, 0], [1, 0], [0.5, 0.5], [0, 0], [1, 0]]
    assert trimmed_shares(counts, 0.2) == pytest.approx(np.array(expected, dtype=float))
    assert not trimmed_shares(np.array([[5, 5]]), 0.5).any()  # nothing is left
    assert trimmed_shares(np.array([[6, 3, 1]]), 0.2) == pytest.approx(np.array([[0.8, 0.2, 0.0]]))


def lied(law, lie, share: float, seed: int = 1, users: int = 40_000):
    """Users of a law, stored by cluster, whose labels a random share of them replaces by a lie."""
    rng = np.random.default_rng(seed)
    point = np.sort(rng.choice(len(law.mass), users, p=law.mass))
    honest = (rng.random(users) < law.label_distribution[point, 1]).astype(np.uint8)
    said = np.where(rng.random(users) < share, lie(honest), honest)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(law.cluster[point]))])
    return law.points[point], LabelRelease(np.arange(users, dtype=np.int32), said), offsets


def excess(law, learner, features, release, offsets) -> float:
    """Expected log loss above the best affine logistic model's, nats."""
    best = best_logistic_risk(law.points, law.mass, law.label_distribution[:, 1])
    predicted = learner.learn(received(features, release, 2, offsets)).probabilities(law.points)
    return log_risk(law.mass, law.label_distribution, predicted) - best


PLAIN, TRIMMED = LogisticRegressionConfig(), TrimmedClustersConfig(trim=0.2)
MIXED = SyntheticConfig(heterogeneity=0.0).law(Streams(1, 0))
RARE = SyntheticConfig(heterogeneity=0.0, positive_low=0.02, positive_high=0.3).law(Streams(1, 0))


@pytest.mark.parametrize(
    ("law", "lie"),
    [(MIXED, np.logical_not), (RARE, np.logical_not), (RARE, np.ones_like)],
    ids=["mixed-inverted", "rare-inverted", "rare-ones"],
)
def test_excess_risk_falls_where_a_fifth_of_the_users_lie(law, lie):
    """By 99%, or 88% where all liars say 1; sampling noise is below 1e-4 nats, the plain excess above 0.01."""
    data = lied(law, lie, 0.2)
    assert excess(law, TRIMMED, *data) < 0.3 * excess(law, PLAIN, *data)


def test_excess_risk_rises_where_mixed_clusters_meet_unanimous_liars():
    """The documented limit of the method: the honest share is mostly above (1 - 2 trim) / (2 - 2 trim) = 0.375."""
    data = lied(MIXED, np.ones_like, 0.2)
    assert excess(MIXED, TRIMMED, *data) > excess(MIXED, PLAIN, *data)


def test_excess_risk_rises_where_nobody_lies():
    """The other documented limit: trimming what is no lie exaggerates."""
    data = lied(RARE, np.ones_like, 0.0)
    assert excess(RARE, TRIMMED, *data) > 0.1 > 1e-3 > excess(RARE, PLAIN, *data)


def test_without_trimming_a_cluster_of_equal_users_is_plain_regression():
    """One point a cluster: soft labels and the labels themselves have the same log loss."""
    rng = np.random.default_rng(2)
    offsets = np.arange(0, 2_001, 100)
    features = np.repeat(rng.normal(size=(20, 3)), 100, axis=0)
    users = np.flatnonzero(rng.random(2_000) < 0.5).astype(np.int32)
    release = LabelRelease(users, rng.integers(0, 3, users.size).astype(np.uint8))
    at = rng.normal(size=(50, 3))
    one, two = (
        learner.learn(received(features, release, 3, offsets)).probabilities(at)
        for learner in (TrimmedClustersConfig(trim=0.0), PLAIN)
    )
    assert one == pytest.approx(two, abs=2e-3)
    trimmed = TrimmedClustersConfig(trim=0.3).learn(received(features, release, 3, offsets)).probabilities(at)
    assert np.abs(trimmed - two).max() > 0.1


def test_clusters_without_labels_are_left_out():
    features = np.array([[0.0], [0.0], [1.0], [1.0], [9.0]])
    offsets = np.array([0, 2, 4, 5])
    release = LabelRelease(np.array([0, 1, 2, 3], dtype=np.int32), np.array([0, 0, 1, 1], dtype=np.uint8))
    with_empty = TRIMMED.learn(received(features, release, 2, offsets)).probabilities(features)
    without = TRIMMED.learn(received(features[:4], release, 2, offsets[:3])).probabilities(features)
    assert np.array_equal(with_empty, without)
    nothing = LabelRelease(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.uint8))
    assert TRIMMED.learn(received(features, nothing, 2, offsets)).probabilities(features).tolist() == [[0.5, 0.5]] * 5


def test_the_nonprivate_twin_is_plain_logistic_regression():
    rng = np.random.default_rng(3)
    features, labels = rng.normal(size=(500, 2)), rng.integers(0, 2, 500).astype(np.uint8)
    one = TRIMMED.fit(features, np.eye(2)[labels])
    two = PLAIN.fit(features, np.eye(2)[labels])
    assert np.array_equal(one.probabilities(features), two.probabilities(features))


def test_what_cannot_be_trimmed_is_refused():
    release = LabelRelease(np.arange(3, dtype=np.int32), np.zeros(3, np.uint8))
    with pytest.raises(InputError, match=r"learner\.trim = 0\.2: must be below 1/5 for 5 classes"):
        TRIMMED.learn(received(np.zeros((3, 1)), release, 5))
