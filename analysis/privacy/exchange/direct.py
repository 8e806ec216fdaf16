"""δ by summing over every number of ones: accurate to the last digits, for small clusters, many data sets at once."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from analysis.privacy.exchange.submissions import Submissions
from analysis.privacy.exchange.unknown_bits import World
from analysis.privacy.exchange.windows import Floats, bernstein_window, rounding


@dataclass(frozen=True)
class DirectViews:
    """Likelihoods A and B (target's noisy bit 0 or 1) of shape (R, M): a row for each (submissions t, ones among them),
    a column for each world; lower and upper (R,) are the weights of the row's t in the two sums."""

    a: Floats
    b: Floats
    lower: Floats
    upper: Floats
    slack: float
    lost: float
    missed: float

    @staticmethod
    def of(worlds: Sequence[World], submissions: Submissions, log_tail: float) -> "DirectViews":
        """Tabulate the views of worlds with the same number of sources.

        The window of k misses at most 2 exp(log_tail), which is lost; that of X misses `missed` in either world.
        """
        parts = list(likelihoods(worlds, submissions.counts, log_tail))
        rows = [len(a) for a, _ in parts]
        return DirectViews(
            np.concatenate([a for a, _ in parts]),
            np.concatenate([b for _, b in parts]),
            np.repeat(submissions.lower, rows),
            np.repeat(submissions.upper, rows),
            2.0 * rounding(4 * worlds[0].sources + max(submissions.counts)),
            submissions.lost + 2.0 * math.exp(log_tail),
            6.0 * math.exp(log_tail),
        )

    def deltas(self, keep: float, lose: float, doubt: float) -> tuple[Floats, Floats]:
        """Lower and upper bounds (M, 2) of Σ max(0, keep·p - lose·q) for (p, q) = (A, B) and (B, A).

        Args:
            keep, lose: positive coefficients, keep known to a relative error of `doubt` and lose to 1e-15.
        """
        down, up = 1.0 - self.slack - doubt, 1.0 + self.slack + doubt
        pairs = ((self.a, self.b), (self.b, self.a))
        lower = [self.lower @ np.maximum(keep * down * p - lose * up * q, 0.0) for p, q in pairs]
        upper = [self.upper @ np.maximum(keep * up * p - lose * down * q, 0.0) for p, q in pairs]
        missed = (keep + lose) * self.missed
        return np.stack(lower, axis=1) - missed, np.stack(upper, axis=1) + self.lost + missed


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
    first = bernstein_window(t * p, t * p * (1.0 - p), t, log_tail)[0]
    last = bernstein_window(t * q, t * q * (1.0 - q), t, log_tail)[1]
    k = np.arange(first, last + 1, dtype=np.float64)
    j = np.arange(low, high + 1, dtype=np.float64)
    inner = (j > 0) & (j < sources)
    kernel = np.zeros((k.size, j.size))
    share = j[inner] / sources
    exponent = np.multiply.outer(k, np.log(share) - np.log1p(-share))
    exponent += t * np.log1p(-share)
    exponent += (gammaln(t + 1.0) - gammaln(k + 1.0) - gammaln(t - k + 1.0))[:, None]
    kernel[:, inner] = np.exp(exponent, out=exponent)
    kernel[k == 0, j == 0] = 1.0
    kernel[k == t, j == sources] = 1.0
    return kernel
