"""Overlays of many users: sparse tables, places that are told apart in arrays, bounds for all, samples, memory."""

import itertools
import tracemalloc

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sparse

import p2p_sim
from p2p_sim.exchange.adversaries import AdversariesConfig, CoalitionConfig, FreeRiders
from p2p_sim.exchange.network_record import FetchTable, realised
from p2p_sim.network.latency import Exponential
from p2p_sim.network.network_config import NetworkConfig
from p2p_sim.network.overlay import RegularOverlay, ScaleFreeOverlay
from p2p_sim.privacy import FetchDistribution, local_epsilon
from p2p_sim.privacy.overlays import fetch_distribution as fetches
from p2p_sim.privacy.overlays.overlay_table import same_rows
from p2p_sim.privacy.overlays.user_bound import Tails, UserBound, tail_bounds
from tests.small_networks import Case


def table(graph):
    weights = nx.to_numpy_array(graph)
    return weights / weights.sum(axis=1, keepdims=True)


def facts(case):
    exchange = case.exchange(record=False)
    exchange.run()
    return realised(exchange), exchange


@pytest.mark.parametrize("overlay", [RegularOverlay(degree=3), ScaleFreeOverlay(attachments=2)])
@pytest.mark.parametrize("silent", [0.0, 0.3])
def test_sparse_tables_are_the_dense_ones_to_the_last_bit(overlay, silent):
    roles = AdversariesConfig(coalition=CoalitionConfig(share=0.3), free_riders=FreeRiders(share=silent))
    config = NetworkConfig(overlay=overlay, loss=0.2, latency=Exponential(mean_s=0.1))
    for seed in range(5):
        found, exchange = facts(Case(config, (9, 6, 2), 0.7, seed, roles))
        journey, law = exchange.journey, found.law
        assert isinstance(law, FetchTable)
        assert law.requests is not None
        graph = journey.overlay
        step = np.zeros((17, 17))
        for i in range(17):
            near = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
            step[i, near] = 1.0 / near.size
        asked = step * (journey.roles.member[:, None] & ~journey.roles.silent)
        sums = np.array([np.bincount(np.zeros(17, dtype=int), row)[0] for row in asked])
        assert np.array_equal(law.requests.toarray(), asked / np.where(sums, sums, 1.0)[:, None])
        weights = step * (found.fetched[:, None] & ~journey.roles.silent)
        sums = np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
        assert np.abs(law.weights.toarray() - weights / sums).max() < 1e-15


def test_the_law_of_an_overlay_needs_memory_for_its_edges_alone():
    """A table of all pairs of 6,000 users would take 36 MB with a byte an entry."""
    case = Case(NetworkConfig(overlay=RegularOverlay(degree=10), loss=0.01), (6_000,), 0.5)
    exchange = case.exchange(record=False)
    exchange.run()
    tracemalloc.start()
    try:
        realised(exchange)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 500 * 6_000 + 2_000_000


def test_equal_rows_are_found():
    rng = np.random.default_rng(3)
    for values in (1, 2, 5):
        sizes = rng.integers(0, 4, 200)
        start = np.concatenate([[0], np.cumsum(sizes)])
        columns = rng.integers(0, values, int(start[-1])).astype(np.int32), rng.integers(0, 2, int(start[-1])) / 3.0
        rows = [tuple(zip(*(c[a:b].tolist() for c in columns), strict=True)) for a, b in itertools.pairwise(start)]
        assert same_rows(start, *columns).tolist() == [rows.index(row) for row in rows]


def test_tails_without_one_entry_lie_above_the_truth_and_near_the_bound_of_the_rest():
    rng = np.random.default_rng(4)
    rows = [rng.random(12), np.full(9, 0.1), np.append(np.full(8, 0.1), 0.4), rng.random(1)]
    levels = np.array([0.02, 0.05, 0.1, 0.3])
    tails = Tails(lambda user: rows[user], 0.2, levels)
    for user, row in enumerate(rows):
        for entry in row:
            [found] = tails.lacking(np.array([user]), np.array([entry]))
            rest = np.sort(np.delete(row, np.flatnonzero(row == entry)[0]))
            bits = np.array(list(itertools.product([0, 1], repeat=rest.size)))
            chance = np.where(bits, 0.2, 0.8).prod(axis=1)
            truth = [chance[bits @ rest < level].sum() for level in levels]
            assert (found >= np.array(truth) - 1e-15).all()
            assert found == pytest.approx(tail_bounds(rest, 0.2, levels), rel=0.05)
            assert (tails.worst(np.array([user]), 2)[1] >= np.array(truth) - 1e-15).all()


@pytest.mark.parametrize("theta", [0.3, pytest.param(1.0, marks=pytest.mark.slow)])
def test_a_large_overlay_gets_a_bound_for_all_and_the_figure_of_a_sample(monkeypatch, theta):
    graph = nx.random_regular_graph(20, 60, seed=1)
    submits = (np.random.default_rng(1).random(60) < theta).astype(float)
    weights = sparse.csr_array(table(graph) * submits[:, None])
    exact = FetchDistribution(weights, 0.3, submits).user_epsilons(1e-3)
    monkeypatch.setattr(fetches, "CLOSELY", 50)
    monkeypatch.setattr(fetches, "SAMPLED", 12)
    wide = FetchDistribution(weights, 0.3, submits)
    bound, sample = wide.epsilon_and_sample(1e-3, np.ones(60, dtype=bool))
    assert exact.max() <= bound.epsilon_upper * (1 + 1e-5)
    assert sample.epsilon_upper == pytest.approx(exact[np.arange(12) * 60 // 12].max(), rel=1e-5)
    assert sample.epsilon_upper <= bound.epsilon_upper
    assert sample.condition_ids[-1] == fetches.SAMPLE_ALONE
    assert fetches.SAMPLE_ALONE not in bound.condition_ids
    assert "neighbourhoods" not in bound.basis
    for epsilon in (0.1, 0.5):
        assert wide.delta(epsilon).upper >= max(wide.user_delta(user, epsilon) for user in range(0, 60, 20))


def test_where_rows_are_uneven_or_of_too_many_kinds_only_the_noise_counts(monkeypatch):
    rng = np.random.default_rng(2)
    weights = table(nx.random_regular_graph(20, 60, seed=1)) * rng.random((60, 60))
    weights /= weights.sum(axis=1, keepdims=True)
    monkeypatch.setattr(fetches, "CLOSELY", 50)
    monkeypatch.setattr(fetches, "SAMPLED", 5)
    bound, sample = FetchDistribution(weights, 0.4, 0.2).epsilon_and_sample(1e-2, np.ones(60, dtype=bool))
    alone = UserBound(0.4, 1.0, ()).epsilon(1e-2)
    assert local_epsilon(0.4) >= bound.epsilon_upper == alone > sample.epsilon_upper
    monkeypatch.setattr(fetches, "MOST_KINDS", 0)
    even = table(nx.random_regular_graph(20, 60, seed=1))
    assert FetchDistribution(even, 0.4, 0.2).epsilon(1e-2).epsilon_upper == alone


@pytest.mark.slow
def test_the_bound_of_many_far_users_lies_above_each_ones(monkeypatch):
    """Random walks of four steps; every user counts as far."""
    step = table(nx.random_regular_graph(7, 24, seed=1))
    weights = np.linalg.matrix_power(step, 4)
    monkeypatch.setattr(fetches, "NEAR", 10)
    monkeypatch.setattr(fetches, "MOST_FAR", 24)
    rates = np.where(np.arange(24) % 3, 0.5, 0.0)
    one_by_one = FetchDistribution(weights, 0.3, rates).user_epsilons(1e-2)
    monkeypatch.setattr(fetches, "MOST_FAR", 5)
    together = FetchDistribution(weights, 0.3, rates)
    upper = together.epsilon(1e-2).epsilon_upper
    assert one_by_one.max() <= upper < 1.3 * one_by_one.max()
    assert together.user_epsilons(1e-2).tolist() == [upper] * 24
    assert together.delta(0.2).upper >= max(together.user_delta(user, 0.2) for user in range(0, 24, 9))


def test_a_row_names_the_figure_of_a_sample_beside_the_bound_for_all(monkeypatch):
    tree = {
        "name": "t",
        "population": {"kind": "synthetic", "users": 300, "num_clusters": 1},
        "mechanism": {"kind": "label_exchange", "flip_prob": 0.3, "sampling_rate": 0.3},
        "network": {"overlay": {"kind": "regular", "degree": 30}},
        "privacy": {"delta": 1e-2},
    }
    before = p2p_sim.run(p2p_sim.Scenario.from_tree(tree))
    assert "epsilon_sample_upper" not in before.row
    monkeypatch.setattr(fetches, "CLOSELY", 100)
    monkeypatch.setattr(fetches, "SAMPLED", 10)
    after = p2p_sim.run(p2p_sim.Scenario.from_tree(tree))
    assert after.row["epsilon_sample_upper"] <= before.row["epsilon_upper"] <= after.row["epsilon_upper"]
    said = after.terms["epsilon_sample_upper"]["conditions"]
    assert any("no bound for others" in str(condition) for condition in said)
    assert not any("no bound for others" in str(c) for c in after.terms["epsilon_upper"]["conditions"])
