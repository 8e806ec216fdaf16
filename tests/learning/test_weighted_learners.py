"""Learners of weighted labels, beside scikit-learn and by brute force."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from p2p_sim.base.errors import InputError
from p2p_sim.exchange.randomizer import signed_weights
from p2p_sim.learning.local_averages import MajorityTableConfig
from p2p_sim.learning.logistic_regression import SoftLogisticRegressionConfig
from p2p_sim.learning.scikit_learner import EstimatorConfig
from p2p_sim.mechanisms.outcome import LabelRelease
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.scenario import Scenario
from tests.learning.received import received

FEATURES, DIGITS = load_digits(return_X_y=True)
FEATURES = FEATURES / 16.0


def release(payload, kind):
    return LabelRelease(np.arange(len(payload), dtype=np.int32), payload, kind)


@pytest.mark.parametrize(("labels", "classes"), [(DIGITS, 10), (DIGITS % 2, 2)])
def test_hard_labels_give_scikit_learns_model_by_either_solver(labels, classes):
    labels = labels.astype(np.uint8)
    ours = SoftLogisticRegressionConfig().learn(received(FEATURES, release(labels, "hard"), classes))
    solvers = [("lbfgs", 1e-8), ("saga", 1e-6)]
    for solver, tol in solvers if classes == 2 else solvers[:1]:
        model = LogisticRegression(solver=solver, tol=tol, max_iter=5000).fit(FEATURES, labels)
        assert np.abs(ours.probabilities(FEATURES) - model.predict_proba(FEATURES)).max() < 5e-3


def test_signed_weights_minimise_the_modified_loss():
    """The gradient is that of the sum over classes of signed losses, taken numerically."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 2))
    weights = signed_weights(rng.integers(3, size=60), rng.dirichlet(np.ones(3), size=60), 0.4)
    assert weights.min() < 0
    model = SoftLogisticRegressionConfig(l2=5.0, max_iterations=5000).learn(received(x, release(weights, "signed"), 3))

    def loss(w):
        scores = np.hstack([x, np.ones((60, 1))]) @ w
        log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return -(weights * log_p).sum() + 2.5 * (w[:-1] ** 2).sum()

    best = loss(model.coefficients)
    for _ in range(50):
        assert loss(model.coefficients + 0.01 * rng.normal(size=(3, 3))) > best


@pytest.mark.parametrize("classes", [2, 3])
def test_a_class_of_negative_weight_leaves_a_minimum(classes):
    """Found, with a gradient of nearly 0; a control: the loss without a penalty on the intercepts falls for ever."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(200, 2))
    weights = signed_weights(np.zeros(200, dtype=int), np.full(classes, 1.0 / classes), 0.5)
    assert weights[:, 1].sum() < -10.0
    w = SoftLogisticRegressionConfig().learn(received(x, release(weights, "signed"), classes)).coefficients
    design, targets = np.hstack([x, np.ones((200, 1))]), weights if classes > 2 else weights[:, 1:]

    def gradient(w):
        scores = design @ w if classes > 2 else np.hstack([np.zeros((200, 1)), design @ w])
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return design.T @ (p[:, -targets.shape[1] :] - targets)

    assert np.abs(gradient(w) + w).max() < 0.05
    for far in (1e2, 1e4):
        w[-1, -1] = -far
        assert gradient(w)[-1, -1] > 10.0


def test_debiased_labels_recover_the_shares_of_a_table():
    rng = np.random.default_rng(2)
    point = rng.integers(4, size=200_000)
    truth = (rng.random(point.size) < np.array([0.1, 0.4, 0.45, 0.9])[point]).astype(np.uint8)
    noise = RandomizedResponse(0.4)
    payload = noise.debiased(noise.randomize(truth, rng))
    model = MajorityTableConfig().learn(received(point[:, None].astype(float), release(payload, "signed"), 2))
    found = model.probabilities(np.arange(4.0)[:, None])[:, 1]
    assert np.abs(found - [0.1, 0.4, 0.45, 0.9]).max() < 6.5 * 0.5 / np.sqrt(50_000) / 0.2  # 1e-9 a test
    assert model.probabilities(np.array([[7.0]])).argmax() == 0  # unseen: the class that leads overall


def test_table_is_the_majority_of_each_row():
    x = np.array([[0.0], [0.0], [0.0], [1.0]])
    model = MajorityTableConfig().fit(x, np.eye(3)[[0, 2, 2, 1]])
    assert model.probabilities(np.array([[0.0], [1.0]])).argmax(axis=1).tolist() == [2, 1]


@pytest.mark.parametrize(
    ("estimator", "parameters"),
    [("sklearn.naive_bayes.GaussianNB", {}), ("sklearn.ensemble.RandomForestClassifier", {"n_estimators": 20})],
)
def test_any_classifier_of_scikit_learn_learns_from_hard_and_soft_labels(estimator, parameters):
    config = EstimatorConfig(estimator=estimator, parameters=parameters)
    labels = DIGITS.astype(np.uint8)
    hard = config.learn(received(FEATURES, release(labels, "hard"), 10)).probabilities(FEATURES)
    soft = config.learn(received(FEATURES, release(np.eye(10)[labels], "soft"), 10)).probabilities(FEATURES)
    for found in (hard, soft):
        assert (found.argmax(axis=1) == labels).mean() > 0.8
    assert np.abs(hard - soft).max() < 1e-9 or "Forest" in estimator  # which draws its rows by weight


@pytest.mark.parametrize(
    ("learner", "text"),
    [
        ({"estimator": "os.system"}, "learner.estimator = .*pattern"),
        ({"estimator": "sklearn.ensemble.Forest"}, "names no class of scikit-learn"),
        ({"estimator": "sklearn.cluster.KMeans"}, "must be a classifier with predict_proba"),
        ({"estimator": "sklearn.mixture.GaussianMixture"}, "must be a classifier with predict_proba"),
        ({"estimator": "sklearn.svm.SVC"}, "'sklearn.svm.SVC': has no predict_proba with these parameters"),
        ({"parameters": {"depth": 3}}, "'sklearn.naive_bayes.GaussianNB': .*depth"),
    ],
)
def test_what_is_no_classifier_is_refused(learner, text):
    tree = {"name": "t", "mechanism": {"flip_prob": 0.1}, "learner": {"kind": "estimator", **learner}}
    with pytest.raises(InputError, match=text):
        Scenario.from_tree(tree)


@pytest.mark.parametrize(
    ("estimator", "parameter"),
    [("ensemble.RandomForestClassifier", "n_estimators"), ("neighbors.KNeighborsClassifier", "n_neighbors")],
)
def test_a_parameter_out_of_range_is_one_line(estimator, parameter):
    value = 5_000 if parameter == "n_neighbors" else -1
    config = EstimatorConfig(estimator=f"sklearn.{estimator}", parameters={parameter: value})
    with pytest.raises(InputError, match=f"learner.estimator = 'sklearn.{estimator}': .*{parameter}"):
        config.fit(FEATURES, np.eye(10)[DIGITS])
