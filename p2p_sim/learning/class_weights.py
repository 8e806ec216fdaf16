"""Labels of any kind as weights over the classes, or as vectors with one number a class."""

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.errors import InputError
from p2p_sim.mechanisms.outcome import LabelRelease, ReleaseKind


def class_weights(
    release: LabelRelease, num_classes: int, learner: str, accepts: tuple[ReleaseKind, ...]
) -> NDArray[np.float64]:
    """The weight of each class in each label (m, K); a hard label has weight 1 on its class.

    Raises:
        InputError: the learner does not accept this kind of label.
    """
    check_accepts(release, learner, accepts)
    if release.kind == "hard":
        return np.eye(num_classes)[release.payload.astype(np.uint8)]
    return release.payload.astype(np.float64)


def check_accepts(release: LabelRelease, learner: str, accepts: tuple[ReleaseKind, ...]) -> None:
    """Refuse labels of a kind that a learner does not take; scikit-learn's take no negative weights."""
    if release.kind not in accepts:
        raise InputError(
            f"learner.kind = {learner!r}: takes {' or '.join(accepts)} labels, the release has {release.kind} ones"
        )


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
