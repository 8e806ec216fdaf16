"""ALIBI (Malek Esmaeili et al. 2021): Laplace noise on the one-hot label, made a soft label by Bayes' rule."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base.streams import BLOCK, Streams, bernoulli
from p2p_sim.exchange.randomizer import Message, PayloadKind, check_labels
from p2p_sim.mechanisms.channels import LocalChannel
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.evidence import Evidence
from p2p_sim.mechanisms.mechanism import NOISE_SCALE, Column
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome, ReleaseKind
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.conditions import ONE_VECTOR, REAL_NOISE
from p2p_sim.privacy.rivals.alibi import (
    laplace_advantage,
    laplace_delta,
    laplace_epsilon,
    laplace_variation,
    noise_scale_of,
    soft_labels,
)

Floats = NDArray[np.floating]
PriorName = Literal["uniform", "cluster"]


@dataclass(frozen=True)
class Alibi(Message):
    """The ALIBI randomizer: Laplace noise on each entry of the one-hot label, turned into a soft label by Bayes' rule.

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
        """The noise scale b, under the name of the results column that holds it."""
        return {"noise_scale": self.noise_scale}

    @property
    def local_epsilon(self) -> float:
        """ε₀ = 2/b of one message: two labels differ by one in two entries, each with Laplace noise of scale b."""
        return laplace_epsilon(self.noise_scale)

    @property
    def total_variation(self) -> float:
        """Largest total variation between the messages of two labels: 1 - e^{-1/b} (1 + 1/(2b))."""
        return laplace_variation(self.noise_scale)

    def alone(self, epsilon: float) -> Bracket:
        """Upper bound of δ(ε) of one message seen with its sender's name; the bracket's lower end is 0."""
        return Bracket(0.0, laplace_delta(self.noise_scale, epsilon).upper)

    def attained(self, delta: float) -> float:
        """No ε at δ is valid below ε₀ + ln(1-4δ): one vector in four has the largest log-ratio."""
        quarter = 1.0 - 4.0 * delta
        return max(0.0, self.local_epsilon * (1.0 - 1e-12) + math.log(quarter)) if quarter > 0 else 0.0

    def advantage(self, num_classes: int) -> float:
        """Upper bound of the guessing advantage of an observer of the message, all labels being equally likely.

        The advantage is how much more often the label is guessed right than without the message. It is computed from
        the
        law of the noisy vector, within a thousandth.
        """
        return laplace_advantage(self.noise_scale, num_classes)

    @property
    def payload_bits(self) -> int:
        """Size of one message in bits: K numbers in single precision."""
        return 32 * self.num_classes

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.float32]:
        """Returns the users' messages (n, K): a soft label for each true label (n,), under the uniform prior."""
        vectors = self.noisy(labels, rng)
        self.apply_bayes(vectors, np.full((1, self.num_classes), 1.0 / self.num_classes))
        return vectors

    def noisy(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.float32]:
        """Returns noisy one-hot vectors (n, K) of the labels (n,), before Bayes' rule.

        Entries are cut to [0, 1], which loses nothing: Bayes' rule gives the same soft label for the cut vector.
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

    def apply_bayes(self, vectors: NDArray[np.float32], priors: Floats) -> None:
        """Turn noisy vectors (n, K) into soft labels in place.

        Args:
            priors: class probabilities before the message, one row for each vector (n, K) or one row for all (1, K).
        """
        for rows in self._blocks(len(vectors)):
            vectors[rows] = soft_labels(vectors[rows], priors if len(priors) == 1 else priors[rows], self.noise_scale)

    def estimated_prior(self, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """Estimates class shares (K,) from the noisy vectors (m, K) of m >= 1 users, as a prior for Bayes' rule.

        Shares below 1/m are raised to 1/m before they are scaled to sum 1. The mean of clip(L, 0, 1) for noise L is
        a = (b/2)(1 - e^{-1/b}), and the mean of clip(1 + L, 0, 1) is 1 - a.
        """
        low = -self.noise_scale / 2.0 * math.expm1(-1.0 / self.noise_scale)
        shares = (vectors.mean(axis=0, dtype=np.float64) - low) / (1.0 - 2.0 * low)
        shares = np.maximum(shares, 1.0 / len(vectors))
        return np.asarray(shares / shares.sum())

    def unbiased(self, payload: NDArray[np.generic]) -> NDArray[np.float64] | None:
        """Returns weights (n, K) whose mean, given the true label, is its one-hot vector; None if a probability is 0.

        Soft labels under the uniform prior are in proportion to e^(2v/b) for cut noisy vectors v. Their logarithms give
        each
        v less the mean of its entries. The expectation of an entry of v is 1 - a at the true label and a elsewhere
        (`estimated_prior`). A probability is 0 if it is too small for single precision.
        """
        soft = payload.astype(np.float64)
        if not (soft > 0).all():
            return None
        logs = np.log(soft)
        difference = (logs - logs.mean(axis=1, keepdims=True)) * (self.noise_scale / 2.0)
        low = -self.noise_scale / 2.0 * math.expm1(-1.0 / self.noise_scale)
        return np.asarray(difference / (1.0 - 2.0 * low) + 1.0 / self.num_classes)

    def _blocks(self, count: int) -> Iterator[slice]:
        rows = max(1, BLOCK // self.num_classes)
        return (slice(start, min(start + rows, count)) for start in range(0, count, rows))


class AlibiConfig(LocalChannel):
    """Every user sends a noisy one-hot vector with her name; the learner makes soft labels from the vectors (ALIBI)."""

    kind: Literal["alibi"] = "alibi"
    described: ClassVar[str] = "ALIBI, every user on her own"
    conditions: ClassVar[tuple[str, ...]] = (ONE_VECTOR, REAL_NOISE)
    columns: ClassVar[tuple[Column, ...]] = (NOISE_SCALE,)
    target_epsilon: float = Field(gt=0, le=100)
    """ε, above 0 and at most 100: the noise has scale 2/ε."""
    releases: ClassVar[ReleaseKind] = "soft"
    prior: PriorName = "uniform"
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
            noise.apply_bayes(cluster, noise.estimated_prior(cluster)[None, :])
        return LabelRelease.of(vectors, "soft")

    def evidence(self, outcome: Outcome, cluster_offsets: NDArray[np.int64]) -> Evidence | None:
        """Unbiased class scores of each soft label; None with the clusters' priors, which the scores would need."""
        return super().evidence(outcome, cluster_offsets) if self.prior == "uniform" else None
