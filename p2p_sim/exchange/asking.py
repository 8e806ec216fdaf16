"""How many peers each user asks, and what she passes on of their noisy labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.streams import Streams
from p2p_sim.population.population import Shard

Users = NDArray[np.int32]
Times = NDArray[np.float64]
Payload = NDArray[Any]
NO_REPLY = -1
"""Stands where a label would, had it come."""


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
        """Whether anybody asks more than one peer."""
        return self.most > 1

    @property
    def most(self) -> int:
        """The largest k."""
        return max(k for k, _ in self.shares)

    @property
    def coins(self) -> list[tuple[int, float]]:
        """(k, probability) in the order in which coins are tossed: the first that shows heads is a user's k."""
        shares = [weight for _, weight in self.shares]
        left = [sum(shares[place:]) for place in range(len(shares))]
        return [(k, weight / rest) for (k, weight), rest in zip(self.shares, left, strict=True)]

    def numbers(self, users: NDArray[np.integer], streams: Streams, shard: Shard) -> NDArray[np.int64]:
        """The k of some users of a shard: the coins that `LabelExchangeProtocol` tosses."""
        (*tossed, (last, _)) = self.coins
        numbers = np.full(users.size, last)
        for place, (k, probability) in reversed(list(enumerate(tossed))):
            numbers[streams.uniforms("protocol/peers", shard.index, place).at(users) < probability] = k
        return numbers


ONE_PEER = Asking()
"""The exchange of the clustering paper."""


def first_of_majority(labels: NDArray[np.integer]) -> NDArray[np.int64]:
    """The place of the first label of the plurality in each row of (m, k) labels, by the order of asking.

    Of labels that came equally often the first one counts. Peers are drawn independently from one law, so that every
    order of their labels is equally likely: it is a fair coin. Where nothing came, place 0.

    >>> first_of_majority(np.array([[0, 2, 2], [1, 0, NO_REPLY]])).tolist()
    [1, 0]
    """
    votes = np.zeros(labels.shape, dtype=np.int64)
    for column in labels.T:
        votes += labels == column[:, None]
    votes[labels == NO_REPLY] = 0
    places: NDArray[np.int64] = votes.argmax(axis=1)
    return places


class Questions:
    """What users have of their questions, where they ask several peers.

    numbers: (m,) questions of each. labels, peers: (m, most) of each reply. settled: (m,) how many are. last_s: when
    the last so far was, seconds. own: (m,) whether a reply is her own label, for want of another.
    """

    def __init__(self, numbers: NDArray[np.int64], most: int) -> None:
        self.numbers, size = numbers, numbers.size
        self.labels = np.full((size, most), NO_REPLY, dtype=np.int16)
        self.peers = np.zeros((size, most), dtype=np.int32)
        self.settled, self.last_s = np.zeros(size, dtype=np.int64), np.zeros(size)
        self.own = np.zeros(size, dtype=np.bool_)

    def settle(self, users: Users, times: Times) -> Users:
        """Note that a question of each is settled; the users for whom it was the last."""
        self.settled[users] += 1
        self.last_s[users] = np.maximum(self.last_s[users], times)
        done: Users = users[self.settled[users] == self.numbers[users]]
        return done

    def reply(self, users: Users, question: int, labels: Payload, peers: Users, own: bool) -> None:
        """Note what came."""
        self.labels[users, question], self.peers[users, question] = labels, peers
        self.own[users] |= own

    def majority(self, users: Users) -> tuple[Users, Payload, Users]:
        """Those who have any reply, what most of theirs say, and who was the first to say so."""
        place = first_of_majority(self.labels[users])
        labels, peers = self.labels[users, place], self.peers[users, place]
        came = labels != NO_REPLY
        return users[came], labels[came], peers[came]
