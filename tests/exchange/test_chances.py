"""Losses, duplicates, gossip views and random walks follow their laws.

Every test is a chi-squared or exact binomial test at a false-alarm rate of 1e-9 and has a control that must fail.
"""

import numpy as np
import pytest
from scipy.stats import binomtest, chi2

from p2p_sim.base.streams import Streams
from p2p_sim.exchange.peers import Peers
from p2p_sim.exchange.transcript import REPLY, REQUEST, SUBMISSION
from p2p_sim.network.network_config import GossipView, NetworkConfig
from p2p_sim.network.overlay import Overlay
from p2p_sim.network.overlay_graph import from_pairs
from p2p_sim.population.population import Shard
from tests.small_networks import Case

FALSE_ALARM = 1e-9


def p_value(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """Of Pearson's chi-squared test; an impossible outcome that occurred gives 0."""
    if counts[probabilities == 0].any():
        return 0.0
    expected = (probabilities * counts.sum())[probabilities > 0]
    assert expected.min() >= 20
    statistic = np.sum((counts[probabilities > 0] - expected) ** 2 / expected)
    return float(chi2.sf(statistic, expected.size - 1)) if expected.size > 1 else 1.0


def copies(size: int, clusters: int) -> Shard:
    """One shard of equal clusters."""
    return Shard(0, 0, size * clusters, np.arange(clusters + 1, dtype=np.int64) * size)


# -- accidents -------------------------------------------------------------------------------------------------------


def test_each_kind_of_message_is_lost_with_its_probability():
    """Detects a probability that is off by 0.02; the control is off by that."""
    exchange = Case(NetworkConfig(loss=0.3), (200,) * 300).exchange()
    traffic = exchange.run()
    kinds = exchange.messages().kind
    sent = exchange.journey.shard.size
    for kind in (REQUEST, REPLY, SUBMISSION):  # what got through is what gives rise to the next kind
        through = int(np.count_nonzero(kinds == kind))
        assert binomtest(through, sent, 0.7).pvalue > FALSE_ALARM
        assert binomtest(through, sent, 0.72).pvalue < FALSE_ALARM
        sent = through
    assert traffic.messages_lost == traffic.messages_sent - len(kinds)


def test_each_kind_of_message_is_duplicated_with_its_probability():
    """Detects a probability that is off by 0.02; a request answered twice has two replies that may be doubled."""
    exchange = Case(NetworkConfig(duplication=0.25), (200,) * 300).exchange()
    traffic = exchange.run()
    kinds = exchange.messages().kind
    originals = exchange.journey.shard.size
    total = 0
    for kind in (REQUEST, REPLY, SUBMISSION):
        delivered = int(np.count_nonzero(kinds == kind))
        doubled = delivered - originals
        assert binomtest(doubled, originals, 0.25).pvalue > FALSE_ALARM
        assert binomtest(doubled, originals, 0.27).pvalue < FALSE_ALARM
        total += doubled
        originals = delivered if kind == REQUEST else exchange.journey.shard.size
    assert traffic.messages_duplicated == total
    assert traffic.answered == exchange.journey.shard.size


def test_losses_of_different_messages_are_independent():
    """Detects a common number behind two legs, copies or attempts; the control takes the same numbers twice."""
    journey = Case(NetworkConfig(loss=0.5, duplication=0.5), (200,) * 100).journey()
    users = np.arange(journey.shard.size, dtype=np.int32)
    sent = np.zeros(users.size)
    legs = [(leg, attempt) for leg in ("request", "reply") for attempt in (0, 1)]
    kept = [
        journey.faults.survives(journey.message(leg, users, sent, attempt, copy=copy))
        for leg, attempt in legs
        for copy in (0, 1)
    ]
    kept += [journey.exists(journey.message(leg, users, sent, attempt, copy=1)) for leg, attempt in legs]
    even = np.full(4, 0.25)
    for i, one in enumerate(kept):
        for other in kept[:i]:
            assert p_value(np.bincount(2 * one + other, minlength=4), even) > FALSE_ALARM
        assert p_value(np.bincount(2 * one + one, minlength=4), even) < FALSE_ALARM


# -- gossip views ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attempt", [0, 1, 3])
@pytest.mark.parametrize("view_size", [1, 3])
def test_an_entry_of_a_view_is_anybody_of_the_cluster_at_any_time(attempt, view_size):
    """Detects that one of 8 members is preferred by 6%, the control, at times all over the run."""
    shard = copies(8, 20_000)
    peers = Peers(shard, Streams(4, 0), None, view=GossipView(view_size=view_size, refresh_s=0.7))
    users = np.arange(shard.size, dtype=np.int32)
    times = Streams(4, 0).generator("start").random(shard.size) * 50.0
    place = peers.again(users, attempt, times) - users // 8 * 8
    counts = np.bincount(place, minlength=8)
    assert p_value(counts, np.full(8, 1 / 8)) > FALSE_ALARM
    assert p_value(np.bincount(place * 8 + users % 8, minlength=64), np.full(64, 1 / 64)) > FALSE_ALARM
    moved = counts.copy()
    moved[:2] += np.array([1, -1]) * int(0.06 * counts[0])
    assert p_value(moved, np.full(8, 1 / 8)) < FALSE_ALARM


def test_a_view_holds_so_many_members_and_each_entry_changes_once_in_a_refresh():
    """In a cluster of a thousand million users two entries are never the same by chance (1e-6 over all of the test)."""
    view, user = GossipView(view_size=5, refresh_s=2.0), np.array([7], np.int32)
    peers = Peers(Shard(0, 0, 10**9, np.array([0, 10**9])), Streams(2, 0), None, view=view)

    def seen(attempt: int, times: np.ndarray) -> np.ndarray:
        return np.concatenate([peers.again(user, attempt, np.array([time])) for time in times.tolist()])

    now = np.array([3.21])
    assert len({int(seen(attempt, now)[0]) for attempt in range(100)}) == 5
    moments = np.arange(0.01, 20.0, 0.05)
    phases = set()
    for attempt in range(20):
        entries = seen(attempt, moments)
        changes = moments[np.flatnonzero(np.diff(entries))]
        assert len(set(entries.tolist())) == len(changes) + 1  # nothing comes back
        assert np.allclose(np.diff(changes), 2.0, atol=0.051)
        phases.add(round(float(changes[0]) / 0.4))
    assert len(phases) == 5  # the entries take turns


# -- random walks and further attempts -------------------------------------------------------------------------------


def kites(clusters: int) -> Overlay:
    """Copies of a triangle with a tail: 0-1-2-0, 2-3-4."""
    edges = np.array([[0, 1], [1, 2], [0, 2], [2, 3], [3, 4]])
    return from_pairs(5 * clusters, (5 * np.arange(clusters)[:, None, None] + edges).reshape(-1, 2))


def step_matrix(overlay: Overlay) -> np.ndarray:
    """Transition matrix of the first kite."""
    matrix = np.zeros((5, 5))
    for user in range(5):
        near = overlay.indices[overlay.indptr[user] : overlay.indptr[user + 1]]
        matrix[user, near] = 1.0 / near.size
    return matrix


@pytest.mark.parametrize("hops", [1, 2, 3, 6])
@pytest.mark.parametrize("attempt", [0, 2])
def test_a_walk_ends_where_the_matrix_power_says(hops, attempt):
    """Detects one step more or less, the control, from at least one start."""
    clusters = 4_000
    overlay = kites(clusters)
    peers = Peers(copies(5, clusters), Streams(9, 0), overlay, hops)
    matrix = step_matrix(overlay)
    wrong = []
    for start in range(5):
        users = np.arange(start, 5 * clusters, 5, dtype=np.int32)
        if hops == 1 and attempt == 0:
            ends = peers.first(Streams(9, 0).generator("peer"), 0, 5 * clusters)[start::5]
        else:
            ends = peers.again(users, attempt, np.zeros(users.size))
        counts = np.bincount(ends - users + start, minlength=5)
        assert p_value(counts, np.linalg.matrix_power(matrix, hops)[start]) > FALSE_ALARM
        wrong.append(p_value(counts, np.linalg.matrix_power(matrix, hops + 1)[start]))
    assert min(wrong) < FALSE_ALARM


@pytest.mark.parametrize("overlay", [None, "kite"])
def test_a_peer_drawn_afresh_does_not_depend_on_the_one_before(overlay):
    """Detects that an attempt avoids or repeats the peer before; the control repeats her."""
    clusters = 8_000
    peers = Peers(copies(5, clusters), Streams(6, 0), kites(clusters) if overlay else None)
    users = np.arange(2, 5 * clusters, 5, dtype=np.int32)  # user 2 has three neighbours
    places = [peers.first(Streams(6, 0).generator("peer"), 0, 5 * clusters)[2::5]]
    places += [peers.again(users, attempt, np.zeros(users.size)) for attempt in (1, 2)]
    near = np.array([0.0, 0, 0, 0, 0])
    near[[0, 1, 3] if overlay else slice(None)] = 1.0 / (3 if overlay else 5)
    pair = np.outer(near, near).ravel()
    first, second, third = (place - users + 2 for place in places)
    for one, other in ((first, second), (second, third), (first, third)):
        assert p_value(np.bincount(5 * one + other, minlength=25), pair) > FALSE_ALARM
    assert p_value(np.bincount(5 * first + first, minlength=25), pair) < FALSE_ALARM


def test_nobody_walks_from_where_there_is_no_neighbour():
    peers = Peers(copies(3, 2), Streams(1, 0), from_pairs(6, np.array([[0, 1], [3, 4]])), hops=3)
    users = np.arange(6, dtype=np.int32)
    for path in (peers.path(users, 0), peers.path(users, 2)):
        for places in path:
            assert np.array_equal(places < 0, [False, False, True, False, False, True])
            assert np.all(places[:2] < 2)
            assert np.all(places[3:5] >= 3)
    assert np.array_equal(peers.first(Streams(1, 0).generator("peer"), 0, 6), peers.path(users, 0)[-1])
