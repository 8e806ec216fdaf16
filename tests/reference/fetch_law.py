"""Whose label a user got, given that hers arrived in time: every choice she might have made, run as events."""

import itertools
import math

import numpy as np

from p2p_sim.exchange.message_timing import MessageTiming
from p2p_sim.network.network_config import GossipView
from tests.small_networks import Case


def weights(case: Case, late: np.ndarray | None = None) -> np.ndarray:
    """W[i, j] (m, m): the probability that user i passed on the label of j, over i's own choices; 0 if none arrives.

    Given that it arrives in time; for those (m,) whose submission is late, given that it comes after the deadline.
    """
    shard = case.shard
    joint = np.zeros((shard.size, shard.size))
    draws = 1 if case.config.on_timeout.retry == "same_peer" else case.config.on_timeout.attempts
    lists = peers_of(case)
    for digits in itertools.product(range(max(len(peers) for peers in lists)), repeat=draws * case.config.hops):
        choices = np.array(digits).reshape(draws, case.config.hops)
        exchange = case.processes()
        journey = exchange.journey
        walks = [[walk(lists, user, row) for row in choices] for user in range(shard.size)]
        force(journey, walks)
        exchange.run()
        for user in np.flatnonzero(np.isfinite(exchange.arrival) & ~exchange.fallback).tolist():
            in_time = late is None or not late[user]
            if exchange.accepts(exchange.arrival)[user] == in_time:
                joint[user, exchange.source[user]] += chance(journey, lists, user, walks[user])
    total = joint.sum(axis=1, keepdims=True)
    return np.divide(joint, total, out=np.zeros_like(joint), where=total > 0)


def peers_of(case: Case) -> list[list[int]]:
    """Whom each user may ask or forward to; in a gossip view anybody of the cluster may stand."""
    overlay, offsets = case.network.shard_overlay(case.shard), case.shard.offsets.tolist()
    if overlay is not None:
        return [overlay.indices[a:b].tolist() for a, b in itertools.pairwise(overlay.indptr.tolist())]
    return [list(range(a, b)) for a, b in itertools.pairwise(offsets) for _ in range(a, b)]


def walk(lists: list[list[int]], user: int, digits: np.ndarray) -> list[int]:
    """The path that takes the neighbours with these numbers; -1 throughout if there is none, as nobody then replies."""
    places = [user]
    for digit in digits.tolist():
        near = lists[places[-1]] if places[-1] >= 0 else []
        places.append(near[digit] if digit < len(near) else -1)
    return [-1] * len(digits) if -1 in places else places[1:]


def force(journey: MessageTiming, walks: list[list[list[int]]]) -> None:
    """Let everybody's requests take these paths."""

    def path(users, attempt):
        rows = [walks[user][attempt if attempt < len(walks[user]) else 0] for user in users.tolist()]
        return list(np.array(rows, dtype=np.int32).T)

    journey.path = path
    journey.drawn_path = lambda users, draw, times: path(users, draw)


def chance(journey: MessageTiming, lists: list[list[int]], user: int, walks: list[list[int]]) -> float:
    """Probability that a user's requests take these paths, one for each attempt."""
    view = journey.config.peers
    if not isinstance(view, GossipView):
        places = [place for path in walks for place in [user, *path[:-1]]]
        impossible = any(path[-1] < 0 for path in walks)
        return 0.0 if impossible else math.prod(1.0 / len(lists[place]) for place in places)
    # a slot of the view for each attempt; the same slot at the same epoch holds the same entry
    one, total = np.array([user], dtype=np.int32), 0.0
    times = [float(journey.sent(one, attempt)[0]) for attempt in range(len(walks))]
    for slots in itertools.product(range(view.view_size), repeat=len(walks)):
        entries: dict[tuple[int, float], int] = {}
        agrees = True
        for slot, time, [peer] in zip(slots, times, walks, strict=True):
            epoch = math.floor(time / view.refresh_s + slot / view.view_size) if math.isfinite(time) else math.inf
            agrees &= entries.setdefault((slot, epoch), peer) == peer
        total += agrees * len(lists[user]) ** -len(entries)
    return total / view.view_size ** len(walks)
