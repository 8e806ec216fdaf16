"""Accountant of randomised response with a trusted shuffler, who hides which noisy label of a cluster is whose.

For two classes the learner sees only the number of noisy labels that are 1. Let X be this number among the other users,
of whom m hold label 1. The learner sees X if the target's noisy label is 0, and X + 1 if it is 1. Let P₀ and P₁ be the
laws of what the learner sees under the target's true labels 0 and 1. If the learner sees the number k,

    P₀ - e^ε P₁ = keep·Pr[X = k] - lose·Pr[X = k-1],   keep = 1-2α-α(e^ε-1), lose = 1-2α+(1-α)(e^ε-1).

P₁ - e^ε P₀ has the same form with the labels swapped. The sum of the positive values over all k is exactly the
hockey-stick divergence. The label exchange draws from these noisy labels with replacement, which is a post-processing.
So the exchange's ε is never larger.

With more than 2,048 users not every m is evaluated. Tell the learner the noisy labels of b others, chosen so that m' of
the remaining others hold label 1. This never lowers δ(ε). So δ(ε) for every m from m' to m' + b is at most the δ(ε) for
m' in a cluster without these b users.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.binomial_windows import SUBNORMAL, UNIT, VALUE_ERROR, Floats, tail_mass
from p2p_sim.privacy.bound import Bracket, PrivacyBound, check_delta, check_epsilon
from p2p_sim.privacy.conditions import LABEL_FREE_CLUSTERS, Condition
from p2p_sim.privacy.exchange import EXHAUSTIVE, SUMMED_IN_FULL, OtherUsers, ShuffledLabels
from p2p_sim.privacy.randomized_response import hockey_stick_coefficients, invert, local_delta, local_epsilon, outward
from p2p_sim.privacy.where_bounds_hold import ANYWHERE

SHUFFLER_CONDITIONS = (
    Condition(
        "trusted-shuffler", "a trusted shuffler permutes the noisy labels within a cluster and shows nothing else"
    ),
    Condition("one-draw", "every user draws one noisy label"),
    LABEL_FREE_CLUSTERS,
)
_LOG_TAIL = -60.0
"""Logarithm of the largest probability that is left out at one end of a law when the law of X is computed. In clusters
of more than 64 users, the bounds of δ allow for eight times this probability.
"""


@dataclass(frozen=True)
class ShuffledResponse(Accountant):
    """Privacy of one user's label against the learner, in one cluster whose noisy labels are shuffled.

    Args:
        cluster_size: n, 2 to 1,000,000.
        flip_prob: α, the probability of a label flip, 0 or in [1e-300, (K-1)/K]; the K-1 other classes are equally
        likely.
        num_classes: K, at least 2.
    """

    requires = ANYWHERE
    conditions = SHUFFLER_CONDITIONS

    cluster_size: int
    flip_prob: float
    num_classes: int = 2

    def __post_init__(self) -> None:
        self._labels()  # checks n, α and K

    @property
    def pure_epsilon(self) -> float:
        """ε₀, the pure ε of one noisy label."""
        return local_epsilon(self.flip_prob, self.num_classes)

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε), ε at least 0, over all data sets. For K = 2 up to 2,048 users they are exact to rounding."""
        check_epsilon(epsilon)
        if self.num_classes > 2:
            return self._labels().delta(epsilon)
        alpha = self.flip_prob
        if epsilon >= local_epsilon(alpha):
            return Bracket(0.0, 0.0)
        if alpha == 0.0:
            return Bracket(1.0, 1.0)
        n, revealed = self.cluster_size, self.cluster_size // 100
        if n <= EXHAUSTIVE:  # m up to (n-1)/2 is enough, since swapping the labels mirrors larger m
            return _divergence(_laws(n, alpha, range((n - 1) // 2 + 1)), alpha, epsilon, users=n)
        # lower bound: m = 0; upper bound: values m' at steps of b + 1, which together serve every m up to (n-1)/2
        lower = _divergence(_laws(n, alpha, range(1)), alpha, epsilon, users=n).lower
        rest = n - revealed
        served = range(0, min((n - 1) // 2, rest - 1) + 1, revealed + 1)
        return Bracket(lower, _divergence(_laws(rest, alpha, served), alpha, epsilon, users=rest).upper)

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of ε at δ in (0, 1), over all data sets."""
        check_delta(delta)
        if self.num_classes > 2:
            return replace(self._labels().epsilon(delta), conditions=SHUFFLER_CONDITIONS)
        basis = "exact, over all data sets" if self.cluster_size <= EXHAUSTIVE else "certified over all data sets"
        return invert(self.delta, delta, self.flip_prob, observer="learner", basis=basis, conditions=self.conditions)

    def _labels(self) -> ShuffledLabels:
        """Another accountant of all n shuffled noisy labels, used for more than two classes."""
        return ShuffledLabels(self.cluster_size, self.flip_prob, 1.0, self.num_classes)


@lru_cache(maxsize=8)
def _laws(n: int, flip_prob: float, others_with_one: range) -> Floats:
    """The probabilities Pr[X = k], where X is how many of the other n-1 users of a cluster have the noisy label 1.

    The table (M, N) has a row for each of M numbers m of others whose true label is 1. If n is above 64, a row leaves
    out numbers k far from the mean, with a total probability of at most 6 e^-60. The first column of a row is the
    smallest k that is kept for its m, not always k = 0. Short rows are padded with 0.

    Args:
        n: users of the cluster. flip_prob: α. others_with_one: the M values of m.
    """
    tail = -math.inf if n <= SUMMED_IN_FULL else _LOG_TAIL
    laws = [OtherUsers(n, n - 1 - m, m, flip_prob).noisy_ones(tail).probabilities for m in others_with_one]
    table = np.zeros((len(laws), max(len(law) for law in laws)))
    for row, law in zip(table, laws, strict=True):
        row[: len(law)] = law
    return table


def _divergence(laws: Floats, flip_prob: float, epsilon: float, users: int) -> Bracket:
    """Bounds of the largest hockey-stick divergence over the given data sets, in both directions, with all rounding
    errors.

    The law of X stands for a data set. X is how many of the other users have the noisy label 1. If X has N values, its
    law is a convolution of two binomial laws of at most N + 1 values each. The relative rounding error is at most
    `VALUE_ERROR` (16u, with u = 2^-53) times the number of values of both binomial laws. The sum over k adds N·u. Each
    law leaves out a probability of at most 6 e^-60. The bounds allow for 8 e^-60, since the laws are also divided by
    the probability that is kept.

    Args:
        laws: (M, N), Pr[X = k] for each of M data sets. flip_prob: α. epsilon: ε, at least 0. users: of the cluster;
        laws of up to 64 users leave out nothing.
    """
    keep, lose, relative_error = hockey_stick_coefficients(flip_prob, epsilon)
    if keep == 0.0:
        return Bracket(0.0, 0.0)
    # the laws of X and X + 1, and the relative errors of their values and sums
    same, more = np.pad(laws, ((0, 0), (0, 1))), np.pad(laws, ((0, 0), (1, 0)))
    values = 2 * laws.shape[1] + 2
    error, sums = VALUE_ERROR * (values + 1) + 2e-15, (laws.shape[1] + 4) * UNIT
    less, most = keep * (1.0 - error - relative_error), keep * (1.0 + error + relative_error)
    missed = 8.0 * tail_mass(_LOG_TAIL) if users > SUMMED_IN_FULL else 0.0
    # Σ [keep Pr[X = k] - lose Pr[X = k-1]]₊ in either direction, with every error on its safe side
    tiny, lower, upper = (keep + lose) * 2.0 * values * values * SUBNORMAL, 0.0, 0.0
    for own, changed in ((same, more), (more, same)):
        sure = np.maximum(less * own - lose * (1.0 + error) * changed, 0.0).sum(axis=1)
        possible = np.maximum(most * own - lose * (1.0 - error) * changed, 0.0).sum(axis=1)
        lower = max(lower, float(sure.max()) * (1.0 - sums) - (keep + lose) * missed - tiny)
        upper = max(upper, float(possible.max()) * (1.0 + sums) + keep * missed + tiny)
    return outward(lower, min(upper, local_delta(flip_prob, epsilon).upper))
