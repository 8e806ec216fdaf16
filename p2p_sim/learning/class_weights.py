"""Labels of any kind as weights over the classes."""

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
