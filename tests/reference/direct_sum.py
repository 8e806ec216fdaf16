"""δ(ε) of the learner by summing over all data sets, all t, all k and all noisy labels, with SciPy's binomial."""

import math

import numpy as np
from scipy.stats import binom


def delta(n: int, alpha: float, theta: float, epsilon: float, rounds: int = 1) -> float:
    """Largest hockey-stick divergence over every number of ones and both directions."""
    submissions = binom.pmf(np.arange(rounds * n + 1), rounds * n, theta)
    worst = 0.0
    laws = [_law(n, alpha, ones) for ones in range(n)]
    totals = np.zeros((n, 2))
    for t, weight in enumerate(submissions):
        k = np.arange(t + 1)[:, None]
        kernel = binom.pmf(k, t, np.arange(n + 1)[None, :] / n)
        for ones, x in enumerate(laws):
            a, b = kernel[:, :-1] @ x, kernel[:, 1:] @ x
            p, q = (1 - alpha) * a + alpha * b, alpha * a + (1 - alpha) * b
            totals[ones, 0] += weight * np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
            totals[ones, 1] += weight * np.maximum(q - math.exp(epsilon) * p, 0.0).sum()
    worst = float(totals.max())
    return worst


def _law(n: int, alpha: float, ones: int) -> np.ndarray:
    first = binom.pmf(np.arange(ones + 1), ones, 1 - alpha)
    second = binom.pmf(np.arange(n - ones), n - 1 - ones, alpha)
    return np.convolve(first, second)
