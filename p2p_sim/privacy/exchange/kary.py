"""The learner's accountant for the exchange with K-ary randomised response.

Let α be the flip probability. With probability γ = αK/(K-1) a noisy label is uniform over all K classes; otherwise it
is the true label. The target is the user whose label is protected. Uniform labels hide the target's label, whatever the
others' labels are (`blanket`). In a cluster of n users, δ(ε) is at most

    (1/n) E [ Y_1 + ... + Y_V + (n - V)(1 - e^ε) ]_+

Here V is the number of users whose label is submitted, and [x]_+ = max(0, x). Let α' = α/(K-1), keep = 1-α-e^ε α' and
lose = e^ε(1-α) - α'. Y_1, Y_2, ... are independent. Each is keep/α' with probability α', -lose/α' with probability α',
1 - e^ε with probability (K-2)α', and 0 otherwise.

The lower bound of δ(ε) comes from one data set and from statistics that the learner can compute (`kary_lower_end`).
"""

import math
from dataclasses import dataclass

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
"""VISITED: number of blocks into which the values of V are cut. COARSE: smaller numbers of blocks, of V and of uniform
labels, for a first search. LIKELIEST: number of blocks of V in a quick test whether δ is too large."""
ENUMERATED = 2_000_000
"""Limit for the exact sum of δ. Two numbers must not exceed it: (n+1)^(K-1), and n times the number of pairs of class
counts (noisy, submitted)."""
LARGEST_CLUSTER = 1_000_000


@dataclass(frozen=True)
class KaryExchange(Accountant):
    """Privacy of one user's label among K classes against the learner in one cluster.

    Args:
        cluster_size: n, the number of users, 2 to 1,000,000.
        flip_prob: α, 0 or in [1e-300, (K-1)/K]. A flipped label is one of the K-1 other classes, each equally likely.
        sampling_rate: θ in [1e-300, 1], the probability that a user submits.
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
        check_range("flip_prob", self.flip_prob, LEAST, (self.num_classes - 1) / self.num_classes, or_zero=True)

    @property
    def enumerable(self) -> bool:
        """Whether the cluster is small enough to compute δ(ε) exactly, by enumerating all class counts."""
        n, k = self.cluster_size, self.num_classes
        return math.comb(n + k - 1, k - 1) ** 2 * n <= ENUMERATED and (n + 1) ** (k - 1) <= ENUMERATED

    @property
    def pure_epsilon(self) -> float:
        """ε₀, the ε of the noisy label alone at δ = 0, which holds whatever the learner sees."""
        return local_epsilon(self.flip_prob, self.num_classes)

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of the learner's δ(ε), the largest over all data sets and both directions of the divergence.

        In small clusters δ(ε) is summed exactly. In larger clusters the upper bound is proved, and the lower
        bound comes from one data set. There the lower bound is 0 for two classes, and for α = 0.
        """
        check_epsilon(epsilon)
        if epsilon >= self.pure_epsilon:
            return Bracket(0.0, 0.0)
        capped = self._capped(epsilon)
        if self.flip_prob == 0.0:  # here δ is the probability that anybody submits the target's label
            return outward(self._exposure * (1.0 - 2.0**-46) if self.enumerable else 0.0, capped)
        if self.enumerable:
            summed = delta_by_summation(
                self.cluster_size, self.num_classes, self.flip_prob, self.sampling_rate, epsilon
            )
            return outward(summed.lower, min(summed.upper, capped))
        return outward(min(self._attained(epsilon), capped), min(self._blanket(epsilon), capped))

    def certified_delta(self, epsilon: float) -> float:
        """The upper bound of `delta(epsilon)` alone; the lower bound would take longer."""
        check_epsilon(epsilon)
        if self.flip_prob == 0.0 or self.enumerable or epsilon >= self.pure_epsilon:
            return self.delta(epsilon).upper
        return outward(0.0, min(self._blanket(epsilon), self._capped(epsilon))).upper

    def _capped(self, epsilon: float) -> float:
        """Upper bound of δ(ε): Pr[the target's label is submitted] times the δ(ε) of the noisy label alone."""
        return self._exposure * local_delta(self.flip_prob, epsilon, self.num_classes).upper

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of the smallest ε at which the learner's (ε, δ) holds for all data sets; at most ε₀."""
        check_delta(delta)
        # the upper bound is ε₀ if no smaller ε is certified; ε is 0 if δ(0) is small enough; otherwise search
        bracket, basis = Bracket(0.0, self.pure_epsilon), self.basis
        if self.certified_delta(min(self.pure_epsilon, LARGEST_EPSILON)) > delta:
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
        """Whether (ε, δ) is certified for all data sets. False may mean that (ε, δ) holds but could not be certified.

        Two quick tests come first. A coarse upper bound of δ(ε) may already be small enough. Or a part of the sum for
        the sharp upper bound may already be too large.
        """
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
        """In words, how the bounds are computed, for reports."""
        return "exact, over all data sets" if self.enumerable else "blanket of uniform labels, every data set"

    @property
    def _exposure(self) -> float:
        """Probability that at least one submission carries the target's noisy label, rounded up."""
        return some(self.sampling_rate / self.cluster_size, self.cluster_size) * (1.0 + 2.0**-47)

    def shuffled_delta(self, epsilon: float) -> float:
        """Upper bound of δ(ε) for any number of submissions: the bound for all n noisy labels in random order."""
        return self._walk(epsilon).delta()

    def _blanket(self, epsilon: float, values: int = VISITED, blocks: tuple[int, int] = BLOCKS) -> float:
        """Upper bound of δ(ε) from the others' uniform noisy labels, which hide the target's label.

        The bound is a sum over V and over the number of uniform labels among the V submitted labels. For speed, both
        numbers are cut into blocks of neighbouring values. A block counts as its worst value. More blocks give a
        sharper bound and take longer.

        Args:
            values: largest number of blocks of V; one more may be added. blocks: smallest and largest number of blocks
            of uniform labels, for each V.
        """
        return self._walk(epsilon).delta(self._visited(values), blocks)

    def _least(self, epsilon: float) -> float:
        """A quick lower bound of the result of `_blanket`, which is itself an upper bound of δ(ε).

        V is the number of users whose label is submitted. `_blanket` adds up terms that are at least 0, for blocks of
        neighbouring values of V. Here only the three likeliest blocks are added up. The result is no bound of δ(ε).
        """
        likeliest = sorted(self._visited(VISITED), key=lambda block: -block[1])[:LIKELIEST]
        return self._walk(epsilon).delta(tuple(sorted(likeliest)))

    def _visited(self, values: int) -> Blocks:
        """The law of V, the number of users whose label is submitted: at most `values` + 1 pairs (V, probability).

        A pair stands for a block of neighbouring values: the block's largest V, and the block's probability, rounded
        up. This is the safe side, as the bound of δ(ε) grows with V.
        """
        return visited(self.cluster_size, self.sampling_rate, values, self.cluster_size)

    def _walk(self, epsilon: float) -> Blanket:
        """The blanket of this exchange; its method `delta` computes an upper bound of δ(ε).

        Let P and Q be the laws of what the learner sees under the target's two labels. `share` is the probability that
        a noisy label is uniform, rounded down. `keep`, `lose` and `rest` say what a uniform label adds to P - e^ε Q.
        """
        k, alpha = self.num_classes, self.flip_prob
        keep, lose, relative_error = hockey_stick_coefficients(alpha, epsilon, k)
        growth = math.expm1(min(epsilon, LARGEST_EPSILON))
        return Blanket(
            self.cluster_size,
            share=min(share_of(alpha, k, k - 1, up=False), 1.0),
            kinds=k,
            keep=keep * (1.0 + relative_error),
            lose=lose,
            rest=growth * (alpha / (k - 1)),
            growth=growth * (1.0 - 2.0**-50),
        )

    def _attained(self, epsilon: float) -> float:
        """A lower bound of δ(ε), from one data set and a learner who looks at one number only.

        Let x and x' be the two labels of the target that are compared. All other users hold a third class. The learner
        looks at the number of submissions that are x, at the number that are x', or at the difference of both. The
        largest bound is taken. The bound is 0 for two classes, or if the computation would take too long.
        """
        laws = statistics(self.cluster_size, self.num_classes, self.flip_prob, self.sampling_rate)
        return max((law.delta(epsilon) for law in laws), default=0.0)


class ShuffledLabels(KaryExchange):
    """Privacy of a label among K classes for any number of submissions: the bound for all noisy labels in random order.

    The lower bound is 0.
    """

    basis = "bound for shuffled labels, every data set"
    enumerable = False  # the exact sum is for at most one submission of each user
    _exposure = 1.0  # anybody may submit the target's label, with unknown probability

    def _blanket(self, epsilon: float, values: int = VISITED, blocks: tuple[int, int] = BLOCKS) -> float:
        """Upper bound of δ(ε) from all n noisy labels in random order; they show at least as much as the submissions.

        Args:
            values, blocks: not used here.
        """
        return self.shuffled_delta(epsilon)

    def _least(self, epsilon: float) -> float:
        """The value 0. The base class uses this quick bound to save time; here the upper bound itself is quick."""
        return 0.0

    def _attained(self, epsilon: float) -> float:
        return 0.0


@dataclass(frozen=True)
class FetchedLabels(KaryExchange):
    """Privacy of a label among K classes if there are exactly t submissions. Each carries the noisy label of a
    uniformly random user.

    The lower bound of δ(ε) is 0.
    submissions: t, at least 0; may be more than n.
    """

    submissions: int = 0
    enumerable = False  # the exact sum is for t ~ Bin(n, θ)

    @property
    def _exposure(self) -> float:
        return some(1.0 / self.cluster_size, self.submissions) * (1.0 + 2.0**-47)

    def _visited(self, values: int) -> Blocks:
        return visited(self.cluster_size, 1.0, values, self.cluster_size, self.submissions)

    def _attained(self, epsilon: float) -> float:
        return 0.0


@disk_cached
def _epsilon(exchange: KaryExchange, delta: float) -> Bracket:
    """Bounds of the learner's ε at `delta`, by bisection between 0 and an upper end.

    The upper end is the smaller of 700 and ε₀, the ε of the noisy label alone. `delta` must be below δ(0), and at least
    δ at the upper end.
    """
    high = min(exchange.pure_epsilon, LARGEST_EPSILON)
    if exchange.enumerable:
        low, high = bisect(lambda epsilon: exchange.delta(epsilon).upper > delta, 0.0, high, 1e-6)
        lower = low * (1.0 - 1e-6)
        return Bracket(lower if exchange.delta(lower).lower > delta else 0.0, high)
    upper = bisect_twice(
        lambda epsilon: exchange._blanket(epsilon, *COARSE) > delta, exchange.certified_delta, delta, high, 1e-5
    ).below
    lower = bisect(lambda epsilon: exchange._attained(epsilon) > delta, 0.0, upper, 1e-5).above
    return Bracket(lower, upper)
