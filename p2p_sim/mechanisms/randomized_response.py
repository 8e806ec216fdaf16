"""K-ary randomised response: a randomizer for the label exchange, a local mechanism, and a shuffled mechanism."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base import InputError, Streams, bernoulli
from p2p_sim.exchange import Message, check_labels, signed_weights
from p2p_sim.mechanisms.channels import Channel, LocalChannel, ShuffledChannel
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.mechanism import Column, MechanismBase
from p2p_sim.mechanisms.outcome import LabelRelease, ReleaseKind
from p2p_sim.privacy import LEAST, LOCAL_CONDITIONS, Accountant, Bracket, local_delta, local_epsilon, local_flip_prob
from p2p_sim.privacy.exchange import (
    FetchedLabels,
    KaryExchange,
    LabelExchange,
    MajorityExchange,
    Peers,
    PluralityExchange,
    smallest_flip_prob,
)
from p2p_sim.privacy.rivals import SHUFFLER_CONDITIONS, ShuffledResponse


@dataclass(frozen=True)
class RandomizedResponse(Message):
    """Randomizer that keeps a label with probability 1 - α. Otherwise a random one of the K-1 other labels is sent.

    Args:
        flip_prob: α in [0, (K-1)/K].
        num_classes: K, from 2 to 256.
    """

    flip_prob: float
    num_classes: int = 2

    kind: ClassVar[str] = "label"

    @property
    def parameters(self) -> dict[str, float]:
        return {"flip_prob": self.flip_prob}

    @property
    def binary_flip_prob(self) -> float | None:
        """Flip probability α for two classes; None for more classes."""
        return self.flip_prob if self.num_classes == 2 else None

    @property
    def transition(self) -> NDArray[np.float64]:
        """Matrix (K, K): entry [y, z] is the probability that the label y is sent as z; it is 1 - α for z = y."""
        matrix = np.full((self.num_classes, self.num_classes), self.flip_prob / (self.num_classes - 1))
        np.fill_diagonal(matrix, 1.0 - self.flip_prob)
        return matrix

    def alone(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε) of one message whose sender is known: 0 and max(0, 1-α-e^ε α/(K-1)). Here α = `flip_prob`."""
        return Bracket(0.0, local_delta(self.flip_prob, epsilon, self.num_classes).upper)

    def exchanged(self, size: int, sampling_rate: float) -> Accountant:
        """The learner's accountant for a label exchange in a cluster of `size` users. Each user fetches the noisy label
        of a random user of the cluster, and submits it with probability θ = `sampling_rate`. For two classes, the
        accountant is exact in clusters of up to 2,048 users. For more classes, the accountant is exact in small
        clusters only. In larger clusters its bounds are certified.
        """
        if self.num_classes > 2:
            return KaryExchange(size, self.flip_prob, sampling_rate, self.num_classes)
        return LabelExchange(size, self.flip_prob, sampling_rate)

    def majority(self, size: int, sampling_rate: float, peers: Peers) -> Accountant:
        """The learner's accountant if each user asks several random peers and submits the most frequent reply with
        probability θ. For two classes, the accountant is exact in clusters of up to 256 users. In larger clusters its
        bounds are certified. For more classes, the bound for shuffled labels is used. This bound depends on neither θ
        nor the number of peers.

        Args:
            size: number of users of the cluster. sampling_rate: θ. peers: number of peers whom each user asks, an odd
            number. If users draw this number at random: a sequence of pairs (number of peers, its probability).
        """
        if self.num_classes > 2:
            return PluralityExchange(size, self.flip_prob, sampling_rate, self.num_classes)
        return MajorityExchange(size, self.flip_prob, sampling_rate, peers)

    def fetched(self, sources: int, submissions: int) -> Accountant:
        """The learner's accountant if exactly `submissions` labels arrived. Each label was fetched from a uniformly
        random one of `sources` users.

        If `sources` is small, the accountant for `sources` submissions is also the result for fewer. Fewer submissions
        reveal less, so δ is then an upper bound.
        """
        most = KaryExchange(sources, self.flip_prob, 1.0, self.num_classes)
        if submissions <= sources and most.enumerable:
            return most
        return FetchedLabels(sources, self.flip_prob, 1.0, self.num_classes, submissions)

    @property
    def local_epsilon(self) -> float:
        """ε₀, the ε of one message at δ = 0: ln((1-α)(K-1)/α) for the flip probability α, infinite at α = 0."""
        return local_epsilon(self.flip_prob, self.num_classes)

    @property
    def total_variation(self) -> float:
        """Largest total variation distance between the messages of two labels: 1 - αK/(K-1), with α = `flip_prob`."""
        return local_delta(self.flip_prob, 0.0, self.num_classes).upper

    @property
    def payload_bits(self) -> int:
        return (self.num_classes - 1).bit_length()

    def attained(self, delta: float) -> float:
        """A lower bound of ε at δ for one message whose sender is known: max(0, ln((1-α-δ)(K-1)/α)), rounded down. No
        smaller ε is valid. The bound is infinite at α = 0. Here α is the flip probability, and K the number of classes.

        Args:
            delta: δ.
        """
        alpha, others = self.flip_prob, self.num_classes - 1
        numerator = (1.0 - alpha - delta) * others
        return math.inf if alpha == 0 else max(0.0, math.log(max(numerator / alpha, 1.0)) * (1.0 - 1e-12))

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Draws the messages (n,), which are noisy labels, for labels (n,) in 0..K-1."""
        check_labels(labels, self.num_classes)
        flips = bernoulli(rng, self.flip_prob, labels.size)
        if self.num_classes == 2:
            noisy = flips.view(np.uint8)
            return np.bitwise_xor(labels, noisy, out=noisy)
        noisy = labels.copy()
        users = np.flatnonzero(flips)
        shift = rng.integers(1, self.num_classes, size=users.size)
        noisy[users] = (labels[users] + shift) % self.num_classes
        return noisy

    def debiased(self, noisy: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Signed weights (m, K) of m noisy labels. Given the true label, the expected weights are that label's one-hot
        vector.

        Raises:
            InputError: the flip probability is (K-1)/K, up to 1e-12. Noisy labels are then independent of true labels.
        """
        k = self.num_classes
        replaced = self.flip_prob * k / (k - 1)
        if replaced >= 1.0 - 2.0**-40:
            raise InputError(f"flip_prob = {self.flip_prob:g}: debiasing needs less than {(k - 1) / k:g}")
        return signed_weights(noisy, np.full(k, 1.0 / k), replaced)


def check_flip_prob(flip_prob: float, num_classes: int) -> float:
    """Returns α if it is 0, or from 1e-300 to (K-1)/K. Otherwise raises InputError."""
    largest = (num_classes - 1) / num_classes
    if 0.0 < flip_prob < LEAST:
        raise InputError(f"mechanism.flip_prob = {flip_prob:g}: must be 0, or at least {LEAST:g}")
    if flip_prob > largest:
        raise InputError(
            f"mechanism.flip_prob = {flip_prob:g}: must be at most {largest:.4g} for {num_classes} classes"
        )
    return flip_prob


FLIP_PROB = Column("flip_prob", "flip probability α")


class FlippedLabelsConfig(MechanismBase):
    """Base of the configurations of mechanisms whose users flip their labels."""

    columns: ClassVar[tuple[Column, ...]] = (FLIP_PROB,)
    one_of: ClassVar[tuple[str, ...]] = ("flip_prob", "target_epsilon")
    flip_prob: float | None = Field(default=None, ge=0, le=1)
    """α: probability that a noisy label differs from the true one, 0 to (K-1)/K. Give this or `target_epsilon`."""
    target_epsilon: float | None = Field(default=None, gt=0, le=100)
    """ε, above 0 and at most 100: the smallest α that is certified for ε is chosen. With a shuffler, ε is meant at the
    scenario's δ."""

    def check(self, num_classes: int) -> None:
        if self.flip_prob is not None:
            check_flip_prob(self.flip_prob, num_classes)

    def sufficient(self, epsilon: float, setup: Setup) -> float:
        """The smallest flip probability α certified for ε. By default, δ is 0 and the observer knows the owner."""
        return local_flip_prob(epsilon, setup.num_classes)

    def flips(self, setup: Setup) -> RandomizedResponse:
        """The randomizer that flips labels. If a target ε is given instead of α, `sufficient` chooses α."""
        alpha = self.flip_prob
        if alpha is None:  # then a target is given
            alpha = self.sufficient(cast(float, self.target_epsilon), setup)
        return RandomizedResponse(check_flip_prob(alpha, setup.num_classes), setup.num_classes)


class FlippedChannel(FlippedLabelsConfig, Channel):
    """Base of the mechanisms that send flipped labels to the learner directly or through a shuffler."""

    def calibrated(self, setup: Setup) -> Self:
        return self.model_copy(update={"flip_prob": self.flips(setup).flip_prob, "target_epsilon": None})

    def randomizer(self, setup: Setup) -> RandomizedResponse:
        return self.flips(setup)


class RandomizedResponseConfig(FlippedChannel, LocalChannel):
    """Every user flips her label and sends it to the learner under her name, without trusted party or amplification.

    This is the clustering paper's uniform randomised response (Corollary 1): α = (K-1)/(K-1+e^ε).
    """

    kind: Literal["randomized_response"] = "randomized_response"
    by_shard: ClassVar[bool] = True
    described: ClassVar[str] = "randomised response alone"
    conditions: ClassVar[tuple[str, ...]] = LOCAL_CONDITIONS
    debias: bool = False
    """Release K signed weights for each label, which undo α on average (Corollary 1, β = λ); false: noisy labels."""

    @property
    def releases(self) -> ReleaseKind:
        return "signed" if self.debias else "hard"

    def calibrated(self, setup: Setup) -> Self:
        fixed = super().calibrated(setup)
        if self.debias:
            fixed.randomizer(setup).debiased(np.zeros(0, dtype=np.uint8))  # refuses α = (K-1)/K
        return fixed

    def release(
        self, labels: NDArray[np.uint8], features: NDArray[np.floating], clusters: NDArray[np.int64], streams: Streams
    ) -> LabelRelease:
        release = super().release(labels, features, clusters, streams)
        if not self.debias:
            return release
        noisy = release.payload.astype(np.uint8, copy=False)
        return LabelRelease.of(self.randomizer(self.setup).debiased(noisy), "signed")


class ShuffledResponseConfig(FlippedChannel, ShuffledChannel):
    """Every user flips her label; a trusted shuffler passes each cluster's noisy labels on in random order.

    The label exchange has no shuffler; there, users draw labels of their cluster with replacement.
    """

    kind: Literal["shuffled_response"] = "shuffled_response"
    described: ClassVar[str] = "randomised response through a trusted shuffler"
    conditions: ClassVar[tuple[str, ...]] = SHUFFLER_CONDITIONS

    def sufficient(self, epsilon: float, setup: Setup) -> float:
        def certified(flip_prob: float, size: int) -> bool:
            return ShuffledResponse(size, flip_prob, setup.num_classes).satisfies(epsilon, setup.delta)

        return smallest_flip_prob(certified, setup.sizes.tolist(), setup.num_classes, epsilon)

    def accountant(self, setup: Setup, size: int) -> ShuffledResponse:
        noise = self.randomizer(setup)
        return ShuffledResponse(size, noise.flip_prob, noise.num_classes)
