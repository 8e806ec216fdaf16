"""Vector approximation: every user sends her one-hot label, each bit of it through randomised response."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base.streams import BLOCK, bernoulli
from p2p_sim.exchange.randomizer import Message, PayloadKind, check_labels
from p2p_sim.mechanisms.channels import LocalChannel
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.mechanism import Column
from p2p_sim.mechanisms.outcome import ReleaseKind
from p2p_sim.privacy.conditions import LOCAL_CONDITIONS
from p2p_sim.privacy.rivals.vector_approximation import bit_flip_prob_of, vector_advantage, vector_delta, vector_epsilon


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
        """The flip probability p of a bit, under the name of the results column that holds it."""
        return {"bit_flip_prob": self.bit_flip_prob}

    @property
    def local_epsilon(self) -> float:
        """ε₀ of one message: 2 ln((1-p)/p), infinite at p = 0."""
        return vector_epsilon(self.bit_flip_prob)

    @property
    def total_variation(self) -> float:
        """Largest total variation between the messages of two labels: 1 - 2p."""
        return vector_delta(self.bit_flip_prob, 0.0).upper

    def advantage(self, num_classes: int) -> float:
        """How much more often an observer of a message guesses the label right, all labels being equally likely."""
        return vector_advantage(self.bit_flip_prob, num_classes)

    @property
    def payload_bits(self) -> int:
        """Size of one message in bits: K."""
        return self.num_classes

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Returns users' noisy bits (n, ceil(K/8)) of the labels (n,), packed as by `numpy.packbits`, zero-padded."""
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
        """Returns ln(((1-p)² - δ)/p²), below which no ε is valid at δ for one message seen with its sender."""
        flip = self.bit_flip_prob
        numerator = (1.0 - flip) ** 2 - delta
        return max(0.0, math.log(max(numerator / flip**2, 1.0)) * (1.0 - 1e-12))

    def unbiased(self, payload: NDArray[np.generic]) -> NDArray[np.float64] | None:
        """Weights (n, K) whose mean, given the true label, is its one-hot vector: (b - p)/(1 - 2p) for each bit b.

        None at p = 1/2, where bits are independent of the label.
        """
        p = self.bit_flip_prob
        if 1.0 - 2.0 * p < 2.0**-40:
            return None
        bits = np.unpackbits(payload.astype(np.uint8, copy=False), axis=1, count=self.num_classes)
        return np.asarray((bits - p) / (1.0 - 2.0 * p))


class VectorApproximationConfig(LocalChannel):
    """Every user sends K noisy bits with her name; no trusted party and no amplification."""

    kind: Literal["vector_approximation"] = "vector_approximation"
    described: ClassVar[str] = "vector approximation, every user on her own"
    conditions: ClassVar[tuple[str, ...]] = LOCAL_CONDITIONS
    columns: ClassVar[tuple[Column, ...]] = (Column("bit_flip_prob", "flip probability of a bit"),)
    target_epsilon: float = Field(gt=0, le=100)
    """ε, above 0 and at most 100: each bit is flipped with probability 1/(1+e^{ε/2}), since a label moves two bits."""
    releases: ClassVar[ReleaseKind] = "bits"

    @property
    def bit_flip_prob(self) -> float:
        """Flip probability p of each bit."""
        return bit_flip_prob_of(self.target_epsilon)

    def randomizer(self, setup: Setup) -> VectorApproximation:
        return VectorApproximation(self.bit_flip_prob, setup.num_classes)
