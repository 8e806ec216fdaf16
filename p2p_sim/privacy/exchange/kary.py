"""The learner's accountant for the exchange with K-ary randomised response.

A noisy label is uniform over all K classes with probability γ = αK/(K-1) and the true label otherwise. Uniform labels
hide the target's label whatever the others' labels are (`blanket`): δ(ε) is at most

    (1/n) E [ Y_1 + ... + Y_V + (n - V)(1 - e^ε) ]_+

where V is the number of users whose label is submitted, and [x]_+ = max(0, x). Let α' = α/(K-1), keep = 1-α-e^ε α'
and lose = e^ε(1-α) - α'. Each of Y_1, Y_2, ... is keep/α' with probability α', -lose/α' with probability α', 1 - e^ε
with probability (K-2)α', else 0.

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
"""VISITED: number of blocks into which the law of V is cut. COARSE: smaller numbers of blocks, of V and of uniform
labels, for a first search. LIKELIEST: how many of the likeliest blocks of V are summed first, to see whether δ is too
large."""
ENUMERATED = 2_000_000
"""δ is summed exactly if neither n times the number of pairs of class counts (noisy, submitted) nor (n+1)^(K-1) exceeds
this."""
LARGEST_CLUSTER = 1_000_000


@dataclass(frozen=True)
class KaryExchange(Accountant):
    """Privacy of one user's label among K classes against the learner in one cluster.

    Args:
        cluster_size: n, at least 2.
        flip_prob: α, 0 or in [1e-300, (K-1)/K]; a flipped label is any of the K-1 other classes, equally likely.
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
        """Bounds of the learner's δ(ε), the largest over all data sets and directions.

        In small clusters δ(ε) is summed exactly. In larger ones the lower bound is attained by one data set (or is 0,
        as for two classes and for α = 0), and the upper bound is proved.
        """
        check_epsilon(epsilon)
        if epsilon >= self.pure_epsilon:
            return Bracket(0.0, 0.0)
        capped = self._capped(epsilon)
        if self.flip_prob == 0.0:  # δ is the probability that anybody submits the target's label, as for two classes
            return outward(self._exposure * (1.0 - 2.0**-46) if self.enumerable else 0.0, capped)
        if self.enumerable:
            summed = delta_by_summation(
                self.cluster_size, self.num_classes, self.flip_prob, self.sampling_rate, epsilon
            )
            return outward(summed.lower, min(summed.upper, capped))
        return outward(min(self._attained(epsilon), capped), min(self._blanket(epsilon), capped))

    def certified_delta(self, epsilon: float) -> float:
        """The upper bound of `delta(epsilon)`, computed without the lower bound, which takes longer."""
        check_epsilon(epsilon)
        if self.flip_prob == 0.0 or self.enumerable or epsilon >= self.pure_epsilon:
            return self.delta(epsilon).upper
        return outward(0.0, min(self._blanket(epsilon), self._capped(epsilon))).upper

    def _capped(self, epsilon: float) -> float:
        """Upper bound of δ(ε): Pr[the target's label is submitted] times δ(ε) of randomised response alone."""
        return self._exposure * local_delta(self.flip_prob, epsilon, self.num_classes).upper

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of the smallest ε at which the learner's (ε, δ) holds for all data sets; at most ε₀."""
        check_delta(delta)
        # ε₀ if no smaller ε is certified, 0 if δ(0) is small enough, else by search
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
        """Whether (ε, δ) is certified for all data sets; False may mean that it holds but could not be certified.

        To save time, two quick tests come first. A coarser upper bound of δ(ε) may already be small enough. Or a part
        of the sum that gives the accurate upper bound may already be too large; then the whole sum is too large, too.
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
        """How the bounds of this cluster are computed, in words for reports."""
        return "exact, over all data sets" if self.enumerable else "blanket of uniform labels, every data set"

    @property
    def _exposure(self) -> float:
        """Probability that at least one submission carries the target's noisy label, rounded up."""
        return some(self.sampling_rate / self.cluster_size, self.cluster_size) * (1.0 + 2.0**-47)

    def shuffled_delta(self, epsilon: float) -> float:
        """Upper bound of δ(ε) for any number of submissions: a bound of δ(ε) of all n noisy labels, shuffled."""
        return self._walk(epsilon).delta()

    def _blanket(self, epsilon: float, values: int = VISITED, blocks: tuple[int, int] = BLOCKS) -> float:
        """Upper bound of δ(ε) from the others' noisy labels that are uniform over all classes, whatever their true
        labels: such labels hide the target's label.

        The bound is a sum over V, the number of users whose label is submitted, and over the number of those among them
        whose noisy label is uniform. To be faster, both numbers are cut into blocks of neighbouring values, each of
        which counts as its worst value. More blocks give a sharper bound and take longer.

        Args:
            values: largest number of blocks of V, by default 24; one more may be added. blocks: smallest and largest
            number of blocks of the number of uniform labels, for each V; by default 6 and 48.
        """
        return self._walk(epsilon).delta(self._visited(values), blocks)

    def _least(self, epsilon: float) -> float:
        """A quick lower bound of the upper bound of δ(ε) that the method `_blanket` computes, not of δ itself. If this
        lower bound is too large already, the longer sum can be saved.

        That upper bound is a sum over blocks of V, the number of users whose label is submitted. Here only the three
        likeliest blocks are summed.
        """
        likeliest = sorted(self._visited(VISITED), key=lambda block: -block[1])[:LIKELIEST]
        return self._walk(epsilon).delta(tuple(sorted(likeliest)))

    def _visited(self, values: int) -> Blocks:
        """The law of V, the number of users whose label is submitted, as a tuple of at most `values` + 1 pairs (V,
        probability).

        Each pair stands for a block of neighbouring values: it has the largest V of the block and the block's
        probability. The bound of δ(ε) grows with V, so that this is the safe side. Probabilities are rounded up.
        """
        return visited(self.cluster_size, self.sampling_rate, values, self.cluster_size)

    def _walk(self, epsilon: float) -> Blanket:
        """The object whose method `delta` computes an upper bound of δ(ε) for this exchange at this ε.

        Let P and Q be the laws of what the learner sees under two labels of the target. The object holds n, the
        probability with which a noisy label is uniform over all classes, rounded down, and what such a label
        contributes to P - e^ε Q, by its kind: evidence for the first label, for the second one, or for neither.
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
        """A lower bound of δ(ε), from a learner who looks at one number only, and from data sets in which all users
        except the target hold a third class. This class is neither of the two labels of the target that are compared.

        This number is the count of submissions with the target's label, the count of those with the label that hers is
        compared with, or the difference of the two counts; the largest bound is taken. It is 0 for two classes, or if
        no number can be computed in time.
        """
        laws = statistics(self.cluster_size, self.num_classes, self.flip_prob, self.sampling_rate)
        return max((law.delta(epsilon) for law in laws), default=0.0)


class ShuffledLabels(KaryExchange):
    """Privacy of a label among K classes for any number of submissions: the bound for all noisy labels, shuffled.

    The lower bound is 0.
    """

    basis = "bound for shuffled labels, every data set"
    enumerable = False  # the exact sum is for at most one submission per user
    _exposure = 1.0  # somebody may submit the target's label with any probability

    def _blanket(self, epsilon: float, values: int = VISITED, blocks: tuple[int, int] = BLOCKS) -> float:
        """Upper bound of δ(ε) from all n noisy labels in random order, which show at least as much as any number of
        submissions.

        Args:
            values, blocks: not used; they set the accuracy where the base class computes this bound.
        """
        return self.shuffled_delta(epsilon)

    def _least(self, epsilon: float) -> float:
        """The value 0. When the base class tests whether (ε, δ) holds, it calls this method for a quick lower bound of
        its upper bound of δ(ε), to save time. Here the upper bound itself is quick.
        """
        return 0.0

    def _attained(self, epsilon: float) -> float:
        return 0.0


@dataclass(frozen=True)
class FetchedLabels(KaryExchange):
    """Privacy of a label among K classes, if there are exactly t submissions, each with the noisy label of a uniformly
    random user.

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
    """Bounds of the learner's ε at `delta`, by bisection between 0 and an upper end. The upper end is the smaller of
    700 and ε₀, the ε of the noisy label alone.

    `delta` must be below δ(0), else ε is 0 and there is nothing to bisect. It must be at least δ at the upper end.
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
