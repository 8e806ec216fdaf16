"""What users hold on their way through the batched engine: labels in messages, and replies to several questions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_sim.exchange.asking import NO_REPLY, first_of_majority
from p2p_sim.network.event_queue import Times, Users
from p2p_sim.network.faults import Bools, Faults, Integers, InTransit

Payload = NDArray[Any]


class MessageContents:
    """The payloads of one shard's messages; where no fault changes them they are looked up and nothing is stored.

    Args:
        payload: (m, ...) what each user answers.
        faults: of the network.
        num_classes: K.
    """

    def __init__(self, payload: Payload, faults: Faults, num_classes: int) -> None:
        self.change = faults["corrupted"]
        """Whether a message may carry something else than what was sent."""
        self._payload, self._faults, self._num_classes = payload, faults, num_classes
        self._held, self._taken = (payload.copy(), payload.copy()) if self.change else (payload, payload)
        self._coming: dict[int, Payload] = {}

    def send(self, kind: int, messages: InTransit) -> None:
        """Put payloads on their way, as they will arrive, for a kind of message; requests carry none."""
        if not self.change or messages.leg in ("request", "probe"):
            return
        sent = self._held[messages.user] if messages.leg == "submission" else self._payload[messages.sender]
        coming = self._coming.setdefault(kind, np.zeros_like(self._payload))
        coming[messages.user] = self._faults.corrupted(messages, sent, self._num_classes)

    def arrived(self, kind: int, users: Integers, source: Integers) -> Payload:
        """What messages of a kind carry on arrival, (m, ...), if it was `source` (m,) whose label it is."""
        return self._coming[kind][users] if self.change else self._payload[source]

    def hold(self, users: Integers, payload: Payload) -> None:
        """Note what users will pass on."""
        if self.change:
            self._held[users] = payload

    def take(self, users: Integers, payload: Payload, first: Bools) -> None:
        """Note what reached the learner, where it is the first of a user."""
        if self.change:
            self._taken[users[first]] = payload[first]

    def submitted(self, users: Integers, source: Integers) -> Payload:
        """What the learner got from users (k,) whose labels are those of `source` (m,)."""
        return self._taken[users] if self.change else np.take(self._payload, source[users], axis=0)


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
