"""Noise shares and secret shares: how a bag adds up noisy counts without anybody who sees a label.

Each user adds a share of the noise to her one-hot label and splits the result into numbers modulo 2^64, one for each
helper of her bag: all but one are uniform, the last makes the sum right. A helper adds up what it got and sends the sum
to the learner. The learner's total of the sums is the bag's noisy count. The shares that some of the helpers got, but
not all of them, are uniform numbers.
"""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]


def noise_share(
    size: tuple[int, ...], shares: NDArray[np.int64] | int, noise_scale: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Independent noise shares: differences of two negative binomial variables with r = 1/h.

    h of them sum to two-sided geometric noise of this scale; h = 1 is that noise itself.

    Args:
        size: of the result. shares: h, at least 1, in a shape that broadcasts to `size`. noise_scale: σ, above 0.
    """
    kept = -np.expm1(-1.0 / noise_scale)
    r = np.broadcast_to(1.0 / np.asarray(shares, dtype=np.float64), size)
    first, second = (rng.negative_binomial(r, kept, size) for _ in range(2))
    return np.asarray(first - second, dtype=np.int64)


def secret_shares(values: NDArray[np.int64], helpers: int, rng: np.random.Generator) -> Words:
    """Numbers (H, n, k) modulo 2^64 that sum over the H helpers to values (n, k)."""
    sent = rng.integers(0, 2**64, size=(helpers, *values.shape), dtype=np.uint64)
    sent[-1] = values.view(np.uint64) - sent[:-1].sum(axis=0, dtype=np.uint64)
    return sent


def helper_sums(sent: Words, bag: NDArray[np.int64], bags: int) -> Words:
    """What the helpers send the learner: sums (H, B, k) modulo 2^64 of the shares (H, n, k) of users in bags (n,)."""
    sums = np.zeros((len(sent), bags, sent.shape[2]), dtype=np.uint64)
    for helper, got in zip(sums, sent, strict=True):
        np.add.at(helper, bag, got)
    return sums


def totals(sums: Words) -> NDArray[np.int64]:
    """The learner's totals (B, k) of the helpers' sums (H, B, k), as signed numbers."""
    return np.asarray(sums.sum(axis=0, dtype=np.uint64).view(np.int64))
