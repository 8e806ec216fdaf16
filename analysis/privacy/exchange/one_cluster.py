"""The learner's δ and ε in one cluster, bracketed over all data sets.

Above `EXHAUSTIVE` users not every data set is evaluated. Let b others' noisy bits be revealed, and which submissions
were fetched from them. What remains is an exchange among S - b sources, of which m' of the other S - 1 - b hold
label 1; by choosing whom to reveal, one m' serves every m from m' to m' + b. So evaluating m' = 0, b+1, 2(b+1), ... at
S - b sources bounds δ for every m from above, and costs a factor of about 1 + b/(2S) in ε.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from p2p_sim.analysis.privacy.exchange.cutoff import CutOffViews
from p2p_sim.analysis.privacy.exchange.direct import DirectViews
from p2p_sim.analysis.privacy.exchange.submissions import Submissions
from p2p_sim.analysis.privacy.exchange.unknown_bits import World
from p2p_sim.analysis.privacy.statement.bound import Bracket
from p2p_sim.analysis.privacy.statement.checks import LARGEST_EPSILON
from p2p_sim.analysis.privacy.statement.inversion import bisect
from p2p_sim.analysis.privacy.statement.local import local_delta, local_epsilon, outward, worth
from p2p_sim.analysis.privacy.statement.windows import SUBNORMAL, Floats, share_of, some

EXHAUSTIVE = 2048
"""Most sources for which every data set is evaluated."""
TABULATED = 4096
"""Most expected submissions for which that is done, and most possible ones for which nothing is truncated."""
CACHED = 256
"""Most sources for which tabulated views are kept."""
SUMMED_IN_FULL = 64
"""Most sources for which no sum is truncated at all."""
_LEAST_TAIL = -740.0
"""Smallest logarithm of a truncation: that of nearly the smallest positive number."""
_BATCH = 64
Views = DirectViews | CutOffViews


@dataclass(frozen=True)
class Setting:
    """One exchange among users of a cluster, as the learner sees it.

    Args:
        sources: S, users who can be fetched, the target among them; at least 1.
        flip_prob: α, 0 or in [1e-300, 1/2].
        trials, rate: the number of informative submissions is Bin(trials, rate).

    With α = 0, δ is for every ε the probability that somebody submits the target's label: it is nowhere larger if one
    is told who fetched from whom, and if all others hold label 0, a submitted 1 is hers.
    """

    sources: int
    flip_prob: float
    trials: int
    rate: float

    def delta(self, epsilon: float) -> Bracket:
        """δ(ε) over all data sets and both directions."""
        return self.profile([epsilon])[0]

    def profile(self, epsilons: Sequence[float]) -> list[Bracket]:
        """δ at several ε, over all data sets and both directions; truncations are chosen for the largest ε."""
        local = local_epsilon(self.flip_prob)
        if math.isinf(local):
            return [self._exposed] * len(epsilons)
        inside = [e for e in epsilons if e < local]
        if not inside:
            return [Bracket(0.0, 0.0)] * len(epsilons)
        log_delta = self._log_delta(max(inside))
        scan, reduced = _Scan(self, log_delta), _Scan(self.reduced(), log_delta)
        lower, upper = np.zeros(len(inside)), np.zeros(len(inside))

        def include(views: Views, below: bool, above: bool) -> None:
            for index, epsilon in enumerate(inside):
                bracket = scan.deltas(views, epsilon)
                lower[index] = max(lower[index], bracket.lower) if below else lower[index]
                upper[index] = max(upper[index], bracket.upper) if above else upper[index]

        if self.tabulated:
            for ones in self._batches():
                include(scan.views(ones), below=True, above=True)
        else:
            include(scan.views([0]), below=True, above=False)
            for m in self._covering():
                include(reduced.views([m]), below=False, above=True)
        found = iter(outward(float(a), float(b)) for a, b in zip(lower, upper, strict=True))
        return [next(found) if e < local else Bracket(0.0, 0.0) for e in epsilons]

    def attained_delta(self, epsilon: float) -> float:
        """δ(ε) of the data set in which all others hold label 0: a lower bound over all data sets."""
        local = local_epsilon(self.flip_prob)
        if epsilon >= local or math.isinf(local):
            return 0.0 if epsilon >= local else self._exposed.lower
        return outward(_Scan(self, self._log_delta(epsilon)).at(0, epsilon).lower, 1.0).lower

    def epsilon(self, delta: float) -> Bracket:
        """ε(δ) over all data sets and both directions."""
        local = local_epsilon(self.flip_prob)
        if local == 0.0:
            return Bracket(0.0, 0.0)
        if math.isinf(local):
            exposed = self._exposed
            return Bracket(*(local if end > delta else 0.0 for end in (exposed.lower, exposed.upper)))
        log_delta = math.log(delta)
        scan = _Scan(self, log_delta)
        lower = scan.attained(0, delta)
        if math.isinf(lower):
            return Bracket(local, local)
        upper = lower
        if self.tabulated:
            for ones in self._batches():
                raised = scan.raised(ones, delta, upper)
                if upper < raised < math.inf:
                    lower = max(lower, scan.attained(scan.worst(ones, raised), delta))
                upper = raised
            return Bracket(min(lower, local), min(upper, local))
        reduced = _Scan(self.reduced(), log_delta)
        for m in reduced.worst_first(self._covering(), lower):
            upper = reduced.raised([m], delta, upper)
        return Bracket(min(lower, local), min(upper, local))

    def satisfies(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) is certified; False may mean that (ε, δ) holds but could not be certified."""
        local = local_epsilon(self.flip_prob)
        if epsilon >= local or math.isinf(local):
            return epsilon >= local or self._exposed.upper <= delta
        if self.tabulated:
            scan = _Scan(self, math.log(delta))
            return all(scan.deltas(scan.views(ones), epsilon).upper <= delta for ones in self._batches())
        if _Scan(self, math.log(delta)).at(0, epsilon).lower > delta:
            return False
        reduced = _Scan(self.reduced(), math.log(delta))
        return all(reduced.at(m, epsilon).upper <= delta for m in self._covering())

    @property
    def tabulated(self) -> bool:
        """Whether every data set is evaluated, by a table of all numbers of ones."""
        return self.sources <= EXHAUSTIVE and self.trials * self.rate <= TABULATED

    @property
    def revealed(self) -> int:
        """b: others whose noisy bits are revealed, so that fewer data sets need a look."""
        return self.sources // (100 if self.sources <= 20_000 else 50)

    def reduced(self) -> "Setting":
        """The exchange that is left when b others are revealed; its rate is rounded up, for upper bounds."""
        left = self.sources - self.revealed
        return replace(self, sources=left, rate=share_of(self.rate, left, self.sources, up=True))

    @property
    def _exposed(self) -> Bracket:
        """Probability that somebody submits the target's label."""
        chance = some(self.rate / self.sources, self.trials)
        return outward(chance * (1.0 - 2.0**-47), chance * (1.0 + 2.0**-47))

    def world(self, ones: int) -> World:
        """The world in which `ones` of the others hold label 1."""
        return World(self.sources, self.sources - 1 - ones, ones, self.flip_prob)

    def _batches(self) -> list[Sequence[int]]:
        """Numbers of ones among the others that need a look: swapping the labels mirrors the rest."""
        half = (self.sources - 1) // 2
        return [range(first, min(first + _BATCH, half + 1)) for first in range(0, half + 1, _BATCH)]

    def _covering(self) -> list[int]:
        """Numbers of ones of the reduced exchange, ascending, that cover every data set of this one."""
        half, b = (self.sources - 1) // 2, self.revealed
        return list(range(0, half + 1, b + 1))

    def _log_delta(self, epsilon: float) -> float:
        """Logarithm of a rough δ(ε), a multiple of 8, for choosing truncations."""
        guess = -36.0
        for _ in range(6):
            value = _Scan(self, guess).at(0, epsilon).lower
            if value > math.exp(guess - 4.0) or guess < -600.0:
                return max(8.0 * math.floor(math.log(value) / 8.0), -690.0) if value > 0 else guess
            guess = 2.0 * guess
        return guess


@dataclass(frozen=True)
class _Scan:
    """Evaluates δ at given data sets; truncations are a small part of exp(log_delta) and charged to the upper value."""

    setting: Setting
    log_delta: float

    @property
    def log_tail(self) -> float:
        """Allowed probability of each truncation, as a logarithm; small clusters are summed in full."""
        if self.setting.sources <= SUMMED_IN_FULL and self.setting.trials <= TABULATED:
            return -math.inf
        return max(self.log_delta - 14.0 - local_epsilon(self.setting.flip_prob), _LEAST_TAIL)

    def views(self, ones: Sequence[int], quadrature: bool = False) -> Views:
        """The learner's views of these data sets."""
        small = self.setting.sources <= CACHED or not self.setting.tabulated
        return (_kept_views if small else _views)(self, tuple(ones), quadrature)

    def deltas(self, views: Views, epsilon: float) -> Bracket:
        """The largest δ over data sets and directions."""
        lower, upper = self.bounds(views, epsilon)
        return Bracket(max(float(lower.max()), 0.0), float(upper.max()))

    def bounds(self, views: Views, epsilon: float) -> tuple[Floats, Floats]:
        """Lower and upper bounds of δ for each data set and direction, (M, 2)."""
        keep, lose, doubt = worth(self.setting.flip_prob, epsilon)
        if keep == 0.0:
            return np.zeros((1, 2)), np.zeros((1, 2))
        lower, upper = views.deltas(keep, lose, doubt)
        return lower, np.minimum(upper, self._cap(epsilon))

    def _cap(self, epsilon: float) -> float:
        """What δ(ε) is if one is told who fetched from whom, an upper bound: the exposure times the local δ."""
        direct = local_delta(self.setting.flip_prob, epsilon).upper
        return self.setting._exposed.upper * direct * (1.0 + 2.0**-50) + SUBNORMAL

    def at(self, ones: int, epsilon: float) -> Bracket:
        """δ(ε) of one data set, the larger direction."""
        return self.deltas(self.views([ones]), epsilon)

    def worst(self, ones: Sequence[int], epsilon: float) -> int:
        """The data set with the largest δ just below ε, which may be 0 at ε itself."""
        values = self.bounds(self.views(ones), epsilon * (1.0 - 1e-6))[1].max(axis=1)
        return ones[int(values.argmax())]

    def worst_first(self, ones: Sequence[int], epsilon: float) -> list[int]:
        """The data sets by falling δ(ε), by quadrature: evaluating the worst first spares raising ε often."""
        return sorted(ones, key=lambda m: -self.deltas(self.views([m], quadrature=True), epsilon).upper)

    def attained(self, ones: int, delta: float) -> float:
        """The largest ε, found from below, at which this data set's δ is still above `delta`; 0 if there is none."""
        return self._cross([ones], delta, 0.0, "lower")[0]

    def raised(self, ones: Sequence[int], delta: float, epsilon: float) -> float:
        """The smallest ε, at least the given one, at which no δ of these data sets is above `delta`."""
        if math.isinf(epsilon) or self.deltas(self.views(ones), epsilon).upper <= delta:
            return epsilon
        return self._cross(ones, delta, epsilon, "upper")[1]

    def _cross(self, ones: Sequence[int], delta: float, low: float, side: str) -> tuple[float, float]:
        """Bracket the ε at which a bound of δ crosses `delta`: it is above at the first end, not at the second."""
        views = self.views(ones)

        def above(epsilon: float, v: Views = views) -> bool:
            return bool(getattr(self.deltas(v, epsilon), side) > delta)

        high = min(local_epsilon(self.setting.flip_prob), LARGEST_EPSILON)
        if not above(low):
            return low, low
        if above(high):
            return math.inf, math.inf
        if isinstance(views, CutOffViews):
            rough = self.views(ones, quadrature=True)
            near = bisect(lambda e: above(e, rough), low, high, 1e-6)
            low, high = _tighten(above, near, low, high)
        return bisect(above, low, high, 1e-9 if isinstance(views, DirectViews) else 1e-5)


def _views(scan: _Scan, ones: tuple[int, ...], quadrature: bool) -> Views:
    s = scan.setting
    submissions = Submissions.of(s.trials, s.rate, s.sources, scan.log_tail, scan.log_delta)
    worlds = [s.world(m) for m in ones]
    if s.tabulated:
        return DirectViews.of(worlds, submissions, scan.log_tail)
    return CutOffViews.of(worlds[0], submissions, scan.log_tail, quadrature)


_kept_views = lru_cache(maxsize=64)(_views)
"""Views that are asked for again at the next ε: all but the large tables, at most some 10 MB each."""


def _tighten(above: Callable[[float], bool], near: tuple[float, float], low: float, high: float) -> tuple[float, float]:
    """From a rough bracket to one that holds for `above`, inside (low, high)."""
    margin = 4e-6
    while True:
        lower, upper = max(near[0] * (1 - margin), low), min(near[1] * (1 + margin), high)
        if (lower == low or above(lower)) and (upper == high or not above(upper)):
            return lower, upper
        margin *= 8
