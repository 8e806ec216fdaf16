"""What a shard's messages carry: the payload of the user whose label it is, unless faults change it in transit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
