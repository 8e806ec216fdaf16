"""The transcript of a label exchange: the messages sent, lost and delivered, and what each observer saw."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

Users = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Columns:
    """A table whose columns, (m,), are the fields of a subclass. types: NumPy's type of each field, in order."""

    types: ClassVar[tuple[type[np.generic], ...]]

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """One table with the rows of several tables, one table below the other. Without tables, it has no rows."""
        nothing = cls(*(np.empty(0, each) for each in cls.types))
        return cls(*map(np.concatenate, zip(*(vars(part).values() for part in [nothing, *parts]), strict=True)))


@dataclass(frozen=True)
class Sent(Columns):
    """Messages as they were sent, including copies that the network made. Each array has one entry for each message.

    kind: REQUEST, REPLY or SUBMISSION. sender, receiver: user index, or LEARNER. attempt: number of the request, from
    0, among all requests for the same question. A question is one search for a label. A message sent unasked looks like
    a request; its attempt is -1. sent_s: when the message was sent, seconds. arrives_s: when the message arrives,
    seconds; infinity: the message was lost. forwarded: whether the message is a request that a user passes on, as a
    step of a random walk. duplicate: whether the network made this message as a copy. whose: index of the user who owns
    the noisy label in a reply or submission; -1 in a request.
    """

    types = (np.int8, np.int32, np.int32, np.int16, np.float64, np.float64, np.bool_, np.bool_, np.int32)
    kind: NDArray[np.int8]
    sender: Users
    receiver: Users
    attempt: NDArray[np.int16]
    sent_s: Floats
    arrives_s: Floats
    forwarded: Bools
    duplicate: Bools
    whose: Users


@dataclass(frozen=True)
class Spans(Columns):
    """Periods of time, each of one user. user: user index. begin_s, end_s: start and end, seconds; equal for a single
    moment.
    """

    types = (np.int32, np.float64, np.float64)
    user: Users
    begin_s: Floats
    end_s: Floats


@dataclass(frozen=True)
class Requests(Columns):
    """Requests of users' processes for a label. If a user finds nobody to ask, her request counts, but nothing is sent.
    Each array has one entry for each request.

    user: user index. question: a number that all requests of a user for one question share. Another user's question may
    have the same number. attempt: number of the request for the question, from 0. begin_s, deadline_s: when the request
    was made, and until when a reply counts, seconds. answered_s: when the first reply in time came, seconds; infinity:
    none came.
    """

    types = (np.int64, np.int64, np.int64, np.float64, np.float64, np.float64)
    user: NDArray[np.int64]
    question: NDArray[np.int64]
    attempt: NDArray[np.int64]
    begin_s: Floats
    deadline_s: Floats
    answered_s: Floats


@dataclass(frozen=True)
class MessageTrace:
    """The events of a run besides deliveries.

    sent: every message. expired: moments at which requests expired. online: periods in which users were online. The end
    of a period may be infinite. None: every user was always online. requests: the requests of users' processes. None:
    the batched engine ran, which does not note requests.
    """

    sent: Sent
    expired: Spans
    online: Spans | None
    requests: Requests | None = None

    @staticmethod
    def join(parts: "list[MessageTrace]") -> "MessageTrace":
        """One trace with the unchanged events of several shards (groups of clusters), shard by shard."""
        online = [part.online for part in parts if part.online is not None]
        requests = [part.requests for part in parts if part.requests is not None]
        return MessageTrace(
            Sent.join([part.sent for part in parts]),
            Spans.join([part.expired for part in parts]),
            Spans.join(online) if online else None,
            Requests.join(requests) if requests else None,
        )


REQUEST, REPLY, SUBMISSION = 1, 2, 3
KIND_NAMES = {REQUEST: "request", REPLY: "reply", SUBMISSION: "submission"}
LEARNER = -1
"""The learner's address. A user's address is the user's index in the population."""
OBSERVERS = ("learner", "peer", "coalition", "eavesdropper")


@dataclass(frozen=True)
class Messages(Columns):
    """Delivered messages in order of time. Each array has one entry for each message.

    time_s: delivery time, seconds. kind: REQUEST, REPLY or SUBMISSION. A message sent unasked has the kind REQUEST.
    sender, receiver: user index, or LEARNER. label: the noisy label carried; -1 in a request for a label, and in a
    message with a model or several numbers. A message sent unasked may carry any number. Then `label` is the number
    without its decimals. It is -1 for a negative number, and meaningless from 32,768 on. late: whether this is a reply
    after its request's deadline; such a reply was dropped.
    """

    types = (np.float64, np.int8, np.int32, np.int32, np.int16, np.bool_)
    time_s: NDArray[np.float64]
    kind: NDArray[np.int8]
    sender: NDArray[np.int32]
    receiver: NDArray[np.int32]
    label: NDArray[np.int16]
    late: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.time_s)

    def select(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Self:
        """The chosen messages. rows: a mask (m,), or numbers of messages."""
        return type(self)(*(column[rows] for column in vars(self).values()))

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """All messages of several parts, in order of time, then of kind, then of sender."""
        whole = super().join(parts)
        order = np.argsort(whole.time_s)
        time_s = whole.time_s[order]
        if (time_s[1:] == time_s[:-1]).any():  # rare: this sorting takes three times as long
            order = np.lexsort((whole.sender, whole.kind, whole.time_s))
        return whole.select(order)


@dataclass(frozen=True)
class Transcript:
    """Every delivered message, and what each observer saw. A transcript never holds a true label.

    messages: the delivered messages. trace: the events besides deliveries; None if models are exchanged.
    """

    messages: Messages
    trace: MessageTrace | None = None

    def view(self, observer: str, members: Collection[int] = ()) -> Messages:
        """The messages that an observer saw, with their times.

        Args:
            observer: a "learner" sees the submissions. A "peer" sees all messages that one user sent or received. A
            "coalition" sees all messages that several users sent or received, and the submissions. An "eavesdropper"
            sees everything. members: the user index of the peer, or the user indices of the coalition.

        Raises:
            ValueError: the observer is unknown, `members` of a peer is not one user, or a coalition is empty.
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
