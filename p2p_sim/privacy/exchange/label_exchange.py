"""The exact accountant of the label exchange for the learner (binary labels, label adjacency).

>>> from p2p_sim.privacy import LabelExchange
>>> bound = LabelExchange(cluster_size=40, flip_prob=0.1, sampling_rate=0.5).epsilon(delta=1e-5)
>>> bound.epsilon_lower <= bound.epsilon_upper < 2.2
True
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.binomial_windows import LEAST, SubmissionCounts, binomial_pmf
from p2p_sim.privacy.bound import LARGEST_CLUSTER, Bracket, PrivacyBound, check_delta, check_epsilon, check_range
from p2p_sim.privacy.composition_lower_end import AttainedPair
from p2p_sim.privacy.conditions import LEARNER_CONDITIONS
from p2p_sim.privacy.exchange.direct_sum import DirectViews, likelihoods
from p2p_sim.privacy.exchange.majority_cluster import MajorityCluster
from p2p_sim.privacy.exchange.one_cluster import ClusterExchange
from p2p_sim.privacy.randomized_response import local_epsilon
from p2p_sim.privacy.where_bounds_hold import LEARNER

LARGEST_ROUNDS = 1000
LARGEST_TABLE = 512
"""Largest number of submissions for which `privacy_loss_pmfs` tabulates what the learner may see."""
LARGEST_PAIR = 2048
"""Largest number of submissions for which `attained_pair` computes its two laws."""
_PAIR_TAIL = -50.0
"""ln of the probability that the laws of `attained_pair` may leave out on each side."""


@dataclass(frozen=True)
class OneCluster(Accountant):
    """Base of the learner's accountants for one cluster: ε and δ hold for all data sets.

    cluster_size: n. flip_prob: α. sampling_rate: θ.
    """

    conditions = LEARNER_CONDITIONS

    cluster_size: int
    flip_prob: float
    sampling_rate: float

    @property
    @abstractmethod
    def setting(self) -> ClusterExchange | MajorityCluster:
        """The object that computes the bounds of δ and ε, for all rounds of the exchange together."""

    def delta(self, epsilon: float) -> Bracket:
        """Lower and upper bound of δ(ε), the largest hockey-stick divergence over all neighbouring data sets."""
        return self.profile([epsilon])[0]

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of the smallest ε at which (ε, δ) holds for all pairs of neighbouring data sets; δ in (0, 1)."""
        check_delta(delta)
        bracket = self.setting.epsilon(delta)
        return PrivacyBound(
            bracket.lower,
            bracket.upper,
            delta,
            observer="learner",
            adjacency="label",
            basis=self.basis,
            conditions=self.conditions,
        )

    def profile(self, epsilons: Sequence[float]) -> list[Bracket]:
        """Lower and upper bound of the learner's δ(ε) over all data sets, for each ε. This is faster than a call for
        each ε.
        """
        for epsilon in epsilons:
            check_epsilon(epsilon)
        return self.setting.profile(epsilons)

    def satisfies(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) is certified; False may mean that (ε, δ) holds but could not be certified."""
        check_epsilon(epsilon)
        check_delta(delta)
        return self.setting.satisfies(epsilon, delta)

    @property
    def pure_epsilon(self) -> float:
        """ε₀, the ε of the noisy label alone at δ = 0, which holds whatever the learner sees."""
        return local_epsilon(self.flip_prob)


class ViewLaws(NamedTuple):
    """Two laws of what the learner sees in one data set: for the target's label 0, and for her label 1.

    A law is a dict {(t, k): probability} of t submissions with k ones. The target is the user whose label is protected.
    """

    label_zero: dict[tuple[int, int], float]
    label_one: dict[tuple[int, int], float]


@dataclass(frozen=True)
class LabelExchange(OneCluster):
    """Privacy of one user's label against the learner in one cluster.

    Args:
        cluster_size: n, users in the cluster, 2 to 10,000,000.
        flip_prob: α, 0 or in [1e-300, 1/2].
        sampling_rate: θ in [1e-300, 1].
        rounds: R, at least 1: how many exchanges take place, with the same noisy labels and fresh peers. The R rounds
            together are one exchange with t ~ Bin(Rn, θ) submissions. Never compose rounds as independent mechanisms:
            their noise is not fresh.
    """

    requires = LEARNER

    rounds: int = 1

    def __post_init__(self) -> None:
        check_range("cluster_size", self.cluster_size, 2, LARGEST_CLUSTER, whole=True)
        check_range("flip_prob", self.flip_prob, LEAST, 0.5, or_zero=True)
        check_range("sampling_rate", self.sampling_rate, LEAST, 1.0)
        check_range("rounds", self.rounds, 1, LARGEST_ROUNDS, whole=True)

    @property
    def setting(self) -> ClusterExchange:
        """The object that computes the bounds of δ and ε. The R rounds are one exchange with Bin(Rn, θ) submissions."""
        n = self.cluster_size
        return ClusterExchange(n, self.flip_prob, self.rounds * n, self.sampling_rate)

    @property
    def basis(self) -> str:
        """In words, how the bounds are computed, for reports."""
        return "exact, over all data sets" if self.setting.searched_in_full else "certified over all data sets"

    def privacy_loss_pmfs(self, ones: int) -> ViewLaws:
        """The two laws of what the learner sees in one data set, for the target's label 0 and for her label 1.

        A law is a dict {(t, k): probability}, for t submissions with k ones. The two laws determine δ(ε) of this data
        set. From the logarithms of the probabilities, the library dp-accounting can make a privacy loss distribution.
        Then state both directions, as δ may differ between the directions. The library's default `symmetric=True` looks
        at one direction only.

        Args:
            ones: m, how many of the other n-1 users hold label 1.

        Raises:
            ValueError: m is outside 0..n-1, or there may be more than 512 submissions.
        """
        n, alpha, trials = self.cluster_size, self.flip_prob, self.rounds * self.cluster_size
        if not 0 <= ones <= n - 1:
            raise ValueError(f"ones = {ones}: must lie in 0..{n - 1}, the other users")
        if trials > LARGEST_TABLE:
            raise ValueError(f"cluster_size = {n}: the view is tabulated up to {LARGEST_TABLE} submissions")
        mass = binomial_pmf(0, trials, trials, self.sampling_rate)
        laws = ViewLaws({}, {})
        for t, (a, b) in enumerate(likelihoods([self.setting.world(ones)], range(trials + 1))):
            for k in range(t + 1):
                laws.label_zero[t, k] = float(mass[t] * ((1 - alpha) * a[k, 0] + alpha * b[k, 0]))
                laws.label_one[t, k] = float(mass[t] * (alpha * a[k, 0] + (1 - alpha) * b[k, 0]))
        return laws

    def attained_pair(self) -> AttainedPair | None:
        """Two laws of what the learner sees if all other users hold label 0: for the target's label 0, and for her
        label 1.

        From such pairs, lower bounds of ε are computed for several releases together. The result has two arrays of
        probabilities of the same outcomes, and a bound of their relative error. None: there may be more than 2048
        submissions, or α = 0.

        An outcome is (t, k): t submissions with k ones. Neighbouring values of t form a block. The learner is assumed
        to see only as many submissions as the block's smallest t. This can only lower the bound.
        """
        trials = self.rounds * self.cluster_size
        if trials > LARGEST_PAIR or self.flip_prob == 0.0:
            return None
        alpha, world = self.flip_prob, self.setting.world(0)
        submissions = SubmissionCounts.of(
            trials, self.sampling_rate, self.cluster_size, log_tail=_PAIR_TAIL, log_delta=_PAIR_TAIL
        )
        # probabilities of (t, k) for both values of the target's noisy bit; the outcome t = 0 has no row in `views`
        views = DirectViews.of([world], submissions)
        a, b = views.a[:, 0] * views.lower, views.b[:, 0] * views.lower
        nothing = submissions.lower[np.array(submissions.counts) == 0]
        # the target's noisy bit is her label with probability 1 - α
        label_zero = np.concatenate([nothing, (1.0 - alpha) * a + alpha * b])
        label_one = np.concatenate([nothing, alpha * a + (1.0 - alpha) * b])
        return AttainedPair(label_zero, label_one, views.slack + views.missed + views.lost + 1e-14)
