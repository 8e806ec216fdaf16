"""δ at given data sets of one cluster, and the ε at which it crosses a given δ."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from p2p_sim.privacy.binomial_windows import SUBNORMAL, Floats, bernstein_window, some
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.exchange.direct_sum import DirectViews
from p2p_sim.privacy.exchange.other_users import OtherUsers, spacing
from p2p_sim.privacy.exchange.submission_counts import NARROW, SubmissionCounts
from p2p_sim.privacy.exchange.tail_difference import CutOffViews
from p2p_sim.privacy.inversion import bisect, root
from p2p_sim.privacy.randomized_response import hockey_stick_coefficients, local_delta, local_epsilon, outward
from p2p_sim.privacy.ranges import LARGEST_EPSILON

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

    @property
    def load(self) -> float:
        """Expected submissions for each source, t/S."""
        return self.trials * self.rate / self.sources

    @property
    def flipped(self) -> float:
        """α(1-α)."""
        return self.flip_prob * (1.0 - self.flip_prob)

    def drawn(self, ones: int) -> float:
        """p(1-p), p = α + (1-2α) m/S, of the data set in which m = `ones` of the others hold label 1."""
        p = self.flip_prob + (1.0 - 2.0 * self.flip_prob) * min(1.0, ones / self.sources)
        return max(p * (1.0 - p), 1e-300)

    def variance(self, ones: int) -> float:
        """V = S (p(1-p) S/t + α(1-α)), of the Gaussian limit, in which ε is about √(2 ln(1/δ)) / √V: for searching."""
        return self.sources * (self.drawn(ones) / self.load + self.flipped)

    def rough_crossing(self, log_delta: float) -> tuple[float, float]:
        """ε(δ) of all zeros, roughly, and d ln δ / dε there.

        δ(ε) is about φ(z) μ / z², z = ε/μ, if a noisy bit moves the view by μ standard deviations.
        """
        mu, z = (1.0 - 2.0 * self.flip_prob) / math.sqrt(max(self.variance(0), 1e-3)), 3.0
        if not 0.0 < mu < math.inf:
            return 1.0, -1.0
        for _ in range(6):
            z = math.sqrt(max(0.5, 2.0 * (math.log(mu / (z * z * math.sqrt(2.0 * math.pi))) - log_delta)))
        return z * mu, -z / mu


@dataclass(frozen=True)
class DeltaEvaluator:
    """Evaluates δ at given data sets; truncations are a small part of exp(log_delta) and charged to the upper value.

    change: by what share δ may change within a block of submissions; more is for upper bounds that have room.
    """

    setting: Sources
    log_delta: float
    change: float = NARROW

    @property
    def log_tail(self) -> float:
        """Allowed probability of each truncation, as a logarithm; figures of small clusters are summed in full."""
        small = self.setting.sources <= SUMMED_IN_FULL and self.setting.trials <= TABULATED
        if small and self.change == NARROW:
            return -math.inf
        return max(self.log_delta - 14.0 - local_epsilon(self.setting.flip_prob), _LEAST_TAIL)

    def views(self, ones: Sequence[int], quadrature: bool = False) -> Views:
        """The learner's views of these data sets; `quadrature` is for searching, where tails are computed."""
        return (
            _kept_views(self, ones[0], quadrature) if len(ones) == 1 and self.change == NARROW else _views(self, ones)
        )

    def together(self, ones: Sequence[int]) -> Sequence[int]:
        """As many of these data sets as may be evaluated at once."""
        return ones if self.direct else ones[:1]

    @cached_property
    def direct(self) -> bool:
        """Whether δ is computed from tables; else from tails at cut-offs."""
        s, tail = self.setting, self.log_tail
        if math.isinf(tail):
            return True
        most, others = max(self.submissions.counts), s.world(0)
        low, high = s.noisy_window(tail)
        columns = 2 * (high - low + 1) // spacing(others, most, tail)
        shares, _ = others.shares(np.array([low, high + 1], dtype=np.float64))
        first, last = self._window(most, float(shares[0]))[0], self._window(most, float(shares[1]))[1]
        return columns * (last - first + 1) <= LARGEST_TABLE

    @cached_property
    def submissions(self) -> SubmissionCounts:
        """The numbers of submissions that are looked at."""
        s = self.setting
        return SubmissionCounts.of(s.trials, s.rate, s.sources, self.log_tail, self.log_delta, self.change)

    def _window(self, trials: int, rate: float) -> tuple[int, int]:
        return bernstein_window(trials * rate, trials * rate * (1.0 - rate), trials, self.log_tail)

    def deltas(self, views: Views, epsilon: float) -> Bracket:
        """The largest δ over data sets and directions."""
        lower, upper = self.bounds(views, epsilon)
        return Bracket(max(float(lower.max()), 0.0), float(upper.max()))

    def one(self, views: Views, epsilon: float, upper: bool) -> float:
        """The upper end of that, or the lower one."""
        keep, lose, relative_error = hockey_stick_coefficients(self.setting.flip_prob, epsilon)
        if keep == 0.0:
            return 0.0
        found = views.largest(keep, lose, relative_error, upper)
        return min(found, self._cap(epsilon)) if upper else max(found, 0.0)

    def bounds(self, views: Views, epsilon: float) -> tuple[Floats, Floats]:
        """Lower and upper bounds of δ for each data set and direction, (M, 2)."""
        keep, lose, relative_error = hockey_stick_coefficients(self.setting.flip_prob, epsilon)
        if keep == 0.0:
            return np.zeros((1, 2)), np.zeros((1, 2))
        lower, upper = views.deltas(keep, lose, relative_error)
        return lower, np.minimum(upper, self._cap(epsilon))

    def _cap(self, epsilon: float) -> float:
        """What δ(ε) is if one is told who fetched from whom, an upper bound: the exposure times the local δ."""
        direct = local_delta(self.setting.flip_prob, epsilon).upper
        return self.setting.exposed.upper * direct * (1.0 + 2.0**-50) + SUBNORMAL

    def at(self, ones: int, epsilon: float) -> Bracket:
        """δ(ε) of one data set, the larger direction."""
        return self.deltas(self.views([ones]), epsilon)

    def worst(self, ones: Sequence[int], epsilon: float) -> int:
        """The data set with the largest δ just below ε, which may be 0 at ε itself."""
        values = self.bounds(self.views(ones), epsilon * (1.0 - 1e-6))[1].max(axis=1)
        return ones[int(values.argmax())]

    def attained(self, ones: int, delta: float) -> float:
        """The largest ε, found from below, at which this data set's δ is still above `delta`; 0 if there is none."""
        return self._cross([ones], delta, 0.0, False)[0]

    def raised(self, ones: Sequence[int], delta: float, epsilon: float) -> float:
        """The smallest ε, at least the given one, at which no δ of these data sets is above `delta`."""
        return epsilon if math.isinf(epsilon) else self._cross(ones, delta, epsilon, True)[1]

    def _cross(self, ones: Sequence[int], delta: float, low: float, upper: bool) -> tuple[float, float]:
        """Bracket the ε at which a bound of δ crosses `delta`: it is above at the first end, not at the second."""
        views, s = self.views(ones), self.setting
        high = min(local_epsilon(s.flip_prob), LARGEST_EPSILON)

        def value(epsilon: float, v: Views = views) -> float:
            return self.one(v, epsilon, upper)

        if isinstance(views, CutOffViews):
            return self._cross_tails(value, ones, delta, low, high)
        if value(high) > delta:
            return math.inf, math.inf

        def log_value(epsilon: float) -> float:
            found = value(epsilon)
            return math.log(found / delta) if found > 0.0 else -math.inf

        guess, slope = s.rough_crossing(math.log(delta))
        guess = min(guess, 0.5 * (low + high)) if low == 0.0 else low
        first = log_value(guess)
        if first <= 0.0 and (guess == low or value(low) <= delta):
            return low, low
        return root(log_value, low, high, (guess, first), slope, _PRECISION)

    def _cross_tails(
        self, value: Callable[..., float], ones: Sequence[int], delta: float, low: float, high: float
    ) -> tuple[float, float]:
        """Bracket that ε where an evaluation is expensive: by quadrature first."""
        if value(low) <= delta:
            return low, low
        if value(high) > delta:
            return math.inf, math.inf
        rough = self.views(ones, quadrature=True)
        near = bisect(lambda e: value(e, rough) > delta, low, high, 1e-6)
        low, high = _tighten(lambda e: value(e) > delta, near, low, high)
        return bisect(lambda e: value(e) > delta, low, high, 1e-5)


def _views(scan: DeltaEvaluator, ones: Sequence[int], quadrature: bool = False) -> Views:
    worlds = [scan.setting.world(m) for m in ones]
    if scan.direct:
        return DirectViews.of(worlds, scan.submissions, scan.log_tail, sparse=True)
    return CutOffViews.of(worlds[0], scan.submissions, scan.log_tail, quadrature)


@lru_cache(maxsize=16)
def _kept_views(scan: DeltaEvaluator, ones: int, quadrature: bool) -> Views:
    """Views that are asked for again at the next ε, at most some 10 MB each."""
    return _views(scan, [ones], quadrature)


def _tighten(above: Callable[[float], bool], near: tuple[float, float], low: float, high: float) -> tuple[float, float]:
    """From a rough bracket to one that holds for `above`, inside (low, high)."""
    margin = 4e-6
    while True:
        lower, upper = max(near[0] * (1 - margin), low), min(near[1] * (1 + margin), high)
        if (lower == low or above(lower)) and (upper == high or not above(upper)):
            return lower, upper
        margin *= 8
