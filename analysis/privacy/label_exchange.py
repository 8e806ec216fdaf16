"""The exact accountant of the label exchange for the learner (binary labels, label adjacency).

>>> from analysis.privacy import LabelExchange
>>> bound = LabelExchange(cluster_size=40, flip_prob=0.1, sampling_rate=0.5).epsilon(delta=1e-5)
>>> bound.epsilon_lower <= bound.epsilon_upper < 2.2
True
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from analysis.privacy.blanket import blanket_delta
from analysis.privacy.bound import PrivacyBound
from analysis.privacy.learner_view import Submissions, likelihoods
from analysis.privacy.local import local_epsilon
from analysis.privacy.windows import Floats, rounding

EXHAUSTIVE = 4096
"""Largest cluster for which every data set is evaluated; beyond it the upper bound is one that needs no data set."""
SUMMED_IN_FULL = 64
"""Largest cluster whose sums are not truncated at all."""
LARGEST_EPSILON = 700.0
LEARNER_CONDITIONS = (
    "the learner sees the set of submissions, not their arrival times or other traffic",
    "every user draws one noisy label and repeats it; peers are drawn uniformly and independently",
    "clusters, availability and latencies do not depend on labels",
)
_BATCH = 64


@dataclass(frozen=True)
class Bracket:
    """A lower and an upper bound of one number."""

    lower: float
    upper: float


@dataclass(frozen=True)
class LabelExchange:
    """Privacy of one user's label against the learner in one cluster.

    Args:
        cluster_size: n, users in the cluster, at least 2.
        flip_prob: α in [0, 1/2].
        sampling_rate: θ in (0, 1].
    """

    cluster_size: int
    flip_prob: float
    sampling_rate: float

    def __post_init__(self) -> None:
        if self.cluster_size < 2:
            raise ValueError(f"cluster_size = {self.cluster_size}: must be at least 2")
        if not 0.0 <= self.flip_prob <= 0.5:
            raise ValueError(f"flip_prob = {self.flip_prob}: must lie in [0, 0.5]")
        if not 0.0 < self.sampling_rate <= 1.0:
            raise ValueError(f"sampling_rate = {self.sampling_rate}: must lie in (0, 1]")

    def delta(self, epsilon: float) -> Bracket:
        """δ(ε): the largest hockey-stick divergence over all pairs of neighbouring data sets.

        Args:
            epsilon: ε, at least 0.
        """
        if not epsilon >= 0.0:
            raise ValueError(f"epsilon = {epsilon}: must be at least 0")
        if epsilon >= local_epsilon(self.flip_prob):
            return Bracket(0.0, 0.0)
        epsilon = min(epsilon, LARGEST_EPSILON)
        rough = _Scan(self, math.log(1e-16)).at([0], epsilon).lower
        log_delta = math.log(max(float(rough.max()), 1e-280))
        scan = _Scan(self, log_delta)
        if self.cluster_size > EXHAUSTIVE:
            upper = blanket_delta(self.cluster_size, self.flip_prob, epsilon, scan.log_tail)
            return Bracket(float(scan.at([0], epsilon).lower.max()), upper)
        values = [scan.at(ones, epsilon) for ones in self._datasets()]
        return Bracket(max(float(v.lower.max()) for v in values), max(float(v.upper.max()) for v in values))

    def epsilon(self, delta: float) -> PrivacyBound:
        """ε(δ), bracketed: the smallest ε that holds for all pairs of neighbouring data sets.

        Args:
            delta: δ in (0, 1).
        """
        if not 0.0 < delta < 1.0:
            raise ValueError(f"delta = {delta}: must lie in (0, 1)")
        bracket, basis = _epsilon(self, delta)
        return PrivacyBound(bracket.lower, bracket.upper, delta, "learner", "label", basis, LEARNER_CONDITIONS)

    def satisfies(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) is certified; False may mean that it holds but could not be shown."""
        if epsilon >= local_epsilon(self.flip_prob):
            return True
        scan = _Scan(self, math.log(delta))
        if self.cluster_size > EXHAUSTIVE:
            return blanket_delta(self.cluster_size, self.flip_prob, epsilon, scan.log_tail) <= delta
        return all(float(scan.at(ones, epsilon).upper.max()) <= delta for ones in self._datasets())

    def _datasets(self) -> list[Sequence[int]]:
        """The numbers of ones among the others that need a look: swapping the labels mirrors the rest."""
        half = (self.cluster_size - 1) // 2
        return [range(first, min(first + _BATCH, half + 1)) for first in range(0, half + 1, _BATCH)]


@dataclass(frozen=True)
class _Deltas:
    """δ per data set and direction (target's label 0 against 1, and 1 against 0), as bounds of shape (M, 2)."""

    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class _Views:
    """Likelihoods A and B of shape (R, M): a row for each (submissions, ones among them), a column for each data set;
    lower and upper (R,) are the weights of the row's number of submissions in the two sums."""

    a: Floats
    b: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class _Scan:
    """Evaluates δ at given data sets; truncations are a small part of exp(log_delta) and charged to the upper value."""

    exchange: LabelExchange
    log_delta: float

    @property
    def log_tail(self) -> float:
        """Allowed probability of each truncation, as a logarithm; small clusters are summed in full."""
        return -math.inf if self.exchange.cluster_size <= SUMMED_IN_FULL else self.log_delta - 14.0

    @cached_property
    def submissions(self) -> Submissions:
        e = self.exchange
        return Submissions.of(e.cluster_size, e.sampling_rate, self.log_tail, self.log_delta)

    def views(self, ones: Sequence[int]) -> "_Views":
        """The learner's views of these data sets."""
        e, t = self.exchange, self.submissions
        parts = list(likelihoods(e.cluster_size, e.flip_prob, ones, t.counts, self.log_tail))
        rows = [len(a) for a, _ in parts]
        return _Views(
            np.concatenate([a for a, _ in parts]),
            np.concatenate([b for _, b in parts]),
            np.repeat(t.lower, rows),
            np.repeat(t.upper, rows),
        )

    def delta(self, views: "_Views", epsilon: float) -> _Deltas:
        """Bounds of δ(ε) for every data set and direction of the views."""
        e = self.exchange
        keep = 1.0 - e.flip_prob - e.flip_prob * math.exp(epsilon)
        lose = math.exp(epsilon) * (1.0 - e.flip_prob) - e.flip_prob
        slack = 2.0 * rounding(e.cluster_size)
        if keep <= 0.0:
            return _Deltas(np.zeros((views.a.shape[1], 2)), np.zeros((views.a.shape[1], 2)))
        pairs = ((views.a, views.b), (views.b, views.a))
        down, up = 1.0 - slack, 1.0 + slack
        lower = [views.lower @ np.maximum(keep * down * p - lose * up * q, 0.0) for p, q in pairs]
        upper = [views.upper @ np.maximum(keep * up * p - lose * down * q, 0.0) for p, q in pairs]
        lost = self.submissions.lost + 8.0 * math.exp(self.log_tail)
        return _Deltas(np.stack(lower, axis=1) * down, np.minimum(np.stack(upper, axis=1) * up + lost, 1.0))

    def at(self, ones: Sequence[int], epsilon: float) -> _Deltas:
        """Bounds of δ(ε) for these data sets."""
        return self.delta(self.views(ones), epsilon)

    def epsilon(self, ones: int, delta: float, start: Bracket) -> Bracket:
        """ε(δ) of one data set, both directions: never below `start`."""
        views = self.views([ones])

        def smallest(side: str, low: float) -> tuple[float, float]:
            high = min(local_epsilon(self.exchange.flip_prob), LARGEST_EPSILON)

            def exceeds(epsilon: float) -> bool:
                return float(getattr(self.delta(views, epsilon), side).max()) > delta

            if not exceeds(low):
                return low, low
            if exceeds(high):
                return math.inf, math.inf
            while high - low > 1e-9 * high:
                middle = 0.5 * (low + high)
                low, high = (middle, high) if exceeds(middle) else (low, middle)
            return low, high

        return Bracket(smallest("lower", start.lower)[0], smallest("upper", start.upper)[1])


@lru_cache(maxsize=4096)
def _epsilon(exchange: LabelExchange, delta: float) -> tuple[Bracket, str]:
    local = local_epsilon(exchange.flip_prob)
    if local == 0.0:
        return Bracket(0.0, 0.0), "exact: the noisy label is a fair coin"
    scan = _Scan(exchange, math.log(delta))
    if exchange.cluster_size > EXHAUSTIVE:
        return Bracket(_large_lower(scan, delta), _blanket_epsilon(scan, delta)), "bound for shuffled labels"
    best = scan.epsilon(0, delta, Bracket(0.0, 0.0))
    for ones in exchange._datasets():
        if math.isinf(best.upper):
            break
        values = scan.at(ones, best.upper).upper.max(axis=1)
        for index in np.argsort(-values):
            if values[index] <= delta:
                break
            best = scan.epsilon(ones[index], delta, best)
    return Bracket(min(best.lower, local), min(best.upper, local)), "exact, over all data sets"


def _large_lower(scan: _Scan, delta: float) -> float:
    """ε attained by the all-zero data set, where the sum is affordable; else 0."""
    if scan.exchange.cluster_size > 100_000:
        return 0.0
    return scan.epsilon(0, delta, Bracket(0.0, 0.0)).lower


def _blanket_epsilon(scan: _Scan, delta: float) -> float:
    low, high = 0.0, min(local_epsilon(scan.exchange.flip_prob), LARGEST_EPSILON)
    e = scan.exchange
    if blanket_delta(e.cluster_size, e.flip_prob, high, scan.log_tail) > delta:
        return local_epsilon(e.flip_prob)
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        exceeds = blanket_delta(e.cluster_size, e.flip_prob, middle, scan.log_tail) > delta
        low, high = (middle, high) if exceeds else (low, middle)
    return high


def kary_bound(flip_prob: float, num_classes: int, delta: float) -> PrivacyBound:
    """K > 2 classes: the local ε₀, which holds for every observer."""
    epsilon = local_epsilon(flip_prob, num_classes)
    return PrivacyBound(0.0, epsilon, delta, "learner", "label", "local randomiser alone", LEARNER_CONDITIONS)
