"""The label exchange as a protocol of messages (Algorithm 2 of Esfandiari et al.), run by the event engine.

A user starts and asks a peer of her cluster for the peer's noisy label. If the reply comes in time, she submits the
label to the learner with probability θ. A noisy label is drawn once, and every request for it gets the same answer.

If no reply comes in time, the request expires. The network's setting `on_timeout` then decides: she asks again, submits
her own noisy label, or submits nothing. What happens to a user depends on her own draws and on who is online, never on
other users' messages.

A user may also ask several peers at once. When all have replied, she submits the commonest label with probability θ. If
she gives up on a peer, the setting `answered` of `Asking` decides: she submits the commonest label that came, or
nothing.
"""

import gc
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import simpy
from numpy.typing import NDArray

from p2p_sim.base import Streams
from p2p_sim.exchange.adversaries import Roles
from p2p_sim.exchange.exchange_run import ExchangeRun, ReceivedLabels, Traffic
from p2p_sim.exchange.held_labels import MessageContents, Payload, Questions
from p2p_sim.exchange.message_timing import NEVER
from p2p_sim.exchange.peers import ONE_PEER, Asking
from p2p_sim.exchange.transcript import REPLY, REQUEST, SUBMISSION
from p2p_sim.network import Bools, Engine, Network, Times, Users
from p2p_sim.population import Shard

START, TIMEOUT, PROBE, CONFESSION = 0, 4, 5, 6
COPIES, HOPS = 4, 64
LEG = {REQUEST: "request", REPLY: "reply", SUBMISSION: "submission", PROBE: "probe", CONFESSION: "confession"}
SEEN_AS = {PROBE: REQUEST, CONFESSION: REPLY}


def message_kind(event: int, attempt: int = 0, copy: int = 0, hop: int = 0) -> int:
    """The number of a kind of message in the engine. The number encodes an event and its details.

    Args:
        event: 0: a user starts; 1: request; 2: reply; 3: submission; 4: time-out of a request; 5: request of an
        adversary who asks everybody; 6: answer to such a request. attempt: number of the user's request, from 0. copy:
        number of the message's copy, 0 to 3; odd for a duplicate that the network made. hop: number of the step, 0 to
        63, if the request walks from user to user.
    """
    return ((attempt * HOPS + hop) * COPIES + copy) * 8 + event


class ShardExchange(ExchangeRun):
    """The label exchange of one shard, a group of whole clusters. Messages are handled many at a time.

    Args:
        shard, network, streams, sampling_rate, roles, record, payload_bytes: as in `ExchangeRun`.
        payload: (shard.size, ...) the answer of each user, such as her noisy label, drawn once. If users ask several
            peers, each answer is one label.
        probe_every_s: seconds between the requests of an adversary who asks everybody. num_classes: number of classes
            of labels. asking: how many peers each user asks.
    """

    def __init__(
        self, shard: Shard, payload: NDArray[np.generic], network: Network, streams: Streams, *, sampling_rate: float,
        roles: Roles | None = None, record: bool = False, payload_bytes: int = 1, probe_every_s: float = 1.0,
        num_classes: int = 2, asking: Asking = ONE_PEER,
    ) -> None:  # fmt: skip
        super().__init__(
            shard, network, streams, roles=roles, sampling_rate=sampling_rate, payload_bytes=payload_bytes,
            record=record,
        )  # fmt: skip
        self._payload, self._every_s = payload, probe_every_s
        self._contents: MessageContents | None = None
        if "corrupted" in self.journey.faults.effects:
            self._contents = MessageContents(payload, self.journey.faults, num_classes)
        rule = self._config.on_timeout
        self._each, self._asking = rule.attempts, asking
        self._questions: Questions | None = None
        if asking.several:
            self._questions = Questions(asking.numbers(np.arange(shard.size), streams, shard))
        # `_once`: each user passes on the label of her first peer or nothing, and `source` never changes
        self._once = rule.attempts == 1 and rule.fallback == "skip" and not asking.several
        if not self._once:
            self.source = self.source.copy()
        probers = np.flatnonzero(self._roles.prober)
        self._probers = np.full(len(shard.offsets) - 1, -1, dtype=np.int32)  # at most one in a cluster; -1: none
        self._probers[np.searchsorted(shard.offsets, probers, side="right") - 1] = probers
        self.engine = Engine(self._handle)

    def run(self) -> Traffic:
        """Send and deliver all messages of the shard. Returns counts of messages, with the time of the last event."""
        users = np.flatnonzero(np.isfinite(self.journey.start)).astype(np.int32)
        self.engine.post(START, users, self.journey.start[users])
        collecting = gc.isenabled()
        gc.disable()  # no reference cycles arise on the hot path
        try:
            self.engine.run([partial(self._prober, user) for user in np.flatnonzero(self._roles.prober).tolist()])
        finally:
            if collecting:
                gc.enable()
        self.ledger.counts["fallbacks"] += int(np.count_nonzero(self.fallback))
        return self.ledger.traffic(self.journey.bytes["submission"])

    def submissions(self) -> ReceivedLabels:
        users = np.flatnonzero(self.accepts(self.arrival))
        if self._contents is not None:
            labels = self._contents.submitted[users]
        else:
            labels = np.take(self._payload, self.source[users], axis=0)
        return ReceivedLabels(users + self._shard.start, labels, self.arrival[users])

    def _handle(self, kind: int, users: Users, times: Times) -> None:
        """Handle m events of one kind together, by the method for this kind.

        Args:
            kind: a number from `message_kind`. users: (m,) the user to whose start, request or submission each event
            belongs; for an adversary's request to everybody, the user who is asked. times: (m,) seconds.
        """
        # the inverse of `message_kind`
        rest, event = divmod(kind, 8)
        rest, copy = divmod(rest, COPIES)
        attempt, hop = divmod(rest, HOPS)
        if event == START:
            self.ledger.event(times)
            self._send(users, times, 0)
            if self._questions is not None:
                for question in range(1, self._questions.most):
                    asks = self._questions.numbers[users] > question
                    self._send(users[asks], times[asks], question * self._each)
        elif event == REQUEST:
            self._on_request(users, times, attempt, copy, hop)
        elif event == REPLY:
            self._on_reply(users, times, attempt, copy)
        elif event == SUBMISSION:
            self._on_submission(kind, users, times)
        elif event == TIMEOUT:
            self._on_timeout(users, times, attempt)
        else:
            self._on_probe(event, users, times)

    def _send(self, users: Users, times: Times, attempt: int) -> None:
        """Send one request for each of m users. If a request will get no answer in time, its time-out is queued.
        Without a time-out, such a request counts as failed.

        Args:
            users: (m,) who ask, numbered from the shard's first user. times: (m,) of sending, seconds. attempt: number
            of the user's request, from 0.
        """
        j = self.journey
        self.ledger.counts["fetches"] += users.size
        path = j.path(users, attempt) if j.matters or not j.certain or self.ledger.records else None
        ends = None if path is None else (users, path[0])
        asks = None if path is None or j.overlay is None else path[0] >= 0
        for copy in range(j.copies):
            self._post(REQUEST, users, times, attempt=attempt, copy=copy, ends=ends, only=asks)
        if j.certain or path is None:
            return
        hopeless = ~np.isfinite(j.answered(users, attempt, path).time_s)
        users, times = users[hopeless], times[hopeless]
        if self._config.request_timeout_s is None:
            self.ledger.counts["failed"] += users.size
        else:
            self.engine.post(message_kind(TIMEOUT, attempt), users, times + j.timeout_s(attempt))

    def _on_request(self, users: Users, times: Times, attempt: int, copy: int, hop: int) -> None:
        """Handle requests that arrive at users. A receiver who is online and cooperates passes the request on, or
        replies at the end of the request's random walk. Without walks, every request has one step.

        Args:
            users: (m,) who asked. times: (m,) of arrival, seconds. attempt: number of the user's request, from 0. copy:
            0, or 1 for the duplicate that the network made. hop: number of the walk's step that has now ended, from 0.
        """
        j = self.journey
        if not (j.matters or self.ledger.records):  # every peer answers: no need to know whom the request reached
            self.ledger.delivered(REQUEST, times, users, users)
            self._post(REPLY, users, times, attempt=attempt)
            return
        path = j.path(users, attempt)
        # the request came from `sender` to `node`, who may forward it to `onward`
        sender, node = (users if hop == 0 else path[hop - 1]), path[hop]
        last = hop + 1 == j.hops
        onward = users if last else path[hop + 1]
        online = j.online(node, times)
        users, times, sender, node, onward = self._met(online, [users, times, sender, node, onward])
        self.ledger.delivered(REQUEST, times, sender, node)
        serves = j.serves(node)
        if not last:
            ends = node, onward
            self._post(REQUEST, users, times, attempt=attempt, copy=copy, hop=hop + 1, ends=ends, only=serves)
            return
        for duplicate in range(j.copies):
            number = 2 * copy + duplicate
            self._post(REPLY, users, times, attempt=attempt, copy=number, ends=(node, users), only=serves)

    def _on_reply(self, users: Users, times: Times, attempt: int, copy: int) -> None:
        """Handle replies that arrive at the users (m,) who asked. For each request, the first reply by the time-out
        counts. Users who are offline get nothing.

        Args:
            times: (m,) of arrival, seconds. attempt: number of the user's request, from 0. copy: number of the copy of
            the reply, 0 to 3. The request and its duplicate each get a reply, and each reply may be duplicated.
        """
        j = self.journey
        users, times = self._met(j.online(users, times), [users, times])
        # if `_once` is set, and messages are neither recorded nor corrupted, peers and labels are looked up only for
        # submissions that arrive
        peers = label = None
        if self.ledger.records or not self._once or self._contents is not None:
            peers = j.path(users, attempt)[-1]
            label = self._arrived(message_kind(REPLY, attempt, copy), users, peers)
        valid, late = self._valid(users, times, attempt, copy)
        self.ledger.delivered(REPLY, times, users if peers is None else peers, users, label=label, late=late)
        if late is not None:
            self.ledger.counts["late_replies"] += int(np.count_nonzero(late))
        if valid is not None:
            users, times = users[valid], times[valid]
            peers = None if peers is None else peers[valid]
            label = None if label is None else label[valid]
        self.ledger.counts["answered"] += users.size
        self._settle(users, times, attempt, label, peers)

    def _valid(
        self, users: Users, times: Times, attempt: int, copy: int
    ) -> tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None]:
        """Two masks (m,) over m replies. The first marks replies that come in time and are the first to their request;
        None: all. The second marks replies that come after the time-out; None: none.

        Args:
            users: (m,) who asked. times: (m,) of arrival, seconds. attempt: number of the user's request, from 0. copy:
            number of the copy of the reply, 0 to 3.
        """
        j, limited = self.journey, self._config.request_timeout_s is not None
        late = times > j.sent(users, attempt) + j.timeout_s(attempt) if limited else None
        if j.copies == 1:
            return (None if late is None else ~late), late
        first = j.answered(users, attempt, j.path(users, attempt))
        return (times == first.time_s) & (first.copy == copy), late

    def _on_timeout(self, users: Users, times: Times, attempt: int) -> None:
        """Handle requests that have expired. The network's setting for time-outs decides: each user asks again, takes
        her own label, or gives up. A user who never comes online again does nothing.

        Args:
            users: (m,) whose requests expired. times: (m,) when, seconds. attempt: number of the user's request, from
            0.
        """
        self.ledger.expired(users, times)
        j, rule = self.journey, self._config.on_timeout
        back = j.next_online(users, times)
        here = np.isfinite(back)
        users, back = users[here], back[here]
        self.ledger.counts["departed"] += here.size - users.size
        if (attempt + 1) % self._each:
            self.ledger.counts["retries"] += users.size
            self._send(users, back, attempt + 1)
        elif rule.fallback == "own_label":
            self._settle(users, back, attempt, self._payload[users], users, own=True)
        elif self._asking.answered and self._questions is not None:
            self._submit_majority(self._questions, self._questions.settle(users, back))

    def _settle(
        self, users: Users, times: Times, attempt: int, label: Payload | None, source: Users | None, *,
        own: bool = False,
    ) -> None:  # fmt: skip
        """Handle the labels that m users got, each from one peer. If users ask one peer only, each user passes her
        label on to the learner with probability θ. If users ask several peers, the replies are noted. A user who now
        waits for no peer passes on the commonest label, also with probability θ.

        Args:
            users: (m,) who asked. times: (m,) when each has her label, seconds. attempt: number of the user's request,
            from 0. label: (m, ...) the labels that came; None: labels are looked up when submissions arrive. source:
            (m,) whose label each user got; None: the label of her first peer. own: whether the users took their own
            labels, because no reply came.
        """
        if self._questions is None:
            if self._contents is not None and label is not None:
                self._contents.held[users] = label
            self._submit(users, times, source, np.ones(users.size, dtype=np.bool_) if own else None)
            return
        # where users ask several peers, `_on_reply` looks up every label and peer
        self._questions.reply(users, attempt // self._each, cast(Payload, label), cast(Users, source), own)
        self._submit_majority(self._questions, self._questions.settle(users, times))

    def _submit_majority(self, questions: Questions, settled: Users) -> None:
        """Users who now wait for no peer pass on the commonest label among their replies, with probability θ. A user
        without any reply passes on nothing.

        questions: the replies to all users so far. settled: numbers of the users who wait for no peer.
        """
        majority = questions.majority(settled)
        users = majority.user
        if self._contents is not None:
            self._contents.held[users] = majority.label
        self._submit(users, questions.last_s[users], majority.peer, questions.own[users])

    def _submit(self, users: Users, times: Times, source: Users | None, own: Bools | None) -> None:
        """Send the labels of m users to the learner at once, each with probability θ. If users submit in a batch,
        labels are sent at the time of the batch instead. A user then sends nothing if she is offline or has no label
        yet.

        Args:
            users: (m,) who submit. times: (m,) when each has her label, seconds. source: (m,) whose labels the users
            submit; None: the labels of their first peers. own: (m,) which labels are the users' own, because no reply
            came; None: none.
        """
        j = self.journey
        goes = j.choices.keep[users]
        batch_s = self._config.batch_time_s
        if batch_s is not None:
            goes &= times <= batch_s
            times = np.full(users.size, batch_s)
            online = j.online(users, times)
            goes = goes if online is None else goes & online
        users, times = users[goes], times[goes]
        if source is not None:
            self.source[users] = source[goes]
        if own is not None:
            self.fallback[users] |= own[goes]
        for copy in range(j.copies):
            self._post(SUBMISSION, users, times, copy=copy)

    def _on_submission(self, kind: int, users: Users, times: Times) -> None:
        """Handle labels that reach the learner, who takes the first label from each user. The time of arrival is noted.

        Args:
            kind: the number of this kind of message, which also marks duplicates by the network. users: (m,) who
            submitted. times: (m,) of arrival, seconds.
        """
        label = None
        if self.ledger.records or self._contents is not None:
            label = self._arrived(kind, users, self.source[users])
        if self._contents is not None and label is not None:
            first = times < self.arrival[users]
            self._contents.submitted[users[first]] = label[first]
        self.ledger.delivered(SUBMISSION, times, users, None, label=label)
        self.arrival[users] = np.minimum(self.arrival[users], times)

    def _prober(self, prober: int, environment: simpy.Environment) -> Generator[simpy.Event, None, None]:
        """The SimPy process of the prober, an adversary who asks the other users of her cluster one after another. She
        asks at a fixed interval, when she is online. The process yields the events for which it waits. prober: number
        of the prober, from the shard's first user. environment: SimPy's clock.
        """
        # `moment`: when the next request is due; if the prober is offline then, when she comes back
        moment, me, bounds = 0.0, np.array([prober], dtype=np.int32), self._shard.offsets
        cluster = int(np.searchsorted(bounds, prober, side="right"))
        for user in range(int(bounds[cluster - 1]), int(bounds[cluster])):
            if user == prober:
                continue
            when = self.journey.next_online(me, np.array([moment]))
            moment = float(when[0])
            if moment == NEVER:
                return
            yield environment.timeout(max(moment - environment.now, 0.0))
            target = np.array([user], dtype=np.int32)
            self._post(PROBE, target, when, ends=(me, target))
            moment += self._every_s

    def _on_probe(self, event: int, users: Users, times: Times) -> None:
        """Handle messages of the prober, an adversary who asks every user of her cluster in turn. Either her request
        reaches a user, who answers, or an answer reaches the prober. Receivers who are offline get nothing.

        Args:
            event: PROBE for requests, CONFESSION for answers. users: (m,) who are asked. times: (m,) of arrival,
            seconds.
        """
        j, bounds = self.journey, self._shard.offsets
        prober = self._probers[np.searchsorted(bounds, users, side="right") - 1]
        receiver = users if event == PROBE else prober
        users, times, prober = self._met(j.online(receiver, times), [users, times, prober])
        if event == PROBE:
            self.ledger.delivered(REQUEST, times, prober, users)
            self._post(CONFESSION, users, times, ends=(users, prober), only=j.serves(users))
        else:
            label = self._arrived(message_kind(event), users, users) if self.ledger.records else None
            self.ledger.delivered(REPLY, times, users, prober, label=label)
            self.probed[users] = True

    def _post(
        self, event: int, users: Users, times: Times, *, attempt: int = 0, copy: int = 0, hop: int = 0,
        ends: tuple[Users, Users] | None = None, only: NDArray[np.bool_] | None = None,
    ) -> None:  # fmt: skip
        """Send m messages of one kind. Each message that the network does not lose is queued for the time of its
        arrival.

        Args:
            event: kind of message, such as REQUEST or REPLY. users: (m,) the user to whose request or submission each
            belongs. times: (m,) of sending, seconds. attempt: number of the user's request, from 0. copy: number of the
            copy. At hop 0 an odd number means a possible duplicate; the network makes only some duplicates. hop: number
            of the step of a request's random walk, from 0. ends: sender and receiver of each message, (m,) each; None:
            for submissions, or if neither loss nor delay depends on sender and receiver. only: (m,) which messages are
            sent; None: all.
        """
        j, leg, kind = self.journey, LEG[event], message_kind(event, attempt, copy, hop)
        messages = j.message(leg, users, times, attempt, copy=copy, hop=hop, ends=ends).only(only)
        counts, duplicate = self.ledger.counts, copy % 2 == 1 and hop == 0
        if duplicate:
            messages = messages.only(j.exists(messages))
        counts["messages_duplicated" if duplicate else "messages_sent"] += messages.user.size
        counts["bytes_sent"] += 0 if duplicate else messages.user.size * j.bytes[leg]
        goes = j.faults.survives(messages)
        if goes is not None:
            counts["messages_lost"] += int(np.count_nonzero(~goes))
        arriving = messages.only(goes)
        if self._contents is not None:
            self._contents.send(kind, arriving)
        arrives = arriving.sent_s + j.travel(arriving)
        if self.ledger.records:  # in the record, attempts are numbered from 0 for each question
            sent = replace(messages, attempt=j.in_question(attempt))
            self.ledger.sent(SEEN_AS.get(event, event), sent, goes, arrives, self.source)
        self.engine.post(kind, arriving.user, arrives)

    def _arrived(self, kind: int, users: Users, source: Users) -> Payload:
        """The payloads (m, ...) with which m messages arrive. These are the answers of the users `source`, unless
        faults of the network changed payloads on the way.

        Args:
            kind: the number of this kind of message. users: (m,) the user to whose request or submission each message
            belongs. source: (m,) the user whose answer the message carries.
        """
        return self._payload[source] if self._contents is None else self._contents.coming[kind][users]

    def _met(self, online: Bools | None, columns: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """The given arrays without the entries of messages whose receiver is offline. These messages are counted as
        undelivered.

        Args:
            online: (m,) whether the receiver of each of m messages is online; None: all are. columns: arrays with an
            entry for each message, such as users and times.
        """
        if online is None:
            return columns
        self.ledger.counts["messages_undelivered"] += int(np.count_nonzero(~online))
        return [column[online] for column in columns]
