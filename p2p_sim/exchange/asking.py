"""How many peers each user asks, and what she passes on of their noisy labels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.streams import Streams
from p2p_sim.population.population import Shard

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
