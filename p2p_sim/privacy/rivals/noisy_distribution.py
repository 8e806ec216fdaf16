"""The noisy label distribution of a cluster, as Algorithm 1 of the clustering paper makes it (lines 4 to 19)."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def released_distribution(share: Floats, noise: Floats, threshold: float) -> Floats:
    """q̃: noise, clip to [τ, 1], renormalise; values in [τ, 1] that sum to one (Theorem 6).

    What is missing to a sum of one is shared out in proportion to the room below 1, what is too much to that above τ.
    Σξ is above 0 in exact arithmetic where there is something to share out; where rounding at τ = 1/K makes it 0/0 as
    printed, the values are kept.

    >>> released_distribution(np.array([0.9, 0.1]), np.array([0.0, -1.0]), 0.05).round(12).tolist()
    [0.904761904762, 0.095238095238]

    Args:
        share: (..., K) empirical label distribution.
        noise: (..., K) Laplace noise, added to it; may be infinite.
        threshold: τ in [0, 1/K].
    """
    clipped = np.clip(share + noise, threshold, 1.0)
    missing = 1.0 - clipped.sum(axis=-1, keepdims=True)
    room = np.where(missing < 0.0, clipped - threshold, 1.0 - clipped)
    total = room.sum(axis=-1, keepdims=True)
    step = np.divide(missing, total, out=np.zeros_like(missing), where=total > 0.0)
    return np.asarray(np.clip(clipped + room * step, threshold, 1.0))
