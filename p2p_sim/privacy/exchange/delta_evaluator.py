"""δ at given data sets of one cluster, and the ε at which it crosses a given δ.

Terms of this and the neighbouring modules. *Sources* are the users whose noisy bits the submissions can carry. A data
set is given by m, the number of its *ones*: users besides the target with label 1. *Noisy ones* are users besides the
target with noisy bit 1; X is their number. δ compares two laws (distributions) of what the learner sees, one for each
label of the target. A *direction* says which law comes first.
"""

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
"""Largest number of possible submissions (trials) for which sums are taken in full. Full sums also need few sources."""
SUMMED_IN_FULL = 64
"""Largest number of sources for which sums are taken in full. Full sums also need at most `TABULATED` trials."""
LARGEST_TABLE = 1_000_000
"""Largest number of entries of a table for one number of submissions. Beyond it, δ is a difference of two tails."""
_LEAST_TAIL = -740.0
"""Smallest ln of a truncated probability; e^-740 is nearly the smallest positive number."""
_PRECISION = 4e-10
"""Relative precision of an ε that is found from tables. An ε that is found from tails has a precision of 1e-5."""
Views = DirectViews | CutOffViews


class Variances(NamedTuple):
    """Effective variance of what the learner sees: `drawn` from the random choice of peers, and `flipped` from the
    flips. Both are for one source. The search for ε uses V, their sum times the number S of sources.
    """

    drawn: float
    flipped: float


@dataclass(frozen=True)
class Sources:
    """The users whose noisy bits can be submitted, and the law of the number of submissions.

    sources: S, number of these users. flip_prob: α. trials, rate: the number of submissions is Bin(trials, rate).
    """

    sources: int
    flip_prob: float
    trials: int
    rate: float

    def world(self, ones: int) -> OtherUsers:
        """The users besides the target, as the learner knows them in one data set. The learner knows none of their
        noisy labels. m = `ones` users hold label 1, and the other S - 1 - m hold label 0.
        """
        return OtherUsers(self.sources, self.sources - 1 - ones, ones, self.flip_prob)

    @property
    def exposed(self) -> Bracket:
        """Bounds of the probability that at least one submission carries the target's noisy label."""
        chance = some(self.rate / self.sources, self.trials)
        return outward(chance * (1.0 - 2.0**-47), chance * (1.0 + 2.0**-47))

    def variances(self, ones: int) -> Variances:
        """An estimate of the variance that hides the target's label if m = `ones` other users hold label 1.

        The estimate only guides searches. `drawn` = p(1-p) S/t comes from the random choice of peers, and `flipped` =
        α(1-α) from the flips. Here t is the expected number of submissions, and p = α + (1-2α) m/S. In the Gaussian
        limit ε is approximately √(2 ln(1/δ)) / √V, where V is S times the sum of `drawn` and `flipped`.
        """
        p = self.flip_prob + (1.0 - 2.0 * self.flip_prob) * min(1.0, ones / self.sources)
        drawn = max(p * (1.0 - p), 1e-300) / (self.trials * self.rate / self.sources)
        return Variances(drawn, self.flip_prob * (1.0 - self.flip_prob))


@dataclass(frozen=True)
class DeltaEvaluator:
    """Computes a lower and an upper bound of δ(ε) at given data sets.

    δ is a sum over the learner's views (all that she may see), or a difference of two tail probabilities.
    setting: the exchange.
    log_delta: ln of the δ of interest. Sums leave out probabilities far below this δ, which widens the bounds.
    change: δ is evaluated once for a block of numbers t of submissions. δ may change by this share within a block. A
    larger share makes the computation faster and the bounds wider.
    """

    setting: Sources
    log_delta: float
    change: float = NARROW

    def views(self, ones: Sequence[int]) -> Views:
        """The probabilities of all that the learner may see. The method `bounds` computes δ from the result, at any ε.

        `ones` gives the data sets by m, the number of users besides the target with label 1. If tables of all views are
        small enough, the result has tables with a column for each m. Then δ is a sum over their rows. Otherwise the
        result is for the first m alone, and δ is a difference of two tail probabilities.
        """
        compute = _single_views if len(ones) == 1 and self.change == NARROW else _views
        return compute(self, tuple(ones))

    @cached_property
    def direct(self) -> bool:
        """Whether δ is summed from tables of all views. If not, δ is a difference of two tail probabilities."""
        s, tail = self.setting, self.submissions.log_tail
        if math.isinf(tail):
            return True
        # Columns are values of X over which a table sums. The values lie near the mean of X at m = 0. If submissions
        # are not single labels (there is a kernel), the values lie near half the number of others.
        most, world, others = max(self.submissions.counts), s.world(0), s.sources - 1
        mean = others * s.flip_prob if world.kernel is None else others / 2.0
        low, high = bernstein_window(mean, others * s.flip_prob * (1.0 - s.flip_prob), others, tail)
        columns = 2 * (high - low + 1) // spacing(world, most, tail).step
        # Rows are numbers of ones among the largest number of submissions, for all X of that window.
        least, largest = world.shares(np.array([low, high + 1], dtype=np.float64)).ones.tolist()
        first = bernstein_window(most * least, most * least * (1.0 - least), most, tail).first
        last = bernstein_window(most * largest, most * largest * (1.0 - largest), most, tail).last
        return columns * (last - first + 1) <= LARGEST_TABLE

    @cached_property
    def submissions(self) -> SubmissionCounts:
        """The numbers t of submissions at which δ given t is evaluated, ascending, with weights for a lower and an
        upper bound of δ.

        t is binomial, and δ given t does not decrease in t. So each t stands for a block of neighbouring values. In
        small clusters all t are kept. In others, very improbable t are left out, and the upper bound adds their
        probability.
        """
        s, log_tail = self.setting, -math.inf
        if self.change > NARROW or s.sources > SUMMED_IN_FULL or s.trials > TABULATED:
            # A truncated probability enters δ with a factor of up to e^ε₀, where ε₀ is the ε of the noisy label alone.
            # With this `log_tail`, each one changes δ by approximately e^-14 = 1e-6 of δ. The bounds include this.
            log_tail = max(self.log_delta - 14.0 - local_epsilon(s.flip_prob), _LEAST_TAIL)
        return SubmissionCounts.of(
            s.trials, s.rate, s.sources, log_tail=log_tail, log_delta=self.log_delta, change=self.change
        )

    def bounds(self, views: Views, epsilon: float, ends: Sequence[bool] = (False, True)) -> list[Floats]:
        """Bounds of δ(ε) in each data set: one array (data sets, 2 directions) for each entry of `ends`.

        Direction 0 is evidence for the target's label 0, and direction 1 for label 1. If ε is at least the noisy
        label's ε, δ is 0 in all data sets. Then each array is (1, 2) and holds zeros.

        Args:
            views: what the method `views` returns for these data sets. ends: which bounds are wanted, in order. False
            is the lower bound, True the upper.
        """
        coefficients = hockey_stick_coefficients(self.setting.flip_prob, epsilon)
        if coefficients.keep == 0.0:
            return [np.zeros((1, 2)) for _ in ends]
        bounds = views.deltas(coefficients, ends)
        # δ is at most Pr[the target's label is submitted] times δ of her noisy label alone. This follows by joint
        # convexity from two cases: her label is submitted, or not. Labels do not decide which case occurs. In the
        # second case nothing is learnt about her.
        direct = outward(0.0, coefficients.keep * (1.0 + coefficients.relative_error)).upper
        cap = self.setting.exposed.upper * direct * (1.0 + 2.0**-50) + SUBNORMAL
        return [np.minimum(bound, cap) if upper else bound for bound, upper in zip(bounds, ends, strict=True)]

    def deltas(self, views: Views, epsilon: float) -> Bracket:
        """Bounds of the largest δ(ε) over the data sets of `views` and both directions."""
        lower, upper = self.bounds(views, epsilon)
        return Bracket(max(float(lower.max()), 0.0), float(upper.max()))

    def at(self, ones: int, epsilon: float) -> Bracket:
        """Bounds of δ(ε) if m = `ones` other users hold label 1, for the direction with the larger δ."""
        return self.deltas(self.views([ones]), epsilon)

    def worst(self, ones: Sequence[int], epsilon: float) -> int:
        """The number m in `ones` with the largest upper bound of δ just below ε. m others hold label 1. At ε itself
        every δ may be 0: ε may be the noisy label's ε.
        """
        [upper] = self.bounds(self.views(ones), epsilon * (1.0 - 1e-6), (True,))
        return ones[int(upper.max(axis=1).argmax())]

    def cross(self, ones: Sequence[int], delta: float, low: float, *, upper: bool) -> Crossing:
        """Two neighbouring ε between which the largest δ of the data sets with m in `ones` falls to `delta`.

        Args:
            low: smallest ε that is looked at. upper: True follows the upper bound of δ, False the lower bound.

        Returns:
            `above`, where the bound is above `delta`, and `below`, where the bound is at most `delta`. Both are `low`
            if the bound at `low` is at most `delta`. Both are infinite if the bound is above `delta` at every ε.
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
        # First guess: let a noisy bit shift what the learner sees by μ standard deviations. Then δ(ε) is approximately
        # φ(z) μ / z², with φ the normal density and z = ε/μ.
        mu, z = (1.0 - 2.0 * s.flip_prob) / math.sqrt(max(s.sources * sum(s.variances(0)), 1e-3)), 3.0
        guess, slope = 1.0, -1.0
        if 0.0 < mu < math.inf:
            for _ in range(6):
                z = math.sqrt(max(0.5, 2.0 * (math.log(mu / (z * z * math.sqrt(2.0 * math.pi))) - math.log(delta))))
            guess, slope = z * mu, -z / mu
        # a `low` above 0 is the ε of the other bound or of another data set, and so a better guess
        guess = min(guess, 0.5 * (low + high)) if low == 0.0 else low
        first = largest(guess)
        if first <= delta and (guess == low or largest(low) <= delta):
            return Crossing(low, low)
        return root(largest, delta, low, high, first=(guess, first), slope=slope, precision=_PRECISION)

    def _cross_tails(
        self, largest: Callable[..., float], delta: float, ones: Sequence[int], *, low: float, high: float
    ) -> Crossing:
        """Two close ε between which a bound of the largest δ falls to `delta`, found with few evaluations (they are
        slow here).

        δ is a difference of two tail probabilities. First a rough curve of δ narrows [low, high]: a quadrature replaces
        a sum. Then the accurate curve is bisected in a small interval. Both ε are `low` if the bound is at most `delta`
        there. Both are infinite if the bound is above `delta` at `high`.

        Args:
            largest: a function of ε that returns the bound of δ(ε). It uses the accurate views of the learner, or the
            `CutOffViews` in its second argument. ones: the data sets, by how many others hold label 1; the rough curve
            is for the first. low, high: smallest and largest ε that are looked at.
        """
        if largest(low) <= delta:
            return Crossing(low, low)
        if largest(high) > delta:
            return Crossing(math.inf, math.inf)
        # Find ε by quadrature. Widen an interval about this ε until the full sums at both ends bracket `delta`. Bisect
        # the interval.
        rough = CutOffViews.of(self.setting.world(ones[0]), self.submissions, quadrature=True)
        near, margin = bisect(lambda e: largest(e, rough) > delta, low, high, 1e-6), 4e-6
        while True:
            lower, upper = max(near.above * (1 - margin), low), min(near.below * (1 + margin), high)
            if (lower == low or largest(lower) > delta) and (upper == high or not largest(upper) > delta):
                return bisect(lambda e: largest(e) > delta, lower, upper, 1e-5)
            margin *= 8


def _views(evaluator: DeltaEvaluator, ones: tuple[int, ...]) -> Views:
    """The result of `DeltaEvaluator.views` for m in `ones`, computed anew."""
    worlds = [evaluator.setting.world(m) for m in ones]
    if evaluator.direct:
        return DirectViews.of(worlds, evaluator.submissions, sparse=True)
    return CutOffViews.of(worlds[0], evaluator.submissions)


_single_views = lru_cache(maxsize=16)(_views)
"""`_views` of one data set, cached for other ε. Each entry takes at most some 10 MB."""


def rough_log_delta(attained: Callable[[float], float]) -> float:
    """The logarithm of a rough δ, for a δ that is not known yet. From this, sums decide what is small enough to leave
    out.

    A guess x of ln δ is lowered until `attained` gives a lower bound of δ that is not small beside e^x. If no positive
    δ is found, the result is -1152: δ is too small for double precision. If δ is below e^-690, the result may lie above
    ln δ.

    Args:
        attained: a function of x that gives a lower bound of δ, by sums that leave out what is small beside e^x.
    """
    guess = -36.0
    while True:
        value = attained(guess)
        if value > math.exp(guess - 4.0) or guess < -600.0:
            return max(8.0 * math.floor(math.log(value) / 8.0), -690.0) if value > 0 else guess
        guess = 2.0 * guess
