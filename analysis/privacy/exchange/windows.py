"""Where a sum of independent bits has nearly all its mass: certified windows, and binomial probabilities on them."""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def bernstein_window(mean: float, variance: float, largest: int, log_tail: float) -> tuple[int, int]:
    """Integers (first, last) such that a sum of independent bits lies outside with probability <= 2 exp(log_tail).

    By Bernstein's inequality each side's tail beyond s is at most exp(-s² / (2(variance + s/3))).

    Args:
        mean, variance: of the sum.
        largest: number of bits; the window is cut to [0, largest].
        log_tail: natural logarithm of each side's allowed probability, negative; -inf asks for everything.
    """
    budget = -log_tail
    if math.isinf(budget):
        return 0, largest
    reach = budget / 3.0 + math.sqrt(budget * budget / 9.0 + 2.0 * variance * budget)
    return max(0, math.floor(mean - reach)), min(largest, math.ceil(mean + reach))


def binomial_pmf(first: int, last: int, trials: int, probability: float) -> Floats:
    """Bin(k; trials, probability) for k = first..last, a window that holds the mode and nearly all of the mass.

    Ratios of neighbours are accumulated from the mode and the window is normalised to one, which keeps a relative
    accuracy of some 1e-16 for each step from the mode; what the window misses makes the values too large by as much.
    """
    k = np.arange(first, last + 1, dtype=np.float64)
    if probability in (0.0, 1.0):
        return np.asarray(k == trials * probability, dtype=np.float64)
    odds = probability / (1.0 - probability)
    steps = np.log((trials - k[:-1]) / (k[:-1] + 1.0) * odds)
    mode = int(np.clip(math.floor((trials + 1) * probability) - first, 0, len(k) - 1))
    exponent = np.zeros(len(k))
    exponent[mode + 1 :] = np.cumsum(steps[mode:])
    exponent[:mode] = -np.cumsum(steps[:mode][::-1])[::-1]
    weights = np.exp(exponent)
    return np.asarray(weights / weights.sum())


def rounding(steps: int) -> float:
    """Charged for the relative error of a probability of `binomial_pmf` this many steps from the mode.

    Half an ulp of each of two operations a step; the largest seen against 40 digits is half of it.
    """
    return 2e-15 + 5e-16 * steps
