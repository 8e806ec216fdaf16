"""Requests for released models between organisations, and the replies, over the simulated network.

The messages of different pairs of organisations do not depend on each other. So times and losses are computed for all
pairs at once. A simulation with one event for each message (`tests/reference/plain_models.py`) gives equal results.
Each travel time, loss and copy has its own random numbers, found by an address. The address is the leg (request or
reply), the attempt, the number of the copy, and the pair. An organisation that asks again, or gets a duplicate, gets
the same model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError, Uniforms
from p2p_sim.exchange.exchange_run import Ledger, Traffic
from p2p_sim.exchange.transcript import REPLY, REQUEST, Messages, Transcript
from p2p_sim.network import InTransit, Network
from p2p_sim.population import Shard

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Organisations = NDArray[np.int64]
Pairs = NDArray[np.intp]

MOST_PAIRS = 250_000
"""Largest number of pairs (asker, owner). A row of results lists, for each model, all organisations that saw it."""


@dataclass(frozen=True, eq=False)
class Delivered:
    """The results of requests for models, one for each pair of an asker and an owner of a model.

    asker, owner: (m,) organisations, numbered from 0.
    arrival_s: (m,) when the asker first got the model in time for its request, seconds; inf if never.
    used: (m,) whether the model also came by the deadline.
    received: (m,) whether some copy of the model reached the asker at all, in time or late.
    offline: (N,) whether each organisation was never online, or was offline when some message reached it.
    """

    asker: Organisations
    owner: Organisations
    arrival_s: Floats
    used: Bools
    received: Bools
    offline: Bools
    traffic: Traffic
    transcript: Transcript | None = None


class AskingPairs(NamedTuple):
    """Pairs of organisations, numbered from 0. asker, owner: (m,) who asks for the model, and who owns it."""

    asker: Organisations
    owner: Organisations


class Deliveries(NamedTuple):
    """Delivered messages. pairs: (d,) the index of each message's pair. time_s: (d,) its time of delivery, seconds."""

    pairs: Pairs
    time_s: Floats


def neighbours(network: Network, organisations: int) -> AskingPairs:
    """All pairs (asker, owner) of different organisations that may ask each other. These are the neighbours on the
    network's overlay or, without an overlay, all pairs. Both orders of two neighbours are listed. organisations: how
    many organisations there are.

    Raises:
        InputError: there are more than 250,000 pairs.
    """
    overlay = network.overlay
    count = organisations * (organisations - 1) if overlay is None else len(overlay.indices)
    if count > MOST_PAIRS:
        raise InputError(
            f"network.overlay: {organisations} organisations are {count:,d} pairs; at most {MOST_PAIRS:,d} are allowed"
        )
    if overlay is not None:
        return AskingPairs(np.repeat(np.arange(organisations), overlay.degrees), overlay.indices.astype(np.int64))
    asker, owner = np.divmod(np.arange(organisations**2), organisations)
    return AskingPairs(asker[asker != owner], owner[asker != owner])


def exchange_models(
    network: Network, asker: Organisations, owner: Organisations, payload_bytes: NDArray[np.int64], record: bool = False
) -> Delivered:
    """The results of m requests over the simulated network. In each request one organisation asks another organisation
    for a released model. An asker sends the request once it is online. After a time-out it asks again if the network's
    setting `on_timeout` allows more attempts. The results say when each model came, and whether in time.

    Args:
        network: the network, already drawn for N organisations that form one cluster. asker: (m,) who asks. owner: (m,)
        who owns the model asked for; the pairs are distinct. payload_bytes: (N,) size of each organisation's model,
        bytes. record: whether every delivered message is kept.
    """
    run = _ModelRun(network, asker, owner, payload_bytes, record)
    run.ask()
    transcript = Transcript(Messages.join([run.ledger.messages()])) if record else None
    used = np.isfinite(run.arrival) & (run.arrival <= (network.config.deadline_s or np.inf))
    return Delivered(
        asker=asker, owner=owner, arrival_s=run.arrival, used=used, received=run.received, offline=run.offline,
        traffic=run.ledger.traffic(0), transcript=transcript,
    )  # fmt: skip


class _ModelRun:
    """The requests of all pairs during a run, with the models that have arrived so far."""

    def __init__(
        self,
        network: Network,
        asker: Organisations,
        owner: Organisations,
        payload_bytes: NDArray[np.int64],
        record: bool,
    ) -> None:
        self.network, self.config = network, network.config
        self.asker, self.owner, self.payload = asker, owner, payload_bytes
        count = len(payload_bytes)
        self.key = asker * count + owner
        self.ledger = Ledger(0, record)
        self.availability = network.shard_availability(Shard(0, 0, count, np.array([0, count])))
        self.offline = np.zeros(count, dtype=np.bool_)
        self.arrival = np.full(asker.size, np.inf)
        self.received = np.zeros(asker.size, dtype=np.bool_)
        self.faults = network.config.transit()
        self.copies = 2 if "duplicated" in self.faults.effects else 1

    def ask(self) -> None:
        """Send the requests, attempt by attempt. A pair stops once its asker has the model or has left for good, or
        once the deadline has passed.
        """
        c, count = self.config, self.offline.size
        everybody = np.arange(count)
        start = self._next_online(everybody, self.network.streams.generator("start").random(count) * c.start_window_s)
        self.offline |= np.isinf(start)
        self.ledger.event(start[np.isfinite(start)])
        sent, end = start[self.asker], np.inf if c.deadline_s is None else c.deadline_s
        # `sent`: (m,) the time at which each pair's next request is due; inf: the asker never comes online again
        for attempt in range(c.on_timeout.attempts):
            pairs = np.flatnonzero(np.isinf(self.arrival) & np.isfinite(sent) & (sent <= end))
            self.ledger.counts["fetches"] += pairs.size
            self.ledger.counts["retries"] += pairs.size if attempt else 0
            self._attempt(pairs, sent[pairs], attempt)
            open_ = pairs[np.isinf(self.arrival[pairs])]
            self.ledger.counts["answered"] += pairs.size - open_.size
            if c.request_timeout_s is None:
                self.ledger.counts["failed"] += open_.size
                return
            gone = sent[open_] + c.timeout_s(attempt)
            self.ledger.counts["expired"] += open_.size
            self.ledger.event(gone)
            sent[open_] = self._next_online(self.asker[open_], gone)
            self.ledger.counts["departed"] += int(np.count_nonzero(np.isinf(sent[open_])))

    def _attempt(self, pairs: Pairs, sent: Floats, attempt: int) -> None:
        """Send one request for each of p pairs (asker, owner), and note the models that come back.

        Args:
            pairs: (p,) indices of the pairs. sent: (p,) times of sending, seconds. attempt: number of the pair's
            request, from 0.
        """
        limit = np.full(self.asker.size, np.inf)
        limit[pairs] = sent + self.config.timeout_s(attempt)
        for copy in range(self.copies):
            requests = self._travels(REQUEST, pairs, sent, attempt, copy)
            sender, receiver = self._who(self.asker, requests.pairs), self._who(self.owner, requests.pairs)
            self.ledger.delivered(REQUEST, requests.time_s, sender, receiver)
            for duplicate in range(self.copies):
                number = 2 * copy + duplicate
                got, back = self._travels(REPLY, requests.pairs, requests.time_s, attempt, number)
                late = back > limit[got]
                sender, receiver = self._who(self.owner, got), self._who(self.asker, got)
                self.ledger.delivered(REPLY, back, sender, receiver, late=late)
                self.ledger.counts["late_replies"] += int(np.count_nonzero(late))
                self.received[got] = True
                self.arrival[got] = np.minimum(self.arrival[got], np.where(late, np.inf, back))

    def _travels(self, kind: int, pairs: Pairs, times: Floats, attempt: int, copy: int) -> Deliveries:
        """Send one message for each of p pairs, and return the d messages that are delivered. Messages that are lost,
        or find their receiver offline, are only counted.

        Args:
            kind: REQUEST (from the asker) or REPLY (from the owner). pairs: (p,) indices of the pairs. times: (p,) of
            sending, seconds. attempt: number of the request, from 0. copy: number of the copy. An odd number is the
            network's duplicate of the number before it; only some pairs have a duplicate. Requests have the numbers 0
            and 1. Replies to the request have 0 and 1, and replies to the request's duplicate have 2 and 3.
        """
        c, counts, leg = self.config, self.ledger.counts, "request" if kind == REQUEST else "reply"
        sender, receiver = (self.asker, self.owner) if kind == REQUEST else (self.owner, self.asker)
        messages = InTransit(
            leg=leg, attempt=attempt, copy=copy, hop=0, user=self.key[pairs], sent_s=times,
            ends=(sender[pairs], receiver[pairs]), draw=self._draw(f"{kind}-{copy}", attempt), law=self.network.latency,
        )  # fmt: skip
        if copy % 2:
            copied = self.faults.duplicated(messages)
            pairs, messages = pairs[copied], messages.only(copied)
        sizes = c.header_bytes + (self.payload[self.owner[pairs]] if kind == REPLY else np.zeros(pairs.size, np.int64))
        counts["messages_duplicated" if copy % 2 else "messages_sent"] += pairs.size
        counts["bytes_sent"] += 0 if copy % 2 else int(sizes.sum())
        times = self._time_arrivals(messages, pairs, sizes)
        # a message is delivered if it is not lost and the receiver is then online
        survives = self.faults.survives(messages)
        comes = np.ones(pairs.size, dtype=np.bool_) if survives is None else survives
        arrives = comes
        if self.availability is not None:
            arrives = comes & self.availability.online(messages.receiver, times)
        away = comes & ~arrives
        self.offline[messages.receiver[away]] = True
        counts["messages_lost"] += int(np.count_nonzero(~comes))
        counts["messages_undelivered"] += int(np.count_nonzero(away))
        return Deliveries(pairs[arrives], times[arrives])

    def _time_arrivals(self, messages: InTransit, pairs: Pairs, sizes: NDArray[np.int64]) -> Floats:
        """The times (p,) at which messages would reach their receivers, in seconds.

        Args:
            messages: p messages. pairs: (p,) indices of their pairs. sizes: (p,) their sizes, bytes.
        """
        c, overlay = self.config, self.network.overlay
        times = messages.sent_s + messages.travel_s("latency")
        self.faults.delay(times, messages)
        if c.bandwidth_bps:
            times = times + 8.0 * sizes / c.bandwidth_bps
        if c.distance_s and overlay is not None:
            times = times + c.distance_s * overlay.distances(self.asker[pairs], self.owner[pairs])
        return times

    def _next_online(self, organisations: Organisations, times: Floats) -> Floats:
        """The first time from the given time on at which each organisation is online, in seconds; infinity: never."""
        return times if self.availability is None else self.availability.next_online(organisations, times)

    def _draw(self, address: str, attempt: int) -> Callable[[str], Uniforms]:
        """A function from a purpose, such as "latency", to the random numbers of certain messages, by pair of
        organisations.

        Args:
            address: which messages: kind and number of the copy, such as "1-0". attempt: number of the request, from 0.
        """
        return lambda purpose: self.network.streams.uniforms(f"models-{purpose}-{address}", 0, attempt)

    def _who(self, ends: Organisations, pairs: Pairs) -> NDArray[np.int32]:
        """The organisations at one end of each of p pairs, (p,), as the 32-bit integers of recorded messages.

        Args:
            ends: (m,) the asker of each of all m pairs, or the owner of each. pairs: (p,) indices of the chosen pairs.
        """
        return ends[pairs].astype(np.int32)
