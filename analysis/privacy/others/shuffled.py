"""Randomised response with a trusted shuffler: the learner sees the noisy labels of a cluster without their owners.

For two classes all there is to know is the number of noisy ones. With X noisy ones among the others, of whom m hold
label 1, it is X if the target's noisy bit is 0 and X + 1 if it is 1; so with her true label changed

    P₀ - e^ε P₁ = keep·Pr[X = k] - lose·Pr[X = k-1],   keep = 1-2α-α(e^ε-1), lose = 1-2α+(1-α)(e^ε-1),

and likewise with the labels swapped. Summed where it is positive, it is the hockey-stick divergence, exactly. The label
exchange draws from these noisy labels with replacement, a post-processing: its ε is never larger.

Above 2,048 users not every m is evaluated: reveal the noisy labels of b others, chosen so that one m' among the rest
serves every m from m' to m' + b.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from analysis.privacy.exchange.kary import ShuffledLabels
from analysis.privacy.exchange.label_exchange import check_delta, check_epsilon
from analysis.privacy.exchange.one_cluster import EXHAUSTIVE, LARGEST_EPSILON, SUMMED_IN_FULL
from analysis.privacy.exchange.unknown_bits import World
from analysis.privacy.exchange.windows import Floats, rounding
from analysis.privacy.statement.accountant import Accountant
from analysis.privacy.statement.bound import Bracket, PrivacyBound
from analysis.privacy.statement.conditions import LABEL_FREE_CLUSTERS, Condition
from analysis.privacy.statement.inversion import invert
from analysis.privacy.statement.local import local_epsilon

SHUFFLER_CONDITIONS = (
    Condition(
        "trusted-shuffler", "a trusted shuffler permutes the noisy labels within a cluster and shows nothing else"
    ),
    Condition("one-draw", "every user draws one noisy label"),
    LABEL_FREE_CLUSTERS,
)
_LOG_TAIL = -60.0


@dataclass(frozen=True)
class ShuffledResponse(Accountant):
    """Privacy of one user's label against the learner, in one cluster whose noisy labels are shuffled.

    Args:
        cluster_size: n, 2 to 1,000,000.
        flip_prob: α in [0, (K-1)/K], the K-1 other classes equally likely.
        num_classes: K, at least 2.
    """

    cluster_size: int
    flip_prob: float
    num_classes: int = 2

    def __post_init__(self) -> None:
        self._labels()  # checks all three

    @property
    def conditions(self) -> tuple[str, ...]:
        """Under which the figures hold."""
        return SHUFFLER_CONDITIONS

    def delta(self, epsilon: float) -> Bracket:
        """δ(ε) over all data sets: exact for K = 2 up to 2,048 users, certified else.

        Args:
            epsilon: ε, at least 0.
        """
        check_epsilon(epsilon)
        if self.num_classes > 2:
            return self._labels().delta(epsilon)
        alpha = self.flip_prob
        if epsilon >= local_epsilon(alpha):
            return Bracket(0.0, 0.0)
        epsilon = min(epsilon, LARGEST_EPSILON)
        if self.cluster_size <= EXHAUSTIVE:
            return _divergence(_laws(self.cluster_size, alpha, 1), alpha, epsilon)
        lower = _divergence(_others_zero(self.cluster_size, alpha), alpha, epsilon).lower
        revealed = self.cluster_size // 100
        upper = _divergence(_laws(self.cluster_size - revealed, alpha, revealed + 1), alpha, epsilon).upper
        return Bracket(lower, max(lower, upper))

    def satisfies(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) is certified; False may mean that it holds but could not be shown."""
        check_delta(delta)
        return self.delta(epsilon).upper <= delta

    def epsilon(self, delta: float) -> PrivacyBound:
        """ε(δ) over all data sets, bracketed.

        Args:
            delta: δ in (0, 1).
        """
        check_delta(delta)
        if self.num_classes > 2:
            return replace(self._labels().epsilon(delta), conditions=SHUFFLER_CONDITIONS)
        basis = "exact, over all data sets" if self.cluster_size <= EXHAUSTIVE else "certified over all data sets"
        return invert(self.delta, delta, self.flip_prob, "learner", basis, self.conditions)

    def _labels(self) -> ShuffledLabels:
        """The bound for any number of classes."""
        return ShuffledLabels(self.cluster_size, self.flip_prob, 1.0, self.num_classes)


@lru_cache(maxsize=8)
def _laws(n: int, flip_prob: float, step: int) -> Floats:
    """Pr[X = k] for m = 0, step, 2 step, ... up to (n-1)/2, each from its own first k on: (M, N)."""
    tail = -math.inf if n <= SUMMED_IN_FULL else _LOG_TAIL
    half = (n - 1) // 2 if step == 1 else (n + step - 2) // 2
    found = [World(n, n - 1 - m, m, flip_prob).noisy_ones(tail)[1] for m in range(0, min(half, n - 1) + 1, step)]
    table = np.zeros((len(found), max(len(weights) for weights in found)))
    for row, weights in zip(table, found, strict=True):
        row[: len(weights)] = weights
    return table


@lru_cache(maxsize=8)
def _others_zero(n: int, flip_prob: float) -> Floats:
    """The same for m = 0 alone: (1, N)."""
    return World(n, n - 1, 0, flip_prob).noisy_ones(_LOG_TAIL)[1][None, :]


def _divergence(laws: Floats, flip_prob: float, epsilon: float) -> Bracket:
    """The largest hockey-stick divergence over data sets and directions, with its rounding."""
    gap, growth = 1.0 - 2.0 * flip_prob, math.expm1(epsilon)
    keep, lose = gap - flip_prob * growth, gap + (1.0 - flip_prob) * growth
    if keep <= 0.0:
        return Bracket(0.0, 0.0)
    same, more = np.pad(laws, ((0, 0), (0, 1))), np.pad(laws, ((0, 0), (1, 0)))
    error = 2.0 * rounding(laws.shape[1]) + 2.0**-51 * (gap + flip_prob * growth) / keep
    missed, lower, upper = 8.0 * math.exp(_LOG_TAIL), 0.0, 0.0
    for own, other in ((same, more), (more, same)):
        sure = np.maximum(keep * (1.0 - error) * own - lose * (1.0 + error) * other, 0.0).sum(axis=1)
        possible = np.maximum(keep * (1.0 + error) * own - lose * (1.0 - error) * other, 0.0).sum(axis=1)
        lower = max(lower, float(sure.max()) - lose * missed)
        upper = max(upper, float(possible.max()) + keep * missed)
    return Bracket(max(0.0, lower * (1.0 - error)), min(1.0, upper * (1.0 + error)))
