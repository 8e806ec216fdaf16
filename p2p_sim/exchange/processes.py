"""The engine that runs any protocol with SimPy: one process for each user, one event for each message.

Random draws and travel times come from `MessageTiming`, as in the batched engine. For the label exchange
(`LabelExchangeProtocol`) the results of the two engines are equal to the last bit. The batched engine is much faster,
because it handles many messages at a time.
"""

import math
from collections import Counter
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from p2p_sim.base import Streams
from p2p_sim.exchange.adversaries import Roles
from p2p_sim.exchange.exchange_run import ReceivedLabels, Traffic
from p2p_sim.exchange.message_timing import NEVER
from p2p_sim.exchange.protocol import (
    CheckedProtocol,
    LabelExchangeProtocol,
    Me,
    PendingRequest,
    Protocol,
    Reply,
    Request,
    Steps,
)
from p2p_sim.exchange.single_messages import SingleMessages, single
from p2p_sim.exchange.transcript import REPLY, REQUEST, SUBMISSION, MessageTrace, Requests
from p2p_sim.network import Network
from p2p_sim.population import Shard


class ProcessExchange(SingleMessages):
    """The run of a protocol in one shard, a group of whole clusters, message by message.

    Args:
        protocol: what the users do. payload: (m,) the label with which each user answers: her noisy label, drawn once;
        if she lies, her false answer.
        shard, network, streams, roles, record, payload_bytes: as in `ExchangeRun`.
        probe_every_s: seconds between the requests of an adversary who asks everybody. num_classes: number of classes.
    """

    def __init__(
        self, protocol: Protocol, shard: Shard, payload: NDArray[np.generic], network: Network, streams: Streams, *,
        roles: Roles | None = None, record: bool = False, payload_bytes: int = 1, probe_every_s: float = 1.0,
        num_classes: int = 2,
    ) -> None:  # fmt: skip
        rate = protocol.sampling_rate if isinstance(protocol, LabelExchangeProtocol) else 1.0
        super().__init__(
            shard, network, streams, payload.dtype, roles=roles, sampling_rate=rate, payload_bytes=payload_bytes,
            record=record, num_classes=num_classes,
        )  # fmt: skip
        self._protocol = CheckedProtocol(protocol, num_classes, shard.size)
        self._every_s, self._streams = probe_every_s, streams
        self._users = [Me(number, label, self) for number, label in enumerate(payload.tolist())]
        self._times_before = Counter[tuple[int, str]]()
        self.questions: list[PendingRequest] = []
        # (label, time of arrival in seconds) by (user, number of her submission)
        self._submitted = dict[tuple[int, int], tuple[float, float]]()
        self.source = self.source.copy()

    def run(self) -> Traffic:
        """Run the processes of all users to their end. Returns counts of messages, with the time of the last event."""
        for me, start in zip(self._users, self.journey.start.tolist(), strict=True):
            if math.isfinite(start):
                self.clock.process(self._life(me, start))
        for prober in np.flatnonzero(self._roles.prober).tolist():
            self.clock.process(self._probing(prober))
        try:
            self.clock.run()
        except Exception as raised:
            # SimPy raises a copy of an exception, or a copy of a copy. The `__cause__` of a copy is the exception that
            # was copied. Only the original exception has the traceback.
            first: BaseException = raised
            while (cause := first.__cause__) is not None and (type(cause), cause.args) == (type(first), first.args):
                first = cause
            raise first from None
        self._submitted = dict(sorted(self._submitted.items()))
        self.ledger.counts["failed"] += sum(not question.reply.triggered for question in self.questions)
        self.ledger.counts["fallbacks"] += int(np.count_nonzero(self.fallback))
        return self.ledger.traffic(self.journey.bytes["submission"])

    def trace(self) -> MessageTrace:
        """What happened besides deliveries. The trace has the messages as they were sent, and the moments at which
        requests expired. Both are empty if the run was not recorded. The trace also has the users' periods online, and
        every request with its start, time-out and reply.

        A question is an attempt to get the label of one random peer. The first request of each question has the number
        0; repetitions after a time-out have numbers above 0.
        """
        requests = self.questions
        return replace(
            super().trace(),
            requests=Requests(
                user=np.array([request.user for request in requests], dtype=np.int64) + self._shard.start,
                question=np.array([request.earlier for request in requests], dtype=np.int64),
                attempt=np.array([request.attempt for request in requests], dtype=np.int64),
                begin_s=np.array([request.begin_s for request in requests]),
                deadline_s=np.array([request.deadline_s for request in requests]),
                answered_s=np.array([request.answered_s for request in requests]),
            ),
        )

    def submissions(self) -> ReceivedLabels:
        times, owners = self.arrivals, np.array([user for user, _ in self._submitted], dtype=np.int64)
        labels = np.array([label for label, _ in self._submitted.values()], dtype=self.label_type)
        accepted = self.accepts(times)
        return ReceivedLabels(owners[accepted] + self._shard.start, labels[accepted], times[accepted])

    @property
    def arrivals(self) -> NDArray[np.float64]:
        return np.array([time for _, time in self._submitted.values()], dtype=np.float64)

    @arrivals.setter
    def arrivals(self, times: NDArray[np.float64]) -> None:
        self.arrival[:] = NEVER
        for (key, (label, _)), time in zip(self._submitted.items(), times.tolist(), strict=True):
            self._submitted[key] = label, time
            self.arrival[key[0]] = min(self.arrival[key[0]], time)

    def _life(self, me: Me, start: float) -> Steps:
        """A user's process, a generator that yields the events for which it waits. The user waits until her start, and
        then follows the protocol.

        Args:
            me: the user as her own process sees her, with her noisy label. start: when she starts, seconds.
        """
        yield self.clock.until(start)
        self.ledger.event(np.array([start]))
        yield from self._protocol.user(me)

    def ask(self, user: int) -> simpy.Process:
        """Start asking a random peer for the label. The result is a process for which the user's own process can wait.
        The value of the result is the reply; None: no reply came. user: who asks, numbered from the shard's first user.
        """
        return self.clock.process(self._asking(user))

    def _asking(self, user: int) -> Generator[simpy.Event, Any, Reply | None]:
        """The process of one question to a random peer: send a request and wait for the reply. The value of the process
        is the reply, or None. If no reply comes in time, the network's setting for time-outs decides: the user asks
        again, takes her own noisy label, or gives up. user: who asks, numbered from the shard's first user.
        """
        rule = self._config.on_timeout
        # all her requests are numbered in one sequence, and each has random numbers of its own
        earlier = self._number(user, "request", rule.attempts)
        for attempt in range(rule.attempts):
            self.ledger.counts["retries"] += int(attempt > 0)
            if attempt == 0 or rule.retry != "same_peer":  # whom she asks: hop by hop, as the network is now
                now = np.array([self.clock.now])
                path = [int(step[0]) for step in self.journey.drawn_path(single(user), earlier + attempt, now)]
            reply: Reply | None = yield self._request(user, earlier, attempt, path)
            if reply is not None:
                return reply
            # she goes on when she is online again, if ever
            back = float(self.journey.next_online(single(user), np.array([self.clock.now]))[0])
            if back == NEVER:
                self.ledger.counts["departed"] += 1
                return None
            if attempt + 1 < rule.attempts or rule.fallback == "own_label":
                yield self.clock.until(back)
        return Reply(self._users[user].noisy_label, user, own=True) if rule.fallback == "own_label" else None

    def submit(self, user: int, reply: Reply | int) -> None:
        """Pass a label on to the learner at once. If all users submit in a batch, the label is sent at the time of the
        batch. A label that comes after this time is not submitted.

        Args:
            user: who submits, numbered from the shard's first user. reply: the label, as the reply that brought it or
            as a number. A number counts as the user's own label.
        """
        submission = reply if isinstance(reply, Reply) else Reply(reply, user)
        self._protocol.check_submitted(submission)
        batch_s = self._config.batch_time_s
        if batch_s is None:
            self._submit(user, submission)
        elif self.clock.now <= batch_s:
            self.clock.at(batch_s, lambda: self._submit(user, submission))

    def _submit(self, user: int, reply: Reply) -> None:
        """Send a label to the learner now. If users submit in a batch, a user who is offline now sends nothing.

        Args:
            user: who submits, numbered from the shard's first user. reply: the label and whose label it is.
        """
        if self._config.batch_submission and not self.is_online(user):
            return
        number = self._number(user, "submission")
        self.source[user] = reply.source
        self.fallback[user] |= reply.own
        arrive = partial(self._on_submission, user, number)
        for copy in range(self.journey.copies):
            self.send_message(
                "submission", user, None, arrive, owner=user, attempt=number, copy=copy, payload=reply.label
            )

    def _on_submission(self, user: int, number: int, label: float) -> None:
        """Handle a label that reaches the learner. If two copies of a submission arrive, the learner uses only the
        first.

        Args:
            user: who submitted. number: number of the submission among all submissions of this user, from 0. label: the
            class that arrived, perhaps changed by faults of the network.
        """
        self.deliver(SUBMISSION, user, None, label)
        if (user, number) not in self._submitted:
            self._submitted[user, number] = label, self.clock.now
            self.arrival[user] = min(self.arrival[user], self.clock.now)

    def send(self, sender: int, peer: int, payload: float) -> None:
        """Send a label or a number, unasked, to a peer. A peer who does not answer requests ignores such messages."""
        self._protocol.check_sent(peer, payload)
        number = self._number(sender, "push")

        def arrive(payload: float) -> None:
            self.deliver(REQUEST, sender, peer, payload)
            if not self._roles.silent[peer]:
                self._protocol.answer(self._users[peer], Request(sender, payload))

        for copy in range(self.journey.copies):
            self.send_message(
                "push", sender, peer, arrive, owner=sender, earlier=number + 1, attempt=-1, copy=copy, payload=payload
            )

    def coin(self, user: int, name: str, probability: float) -> bool:
        """Whether a user's coin shows heads. Each toss is drawn anew. The exception is the coin "submit" of the label
        exchange, which is drawn before the run, as in the other engines.

        Args:
            user: whose coin it is. name: the coin's name; coins of different names are independent. probability: the
            probability of heads.
        """
        self._protocol.check_coin(name, probability)
        if isinstance(self._protocol.protocol, LabelExchangeProtocol) and name == "submit":
            return bool(self.journey.choices.keep[user])
        number = self._number(user, f"coin {name}")
        uniform = self._streams.uniforms(f"protocol/{name}", self._shard.index, number).at(single(user))
        return bool(uniform[0] < probability)

    def random_peer(self, user: int) -> int | None:
        """A random user whom a user may ask, drawn anew; None: there is nobody to ask."""
        draw = self._number(user, "request")
        peer = int(self.journey.drawn_path(single(user), draw, np.array([self.clock.now]))[-1][0])
        return peer if peer >= 0 else None

    def neighbours(self, user: int) -> NDArray[np.int32]:
        """The users whom a user may ask, ascending. With an overlay, these are her neighbours. Without an overlay,
        these are all users of her cluster, herself included.
        """
        overlay = self.journey.overlay
        if overlay is not None:
            return np.sort(overlay.indices[overlay.indptr[user] : overlay.indptr[user + 1]])
        return np.array(self._cluster(user), dtype=np.int32)

    def _number(self, user: int, purpose: str, numbers: int = 1) -> int:
        """The index of a user's next random number for a purpose, such as "request" or a coin. The index is 0 at the
        first call. Each call may reserve several indices; the next call gives the index after these.

        Args:
            user: numbered from the shard's first user. purpose: what the numbers are for. numbers: how many indices to
            reserve, such as one for each attempt at a question.
        """
        before = self._times_before[user, purpose]
        self._times_before[user, purpose] = before + numbers
        return before

    def online(self, user: int) -> simpy.Event:
        """An event that happens now if the user is online. Otherwise the event happens when she comes back, if ever."""
        back = float(self.journey.next_online(single(user), np.array([self.clock.now]))[0])
        return self.clock.event() if back == NEVER else self.clock.until(back)

    def wait(self, seconds: float) -> simpy.Event:
        """An event that happens some seconds from now, after all other events of that moment. So a message that arrives
        exactly then is handled before this event.
        """
        self._protocol.check_wait(seconds)
        over = self.clock.event()
        self.clock.at(self.clock.now + seconds, over.succeed, timer=True)
        return over

    def _request(self, user: int, earlier: int, attempt: int, path: list[int]) -> simpy.Event:
        """Send one request and start its time-out. The user's process can wait for the result. The value of the result
        is the first reply that came in time; None: the request expired.

        Args:
            user: who asks. earlier: how many indices of random numbers she has reserved before this question
            (`_number`); the request uses the index `earlier` + `attempt`. attempt: 0 for the first request, above 0 for
            repetitions after a time-out. path: the users to whom the request passes one after another; the last user
            answers. -1: there is nobody to ask.
        """
        deadline = self.clock.now + self._config.timeout_s(attempt)
        question = PendingRequest(
            user, earlier, attempt, begin_s=self.clock.now, deadline_s=deadline, reply=self.clock.event()
        )
        self.questions.append(question)
        self.ledger.counts["fetches"] += 1
        if self._config.request_timeout_s is not None:
            # a timer comes after all messages of its instant, so that a reply exactly at the deadline counts
            self.clock.at(question.deadline_s, partial(self._expire, question), timer=True)
        if path[0] >= 0:
            for copy in range(self.journey.copies):
                self._forward(user, question, copy, [user, *path])
        return question.reply

    def _forward(self, user: int, question: PendingRequest, copy: int, path: list[int], hop: int = 0) -> None:
        """Send a request one step further on its random walk, from `path[hop]` to `path[hop + 1]`.

        Args:
            user: who asks. question: the request to which she awaits a reply. copy: 0, or 1 for the duplicate that the
            network made. path: the user who asks, then all users whom the request reaches. hop: number of the step,
            from 0.
        """
        self.send_message(
            "request",
            path[hop],
            path[hop + 1],
            lambda _: self._on_request(user, question, copy, path, hop),
            owner=user,
            earlier=question.earlier,
            attempt=question.attempt,
            copy=copy,
            hop=hop,
        )

    def _on_request(self, user: int, question: PendingRequest, copy: int, path: list[int], hop: int) -> None:
        """Handle a request that has reached the user `path[hop + 1]`. She forwards the request on its random walk, or
        answers at the end of the walk. A user whose role is to stay silent does nothing.

        Args:
            user: who asks. question: the request to which she awaits a reply. copy: 0, or 1 for the duplicate that the
            network made. path: the user who asks, then all users whom the request reaches. hop: number of the step that
            has ended, from 0.
        """
        node = path[hop + 1]
        self.deliver(REQUEST, path[hop], node)
        if self._roles.silent[node]:
            return
        if hop + 2 < len(path):
            self._forward(user, question, copy, path, hop + 1)
            return
        label = self._protocol.answer(self._users[node], Request(user))
        if label is None:
            return
        # copies of a reply: 0 and its duplicate 1 answer the request itself, 2 and 3 answer the request's duplicate
        for number in range(2 * copy, 2 * copy + self.journey.copies):
            self.send_message(
                "reply",
                node,
                user,
                lambda arrived: self._on_reply(user, question, node, arrived),
                owner=user,
                earlier=question.earlier,
                attempt=question.attempt,
                copy=number,
                payload=label,
            )

    def _on_reply(self, user: int, question: PendingRequest, node: int, label: float) -> None:
        """Handle a reply that reaches the user who asked. The first reply in time goes to her waiting process. All
        other replies are only counted.

        Args:
            user: who asked. question: the request to which she awaits a reply. node: the user who answered. label: what
            arrived.
        """
        late = self._config.request_timeout_s is not None and self.clock.now > question.deadline_s
        self.ledger.counts["late_replies"] += int(late)
        self.deliver(REPLY, node, user, label, late)
        if not question.reply.triggered:
            self.ledger.counts["answered"] += 1
            question.answered_s = self.clock.now
            question.reply.succeed(Reply(int(label), node))

    def _expire(self, question: PendingRequest) -> None:
        """Handle the time-out of a request. If no reply came, the process of the user who asked goes on with None."""
        if not question.reply.triggered:
            self.ledger.expired(single(question.user), np.array([self.clock.now]))
            question.reply.succeed(None)

    # -- an adversary who asks everybody -----------------------------------------------------------------------------

    def _probing(self, prober: int) -> Steps:
        """The process of an adversary who asks the other users of her cluster one after another, to collect noisy
        labels. She asks at a fixed interval, and only when she is online. The process yields the events for which it
        waits. prober: her number, from the shard's first user.
        """
        moment = 0.0
        for user in self._cluster(prober):
            if user == prober:
                continue
            moment = float(self.journey.next_online(single(prober), np.array([moment]))[0])
            if moment == NEVER:
                return
            yield self.clock.until(max(moment, self.clock.now))
            self.send_message("probe", prober, user, partial(self._on_probe, prober, user), owner=user)
            moment += self._every_s

    def _on_probe(self, prober: int, user: int, _: float) -> None:
        """Handle a request of an adversary who asks everybody. The user who is asked replies with her noisy label or,
        if she lies, with her false answer. A user whose role is to stay silent does not reply.

        Args:
            prober: the adversary. user: who is asked. _: what the request carries, which is nothing (-1).
        """

        def arrive(label: float) -> None:
            self.deliver(REPLY, user, prober, label)
            self.probed[user] = True

        self.deliver(REQUEST, prober, user)
        if not self._roles.silent[user]:
            self.send_message("confession", user, prober, arrive, owner=user, payload=self._users[user].noisy_label)

    def _cluster(self, user: int) -> range:
        """The users of a user's cluster, numbered from the shard's first user."""
        offsets = self._shard.offsets
        last = int(np.searchsorted(offsets, user, side="right"))
        return range(int(offsets[last - 1]), int(offsets[last]))
