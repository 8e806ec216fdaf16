"""The smallest flip probability that meets a privacy target."""

import math

import numpy as np
from numpy.typing import NDArray

from analysis.privacy.label_exchange import LabelExchange


def calibrate_flip_prob(
    sizes: NDArray[np.int64], num_classes: int, sampling_rate: float, epsilon: float, delta: float
) -> float:
    """The smallest α (to a relative 1e-3, rounded up) at which the learner's (ε, δ) is certified in every cluster.

    δ at fixed ε does not increase in α once maximised over data sets (further flips are post-processing of one's own
    bit and a mixture over the others' labels), so bisection is sound; every distinct cluster size is evaluated.

    Args:
        sizes: cluster sizes, each at least 2.
        num_classes: K; for K > 2 the local bound is used, as no better one is known here.
        sampling_rate: θ in (0, 1].
        epsilon: target ε, above 0.
        delta: target δ in (0, 1).
    """
    flip_prob = 0.0
    local = (num_classes - 1) / (num_classes - 1 + math.exp(min(epsilon, 700.0)))
    if num_classes > 2:
        return local
    for size in np.unique(sizes):
        if not LabelExchange(int(size), flip_prob, sampling_rate).satisfies(epsilon, delta):
            flip_prob = _calibrate(int(size), sampling_rate, epsilon, delta, flip_prob, local)
    return flip_prob


def _calibrate(n: int, theta: float, epsilon: float, delta: float, low: float, high: float) -> float:
    floor = high * 1e-6
    while high - low > 1e-3 * high and high > floor:
        middle = math.sqrt(max(low, floor) * high)
        if LabelExchange(n, middle, theta).satisfies(epsilon, delta):
            high = middle
        else:
            low = middle
    return high
