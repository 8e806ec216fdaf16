"""Channels without messages for any randomizer: local, and through a trusted shuffler; the exchange is the third.

In the local channel every user sends her own message with her name, so that her randomizer alone protects her. A
shuffler passes on the messages of each cluster in random order.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.checked_values import described, is_array, require
from p2p_sim.base.plugins import maker_of, method_of
from p2p_sim.base.streams import Streams
from p2p_sim.exchange.randomizer import Message, check_labels
from p2p_sim.mechanisms.deployment import Setup, Trust
from p2p_sim.mechanisms.evidence import Evidence, of_messages
from p2p_sim.mechanisms.mechanism import Mechanism
from p2p_sim.mechanisms.noise_law import NoiseLaw, Source
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import Bracket, PrivacyBound
from p2p_sim.privacy.conditions import LOCAL_CONDITIONS
from p2p_sim.privacy.randomized_response import attained_epsilon, drawn_from_rows, law_delta, law_epsilon
from p2p_sim.privacy.where_bounds_hold import ANYWHERE, Situation

Floats = NDArray[np.float64]
UP = 1.0 + 2.0**-45
"""By which figures of a table of probabilities are rounded up."""


class Channel(Mechanism):
    """A mechanism whose users send one message each, made by a randomizer.

    source: whose message is released under a user's name.
    """

    source: ClassVar[Source] = "user"

    @abstractmethod
    def randomizer(self, setup: Setup) -> Message:
        """What every user's message does to her label."""

    @property
    def noise(self) -> Message:
        """The randomizer, for the users whom parameters are fixed for."""
        return self.randomizer(self.setup)

    def release(
        self, labels: NDArray[np.uint8], features: NDArray[np.floating], clusters: NDArray[np.int64], streams: Streams
    ) -> LabelRelease:
        """What every user's randomizer makes of her label, under her own name."""
        noise = self.noise
        return LabelRelease.of(noise.released(noise.randomize(labels, streams.generator("flip"))), noise.releases)

    def noise_law(self, outcome: Outcome) -> NoiseLaw | None:
        """That of the randomizer; a mechanism that does more to a label must say so here."""
        transition = self.noise.transition
        return None if transition is None else NoiseLaw.common(transition, self.source)

    def evidence(self, outcome: Outcome, cluster_offsets: NDArray[np.int64]) -> Evidence | None:
        if outcome.labels.kind == "hard":
            return super().evidence(outcome, cluster_offsets)
        return of_messages(outcome.labels, self.noise, self.source)

    def local_advantage(self, num_classes: int) -> float | None:
        return self.noise.advantage(num_classes)

    def local_epsilon(self, sizes: NDArray[np.int64]) -> float | None:
        """ε₀ of her message."""
        return self.noise.local_epsilon


@dataclass(frozen=True)
class LocalAccountant(Accountant):
    """Of whoever sees a message with its owner: ε₀ whatever δ, and what is known to be necessary.

    message: the randomizer. local_epsilon: ε₀. conditions: of every bound.
    """

    requires = ANYWHERE

    message: Message
    local_epsilon: float
    conditions: tuple[str, ...] = ()

    @property
    def pure_epsilon(self) -> float:
        """ε₀."""
        return self.local_epsilon

    def delta(self, epsilon: float) -> Bracket:
        """That of a message alone."""
        return self.message.alone(epsilon)

    def epsilon(self, delta: float) -> PrivacyBound:
        lower, basis = self.message.attained(delta), f"pure: the noisy {self.message.noun}"
        return PrivacyBound(
            lower, self.local_epsilon, delta, "learner", adjacency="label", basis=basis, conditions=self.conditions
        )


class LocalChannel(Channel):
    """Every user sends her message with her name; no trusted party and no amplification."""

    def accountant(self, setup: Setup, size: int) -> Accountant:
        """ε₀, whatever the cluster."""
        noise = self.randomizer(setup)
        return LocalAccountant(noise, noise.local_epsilon, self.conditions)

    def accountant_of(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation
    ) -> Accountant | None:
        """None: the statement of ε₀ is what is composed, and what advantages follow from."""
        return None


class ShuffledChannel(Channel):
    """A trusted shuffler passes the messages of each cluster on in random order."""

    trust: ClassVar[Trust] = "shuffler"
    source: ClassVar[Source] = "cluster"

    def release(
        self, labels: NDArray[np.uint8], features: NDArray[np.floating], clusters: NDArray[np.int64], streams: Streams
    ) -> LabelRelease:
        """What users sent, under the names of others of their cluster."""
        sent, sizes = super().release(labels, features, clusters, streams), np.diff(clusters)
        keys = streams.generator("shuffle").random(labels.size)
        order = np.lexsort((keys, np.repeat(np.arange(len(sizes)), sizes)))
        return replace(sent, payload=sent.payload[order])

    def evidence(self, outcome: Outcome, cluster_offsets: NDArray[np.int64]) -> Evidence | None:
        """That of a user of the cluster, each of them once."""
        evidence = super().evidence(outcome, cluster_offsets)
        return None if evidence is None else replace(evidence, repeated=False)


@dataclass(frozen=True)
class Table(Message):
    """A label drawn from the row of the true label.

    rows: (K, K) as nested tuples; entry [y][z] is the probability that the label y is sent as z.
    parameters: none; the mechanism says what makes the table.
    """

    rows: tuple[tuple[float, ...], ...]

    kind: ClassVar[str] = "table"
    parameters: ClassVar[dict[str, float]] = {}

    @property
    def transition(self) -> Floats:
        """(K, K)."""
        return np.array(self.rows)

    @property
    def local_epsilon(self) -> float:
        """The largest log-ratio of two rows."""
        return law_epsilon(self.transition) * UP

    @property
    def total_variation(self) -> float:
        """The largest of two rows."""
        return min(1.0, law_delta(self.transition, 0.0) * UP)

    @property
    def payload_bits(self) -> int:
        """Bits that name one of K classes."""
        return (len(self.rows) - 1).bit_length()

    def alone(self, epsilon: float) -> Bracket:
        """The largest sum of max(0, P - e^ε P') over two rows."""
        delta = law_delta(self.transition, epsilon)
        return Bracket(delta / UP, 0.0 if epsilon >= self.local_epsilon else min(1.0, delta * UP + 1e-15))

    def attained(self, delta: float) -> float:
        """Where δ(ε) is still above δ."""
        return attained_epsilon(self.transition, delta, min(self.local_epsilon, 700.0))

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Noisy labels (n,) of the labels (n,) in 0..K-1."""
        check_labels(labels, len(self.rows))
        return drawn_from_rows(self.transition, labels, rng)


@dataclass(frozen=True)
class TableAccountant(Accountant):
    """Exact, of whoever sees a label that is drawn from a table, with its owner."""

    requires = ANYWHERE

    basis = "exact: the law of the noisy label"
    message: Table
    conditions: tuple[str, ...] = ()

    @property
    def pure_epsilon(self) -> float:
        """ε₀."""
        return self.message.local_epsilon

    def delta(self, epsilon: float) -> Bracket:
        return self.message.alone(epsilon)


class LocalMechanism(LocalChannel):
    """A local mechanism that is known by its table: a subclass defines `kind`, its keys, and `transition`."""

    conditions: ClassVar[tuple[str, ...]] = LOCAL_CONDITIONS

    @abstractmethod
    def transition(self, num_classes: int) -> Floats:
        """(K, K): entry [y, z] is the probability that the label y is sent as z."""

    def randomizer(self, setup: Setup) -> Table:
        """A draw from the row of her label."""
        table: Any = self.transition(setup.num_classes)
        shape, method = (setup.num_classes,) * 2, method_of(maker_of(self), self, "transition")
        wanted = f"must give an array {shape} of probabilities, each row with the sum 1, "
        require(method, is_array(table, "iuf", shape), f"{wanted}not {described(table)}")
        right = np.isfinite(table).all() and (table >= 0).all() and (np.abs(table.sum(axis=1) - 1.0) <= 1e-9).all()
        require(method, bool(right), f"{wanted}and one is none")
        return Table(tuple(map(tuple, table.astype(np.float64).tolist())))

    def accountant(self, setup: Setup, size: int) -> TableAccountant:
        return TableAccountant(self.randomizer(setup), self.conditions)

    def accountant_of(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation
    ) -> Accountant | None:
        return Mechanism.accountant_of(self, outcome, cluster_sizes, situation)
