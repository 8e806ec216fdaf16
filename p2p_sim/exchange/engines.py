"""The engines of the exchange. Two engines send messages over a simulated network. The third engine draws all
submissions at once from the same distribution.

A mechanism defines what is exchanged; an engine decides how it travels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import PublicStreams
from p2p_sim.exchange.adversaries import NOBODY, AdversariesConfig, Roles, check_given
from p2p_sim.exchange.batched_exchange import ShardExchange
from p2p_sim.exchange.exchange_run import ExchangeRun, Traffic
from p2p_sim.exchange.network_record import NetworkRecord, Unknown, realised
from p2p_sim.exchange.peers import NO_REPLY, ONE_PEER, Asking, Peers, first_of_majority
from p2p_sim.exchange.processes import ProcessExchange
from p2p_sim.exchange.protocol import LabelExchangeProtocol, Protocol
from p2p_sim.exchange.randomizer import Message
from p2p_sim.exchange.transcript import Messages, MessageTrace, Transcript
from p2p_sim.network import Network, departures
from p2p_sim.population import People, Shard
from p2p_sim.privacy.exchange import ELSEWHERE

Finished = tuple[ExchangeRun, Traffic]


def served(queue: list[Finished], bandwidth_bps: float) -> Iterator[Finished]:
    """Yields the exchanges of all shards with new, later arrival times. Submissions pass the learner's link one by one,
    in order of arrival, at the link's limited rate. The new time is the moment at which a submission has passed the
    link. If the network has duplicated a submission, only the copy that arrives first uses the link.

    Args:
        queue: for each shard (group of whole clusters), the finished run and the counts of messages; at least one
        shard. bandwidth_bps: rate of the learner's link, bits per second.
    """
    journey = queue[0][0].journey
    arrivals = [exchange.arrivals for exchange, _ in queue]
    departure_s = departures(np.concatenate(arrivals), 8.0 * journey.bytes["submission"] / bandwidth_bps)
    parts = np.split(departure_s, np.cumsum([times.size for times in arrivals])[:-1])
    for (exchange, counts), part in zip(queue, parts, strict=True):
        exchange.arrivals = part
        end = max(counts.completion_time_s, float(part.max(initial=0.0)))
        yield exchange, replace(counts, completion_time_s=end)


EngineName = Literal["events", "processes", "vectorised"]
SEVERAL_PEERS = Unknown(ELSEWHERE, anything=True)
OWN_PROTOCOL = Unknown("users follow a protocol of their own", anything=True)
Payload = NDArray[np.generic]
Shards = tuple[Shard, ...]
Part = tuple[int, int] | None
"""A pair (first, last): run only shards first to last - 1; None: run all shards."""


@dataclass(frozen=True)
class Submissions:
    """The submissions of a run of the exchange. Where messages were simulated, records of the network are added.

    user: (m,) int32, ascending, the user of each submission. payload: (m, ...) what she submitted, as the learner got
    it. traffic: counts of messages. transcript: every delivered message, if messages were recorded. arrival_s: (m,)
    time of arrival, seconds. realised: for each shard, a record of the network as it turned out, from which privacy is
    computed.
    """

    user: NDArray[np.int32]
    payload: Payload
    traffic: Traffic | None = None
    transcript: Transcript | None = None
    arrival_s: NDArray[np.float64] | None = None
    realised: tuple[NetworkRecord, ...] | None = None


class ShardAnswers(NamedTuple):
    """A shard, the payload (m, ...) with which each of its users answers, and the users' roles."""

    shard: Shard
    payload: Payload
    roles: Roles


class Growing:
    """A collection of values of one type. The array grows in place, without a second copy in memory.

    >>> collected = Growing(np.dtype(np.int32), expected=2)
    >>> collected.append(np.arange(5))
    >>> collected.values().tolist()
    [0, 1, 2, 3, 4]
    """

    def __init__(self, dtype: np.dtype[Any], expected: int, row: tuple[int, ...] = ()) -> None:
        self._array: NDArray[Any] = np.empty((expected, *row), dtype)
        self._count = 0

    def append(self, values: NDArray[Any]) -> None:
        """Add values (m, ...), converted to the array's type."""
        end = self._count + len(values)
        if end > len(self._array):
            rows = max(end, len(self._array) * 9 // 8)
            self._array.resize((rows, *self._array.shape[1:]), refcheck=False)
        self._array[self._count : end] = values
        self._count = end

    def values(self) -> NDArray[Any]:
        """All values in the order in which they were added. Nothing may be added afterwards."""
        self._array.resize((self._count, *self._array.shape[1:]), refcheck=False)
        return self._array


@dataclass(frozen=True)
class Exchange:
    """An exchange among the users of a population.

    Args:
        randomizer: draws the payloads of messages.
        sampling_rate: θ.
        engine: "events": messages over the network, many at a time; "processes": the same messages, with a process for
            each user; "vectorised": one draw from the same distribution.
        adversaries: who does not follow the protocol.
        protocol: the protocol that users follow as processes; None: the label exchange. With another protocol, only the
            noise on each label is certain to protect the label.
        asking: how many peers each user asks; if several, each payload is a label.
    """

    randomizer: Message
    sampling_rate: float
    engine: EngineName = "events"
    adversaries: AdversariesConfig = NOBODY
    protocol: Protocol | None = None
    asking: Asking = ONE_PEER

    def run(self, population: People, network: Network, record: bool, part: Part) -> Submissions:
        """Exchange the population's labels. The result has the submissions that the learner gets, ordered by user. If
        messages are simulated, the result also has times of arrival, counts of messages, and the records from which
        privacy is computed.

        Args:
            population: the users. network: the network, already drawn for these users. record: keep every delivered
            message. part: a pair (first, last): run only shards first to last - 1; None: run all shards. A shard is a
            group of whole clusters.
        """
        shards = population.shards
        if part is not None:
            network.config.check_splittable()
            shards = shards[slice(*part)]
        size = sum(shard.size for shard in shards)
        expected = int(self.sampling_rate * size + 4 * size**0.5)
        nothing = self.randomizer.randomize(np.zeros(0, dtype=np.uint8), np.random.default_rng(0))
        users, labels = Growing(np.dtype(np.int32), expected), Growing(nothing.dtype, expected, nothing.shape[1:])
        if self.engine == "vectorised":
            for block in self._draw(population, network, shards):
                users.append(block.user)
                labels.append(block.payload)
            return Submissions(users.values(), labels.values())
        # `law`: the reason why the distribution of fetched labels is unknown; None: this distribution is computed
        law = OWN_PROTOCOL if self.protocol is not None else SEVERAL_PEERS if self.asking.several else None
        traffic, times = Traffic(), [np.zeros(0)]
        records, messages, traces = list[NetworkRecord](), list[Messages](), list[MessageTrace]()
        for exchange, counts in self._exchanges(population, network, record, shards):
            received = exchange.submissions()
            users.append(received.user)
            labels.append(received.label)
            traffic += counts
            times.append(received.time_s)
            records.append(realised(exchange, law))
            if record:
                messages.append(exchange.messages())
                traces.append(exchange.trace())
        return Submissions(
            user=users.values(),
            payload=labels.values(),
            traffic=traffic,
            transcript=Transcript(Messages.join(messages), MessageTrace.join(traces)) if record else None,
            arrival_s=np.concatenate(times),
            realised=tuple(records),
        )

    def _answers(self, population: People, network: Network, shards: Shards) -> Iterator[ShardAnswers]:
        """Yields for each shard, a group of whole clusters, the answers (m, ...) of its m users and the users' roles.
        An answer is a payload that the randomizer draws from the true label, such as a noisy label. A user who lies
        answers with the next or a fixed class. The roles say who lies, is silent, asks everybody, or pools views.
        """
        if self.adversaries != NOBODY:
            check_given(self.adversaries, population.source_rows or population.num_users)
        for shard in shards:
            truth = population.labels_of(shard)
            payload = self.randomizer.randomize(truth, network.streams.generator("flip", shard.index))
            if self.adversaries == NOBODY:
                yield ShardAnswers(shard, payload, Roles.without_adversaries(shard.size))
                continue
            row = population.rows_of(shard)
            roles = Roles.draw(self.adversaries, shard, network.degrees(shard), row, network.streams)
            yield ShardAnswers(shard, roles.lie(payload, population.num_classes), roles)

    def _draw(self, population: People, network: Network, shards: Shards) -> Iterator[Submissions]:
        """Yields all submissions, a block of users at a time: the users who submit, (m,), ascending, and their
        payloads, (m, ...). No message is simulated. Each user's peer is drawn, and whether she submits. Then the peer's
        answer is looked up.

        Args:
            population: the users. network: has the random streams and who may ask whom. shards: the groups of whole
            clusters to be drawn.
        """
        streams = network.streams
        for shard, payload, _ in self._answers(population, network, shards):
            peers = Peers(shard, streams, network.shard_overlay(shard), network.config.hops)
            for block in peers.choices(self.sampling_rate):
                submits = block.keep if peers.overlay is None else block.keep & (block.peer >= 0)
                submitter = np.flatnonzero(submits).astype(np.int32)
                fetched = np.take(payload, block.peer[submitter], axis=0, mode="clip")
                submitter += np.int32(block.start)
                if self.asking.several:
                    fetched = self._majorities(peers, submitter, payload, fetched)
                yield Submissions(submitter + np.int32(shard.start), fetched)

    def _majorities(self, peers: Peers, users: NDArray[np.int32], payload: Payload, first: Payload) -> Payload:
        """For each of m users of a shard, (m,), the commonest of the labels that she fetches from several random peers.
        Of equally common labels, the label fetched first counts.

        Args:
            peers: draws whom users ask. users: (m,) numbered from the shard's first. payload: the label with which each
            user of the shard answers. first: (m,) the label of each user's first peer. The other peers are drawn here.
        """
        numbers, now = self.asking.numbers(users, peers.streams, peers.shard), np.zeros(users.size)
        columns = [first.astype(np.int16)]
        for question in range(1, int(numbers.max(initial=1))):
            label = payload[peers.again(users, question, now)].astype(np.int16)
            columns.append(np.where(question < numbers, label, NO_REPLY))
        labels = np.stack(columns, axis=1)
        return labels[np.arange(users.size), first_of_majority(labels)].astype(payload.dtype)

    def _exchanges(self, population: People, network: Network, record: bool, shards: Shards) -> Iterator[Finished]:
        """Yields for each shard, a group of whole clusters, the finished exchange and the counts of messages. A shard
        is yielded once it is finished. If the learner's link has a limited rate, shards share the link, and all are
        yielded at the end.

        Args:
            population: the users. network: the network, already drawn for these users. record: keep every delivered
            message. shards: the shards to be run.
        """
        size = -(-self.randomizer.payload_bits // 8)  # whole bytes that hold the payload's bits
        bandwidth_bps = network.config.learner_bandwidth_bps
        every_s = self.adversaries.sybil.probe_every_s or 1.0
        queue: list[Finished] = []
        for shard, payload, roles in self._answers(population, network, shards):
            exchange: ExchangeRun
            if self.engine == "processes":
                protocol = self.protocol or LabelExchangeProtocol(self.sampling_rate, self.asking)
                exchange = ProcessExchange(
                    protocol, shard, payload, network, PublicStreams.of(network.streams), roles=roles, record=record,
                    payload_bytes=size, probe_every_s=every_s, num_classes=population.num_classes,
                )  # fmt: skip
            else:
                exchange = ShardExchange(
                    shard, payload, network, network.streams, sampling_rate=self.sampling_rate, roles=roles,
                    record=record, payload_bytes=size, probe_every_s=every_s, num_classes=population.num_classes,
                    asking=self.asking,
                )  # fmt: skip
            counts = exchange.run()
            if bandwidth_bps is None:
                yield exchange, counts
            else:
                queue.append((exchange, counts))
        if queue and bandwidth_bps is not None:
            yield from served(queue, bandwidth_bps)
