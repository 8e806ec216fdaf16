"""Channels in which users send messages to the learner, either under their names or through a trusted shuffler.

A randomizer is the random function that turns a label into a message. In the local channel every user sends her message
under her own name, so only the noise protects her label. A shuffler passes on the messages of each cluster in random
order.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import Streams, described, is_array, maker_of, method_of, require
from p2p_sim.exchange import Message, check_labels
from p2p_sim.mechanisms.deployment import Setup, Trust
from p2p_sim.mechanisms.mechanism import Mechanism
from p2p_sim.mechanisms.noise_law import Evidence, NoiseLaw, Source, of_messages
from p2p_sim.mechanisms.outcome import Floats, LabelRelease, Outcome
from p2p_sim.privacy import (
    ANYWHERE,
    LOCAL_CONDITIONS,
    Accountant,
    Bracket,
    PrivacyBound,
    Situation,
    attained_epsilon,
    drawn_from_rows,
    law_delta,
    law_epsilon,
)

UP = 1.0 + 2.0**-45
"""Factor that rounds up a number computed from a matrix of probabilities."""


class Channel(Mechanism):
    """A mechanism in which each user sends one message, made by a randomizer.

    source: whose message is released under a user's name; "user": her own, "cluster": a random user's of her cluster.
    """

    source: ClassVar[Source] = "user"

    @abstractmethod
    def randomizer(self, setup: Setup) -> Message:
        """The random function that turns a user's label into her message, with its privacy parameters.

        Args:
            setup: facts that are known beforehand, such as the cluster sizes, the number of classes K and the
            scenario's δ.
        """

    @property
    def noise(self) -> Message:
        """The randomizer of this mechanism, after the mechanism's parameters are fixed (`deployed`)."""
        return self.randomizer(self.setup)

    def release(
        self, labels: NDArray[np.uint8], features: NDArray[np.floating], clusters: NDArray[np.int64], streams: Streams
    ) -> LabelRelease:
        """Returns the noisy label of every user (n,), each released under the user's own name."""
        noise = self.noise
        return LabelRelease.of(noise.released(noise.randomize(labels, streams.generator("flip"))), noise.releases)

    def noise_law(self, outcome: Outcome) -> NoiseLaw | None:
        """The public probabilities (K, K) of a released label given the true label, for learners. The law also says
        whose true label this is: the user's own, or a random user's of her cluster. None if messages do not carry a
        class. A subclass that changes labels after the randomizer must override this method.

        Args:
            outcome: the result of the run; not used.
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
        return self.noise.local_epsilon


@dataclass(frozen=True)
class MessageAccountant(Accountant):
    """Base of accountants for a single message. The observer sees the message and knows the sender.

    message: the randomizer.
    """

    requires = ANYWHERE

    message: Message

    @property
    def pure_epsilon(self) -> float:
        return self.message.local_epsilon

    def delta(self, epsilon: float) -> Bracket:
        return self.message.alone(epsilon)


@dataclass(frozen=True)
class LocalAccountant(MessageAccountant):
    """Accountant for a single message with a known sender. The stated ε is ε₀ at every δ.

    local_epsilon: ε₀, the ε of a message at δ = 0. conditions: conditions of the bounds, as sentences.
    """

    local_epsilon: float
    conditions: tuple[str, ...] = ()

    @property
    def pure_epsilon(self) -> float:
        return self.local_epsilon

    def epsilon(self, delta: float) -> PrivacyBound:
        return PrivacyBound(
            self.message.attained(delta),
            self.local_epsilon,
            delta,
            "learner",
            adjacency="label",
            basis=f"pure: the noisy {self.message.noun}",
            conditions=self.conditions,
        )


class LocalChannel(Channel):
    """Every user sends her message under her name. There is no trusted party, and only the noise protects a label."""

    def accountant(self, setup: Setup, size: int) -> Accountant:
        """Accountant of a user's message, which is seen with her name. Cluster sizes do not matter."""
        noise = self.randomizer(setup)
        return LocalAccountant(noise, noise.local_epsilon, self.conditions)

    def accountant_of(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation
    ) -> Accountant | None:
        """Always None: there is no accountant of a run that bounds δ at every ε. Callers use that ε is at most ε₀ (the
        ε of one message) at every δ.

        Args:
            outcome, cluster_sizes, situation: not used.
        """
        return None


class ShuffledChannel(Channel):
    """A trusted shuffler passes the messages of each cluster on to the learner in random order."""

    trust: ClassVar[Trust] = "shuffler"
    source: ClassVar[Source] = "cluster"

    def release(
        self, labels: NDArray[np.uint8], features: NDArray[np.floating], clusters: NDArray[np.int64], streams: Streams
    ) -> LabelRelease:
        """Returns the noisy labels of all users (n,), in random order within each cluster."""
        sent, sizes = super().release(labels, features, clusters, streams), np.diff(clusters)
        cluster, keys = np.repeat(np.arange(len(sizes)), sizes), streams.generator("shuffle").random(labels.size)
        return replace(sent, payload=sent.payload[np.lexsort((keys, cluster))])

    def evidence(self, outcome: Outcome, cluster_offsets: NDArray[np.int64]) -> Evidence | None:
        """Scores of the K classes for each released label, for estimates of accuracy without true labels. The label's
        owner is a random user of the cluster. The mean of a score over the noise is 1 for the owner's true class and 0
        for the other classes. None if the noise gives no such scores. The result also says that no label was released
        twice, which makes estimates more precise.

        Args:
            outcome: the result of the run, with the released labels. cluster_offsets: (C+1,); cluster c holds users
            cluster_offsets[c]..cluster_offsets[c+1]-1.
        """
        evidence = super().evidence(outcome, cluster_offsets)
        return None if evidence is None else replace(evidence, repeated=False)


@dataclass(frozen=True)
class Table(Message):
    """A randomizer given by a matrix of probabilities. A label is replaced by a draw from its row of the matrix.

    rows: (K, K) as nested tuples; entry [y][z] is the probability that the label y is sent as z. parameters: empty,
    because the mechanism that makes the matrix has its own parameters.
    """

    rows: tuple[tuple[float, ...], ...]

    kind: ClassVar[str] = "table"
    parameters: ClassVar[dict[str, float]] = {}

    @property
    def transition(self) -> Floats:
        """Matrix (K, K): entry [y, z] is the probability that the label y is sent as z."""
        return np.array(self.rows)

    @property
    def local_epsilon(self) -> float:
        """ε₀ of a message, rounded up: largest log-ratio of two entries of a column (infinite if only one is 0)."""
        return law_epsilon(self.transition) * UP

    @property
    def total_variation(self) -> float:
        """Largest total variation distance between the messages of two labels, rounded up."""
        return min(1.0, law_delta(self.transition, 0.0) * UP)

    @property
    def payload_bits(self) -> int:
        return (len(self.rows) - 1).bit_length()

    def alone(self, epsilon: float) -> Bracket:
        """Lower and upper bound of δ(ε) of one message with a known sender. The exact value is the largest Σ max(0, P -
        e^ε P') over rows P, P' of the matrix.
        """
        delta = law_delta(self.transition, epsilon)
        return Bracket(delta / UP, 0.0 if epsilon >= self.local_epsilon else min(1.0, delta * UP + 1e-15))

    def attained(self, delta: float) -> float:
        """A lower bound of ε at δ, for one message with a known sender: no smaller ε is valid. The result is 0 if no
        such bound is found.

        Args:
            delta: δ.
        """
        return attained_epsilon(self.transition, delta, min(self.local_epsilon, 700.0))

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Draws the users' messages: a noisy label (n,) for each of the labels (n,) in 0..K-1."""
        check_labels(labels, len(self.rows))
        return drawn_from_rows(self.transition, labels, rng)


@dataclass(frozen=True)
class TableAccountant(MessageAccountant):
    """Accountant for one message that is drawn from a matrix of probabilities. The observer knows the sender. The
    bounds are exact up to rounding.
    """

    basis = "exact: the law of the noisy label"
    conditions: tuple[str, ...] = ()


class LocalMechanism(LocalChannel):
    """Base of local mechanisms with a matrix of probabilities. Subclasses define `kind`, the keys, and `transition`."""

    conditions: ClassVar[tuple[str, ...]] = LOCAL_CONDITIONS

    @abstractmethod
    def transition(self, num_classes: int) -> Floats:
        """Matrix (K, K) of the noise: entry [y, z] is the probability that the label y is sent as z."""

    def randomizer(self, setup: Setup) -> Table:
        """The randomizer that draws a user's message from the row of her label in the matrix `transition`.

        Raises:
            InputError: the matrix has the wrong shape, or one of its rows is not a distribution.
        """
        table: Any = self.transition(setup.num_classes)
        shape, method = (setup.num_classes,) * 2, method_of(maker_of(self), self, "transition")
        wanted = f"must give an array {shape} of probabilities, each row with the sum 1, "
        require(method, is_array(table, "iuf", shape), f"{wanted}not {described(table)}")
        require(
            method,
            bool(np.isfinite(table).all() and (table >= 0).all() and (np.abs(table.sum(axis=1) - 1.0) <= 1e-9).all()),
            f"{wanted}but gave a row that is no distribution",
        )
        return Table(tuple(map(tuple, table.astype(np.float64).tolist())))

    def accountant(self, setup: Setup, size: int) -> TableAccountant:
        return TableAccountant(self.randomizer(setup), self.conditions)

    def accountant_of(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation
    ) -> Accountant | None:
        return Mechanism.accountant_of(self, outcome, cluster_sizes, situation)
