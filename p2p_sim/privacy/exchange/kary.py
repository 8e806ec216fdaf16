"""The exchange with K-ary randomised response, for the learner.

A noisy label is uniform over all K classes with probability γ = αK/(K-1) and the true label otherwise, so it is a
blanket (`blanket`) whatever the others' labels are: δ(ε) is at most

    (1/n) E [ Y_1 + ... + Y_V + (n - V)(1 - e^ε) ]_+

with V the users whose label is submitted, and Y = keep/α' or -lose/α' with probability α' = α/(K-1) each, 1 - e^ε with
probability (K-2)α', else 0, where keep = 1-α-e^ε α' and lose = e^ε(1-α) - α'.

The lower end is that of one data set and of statistics that the learner can compute (`kary_lower_end`).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.binomial_windows import LEAST, share_of, some
from p2p_sim.privacy.bound import LARGEST_EPSILON, Bracket, PrivacyBound, check_delta, check_epsilon, check_range
from p2p_sim.privacy.conditions import LEARNER_CONDITIONS
from p2p_sim.privacy.definition import delta_by_summation
from p2p_sim.privacy.disk_cache import disk_cached
from p2p_sim.privacy.exchange.blanket import BLOCKS, Blanket, Blocks, visited
from p2p_sim.privacy.exchange.kary_lower_end import statistics
from p2p_sim.privacy.randomized_response import (
    bisect,
    bisect_twice,
    hockey_stick_coefficients,
    local_delta,
    local_epsilon,
    outward,
)
from p2p_sim.privacy.where_bounds_hold import ANY_CLASSES

VISITED, COARSE, LIKELIEST = 24, (6, (6, 8)), 3
"""Most numbers of visited users that are told apart; these and those of blanket messages for a first search; how many
of the numbers may be enough to say that a target is missed."""
ENUMERATED = 2_000_000
"""Largest table of (noisy counts × released counts), and of noisy counts of each class, that is enumerated."""
LARGEST_CLUSTER = 1_000_000


@dataclass(frozen=True)
class KaryExchange(Accountant):
    """Privacy of one user's label among K classes against the learner in one cluster.

    Args:
        cluster_size: n, at least 2.
        flip_prob: α, 0 or in [1e-300, (K-1)/K], the K-1 other classes equally likely.
        sampling_rate: θ in [1e-300, 1].
        num_classes: K, at least 2.
    """

    requires = ANY_CLASSES
    conditions = LEARNER_CONDITIONS

    cluster_size: int
    flip_prob: float
    sampling_rate: float
    num_classes: int

    def __post_init__(self) -> None:
        check_range("cluster_size", self.cluster_size, 2, LARGEST_CLUSTER, whole=True)
        check_range("sampling_rate", self.sampling_rate, LEAST, 1.0)
        local_epsilon(self.flip_prob, self.num_classes)  # checks K
        largest = (self.num_classes - 1) / self.num_classes
        check_range("flip_prob", self.flip_prob, LEAST, largest, or_zero=True)

    @property
    def enumerable(self) -> bool:
        """Whether the exact value can be computed in reasonable time."""
        n, k = self.cluster_size, self.num_classes
        return math.comb(n + k - 1, k - 1) ** 2 * n <= ENUMERATED and (n + 1) ** (k - 1) <= ENUMERATED

    @property
    def pure_epsilon(self) -> float:
        """ε₀ of the noisy label."""
        return local_epsilon(self.flip_prob, self.num_classes)

    def delta(self, epsilon: float) -> Bracket:
        """δ(ε): exact for small n and K, else attained by a data set, and a certified bound for every data set."""
        check_epsilon(epsilon)
        if epsilon >= local_epsilon(self.flip_prob, self.num_classes):
            return Bracket(0.0, 0.0)
        capped = self._capped(epsilon)
        if self.flip_prob == 0.0:  # whether anybody submits the target's label, as for two classes
            return outward(self._exposure * (1.0 - 2.0**-46) if self.enumerable else 0.0, capped)
        if self.enumerable:
            summed = delta_by_summation(
                self.cluster_size, self.num_classes, self.flip_prob, self.sampling_rate, epsilon
            )
            return outward(summed.lower, min(summed.upper, capped))
        return outward(min(self._attained(epsilon), capped), min(self._blanket(epsilon), capped))

    def certified_delta(self, epsilon: float) -> float:
        """Certified upper bound of δ(ε) for every data set, without computing the lower end."""
        check_epsilon(epsilon)
        if self.flip_prob == 0.0 or self.enumerable or epsilon >= self.pure_epsilon:
            return self.delta(epsilon).upper
        return outward(0.0, min(self._blanket(epsilon), self._capped(epsilon))).upper

    def _capped(self, epsilon: float) -> float:
        """Upper bound on δ(ε) from the noise on the label alone: the probability that somebody submits it, times the
        label's own δ(ε).
        """
        return self._exposure * local_delta(self.flip_prob, epsilon, self.num_classes).upper

    def epsilon(self, delta: float) -> PrivacyBound:
        """ε(δ), the smaller of the local ε₀ and what `delta` certifies."""
        check_delta(delta)
        local = local_epsilon(self.flip_prob, self.num_classes)
        # ε₀ where the noise alone is all that is known, 0 where δ(0) is small enough, else by search
        bracket, basis = Bracket(0.0, local), self.basis
        if self.certified_delta(min(local, LARGEST_EPSILON)) > delta:
            basis = "local randomizer alone"
        else:
            bracket = Bracket(0.0, 0.0) if self.certified_delta(0.0) <= delta else _epsilon(self, delta)
        return PrivacyBound(
            bracket.lower,
            bracket.upper,
            delta,
            observer="learner",
            adjacency="label",
            basis=basis,
            conditions=self.conditions,
        )

    def satisfies(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) is certified for every data set. False may mean that it holds but could not be certified."""
        check_epsilon(epsilon)
        check_delta(delta)
        if self.flip_prob == 0.0 or self.enumerable or epsilon >= self.pure_epsilon:
            return super().satisfies(epsilon, delta)
        capped = self._capped(epsilon)
        if outward(0.0, min(self._blanket(epsilon, *COARSE), capped)).upper <= delta:
            return True
        if capped > delta and self._least(epsilon) > delta:
            return False
        return self.certified_delta(epsilon) <= delta

    @property
    def basis(self) -> str:
        """How the bounds are computed."""
        return "exact, over all data sets" if self.enumerable else "blanket of uniform labels, every data set"

    @property
    def _exposure(self) -> float:
        """Probability that somebody submits the target's label, rounded up."""
        return some(self.sampling_rate / self.cluster_size, self.cluster_size) * (1.0 + 2.0**-47)

    def shuffled_delta(self, epsilon: float) -> float:
        """Upper bound on δ(ε) whatever the number of submissions: that of all noisy labels in random order."""
        return self._walk(epsilon).delta()

    def _blanket(self, epsilon: float, values: int = VISITED, blocks: tuple[int, int] = BLOCKS) -> float:
        """Upper bound on δ(ε) by the privacy blanket: labels that are uniform, whoever sends them, hide the target's.

        Args:
            values, blocks: how many numbers of visited users, and of blanket messages, are told apart.
        """
        return self._walk(epsilon).delta(self._visited(values), blocks)

    def _least(self, epsilon: float) -> float:
        """A lower bound of what `_blanket` gives, quickly: its terms for the likeliest numbers of visited users, none
        of which is negative.
        """
        likeliest = sorted(self._visited(VISITED), key=lambda block: -block[1])[:LIKELIEST]
        return self._walk(epsilon).delta(tuple(sorted(likeliest)))

    def _visited(self, values: int) -> Blocks:
        """The law of how many users' labels are submitted, in `values` blocks at most about the mean."""
        return visited(self.cluster_size, self.sampling_rate, values, self.cluster_size)

    def _walk(self, epsilon: float) -> Blanket:
        """The privacy blanket of uniform labels at ε: its bound falls with γ, which is rounded down."""
        k, alpha = self.num_classes, self.flip_prob
        keep, lose, relative_error = hockey_stick_coefficients(alpha, epsilon, k)
        growth = math.expm1(min(epsilon, LARGEST_EPSILON))
        share = min(share_of(alpha, k, k - 1, up=False), 1.0)
        rest = growth * (alpha / (k - 1))
        return Blanket(
            self.cluster_size,
            share,
            k,
            keep=keep * (1.0 + relative_error),
            lose=lose,
            rest=rest,
            growth=growth * (1.0 - 2.0**-50),
        )

    def _attained(self, epsilon: float) -> float:
        """A lower bound of δ(ε): the divergence of some statistics of the learner's view at one data set."""
        laws = _statistics(self.cluster_size, self.num_classes, self.flip_prob, self.sampling_rate)
        return max((law.delta(epsilon) for law in laws), default=0.0)


class ShuffledLabels(KaryExchange):
    """Privacy of a label among K classes whatever the number of submissions: the learner gets all noisy labels in
    random order.
    """

    basis = "bound for shuffled labels, every data set"
    enumerable = False  # the exact figure is that of at most one submission a user
    _exposure = 1.0  # somebody may well submit the target's label

    def _blanket(self, epsilon: float, values: int = VISITED, blocks: tuple[int, int] = BLOCKS) -> float:
        return self.shuffled_delta(epsilon)

    def _least(self, epsilon: float) -> float:
        return 0.0

    def _attained(self, epsilon: float) -> float:
        return 0.0


@dataclass(frozen=True)
class FetchedLabels(KaryExchange):
    """Privacy of a label among K classes for a known number of submissions, each fetched from one of n users.

    An upper bound alone.

    submissions: t, at least 0; may be more than n.
    """

    submissions: int = 0
    enumerable = False  # the exact figure is that of t ~ Bin(n, θ)

    @property
    def _exposure(self) -> float:
        return some(1.0 / self.cluster_size, self.submissions) * (1.0 + 2.0**-47)

    def _visited(self, values: int) -> Blocks:
        return visited(self.cluster_size, 1.0, values, self.cluster_size, self.submissions)

    def _attained(self, epsilon: float) -> float:
        return 0.0


_statistics = lru_cache(maxsize=64)(statistics)


@disk_cached
def _epsilon(exchange: KaryExchange, delta: float) -> Bracket:
    """ε(δ) where δ(0) is above δ and δ of the largest ε is not."""
    high = min(local_epsilon(exchange.flip_prob, exchange.num_classes), LARGEST_EPSILON)
    if exchange.enumerable:
        low, high = bisect(lambda epsilon: exchange.delta(epsilon).upper > delta, 0.0, high, 1e-6)
        lower = low * (1.0 - 1e-6)
        return Bracket(lower if exchange.delta(lower).lower > delta else 0.0, high)
    upper = bisect_twice(
        lambda epsilon: exchange._blanket(epsilon, *COARSE) > delta, exchange.certified_delta, delta, high, 1e-5
    ).below
    lower = bisect(lambda epsilon: exchange._attained(epsilon) > delta, 0.0, upper, 1e-5).above
    return Bracket(lower, upper)
