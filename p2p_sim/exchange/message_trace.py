"""How messages were sent, requests expired and users came and went: what a transcript of deliveries does not say."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Users = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Sent:
    """Messages as they were sent, the network's copies included. All arrays have one entry a message.

    kind: REQUEST, REPLY or SUBMISSION. sender, receiver: user index, or LEARNER. attempt: of the request, from 0.
    sent_s: seconds. arrives_s: when the message comes to its receiver, seconds; infinity: it was lost on the way.
    forwarded: a request that a user passes on, as a step of a walk. duplicate: a copy that the network made.
    whose: user index of the owner of the noisy label that a reply or submission carries; -1 in a request.
    """

    kind: NDArray[np.int8]
    sender: Users
    receiver: Users
    attempt: NDArray[np.int16]
    sent_s: Floats
    arrives_s: Floats
    forwarded: Bools
    duplicate: Bools
    whose: Users

    @staticmethod
    def join(parts: "list[Sent]") -> "Sent":
        """All messages of several lists, list by list."""
        user, time = np.empty(0, np.int32), np.empty(0)
        flag = np.empty(0, np.bool_)
        nothing = Sent(np.empty(0, np.int8), user, user, np.empty(0, np.int16), time, time, flag, flag, user)
        columns = zip(*(vars(part).values() for part in [nothing, *parts]), strict=True)
        return Sent(*map(np.concatenate, columns))


@dataclass(frozen=True)
class Spans:
    """Moments or periods of users, each array with one entry for each: user index, begin_s and end_s in seconds."""

    user: Users
    begin_s: Floats
    end_s: Floats

    @staticmethod
    def join(parts: "list[Spans]") -> "Spans":
        """All entries of several lists, list by list."""
        nothing = Spans(np.empty(0, np.int32), np.empty(0), np.empty(0))
        return Spans(*map(np.concatenate, zip(*(vars(part).values() for part in [nothing, *parts]), strict=True)))


@dataclass(frozen=True)
class MessageTrace:
    """What happened besides deliveries.

    sent: every message. expired: when requests expired; begin and end are the same moment.
    online: periods in which users were online, the end may be infinite; None: everybody always was.
    """

    sent: Sent
    expired: Spans
    online: Spans | None

    @staticmethod
    def join(parts: "list[MessageTrace]") -> "MessageTrace":
        """The trace of several shards."""
        online = [part.online for part in parts if part.online is not None]
        return MessageTrace(
            Sent.join([part.sent for part in parts]),
            Spans.join([part.expired for part in parts]),
            Spans.join(online) if online else None,
        )
