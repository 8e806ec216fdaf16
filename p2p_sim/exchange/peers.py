"""Random draws that all engines (ways to simulate) share: how many peers a user asks, whom she asks, and whether she
submits.

These are the draws in lines 5 and 9 of Algorithm 2 of the clustering paper, "Label differential privacy via
clustering".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import BLOCK, Streams, bernoulli
from p2p_sim.network import GossipView, Overlay
from p2p_sim.population import Shard

Users = NDArray[np.int32]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Choices:
    """The peers whom m users of a shard ask first, and whether these users submit. A shard is a group of whole
    clusters. The users have the numbers `start` to `start` + m - 1, from the shard's first user.

    peer: (m,) int32, the peer whom each user asks first; -1: the user has no neighbour.
    keep: (m,) bool, whether she passes the fetched label on to the learner.
    """

    start: int
    peer: NDArray[np.int32]
    keep: NDArray[np.bool_]


@dataclass(frozen=True)
class Peers:
    """Draws the peers of a shard's users, numbered from the shard's first user; -1 means that a user has no neighbour.

    shard: the users, a group of whole clusters. streams: the replicate's random streams. overlay: the graph of who may
    ask whom in the shard; None: users ask any user of their cluster, themselves included. hops: number of steps of the
    random walk from the user who asks to the peer who answers. view: how users' changing lists of peers work
    (gossip views); None: there are no such lists.
    """

    shard: Shard
    streams: Streams
    overlay: Overlay | None
    hops: int = 1
    view: GossipView | None = None

    def choices(self, sampling_rate: float) -> Iterator[Choices]:
        """Yields whom each user asks first, and whether she submits, in blocks of 65,536 users. Blocks keep the memory
        small in a cluster of any size. sampling_rate: θ, the probability that a user submits.
        """
        rng = self.streams.generator("peer", self.shard.index)
        keep = self.streams.generator("keep", self.shard.index)
        for start in range(0, self.shard.size, BLOCK):
            stop = min(start + BLOCK, self.shard.size)
            peer = self.first(rng, start, stop)
            yield Choices(start, peer, bernoulli(keep, sampling_rate, stop - start))

    def first(self, rng: np.random.Generator, start: int, stop: int) -> Users:
        """The peers whom users `start` to `stop` - 1 of the shard ask first, numbered from the shard's first user; -1:
        no neighbour. A request may reach such a peer in several random steps. rng: one generator for all users. Calls
        must take users in ascending order. If requests walk more than one step, the generator is not used.
        """
        if self.hops > 1:
            return self.path(np.arange(start, stop, dtype=np.int32), 0)[-1]
        position = rng.random(stop - start)
        if self.overlay is not None:
            return self._neighbour(np.arange(start, stop, dtype=np.int32), position)
        # the peer is a uniform member of the user's cluster: floor(u·size) for a random multiple u of 2**-53; arrays
        # are changed in place to save memory
        offsets = self.shard.offsets
        low = int(np.searchsorted(offsets, start, side="right")) - 1
        high = int(np.searchsorted(offsets, stop, side="left"))
        bounds = offsets[low : high + 1]
        inside = np.clip(bounds, start, stop)
        users = inside[1:] - inside[:-1]
        position *= np.repeat(np.diff(bounds).astype(np.float64), users) if high - low > 1 else bounds[1] - bounds[0]
        peer = position.astype(np.int32)
        peer += np.repeat(bounds[:-1].astype(np.int32), users) if high - low > 1 else np.int32(bounds[0])
        return peer

    def again(self, users: Users, attempt: int, times: Floats) -> Users:
        """The peer whom each of m users asks in a later request, (m,), numbered from the shard's first user; -1: no
        neighbour. In gossip views, users' changing lists of peers, the peer depends on the time. The peer of the first
        request is then drawn here too.

        Args:
            users: (m,) who ask. attempt: number of the request, from 1; with gossip views from 0. times: (m,) when the
            requests are sent, seconds; used only with gossip views.
        """
        if self.hops > 1:
            return self.path(users, attempt)[-1]
        if (view := self.view) is not None:
            # a random slot of her view. The entry of each slot is replaced once in a refresh period. The entry of slot
            # s is replaced s/view_size of a period before the entry of slot 0.
            slot = np.floor(self.streams.uniforms("view-slot", self.shard.index, attempt).at(users) * view.view_size)
            # `epoch`: how often the slot's entry has been replaced when she asks. Epoch, slot and user give the number
            # of the entry.
            epoch = np.floor(times / view.refresh_s + slot / view.view_size)
            number = (epoch * view.view_size + slot).astype(np.int64) * self.shard.size + users
            return self._member(users, self.streams.uniforms("view", self.shard.index).at(number))
        position = self.streams.uniforms("peer", self.shard.index, attempt).at(users)
        return self._neighbour(users, position) if self.overlay is not None else self._member(users, position)

    def path(self, users: Users, attempt: int) -> list[Users]:
        """The users whom the requests of m users reach. Each request walks at random from neighbour to neighbour, and
        starts at the user who asks. The list has an array (m,) for each step; -1: a user on the way has no neighbour.

        Args:
            users: (m,) who ask, numbered from the shard's first user. attempt: number of the request, from 0, which
            gives the walk its random numbers.
        """
        node, path = users, []
        for hop in range(self.hops):
            position = self.streams.uniforms(f"walk-{hop}", self.shard.index, attempt).at(users)
            node = self._neighbour(node, position)
            path.append(node)
        return path

    def _neighbour(self, users: Users, position: Floats) -> Users:
        """A neighbour of each of m users, (m,), numbered from the shard's first user. The result is -1 if the user has
        no neighbour, or if her own number is -1.

        Args:
            users: (m,) numbered from the shard's first. position: (m,) relative places in the lists of neighbours, in
            [0, 1). Random positions give random neighbours.
        """
        overlay = cast(Overlay, self.overlay)  # never None here: without an overlay, `_member` is called
        first = overlay.indptr[users]
        degree = overlay.indptr[users + 1] - first
        alone = degree <= 0  # also for user -1: her degree is indptr[0] - indptr[-1], first entry minus last
        edge = first + (position * degree).astype(np.int64)
        edge[alone] = 0
        peer = np.take(overlay.indices, edge, mode="clip") if overlay.indices.size else users.copy()
        peer[alone] = -1
        return peer

    def _member(self, users: Users, position: Floats) -> Users:
        """A member of the cluster of each of m users, (m,), as a number from the shard's first user.

        Args:
            users: (m,) numbered from the shard's first. position: (m,) relative places in the lists of the clusters'
            users, in [0, 1). Random positions give random members.
        """
        offsets = self.shard.offsets
        cluster = np.searchsorted(offsets, users, side="right") - 1
        within = position * (offsets[cluster + 1] - offsets[cluster])
        return within.astype(np.int32) + offsets[cluster].astype(np.int32)


NO_REPLY = -1
"""The entry in arrays of labels where no reply came."""


@dataclass(frozen=True)
class Asking:
    """How many peers a user asks in parallel, and whether she submits if some replies never come.

    shares: pairs (k, probability of k); every user draws her own number k of peers. answered: whether a user without
    some of her replies submits the commonest label that came. If not, she submits nothing.
    """

    shares: tuple[tuple[int, float], ...] = ((1, 1.0),)
    answered: bool = False

    @property
    def several(self) -> bool:
        """Whether some users may ask more than one peer."""
        return max(self.shares)[0] > 1

    @property
    def described(self) -> str:
        """The numbers of peers in words, such as "1 or 5"."""
        return " or ".join(str(k) for k, _ in self.shares)

    @property
    def requests(self) -> float:
        """The expected number of peers whom a user asks."""
        return sum(k * share for k, share in self.shares)

    @property
    def coins(self) -> list[tuple[int, float]]:
        """Pairs (k, probability of heads) of coins that a user tosses one after another. The first coin that shows
        heads gives her number k of peers.
        """
        shares = [weight for _, weight in self.shares]
        return [(k, weight / sum(shares[position:])) for position, (k, weight) in enumerate(self.shares)]

    def numbers(self, users: NDArray[np.integer], streams: Streams, shard: Shard) -> NDArray[np.int64]:
        """How many peers each of m users asks, (m,), drawn with the configured probabilities. The engine with a process
        for each user uses the same random numbers, and gives equal results.

        Args:
            users: (m,) numbered from the shard's first. streams: the replicate's sources of random numbers. shard: the
            group of whole clusters that has the users.
        """
        (*tossed, (last, _)) = self.coins
        numbers = np.full(users.size, last)
        for toss, (k, probability) in reversed(list(enumerate(tossed))):
            numbers[streams.uniforms("protocol/peers", shard.index, toss).at(users) < probability] = k
        return numbers


ONE_PEER = Asking()
"""Every user asks one peer, as in the clustering paper."""


def first_of_majority(labels: NDArray[np.integer]) -> NDArray[np.int64]:
    """For each of m users, (m,), the position at which the commonest of her labels occurs first. labels: (m, k) what
    each user's k peers replied, in the order of her requests; -1: no reply came.

    Of equally common labels, the label that occurs first counts. This is a fair choice: peers are independent draws
    from one distribution, and every order of labels is equally likely. If no label came, the position is 0.

    >>> first_of_majority(np.array([[0, 2, 2], [1, 0, NO_REPLY]])).tolist()
    [1, 0]
    """
    votes = np.zeros(labels.shape, dtype=np.int64)
    for column in labels.T:
        votes += labels == column[:, None]
    votes[labels == NO_REPLY] = 0
    return np.asarray(votes.argmax(axis=1))
