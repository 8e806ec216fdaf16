"""Where a sum of independent bits has nearly all its mass: certified windows, and binomial probabilities on them."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

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


def log_choose(trials: int, k: Floats) -> Floats:
    """ln of the binomial coefficient, elementwise in k."""
    return np.asarray(gammaln(trials + 1.0) - gammaln(k + 1.0) - gammaln(trials - k + 1.0))


def binomial_pmf(first: int, last: int, trials: int, probability: float) -> Floats:
    """Bin(k; trials, probability) for k = first..last."""
    k = np.arange(first, last + 1, dtype=np.float64)
    if probability in (0.0, 1.0):
        return np.asarray(k == trials * probability, dtype=np.float64)
    exponent = log_choose(trials, k) + k * math.log(probability) + (trials - k) * math.log1p(-probability)
    return np.asarray(np.exp(exponent))


def rounding(trials: int) -> float:
    """Bound on the relative error of a probability computed by `binomial_pmf` or a product of two of them.

    The exponent is a sum of terms below trials·ln(trials + 1), each rounded to 2**-53.
    """
    return 1e-14 + 2e-15 * trials * math.log(trials + 1.0)
