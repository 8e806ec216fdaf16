"""Random graphs drawn in arrays: regular ones and small worlds."""

import math

import networkx as nx
import numpy as np
import pytest

from p2p_sim.network.overlay_graph import from_pairs
from p2p_sim.network.random_graphs import regular_edges, small_world_edges

HARD = [(1, 0), (2, 1), (3, 2), (4, 3), (5, 2), (6, 5), (7, 4), (8, 7), (9, 6), (10, 8), (12, 5), (13, 12), (40, 19)]


def rng(seed=1):
    return np.random.default_rng(seed)


def is_simple(edges, size):
    """Distinct edges in ascending order, each between two different nodes, the smaller first."""
    keys = edges @ (max(size, 1), 1)
    inside = edges.size == 0 or (edges.min() >= 0 and edges.max() < size)
    return inside and bool((edges[:, 0] < edges[:, 1]).all() and (np.diff(keys) > 0).all())


@pytest.mark.parametrize(("size", "degree"), [*HARD, (401, 199), (3000, 7), (200, 20)])
def test_a_regular_graph_is_simple_and_regular(size, degree):
    if size * degree % 2:
        size += 1
    for seed in range(3):
        edges = regular_edges(size, degree, rng(seed))
        assert is_simple(edges, size)
        assert np.bincount(edges.ravel(), minlength=size).tolist() == [degree] * size


@pytest.mark.parametrize(("size", "degree"), [(5, 3), (7, 1), (4, 4), (3, -1), (0, 1)])
def test_a_graph_that_does_not_exist_is_refused(size, degree):
    with pytest.raises(ValueError, match=f"size = {size}, degree = {degree}: no graph"):
        regular_edges(size, degree, rng())


@pytest.mark.parametrize(("size", "degree"), [(6, 2), (8, 3)])
def test_small_regular_graphs_have_the_law_of_networkx(size, degree):
    """How often a graph of each number of triangles comes. False alarm below 1e-9 (Hoeffding, two samples).

    Graphs of uniform pairings that turned out to be simple would be seen: their law is uniform.
    """
    graphs = 1500
    ours = [_triangles(nx.Graph(regular_edges(size, degree, rng(s)).tolist())) for s in range(graphs)]
    theirs = [_triangles(nx.random_regular_graph(degree, size, seed=s)) for s in range(graphs)]
    one, other = (np.bincount(found, minlength=9) / graphs for found in (ours, theirs))
    error = 2.0 * math.sqrt(math.log(2e9 * 9) / (2 * graphs))
    assert np.abs(one - other).max() < error
    if size == 6:
        assert 10 / 70 + error / 2.0 < one[2]  # control: two triangles are 10 of the 70 graphs


def _triangles(graph):
    return sum(nx.triangles(graph).values()) // 3


@pytest.mark.parametrize("rewire_prob", [0.0, 0.2, 1.0])
@pytest.mark.parametrize(("size", "degree"), [(5, 2), (7, 4), (9, 4), (10, 8), (12, 10), (50, 6)])
def test_a_small_world_is_simple_and_loses_no_edge(size, degree, rewire_prob):
    for seed in range(5):
        edges = small_world_edges(size, degree, rewire_prob, rng(seed))
        assert is_simple(edges, size)
        assert len(edges) == size * degree // 2
        if size > 4 * degree:  # a moved edge keeps one end
            assert np.bincount(edges.ravel(), minlength=size).min() >= degree // 2


@pytest.mark.parametrize(("size", "degree", "rewire_prob"), [(5000, 6, 0.1), (5000, 6, 1.0), (400, 4, 0.5)])
def test_degrees_of_small_worlds_are_those_of_networkx(size, degree, rewire_prob):
    """Share of users of each degree, over graphs of 40,000 users in all; one moved edge changes two degrees.

    False alarm below 1e-9 for each share (Azuma); it detects a share that is off by 0.06, as of another probability.
    """
    graphs = 40_000 // size
    ours = [np.bincount(small_world_edges(size, degree, rewire_prob, rng(s)).ravel()) for s in range(graphs)]
    graph = nx.watts_strogatz_graph
    theirs = [[d for _, d in graph(size, degree, rewire_prob, seed=s).degree] for s in range(graphs)]
    one, other = (np.bincount(np.concatenate(found), minlength=40)[:40] / 40_000 for found in (ours, theirs))
    error = math.sqrt(2.0 * math.log(2e9 * 40) * 2 * degree / 2 / 40_000) * 2
    assert np.abs(one - other).max() < min(error, 0.06)


def test_an_overlay_from_pairs_is_the_same_in_any_order():
    edges = np.array([[3, 1], [0, 3], [4, 3], [2, 0]])
    overlay = from_pairs(6, edges)
    assert overlay.indptr.tolist() == [0, 2, 3, 4, 7, 8, 8]
    assert overlay.indices.tolist() == [2, 3, 3, 0, 0, 1, 4, 3]
    assert np.array_equal(from_pairs(6, edges[::-1, ::-1]).indices, overlay.indices)
