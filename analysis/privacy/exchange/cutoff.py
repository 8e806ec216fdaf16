"""δ as a difference of two tail probabilities at one cut-off: for large clusters, one data set at a time.

X is log-concave and the binomial kernel totally positive of order 2, so B(k)/A(k) increases in k and the best event is
"at most k*" (target's label 0 against 1) or "at least k*" (1 against 0). The cut-off is found by bisection, the
tails are sums over X of incomplete beta functions.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc

from analysis.privacy.exchange.submissions import Submissions
from analysis.privacy.exchange.unknown_bits import World
from analysis.privacy.exchange.windows import Floats, rounding

NODES = 6
"""Nodes of the quadrature for each standard deviation of X given the view; its error is far below rounding."""
BETAINC_ERROR = 5e-12
"""Charged for a relative error of the incomplete beta function (largest seen: 5e-13)."""
_NEVER = -1e30


@dataclass(frozen=True)
class CutOffViews:
    """One world's noisy ones X: probabilities (W,) and the shares X/S and (X + 1)/S; `nodes` locate the cut-offs."""

    weights: Floats
    share: Floats
    share_up: Floats
    nodes: "_Nodes"
    submissions: Submissions
    slack: float
    missed: float

    @staticmethod
    def of(world: World, submissions: Submissions, log_tail: float, quadrature: bool = False) -> "CutOffViews":
        """Prepare a world; `quadrature` takes every h-th X only (trapezoid rule): for searching, not for reporting.

        Cut-offs are always located by quadrature: a misplaced one could only gain or lose a term that is zero to within
        the relative error that is charged anyway.
        """
        first, weights = world.noisy_ones(log_tail)
        share = (first + np.arange(len(weights) + 1, dtype=np.float64)) / world.sources
        slack = BETAINC_ERROR + rounding(len(weights))
        others, load = world.zeros + world.ones, max(submissions.counts) / world.sources
        width = math.sqrt(others * world.flip_prob * (1.0 - world.flip_prob) / (1.0 + load))
        step = max(1, int(width / NODES))
        chosen = slice(step // 2, len(weights), step)
        few, at, above = step * weights[chosen], share[:-1][chosen], share[1:][chosen]
        nodes = _Nodes.of(few, at, above)
        missed = 6.0 * math.exp(log_tail)
        if quadrature:
            return CutOffViews(few, at, above, nodes, submissions, slack, missed)
        return CutOffViews(weights, share[:-1], share[1:], nodes, submissions, slack, missed)

    def deltas(self, keep: float, lose: float, doubt: float) -> tuple[Floats, Floats]:
        """Lower and upper bounds (1, 2) of Σ max(0, keep·p - lose·q) for (p, q) = (A, B) and (B, A).

        Args:
            keep, lose: positive coefficients, keep known to a relative error of `doubt` and lose to 1e-15.
        """
        threshold = math.log1p((lose - keep) / keep)
        missed = (keep + lose) * self.missed
        lower, upper = np.full((1, 2), -missed), np.full((1, 2), self.submissions.lost + missed)
        guesses: list[int | None] = [None, None]
        for t, low, high in zip(self.submissions.counts, self.submissions.lower, self.submissions.upper, strict=True):
            if t == 0:
                continue  # nothing is seen
            for direction in (0, 1):
                cut = self.nodes.first_above(t, threshold if direction else -threshold, guesses[direction])
                guesses[direction] = cut
                a, b = self._at_least(t, cut) if direction else self._at_most(t, cut - 1)
                gain, loss = (keep * b, lose * a) if direction else (keep * a, lose * b)
                error = (self.slack + doubt) * (gain + loss)
                lower[0, direction] += low * max(gain - loss - error, 0.0)
                upper[0, direction] += high * (max(gain - loss, 0.0) + error)
        return lower, upper

    def _at_most(self, t: int, k: int) -> tuple[float, float]:
        """A and B of "at most k ones"."""
        if k < 0:
            return 0.0, 0.0
        if k >= t:
            return 1.0, 1.0
        return self._tails(lambda share: betainc(float(t - k), k + 1.0, 1.0 - share))

    def _at_least(self, t: int, k: int) -> tuple[float, float]:
        """A and B of "at least k ones"."""
        if k <= 0:
            return 1.0, 1.0
        if k > t:
            return 0.0, 0.0
        return self._tails(lambda share: betainc(float(k), t - k + 1.0, share))

    def _tails(self, tail: Callable[[Floats], Floats]) -> tuple[float, float]:
        if len(self.weights) > 1 and self.share[1] == self.share_up[0]:  # every share but the ends serves twice
            values = tail(np.append(self.share, self.share_up[-1]))
            return float(self.weights @ values[:-1]), float(self.weights @ values[1:])
        return float(self.weights @ tail(self.share)), float(self.weights @ tail(self.share_up))


@dataclass(frozen=True)
class _Nodes:
    """Logarithms of a quadrature's weights, shares and their complements."""

    weights: Floats
    share: Floats
    share_up: Floats
    rest: Floats
    rest_up: Floats

    @staticmethod
    def of(weights: Floats, share: Floats, share_up: Floats) -> "_Nodes":
        with np.errstate(divide="ignore"):
            logs = [np.log(weights), np.log(share), np.log(share_up), np.log1p(-share), np.log1p(-share_up)]
        return _Nodes(*(np.maximum(log, _NEVER) for log in logs))

    def ratio(self, t: int, k: int) -> float:
        """ln B(k)/A(k)."""
        a = self.weights + k * self.share + (t - k) * self.rest
        b = self.weights + k * self.share_up + (t - k) * self.rest_up
        top_a, top_b = float(a.max()), float(b.max())
        return top_b - top_a + math.log(float(np.exp(b - top_b).sum()) / float(np.exp(a - top_a).sum()))

    def first_above(self, t: int, threshold: float, guess: int | None) -> int:
        """Smallest k in 0..t+1 with ln B(k)/A(k) > threshold; t+1 stands for none."""
        low, high = -1, t + 1  # ratio(low) <= threshold < ratio(high), by convention at the ends
        if guess is not None:
            reach = 1
            centre = min(max(guess, 0), t)
            up = self.ratio(t, centre) <= threshold
            low, high = (centre, high) if up else (low, centre)
            while True:
                probe = centre + reach if up else centre - reach
                if not low < probe < high:
                    break
                if (self.ratio(t, probe) <= threshold) == up:
                    low, high = (probe, high) if up else (low, probe)
                    reach *= 2
                else:
                    low, high = (low, probe) if up else (probe, high)
                    break
        while high - low > 1:
            middle = (low + high) // 2
            if self.ratio(t, middle) <= threshold:
                low = middle
            else:
                high = middle
        return high
