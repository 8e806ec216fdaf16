"""What every engine that sends messages leaves behind of a shard's run."""

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.streams import Streams
from p2p_sim.exchange.adversaries import Roles
from p2p_sim.exchange.message_timing import NEVER, MessageTiming
from p2p_sim.exchange.traffic import Ledger, Traffic
from p2p_sim.exchange.transcript import Messages, MessageTrace, Spans
from p2p_sim.network.network_config import Network
from p2p_sim.population.population import Shard


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
        self.journey = MessageTiming(shard, network, streams, self._roles, sampling_rate, payload_bytes)
        self.ledger = Ledger(shard.start, record)
        self.source = self.journey.choices.peer
        """Whose label a user passes on, (m,), if anything of hers arrives."""
        self.fallback = np.zeros(shard.size, dtype=np.bool_)
        """Who passes on her own label for want of a reply, (m,)."""
        self.arrival = np.full(shard.size, NEVER)
        """When a user's submission reaches the learner, seconds, (m,)."""
        self.probed = np.zeros(shard.size, dtype=np.bool_)
        """Who told a prober her noisy label, (m,)."""

    @abstractmethod
    def run(self) -> Traffic:
        """Run the exchange to its end."""

    @abstractmethod
    def submissions(self) -> tuple[NDArray[np.int64], NDArray[np.generic]]:
        """What arrived in time: who submitted (index in the population, ascending), and the label she passed on.

        In order of user, not of arrival: the learner's figure holds for a learner who sees a set.
        """

    @property
    def in_time(self) -> NDArray[np.bool_]:
        """Whose submission the learner takes, (m,)."""
        limit = self._config.deadline_s
        return np.isfinite(self.arrival) if limit is None or self._config.batch_submission else self.arrival <= limit

    def messages(self) -> Messages:
        """All delivered messages, if they were recorded."""
        return self.ledger.messages()

    def trace(self) -> MessageTrace:
        """What happened besides deliveries, if messages were recorded; attempts count from 0 for each question."""
        sent, expired = self.ledger.noted()
        each = self._config.on_timeout.attempts
        sent = replace(sent, attempt=np.where(sent.attempt < 0, sent.attempt, sent.attempt % each))
        online = self.journey.availability
        if online is None:
            return MessageTrace(sent, expired, None)
        users = np.repeat(np.arange(self._shard.size, dtype=np.int32), np.diff(online.indptr))
        return MessageTrace(sent, expired, Spans(users + np.int32(self._shard.start), online.begin, online.end))
