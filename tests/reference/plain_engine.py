"""The label exchange with one SimPy event per message and a timer for every request.

Chances and travel times of single messages are the journey's, so that the outcome must be the same to the last bit.
What follows from them (who answers, which reply is the first, what expires, who asks again) is worked out here once
more, from events and dictionaries.
"""

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import simpy

from p2p_sim.exchange.message_timing import MessageTiming
from p2p_sim.exchange.traffic import Traffic
from p2p_sim.exchange.transcript import LEARNER, REPLY, REQUEST, SUBMISSION

FIRST, LAST = 1, 2
"""Priorities of events at the same time: a timer comes after everything else, so that a reply just in time counts."""


@dataclass
class PlainRun:
    """What happened; users are numbered from the shard's first, but in messages.

    submitted: (source, label) of who submitted; sources: late ones too; arrivals: when that came first.
    fallback: who passed on her own label.
    outcomes: "answered", "expired" or "failed" for every request, a (user, attempt).
    messages: (time, kind, sender, receiver, label, late).
    """

    submitted: dict[int, tuple[int, int]] = field(default_factory=dict)
    sources: dict[int, int] = field(default_factory=dict)
    arrivals: dict[int, float] = field(default_factory=dict)
    fallback: set[int] = field(default_factory=set)
    probed: set[int] = field(default_factory=set)
    outcomes: dict[tuple[int, int], str] = field(default_factory=dict)
    messages: list[tuple[float, int, int, int, int, bool]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    last: float = 0.0

    @property
    def traffic(self) -> Traffic:
        return Traffic(**self.counts, completion_time_s=self.last)


class _Event(simpy.Event):
    """Something that happens at an exact time."""

    def __init__(self, env: simpy.Environment, time: float, priority: int, action: Callable[[], None]) -> None:
        super().__init__(env)
        self._ok, self._value = True, None
        self.callbacks.append(lambda event: action())
        # not env.schedule, which takes a delay: now + (time - now) is not always time to the last bit
        heapq.heappush(env._queue, (time, priority, next(env._eid), self))


class PlainEngine:
    """One shard's exchange, message by message.

    Args:
        journey: the shard's.
        payload: what each user answers.
        probe_every_s: seconds from one probe to the next.
    """

    def __init__(self, journey: MessageTiming, payload: np.ndarray, probe_every_s: float = 1.0) -> None:
        self.journey, self.payload, self.every = journey, payload, probe_every_s
        self.config, self.first = journey.config, journey.shard.start
        self.env, self.done = simpy.Environment(), PlainRun()
        self.state: dict[tuple[int, int], str] = {}
        self.deadline: dict[tuple[int, int], float] = {}

    def run(self) -> PlainRun:
        """Run to the end."""
        for user, start in enumerate(self.journey.start.tolist()):
            if math.isfinite(start):
                self.at(start, lambda user=user: self.begin(user))
        for prober in np.flatnonzero(self.journey.roles.prober).tolist():
            self.env.process(self.probe(prober))
        self.env.run()
        for request, state in self.state.items():
            self.done.outcomes[request] = "failed" if state == "open" else state
        self.done.counts += Counter(self.done.outcomes.values())
        self.done.counts["fetches"] = len(self.state)
        self.done.counts["fallbacks"] = len(self.done.fallback)
        return self.done

    def at(self, time: float, action: Callable[[], None], priority: int = FIRST) -> None:
        _Event(self.env, time, priority, action)

    # -- the journey, for one user -----------------------------------------------------------------------------------

    def true(self, bits: np.ndarray | None) -> bool:
        return bits is None or bool(bits[0])

    def online(self, user: int) -> bool:
        return self.true(self.journey.online(one(user), np.array([self.env.now])))

    def back_online(self, user: int) -> float:
        return float(self.journey.next_online(one(user), np.array([self.env.now]))[0])

    def path(self, user: int, attempt: int) -> list[int]:
        return [int(place[0]) for place in self.journey.path(one(user), attempt)]

    # -- messages ----------------------------------------------------------------------------------------------------

    def send(
        self,
        leg: str,
        user: int,
        attempt: int,
        copy: int,
        hop: int,
        ends: tuple[int, int] | None,
        arrive: Callable[[int], None],
        label: int = -1,
    ) -> None:
        """Send a message of `user`'s exchange from ends[0] to ends[1] (None: to the learner); it may carry a label."""
        j, counts = self.journey, self.done.counts
        places = None if ends is None else (one(ends[0]), one(ends[1]))
        message = j.message(leg, one(user), np.array([self.env.now]), attempt, copy, hop, places)
        if not self.true(j.exists(message)):
            return
        if copy % 2 == 1 and hop == 0:
            counts["messages_duplicated"] += 1
        else:
            counts["messages_sent"] += 1
            counts["bytes_sent"] += j.bytes[leg]
        if not self.true(j.kept(message)):
            counts["messages_lost"] += 1
            return
        if label >= 0:
            label = int(j.faults.corrupted(message, np.array([label], dtype=np.uint8), 2)[0])
        travel = float(j.travel(message)[0])
        self.at(self.env.now + travel, lambda: self.meet(None if ends is None else ends[1], lambda: arrive(label)))

    def meet(self, receiver: int | None, arrive: Callable[[], None]) -> None:
        if receiver is None or self.online(receiver):
            arrive()
        else:
            self.done.counts["messages_undelivered"] += 1

    def event(self) -> None:
        self.done.counts["protocol_events"] += 1
        self.done.last = max(self.done.last, self.env.now)

    def delivered(self, kind: int, sender: int, receiver: int | None, label: int = -1, late: bool = False) -> None:
        self.event()
        self.done.counts["messages_delivered"] += 1
        to = LEARNER if receiver is None else self.first + receiver
        self.done.messages.append((self.env.now, kind, self.first + sender, to, label, late))

    # -- the protocol ------------------------------------------------------------------------------------------------

    def begin(self, user: int) -> None:
        self.event()
        self.ask(user, 0)

    def ask(self, user: int, attempt: int) -> None:
        assert (user, attempt) not in self.state
        self.state[user, attempt] = "open"
        self.done.counts["retries"] += attempt > 0
        if self.config.request_timeout_s is not None:
            self.deadline[user, attempt] = self.env.now + self.config.timeout_s(attempt)
            self.at(self.deadline[user, attempt], lambda: self.expire(user, attempt), LAST)
        path = self.path(user, attempt)
        if path[0] >= 0:
            for copy in range(self.journey.copies):
                self.forward(user, attempt, copy, 0, path)

    def forward(self, user: int, attempt: int, copy: int, hop: int, path: list[int]) -> None:
        ends = (user if hop == 0 else path[hop - 1], path[hop])
        self.send("request", user, attempt, copy, hop, ends, lambda _: self.on_request(user, attempt, copy, hop, path))

    def on_request(self, user: int, attempt: int, copy: int, hop: int, path: list[int]) -> None:
        node = path[hop]
        self.delivered(REQUEST, user if hop == 0 else path[hop - 1], node)
        if self.journey.roles.silent[node]:
            return
        if hop + 1 < len(path):
            self.forward(user, attempt, copy, hop + 1, path)
            return
        label = int(self.payload[node])
        for number in [2 * copy + duplicate for duplicate in range(self.journey.copies)]:
            reply = lambda said: self.on_reply(user, attempt, node, said)  # noqa: E731
            self.send("reply", user, attempt, number, 0, (node, user), reply, label)

    def on_reply(self, user: int, attempt: int, node: int, label: int) -> None:
        late = self.env.now > self.deadline.get((user, attempt), math.inf)
        assert late <= (self.state[user, attempt] != "open")
        self.done.counts["late_replies"] += late
        self.delivered(REPLY, node, user, label, late)
        if self.state[user, attempt] == "open":
            self.state[user, attempt] = "answered"
            self.pass_on(user, node, label, own=False)

    def expire(self, user: int, attempt: int) -> None:
        if self.state[user, attempt] != "open":
            return
        self.event()
        self.state[user, attempt] = "expired"
        rule, back = self.config.on_timeout, self.back_online(user)
        if not math.isfinite(back):
            self.done.counts["departed"] += 1
            return
        if attempt + 1 < rule.attempts:
            self.at(back, lambda: self.ask(user, attempt + 1))
        elif rule.fallback == "own_label":
            self.at(back, lambda: self.pass_on(user, user, int(self.payload[user]), own=True))

    def pass_on(self, user: int, source: int, label: int, own: bool) -> None:
        if not self.journey.choices.keep[user]:
            return
        if not self.config.batch_submission:
            self.submit(user, source, label, own)
        elif self.env.now <= self.config.deadline_s:
            self.at(self.config.deadline_s, lambda: self.submit(user, source, label, own))

    def submit(self, user: int, source: int, label: int, own: bool) -> None:
        if not self.online(user):
            return
        if own:
            self.done.fallback.add(user)
        for copy in range(self.journey.copies):
            self.send("submission", user, 0, copy, 0, None, lambda said: self.on_submission(user, source, said), label)

    def on_submission(self, user: int, source: int, label: int) -> None:
        self.delivered(SUBMISSION, user, None, label)
        self.done.counts["learner_messages"] += 1
        self.done.counts["learner_bytes"] += self.journey.bytes["submission"]
        self.done.arrivals.setdefault(user, self.env.now)
        self.done.sources.setdefault(user, source)
        if self.config.batch_submission or self.env.now <= (self.config.deadline_s or math.inf):
            same = self.done.submitted.setdefault(user, (source, label)) == (source, label)
            assert same or self.journey.faults["corrupted"]

    # -- probing -----------------------------------------------------------------------------------------------------

    def probe(self, prober: int):
        """Ask everybody of the cluster, one after another; who is offline waits."""
        offsets = self.journey.shard.offsets.tolist()
        begin, end = next((b, e) for b, e in itertools.pairwise(offsets) if b <= prober < e)
        for user in range(begin, end):
            if user == prober:
                continue
            back = self.back_online(prober)
            if not math.isfinite(back):
                return
            if back > self.env.now:
                waiting = self.env.event()
                self.at(back, waiting.succeed)
                yield waiting
            self.send("probe", user, 0, 0, 0, (prober, user), lambda _, user=user: self.on_probe(prober, user))
            yield self.env.timeout(self.every)

    def on_probe(self, prober: int, user: int) -> None:
        self.delivered(REQUEST, prober, user)
        if not self.journey.roles.silent[user]:
            told, label = lambda said: self.on_confession(prober, user, said), int(self.payload[user])
            self.send("confession", user, 0, 0, 0, (user, prober), told, label)

    def on_confession(self, prober: int, user: int, label: int) -> None:
        self.delivered(REPLY, user, prober, label)
        self.done.probed.add(user)


def one(user: int) -> np.ndarray:
    return np.array([user], dtype=np.int32)
