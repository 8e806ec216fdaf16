"""Who may ask whom: generated overlays."""

import math
from itertools import pairwise
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from scipy import integrate

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.network.network_config import Network, NetworkConfig
from p2p_sim.network.overlay import (
    CompleteOverlay,
    GeometricOverlay,
    Overlay,
    OverlayConfig,
    RegularOverlay,
    ScaleFreeOverlay,
    SmallWorldOverlay,
    radius_of,
    share_within,
)
from p2p_sim.network.overlay_graph import OverlayInput, from_pairs

STREAMS = Streams(1, 0)
LOG = math.log(2e9)
"""Hoeffding and Azuma: a deviation of sqrt(LOG / ...) has probability 1e-9 at most."""

generated = st.one_of(
    st.builds(RegularOverlay, degree=st.integers(1, 12)),
    st.builds(SmallWorldOverlay, degree=st.sampled_from([2, 4, 8]), rewire_prob=st.sampled_from([0.0, 0.3, 1.0])),
    st.builds(ScaleFreeOverlay, attachments=st.integers(1, 8)),
    st.builds(GeometricOverlay, mean_degree=st.floats(0.5, 12.0)),
    st.builds(GeometricOverlay, radius=st.floats(0.01, 1.5)),
)
sizes = st.lists(st.integers(1, 40), min_size=1, max_size=8)


def offsets_of(cluster_sizes):
    return np.concatenate([[0], np.cumsum(cluster_sizes)]).astype(np.int64)


def build(config, offsets, streams=STREAMS):
    return config.build(OverlayInput(offsets, streams))


def pairs_of(overlay):
    """Every entry as (user, neighbour)."""
    return np.stack([np.repeat(np.arange(overlay.num_users), overlay.degrees), overlay.indices], axis=1)


def graph_of(overlay):
    graph = nx.Graph()
    graph.add_nodes_from(range(overlay.num_users))
    graph.add_edges_from(pairs_of(overlay).tolist())
    return graph


def faults(overlay, offsets):
    """What an overlay promises and this one does not keep."""
    pairs = pairs_of(overlay)
    cluster = np.searchsorted(offsets, pairs, side="right")
    entries = set(map(tuple, pairs.tolist()))
    rows = np.split(overlay.indices, overlay.indptr[1:-1])
    promises = {
        "types": (overlay.indptr.dtype, overlay.indices.dtype) == (np.int64, np.int32),
        "size": overlay.num_users == offsets[-1] and overlay.indptr[-1] == len(overlay.indices),
        "others": bool((pairs[:, 0] != pairs[:, 1]).all()),
        "one cluster": bool((cluster[:, 0] == cluster[:, 1]).all()),
        "symmetric": all((b, a) in entries for a, b in entries),
        "ascending": all((np.diff(row) > 0).all() for row in rows),
    }
    return [name for name, kept in promises.items() if not kept]


def same(one, other):
    positions = (one.position is None) == (other.position is None)
    if one.position is not None and other.position is not None:
        positions = np.array_equal(one.position, other.position)
    return np.array_equal(one.indptr, other.indptr) and np.array_equal(one.indices, other.indices) and positions


@settings(max_examples=50, deadline=None)
@given(config=generated, cluster_sizes=sizes, seed=st.integers(0, 2**32))
def test_a_generated_overlay_keeps_its_promises_and_follows_from_the_streams(config, cluster_sizes, seed):
    offsets = offsets_of(cluster_sizes)
    overlay = build(config, offsets, Streams(seed, 3))
    assert faults(overlay, offsets) == []
    assert same(overlay, build(config, offsets, Streams(seed, 3)))
    parts = [
        nx.number_connected_components(graph_of(overlay).subgraph(range(begin, end)))
        for begin, end in pairwise(offsets)
    ]
    assert overlay.disconnected_clusters(offsets) == sum(p > 1 for p in parts)
    assert overlay.isolated == nx.number_of_isolates(graph_of(overlay))
    middle = len(offsets) // 2
    part = overlay.shard(int(offsets[middle]), int(offsets[-1]))
    assert faults(part, offsets[middle:] - offsets[middle]) == []
    assert np.array_equal(part.degrees, overlay.degrees[offsets[middle] :])


@pytest.mark.parametrize(
    ("indptr", "indices", "fault"),
    [
        ([0, 1, 1, 2, 3], [1, 3, 2], "symmetric"),
        ([0, 1, 2, 3, 4], [2, 3, 0, 1], "one cluster"),
        ([0, 1, 1, 1, 1], [0], "others"),
        ([0, 2, 4, 4, 4], [1, 1, 0, 0], "ascending"),
        ([0, 1, 2, 2], [1, 0], "size"),
    ],
)
def test_a_broken_promise_is_seen(indptr, indices, fault):
    overlay = Overlay(np.array(indptr), np.array(indices, np.int32))
    assert faults(overlay, np.array([0, 2, 4])) == [fault]


CONFIGS = [
    RegularOverlay(degree=2),
    SmallWorldOverlay(degree=2),
    ScaleFreeOverlay(attachments=1),
    GeometricOverlay(mean_degree=4.0),
]


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(one, marks=[pytest.mark.slow] * (one.kind in ("regular", "small_world", "scale_free")))
        for one in CONFIGS
    ],
    ids=lambda config: config.kind,
)
def test_a_neighbouring_shard_changes_nothing(config):
    """The first shard is many clusters in one case and a single one in the other; the second is the same."""
    tail = [30, 31, 3]
    many, single = offsets_of([*[16] * 4_000, 1536, *tail]), offsets_of([70_000, *tail])
    one = build(config, many).shard(65_536, 65_600)
    assert same(one, build(config, single).shard(70_000, 70_064))
    assert not same(one, build(config, many, Streams(1, 1)).shard(65_536, 65_600))
    assert not same(one, build(config, offsets_of(tail)))  # as a first shard


def test_complete_needs_no_overlay():
    people = SimpleNamespace(cluster_offsets=offsets_of([3, 4]), row=None, source_rows=None)
    assert Network.open(NetworkConfig(overlay=CompleteOverlay()), people, STREAMS).overlay is None


WIDE = [
    RegularOverlay(degree=8),
    SmallWorldOverlay(degree=8),
    ScaleFreeOverlay(attachments=9),
    GeometricOverlay(mean_degree=8.0),
    GeometricOverlay(radius=1.5),
]


@pytest.mark.parametrize("config", WIDE, ids=lambda config: config.kind)
@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_a_small_cluster_is_complete(config, size):
    overlay = build(config, offsets_of([size, 20]))
    assert overlay.degrees[:size].tolist() == [size - 1] * size


@given(degree=st.integers(1, 30), size=st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_regular_degrees(degree, size):
    """All alike: the degree asked for, one more where it and the size are odd, fewer only in a small cluster."""
    overlay = build(RegularOverlay(degree=degree), offsets_of([size]))
    possible = degree + 1 if degree % 2 and size % 2 else degree
    assert set(overlay.degrees.tolist()) == {min(possible, size - 1)}


@pytest.mark.parametrize(
    ("size", "degree"), [(6, 3), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((6, 2), (7, 4), (8, 2)))]
)
def test_regular_neighbours_are_uniform(size, degree):
    """False alarm below 1e-9 (Hoeffding over 4000 clusters); it detects a pair that is off by 0.06."""
    overlay = build(RegularOverlay(degree=degree), offsets_of([size] * 4000))
    pairs = pairs_of(overlay)
    pairs = pairs[pairs[:, 0] // size == pairs[:, 1] // size] % size
    share = np.bincount(pairs[:, 0] * size + pairs[:, 1], minlength=size * size).reshape(size, size) / 4000
    expected = degree / (size - 1) * (1 - np.eye(size))
    error = math.sqrt(math.log(2e9 * size * size) / 8000)
    assert np.abs(share - expected).max() < error
    ring = sum(np.roll(np.eye(size), step, axis=1) for step in (1, -1))  # planted: neighbours always the nearest
    assert np.abs(ring * degree / 2 - expected).max() > error


def ring_edges(size, degree):
    return {frozenset((i, (i + step) % size)) for i in range(size) for step in range(1, degree // 2 + 1)}


@pytest.mark.parametrize(("size", "degree"), [(12, 2), (12, 4), (13, 6), (40, 8)])
def test_without_rewiring_the_overlay_is_the_ring_lattice(size, degree):
    config = SmallWorldOverlay(degree=degree, rewire_prob=0.0)
    on_ring = config.graph(size, 5)
    assert {frozenset(edge) for edge in on_ring.tolist()} == ring_edges(size, degree)
    lattice = nx.Graph(tuple(edge) for edge in ring_edges(size, degree))
    dealt = graph_of(build(config, offsets_of([size])))
    assert nx.is_isomorphic(dealt, lattice)


def test_rewiring_moves_the_share_asked_for():
    """False alarm below 1e-9 (Hoeffding over 40,000 edges); a moved edge lands on the ring with probability 1e-4."""
    moved = [frozenset(e) for e in SmallWorldOverlay(degree=4, rewire_prob=0.1).graph(20_000, 7).tolist()]
    share = 1.0 - len(ring_edges(20_000, 4) & set(moved)) / 40_000
    error = math.sqrt(LOG / 80_000) + 1e-4
    assert len(set(moved)) == 40_000
    assert abs(share - 0.1) < error
    assert abs(share - 0.12) > 0.02 - error > 0  # planted: another probability


def test_scale_free_overlays_have_hubs():
    """P(degree = m) is 2/(m+2). False alarm below 1e-9 (Azuma, one arrival changing 2m counts)."""
    m, users = 2, 40_000
    overlay = build(ScaleFreeOverlay(attachments=m), offsets_of([users]))
    error = m * math.sqrt(8.0 * LOG / users) + 1e-3
    share = float(np.mean(overlay.degrees == m))
    assert abs(share - 2 / (m + 2)) < error
    uniform = 1 / (m + 1)  # planted: attachment to anybody, which makes no hubs
    assert abs(uniform - 2 / (m + 2)) > error
    assert overlay.degrees.max() > 50 * overlay.degrees.mean()


def mean_place(overlay, size):
    """Mean place of an edge's end in the order in which a cluster's users are stored, over clusters of one size."""
    place = np.tile(np.arange(size), overlay.num_users // size)
    return float((place * overlay.degrees).sum() / overlay.degrees.sum())


def test_hubs_do_not_follow_the_order_in_which_users_are_stored():
    """False alarm below 1e-9 (Hoeffding over 1000 clusters of 50, all with the same number of edges)."""
    config, size = ScaleFreeOverlay(attachments=2), 50
    overlay = build(config, offsets_of([size] * 1000))
    error = (size - 1) * math.sqrt(LOG / 2000)
    assert abs(mean_place(overlay, size) - (size - 1) / 2) < error
    undealt = from_pairs(50_000, np.concatenate([size * i + config.graph(size, i) for i in range(1000)]))
    assert abs(mean_place(undealt, size) - (size - 1) / 2) > error


@pytest.mark.parametrize("config", [GeometricOverlay(radius=0.3), GeometricOverlay(mean_degree=6.0)])
def test_geometric_neighbours_are_those_within_the_radius(config):
    offsets = offsets_of([50, 70, 4])
    overlay = build(config, offsets)
    assert overlay.position.shape == (124, 2)
    expected = set()
    for begin, end in pairwise(offsets):
        radius = config.radius or radius_of(min(6.0 / (end - begin - 1), 1.0))
        for i in range(begin, end):
            away = np.linalg.norm(overlay.position[begin:end] - overlay.position[i], axis=1)
            expected |= {(i, begin + j) for j in np.flatnonzero(away <= radius) if begin + j != i}
    assert set(map(tuple, pairs_of(overlay).tolist())) == expected
    part = overlay.shard(50, 120)
    assert np.array_equal(part.position, overlay.position[50:120])


@pytest.mark.parametrize("radius", [0.05, 0.5, 1.0, 1.01, 1.2, 1.4, math.sqrt(2.0)])
def test_the_share_of_pairs_within_a_radius_is_exact(radius):
    """Against the integral of the overlap of the square with itself, moved by (x, y): (1 - x)(1 - y)."""

    def strip(x):
        y = min(math.sqrt(max(radius * radius - x * x, 0.0)), 1.0)
        return 4.0 * (1.0 - x) * (y - y * y / 2.0)

    kink = [math.sqrt(radius**2 - 1.0)] if radius > 1.0 else []
    value = integrate.quad(strip, 0.0, min(radius, 1.0), points=[k for k in kink if k < 1.0], epsabs=1e-12)[0]
    assert share_within(radius) == pytest.approx(value, abs=1e-9)
    assert radius_of(share_within(radius)) == pytest.approx(radius, abs=1e-5) or radius == math.sqrt(2.0)


def test_geometric_overlays_have_the_mean_degree_asked_for():
    """False alarm below 1e-9 (6.2 standard errors over 3000 clusters); borders forgotten would be seen."""
    wanted, size = 6.0, 20
    overlay = build(GeometricOverlay(mean_degree=wanted), offsets_of([size] * 3000))
    means = overlay.degrees.reshape(-1, size).mean(axis=1)
    error = 6.2 * means.std() / math.sqrt(len(means))
    assert abs(means.mean() - wanted) < error
    assert (overlay.position >= 0).all()
    assert (overlay.position < 1).all()
    naive = GeometricOverlay(radius=math.sqrt(wanted / (size - 1) / math.pi))
    assert abs(build(naive, offsets_of([size] * 3000)).degrees.mean() - wanted) > error


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "ring"}, "'complete', 'regular', 'small_world', 'scale_free', 'geometric', 'file'"),
        ({"kind": "regular", "degree": 0}, "greater than or equal to 1"),
        ({"kind": "regular", "degree": 2.0}, "valid integer"),
        ({"kind": "small_world", "degree": 3}, "multiple of 2"),
        ({"kind": "small_world", "rewire_prob": 1.5}, "less than or equal to 1"),
        ({"kind": "scale_free", "attachments": 0}, "greater than or equal to 1"),
        ({"kind": "geometric"}, "give either mean_degree or radius"),
        ({"kind": "geometric", "mean_degree": 3, "radius": 0.1}, "give either mean_degree or radius"),
        ({"kind": "file"}, "Field required"),
        ({"kind": "complete", "degree": 3}, "Extra inputs"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        TypeAdapter(OverlayConfig).validate_python(settings)


def test_an_overlay_beyond_memory_is_refused_before_it_is_drawn():
    with pytest.raises(InputError, match=r"kind = 'geometric', radius = 0.5 .* 300000 users .* at most 1e\+08"):
        build(GeometricOverlay(radius=0.5), np.array([0, 300_000]))
    assert build(GeometricOverlay(radius=1.5), np.arange(0, 90_001, 3)).degrees.max() == 2
