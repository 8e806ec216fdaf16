"""One shard's run of an exchange, and what every engine that sends messages leaves behind."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.streams import Streams
from p2p_sim.exchange.adversaries import Roles
from p2p_sim.exchange.message_timing import NEVER, Floats, MessageTiming
from p2p_sim.exchange.traffic import Ledger, Traffic
from p2p_sim.exchange.transcript import Messages, MessageTrace, Spans
from p2p_sim.network.network_config import Network
from p2p_sim.population.population import Shard


@dataclass(frozen=True)
class ReceivedLabels:
    """Submissions that the learner takes.

    user: (s,) who submitted each, index in the population, ascending. label: (s, ...). time_s: (s,) when each arrived,
    seconds.
    """

    user: NDArray[np.int64]
    label: NDArray[np.generic]
    time_s: Floats


class ExchangeRun(ABC):
    """One shard's run, message by message.

    Args:
        shard: the users. network: opened. streams: the replicate's random streams.
        roles: who does not follow the protocol; None: everybody does.
        sampling_rate: θ. payload_bytes: of a label. record: keep every delivered message for a transcript.
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
        """Whose label a user passes on, (m,), if anything of hers arrives."""
        self.fallback = np.zeros(shard.size, dtype=np.bool_)
        """Who passes on her own label for want of a reply, (m,)."""
        self.arrival = np.full(shard.size, NEVER)
        """When a user's first submission reaches the learner, seconds, (m,)."""
        self.probed = np.zeros(shard.size, dtype=np.bool_)
        """Who told a prober her noisy label, (m,)."""

    @abstractmethod
    def run(self) -> Traffic:
        """Send and deliver all messages of the shard, and return how many there were."""

    @abstractmethod
    def submissions(self) -> ReceivedLabels:
        """What arrived in time, in order of user, not of arrival: the learner's figure holds for one who sees a set."""

    @property
    def arrivals(self) -> Floats:
        """When submissions come to the learner's link, seconds, in order of user."""
        times: Floats = self.arrival[np.isfinite(self.arrival)]
        return times

    @arrivals.setter
    def arrivals(self, times: Floats) -> None:
        self.arrival[np.isfinite(self.arrival)] = times

    @property
    def in_time(self) -> NDArray[np.bool_]:
        """Whose submission the learner takes, (m,): those that arrived by her deadline, if she has one."""
        return self.accepts(self.arrival)

    def accepts(self, times: Floats) -> NDArray[np.bool_]:
        """Which submissions that arrive at these times, seconds, the learner takes."""
        limit = self._config.deadline_s
        return np.isfinite(times) if limit is None or self._config.batch_submission else times <= limit

    def messages(self) -> Messages:
        """All delivered messages in order of time; a ValueError if they were not recorded."""
        return self.ledger.messages()

    def trace(self) -> MessageTrace:
        """What happened besides deliveries, if messages were recorded; attempts count from 0 for each question."""
        trace, each = self.ledger.trace(), self._config.on_timeout.attempts
        sent = trace.sent
        sent = replace(sent, attempt=np.where(sent.attempt < 0, sent.attempt, sent.attempt % each))
        online = self.journey.availability
        if online is None:
            return replace(trace, sent=sent)
        users = np.repeat(np.arange(self._shard.size, dtype=np.int32), np.diff(online.indptr))
        return replace(trace, sent=sent, online=Spans(users + np.int32(self._shard.start), online.begin, online.end))
