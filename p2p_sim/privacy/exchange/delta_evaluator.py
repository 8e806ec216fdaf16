"""δ at given data sets of one cluster, and the ε at which it crosses a given δ."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from p2p_sim.privacy.binomial_windows import NARROW, SUBNORMAL, Floats, SubmissionCounts, bernstein_window, some
from p2p_sim.privacy.bound import LARGEST_EPSILON, Bracket
from p2p_sim.privacy.exchange.direct_sum import DirectViews, OtherUsers, spacing
from p2p_sim.privacy.exchange.tail_difference import CutOffViews
from p2p_sim.privacy.randomized_response import (
    bisect,
    hockey_stick_coefficients,
    local_epsilon,
    log_ratio,
    outward,
    root,
)

TABULATED = 4096
"""Most possible submissions for which nothing is truncated."""
SUMMED_IN_FULL = 64
"""Most sources for which no sum is truncated at all."""
LARGEST_TABLE = 1_000_000
"""Values in the largest table that is made of one number of submissions; else tails are computed at cut-offs."""
_LEAST_TAIL = -740.0
"""Smallest logarithm of a truncation: that of nearly the smallest positive number."""
_PRECISION = 4e-10
"""To which ε is found from tables, relative; with cut-offs it is 1e-5."""
Views = DirectViews | CutOffViews


@dataclass(frozen=True)
class Sources:
    """The users who can be fetched, and the law of the submissions; see `ClusterExchange`."""

    sources: int
    flip_prob: float
    trials: int
    rate: float

    def world(self, ones: int) -> OtherUsers:
        """The world in which `ones` of the others hold label 1."""
        return OtherUsers(self.sources, self.sources - 1 - ones, ones, self.flip_prob)

    @property
    def exposed(self) -> Bracket:
        """Probability that somebody submits the target's label."""
        chance = some(self.rate / self.sources, self.trials)
        return outward(chance * (1.0 - 2.0**-47), chance * (1.0 + 2.0**-47))

    def noisy_window(self, log_tail: float) -> tuple[int, int]:
        """Where nearly all noisy ones of a data set lie, for how large tables are."""
        others, alpha = self.sources - 1, self.flip_prob
        return bernstein_window(others * alpha, others * alpha * (1.0 - alpha), others, log_tail)

    def variances(self, ones: int) -> tuple[float, float]:
        """p(1-p) S/t and α(1-α): what a submission's peer and its flip hide if m = `ones` of the others hold label 1.

        p = α + (1-2α) m/S. In the Gaussian limit ε is about √(2 ln(1/δ)) / √V, V = S times their sum: for searching.
        """
        p = self.flip_prob + (1.0 - 2.0 * self.flip_prob) * min(1.0, ones / self.sources)
        drawn = max(p * (1.0 - p), 1e-300) / (self.trials * self.rate / self.sources)
        return drawn, self.flip_prob * (1.0 - self.flip_prob)


@dataclass(frozen=True)
class DeltaEvaluator:
    """Evaluates δ at given data sets; truncations are a small part of exp(log_delta) and charged to the upper value.

    change: by what share δ may change within a block of submissions; more is for upper bounds that have room.
    """

    setting: Sources
    log_delta: float
    change: float = NARROW

    def views(self, ones: Sequence[int], quadrature: bool = False) -> Views:
        """The learner's views of these data sets; `quadrature` is for searching, where tails are computed."""
        compute = _single_views if len(ones) == 1 and self.change == NARROW else _views
        return compute(self, tuple(ones), quadrature)

    @cached_property
    def direct(self) -> bool:
        """Whether δ is computed from tables; else from tails at cut-offs."""
        s, tail = self.setting, self.submissions.log_tail
        if math.isinf(tail):
            return True
        # columns: values of X; rows: numbers of ones among the most submissions, at the smallest and the largest X
        most, others = max(self.submissions.counts), s.world(0)
        low, high = s.noisy_window(tail)
        columns = 2 * (high - low + 1) // spacing(others, most, tail)
        shares, _ = others.shares(np.array([low, high + 1], dtype=np.float64))
        least, largest = shares.tolist()
        first, _ = bernstein_window(most * least, most * least * (1.0 - least), most, tail)
        _, last = bernstein_window(most * largest, most * largest * (1.0 - largest), most, tail)
        return columns * (last - first + 1) <= LARGEST_TABLE

    @cached_property
    def submissions(self) -> SubmissionCounts:
        """The numbers of submissions that are looked at; figures of small clusters are summed in full."""
        s, log_tail = self.setting, -math.inf
        if self.change > NARROW or s.sources > SUMMED_IN_FULL or s.trials > TABULATED:
            # the logarithm of the allowed probability of each truncation
            log_tail = max(self.log_delta - 14.0 - local_epsilon(s.flip_prob), _LEAST_TAIL)
        return SubmissionCounts.of(
            s.trials, s.rate, s.sources, log_tail=log_tail, log_delta=self.log_delta, change=self.change
        )

    def bounds(self, views: Views, epsilon: float, ends: Sequence[bool] = (False, True)) -> list[Floats]:
        """The lower bound of δ for each data set and direction, (M, 2), or the upper one; one for each of `ends`."""
        keep, lose, relative_error = hockey_stick_coefficients(self.setting.flip_prob, epsilon)
        if keep == 0.0:
            return [np.zeros((1, 2)) for _ in ends]
        found = views.deltas(keep, lose, relative_error, ends)
        if True in ends:
            # δ is no larger if one is told who fetched from whom: the chance of being fetched, times the local δ
            direct = outward(0.0, keep * (1.0 + relative_error)).upper
            cap = self.setting.exposed.upper * direct * (1.0 + 2.0**-50) + SUBNORMAL
            found = [np.minimum(bound, cap) if upper else bound for bound, upper in zip(found, ends, strict=True)]
        return found

    def deltas(self, views: Views, epsilon: float) -> Bracket:
        """The largest δ over data sets and directions."""
        lower, upper = self.bounds(views, epsilon)
        return Bracket(max(float(lower.max()), 0.0), float(upper.max()))

    def at(self, ones: int, epsilon: float) -> Bracket:
        """δ(ε) of one data set, the larger direction."""
        return self.deltas(self.views([ones]), epsilon)

    def worst(self, ones: Sequence[int], epsilon: float) -> int:
        """The data set with the largest δ just below ε, which may be 0 at ε itself."""
        [upper] = self.bounds(self.views(ones), epsilon * (1.0 - 1e-6), (True,))
        return ones[int(upper.max(axis=1).argmax())]

    def cross(self, ones: Sequence[int], delta: float, low: float, *, upper: bool) -> tuple[float, float]:
        """Bracket the ε at which the largest δ of these data sets crosses `delta`, as its upper or its lower bounds do.

        The bound is above `delta` at the first end and not at the second; both are `low` where it is not above there,
        or where `low` is infinite, and infinite where it is above everywhere.
        """
        if math.isinf(low):
            return low, low
        views, s = self.views(ones), self.setting
        high = min(local_epsilon(s.flip_prob), LARGEST_EPSILON)

        def log_excess(epsilon: float, v: Views = views) -> float:
            return log_ratio(float(self.bounds(v, epsilon, (upper,))[0].max()), delta)

        if isinstance(views, CutOffViews):
            return self._cross_tails(log_excess, ones, low, high)
        if log_excess(high) > 0.0:
            return math.inf, math.inf
        # δ(ε) is about φ(z) μ / z², z = ε/μ, if a noisy bit moves the view by μ standard deviations
        mu, z = (1.0 - 2.0 * s.flip_prob) / math.sqrt(max(s.sources * sum(s.variances(0)), 1e-3)), 3.0
        guess, slope = 1.0, -1.0
        if 0.0 < mu < math.inf:
            for _ in range(6):
                z = math.sqrt(max(0.5, 2.0 * (math.log(mu / (z * z * math.sqrt(2.0 * math.pi))) - math.log(delta))))
            guess, slope = z * mu, -z / mu
        guess = min(guess, 0.5 * (low + high)) if low == 0.0 else low
        first = log_excess(guess)
        if first <= 0.0 and (guess == low or log_excess(low) <= 0.0):
            return low, low
        return root(log_excess, low, high, first=(guess, first), slope=slope, precision=_PRECISION)

    def _cross_tails(
        self, log_excess: Callable[..., float], ones: Sequence[int], low: float, high: float
    ) -> tuple[float, float]:
        """Bracket that ε where an evaluation is expensive: by quadrature first."""
        if log_excess(low) <= 0.0:
            return low, low
        if log_excess(high) > 0.0:
            return math.inf, math.inf
        rough = self.views(ones, quadrature=True)
        near = bisect(lambda e: log_excess(e, rough) > 0.0, low, high, 1e-6)
        low, high = _tighten(lambda e: log_excess(e) > 0.0, near, low, high)
        return bisect(lambda e: log_excess(e) > 0.0, low, high, 1e-5)


def _views(evaluator: DeltaEvaluator, ones: tuple[int, ...], quadrature: bool) -> Views:
    """The views of these data sets; of the first alone where tails are computed."""
    worlds = [evaluator.setting.world(m) for m in ones]
    if evaluator.direct:
        return DirectViews.of(worlds, evaluator.submissions, sparse=True)
    return CutOffViews.of(worlds[0], evaluator.submissions, quadrature)


_single_views = lru_cache(maxsize=16)(_views)
"""Views of one data set, which are asked for again at the next ε, at most some 10 MB each."""


def _tighten(above: Callable[[float], bool], near: tuple[float, float], low: float, high: float) -> tuple[float, float]:
    """From a rough bracket to one that holds for `above`, inside (low, high)."""
    margin = 4e-6
    while True:
        lower, upper = max(near[0] * (1 - margin), low), min(near[1] * (1 + margin), high)
        if (lower == low or above(lower)) and (upper == high or not above(upper)):
            return lower, upper
        margin *= 8
