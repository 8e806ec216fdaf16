"""The clustering paper's own bounds on the learner's ε, for comparison with the exact value.

A figure of the paper is stated only where all its conditions hold; otherwise the first condition that fails is named.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from p2p_sim.privacy.bound import plain_arguments
from p2p_sim.privacy.conditions import Condition
from p2p_sim.privacy.where_bounds_hold import PAPER, Situation, Stated, first_failure

IDEAL = Situation()
"""The paper's own exchange: two classes, complete clusters, no fault, nobody who looks on."""


@dataclass(frozen=True)
class Lemma9:
    """Lemma 9 in one cluster.

    With s users, δ fixes ξ through δ = exp(-αξ² / (4(α + 1/s)(1-α))), and
    ε = θ ln(e + 3/(sα)) + √θ ξ ln(1 + 3/√(sα)). Conditions: s ≥ 2/α and 0 ≤ ξ ≤ 3α√(θs(1-α)).

    The lemma's proof treats the cluster's share of positive noisy labels and the number of submissions as fixed; no
    counter-example to the statement itself is known where its conditions hold.

    Args:
        cluster_size: s. flip_prob: α. sampling_rate: θ. delta: δ.
    """

    cluster_size: int
    flip_prob: float
    sampling_rate: float
    delta: float

    def applies(self, situation: Situation = IDEAL) -> Condition | None:
        """The first condition of the lemma that fails, for reports; None if the lemma applies.

        situation: what the exchange is like beyond n, α, θ and δ, such as faults and classes.
        """
        fails = first_failure(PAPER, situation)
        if fails is not None:
            return fails
        s, alpha = self.cluster_size, self.flip_prob
        if not 0.0 < self.delta < 1.0:
            return Condition("lemma-9-delta", "it needs δ above 0 and below 1")
        if alpha <= 0.0 or s < 2.0 / alpha:
            return Condition("lemma-9-size", "it needs s ≥ 2/α users in every cluster")
        most = 3.0 * alpha * math.sqrt(self.sampling_rate * s * (1.0 - alpha))
        if self._xi > most:
            return Condition("lemma-9-deviation", "it needs ξ ≤ 3α√(θs(1-α)): larger clusters, or a larger δ")
        return None

    def stated(self, situation: Situation = IDEAL) -> Stated:
        """ε that the lemma states for the learner at δ, or the first condition that fails."""
        fails = self.applies(situation)
        if fails is not None:
            return Stated(None, fails)
        s, alpha, theta = self.cluster_size, self.flip_prob, self.sampling_rate
        mean = theta * math.log(math.e + 3.0 / (s * alpha))
        return Stated(mean + math.sqrt(theta) * self._xi * math.log1p(3.0 / math.sqrt(s * alpha)))

    @property
    def _xi(self) -> float:
        """ξ, which δ fixes: about how many standard deviations the lemma lets the positive labels deviate."""
        s, alpha = self.cluster_size, self.flip_prob
        return math.sqrt(-math.log(self.delta) * 4.0 * (alpha + 1.0 / s) * (1.0 - alpha) / alpha)


@plain_arguments
def lemma9_epsilon(cluster_size: int, flip_prob: float, sampling_rate: float, delta: float) -> float | None:
    """ε of Lemma 9 at δ in the paper's own exchange, or None where the lemma's conditions do not hold: see `Lemma9`.

    >>> lemma9_epsilon(40, 0.1, 0.5, 1e-5) is None
    True
    """
    return Lemma9(cluster_size, flip_prob, sampling_rate, delta).stated().epsilon


@dataclass(frozen=True)
class Theorem3:
    """Theorem 3 at one cluster size: with this α the exchange is (ε, δ)-label-private."""

    flip_prob: float
    epsilon: float
    delta: float


@plain_arguments
def theorem3(cluster_size: int, sampling_rate: float) -> Theorem3 | None:
    """Theorem 3 with the constants of its proof, or None where its α would exceed 1/2.

    α = 4√2 ln s / √(θs), δ = 1/s² and, by line (32) of the proof, ε = θ + 3θ^1.5/(e √(s ln s)) + 3 (2θ)^0.75 / s^0.25.

    >>> theorem3(10_000, 1.0) is None
    True
    >>> round(theorem3(12_000, 1.0).flip_prob, 3)
    0.485
    """
    s, theta = cluster_size, sampling_rate
    alpha = 4.0 * math.sqrt(2.0) * math.log(s) / math.sqrt(theta * s)
    if alpha > 0.5:
        return None
    epsilon = theta + 3.0 * theta**1.5 / (math.e * math.sqrt(s * math.log(s))) + 3.0 * (2.0 * theta) ** 0.75 / s**0.25
    return Theorem3(alpha, epsilon, 1.0 / s**2)


def theorem3_stated(
    cluster_size: int, flip_prob: float, sampling_rate: float, delta: float, situation: Situation = IDEAL
) -> Stated:
    """ε that Theorem 3 states where the smallest cluster has s users, or the first condition that fails.

    It applies if α and δ are at least those of the theorem.

    Args:
        cluster_size: s. flip_prob: α. sampling_rate: θ. delta: δ. situation: what the exchange is like.
    """
    fails = first_failure(PAPER, situation)
    if fails is not None:
        return Stated(None, fails)
    printed = theorem3(cluster_size, sampling_rate)
    if printed is None:
        return Stated(None, Condition("theorem-3-size", "it needs larger clusters: its α exceeds 1/2"))
    if flip_prob < printed.flip_prob:
        return Stated(None, Condition("theorem-3-flips", "it needs α ≥ 4√2 ln s / √(θs)"))
    if delta < printed.delta:
        return Stated(None, Condition("theorem-3-delta", "it needs δ ≥ 1/s²"))
    return Stated(printed.epsilon)


def worst_stated(figures: Iterable[Stated]) -> Stated:
    """One statement for several clusters: the largest ε, or what fails in the first cluster where no ε is stated.

    figures: the paper's statement for each cluster.
    """
    statements = list(figures)
    failed = next((stated for stated in statements if stated.epsilon is None), None)
    return failed or max(statements, key=lambda stated: stated.epsilon or 0.0)
