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
        """The randomizer, with its parameters fixed for the scenario's users."""
        return self.randomizer(self.setup)

    def release(
        self, labels: NDArray[np.uint8], features: NDArray[np.floating], clusters: NDArray[np.int64], streams: Streams
    ) -> LabelRelease:
        """What every user's randomizer makes of her label, under her own name."""
        noise = self.noise
        return LabelRelease.of(noise.released(noise.randomize(labels, streams.generator("flip"))), noise.releases)

    def noise_law(self, outcome: Outcome) -> NoiseLaw | None:
        """The public law of the released labels, that of the randomizer; a mechanism that does more to a label must
        override it.
        """
        transition = self.noise.transition
        return None if transition is None else NoiseLaw.common(transition, self.source)

    def evidence(self, outcome: Outcome, cluster_offsets: NDArray[np.int64]) -> Evidence | None:
        if outcome.labels.kind == "hard":
            return super().evidence(outcome, cluster_offsets)
        return of_messages(outcome.labels, self.noise, self.source)

    def local_advantage(self, num_classes: int) -> float | None:
        return self.noise.advantage(num_classes)

    def local_epsilon(self, sizes: NDArray[np.int64]) -> float | None:
        """ε₀ of a user's own message."""
        return self.noise.local_epsilon


@dataclass(frozen=True)
class LocalAccountant(Accountant):
    """Accountant of an observer who sees a message with its owner: ε₀ at every δ, with a lower end where one is known.

    message: the randomizer. local_epsilon: ε₀. conditions: of every bound.
    """

    requires = ANYWHERE

    message: Message
    local_epsilon: float
    conditions: tuple[str, ...] = ()

    @property
    def pure_epsilon(self) -> float:
        """ε₀ of the message."""
        return self.local_epsilon

    def delta(self, epsilon: float) -> Bracket:
        """δ(ε) of a message seen with its owner."""
        return self.message.alone(epsilon)

    def epsilon(self, delta: float) -> PrivacyBound:
        lower, basis = self.message.attained(delta), f"pure: the noisy {self.message.noun}"
        return PrivacyBound(
            lower, self.local_epsilon, delta, "learner", adjacency="label", basis=basis, conditions=self.conditions
        )


class LocalChannel(Channel):
    """Every user sends her message with her name; no trusted party and no amplification."""

    def accountant(self, setup: Setup, size: int) -> Accountant:
        """The accountant of a user's message seen with her name: ε₀, whatever the cluster."""
        noise = self.randomizer(setup)
        return LocalAccountant(noise, noise.local_epsilon, self.conditions)

    def accountant_of(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation
    ) -> Accountant | None:
        """None: compositions and advantages are computed from the statement of ε₀ alone."""
        return None


class ShuffledChannel(Channel):
    """A trusted shuffler passes the messages of each cluster on in random order."""

    trust: ClassVar[Trust] = "shuffler"
    source: ClassVar[Source] = "cluster"

    def release(
        self, labels: NDArray[np.uint8], features: NDArray[np.floating], clusters: NDArray[np.int64], streams: Streams
    ) -> LabelRelease:
        """The users' messages, each under the name of a random other user of the cluster."""
        sent, sizes = super().release(labels, features, clusters, streams), np.diff(clusters)
        keys = streams.generator("shuffle").random(labels.size)
        order = np.lexsort((keys, np.repeat(np.arange(len(sizes)), sizes)))
        return replace(sent, payload=sent.payload[order])

    def evidence(self, outcome: Outcome, cluster_offsets: NDArray[np.int64]) -> Evidence | None:
        """What the shuffled labels say of the cluster's true ones on average; each noisy label occurs once."""
        evidence = super().evidence(outcome, cluster_offsets)
        return None if evidence is None else replace(evidence, repeated=False)


@dataclass(frozen=True)
class Table(Message):
    """A randomizer that draws a noisy label from the row of a table that belongs to the true label.

    rows: (K, K) as nested tuples; entry [y][z] is the probability that the label y is sent as z. parameters: none; the
    mechanism says what makes the table.
    """

    rows: tuple[tuple[float, ...], ...]

    kind: ClassVar[str] = "table"
    parameters: ClassVar[dict[str, float]] = {}

    @property
    def transition(self) -> Floats:
        """The table, (K, K): entry [y, z] is the probability that the label y is sent as z."""
        return np.array(self.rows)

    @property
    def local_epsilon(self) -> float:
        """ε₀ of a noisy label: the largest log-ratio of two rows, rounded up."""
        return law_epsilon(self.transition) * UP

    @property
    def total_variation(self) -> float:
        """The largest total variation between two rows, rounded up."""
        return min(1.0, law_delta(self.transition, 0.0) * UP)

    @property
    def payload_bits(self) -> int:
        """Bits that name one of K classes."""
        return (len(self.rows) - 1).bit_length()

    def alone(self, epsilon: float) -> Bracket:
        """δ(ε) of a noisy label seen with its owner: the largest sum of max(0, P - e^ε P') over two rows."""
        delta = law_delta(self.transition, epsilon)
        return Bracket(delta / UP, 0.0 if epsilon >= self.local_epsilon else min(1.0, delta * UP + 1e-15))

    def attained(self, delta: float) -> float:
        """An ε below which no ε holds at δ: where δ(ε) of the table is still above δ."""
        return attained_epsilon(self.transition, delta, min(self.local_epsilon, 700.0))

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Noisy labels (n,) of the labels (n,) in 0..K-1."""
        check_labels(labels, len(self.rows))
        return drawn_from_rows(self.transition, labels, rng)


@dataclass(frozen=True)
class TableAccountant(Accountant):
    """Exact accountant of an observer who sees a label that was drawn from a table, with its owner."""

    requires = ANYWHERE

    basis = "exact: the law of the noisy label"
    message: Table
    conditions: tuple[str, ...] = ()

    @property
    def pure_epsilon(self) -> float:
        """ε₀ of the noisy label."""
        return self.message.local_epsilon

    def delta(self, epsilon: float) -> Bracket:
        return self.message.alone(epsilon)


class LocalMechanism(LocalChannel):
    """A local mechanism that is known by its table: a subclass defines `kind`, its keys, and `transition`."""

    conditions: ClassVar[tuple[str, ...]] = LOCAL_CONDITIONS

    @abstractmethod
    def transition(self, num_classes: int) -> Floats:
        """The table of the randomizer, (K, K): entry [y, z] is the probability that the label y is sent as z."""

    def randomizer(self, setup: Setup) -> Table:
        """The randomizer that draws from the row of a user's label."""
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
