"""What each observer of a label exchange saw."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.exchange.message_trace import MessageTrace

REQUEST, REPLY, SUBMISSION = 1, 2, 3
KIND_NAMES = {REQUEST: "request", REPLY: "reply", SUBMISSION: "submission"}
LEARNER = -1
"""The learner's address; users have their index in the population."""
OBSERVERS = ("learner", "peer", "coalition", "eavesdropper")


@dataclass(frozen=True)
class Messages:
    """Delivered messages in order of time. All arrays have one entry a message.

    time_s: delivery time, seconds.
    kind: REQUEST, REPLY or SUBMISSION.
    sender, receiver: user index, or LEARNER.
    label: the noisy label carried; -1 in a request, and where messages carry more than a class.
    late: a reply that came after its request's deadline and was dropped.
    """

    time_s: NDArray[np.float64]
    kind: NDArray[np.int8]
    sender: NDArray[np.int32]
    receiver: NDArray[np.int32]
    label: NDArray[np.int16]
    late: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.time_s)

    def select(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> "Messages":
        """The messages at the given rows."""
        return Messages(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    @staticmethod
    def nothing() -> "Messages":
        """No messages at all."""
        user = np.empty(0, np.int32)
        return Messages(
            np.empty(0), np.empty(0, np.int8), user, user, np.empty(0, np.int16), np.empty(0, dtype=np.bool_)
        )

    @staticmethod
    def join(parts: "list[Messages]") -> "Messages":
        """All messages of several lists, in order of time (ties: by kind, then sender)."""
        names = Messages.__dataclass_fields__
        parts = parts or [Messages.nothing()]
        whole = Messages(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
        order = np.argsort(whole.time_s)
        time_s = whole.time_s[order]
        if (time_s[1:] == time_s[:-1]).any():  # rare, and three times the work
            order = np.lexsort((whole.sender, whole.kind, whole.time_s))
        return whole.select(order)


@dataclass(frozen=True)
class Transcript:
    """Every message that was delivered, and who could see it. It never holds a true label.

    trace: what happened besides deliveries; None where models are exchanged.
    """

    messages: Messages
    trace: MessageTrace | None = None

    def view(self, observer: str, members: Collection[int] = ()) -> Messages:
        """The messages that an observer saw, with their times.

        Args:
            observer: "learner" (submissions), "peer" (all messages that one user, the only member, sent or received),
                "coalition" (the same for several users, pooled with the learner), "eavesdropper" (everything).
            members: the user indices of a peer or coalition.
        """
        m = self.messages
        if observer not in OBSERVERS:
            raise ValueError(f"observer = {observer!r}: must be one of {', '.join(OBSERVERS)}")
        if observer == "peer" and len(members) != 1:
            raise ValueError(f"members = {list(members)}: a peer is one user")
        if observer == "coalition" and not members:
            raise ValueError("members = []: a coalition has at least one user")
        if observer == "eavesdropper":
            return m.select(np.ones(len(m), dtype=np.bool_))
        own = np.isin(m.sender, list(members)) | np.isin(m.receiver, list(members))
        submitted = m.receiver == LEARNER
        return m.select({"learner": submitted, "peer": own, "coalition": own | submitted}[observer])
