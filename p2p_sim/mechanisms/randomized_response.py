"""K-ary randomised response: the local randomiser of the label exchange."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.privacy.local import local_epsilon
from p2p_sim.streams import bernoulli


@dataclass(frozen=True)
class RandomizedResponse:
    """Keep a label with probability 1 - `flip_prob`, else replace it by one of the K-1 others, equally likely.

    Args:
        flip_prob: α in [0, (K-1)/K].
        num_classes: K, from 2 to 256.
    """

    flip_prob: float
    num_classes: int = 2

    @property
    def local_epsilon(self) -> float:
        """ln((1-α)(K-1)/α), infinite at α = 0."""
        return local_epsilon(self.flip_prob, self.num_classes)

    @property
    def payload_bits(self) -> int:
        """Bits that name one of K classes."""
        return (self.num_classes - 1).bit_length()

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Noisy labels (n,) of the labels (n,) in 0..K-1."""
        flips = bernoulli(rng, self.flip_prob, labels.size)
        if self.num_classes == 2:
            noisy = flips.view(np.uint8)
            return np.bitwise_xor(labels, noisy, out=noisy)
        noisy = labels.copy()
        users = np.flatnonzero(flips)
        shift = rng.integers(1, self.num_classes, size=users.size)
        noisy[users] = (labels[users] + shift) % self.num_classes
        return noisy
