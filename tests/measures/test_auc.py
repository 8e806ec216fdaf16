"""The area under the ROC curve: scikit-learn's own on a holdout, exact under a law, empty where it means nothing."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import p2p_sim
from p2p_sim.measures.risk import area_under_curve


@pytest.mark.parametrize("seed", range(20))
def test_it_is_that_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    labels, scores = rng.integers(0, 2, 50), rng.integers(0, 8, 50) / 7.0  # many ties
    labels[:2] = 0, 1
    assert area_under_curve(1.0 - labels, labels * 1.0, scores) == pytest.approx(roc_auc_score(labels, scores))


def test_masses_count_as_rows():
    rng = np.random.default_rng(0)
    mass, positive, scores = rng.integers(1, 5, 9), rng.integers(0, 4, 9), rng.random(9).round(1)
    labels = np.repeat([0, 1], [mass.sum(), positive.sum()])
    drawn = np.concatenate([np.repeat(scores, mass), np.repeat(scores, positive)])
    assert area_under_curve(mass * 1.0, positive * 1.0, scores) == pytest.approx(roc_auc_score(labels, drawn))
    assert area_under_curve(mass * 1.0, np.zeros(9), scores) is None


def made(population, mechanism="randomized_response"):
    tree = {"name": "a", "engine": "vectorised", "population": population}
    return p2p_sim.Scenario.from_tree({**tree, "mechanism": {"kind": mechanism, "flip_prob": 0.2}})


def test_a_row_has_it_of_its_holdout_and_of_its_law():
    held = p2p_sim.run(made({"kind": "breast-cancer"}))
    assert 0.5 < held.row["auc"] <= 1.0
    assert 0.9 < held.row["nonprivate_auc"] <= 1.0
    known = p2p_sim.run(made({"kind": "synthetic", "users": 5000, "num_clusters": 3})).row
    assert 0.5 < known["auc"] <= known["nonprivate_auc"] + 0.02


def test_more_than_two_classes_have_none():
    row = p2p_sim.run(made({"kind": "wine"})).row
    assert row["auc"] is None
    assert row["nonprivate_auc"] is None


def test_a_result_has_its_epsilon_and_its_accuracy():
    result = p2p_sim.run(made({"kind": "synthetic", "users": 500, "num_clusters": 1}))
    assert result.epsilon.epsilon_upper == result.row["epsilon_upper"]
    assert "learner" in repr(result.epsilon)
    assert result.accuracy == 1.0 - result.row["error_rate"]
    assert "500 in 1 cluster," in repr(result)
