"""The smallest flip probability that meets a privacy target."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from analysis.privacy.label_exchange import LabelExchange
from analysis.privacy.local import local_epsilon


def calibrate_flip_prob(
    sizes: NDArray[np.int64], num_classes: int, sampling_rate: float, epsilon: float, delta: float
) -> float:
    """The smallest α of three digits at which the learner's (ε, δ) is certified in every cluster.

    δ at fixed ε does not increase in α once maximised over data sets (further flips are post-processing of one's own
    bit and a mixture over the others' labels), so bisection is sound; every distinct cluster size is evaluated. Below
    1e-6 no smaller α is looked for.

    Args:
        sizes: cluster sizes, each at least 2.
        num_classes: K; for K > 2 the local bound is used, as no better one is known here.
        sampling_rate: θ in (0, 1].
        epsilon: target ε, above 0.
        delta: target δ in (0, 1).
    """
    local = (num_classes - 1) / (num_classes - 1 + math.exp(min(epsilon, 700.0)))
    while local_epsilon(local, num_classes) > epsilon:  # a last digit
        local = min(local * (1.0 + 2.0**-50), (num_classes - 1) / num_classes)
    if num_classes > 2:
        return local
    flip_prob = 0.0
    for size in np.unique(sizes):

        def certified(alpha: float, n: int = int(size)) -> bool:
            return LabelExchange(n, alpha, sampling_rate).satisfies(epsilon, delta)

        if not certified(flip_prob):
            flip_prob = _smallest(certified, flip_prob, local)
    return flip_prob


def _smallest(certified: Callable[[float], bool], low: float, high: float) -> float:
    """Bisect (low, high] on a logarithmic scale over numbers of three significant digits; `high` is known to hold."""
    low = max(low, 1e-6)
    while True:
        middle = _three_digits_up(math.sqrt(low * high))
        if not low < middle < high:
            return high
        if certified(middle):
            high = middle
        else:
            low = middle


def _three_digits_up(value: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.3g}")
