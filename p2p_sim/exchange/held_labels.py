"""Labels in the batched engine: the contents of messages, and the replies of several peers."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.exchange.peers import NO_REPLY, first_of_majority
from p2p_sim.network import Faults, InTransit, Times, Users

Payload = NDArray[Any]


class Majority(NamedTuple):
    """Labels that m users pass on. user: (m,) the users. label: (m,) the commonest label among each user's replies.
    peer: (m,) the first peer who gave this label.
    """

    user: Users
    label: Payload
    peer: Users


class MessageContents:
    """The payloads (labels or other contents) of messages on a network whose faults change payloads. All messages
    belong to one shard, a group of whole clusters.

    Args:
        payload: (m, ...) what each user answers when she is asked. faults: the network's faults. num_classes: number K
        of classes.
    """

    def __init__(self, payload: Payload, faults: Faults, num_classes: int) -> None:
        self._payload, self._faults, self._num_classes = payload, faults, num_classes
        self.held, self.submitted = payload.copy(), payload.copy()
        """(m, ...) the payload that each user passes on, and the first payload that the learner got from her."""
        self.coming: dict[int, Payload] = {}
        """For each kind of message, the payloads (m, ...) that arrive, by the user who asks or submits."""

    def send(self, kind: int, messages: InTransit) -> None:
        """Note the payloads with which the messages of one kind will arrive. Faults of the network may have changed
        payloads. Requests carry no label. A submission carries the label that its user holds. A reply carries the
        sender's own answer.

        Args:
            kind: the number of this kind of message, under which the payloads are kept. messages: the messages that are
            not lost, with senders, users and times.
        """
        if messages.leg in ("request", "probe"):
            return
        sent = self.held[messages.user] if messages.leg == "submission" else self._payload[messages.sender]
        coming = self.coming.setdefault(kind, np.zeros_like(self._payload))
        coming[messages.user] = self._faults.corrupted(messages, sent, self._num_classes)


class Questions:
    """The replies to users' questions, if users ask several peers. Each question of a user goes to one peer.

    numbers: (m,) number of questions of each user; most: the largest of these numbers. labels, peers: (m, most) label
    and sender of each reply. settled: (m,) how many of a user's questions have a reply or were given up. last_s: (m,)
    when the last of these questions was settled, in seconds. own: (m,) whether a user uses her own label in place of a
    reply that did not come.
    """

    def __init__(self, numbers: NDArray[np.int64]) -> None:
        self.numbers, self.most, size = numbers, int(numbers.max()), numbers.size
        self.labels = np.full((size, self.most), NO_REPLY, dtype=np.int16)
        self.peers = np.zeros((size, self.most), dtype=np.int32)
        self.settled, self.last_s = np.zeros(size, dtype=np.int64), np.zeros(size)
        self.own = np.zeros(size, dtype=np.bool_)

    def settle(self, users: Users, times: Times) -> Users:
        """Note for each of m users that one of her peers has replied, or that she gave up on this peer. Returns the
        users who now wait for no peer.

        Args:
            users: (m,) numbered from the shard's first. times: (m,) when this happened, seconds; the latest time is
            kept for each user.
        """
        self.settled[users] += 1
        self.last_s[users] = np.maximum(self.last_s[users], times)
        return np.asarray(users[self.settled[users] == self.numbers[users]])

    def reply(self, users: Users, question: int, labels: Payload, peers: Users, own: bool) -> None:
        """Note the label that each of m users got from one of her peers.

        Args:
            users: (m,) who asked. question: which of the peers of each user replied, as a number from 0. labels: (m,)
            the labels that came. peers: (m,) who replied. own: whether all these labels are the users' own, taken in
            place of replies that did not come.
        """
        self.labels[users, question], self.peers[users, question] = labels, peers
        self.own[users] |= own

    def majority(self, users: Users) -> Majority:
        """The users with at least one reply, the commonest label among each user's replies, and the first peer who gave
        this label. users: users who have asked several peers, numbered from the shard's first user.
        """
        first = first_of_majority(self.labels[users])
        labels, peers = self.labels[users, first], self.peers[users, first]
        came = labels != NO_REPLY
        return Majority(users[came], labels[came], peers[came])
