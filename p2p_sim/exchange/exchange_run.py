"""One shard's run of an exchange, message by message: its traffic, the delivered messages, and what the learner got."""

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import Streams
from p2p_sim.exchange.adversaries import Roles
from p2p_sim.exchange.message_timing import NEVER, Floats, MessageTiming
from p2p_sim.exchange.transcript import LEARNER, REQUEST, Messages, MessageTrace, Sent, Spans
from p2p_sim.network import InTransit, Network
from p2p_sim.population import Shard

EXACT = 2**22
"""Largest number of arrival times that are kept without rounding."""
DROPPED = 36
"""Number of trailing bits that are rounded away from each time if there are more times than `EXACT`. This leaves 17
significant bits."""


@dataclass
class Arrivals:
    """Arrival times in seconds, at least 0, which are added piece by piece.

    More than `EXACT` times are rounded to 17 significant bits and counted by value. A quantile is then right to one
    part in 130,000. A quantile depends only on the times, not on their order or on the pieces.

    times: times without rounding, in pieces. values, counts: (V,) distinct rounded times, ascending, and how often each
    occurred.
    """

    times: list[NDArray[np.float64]] = field(default_factory=list)
    values: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def add(self, arrivals: "Arrivals") -> None:
        """Add the arrival times of another record to this one."""
        self.times += arrivals.times
        self._merge(arrivals.values, arrivals.counts)
        if sum(piece.size for piece in self.times) > EXACT:
            self._round()

    def quantile(self, share: float) -> float | None:
        """The time by which a share of all submissions, 0 to 1, has arrived, in seconds. Between two times it is
        interpolated, as in `numpy.quantile`. None: nothing arrived.
        """
        total = sum(piece.size for piece in self.times) + int(self.counts.sum())
        if total == 0:
            return None
        if total <= EXACT:
            return float(np.quantile(np.concatenate(self.times), share))
        self._round()
        # linear interpolation between the two times around the share's rank
        rank = share * (total - 1)
        below = int(rank)
        around = np.searchsorted(np.cumsum(self.counts), [below, min(below + 1, total - 1)], side="right")
        low, high = (self.values[around] << DROPPED).view(np.float64).tolist()
        return float(low + (high - low) * (rank - below))

    def _round(self) -> None:
        """Save memory: round the arrival times to 17 significant bits, and keep only how often each rounded time
        occurred.
        """
        # no time is negative: the bits of the times, read as whole numbers, have the order of the times
        values = np.concatenate([np.zeros(0), *self.times]).view(np.int64)
        self.times = []
        values += 1 << (DROPPED - 1)
        values >>= DROPPED
        low, high = int(values.min(initial=2**62)), int(values.max(initial=0))
        if high - low < EXACT:  # bincount is faster, but its memory grows with the range of values
            counts = np.bincount(values - low)
            present = np.flatnonzero(counts)
            self._merge(present + low, counts[present])
        else:
            self._merge(*np.unique(values, return_counts=True))

    def _merge(self, values: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Add rounded arrival times, and how often each occurred, to the counts.

        Args:
            values: (V,) distinct times, ascending. Each is a whole number: the upper 28 of the 64 bits of a time in
            seconds. counts: (V,) how often each occurred.
        """
        if not values.size:
            return
        every, index = np.unique(np.concatenate([self.values, values]), return_inverse=True)
        weights = np.concatenate([self.counts, counts]).astype(np.float64)  # exact: below 2**53
        self.values, self.counts = every, np.bincount(index, weights).astype(np.int64)


@dataclass(frozen=True)
class Traffic:
    """Counts of messages and requests in one run, all shards together.

    protocol_events: users' starts, delivered messages and expired requests.
    fetches: requests. answered: requests with a reply in time. expired: requests that ran into their time-out. failed:
    if no time-out is set, requests that never get a reply. late_replies: replies after the time-out of their request.
    messages_sent: messages that users sent; a request that other users forward counts once for each step.
    messages_duplicated: copies that the network made. messages_lost: messages and copies that were lost on the way.
    messages_undelivered: messages and copies whose receiver was offline. messages_delivered: messages and copies that
    were delivered.
    bytes_sent: size of the messages that users sent. learner_messages, learner_bytes: what reached the learner, in time
    or late.
    fallbacks: users who passed on their own label because no reply came. With several peers, also users who passed on a
    majority that counts such a label. retries: requests that repeat an expired request; `fetches` counts these too.
    departed: expired requests of users who never came online again.
    completion_time_s: time of the last protocol event, in seconds. If the learner's link has a limited rate, the
    passage of the last submission is an event too.
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
    """Counts one shard's traffic and, if `record` is set, keeps every message.

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
        """Count m events of the protocol, such as deliveries or starts of users. Also note the latest time. times: (m,)
        when the events happened, seconds.
        """
        if times.size:
            self.counts["protocol_events"] += times.size
            self._last = max(self._last, float(times.max()))

    def delivered(
        self, kind: int, times: Floats, sender: NDArray[np.int32], receiver: NDArray[np.int32] | None, *,
        label: NDArray[np.generic] | None = None, late: NDArray[np.bool_] | None = None,
    ) -> None:  # fmt: skip
        """Count m delivered messages of one kind. If messages are kept, note each message.

        Args:
            kind: 1 request, 2 reply, 3 submission. times: (m,) of delivery, seconds. sender: (m,) users, numbered from
            the shard's first. receiver: (m,) users; None: the learner. label: (m,) the labels that the messages carry;
            None: no labels, as in requests. Payloads of several numbers, (m, ...), are noted as -1, like missing
            labels. late: (m,) which replies came after the time-out of their request; None: none.
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
        """Count m requests that expired. If messages are kept, note each request.

        users: (m,) who asked, numbered from the shard's first. times: (m,) when the requests expired, seconds.
        """
        self.event(times)
        self.counts["expired"] += users.size
        if self._log is not None:
            self._expired.append(Spans(users + np.int32(self._first), times.copy(), times.copy()))

    def sent(
        self, kind: int, messages: InTransit, goes: NDArray[np.bool_] | None, arrives: Floats,
        source: NDArray[np.int32],
    ) -> None:  # fmt: skip
        """Note m messages of one kind that were sent, lost messages included. Call this only where messages are kept.

        Args:
            kind: 1 request, 2 reply, 3 submission. messages: the m messages, with sender, receiver and time of sending.
            goes: (m,) which messages are not lost; None: all. arrives: when each message that is not lost arrives,
            seconds, in the order of these messages. source: for every user of the shard, the user whose label she
            passes on to the learner.
        """
        size, first, learner = messages.user.size, np.int32(self._first), messages.leg == "submission"
        coming = np.full(size, np.inf)  # infinity: the message is lost
        coming[slice(None) if goes is None else goes] = arrives
        # `owner`: whose label the message carries. A reply carries the label of the user who replies. A submission
        # carries the label that its sender passes on.
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
        """All messages as they were sent, lost messages included, and the moments at which requests expired. Both are
        empty if messages were not kept. The field `online` is None here.
        """
        return MessageTrace(Sent.join(self._sent), Spans.join(self._expired), online=None)

    def messages(self) -> Messages:
        """All delivered messages in order of time. Raises a ValueError if messages were not kept."""
        if self._log is None:
            raise ValueError("this exchange was not recorded")
        return Messages.join(self._log)

    def traffic(self, learner_bytes: int) -> Traffic:
        """The counts of requests and messages, with the time of the last event. learner_bytes: size of one message to
        the learner, in bytes.
        """
        to_learner = self.counts["learner_messages"] * learner_bytes
        return Traffic(**self.counts, learner_bytes=to_learner, completion_time_s=self._last)


@dataclass(frozen=True)
class ReceivedLabels:
    """The s submissions that the learner takes.

    user: (s,) the user of each submission, as her index in the population, ascending. label: (s, ...) what she
    submitted. time_s: (s,) time of arrival, seconds.
    """

    user: NDArray[np.int64]
    label: NDArray[np.generic]
    time_s: Floats


class ExchangeRun(ABC):
    """One shard's run of an exchange, message by message.

    Args:
        shard: the users, a group of whole clusters. network: the network, already drawn for all users. streams: the
        replicate's random streams. roles: who does not follow the protocol; None: every user follows it.
        sampling_rate: θ. payload_bytes: size of a label. record: keep every delivered message for a transcript.
    """

    def __init__(
        self, shard: Shard, network: Network, streams: Streams, *, roles: Roles | None = None,
        sampling_rate: float = 1.0, payload_bytes: int = 1, record: bool = False,
    ) -> None:  # fmt: skip
        self._shard, self._config = shard, network.config
        self._roles = Roles.without_adversaries(shard.size) if roles is None else roles
        self.journey = MessageTiming(
            shard, network, streams, self._roles, sampling_rate=sampling_rate, payload_bytes=payload_bytes
        )
        self.ledger = Ledger(shard.start, record)
        self.source = self.journey.choices.peer
        """(m,) the user whose label each user passes on; an entry has a meaning only if her submission arrives."""
        self.fallback = np.zeros(shard.size, dtype=np.bool_)
        """(m,) which users pass on their own label because no reply came, or a majority that counts this label."""
        self.arrival = np.full(shard.size, NEVER)
        """(m,) when each user's first submission reaches the learner, seconds; infinity: never."""
        self.probed = np.zeros(shard.size, dtype=np.bool_)
        """(m,) which users' answers came to an adversary who asks everybody."""

    @abstractmethod
    def run(self) -> Traffic:
        """Send and deliver all messages of the shard. Returns counts of messages, with the time of the last event."""

    @abstractmethod
    def submissions(self) -> ReceivedLabels:
        """The submissions that arrived in time, in order of user. The learner sees a set without an order."""

    @property
    def arrivals(self) -> Floats:
        """Times at which submissions come to the learner's network connection, seconds, in order of user. Late
        submissions have times too. Submissions that never arrive are left out.
        """
        times: Floats = self.arrival[np.isfinite(self.arrival)]
        return times

    @arrivals.setter
    def arrivals(self, times: Floats) -> None:
        self.arrival[np.isfinite(self.arrival)] = times

    def accepts(self, times: Floats) -> NDArray[np.bool_]:
        """Which of m submissions the learner takes, (m,). times: (m,) when they arrive, seconds; infinity: never.

        If users submit in a batch at the deadline, or if there is no deadline, the learner takes all submissions that
        arrive. Otherwise the learner takes submissions that arrive by the deadline.
        """
        limit = self._config.deadline_s
        return np.isfinite(times) if limit is None or self._config.batch_submission else times <= limit

    def messages(self) -> Messages:
        """All delivered messages in order of time. Raises a ValueError if messages were not recorded."""
        return self.ledger.messages()

    def trace(self) -> MessageTrace:
        """What happened besides deliveries. The trace has the messages as they were sent, and the moments at which
        requests expired. Both are empty if the run was not recorded. The trace also has the users' periods online;
        None: all users were always online.

        Within the run, all requests of a user are numbered in one sequence. In the trace, numbers start anew for each
        question, an attempt to get the label of one peer: 0 for the first request, above 0 after a time-out.
        """
        trace, each = self.ledger.trace(), self._config.on_timeout.attempts
        sent = trace.sent
        sent = replace(sent, attempt=np.where(sent.attempt < 0, sent.attempt, sent.attempt % each))
        online = self.journey.availability
        if online is None:
            return replace(trace, sent=sent)
        users = np.repeat(np.arange(self._shard.size, dtype=np.int32), np.diff(online.indptr))
        return replace(trace, sent=sent, online=Spans(users + np.int32(self._shard.start), online.begin, online.end))
