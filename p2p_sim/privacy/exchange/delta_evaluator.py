"""δ at given data sets of one cluster, and the ε at which it crosses a given δ."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from p2p_sim.privacy.binomial_windows import NARROW, SUBNORMAL, Floats, SubmissionCounts, bernstein_window, some
from p2p_sim.privacy.bound import LARGEST_EPSILON, Bracket
from p2p_sim.privacy.exchange.direct_sum import DirectViews, OtherUsers, spacing
from p2p_sim.privacy.exchange.tail_difference import CutOffViews
from p2p_sim.privacy.randomized_response import (
    Crossing,
    bisect,
    hockey_stick_coefficients,
    local_epsilon,
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


class Variances(NamedTuple):
    """What hides a user's noisy bit in one submission: the variance of the choice of a peer (drawn), and of the peer's
    flip (flipped).
    """

    drawn: float
    flipped: float


@dataclass(frozen=True)
class Sources:
    """A cluster as the learner sees it: the users who can be fetched, and how many submissions there are.

    sources: S, users who can be fetched, the target among them. flip_prob: α. trials, rate: there are Bin(trials, rate)
    submissions of their labels.
    """

    sources: int
    flip_prob: float
    trials: int
    rate: float

    def world(self, ones: int) -> OtherUsers:
        """What is unknown to the learner if `ones` of the other users hold label 1."""
        return OtherUsers(self.sources, self.sources - 1 - ones, ones, self.flip_prob)

    @property
    def exposed(self) -> Bracket:
        """Probability that somebody submits the target's label."""
        chance = some(self.rate / self.sources, self.trials)
        return outward(chance * (1.0 - 2.0**-47), chance * (1.0 + 2.0**-47))

    def variances(self, ones: int) -> Variances:
        """p(1-p) S/t and α(1-α): how much a submission's peer, and its flip, hide if m = `ones` of the others hold
        label 1.

        p = α + (1-2α) m/S. In the Gaussian limit ε is about √(2 ln(1/δ)) / √V, V = S times their sum: used for
        searching alone.
        """
        p = self.flip_prob + (1.0 - 2.0 * self.flip_prob) * min(1.0, ones / self.sources)
        drawn = max(p * (1.0 - p), 1e-300) / (self.trials * self.rate / self.sources)
        return Variances(drawn, self.flip_prob * (1.0 - self.flip_prob))


@dataclass(frozen=True)
class DeltaEvaluator:
    """Evaluates δ at given data sets, as a lower and an upper bound of a sum over the learner's views.

    setting: the exchange. log_delta: logarithm of the δ of interest; what is left out of the sum is a small part of it,
    and added to the upper bound. change: by what share δ may change within a block of numbers of submissions that are
    summed as one; larger blocks are faster, and raise upper bounds.
    """

    setting: Sources
    log_delta: float
    change: float = NARROW

    def views(self, ones: Sequence[int]) -> Views:
        """The learner's views of the data sets in which `ones` others hold label 1; of the first alone where tails are
        computed.
        """
        compute = _single_views if len(ones) == 1 and self.change == NARROW else _views
        return compute(self, tuple(ones))

    @cached_property
    def direct(self) -> bool:
        """Whether δ is summed over tables of all views; else it is computed from binomial tails at cut-offs."""
        s, tail = self.setting, self.submissions.log_tail
        if math.isinf(tail):
            return True
        # columns of a table: values of X, about its mean if all others hold 0, or where majorities tell most of it
        most, world, others = max(self.submissions.counts), s.world(0), s.sources - 1
        mean = others * s.flip_prob if world.kernel is None else others / 2.0
        low, high = bernstein_window(mean, others * s.flip_prob * (1.0 - s.flip_prob), others, tail)
        columns = 2 * (high - low + 1) // spacing(world, most, tail).step
        # rows: numbers of ones among the most submissions, from the smallest X to the largest
        least, largest = world.shares(np.array([low, high + 1], dtype=np.float64)).ones.tolist()
        first = bernstein_window(most * least, most * least * (1.0 - least), most, tail).first
        last = bernstein_window(most * largest, most * largest * (1.0 - largest), most, tail).last
        return columns * (last - first + 1) <= LARGEST_TABLE

    @cached_property
    def submissions(self) -> SubmissionCounts:
        """The law of the number of submissions, cut off where the rest is negligible; in small clusters it is
        complete.
        """
        s, log_tail = self.setting, -math.inf
        if self.change > NARROW or s.sources > SUMMED_IN_FULL or s.trials > TABULATED:
            # δ may gain e^ε₀ times what is truncated; e^-14 = 1e-6 of δ is left for it
            log_tail = max(self.log_delta - 14.0 - local_epsilon(s.flip_prob), _LEAST_TAIL)
        return SubmissionCounts.of(
            s.trials, s.rate, s.sources, log_tail=log_tail, log_delta=self.log_delta, change=self.change
        )

    def bounds(self, views: Views, epsilon: float, ends: Sequence[bool] = (False, True)) -> list[Floats]:
        """Bounds of δ(ε) for each data set and direction: for each of `ends` an array (M, 2), of lower bounds for False
        and upper ones for True.
        """
        coefficients = hockey_stick_coefficients(self.setting.flip_prob, epsilon)
        if coefficients.keep == 0.0:
            return [np.zeros((1, 2)) for _ in ends]
        bounds = views.deltas(coefficients, ends)
        if True in ends:
            # δ is no larger if one is told who fetched from whom: the chance of being fetched, times the local δ
            direct = outward(0.0, coefficients.keep * (1.0 + coefficients.relative_error)).upper
            cap = self.setting.exposed.upper * direct * (1.0 + 2.0**-50) + SUBNORMAL
            bounds = [np.minimum(bound, cap) if upper else bound for bound, upper in zip(bounds, ends, strict=True)]
        return bounds

    def deltas(self, views: Views, epsilon: float) -> Bracket:
        """Lower and upper bound of the largest δ(ε) over the data sets of some views, and over both directions."""
        lower, upper = self.bounds(views, epsilon)
        return Bracket(max(float(lower.max()), 0.0), float(upper.max()))

    def at(self, ones: int, epsilon: float) -> Bracket:
        """Lower and upper bound of δ(ε) of one data set, in the direction in which it is larger.

        ones: how many others hold label 1.
        """
        return self.deltas(self.views([ones]), epsilon)

    def worst(self, ones: Sequence[int], epsilon: float) -> int:
        """The data set with the largest δ among some, as the number of others with label 1.

        It is compared just below ε, since δ may be 0 at ε itself.
        """
        [upper] = self.bounds(self.views(ones), epsilon * (1.0 - 1e-6), (True,))
        return ones[int(upper.max(axis=1).argmax())]

    def cross(self, ones: Sequence[int], delta: float, low: float, *, upper: bool) -> Crossing:
        """Where the largest δ of these data sets crosses `delta` as ε grows, by its upper or by its lower bounds.

        The bound is above `delta` at the first end of the result and not at the second. Both are `low` where it is not
        above there, or where `low` is infinite, and infinite where it is above everywhere.
        """
        if math.isinf(low):
            return Crossing(low, low)
        views, s = self.views(ones), self.setting
        high = min(local_epsilon(s.flip_prob), LARGEST_EPSILON)

        def largest(epsilon: float, views: Views = views) -> float:
            return float(self.bounds(views, epsilon, (upper,))[0].max())

        if isinstance(views, CutOffViews):
            return self._cross_tails(largest, delta, ones, low=low, high=high)
        if largest(high) > delta:
            return Crossing(math.inf, math.inf)
        # δ(ε) is about φ(z) μ / z², z = ε/μ, if a noisy bit moves the view by μ standard deviations; solved for z
        mu, z = (1.0 - 2.0 * s.flip_prob) / math.sqrt(max(s.sources * sum(s.variances(0)), 1e-3)), 3.0
        guess, slope = 1.0, -1.0
        if 0.0 < mu < math.inf:
            for _ in range(6):
                z = math.sqrt(max(0.5, 2.0 * (math.log(mu / (z * z * math.sqrt(2.0 * math.pi))) - math.log(delta))))
            guess, slope = z * mu, -z / mu
        # an ε at which δ was `delta` a moment ago is a better guess
        guess = min(guess, 0.5 * (low + high)) if low == 0.0 else low
        first = largest(guess)
        if first <= delta and (guess == low or largest(low) <= delta):
            return Crossing(low, low)
        return root(largest, delta, low, high, first=(guess, first), slope=slope, precision=_PRECISION)

    def _cross_tails(
        self, largest: Callable[..., float], delta: float, ones: Sequence[int], *, low: float, high: float
    ) -> Crossing:
        """The result of `cross` where an evaluation is expensive, by few evaluations of the curve `largest` between
        `low` and `high`.
        """
        if largest(low) <= delta:
            return Crossing(low, low)
        if largest(high) > delta:
            return Crossing(math.inf, math.inf)
        # by quadrature first, then from a margin about that which holds for the full sum
        rough = CutOffViews.of(self.setting.world(ones[0]), self.submissions, quadrature=True)
        near, margin = bisect(lambda e: largest(e, rough) > delta, low, high, 1e-6), 4e-6
        while True:
            lower, upper = max(near.above * (1 - margin), low), min(near.below * (1 + margin), high)
            if (lower == low or largest(lower) > delta) and (upper == high or not largest(upper) > delta):
                return bisect(lambda e: largest(e) > delta, lower, upper, 1e-5)
            margin *= 8


def _views(evaluator: DeltaEvaluator, ones: tuple[int, ...]) -> Views:
    """The learner's views of the data sets in which `ones` others hold label 1: tables, or what tails are computed
    from.
    """
    worlds = [evaluator.setting.world(m) for m in ones]
    if evaluator.direct:
        return DirectViews.of(worlds, evaluator.submissions, sparse=True)
    return CutOffViews.of(worlds[0], evaluator.submissions)


_single_views = lru_cache(maxsize=16)(_views)
"""Views of one data set, which are needed again at the next ε, at most some 10 MB each."""


def rough_log_delta(attained: Callable[[float], float]) -> float:
    """Logarithm of a rough δ, a multiple of 8, by which it is chosen what is left out of sums.

    Args:
        attained: a lower bound of δ if sums are cut off for a δ of the given logarithm.
    """
    guess = -36.0
    for _ in range(6):
        value = attained(guess)
        if value > math.exp(guess - 4.0) or guess < -600.0:
            return max(8.0 * math.floor(math.log(value) / 8.0), -690.0) if value > 0 else guess
        guess = 2.0 * guess
    return guess
