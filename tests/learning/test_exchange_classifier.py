"""The exchange as a scikit-learn classifier."""

import math

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import check_estimator

from p2p_sim.learning.exchange_classifier import LabelExchangeClassifier
from p2p_sim.privacy import LabelExchange


def data(n=600, classes=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.array(["a", "b", "c"])[np.digitize(X[:, 0], np.linspace(-0.5, 0.5, classes + 1)[1:-1])]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("keys", [{}, {"random_state": 0}, {"flip_prob": 0.0}], ids=["default", "seed", "no noise"])
def test_scikit_learns_own_checks_pass(keys):
    results = check_estimator(LabelExchangeClassifier(**keys), on_skip=None, on_fail=None)
    failed = [(found["check_name"], found["exception"]) for found in results if found["status"] == "failed"]
    assert failed == []


def test_its_privacy_is_that_of_the_worst_cluster():
    X, y = data()
    clusters = np.repeat(["x", "y"], [200, 400])
    model = LabelExchangeClassifier(0.2, 0.5, delta=1e-5, random_state=1).fit(X, y, clusters=clusters)
    assert model.privacy_.epsilon_upper == LabelExchange(200, 0.2, 0.5).epsilon(1e-5).epsilon_upper
    assert model.submissions_ == pytest.approx(300, abs=60)


def test_without_noise_in_alike_clusters_it_learns_the_labels():
    X, y = data(2000)
    model = LabelExchangeClassifier(0.0, n_clusters=60, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.privacy_.epsilon_upper == math.inf
    assert LabelExchangeClassifier(0.5, n_clusters=60, random_state=0).fit(X, y).score(X, y) < 0.7


def test_noise_is_fresh_unless_a_seed_is_given():
    X, y = data()
    same = [LabelExchangeClassifier(random_state=3).fit(X, y).predict_proba(X) for _ in range(2)]
    fresh = [LabelExchangeClassifier().fit(X, y).predict_proba(X) for _ in range(2)]
    assert np.array_equal(*same)
    assert not np.array_equal(*fresh)


def test_a_target_and_another_learner_and_three_classes():
    X, y = data(classes=3)
    model = LabelExchangeClassifier(target_epsilon=1.0, n_clusters=3, estimator=GaussianNB(), random_state=0).fit(X, y)
    assert 0.0 < model.privacy_.epsilon_upper <= 1.0
    assert model.predict_proba(X).shape == (600, 3)
    assert isinstance(model.estimator_, GaussianNB)


@pytest.mark.parametrize(
    ("keys", "clusters", "line"),
    [
        ({"flip_prob": 0.9}, None, "flip_prob"),
        ({"sampling_rate": 0.0}, None, "sampling_rate"),
        ({}, np.arange(600), "clusters: must name a cluster of at least two rows"),
        ({}, np.zeros(5), "clusters: must name a cluster"),
    ],
)
def test_what_cannot_be_is_a_value_error(keys, clusters, line):
    X, y = data()
    with pytest.raises(ValueError, match=line):
        LabelExchangeClassifier(**keys).fit(X, y, clusters=clusters)
