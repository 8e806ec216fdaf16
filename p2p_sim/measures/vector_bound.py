"""Theorem 2 of the vector approximation paper (Zhao et al. 2025): an upper bound of a classifier's excess risk."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.rivals import bit_flip_prob_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PointwiseRisk:
    """The excess risk of a classifier at each of n points, and its bound by Theorem 2.

    error: (n,) Δ(x), the largest error, over the classes, of the estimated probability that a noisy bit is 1. excess:
    (n,) η*(x) - η_c(x), the largest class probability minus the probability of the predicted class c. bound: (n,)
    Theorem 2's bound, which is at least `excess` at every point.
    """

    error: Floats
    excess: Floats
    bound: Floats


def theorem_2(learned: Floats, label_distribution: Floats, epsilon: float) -> PointwiseRisk:
    """The excess risk at n points of a model learned from noisy one-hot labels, and its bound by Theorem 2 (equations
    18 to 21). Each user sends her label as K bits. Each bit was flipped with probability 1/(1 + e^(ε/2)). For each
    class j the model estimates the probability that the noisy bit Z(j) is 1. The class with the largest estimate is
    predicted.

    Let Δ be the largest error of these estimates at a point. Class probabilities follow from the estimates, with errors
    up to Δ_ε = Δ/tanh(ε/4). Let η* and η_s be the largest and the second largest true class probability. If η* - η_s >
    2Δ_ε, such errors cannot change the predicted class, and the bound is 0. Otherwise the bound is 2Δ_ε.

    >>> found = theorem_2(np.array([[0.5, 0.4]]), np.array([[0.4, 0.6]]), epsilon=2.0)
    >>> found.excess.round(3).tolist(), found.bound.round(3).tolist()
    ([0.2], [0.633])

    Args:
        learned: (n, K) the model's estimate g_j(x) of P(Z(j) = 1 | x) at each point x. label_distribution: (n, K) true
        class probabilities η_j(x), K at least 2. epsilon: ε of all bits of a user together, above 0.
    """
    if learned.shape != label_distribution.shape or learned.ndim != 2 or learned.shape[1] < 2:
        raise ValueError(f"learned of shape {learned.shape}: needs (n, K), K at least 2, as label_distribution has")
    flip = bit_flip_prob_of(epsilon)
    error = np.abs(learned - (flip + (1.0 - 2.0 * flip) * label_distribution)).max(axis=1)
    scaled = 2.0 * error / math.tanh(epsilon / 4.0)
    second, best = np.partition(label_distribution, -2, axis=1)[:, -2:].T
    chosen = np.take_along_axis(label_distribution, learned.argmax(axis=1)[:, None], axis=1)[:, 0]
    # the bound must not become 0 by rounding if η* - η_s equals 2Δ_ε
    reaches = best - second <= scaled * (1.0 + 1e-12) + 1e-12
    return PointwiseRisk(error, best - chosen, np.where(reaches, scaled, 0.0))
