"""The clustering paper's mechanisms on a law known in full: who wins where, at honest ε."""

import numpy as np
import pytest

import p2p_sim
from p2p_sim.learning.metrics import exchange_floor, measured, predict
from p2p_sim.measures.intervals import mean_interval
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import exchange
from p2p_sim.scenario import Scenario
from tests.learning.received import received

REPLICATES = 60
BASE = {
    "name": "t",
    "engine": "vectorised",
    "population": {"kind": "synthetic", "users": 20_000, "num_clusters": 20, "positive": "random"},
    "learner": {"kind": "table"},
}
CLUSTER = {"kind": "cluster_rr", "oracle": True}


def scenario(phi, **mechanism):
    return Scenario.from_tree(
        {**BASE, "population": {**BASE["population"], "heterogeneity": phi}, "mechanism": mechanism}
    )


def excess(phi, **mechanism):
    """Exact excess 0-1 risk of each replicate, all mechanisms meeting the same users; ε is honest and pure."""
    rows = [p2p_sim.run(scenario(phi, **mechanism), i).row for i in range(REPLICATES)]
    assert max(row["epsilon_upper"] for row in rows) <= mechanism["target_epsilon"]
    return np.array([row["excess_risk"] for row in rows])


@pytest.mark.slow
def test_pure_clusters_beat_uniform_randomised_response():
    gain = excess(0.0, kind="randomized_response", target_epsilon=0.5)
    gain -= excess(0.0, **CLUSTER, split="half", target_epsilon=0.5)  # λ = 1, σ = 2/ε
    assert gain.mean() >= 0.012


@pytest.mark.slow
def test_uniform_randomised_response_beats_mixed_clusters_but_not_the_optimised_split():
    uniform = excess(0.4, kind="randomized_response", target_epsilon=2.0)
    loss = excess(0.4, **CLUSTER, split="half", target_epsilon=2.0) - uniform
    assert loss.mean() >= 0.017
    optimised = excess(0.4, **CLUSTER, split="optimised", target_epsilon=2.0) - uniform
    assert optimised.mean() < 3.0 * optimised.std(ddof=1) / np.sqrt(REPLICATES)


@pytest.mark.slow
@pytest.mark.parametrize(("phi", "replicates"), [(0.4, 60), pytest.param(0.2, 100, marks=pytest.mark.slow)])
def test_the_exchange_has_the_analytic_floor(phi, replicates):
    """φ²/2.4: points on the wrong side of 1/2 from their cluster's mean, for means uniform on [0.2, 0.8]."""
    given = scenario(phi, kind="label_exchange", flip_prob=0.01)
    risks, floors = [], []
    for replicate in range(replicates):
        done = exchange(Replicate(given, replicate))
        learn = given.learner
        found = learn.learn(received(done.population.features, done.outcome.labels, 2, done.population.cluster_offsets))
        risks.append(measured(predict(done.population, found, found), "zero_one").excess_risk)
        floors.append(exchange_floor(done.population, 0.01, "zero_one"))
    for values in (risks, floors):
        mean = mean_interval(np.array(values))
        assert mean.low <= phi**2 / 2.4 + 0.003 * (values is risks)  # votes of finite clusters add a little
        assert mean.high >= phi**2 / 2.4
