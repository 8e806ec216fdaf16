"""Undoing on average what randomisation did to labels: the modified loss of the clustering paper, as signed weights.

With Q[y', y] = (1-β) 1{y' = y} + β q(y') the loss Σ_y' Q⁻¹[y', y] ℓ(h, x, y') of Algorithm 1 weighs the class y' by
column y of Q⁻¹. Since 1ᵀq = 1, Q is (1-β)I plus a matrix of rank one and Q⁻¹ = (I - β q 1ᵀ)/(1-β): no K × K matrix is
formed. A column sums to one, and all but its own entry are at most 0.
"""

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.errors import InputError

Floats = NDArray[np.float64]


def signed_weights(labels: NDArray[np.integer], distribution: Floats, bias_correction: float) -> Floats:
    """Column y of Q⁻¹ for each label y: (m, K), rows that sum to one.

    >>> signed_weights(np.array([0]), np.array([0.5, 0.5]), 0.2).tolist()
    [[1.125, -0.125]]

    Args:
        labels: (m,) in 0..K-1.
        distribution: q, (K,) or (m, K); rows that sum to one.
        bias_correction: β in [0, 1).

    Raises:
        InputError: β is out of its range, or a label is.
    """
    classes = distribution.shape[-1]
    if not 0.0 <= bias_correction < 1.0:
        raise InputError(f"bias_correction = {bias_correction:g}: must be at least 0 and below 1")
    check_labels(labels, classes)
    weights = np.broadcast_to(-bias_correction * distribution, (labels.size, classes)).copy()
    weights[np.arange(labels.size), labels] += 1.0
    weights /= 1.0 - bias_correction
    return weights


def check_labels(labels: NDArray[np.integer], num_classes: int) -> None:
    """Refuse labels outside 0..K-1."""
    if labels.size and not 0 <= int(labels.min()) <= int(labels.max()) < num_classes:
        raise InputError(f"labels: must lie in 0..{num_classes - 1}, found {labels.min()} to {labels.max()}")
