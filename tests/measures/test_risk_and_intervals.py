"""Risk, heterogeneity and intervals against independent computations."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import p2p_sim
from p2p_sim.base.streams import Streams
from p2p_sim.learning.logistic_regression import LogisticRegressionConfig
from p2p_sim.measures.intervals import mean_interval
from p2p_sim.measures.risk import bayes_error_rate, best_logistic_risk, error_rate, heterogeneity, log_risk
from p2p_sim.mechanisms.outcome import LabelRelease
from p2p_sim.population.synthetic import SyntheticConfig
from tests.learning.received import received


def test_heterogeneity_is_the_full_l1_distance():
    """One cluster, two points at .2 and .8: each is .3 from the mean in both classes, so φ = .6."""
    distribution = np.array([[0.8, 0.2], [0.2, 0.8]])
    assert heterogeneity(np.array([0.5, 0.5]), distribution, np.zeros(2, int)) == pytest.approx(0.6)
    assert heterogeneity(np.array([0.5, 0.5]), distribution, np.arange(2)) == 0.0
    uneven = heterogeneity(np.array([0.25, 0.75]), distribution, np.zeros(2, int))
    assert uneven == pytest.approx(2 * (0.25 * 0.45 + 0.75 * 0.15))


@pytest.mark.parametrize("phi", [0.0, 0.3])
def test_best_risk_equals_an_unpenalised_fit_of_scikit_learn_on_the_law(phi):
    law = SyntheticConfig(heterogeneity=phi, points_per_cluster=4).law(Streams(1, 0))
    best = best_logistic_risk(law.points, law.mass, law.label_distribution[:, 1])
    rows = np.vstack([law.points, law.points])
    labels = np.repeat([0, 1], len(law.mass))
    weights = np.concatenate([law.mass * law.label_distribution[:, k] for k in (0, 1)]) * len(law.mass)
    model = LogisticRegression(C=1e12, tol=1e-12, max_iter=10_000).fit(rows, labels, sample_weight=weights)
    fitted = log_risk(law.mass, law.label_distribution, model.predict_proba(law.points))
    assert best == pytest.approx(fitted, abs=1e-9)
    assert best <= fitted + 1e-13
    entropy = log_risk(law.mass, law.label_distribution, law.label_distribution)
    assert best >= entropy


def test_best_risk_by_hand():
    """One point with p = .3: the best model says .3, its risk is the entropy."""
    points, mass, positive = np.array([[1.0]]), np.array([1.0]), np.array([0.3])
    entropy = -0.3 * math.log(0.3) - 0.7 * math.log(0.7)
    assert best_logistic_risk(points, mass, positive) == pytest.approx(entropy, abs=1e-12)


def test_error_rates_by_hand():
    mass, law = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.4, 0.6]])
    assert bayes_error_rate(mass, law) == pytest.approx(0.25)
    assert error_rate(mass, law, np.array([[1.0, 0.0], [1.0, 0.0]])) == pytest.approx(0.35)


def test_interval_covers_at_its_level():
    """2,000 intervals of 5 normal values: 95% within 6.2 standard errors; a z-interval (87.8%) would fail."""
    rng = np.random.default_rng(4)
    found = [mean_interval(rng.normal(size=5)) for _ in range(2000)]
    error = 6.2 * math.sqrt(0.95 * 0.05 / 2000)
    assert abs(np.mean([m.low <= 0.0 <= m.high for m in found]) - 0.95) < error
    scale = 1.96 / 2.776
    narrow = [abs(m.value) <= scale * (m.high - m.low) / 2 for m in found]
    assert abs(np.mean(narrow) - 0.95) > error


def test_one_replicate_has_no_interval():
    assert str(mean_interval([0.5])) == "0.5000 (1 replicate, no interval)"
    with pytest.raises(ValueError, match="non-empty"):
        mean_interval([])


def test_learner_copes_with_a_single_class_and_with_nothing():
    features, learner = np.zeros((4, 1)), LogisticRegressionConfig()
    one = LabelRelease(np.array([1, 2], np.int32), np.ones(2, np.uint8))
    assert learner.learn(received(features, one, 2)).probabilities(features).tolist() == [[0.0, 1.0]] * 4
    none = LabelRelease(np.empty(0, np.int32), np.empty(0, np.uint8))
    assert learner.learn(received(features, none, 2)).probabilities(features)[0].tolist() == [0.5, 0.5]


def test_missing_classes_get_probability_zero():
    features = np.array([[0.0], [0.1], [1.0], [1.1]])
    predictor = LogisticRegressionConfig().fit(features, np.eye(4)[[0, 0, 2, 2]])
    found = predictor.probabilities(features)
    assert found.shape == (4, 4)
    assert np.all(found[:, [1, 3]] == 0.0)
    assert np.allclose(found.sum(axis=1), 1.0)


def test_the_floor_is_what_many_exchanged_labels_teach():
    """200,000 users, θ = 1: the measured excess risk comes within 10% of the floor; without flips and φ it is 0."""
    law = {"kind": "synthetic", "users": 200_000, "num_clusters": 4, "heterogeneity": 0.3}
    tree = {"name": "floor", "engine": "vectorised", "population": law, "mechanism": {"flip_prob": 0.2}}
    row = p2p_sim.run(p2p_sim.Scenario.from_tree(tree)).row
    assert row["excess_risk"] == pytest.approx(row["excess_risk_floor"], rel=0.1)
    assert row["excess_risk_floor"] > 0.02
    tree["population"] = {**law, "users": 200, "heterogeneity": 0.0, "positive_low": 0.5, "positive_high": 0.5}
    assert p2p_sim.run(p2p_sim.Scenario.from_tree(tree)).row["excess_risk_floor"] == pytest.approx(0.0, abs=1e-9)
