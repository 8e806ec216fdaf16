"""Randomizers of labels, the privacy of labels that peers pass on, and weights that undo the noise of labels.

A payload is the noisy message that a randomizer makes of a label.

`signed_weights` gives the modified loss of the clustering paper (Esfandiari et al.). There a label is redrawn with
probability β, from a distribution q over K classes. So the label y becomes y' with probability
Q[y', y] = (1-β) 1{y' = y} + β q(y'). The loss of Algorithm 1 is Σ_y Q⁻¹[y, z] ℓ(h, x, y) for a model h, features x
and a noisy label z. No K × K matrix is formed, because Q⁻¹ = (I - β q 1ᵀ)/(1-β) for the vector 1 of ones.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError
from p2p_sim.privacy import Accountant, Bracket, local_advantage
from p2p_sim.privacy.rivals import ShuffledMessages

Floats = NDArray[np.float64]
PayloadKind = Literal["hard", "bits", "soft", "signed", "values"]
"""The form in which the learner gets a payload: a class, K bits, K probabilities, K signed weights, or a number."""


def signed_weights(labels: NDArray[np.integer], distribution: Floats, bias_correction: float) -> Floats:
    """Weights of the K classes for each of m noisy labels, (m, K), which undo the noise on average.

    The learner multiplies the loss of each class by the class's weight. The weights of the noisy label z are column z
    of Q⁻¹. Here Q[y', y] = (1-β) 1{y' = y} + β q(y') is the probability that the label y becomes y'. The weights of a
    label sum to one; only the weight of z itself can be above 0.

    >>> signed_weights(np.array([0]), np.array([0.5, 0.5]), 0.2).tolist()
    [[1.125, -0.125]]

    Args:
        labels: (m,) noisy labels in 0..K-1. distribution: q, from which a redrawn label comes; (K,), or for each label
        a row of (m, K). A row sums to one. bias_correction: β, at least 0 and below 1, the probability of redrawing a
        label.

    Raises:
        InputError: β or a label is out of range.
    """
    classes = distribution.shape[-1]
    if not 0.0 <= bias_correction < 1.0:
        raise InputError(f"bias_correction = {bias_correction:g}: must be at least 0 and below 1")
    check_labels(labels, classes)
    weights = np.broadcast_to(-bias_correction * distribution, (labels.size, classes)).copy()
    weights[np.arange(labels.size), labels] += 1.0
    weights /= 1.0 - bias_correction
    return weights


def check_labels(labels: NDArray[np.integer], num_classes: int) -> None:
    """Raise InputError if any label lies outside 0..K-1. num_classes: K."""
    if labels.size and not 0 <= int(labels.min()) <= int(labels.max()) < num_classes:
        raise InputError(f"labels: must lie in 0..{num_classes - 1}, found {labels.min()} to {labels.max()}")


class Randomizer(Protocol):
    """A local randomizer, which turns each true label into a payload that may leave the label's owner."""

    @property
    @abstractmethod
    def local_epsilon(self) -> float:
        """ε₀: the ε of one payload at δ = 0, against an observer who knows the payload's owner. Neighbouring data sets
        differ in one label.
        """

    @property
    @abstractmethod
    def total_variation(self) -> float:
        """The largest total variation distance between the payload's distributions under two labels: δ at ε = 0."""

    @property
    @abstractmethod
    def payload_bits(self) -> int:
        """Size of one payload, bits."""

    @abstractmethod
    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.generic]:
        """Payloads (n, ...) of the labels (n,), each drawn independently."""


class Message(Randomizer, ABC):
    """A randomizer for messages that peers may pass on, with methods that compute the privacy of a label.

    The bounds of this class hold for any randomizer. A subclass may override a method with a better bound.

    kind: the kind of payload, a name from `where_bounds_hold.Situation.message`. noun: the word for a payload.
    releases: the form in which the learner gets payloads.
    """

    kind: ClassVar[str]
    noun: ClassVar[str] = "label"
    releases: ClassVar[PayloadKind] = "hard"

    @property
    @abstractmethod
    def parameters(self) -> dict[str, float]:
        """The parameters of the noise, such as the flip probability. The keys are column names in tables of results."""

    @property
    def caveats(self) -> tuple[str, ...]:
        """Further conditions, as sentences, under which ε₀ (the ε of one noisy message on its own) holds. Conditions
        that apply to every kind of message are not included.
        """
        return ()

    @property
    def binary_flip_prob(self) -> float | None:
        """The flip probability α if messages are flipped labels of two classes; None for other messages."""
        return None

    @property
    def transition(self) -> NDArray[np.float64] | None:
        """A table (K, K): entry [y, z] is the probability that y is sent as z. None: payloads are not classes."""
        return None

    def released(self, payload: NDArray[np.generic]) -> NDArray[np.generic]:
        """What the learner gets for the payloads (m, ...): here the payloads themselves. The payloads of a subclass may
        be codes, such as indices into a list of numbers. The subclass then returns what the codes stand for.
        """
        return payload

    def unbiased(self, payload: NDArray[np.generic]) -> NDArray[np.float64] | None:
        """Numbers (m, K) for m payloads. Given the true label y, the mean is 1 for class y and 0 for every other class.
        None: no such numbers are known, or payloads are classes, which need no such numbers.
        """
        return None

    def alone(self, epsilon: float) -> Bracket:
        """A lower and an upper bound of δ at a given ε, for one payload on its own. The observer sees the payload and
        knows the payload's owner.
        """
        return self.shuffled(1).delta(epsilon)

    def attained(self, delta: float) -> float:
        """A lower bound of any valid ε at the given δ, for one payload on its own; 0 if no bound is known. The observer
        sees the payload and knows the payload's owner. The bound shows how tight the certified ε is.
        """
        return 0.0

    def advantage(self, num_classes: int) -> float:
        """An upper bound of how much a payload raises an observer's probability of guessing the label right. The
        observer knows the payload's owner. Without the payload, all K labels are equally likely to her. num_classes: K.
        """
        return local_advantage(self.total_variation, self.local_epsilon, num_classes)

    def shuffled(self, users: int) -> ShuffledMessages:
        """The privacy accountant (ε at a δ, or δ at an ε) of one user's label. The observer sees the payloads of
        `users` users, including this user, in random order. The observer does not see who owns a payload.
        """
        return ShuffledMessages(users, self.local_epsilon, self.total_variation, self.caveats)

    def exchanged(self, size: int, sampling_rate: float) -> Accountant:
        """The privacy accountant of one user's label, against the learner of an exchange. Each user of a cluster of
        `size` users fetches the payload of a random user of the cluster. She submits this payload with probability θ,
        `sampling_rate`. No message is lost or late, and nobody is offline.
        """
        return replace(self.shuffled(size), sampling_rate=sampling_rate)

    def fetched(self, sources: int, submissions: int) -> Accountant:
        """The privacy accountant of one user's label, against an observer who sees `submissions` messages. Each message
        is the noisy message of a random user of `sources` users, who include this user. The messages' owners are not
        shown.
        """
        return replace(self.shuffled(sources), submissions=submissions)
