"""What users hold on their way through the batched engine: labels in messages, and replies to several questions."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.exchange.peers import NO_REPLY, first_of_majority
from p2p_sim.network.event_queue import Times, Users
from p2p_sim.network.faults import Faults, InTransit

Payload = NDArray[Any]


class Majority(NamedTuple):
    """What users pass on who ask several peers: user (m,), the label that most of her peers gave her (m, as `label`),
    and the first peer who gave it (m, as `peer`)."""

    user: Users
    label: Payload
    peer: Users


class MessageContents:
    """What one shard's messages carry on a network whose faults change payloads.

    Args:
        payload: (m, ...) what each user answers.
        faults: of the network.
        num_classes: K.
    """

    def __init__(self, payload: Payload, faults: Faults, num_classes: int) -> None:
        self._payload, self._faults, self._num_classes = payload, faults, num_classes
        self.held, self.submitted = payload.copy(), payload.copy()
        """What each user passes on, and what the learner got from her first submission."""
        self.coming: dict[int, Payload] = {}
        """What messages of a kind carry on arrival, by the user who asks or submits."""

    def send(self, kind: int, messages: InTransit) -> None:
        """Put payloads on their way, as they will arrive, for a kind of message; requests carry none."""
        if messages.leg in ("request", "probe"):
            return
        sent = self.held[messages.user] if messages.leg == "submission" else self._payload[messages.sender]
        coming = self.coming.setdefault(kind, np.zeros_like(self._payload))
        coming[messages.user] = self._faults.corrupted(messages, sent, self._num_classes)


class Questions:
    """The replies to users' questions, where they ask several peers.

    numbers: (m,) how many questions each user has; most: the largest number. labels, peers: (m, most) the label of each
    reply and whose it is. settled: (m,) how many of her questions have a reply or are given up; last_s: (m,) when the
    last of them was, seconds. own: (m,) whether a reply is her own label, for want of another.
    """

    def __init__(self, numbers: NDArray[np.int64]) -> None:
        self.numbers, self.most, size = numbers, int(numbers.max()), numbers.size
        self.labels = np.full((size, self.most), NO_REPLY, dtype=np.int16)
        self.peers = np.zeros((size, self.most), dtype=np.int32)
        self.settled, self.last_s = np.zeros(size, dtype=np.int64), np.zeros(size)
        self.own = np.zeros(size, dtype=np.bool_)

    def settle(self, users: Users, times: Times) -> Users:
        """Note that a question of each is settled; the users for whom it was the last."""
        self.settled[users] += 1
        self.last_s[users] = np.maximum(self.last_s[users], times)
        return np.asarray(users[self.settled[users] == self.numbers[users]])

    def reply(self, users: Users, question: int, labels: Payload, peers: Users, own: bool) -> None:
        """Note the labels (m,) that came in reply to a question, and whose they are; `own`: the users' own."""
        self.labels[users, question], self.peers[users, question] = labels, peers
        self.own[users] |= own

    def majority(self, users: Users) -> Majority:
        """The plurality of the replies of each of the users who have any."""
        first = first_of_majority(self.labels[users])
        labels, peers = self.labels[users, first], self.peers[users, first]
        came = labels != NO_REPLY
        return Majority(users[came], labels[came], peers[came])
