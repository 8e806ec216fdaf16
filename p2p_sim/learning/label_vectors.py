"""Labels of several kinds as vectors with one number a class."""

import numpy as np
from numpy.typing import NDArray

from p2p_sim.learning.class_weights import check_accepts
from p2p_sim.mechanisms.outcome import LabelRelease, ReleaseKind

ACCEPTED: tuple[ReleaseKind, ...] = ("bits", "hard", "soft")
"""Kinds of labels that can be seen as vectors in [0, 1]^K."""


def label_vectors(release: LabelRelease, num_classes: int, learner: str) -> NDArray[np.float32]:
    """(m, K): the bits, the probabilities, or the one-hot vectors of hard labels.

    Raises:
        InputError: the labels are of another kind, which the learner does not take.
    """
    check_accepts(release, learner, ACCEPTED)
    if release.kind == "bits":
        return np.unpackbits(release.payload.astype(np.uint8), axis=1, count=num_classes).astype(np.float32)
    if release.kind == "hard":
        return one_hot(release.payload.astype(np.uint8), num_classes)
    return release.payload.astype(np.float32)


def one_hot(labels: NDArray[np.uint8], num_classes: int) -> NDArray[np.float32]:
    """(m, K) with a single one a row."""
    out = np.zeros((len(labels), num_classes), dtype=np.float32)
    out[np.arange(len(labels)), labels] = 1.0
    return out


def normalised(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Scores (n, K), none negative, over their row sums; equal shares where all are 0. The order is kept."""
    total = scores.sum(axis=1, keepdims=True, dtype=np.float64)
    even = np.full(scores.shape, 1.0 / scores.shape[1])
    return np.asarray(np.divide(scores, total, out=even, where=total > 0))
