"""Randomizers of labels, the privacy of a label whose payload peers pass on, and signed weights of noisy labels.

A payload is the noisy message that a randomizer makes of a label. Signed weights undo the noise of labels on average;
they give the modified loss of the clustering paper (Esfandiari et al.).

For a probability β of redrawing a label and a law q of the K classes, let Q[y', y] = (1-β) 1{y' = y} + β q(y'). For a
model h, features x and a noisy label y, the loss of Algorithm 1 is Σ_y' Q⁻¹[y', y] ℓ(h, x, y'). It weighs the loss
ℓ(h, x, y') of each class y' with an entry in column y of Q⁻¹. Because Q⁻¹ = (I - β q 1ᵀ)/(1-β), where 1 is the vector
of ones, no K × K matrix is formed. A column sums to one; its entries are at most 0, except the entry of y itself.
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
    """Weights of the K classes for each of m noisy labels, (m, K). A learner multiplies the loss of each class by the
    class's weight, so that the noise is undone on average. For the noisy label z the weights are column z of Q⁻¹, where
    Q[y', y] = (1-β) 1{y' = y} + β q(y') is the probability that a label y becomes the noisy label y'. The weights of
    each label sum to one; only the weight of z itself can be above 0.

    >>> signed_weights(np.array([0]), np.array([0.5, 0.5]), 0.2).tolist()
    [[1.125, -0.125]]

    Args:
        labels: (m,) noisy labels in 0..K-1. distribution: q, the law from which a changed label is drawn, (K,) or
        one law for each label, (m, K); each law sums to one. bias_correction: β, at least 0 and below 1, the
        probability with which a label was drawn anew; the weights undo such redraws.

    Raises:
        InputError: β is out of its range, or a label is.
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
    """A local randomizer: it turns each true label into a payload that may leave its owner."""

    @property
    @abstractmethod
    def local_epsilon(self) -> float:
        """ε₀: the ε, with δ = 0, of one payload on its own, against an observer who knows whose payload it is.
        Neighbouring data sets differ in one label.
        """

    @property
    @abstractmethod
    def total_variation(self) -> float:
        """The largest total variation between the payload's distributions under two labels; this is δ at ε = 0."""

    @property
    @abstractmethod
    def payload_bits(self) -> int:
        """Size of one payload, bits."""

    @abstractmethod
    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.generic]:
        """Payloads (n, ...) of the labels (n,), each drawn independently."""


class Message(Randomizer, ABC):
    """A randomizer whose payloads may be exchanged: it states the privacy of a label once peers pass payloads on.

    The methods of this class are valid for any randomizer. A subclass that knows better bounds overrides them.

    kind: the kind of its payloads, as `where_bounds_hold.Situation.message` names it. noun: the word for a payload.
    releases: the form in which the learner gets payloads.
    """

    kind: ClassVar[str]
    noun: ClassVar[str] = "label"
    releases: ClassVar[PayloadKind] = "hard"

    @property
    @abstractmethod
    def parameters(self) -> dict[str, float]:
        """The parameters of the noise, such as the flip probability, each by the name of its column in tables of
        results.
        """

    @property
    def caveats(self) -> tuple[str, ...]:
        """Further conditions, as sentences, under which ε₀ holds; ε₀ is the ε of one noisy message on its own.
        Conditions that apply to every kind of message are not included.
        """
        return ()

    @property
    def binary_flip_prob(self) -> float | None:
        """The flip probability α if messages are flipped labels of two classes, for which papers state bounds; None for
        other messages.
        """
        return None

    @property
    def transition(self) -> NDArray[np.float64] | None:
        """A table (K, K) whose entry [y, z] is the probability that the label y is sent as z; None if payloads are not
        classes.
        """
        return None

    def released(self, payload: NDArray[np.generic]) -> NDArray[np.generic]:
        """What the learner gets for the payloads (m, ...), the noisy messages that users exchange: here the payloads
        themselves. A subclass in which payloads are only codes, such as indices into a list of numbers, returns what
        they stand for.
        """
        return payload

    def unbiased(self, payload: NDArray[np.generic]) -> NDArray[np.float64] | None:
        """Numbers (m, K) for m payloads: their mean, given the true label y, is 1 for class y and 0 for the other
        classes. None if such numbers are unknown or not needed. They are not needed if payloads are classes, since the
        probability with which each class is sent is known.
        """
        return None

    def alone(self, epsilon: float) -> Bracket:
        """A lower and an upper bound of δ at a given ε for one payload on its own, against an observer who sees the
        payload and knows whose it is.
        """
        return self.shuffled(1).delta(epsilon)

    def attained(self, delta: float) -> float:
        """An ε such that no smaller ε holds at the given δ, for one payload on its own against an observer who sees the
        payload and knows whose it is; 0 if no such ε is known. This ε shows how tight the certified ε is.
        """
        return 0.0

    def advantage(self, num_classes: int) -> float:
        """An upper bound of how much the payload raises an observer's probability of guessing the label right. The
        observer knows whose payload it is; before she sees it, all K labels are equally likely to her. num_classes: K.
        """
        return local_advantage(self.total_variation, self.local_epsilon, num_classes)

    def shuffled(self, users: int) -> ShuffledMessages:
        """The accountant of one user's label, which computes δ at a given ε and ε at a given δ, against an observer who
        sees the payloads of `users` users. The user's payload is among them; they are in random order, and their owners
        are not shown.
        """
        return ShuffledMessages(users, self.local_epsilon, self.total_variation, self.caveats)

    def exchanged(self, size: int, sampling_rate: float) -> Accountant:
        """The accountant of one user's label, which computes δ at a given ε and ε at a given δ, against the learner.
        Each user of a cluster of `size` users fetches the payload of a random user of the cluster and submits it with
        probability θ, `sampling_rate`; no message is lost or late, and nobody is offline.
        """
        return replace(self.shuffled(size), sampling_rate=sampling_rate)

    def fetched(self, sources: int, submissions: int) -> Accountant:
        """The accountant of one user's label, which computes δ at a given ε and ε at a given δ, against an observer who
        sees `submissions` messages. Each of them is the noisy message of one of `sources` users, drawn at random; the
        user is one of these. The observer does not see whose message it is.
        """
        return replace(self.shuffled(sources), submissions=submissions)
