"""Organisations that pass released models on: who gets which when, what it costs in bytes, and what it costs in ε.

Anti-entropy by pulling: an organisation that lacks a model asks every `poll_s` seconds, while it is online, either
where the model comes from or, with gossip, any other organisation; whoever is asked sends what it holds and the asker
lacks. So lost messages and organisations that were offline catch up by the same means. Whatever is passed on was
released before: forwarding and resending are post-processing, and cost no ε.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import simpy
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base.config import Config
from p2p_sim.base.errors import InputError
from p2p_sim.network.availability import Availability
from p2p_sim.network.latency import LatencyConfig, LatencyLaw, Lognormal

Process = Generator[simpy.Event, None, None]


@dataclass(frozen=True)
class Release:
    """Private models that an organisation releases once.

    origin: the organisation, from 0. payload_bytes: of the models, above 0. epsilon: what its rows pay, at least 0.
    ready_s: when it is released, seconds.
    """

    origin: int
    payload_bytes: int
    epsilon: float
    ready_s: float = 0.0


class ModelExchangeConfig(Config):
    """How models spread over links that can lose messages."""

    spread: Literal["source", "gossip"] = "source"
    """Whom an organisation asks: "source": where a missing model comes from; "gossip": any other organisation."""
    poll_s: float = Field(default=60.0, gt=0, le=1e9)
    """Time between two requests of an organisation that lacks a model, seconds, above 0 and at most 1e9."""
    deadline_s: float = Field(default=86_400.0, gt=0, le=1e9)
    """When organisations stop asking, seconds, above 0 and at most 1e9."""
    latency: LatencyConfig = Lognormal()
    """Travel time of one message: kind = "constant", "exponential", "lognormal" or "trace"."""
    bandwidth_bps: float | None = Field(default=None, ge=1, le=1e15)
    """Rate at which an organisation sends, bits a second, 1 to 1e15; messages queue. Absent: no limit."""
    loss: float = Field(default=0.0, ge=0, lt=1)
    """Probability that a message is lost, 0 to below 1."""
    header_bytes: int = Field(default=64, ge=1, le=65_536)
    """Bytes of a request, and of a model besides its payload, 1 to 65,536."""


@dataclass(frozen=True)
class ModelExchange:
    """What happened.

    received_s: (N, R) when each organisation first held each release, seconds; inf if never.
    bytes_sent: (N,). requests, models_sent: messages of both kinds; of both together messages_lost on the way and
    messages_undelivered because the receiver was offline.
    epsilon: (N,) what each organisation's rows paid: the sum over its own releases, whoever passed them on.
    """

    received_s: NDArray[np.float64]
    bytes_sent: NDArray[np.int64]
    requests: int
    models_sent: int
    messages_lost: int
    messages_undelivered: int
    epsilon: NDArray[np.float64]

    @property
    def completion_s(self) -> float:
        """When everybody held everything, seconds; inf if never."""
        return float(self.received_s.max())


def exchange_models(
    releases: Sequence[Release],
    organisations: int,
    config: ModelExchangeConfig,
    rng: np.random.Generator,
    availability: Availability | None = None,
    latency: LatencyLaw | None = None,
) -> ModelExchange:
    """Run until every organisation holds every release, or has stopped asking.

    Args:
        releases: what is released, by whom and when.
        organisations: N, at least 2.
        rng: of phases, choices, travel times and losses.
        availability: who is online when, for N users; None: always.
        latency: of `config.latency` once loaded, where that is a trace; None: the configured law itself.

    Raises:
        InputError: an origin that does not exist, or a payload or ε out of its range.
    """
    if organisations < 2:
        raise InputError(f"organisations = {organisations}: must be at least 2")
    for release in releases:
        if not 0 <= release.origin < organisations:
            raise InputError(f"releases: origin = {release.origin}: must lie in 0..{organisations - 1}")
        if release.payload_bytes < 1 or not release.epsilon >= 0.0 or not release.ready_s >= 0.0:
            raise InputError(f"releases: {release}: payload_bytes must be at least 1, epsilon and ready_s at least 0")
    run = _Run(releases, organisations, config, rng, availability, latency or config.latency.load(()))
    environment = run.environment
    for organisation in range(organisations):
        environment.process(run.asks(organisation))
    environment.run()
    epsilon = np.zeros(organisations)
    for release in releases:
        epsilon[release.origin] += release.epsilon
    return ModelExchange(
        run.received, run.bytes_sent, run.requests, run.models_sent, run.lost, run.undelivered, epsilon
    )


@dataclass
class _Run:
    releases: Sequence[Release]
    organisations: int
    config: ModelExchangeConfig
    rng: np.random.Generator
    availability: Availability | None
    latency: LatencyLaw
    environment: simpy.Environment = field(default_factory=simpy.Environment)
    requests: int = 0
    models_sent: int = 0
    lost: int = 0
    undelivered: int = 0

    def __post_init__(self) -> None:
        self.received = np.full((self.organisations, len(self.releases)), np.inf)
        for index, release in enumerate(self.releases):
            self.received[release.origin, index] = release.ready_s
        self.bytes_sent = np.zeros(self.organisations, dtype=np.int64)
        self.link_free = np.zeros(self.organisations)
        # Until when a model is under way: nobody sends it a second time before.
        self.under_way = np.zeros((self.organisations, len(self.releases)))

    def asks(self, me: int) -> Process:
        """Request what is missing, now and then, while online."""
        yield self.environment.timeout(float(self.rng.random()) * self.config.poll_s)
        while self.environment.now < self.config.deadline_s:
            missing = np.flatnonzero(np.isinf(self.received[me]))
            if missing.size == 0:
                return
            wait = self._offline_for(me)
            if wait > 0.0:
                if self.environment.now + wait > self.config.deadline_s:
                    return
                yield self.environment.timeout(wait)
                continue
            self.requests += 1
            self._send(me, self._whom(me, missing), self.config.header_bytes, None)
            yield self.environment.timeout(self.config.poll_s)

    def _whom(self, me: int, missing: NDArray[np.intp]) -> int:
        if self.config.spread == "source":
            return self.releases[int(self.rng.choice(missing))].origin
        other = int(self.rng.integers(self.organisations - 1))
        return other + (other >= me)

    def _send(self, sender: int, receiver: int, size: int, model: int | None) -> None:
        """A request, or a model, over the sender's link."""
        start = max(self.environment.now, float(self.link_free[sender]))
        rate = self.config.bandwidth_bps
        self.link_free[sender] = start + (8.0 * size / rate if rate else 0.0)
        self.bytes_sent[sender] += size
        arrival = float(self.link_free[sender]) + float(self.latency.sample(self.rng, 1)[0])
        if model is not None:
            self.models_sent += 1
            self.under_way[receiver, model] = arrival
        if self.rng.random() < self.config.loss:
            self.lost += 1
        else:
            self.environment.process(self._arrives(sender, receiver, arrival, model))

    def _arrives(self, sender: int, receiver: int, arrival: float, model: int | None) -> Process:
        yield self.environment.timeout(arrival - self.environment.now)
        now = self.environment.now
        if self._offline_for(receiver) > 0.0:
            self.undelivered += 1
        elif model is not None:
            self.received[receiver, model] = min(self.received[receiver, model], now)
        else:
            wanted = (
                np.isinf(self.received[sender]) & (self.received[receiver] <= now) & (self.under_way[sender] <= now)
            )
            for index in np.flatnonzero(wanted).tolist():
                size = self.config.header_bytes + self.releases[index].payload_bytes
                self._send(receiver, sender, size, index)

    def _offline_for(self, organisation: int) -> float:
        """Seconds until the organisation is online; 0 if it is."""
        if self.availability is None:
            return 0.0
        now = self.environment.now
        return float(self.availability.next_online(np.array([organisation]), np.array([now]))[0]) - now
