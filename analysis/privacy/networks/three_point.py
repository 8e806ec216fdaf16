"""Three-point pairs of one target's fetchers at several levels τ, and how likely their p_i leave [τ, 1-τ-w]."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy

from p2p_sim.analysis.privacy.networks.losses import LEAST_FLIP, SHARES, Levels, Pair, product
from p2p_sim.analysis.privacy.statement.windows import SUBNORMAL, Floats

Fetchers = tuple[Floats, float, float, int]
"""Users with one and the same row: weights of the others who hide, sorted; w; rate; how many users."""


def fetch_levels(
    groups: Sequence[Fetchers], flip_prob: float, tails: Callable[[Floats, float, Floats], Floats]
) -> Levels:
    """The bounds of `Levels` for one target.

    Args:
        groups: her fetchers; users of one group stray together.
        flip_prob: α in [0, 1/2].
        tails: `tail_bounds`, or a cached one.
    """
    weights = np.array([w for _, w, _, _ in groups])
    rates = np.array([rate for _, _, rate, _ in groups])
    counts = np.array([count for _, _, _, count in groups], dtype=np.float64)
    with np.errstate(divide="ignore"):
        unseen = counts * np.log1p(-rates * weights)
    shown = -np.expm1(unseen) * (1.0 + 1e-15) + SUBNORMAL  # she submits the target's bit
    exposure = _some(shown)
    if flip_prob < LEAST_FLIP or not groups:
        return Levels(exposure)
    levels = np.array(SHARES) * flip_prob
    chances = np.minimum(1.0, 2.0 * np.stack([tails(others, flip_prob, levels) for others, _, _, _ in groups]))
    chances[2.0 * levels + weights[:, None] >= 1.0] = 1.0
    leaks, always, strays, laws = [], [], [], []
    for level, chance in zip(levels.tolist(), chances.T, strict=True):
        kept = chance < 1.0
        base, stray = _some(shown[~kept]), float(chance[kept].sum()) * (1.0 + 1e-12)
        leak = base + float((shown * chance)[kept].sum()) * (1.0 + 1e-12)
        if not kept.any() or (leak >= 0.25 * exposure and stray >= 1.0) or base >= exposure:
            continue  # says little more than the exposure
        lines, place = np.unique(np.stack([weights[kept], rates[kept]], axis=1), axis=0, return_inverse=True)
        users = np.bincount(place.ravel(), weights=counts[kept])
        pairs = [Pair.three_point(level, w, rate, int(k)) for (w, rate), k in zip(lines.tolist(), users, strict=True)]
        always.append(base)
        leaks.append(leak)
        strays.append(stray)
        laws.append(product(pairs))
    return Levels(exposure, tuple(leaks), tuple(always), tuple(strays), tuple(laws))


def tail_bounds(weights: Floats, flip_prob: float, levels: Floats) -> Floats:
    """Bounds on Pr[Σ w_j Bernoulli(α) < level] at each level; labels of 1 only make the sum larger.

    SciPy's incomplete beta function is measured to be good to 5e-13; 1e-11 is charged, and as much for Chernoff's
    bound, whose exponent is a sum of logarithms that is good to 1e-13 of itself.

    Args:
        weights: sorted, positive. flip_prob: α in (0, 1/2]. levels: (K,), positive.
    """
    if weights.size == 0:
        return np.ones(len(levels))
    if np.ptp(weights) <= 1e-12 * weights[0]:  # equal weights: fewer than level/w ones
        fewer = np.ceil(levels / float(weights[0]) * (1.0 + 1e-12))
        inside = np.minimum(fewer, weights.size)
        exact = scipy.special.betainc(weights.size - inside + 1.0, inside, 1.0 - flip_prob) * (1.0 + 1e-11)
        return np.where(fewer > weights.size, 1.0, exact + SUBNORMAL)
    values, counts = np.unique(weights, return_counts=True)
    strengths = 2.0 ** np.arange(-6.0, 8.0, 0.25) / values.max()
    factors = np.log1p(flip_prob * np.expm1(-np.outer(strengths, values))) @ counts
    exponents = np.outer(levels, strengths) + factors
    return np.asarray(np.exp(np.minimum(0.0, exponents.min(axis=1) * (1.0 - 1e-12))) * (1.0 + 1e-11) + SUBNORMAL)


def _some(chances: Floats) -> float:
    """Probability that one of several independent events happens, rounded up."""
    with np.errstate(divide="ignore"):
        return min(1.0, -math.expm1(float(np.log1p(-np.minimum(chances, 1.0)).sum())) * (1.0 + 1e-12))
