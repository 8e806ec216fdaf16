"""Whom users ask, how many peers, and whether they submit: drawn the same way for every engine.

These are the draws of lines 5 and 9 of Algorithm 2.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.streams import BLOCK, Streams, bernoulli
from p2p_sim.network.network_config import GossipView
from p2p_sim.network.overlay import Overlay
from p2p_sim.population.population import Shard

Users = NDArray[np.int32]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Choices:
    """What the users `start` to `start + len(peer) - 1` of a shard choose; indices count from the shard's first user.

    peer: (m,) int32, the user each one asks first, or -1 if she has no neighbour.
    keep: (m,) bool, whether she passes the fetched label on to the learner.
    """

    start: int
    peer: NDArray[np.int32]
    keep: NDArray[np.bool_]


class Peers:
    """Draws the peers of a shard's users, who are numbered from the shard's first; -1 where there is no neighbour.

    Args:
        shard: the users.
        streams: the replicate's random streams.
        overlay: the shard's overlay; None: complete, oneself included.
        hops: steps from the one who asks to the one who answers.
        view: users ask out of a gossip view.
    """

    def __init__(
        self, shard: Shard, streams: Streams, overlay: Overlay | None, hops: int = 1, view: GossipView | None = None
    ) -> None:
        self._shard, self._streams, self._overlay = shard, streams, overlay
        self._hops, self._view = hops, view

    def choices(self, sampling_rate: float) -> Iterator[Choices]:
        """Draw everybody's choices in blocks of 65,536 users, so that a cluster of any size needs little memory."""
        rng = self._streams.generator("peer", self._shard.index)
        keep = self._streams.generator("keep", self._shard.index)
        for start in range(0, self._shard.size, BLOCK):
            stop = min(start + BLOCK, self._shard.size)
            peer = self.first(rng, start, stop)
            yield Choices(start, peer, bernoulli(keep, sampling_rate, stop - start))

    def first(self, rng: np.random.Generator, start: int, stop: int) -> Users:
        """The first peers of users start..stop-1, from a generator that goes through the shard in this order."""
        if self._hops > 1:
            return self.path(np.arange(start, stop, dtype=np.int32), 0)[-1]
        position = rng.random(stop - start)
        if self._overlay is None:
            return _uniform_members(position, self._shard.offsets, start, stop)
        return self._neighbour(np.arange(start, stop, dtype=np.int32), position)

    def again(self, users: Users, attempt: int, times: Floats) -> Users:
        """Freshly drawn peers for a later attempt (from 1) that starts at the given times; 0 too for gossip views."""
        if self._hops > 1:
            return self.path(users, attempt)[-1]
        if self._view is not None:
            return self._entry(self._view, users, attempt, times)
        position = self._streams.uniforms("peer", self._shard.index, attempt).at(users)
        return self._neighbour(users, position) if self._overlay is not None else self._member(users, position)

    def path(self, users: Users, attempt: int) -> list[Users]:
        """Where each user's random walk is after each of its steps: a list of arrays (m,), one a step."""
        node, path = users, []
        for hop in range(self._hops):
            position = self._streams.uniforms(f"walk-{hop}", self._shard.index, attempt).at(users)
            node = self._neighbour(node, position)
            path.append(node)
        return path

    def _neighbour(self, users: Users, position: Floats) -> Users:
        """The neighbour at a relative position in [0, 1) of each user's list; -1 too for user -1, who is nobody."""
        overlay = cast(Overlay, self._overlay)  # walks need one, and else who has none asks a member of her cluster
        first = overlay.indptr[users]
        degree = overlay.indptr[users + 1] - first
        alone = degree <= 0  # nobody's is not above 0
        edge = first + (position * degree).astype(np.int64)
        edge[alone] = 0
        peer = np.take(overlay.indices, edge, mode="clip") if overlay.indices.size else users.copy()
        peer[alone] = -1
        return peer

    def _member(self, users: Users, position: Floats) -> Users:
        """The member at a relative position in [0, 1) of each user's cluster."""
        offsets = self._shard.offsets
        cluster = np.searchsorted(offsets, users, side="right") - 1
        within = position * (offsets[cluster + 1] - offsets[cluster])
        return within.astype(np.int32) + offsets[cluster].astype(np.int32)

    def _entry(self, view: GossipView, users: Users, attempt: int, times: Floats) -> Users:
        """A random entry of each user's view as it is at the given times."""
        slot = np.floor(self._streams.uniforms("view-slot", self._shard.index, attempt).at(users) * view.view_size)
        # how often the entry was replaced: slot s is s/v of a refresh ahead of slot 0, so that one goes after another
        epoch = np.floor(times / view.refresh_s + slot / view.view_size)
        number = (epoch * view.view_size + slot).astype(np.int64) * self._shard.size + users
        return self._member(users, self._streams.uniforms("view", self._shard.index).at(number))


def _uniform_members(position: Floats, offsets: NDArray[np.int64], start: int, stop: int) -> Users:
    """For users start..stop-1, a uniform member of the own cluster: floor(u·size) with u a multiple of 2**-53."""
    first = int(np.searchsorted(offsets, start, side="right")) - 1
    last = int(np.searchsorted(offsets, stop, side="left"))
    bounds = offsets[first : last + 1]
    if last - first == 1:
        position *= bounds[1] - bounds[0]
        peer = position.astype(np.int32)
        peer += np.int32(bounds[0])
        return peer
    inside = np.clip(bounds, start, stop)
    users = inside[1:] - inside[:-1]
    position *= np.repeat(np.diff(bounds).astype(np.float64), users)
    peer = position.astype(np.int32)
    peer += np.repeat(bounds[:-1].astype(np.int32), users)
    return peer


NO_REPLY = -1
"""In arrays of labels: no reply came."""


@dataclass(frozen=True)
class Asking:
    """How many peers a user asks in parallel, and whether she goes without replies that never come.

    shares: (k, its probability), of which every user draws her own k. answered: she submits the majority of the labels
    that came, if any did; else she submits nothing unless all came.
    """

    shares: tuple[tuple[int, float], ...] = ((1, 1.0),)
    answered: bool = False

    @property
    def several(self) -> bool:
        """Whether some users ask more than one peer."""
        return max(self.shares)[0] > 1

    @property
    def described(self) -> str:
        """The numbers of peers in words, such as "1 or 5"."""
        return " or ".join(str(k) for k, _ in self.shares)

    @property
    def requests(self) -> float:
        """Peers whom a user asks, on average."""
        return sum(k * share for k, share in self.shares)

    @property
    def coins(self) -> list[tuple[int, float]]:
        """(k, probability) in the order in which coins are tossed: the first that shows heads is a user's k."""
        shares = [weight for _, weight in self.shares]
        return [(k, weight / sum(shares[position:])) for position, (k, weight) in enumerate(self.shares)]

    def numbers(self, users: NDArray[np.integer], streams: Streams, shard: Shard) -> NDArray[np.int64]:
        """The k of some users of a shard: the coins that `LabelExchangeProtocol` tosses."""
        (*tossed, (last, _)) = self.coins
        numbers = np.full(users.size, last)
        for toss, (k, probability) in reversed(list(enumerate(tossed))):
            numbers[streams.uniforms("protocol/peers", shard.index, toss).at(users) < probability] = k
        return numbers


ONE_PEER = Asking()
"""Every user asks one peer, as in the clustering paper."""


def first_of_majority(labels: NDArray[np.integer]) -> NDArray[np.int64]:
    """The position of the first label of the plurality in each row of (m, k) labels, by the order of asking.

    Of labels that came equally often the first one counts. Peers are drawn independently from one law, so that every
    order of their labels is equally likely: it is a fair coin. Where nothing came, position 0.

    >>> first_of_majority(np.array([[0, 2, 2], [1, 0, NO_REPLY]])).tolist()
    [1, 0]
    """
    votes = np.zeros(labels.shape, dtype=np.int64)
    for column in labels.T:
        votes += labels == column[:, None]
    votes[labels == NO_REPLY] = 0
    return np.asarray(votes.argmax(axis=1))
