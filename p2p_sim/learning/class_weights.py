"""Weights over the classes as other learners want them: rows with labels, and scores as shares."""

import numpy as np
from numpy.typing import NDArray

from p2p_sim.mechanisms.outcome import ReleaseKind

VECTORS: tuple[ReleaseKind, ...] = ("bits", "hard", "soft")
"""Kinds of labels that can be seen as vectors in [0, 1]^K."""
SUMS: tuple[ReleaseKind, ...] = ("hard", "soft", "signed")
"""Kinds of labels whose weights sum to 1."""


def labels_in(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """(m,) how many labels the rows of weights (m, K) are the sums of; the weights of a label sum to 1."""
    return np.asarray(np.rint(weights.sum(axis=1)))


def labelled_rows(
    features: NDArray[np.floating], weights: NDArray[np.float64]
) -> tuple[NDArray[np.floating], NDArray[np.uint8], NDArray[np.float64] | None]:
    """A row of features for each class with a weight, its class (r,), and its weight (r,); None if each is 1.

    Args:
        features: (m, d). weights: (m, K), none negative.
    """
    row, label = np.nonzero(weights)
    count = weights[row, label]
    once = len(row) == len(features) and bool((np.diff(row) == 1).all())
    return features if once else features[row], label.astype(np.uint8), None if (count == 1.0).all() else count


def normalised(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Scores (n, K), none negative, over their row sums; equal shares where all are 0. The order is kept."""
    total = scores.sum(axis=1, keepdims=True, dtype=np.float64)
    even = np.full(scores.shape, 1.0 / scores.shape[1])
    return np.asarray(np.divide(scores, total, out=even, where=total > 0))
