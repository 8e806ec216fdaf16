"""A lower end for Algorithm 1 where the noisy distribution of two classes is released: the noisy share, in bins.

Whoever sees the noisy share q̃₁ and the target's noisy label can tell in which of some bins the share lies. This is
post-processing, and the bins' probabilities are known in closed form (`noisy_share`): below the true share by its
distribution function, above by that of the other class, so that both tails keep their relative accuracy. In a bin from
u to v the target's noisy label is one with probability λq̃₁ + (1-λ) 1{her label is one}, between its values at u and v.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.rivals.noisy_share import share_cdf

_BINS = 1500
_STEPS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Numbers of ones that are tried, about n·τ, in units of σ; and few, and half."""
_REACH = 40.0
"""Scales of the noise about the share that the finest bins cover."""


@dataclass(frozen=True)
class _Bins:
    """ends (B+1,) of the bins; low, high (2, B): bounds of their probabilities with J and J + 1 ones."""

    ends: Floats
    low: Floats
    high: Floats


def released_delta(n: int, resampling_prob: float, scale: float, threshold: float, epsilon: float) -> float:
    """A lower bound of δ(ε) over all data sets and both directions.

    Args:
        n: users, at least 2. resampling_prob: λ in (0, 1]. scale: σ, above 0 and finite. threshold: τ in [0, 1/2).
        epsilon: ε, at least 0.
    """
    lam, grow, best = resampling_prob, math.exp(epsilon), 0.0
    for bins in _tables(n, scale, threshold):
        first, last = bins.ends[:-1], bins.ends[1:]
        for own, other in ((0, 1), (1, 0)):
            total = 0.0
            for label, least, most in ((1, first, last), (0, 1.0 - last, 1.0 - first)):
                seen = bins.low[own] * (lam * least + (1.0 - lam) * (label == own))
                total += np.maximum(
                    seen - grow * bins.high[other] * (lam * most + (1.0 - lam) * (label == other)), 0.0
                ).sum()
            best = max(best, float(total))
    return best * (1.0 - 1e-12)


@lru_cache(maxsize=8)
def _tables(n: int, scale: float, threshold: float) -> tuple[_Bins, ...]:
    """The bins of the data sets that are tried."""
    near = (math.ceil(n * threshold + steps * scale) for steps in _STEPS)
    ones = {min(n // 2, max(0, each)) for each in near} | {0, n // 2}
    return tuple(_bins(n, each, scale, threshold) for each in sorted(ones))


def _bins(n: int, ones: int, scale: float, threshold: float) -> _Bins:
    share, end = np.array([ones, ones + 1]) / n, 1.0 - threshold
    steps = np.geomspace(1e-6, 1.0, _BINS) * (end - threshold)
    inner = np.concatenate([threshold + steps, end - steps, share[0] + np.linspace(-_REACH, _REACH, _BINS) * scale / n])
    inner = np.unique(inner[(inner > threshold) & (inner < end)])
    below, above = np.split(inner, [max(1, int(np.searchsorted(inner, share[0])))])
    under = np.pad(share_cdf(share, below, scale / n, threshold), ((0, 0), (1, 0)))
    over = np.pad(share_cdf(1.0 - share, 1.0 - above, scale / n, threshold), ((0, 0), (0, 1)))
    middle = 1.0 - under[:, -1:] - over[:, :1]
    mass = np.concatenate([np.diff(under, axis=1), middle, -np.diff(over, axis=1)], axis=1)
    sizes = np.concatenate([under[:, 1:], np.ones_like(middle), over[:, :-1]], axis=1)
    doubt = (4e-13 + 8e-15 * n / scale) * sizes
    ends = np.concatenate([[threshold], inner, [end]])
    return _Bins(ends, np.maximum(mass - doubt, 0.0), np.maximum(mass, 0.0) + doubt)
