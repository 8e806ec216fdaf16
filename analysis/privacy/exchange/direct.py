"""δ by summing over every number of ones: accurate to the last digits, for small clusters, many data sets at once."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from p2p_sim.analysis.privacy.exchange.submissions import Submissions
from p2p_sim.analysis.privacy.exchange.unknown_bits import World
from p2p_sim.analysis.privacy.statement.windows import (
    SUBNORMAL,
    UNIT,
    Floats,
    bernstein_window,
    binomial_columns,
    rounding,
    tail_mass,
)

_FURTHER = 12.0
"""By so much the windows of k reach further down in the logarithm, since their columns are normalised."""


@dataclass(frozen=True)
class DirectViews:
    """Likelihoods A and B (target's noisy bit 0 or 1) of shape (R, M): a row for each (submissions t, ones among them),
    a column for each world; lower and upper (R,) are the weights of the row's t in the two sums.

    slack: charged for the relative error of A and of B. tiny: for what underflow adds to either.
    lost, missed: probabilities that the windows cut off, of the views and of X.
    """

    a: Floats
    b: Floats
    lower: Floats
    upper: Floats
    slack: float
    lost: float
    missed: float
    tiny: float = 0.0

    @staticmethod
    def of(worlds: Sequence[World], submissions: Submissions, log_tail: float) -> "DirectViews":
        """Tabulate the views of worlds with the same number of sources; where t = 0 nothing is seen.

        The window of k misses less than 2 exp(log_tail), which is lost; that of X misses `missed` in either world, by
        which normalising makes the rest too large. A row is Σ_j Bin(k; t, j/S) Pr[X = j]. With K values of k and J of j
        its relative error is at most that of the kernel, `rounding(K)`, that of X, and (J+1)u for the sum; underflow
        adds K + J times the number that X is charged.
        """
        seen = np.array(submissions.counts) > 0
        counts = [t for t in submissions.counts if t > 0]
        parts = list(likelihoods(worlds, counts, log_tail)) or [(np.zeros((0, len(worlds))),) * 2]
        rows = [len(a) for a, _ in parts]
        most, of_x = max(rows), [world.rounding(log_tail) for world in worlds]
        sums = max(count for _, count in of_x) + 2
        return DirectViews(
            np.concatenate([a for a, _ in parts]),
            np.concatenate([b for _, b in parts]),
            np.repeat(submissions.lower[seen], rows) if counts else np.zeros(0),
            np.repeat(submissions.upper[seen], rows) if counts else np.zeros(0),
            rounding(most) + max(error for error, _ in of_x) + sums * UNIT,
            submissions.lost + 2.0 * tail_mass(log_tail),
            (6.0 + 4.0 * math.exp(-_FURTHER)) * tail_mass(log_tail),
            2.0 * (most + sums * sums) * SUBNORMAL,
        )

    def deltas(self, keep: float, lose: float, doubt: float) -> tuple[Floats, Floats]:
        """Lower and upper bounds (M, 2) of Σ max(0, keep·p - lose·q) for (p, q) = (A, B) and (B, A).

        Args:
            keep, lose: positive coefficients, keep known to a relative error of `doubt` and lose to 1e-15.
        """
        slack = self.slack + 2e-15
        pairs = ((self.a, self.b), (self.b, self.a))
        less, more = keep * (1.0 - slack - doubt), keep * (1.0 + slack + doubt)
        lower = [self.lower @ np.maximum(less * p - lose * (1.0 + slack) * q, 0.0) for p, q in pairs]
        upper = [self.upper @ np.maximum(more * p - lose * (1.0 - slack) * q, 0.0) for p, q in pairs]
        sums, missed = (len(self.upper) + 4) * UNIT, (keep + lose) * self.missed
        below, above = (
            (keep + lose) * self.tiny * float(w.sum()) + len(w) * SUBNORMAL for w in (self.lower, self.upper)
        )
        return (
            np.stack(lower, axis=1) * (1.0 - sums) - missed - below,
            np.stack(upper, axis=1) * (1.0 + sums) + self.lost + missed + above,
        )


def likelihoods(
    worlds: Sequence[World], counts: Sequence[int], log_tail: float = -math.inf
) -> Iterator[tuple[Floats, Floats]]:
    """For each t in `counts`, A and B as arrays (k, len(worlds)); k runs over a window, all of 0..t by default."""
    parts = [world.noisy_ones(log_tail) for world in worlds]
    low = min(first for first, _ in parts)
    high = max(first + pmf.size for first, pmf in parts)  # one past the largest X
    weights = np.zeros((high - low, len(worlds)))
    for column, (first, pmf) in enumerate(parts):
        weights[first - low : first - low + pmf.size, column] = pmf
    for t in counts:
        kernel = _kernel(worlds[0].sources, t, low, high, log_tail)
        yield kernel[:, :-1] @ weights, kernel[:, 1:] @ weights


def _kernel(sources: int, t: int, low: int, high: int, log_tail: float) -> Floats:
    """Bin(k; t, j/sources) as an array (k, j), j = low..high, for all k that matter for any of these j."""
    p, q = low / sources, high / sources
    first = bernstein_window(t * p, t * p * (1.0 - p), t, log_tail - _FURTHER)[0]
    last = bernstein_window(t * q, t * q * (1.0 - q), t, log_tail - _FURTHER)[1]
    j = np.arange(low, high + 1, dtype=np.float64)
    with np.errstate(divide="ignore"):
        odds = j / (sources - j)
    return binomial_columns(first, last, t, odds)
