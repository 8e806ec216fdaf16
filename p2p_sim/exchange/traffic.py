"""Counts of messages and bytes, quantiles of arrival times in little memory, and what was delivered."""

from collections import Counter
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from p2p_sim.exchange.transcript import LEARNER, REQUEST, Messages, MessageTrace, Sent, Spans
from p2p_sim.network.faults import InTransit

EXACT = 2**22
"""Most times that are kept as they are."""
DROPPED = 36
"""Trailing bits of a time that are rounded away where there are more: 17 significant bits are left."""


@dataclass
class Arrivals:
    """Arrival times, seconds, at least 0, that are added piece by piece.

    More than `EXACT` are rounded to 17 significant bits and counted by value, so that a quantile is right to one part
    in 130,000. What is found depends on the times alone, not on their order or on the pieces.

    times: those kept as they are, in pieces. values, counts: (V,) rounded times, ascending, and how many there are.
    """

    times: list[NDArray[np.float64]] = field(default_factory=list)
    values: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def add(self, arrivals: "Arrivals") -> None:
        """Adds the arrival times of another record to this one."""
        self.times += arrivals.times
        self._merge(arrivals.values, arrivals.counts)
        if sum(piece.size for piece in self.times) > EXACT:
            self._round()

    def quantile(self, share: float) -> float | None:
        """The time by which a share, 0 to 1, has arrived, as `numpy.quantile` has it; None if nothing has."""
        total = sum(piece.size for piece in self.times) + int(self.counts.sum())
        if total == 0:
            return None
        if total <= EXACT:
            return float(np.quantile(np.concatenate(self.times), share))
        self._round()
        # between the two times around the share's rank, as a straight line
        rank = share * (total - 1)
        below = int(rank)
        around = np.searchsorted(np.cumsum(self.counts), [below, min(below + 1, total - 1)], side="right")
        low, high = (self.values[around] << DROPPED).view(np.float64).tolist()
        return float(low + (high - low) * (rank - below))

    def _round(self) -> None:
        """Round and count the times that were kept as they are."""
        values = np.concatenate([np.zeros(0), *self.times]).view(np.int64)  # the bits have the order of the numbers
        self.times = []
        values += 1 << (DROPPED - 1)
        values >>= DROPPED
        low, high = int(values.min(initial=2**62)), int(values.max(initial=0))
        if high - low < EXACT:  # bincount is faster, if it does not need too much memory
            counts = np.bincount(values - low)
            present = np.flatnonzero(counts)
            self._merge(present + low, counts[present])
        else:
            self._merge(*np.unique(values, return_counts=True))

    def _merge(self, values: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Add rounded times (V,), ascending, and how many there are of each to those counted so far."""
        if not values.size:
            return
        every, index = np.unique(np.concatenate([self.values, values]), return_inverse=True)
        weights = np.concatenate([self.counts, counts]).astype(np.float64)  # exact: below 2**53
        self.values, self.counts = every, np.bincount(index, weights).astype(np.int64)


@dataclass(frozen=True)
class Traffic:
    """Counts of one run, all shards together.

    protocol_events: users' starts, messages delivered, requests that expired.
    fetches: requests made, of which `answered` got a reply in time, `expired` did not, and `failed` never will,
    because nothing was set to expire. late_replies: replies that came after their request's time was up.
    messages_sent: by users, each step of a walk counted; messages_duplicated by the network; of both together
    messages_lost on the way, messages_undelivered because the receiver was offline, the rest delivered.
    bytes_sent: of all messages sent. learner_messages, learner_bytes: what reached the learner's door.
    fallbacks: users who passed on their own label for want of a reply.
    retries: requests, among `fetches`, of users whose earlier one expired.
    departed: users whose request expired and who never came online again.
    completion_time_s: when the last message was delivered or request expired, seconds.
    """

    protocol_events: int = 0
    fetches: int = 0
    answered: int = 0
    expired: int = 0
    failed: int = 0
    late_replies: int = 0
    messages_sent: int = 0
    messages_duplicated: int = 0
    messages_lost: int = 0
    messages_undelivered: int = 0
    messages_delivered: int = 0
    bytes_sent: int = 0
    learner_messages: int = 0
    learner_bytes: int = 0
    fallbacks: int = 0
    retries: int = 0
    departed: int = 0
    completion_time_s: float = 0.0

    def __add__(self, traffic: "Traffic") -> "Traffic":
        both = {f.name: getattr(self, f.name) + getattr(traffic, f.name) for f in fields(self)}
        both["completion_time_s"] = max(self.completion_time_s, traffic.completion_time_s)
        return Traffic(**both)


class Ledger:
    """Counts one shard's traffic and, if asked to, keeps every delivered message.

    Args:
        first: index of the shard's first user in the population.
        record: keep the messages.
    """

    def __init__(self, first: int, record: bool) -> None:
        self._first = first
        self.counts: Counter[str] = Counter()
        """The counts of `Traffic`, by their names."""
        self._last = 0.0
        self.records = record
        """Whether messages are kept."""
        self._log: list[Messages] | None = [] if record else None
        self._sent: list[Sent] = []
        self._expired: list[Spans] = []

    def event(self, times: NDArray[np.float64]) -> None:
        """Count events of the protocol that happened at the given times (m,), seconds."""
        if times.size:
            self.counts["protocol_events"] += times.size
            self._last = max(self._last, float(times.max()))

    def delivered(
        self,
        kind: int,
        times: NDArray[np.float64],
        sender: NDArray[np.int32],
        receiver: NDArray[np.int32] | None,
        *,
        label: NDArray[np.generic] | None = None,
        late: NDArray[np.bool_] | None = None,
    ) -> None:
        """Note delivered messages (m,) of a kind; users are numbered from the shard's first; no receiver: the learner.

        `label` is needed where messages are kept, and None in requests; a payload of several numbers is not kept.
        """
        self.event(times)
        self.counts["messages_delivered"] += times.size
        if receiver is None:
            self.counts["learner_messages"] += times.size
        if self._log is None:
            return
        # -1 stands for no label; users get their index in the population
        carried = np.full(times.size, -1, np.int16) if label is None or label.ndim > 1 else label.astype(np.int16)
        first, none = np.int32(self._first), np.full(times.size, LEARNER, dtype=np.int32)
        self._log.append(
            Messages(
                time_s=times.copy(),
                kind=np.full(times.size, kind, dtype=np.int8),
                sender=sender + first,
                receiver=none if receiver is None else receiver + first,
                label=carried,
                late=np.zeros(times.size, dtype=np.bool_) if late is None else late,
            )
        )

    def expired(self, users: NDArray[np.int32], times: NDArray[np.float64]) -> None:
        """Note requests of users (m,) that expired, seconds."""
        self.event(times)
        self.counts["expired"] += users.size
        if self._log is not None:
            self._expired.append(Spans(users + np.int32(self._first), times.copy(), times.copy()))

    def sent(
        self,
        kind: int,
        messages: InTransit,
        goes: NDArray[np.bool_] | None,
        arrives: NDArray[np.float64],
        source: NDArray[np.int32],
    ) -> None:
        """Note messages (m,) of a kind that were sent; only where messages are kept.

        `goes`: which are not lost (None: all). `arrives`: when those arrive, seconds. `source`: of every user of the
        shard, whose label she passes on.
        """
        size, first, learner = messages.user.size, np.int32(self._first), messages.leg == "submission"
        coming = np.full(size, np.inf)  # lost, unless it goes
        coming[slice(None) if goes is None else goes] = arrives
        # whose label it is: a submission carries the label of whoever answered its sender, a reply the sender's own
        owner = source[messages.user] if learner else messages.sender
        none = np.full(size, -1, dtype=np.int32)
        self._sent.append(
            Sent(
                kind=np.full(size, kind, dtype=np.int8),
                sender=(messages.sender + first).astype(np.int32),
                receiver=(
                    np.full(size, LEARNER, dtype=np.int32) if learner else (messages.receiver + first).astype(np.int32)
                ),
                attempt=np.full(size, messages.attempt, dtype=np.int16),
                sent_s=messages.sent_s.copy(),
                arrives_s=coming,
                forwarded=np.full(size, messages.hop > 0, dtype=np.bool_),
                duplicate=np.full(size, messages.copy % 2 == 1 and messages.hop == 0, dtype=np.bool_),
                whose=none if kind == REQUEST else (owner + first).astype(np.int32),
            )
        )

    def trace(self) -> MessageTrace:
        """Messages as they were sent, and requests that expired, if messages were kept; who was online is not noted."""
        return MessageTrace(Sent.join(self._sent), Spans.join(self._expired), online=None)

    def messages(self) -> Messages:
        """All delivered messages in order of time; a ValueError if they were not kept."""
        if self._log is None:
            raise ValueError("this exchange was not recorded")
        return Messages.join(self._log)

    def traffic(self, learner_bytes: int) -> Traffic:
        """The counts; a message to the learner has `learner_bytes` bytes."""
        to_learner = self.counts["learner_messages"] * learner_bytes
        return Traffic(**self.counts, learner_bytes=to_learner, completion_time_s=self._last)
