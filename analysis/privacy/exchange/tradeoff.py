"""Trade-off curves (f-DP): the least type II error of any test at a given type I error, from δ(ε)."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from p2p_sim.analysis.privacy.statement.bound import Bracket
from p2p_sim.analysis.privacy.statement.windows import Floats


def tradeoff_curve(
    profile: Callable[[Sequence[float]], Sequence[Bracket]],
    largest_epsilon: float,
    type_one: Sequence[float] | Floats,
    points: int = 40,
) -> Floats:
    """Certified lower bound on the type II error of any test of one label against the other.

    Each (ε, δ) on a grid of `points` values of ε bounds the curve by max(0, 1-δ-e^ε a, e^-ε(1-δ-a)); more of them make
    the bound tighter. A perfectly private mechanism has 1 - a.

    Args:
        profile: δ(ε) of an observer at several ε.
        largest_epsilon: end of the grid, from which on δ is negligible.
        type_one: type I errors a in [0, 1].
        points: at least 2.
    """
    a = np.asarray(type_one, dtype=np.float64)
    if np.any((a < 0) | (a > 1) | np.isnan(a)):
        raise ValueError("type_one: errors must lie in [0, 1]")
    best = np.zeros_like(a)
    grid = [float(epsilon) for epsilon in np.linspace(0.0, max(min(largest_epsilon, 30.0), 1e-3), points)]
    for epsilon, bracket in zip(grid, profile(grid), strict=True):
        kept = 1.0 - bracket.upper
        best = np.maximum(best, np.maximum(kept - math.exp(epsilon) * a, math.exp(-epsilon) * (kept - a)))
    return np.asarray(best)
