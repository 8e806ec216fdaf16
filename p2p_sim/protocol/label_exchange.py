"""The label exchange as a protocol of messages (Algorithm 2), run by the event engine.

A user starts, asks a uniformly drawn peer of her cluster (perhaps herself) for its noisy label, and, having got it in
time, submits it to the learner with probability θ. A noisy label is drawn once and every request for it gets the same
answer. What happens to a user depends on her own draws alone.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.network.config import NetworkConfig
from p2p_sim.network.engine import Engine, Times, Users
from p2p_sim.population.shards import Shard
from p2p_sim.protocol.draws import all_choices
from p2p_sim.protocol.transcript import LEARNER, REPLY, REQUEST, SUBMISSION, Messages
from p2p_sim.streams import Streams

START = 0


@dataclass(frozen=True)
class Timing:
    """The moments and travel times of one shard, seconds; each array has one entry a user.

    Deadlines are absolute: the reply to a request sent at `start` counts until `start + request_timeout_s`.
    """

    start: NDArray[np.float64]
    request: NDArray[np.float64]
    reply: NDArray[np.float64]
    submission: NDArray[np.float64]
    timeout: float

    @staticmethod
    def draw(network: NetworkConfig, shard: Shard, streams: Streams) -> "Timing":
        """Draw a shard's timing from its own streams."""
        start = streams.generator("start", shard.index).random(shard.size)
        start *= network.start_window_s
        request, reply, submission = (
            network.latency.sample(streams.generator(f"latency-{leg}", shard.index), shard.size)
            for leg in ("request", "reply", "submission")
        )
        return Timing(start, request, reply, submission, network.request_timeout_s or np.inf)


@dataclass(frozen=True)
class Traffic:
    """Counts of one run, all shards together.

    protocol_events: starts and messages delivered.
    late_replies: replies that came after their deadline and were dropped.
    completion_time_s: when the last message was delivered, seconds.
    """

    protocol_events: int = 0
    late_replies: int = 0
    completion_time_s: float = 0.0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(
            self.protocol_events + other.protocol_events,
            self.late_replies + other.late_replies,
            max(self.completion_time_s, other.completion_time_s),
        )


class ShardExchange:
    """One shard's label exchange, message by message.

    Args:
        shard: the users.
        payload: (shard.size, ...) the noisy label of each, drawn once.
        sampling_rate: θ.
        network: latencies, start times and the request's deadline.
        streams: the replicate's random streams.
        record: keep every delivered message for a transcript.
    """

    def __init__(
        self,
        shard: Shard,
        payload: NDArray[np.generic],
        sampling_rate: float,
        network: NetworkConfig,
        streams: Streams,
        record: bool = False,
    ) -> None:
        self._shard, self._payload = shard, payload
        self._choices = all_choices(shard, streams, sampling_rate)
        self._timing = Timing.draw(network, shard, streams)
        self._submitted = np.zeros(shard.size, dtype=np.bool_)
        self._late, self._last = 0, 0.0
        self._log: list[Messages] | None = [] if record else None
        self._engine = Engine([self._on_start, self._on_request, self._on_reply, self._on_submission])

    def run(self) -> Traffic:
        """Run the exchange to its end."""
        users = np.arange(self._shard.size, dtype=np.int32)
        self._engine.post(START, users, self._timing.start)
        self._engine.run()
        return Traffic(self._engine.delivered, self._late, self._last)

    def submissions(self) -> tuple[NDArray[np.int64], NDArray[np.generic]]:
        """What arrived: who submitted (index in the population, ascending), and what she had fetched.

        In order of user, not of arrival: the learner's figure holds for a learner who sees a set.
        """
        users = np.flatnonzero(self._submitted)
        return users + self._shard.start, np.take(self._payload, self._choices.peer[users], axis=0)

    def messages(self) -> Messages:
        """All delivered messages, if they were recorded."""
        if self._log is None:
            raise ValueError("this exchange was not recorded")
        return Messages.join(self._log)

    def _on_start(self, users: Users, times: Times) -> None:
        self._last = max(self._last, float(times.max()))
        self._engine.post(REQUEST, users, times + self._timing.request[users])

    def _on_request(self, users: Users, times: Times) -> None:
        self._note(REQUEST, users, times)
        self._engine.post(REPLY, users, times + self._timing.reply[users])

    def _on_reply(self, users: Users, times: Times) -> None:
        late = times > self._timing.start[users] + self._timing.timeout
        self._note(REPLY, users, times, late)
        self._late += int(np.count_nonzero(late))
        submits = self._choices.keep[users] & ~late
        users, times = users[submits], times[submits]
        self._engine.post(SUBMISSION, users, times + self._timing.submission[users])

    def _on_submission(self, users: Users, times: Times) -> None:
        self._note(SUBMISSION, users, times)
        self._submitted[users] = True

    def _note(self, kind: int, users: Users, times: Times, late: NDArray[np.bool_] | None = None) -> None:
        self._last = max(self._last, float(times.max()))
        if self._log is None:
            return
        first, peers = self._shard.start, self._choices.peer[users]
        asker, asked = users + np.int32(first), peers + np.int32(first)
        sender, receiver = {
            REQUEST: (asker, asked),
            REPLY: (asked, asker),
            SUBMISSION: (asker, np.full_like(asker, LEARNER)),
        }[kind]
        label = self._payload[peers] if kind != REQUEST else np.full(users.size, -1)
        self._log.append(
            Messages(
                times.copy(),
                np.full(users.size, kind, dtype=np.int8),
                sender,
                receiver,
                label.astype(np.int16),
                np.zeros(users.size, dtype=np.bool_) if late is None else late,
            )
        )
