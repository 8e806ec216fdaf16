"""The exchange with K-ary randomised response, for the learner.

A noisy label is uniform over all K classes with probability γ = αK/(K-1) (the blanket) and the true label otherwise.
Tell the learner which of the others' labels are true ones, and give the learner all noisy labels of the cluster as a
shuffled multiset: the exchange is a post-processing of that. There remain b ~ Bin(n-1, γ) uniform labels and the
target's noisy label, for every data set. With N_j labels of class j among these b+1, the likelihood of the view if the
target's noisy label is j is K N_j/(b+1) times that of b+1 uniform labels, so the hockey-stick divergence between true
labels 0 and 1 is

    E [ K/(b+1) · (keep·N_0 - lose·N_1 - rest·(b+1-N_0-N_1)) ]_+,      N uniform multinomial of b+1,

with keep = 1-α-e^ε α/(K-1), lose = e^ε(1-α) - α/(K-1), rest = (e^ε-1)α/(K-1). For K = 2 this is the blanket bound of
Balle et al. (2019).
"""

import math
from dataclasses import dataclass

from p2p_sim.analysis.privacy.exchange.blanket import Blanket
from p2p_sim.analysis.privacy.exchange.kary_exact import bracket
from p2p_sim.analysis.privacy.statement.accountant import Accountant
from p2p_sim.analysis.privacy.statement.bound import Bracket, PrivacyBound
from p2p_sim.analysis.privacy.statement.checks import (
    LARGEST_EPSILON,
    check_cluster_size,
    check_delta,
    check_epsilon,
    check_flip_prob,
    check_sampling_rate,
)
from p2p_sim.analysis.privacy.statement.conditions import LEARNER_CONDITIONS
from p2p_sim.analysis.privacy.statement.domain import ANY_CLASSES
from p2p_sim.analysis.privacy.statement.inversion import bisect
from p2p_sim.analysis.privacy.statement.local import local_delta, local_epsilon, outward, worth
from p2p_sim.analysis.privacy.statement.windows import LEAST, share_of, some

ENUMERATED = 2_000_000
"""Largest table of (noisy counts × released counts) that is enumerated."""
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
        check_cluster_size(self.cluster_size, largest=LARGEST_CLUSTER)
        check_sampling_rate(self.sampling_rate)
        local_epsilon(self.flip_prob, self.num_classes)  # checks K
        check_flip_prob(self.flip_prob, self.num_classes, LEAST)

    @property
    def enumerable(self) -> bool:
        """Whether the exact value can be computed in reasonable time."""
        n, k = self.cluster_size, self.num_classes
        return math.comb(n + k - 1, k - 1) ** 2 * n <= ENUMERATED

    def delta(self, epsilon: float) -> Bracket:
        """δ(ε): exact for small n and K, else 0 and a certified bound that holds for every data set and θ."""
        check_epsilon(epsilon)
        if epsilon >= local_epsilon(self.flip_prob, self.num_classes):
            return Bracket(0.0, 0.0)
        capped = self._exposure * local_delta(self.flip_prob, epsilon, self.num_classes).upper
        if self.flip_prob == 0.0:  # whether anybody submits the target's label, as for two classes
            return outward(self._exposure * (1.0 - 2.0**-46) if self.enumerable else 0.0, capped)
        if self.enumerable:
            found = bracket(self.cluster_size, self.num_classes, self.flip_prob, self.sampling_rate, epsilon)
            return outward(found.lower, min(found.upper, capped))
        return outward(0.0, min(self.shuffled_delta(epsilon), capped))

    def epsilon(self, delta: float) -> PrivacyBound:
        """ε(δ), the smaller of the local ε₀ and what `delta` certifies."""
        check_delta(delta)
        local = local_epsilon(self.flip_prob, self.num_classes)
        low, high = 0.0, min(local, LARGEST_EPSILON)
        high = 0.0 if self.delta(low).upper <= delta else high
        if self.delta(high).upper > delta:
            return PrivacyBound(0.0, local, delta, "learner", "label", "local randomizer alone", self.conditions)
        low, high = bisect(lambda epsilon: self.delta(epsilon).upper > delta, low, high, 1e-6)
        lower = low * (1.0 - 1e-6) if self.enumerable and self.delta(low * (1.0 - 1e-6)).lower > delta else 0.0
        return PrivacyBound(lower, high, delta, "learner", "label", self.basis, self.conditions)

    @property
    def basis(self) -> str:
        """How the bounds are computed."""
        return "exact, over all data sets" if self.enumerable else "bound for shuffled labels, every data set"

    @property
    def _exposure(self) -> float:
        """Probability that somebody submits the target's label, rounded up: all there is if the fetches are known."""
        return some(self.sampling_rate / self.cluster_size, self.cluster_size) * (1.0 + 2.0**-47)

    def shuffled_delta(self, epsilon: float) -> float:
        """Upper bound on δ(ε) by the blanket of uniform labels; it falls with γ, which is rounded down."""
        k, alpha = self.num_classes, self.flip_prob
        keep, lose, doubt = worth(alpha, epsilon, k)
        rest = math.expm1(min(epsilon, LARGEST_EPSILON)) * (alpha / (k - 1))
        share = share_of(alpha, k, k - 1, up=False)
        return Blanket(self.cluster_size, min(share, 1.0), k, keep * (1.0 + doubt), lose, rest).delta()


class ShuffledLabels(KaryExchange):
    """The same for any number of submissions, more than there are users included: the bound for shuffled labels."""

    enumerable = False  # the exact figure is that of at most one submission a user
    _exposure = 1.0  # somebody may well submit the target's label
