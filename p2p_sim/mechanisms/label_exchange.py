"""The peer-to-peer label exchange (Algorithm 2 of the clustering paper) as a mechanism."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from analysis.privacy.exchange.calibration import calibrate_flip_prob
from analysis.privacy.exchange.paper import Lemma9, theorem3_stated, worst_stated
from analysis.privacy.statement.bound import PrivacyBound
from analysis.privacy.statement.conditions import LEARNER_CONDITIONS, LOCAL_CONDITIONS, Condition
from analysis.privacy.statement.domain import Situation, Stated
from analysis.privacy.statement.worst import epsilons
from p2p_sim.base.errors import InputError
from p2p_sim.mechanisms.interface import (
    EngineName,
    LabelRelease,
    Mechanism,
    MechanismBase,
    Outcome,
    PayloadKind,
    Randomizer,
    ReleaseKind,
    Trust,
)
from p2p_sim.mechanisms.messages import (
    MessagesConfig,
    binary_flip_prob,
    caveats,
    check_answers,
    flipped_labels,
    learner_model,
    parameters_of,
    randomizer_of,
)
from p2p_sim.mechanisms.randomized_response import RandomizedResponse, check_flip_prob
from p2p_sim.network.config import NetworkConfig
from p2p_sim.network.network import Network
from p2p_sim.network.shared_link import departures
from p2p_sim.population.clustering import ClustersConfig
from p2p_sim.population.population import Population
from p2p_sim.population.shards import Shard, shards
from p2p_sim.protocol.debias import check_labels
from p2p_sim.protocol.facts import realised
from p2p_sim.protocol.growing import Growing
from p2p_sim.protocol.roles import NOBODY, AdversariesConfig, Roles, check_given
from p2p_sim.protocol.shard_exchange import ShardExchange
from p2p_sim.protocol.traffic import Traffic
from p2p_sim.protocol.transcript import Messages, Transcript
from p2p_sim.protocol.vectorised import compiled_wanted, exchange_shard

Payload = NDArray[np.generic]


class LabelExchangeConfig(MechanismBase):
    """Flip the label, fetch a random peer's noisy label, submit it with some probability."""

    kind: Literal["label_exchange"] = "label_exchange"
    described: ClassVar[str] = "label exchange"
    conditions: ClassVar[tuple[str, ...]] = LEARNER_CONDITIONS
    flip_prob: float | None = Field(default=None, ge=0, le=1)
    """α: probability that a noisy label differs from the true one, 0 to (K-1)/K for K classes. Give this or
    `target_epsilon`."""
    target_epsilon: float | None = Field(default=None, gt=0, le=100)
    """ε: choose the least noise (α, or the randomizer's ε₀) that keeps every cluster's certified ε at the scenario's δ
    at or below this. Above 0, at most 100."""
    sampling_rate: float = Field(default=1.0, ge=1e-9, le=1)
    """θ: probability that a user passes the label she fetched on to the learner, 1e-9 to 1."""
    debias: bool = False
    """Undo on average what α, which is public, does to the labels: they become K signed weights each."""
    randomizer: MessagesConfig | None = None
    """What a message carries in place of a flipped label; kind = "vector_approximation", "alibi" or "rr_with_prior"."""

    @property
    def releases(self) -> ReleaseKind:
        """What a learner gets."""
        if self.randomizer is not None:
            return self.randomizer.releases
        return "signed" if self.debias else "hard"

    @model_validator(mode="after")
    def _one_noise(self) -> "LabelExchangeConfig":
        other = self.randomizer
        if other is None and (self.flip_prob is None) == (self.target_epsilon is None):
            raise ValueError("give either flip_prob or target_epsilon")
        if other is not None and (self.flip_prob is not None or self.debias):
            beyond = "flip_prob" if self.flip_prob is not None else "debias"
            raise ValueError(f"{beyond} is for flipped labels; leave it out, or randomizer.kind = {other.kind!r}")
        if other is not None and (other.epsilon is None) == (self.target_epsilon is None):
            raise ValueError("give either randomizer.epsilon or target_epsilon")
        return self

    def check(self, num_classes: int) -> None:
        """Refuse parameters that do not fit K classes."""
        if self.flip_prob is not None:
            check_flip_prob(self.flip_prob, num_classes)
        if self.randomizer is not None:
            self.randomizer.check(num_classes)

    def check_surroundings(
        self, clusters: ClustersConfig, network: NetworkConfig, adversaries: AdversariesConfig
    ) -> None:
        """Refuse liars whose answers no message can carry, or no noise is known to cover; all else has a meaning."""
        lying = adversaries.lying
        if lying and self.releases not in ("hard", "signed"):
            raise InputError(
                f"adversaries.{lying[0]}: answers with a class; messages carry {self.releases}; leave it out"
            )
        if self.randomizer is not None:
            check_answers(adversaries)

    def build(
        self,
        sizes: NDArray[np.int64],
        num_classes: int,
        delta: float,
        engine: EngineName = "events",
        adversaries: AdversariesConfig = NOBODY,
    ) -> "LabelExchangeMechanism":
        """The mechanism for clusters of these sizes, its noise calibrated where a target is given."""
        if self.randomizer is not None:
            other = randomizer_of(self.randomizer, self.target_epsilon, sizes, num_classes, delta)
            return LabelExchangeMechanism(
                other, self.sampling_rate, engine, adversaries, payload_kind=self.randomizer.releases
            )
        flip_prob = self.flip_prob
        if flip_prob is None:
            assert self.target_epsilon is not None
            flip_prob = calibrate_flip_prob(sizes, num_classes, self.sampling_rate, self.target_epsilon, delta)
        noise = RandomizedResponse(check_flip_prob(flip_prob, num_classes), num_classes)
        if self.debias:
            noise.debiased(np.zeros(0, dtype=np.uint8))  # refuses an α at which nothing is left
        return LabelExchangeMechanism(noise, self.sampling_rate, engine, adversaries, self.debias)


@dataclass(frozen=True)
class LabelExchangeMechanism(Mechanism):
    """The exchange with its parameters fixed.

    Args:
        randomizer: the local noise.
        sampling_rate: θ.
        engine: "events" (messages over the network) or "vectorised" (one draw from the same law).
        adversaries: who does not follow the protocol.
        debias: release signed weights that undo α on average, instead of flipped labels.
        payload_kind: what the randomizer's payloads are.
    """

    randomizer: Randomizer
    sampling_rate: float
    engine: EngineName = "events"
    adversaries: AdversariesConfig = NOBODY
    debias: bool = False
    payload_kind: PayloadKind = "hard"

    def __post_init__(self) -> None:
        check_answers(self.adversaries, self.randomizer)

    @property
    def trust(self) -> Trust:
        """Nobody."""
        return "nobody"

    @property
    def parameters(self) -> dict[str, float]:
        """α, or what the noise has in its place, and θ."""
        return {**parameters_of(self.randomizer), "sampling_rate": self.sampling_rate}

    def release_on(
        self,
        opened: Network,
        population: Population,
        record: bool = False,
        study: bool = False,
        part: tuple[int, int] | None = None,
    ) -> Outcome:
        """The same on a network that has been opened for this population; `part`: shards first to last - 1 alone."""
        check_given(self.adversaries, population.num_rows)
        if part is not None:
            opened.config.check_splittable()
        expected = int(self.sampling_rate * population.num_users + 4 * population.num_users**0.5)
        nothing = self.randomizer.randomize(np.zeros(0, dtype=np.uint8), np.random.default_rng(0))
        users, labels = Growing(np.dtype(np.int32), expected), Growing(nothing.dtype, expected, nothing.shape[1:])
        if self.engine == "vectorised":
            for submitter, fetched in self._draw(population, opened, part):
                users.append(submitter)
                labels.append(fetched)
            return Outcome(self._released(users, labels), overlay=opened.overlay)
        traffic, log, facts, times = Traffic(), [], [], []
        for exchange, counts in self._exchanges(population, opened, record, part):
            submitter, fetched = exchange.submissions()
            users.append(submitter)
            labels.append(fetched)
            traffic += counts
            if record:
                log.append(exchange.messages())
            if study:
                times.append(exchange.arrival[exchange.in_time])
                facts.append(realised(exchange))
        return Outcome(
            self._released(users, labels),
            traffic,
            Transcript(Messages.join(log)) if record else None,
            np.concatenate(times) if study else None,
            tuple(facts) if study else None,
            opened.overlay,
        )

    def _released(self, users: Growing, labels: Growing) -> LabelRelease:
        if self.debias:
            noise = flipped_labels(self.randomizer, "debiasing")
            return LabelRelease(users.values(), noise.debiased(labels.values()), "signed")
        return LabelRelease(users.values(), labels.values(), self.payload_kind)

    def _answers(
        self, population: Population, network: Network, part: tuple[int, int] | None
    ) -> Iterator[tuple[Shard, Payload, Roles]]:
        """Each shard with what its users answer, and their roles."""
        for shard in islice(shards(population.cluster_offsets), *(part or (None,))):
            truth = population.labels[shard.start : shard.stop]
            payload = self.randomizer.randomize(truth, network.streams.generator("flip", shard.index))
            if self.adversaries == NOBODY:
                yield shard, payload, Roles.honest(shard.size)
                continue
            row = population.rows[shard.start : shard.stop]
            roles = Roles.draw(self.adversaries, shard, network.degrees(shard), row, network.streams)
            yield shard, roles.lie(payload, population.num_classes), roles

    def _draw(
        self, population: Population, network: Network, part: tuple[int, int] | None
    ) -> Iterator[tuple[NDArray[np.integer], NDArray[np.generic]]]:
        """All submissions as one draw; compiled code takes those of binary labels among whole clusters."""
        noise, direct = self.randomizer, network.overlay is None and network.config.hops == 1
        binary = isinstance(noise, RandomizedResponse) and noise.num_classes == 2
        if direct and binary and self.adversaries == NOBODY and compiled_wanted():
            yield from self._draw_compiled(population, network, part)
            return
        for shard, payload, _ in self._answers(population, network, part):
            yield from exchange_shard(
                shard,
                payload,
                self.sampling_rate,
                network.streams,
                network.shard_overlay(shard),
                network.config.hops,
            )

    def _draw_compiled(
        self, population: Population, network: Network, part: tuple[int, int] | None
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.uint8]]]:
        from p2p_sim.protocol.compiled import CompiledExchange

        check_labels(population.labels, 2)
        noise = flipped_labels(self.randomizer, "compiled code")
        exchange = CompiledExchange(noise.flip_prob, self.sampling_rate, network.streams)
        for shard in islice(shards(population.cluster_offsets), *(part or (None,))):
            yield from exchange.shard(shard, population.labels[shard.start : shard.stop])

    def _exchanges(
        self, population: Population, network: Network, record: bool, part: tuple[int, int] | None
    ) -> Iterator[tuple[ShardExchange, Traffic]]:
        """Finished exchanges; where the learner's link is shared, only once all have run."""
        sybil = self.adversaries.sybil
        queue: list[tuple[ShardExchange, Traffic]] = []
        for shard, payload, roles in self._answers(population, network, part):
            exchange = ShardExchange(
                shard,
                payload,
                self.sampling_rate,
                network,
                network.streams,
                roles,
                record,
                payload_bytes=-(-self.randomizer.payload_bits // 8),
                probe_every_s=sybil.probe_every_s or 1.0,
            )
            counts = exchange.run()
            if network.config.learner_bandwidth_bps is None:
                yield exchange, counts
            else:
                queue.append((exchange, counts))
        yield from _served(queue)

    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        """The learner's ε at δ for each cluster size if nothing fails: a bracket for K = 2 flips, else an upper bound.

        Args:
            sizes: distinct, ascending. delta: δ. Of many sizes only the worst and the largest are looked at closely.
        """
        return epsilons([learner_model(self.randomizer, int(n), self.sampling_rate) for n in sizes], delta)

    def statements(self, sizes: NDArray[np.int64], delta: float) -> dict[str, float | None]:
        """ε₀ of a message alone; what the papers state depends on the situation: `papers`."""
        return {"epsilon_local": self.randomizer.local_epsilon}

    @property
    def local_conditions(self) -> tuple[str, ...]:
        """Of the noise on a message."""
        return (*LOCAL_CONDITIONS, *caveats(self.randomizer))

    def situation(self, asked: Situation) -> Situation:
        """The same with what a message carries."""
        flips = isinstance(self.randomizer, RandomizedResponse)
        return asked if flips else replace(asked, message=type(self.randomizer).__name__)

    def applies(self, situation: Situation) -> Condition | None:
        """The first condition of `privacy` that fails; None where it is about this situation."""
        return learner_model(self.randomizer, 2, self.sampling_rate).applies(self.situation(situation))

    def papers(self, situation: Situation, sizes: NDArray[np.int64], delta: float) -> dict[str, Stated]:
        """Lemma 9 and Theorem 3 in a situation, or why they do not apply."""
        asked, theta = self.situation(situation), self.sampling_rate
        alpha = binary_flip_prob(self.randomizer) or 0.0  # other messages are refused before α is looked at
        return {
            "epsilon_paper_lemma9": worst_stated(Lemma9(int(n), alpha, theta, delta).stated(asked) for n in sizes),
            "epsilon_paper_theorem3": theorem3_stated(int(sizes.min()), alpha, theta, delta, asked),
        }


def exchange_of(mechanism: object, purpose: str) -> LabelExchangeMechanism:
    """The mechanism, if it exchanges labels.

    Raises:
        InputError: it does not, and `purpose` is for messages with labels.
    """
    if not isinstance(mechanism, LabelExchangeMechanism):
        raise InputError(f"mechanism.kind: {purpose} is there for kind = 'label_exchange' alone")
    return mechanism


def _served(queue: list[tuple[ShardExchange, Traffic]]) -> Iterator[tuple[ShardExchange, Traffic]]:
    """Send all submissions through the learner's link, in order of arrival; the network's duplicates are left out."""
    if not queue:
        return
    came = [np.flatnonzero(np.isfinite(exchange.arrival)) for exchange, _ in queue]
    journey = queue[0][0].journey
    rate = journey.config.learner_bandwidth_bps
    assert rate is not None
    arrivals = np.concatenate([exchange.arrival[users] for (exchange, _), users in zip(queue, came, strict=True)])
    left = departures(arrivals, 8.0 * journey.bytes["submission"] / rate)
    parts = np.split(left, np.cumsum([users.size for users in came])[:-1])
    for (exchange, counts), users, part in zip(queue, came, parts, strict=True):
        exchange.arrival[users] = part
        end = max(counts.completion_time_s, float(part.max(initial=0.0)))
        yield exchange, replace(counts, completion_time_s=end)
