"""What a user's message does to her label, and what that is worth once the message has been passed on."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.advantage import local_advantage
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.rivals.shuffled_messages import ShuffledMessages


class Randomizer(Protocol):
    """A local randomizer: it turns each true label into a payload that may leave its owner."""

    @property
    def local_epsilon(self) -> float:
        """ε of one payload on its own (label adjacency)."""
        ...

    @property
    def total_variation(self) -> float:
        """Largest total variation between the payload's laws under two labels: its δ at ε = 0."""
        ...

    @property
    def payload_bits(self) -> int:
        """Size of one payload, bits."""
        ...

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.generic]:
        """Payloads (n, ...) of the labels (n,), each drawn independently."""
        ...


class Message(ABC):
    """A randomizer whose payloads may be exchanged: it knows what protects a label once peers pass payloads on.

    What is here holds for any randomizer; one of which more is known says so by overriding it.

    kind: of its payloads, as `domain.Situation.message` names them.
    hides_when_inverted: whether a user who answers with the next class still hides others.
    """

    kind: ClassVar[str]
    hides_when_inverted: ClassVar[bool] = False

    @property
    @abstractmethod
    def local_epsilon(self) -> float:
        """ε of one payload on its own (label adjacency)."""

    @property
    @abstractmethod
    def total_variation(self) -> float:
        """Largest total variation between the payload's laws under two labels: its δ at ε = 0."""

    @property
    @abstractmethod
    def payload_bits(self) -> int:
        """Size of one payload, bits."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, float]:
        """What a row says of the noise, each name one of `interface.PARAMETERS`."""

    @abstractmethod
    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.generic]:
        """Payloads (n, ...) of the labels (n,), each drawn independently."""

    @property
    def caveats(self) -> tuple[str, ...]:
        """Conditions of ε₀ that are not those of every message."""
        return ()

    @property
    def binary_flip_prob(self) -> float | None:
        """α of flipped labels of two classes, of which the papers speak; None for other messages."""
        return None

    @property
    def transition(self) -> NDArray[np.float64] | None:
        """(K, K): entry [y, z] is the probability that the label y is sent as z; None for payloads of another kind."""
        return None

    def unbiased(self, payload: NDArray[np.generic]) -> NDArray[np.float64] | None:
        """(m, K) numbers whose mean, given the true label, is its indicator; None if no way to them is known.

        Payloads that are classes need none: their `transition` says it.
        """
        return None

    def alone(self, epsilon: float) -> Bracket:
        """At most δ(ε) of a payload seen with its owner."""
        return self.shuffled(1).delta(epsilon)

    def advantage(self, num_classes: int) -> float:
        """How much more often somebody guesses the label right who sees the payload with its owner, at most.

        To whoever does not see it, all K labels are equally likely.
        """
        return local_advantage(self.total_variation, self.local_epsilon, num_classes)

    def shuffled(self, users: int) -> ShuffledMessages:
        """What protects a label from whoever gets the payloads of so many users without their owners."""
        return ShuffledMessages(users, self.local_epsilon, self.total_variation, self.caveats)

    def exchanged(self, size: int, sampling_rate: float) -> Accountant:
        """What protects a label from the learner in a cluster of n users if nothing fails; θ: sampling rate."""
        return replace(self.shuffled(size), sampling_rate=sampling_rate)

    def fetched(self, sources: int, submissions: int) -> Accountant:
        """The same where so many submissions were fetched from so many users whose payloads are not known."""
        return replace(self.shuffled(sources), submissions=submissions)
