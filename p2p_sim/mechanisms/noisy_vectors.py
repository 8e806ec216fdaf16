"""Noisy one-hot labels: vector approximation flips bits; ALIBI adds Laplace noise and makes class probabilities.

ALIBI: Malek Esmaeili et al. 2021.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base import BLOCK, Streams, bernoulli
from p2p_sim.exchange import Message, PayloadKind, check_labels
from p2p_sim.mechanisms.channels import LocalChannel
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.mechanism import NOISE_SCALE, Column
from p2p_sim.mechanisms.noise_law import Evidence
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome, ReleaseKind
from p2p_sim.privacy import LOCAL_CONDITIONS, ONE_VECTOR, REAL_NOISE, Bracket
from p2p_sim.privacy.rivals import (
    bit_flip_prob_of,
    laplace_advantage,
    laplace_epsilon,
    laplace_variation,
    noise_scale_of,
    soft_labels,
    vector_advantage,
    vector_delta,
    vector_epsilon,
)
from p2p_sim.privacy.rivals.alibi import laplace_delta


@dataclass(frozen=True)
class Alibi(Message):
    """The ALIBI randomizer: Laplace noise on each entry of the one-hot label, then Bayes' rule. A message is a soft
    label: K class probabilities.

    Args:
        noise_scale: scale b of the noise, above 0.
        num_classes: K, from 2 to 256.
    """

    noise_scale: float
    num_classes: int

    kind: ClassVar[str] = "alibi"
    noun: ClassVar[str] = "vector"
    releases: ClassVar[PayloadKind] = "soft"
    caveats: ClassVar[tuple[str, ...]] = (REAL_NOISE,)

    @property
    def parameters(self) -> dict[str, float]:
        return {"noise_scale": self.noise_scale}

    @property
    def local_epsilon(self) -> float:
        """ε₀ = 2/b of one message. Two one-hot labels differ by 1 in two entries with Laplace noise of scale b."""
        return laplace_epsilon(self.noise_scale)

    @property
    def total_variation(self) -> float:
        """Largest total variation distance between two labels' messages: 1 - e^{-1/b} (1 + 1/(2b)). Here b is the scale
        of the Laplace noise. This distance is δ of a message at ε = 0.
        """
        return laplace_variation(self.noise_scale)

    def alone(self, epsilon: float) -> Bracket:
        """Bounds of δ at ε for one message whose sender is known. The lower bound is 0.

        Args:
            epsilon: ε, at least 0.
        """
        return Bracket(0.0, laplace_delta(self.noise_scale, epsilon).upper)

    def attained(self, delta: float) -> float:
        """A lower bound of ε at δ for one message whose sender is known: max(0, ε₀ + ln(1-4δ)), or 0 if δ >= 1/4. No
        smaller ε is valid. Proof. With probability 1/4 under one of two labels, the noisy vector favours this label by
        the factor e^ε₀. So δ is at least (1 - e^(ε-ε₀))/4 at every ε ≤ ε₀.

        Args:
            delta: δ.
        """
        quarter = 1.0 - 4.0 * delta
        return max(0.0, self.local_epsilon * (1.0 - 1e-12) + math.log(quarter)) if quarter > 0 else 0.0

    def advantage(self, num_classes: int) -> float:
        """Upper bound of what a message adds to the probability to guess the label right. Before the message, all K
        labels are equally likely. If ε₀ is at most 5, the bound is too large by less than a thousandth. For larger ε₀
        it is too large by at most a few hundredths.

        Args:
            num_classes: K.
        """
        return laplace_advantage(self.noise_scale, num_classes)

    @property
    def payload_bits(self) -> int:
        """Size of one message in bits: K numbers in single precision."""
        return 32 * self.num_classes

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.float32]:
        """Draws the users' messages (n, K) for their true labels (n,). A message holds K class probabilities. Bayes'
        rule with the uniform prior computes them from a noisy one-hot vector.
        """
        vectors = self.noisy(labels, rng)
        self.apply_bayes(vectors, np.full(self.num_classes, 1.0 / self.num_classes))
        return vectors

    def noisy(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.float32]:
        """Draws noisy one-hot vectors (n, K) of the labels (n,), before Bayes' rule. Entries are cut to [0, 1]; Bayes'
        rule gives the same soft label for the cut vector.
        """
        check_labels(labels, self.num_classes)
        out = np.empty((labels.size, self.num_classes), dtype=np.float32)
        for rows in self._blocks(labels.size):
            block = out[rows]
            rng.standard_exponential(dtype=np.float32, out=block)
            block *= self.noise_scale
            block *= 1.0 - 2.0 * bernoulli(rng, 0.5, block.size).reshape(block.shape).astype(np.float32)
            block[np.arange(len(block)), labels[rows]] += 1.0
            np.clip(block, 0.0, 1.0, out=block)
        return out

    def apply_bayes(self, vectors: NDArray[np.float32], prior: NDArray[np.float64]) -> None:
        """Turn noisy vectors (n, K) into soft labels, in place. Bayes' rule uses the class probabilities `prior`."""
        for rows in self._blocks(len(vectors)):
            vectors[rows] = soft_labels(vectors[rows], prior[None, :], self.noise_scale)

    def estimated_prior(self, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """Class shares (K,) estimated from the noisy vectors of m users, for use as a prior in Bayes' rule.

        Let b be the scale of the noise, and q = (b/2)(1 - e^{-1/b}). The expectation of a cut entry is 1 - q at the
        true label, and q elsewhere. The estimate undoes this shift. Shares below 1/m are raised to 1/m. Then all shares
        are scaled to the sum 1.

        Args:
            vectors: (m, K), noisy one-hot vectors with entries cut to [0, 1]; m >= 1.
        """
        low = -self.noise_scale / 2.0 * math.expm1(-1.0 / self.noise_scale)
        shares = (vectors.mean(axis=0, dtype=np.float64) - low) / (1.0 - 2.0 * low)
        shares = np.maximum(shares, 1.0 / len(vectors))
        return np.asarray(shares / shares.sum())

    def unbiased(self, payload: NDArray[np.generic]) -> NDArray[np.float64] | None:
        """Weights (n, K) of n soft labels. Given the true label, the expected weights are that label's one-hot vector.
        The result is None if a class probability was too small for single precision and became 0.

        A soft label under the uniform prior is proportional to e^(2v/b). Here v is the noisy one-hot vector cut to
        [0, 1], and b is the scale of the noise. So b/2 times the logarithm of the soft label is v plus a constant.
        Subtracting the mean over the entries removes the constant. The expectation of an entry of v is 1 - q at the
        true label, and q elsewhere, with q = (b/2)(1 - e^{-1/b}). The weights undo this shift.

        Args:
            payload: (n, K), soft labels made under the uniform prior.
        """
        soft = payload.astype(np.float64)
        if not (soft > 0).all():
            return None
        logs = np.log(soft)
        difference = (logs - logs.mean(axis=1, keepdims=True)) * (self.noise_scale / 2.0)
        low = -self.noise_scale / 2.0 * math.expm1(-1.0 / self.noise_scale)
        return np.asarray(difference / (1.0 - 2.0 * low) + 1.0 / self.num_classes)

    def _blocks(self, count: int) -> Iterator[slice]:
        """Slices that divide `count` rows of K numbers into blocks of at most 65,536 numbers, or of a single row."""
        rows = max(1, BLOCK // self.num_classes)
        return (slice(start, min(start + rows, count)) for start in range(0, count, rows))


class AlibiConfig(LocalChannel):
    """ALIBI: every user sends a noisy one-hot vector under her name; the learner makes soft labels from the vectors."""

    kind: Literal["alibi"] = "alibi"
    described: ClassVar[str] = "ALIBI, every user on her own"
    conditions: ClassVar[tuple[str, ...]] = (ONE_VECTOR, REAL_NOISE)
    columns: ClassVar[tuple[Column, ...]] = (NOISE_SCALE,)
    target_epsilon: float = Field(gt=0, le=100)
    """ε, above 0 and at most 100: the noise has scale 2/ε."""
    releases: ClassVar[ReleaseKind] = "soft"
    prior: Literal["uniform", "cluster"] = "uniform"
    """Prior of Bayes' rule: "uniform", or "cluster": class shares of the user's cluster, estimated from the noisy
    vectors."""

    @property
    def noise_scale(self) -> float:
        """Scale b = 2/ε of the Laplace noise on each entry of the one-hot label."""
        return noise_scale_of(self.target_epsilon)

    def randomizer(self, setup: Setup) -> Alibi:
        return Alibi(self.noise_scale, setup.num_classes)

    def release(
        self, labels: NDArray[np.uint8], features: NDArray[np.floating], clusters: NDArray[np.int64], streams: Streams
    ) -> LabelRelease:
        if self.prior == "uniform":
            return super().release(labels, features, clusters, streams)
        noise = self.randomizer(self.setup)
        vectors = noise.noisy(labels, streams.generator("flip"))
        for first, last in itertools.pairwise(clusters.tolist()):
            cluster = vectors[first:last]
            noise.apply_bayes(cluster, noise.estimated_prior(cluster))
        return LabelRelease.of(vectors, "soft")

    def evidence(self, outcome: Outcome, cluster_offsets: NDArray[np.int64]) -> Evidence | None:
        """Class scores of each released soft label. Given the true label, the expected scores are its one-hot vector.
        So accuracy can be estimated without true labels. The result is None if a class probability became 0, or if the
        prior was the cluster's class shares. These shares are not released, so the noise cannot be undone.

        Args:
            outcome: the result of the run, with the released labels. cluster_offsets: (C+1,); cluster c holds users
            cluster_offsets[c]..cluster_offsets[c+1]-1.
        """
        return super().evidence(outcome, cluster_offsets) if self.prior == "uniform" else None


@dataclass(frozen=True)
class VectorApproximation(Message):
    """Randomizer that sends the K bits of the one-hot label, each flipped with probability p.

    Args:
        bit_flip_prob: p in [0, 1/2].
        num_classes: K, from 2 to 256.
    """

    bit_flip_prob: float
    num_classes: int

    kind: ClassVar[str] = "vector_approximation"
    noun: ClassVar[str] = "bits"
    releases: ClassVar[PayloadKind] = "bits"

    @property
    def parameters(self) -> dict[str, float]:
        return {"bit_flip_prob": self.bit_flip_prob}

    @property
    def local_epsilon(self) -> float:
        """ε₀ of one message: 2 ln((1-p)/p), where p is the flip probability of a bit. ε₀ is infinite at p = 0."""
        return vector_epsilon(self.bit_flip_prob)

    @property
    def total_variation(self) -> float:
        """Largest total variation distance between two labels' messages: 1 - 2p for the flip probability p of a bit."""
        return vector_delta(self.bit_flip_prob, 0.0).upper

    def advantage(self, num_classes: int) -> float:
        """What a message adds to the probability to guess the label right. Before the message, all K labels are equally
        likely. The result is exact for the best guess, rounded up.

        Args:
            num_classes: K.
        """
        return vector_advantage(self.bit_flip_prob, num_classes)

    @property
    def payload_bits(self) -> int:
        return self.num_classes

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Draws noisy bits (n, ceil(K/8)) of the labels (n,), packed by `numpy.packbits` and padded with zeros."""
        check_labels(labels, self.num_classes)
        k, width = self.num_classes, -(-self.num_classes // 8)
        one_hot = np.packbits(np.eye(k, dtype=np.bool_), axis=1)
        packed = np.empty((labels.size, width), dtype=np.uint8)
        rows = max(1, BLOCK // k)
        flips = np.zeros((rows, 8 * width), dtype=np.bool_)
        for start in range(0, labels.size, rows):
            truth, out = labels[start : start + rows], packed[start : start + rows]
            flips[: truth.size, :k] = bernoulli(rng, self.bit_flip_prob, truth.size * k).reshape(-1, k)
            noise = np.packbits(flips[: truth.size]).reshape(-1, width)
            np.bitwise_xor(one_hot[truth], noise, out=out)
        return packed

    def attained(self, delta: float) -> float:
        """A lower bound of ε at δ for one message whose sender is known: ln(((1-p)² - δ)/p²), or 0 if (1-p)² - δ <= p².
        No smaller ε is valid. Here p is the flip probability of a bit.

        Args:
            delta: δ.
        """
        flip = self.bit_flip_prob
        ratio = ((1.0 - flip) ** 2 - delta) / flip**2 if flip > 0.0 else math.inf
        return max(0.0, math.log(max(ratio, 1.0)) * (1.0 - 1e-12))

    def unbiased(self, payload: NDArray[np.generic]) -> NDArray[np.float64] | None:
        """Weights (n, K) of n messages: (b - p)/(1 - 2p) for each bit b. Here p is the flip probability of a bit. Given
        the true label, the expected weights are that label's one-hot vector. The result is None at p = 1/2, where bits
        are independent of the label.
        """
        p = self.bit_flip_prob
        if 1.0 - 2.0 * p < 2.0**-40:
            return None
        bits = np.unpackbits(payload.astype(np.uint8, copy=False), axis=1, count=self.num_classes)
        return np.asarray((bits - p) / (1.0 - 2.0 * p))


class VectorApproximationConfig(LocalChannel):
    """Every user sends K noisy bits under her name. There is no trusted party and no amplification."""

    kind: Literal["vector_approximation"] = "vector_approximation"
    described: ClassVar[str] = "vector approximation, every user on her own"
    conditions: ClassVar[tuple[str, ...]] = LOCAL_CONDITIONS
    columns: ClassVar[tuple[Column, ...]] = (Column("bit_flip_prob", "flip probability of a bit"),)
    target_epsilon: float = Field(gt=0, le=100)
    """ε, above 0 and at most 100: each bit is flipped with probability 1/(1+e^{ε/2}), as labels differ in two bits."""
    releases: ClassVar[ReleaseKind] = "bits"

    @property
    def bit_flip_prob(self) -> float:
        """Flip probability p of each bit of the one-hot label: 1/(1+e^{ε/2}), the smallest p for the target ε."""
        return bit_flip_prob_of(self.target_epsilon)

    def randomizer(self, setup: Setup) -> VectorApproximation:
        return VectorApproximation(self.bit_flip_prob, setup.num_classes)
