"""Bounds of the clustering paper (Esfandiari et al.) on the learner's ε, for comparison with the exact value.

A bound of the paper is stated only if all its conditions hold; otherwise the first condition that fails is named.
"""

import math
from dataclasses import dataclass

from p2p_sim.privacy.bound import plain_arguments
from p2p_sim.privacy.conditions import Condition
from p2p_sim.privacy.where_bounds_hold import PAPER, Situation, Stated, first_failure

IDEAL = Situation()
"""The paper's own exchange: two classes, complete clusters, no fault, and no observer besides the learner."""
_LEMMA9_DELTA = Condition("lemma-9-delta", "it needs δ above 0 and below 1")
_LEMMA9_SIZE = Condition("lemma-9-size", "it needs s ≥ 2/α users in every cluster")
_LEMMA9_DEVIATION = Condition("lemma-9-deviation", "it needs ξ ≤ 3α√(θs(1-α)): larger clusters, or a larger δ")
_THEOREM3_SIZE = Condition("theorem-3-size", "it needs larger clusters: its α exceeds 1/2")
_THEOREM3_FLIPS = Condition("theorem-3-flips", "it needs α ≥ 4√2 ln s / √(θs)")
_THEOREM3_DELTA = Condition("theorem-3-delta", "it needs δ ≥ 1/s²")


def lemma9_stated(
    cluster_size: int, flip_prob: float, sampling_rate: float, delta: float, situation: Situation = IDEAL
) -> Stated:
    """The ε that Lemma 9 of the clustering paper states for the learner in one cluster, or the lemma's first failed
    condition.

    For s users, δ = exp(-αξ² / (4(α + 1/s)(1-α))) fixes ξ. Then ε = θ ln(e + 3/(sα)) + √θ ξ ln(1 + 3/√(sα)).
    Conditions: 0 < δ < 1, s ≥ 2/α and ξ ≤ 3α√(θs(1-α)).

    The lemma's proof treats the cluster's share of positive noisy labels and the number of submissions as fixed. No
    counter-example to the lemma is known for parameters that meet its conditions.

    Args:
        cluster_size: s. flip_prob: α. sampling_rate: θ. delta: δ. situation: what else decides whether the lemma
        applies: number of classes, network faults, rounds, who observes. The default is the exchange of the paper.

    Returns:
        `epsilon`, or None if a condition fails; `fails` is then this condition.
    """
    fails = first_failure(PAPER, situation)
    if fails is not None:
        return Stated(None, fails)
    s, alpha, theta = cluster_size, flip_prob, sampling_rate
    if not 0.0 < delta < 1.0:
        return Stated(None, _LEMMA9_DELTA)
    if alpha <= 0.0 or s < 2.0 / alpha:
        return Stated(None, _LEMMA9_SIZE)
    # ξ: approximately how many standard deviations the number of positive labels may deviate
    xi = math.sqrt(-math.log(delta) * 4.0 * (alpha + 1.0 / s) * (1.0 - alpha) / alpha)
    if xi > 3.0 * alpha * math.sqrt(theta * s * (1.0 - alpha)):
        return Stated(None, _LEMMA9_DEVIATION)
    mean = theta * math.log(math.e + 3.0 / (s * alpha))
    return Stated(mean + math.sqrt(theta) * xi * math.log1p(3.0 / math.sqrt(s * alpha)))


@plain_arguments
def lemma9_epsilon(cluster_size: int, flip_prob: float, sampling_rate: float, delta: float) -> float | None:
    """The ε at δ that Lemma 9 of the clustering paper states for the learner in one cluster; None: a condition of
    `lemma9_stated` fails.

    For δ = exp(-αξ² / (4(α + 1/s)(1-α))) the lemma states ε = θ ln(e + 3/(sα)) + √θ ξ ln(1 + 3/√(sα)).

    Args:
        cluster_size: s. flip_prob: α. sampling_rate: θ. delta: δ.

    >>> lemma9_epsilon(40, 0.1, 0.5, 1e-5) is None
    True
    """
    return lemma9_stated(cluster_size, flip_prob, sampling_rate, delta).epsilon


@dataclass(frozen=True)
class Theorem3:
    """Theorem 3 of the clustering paper at one cluster size: the exchange with this α is (ε, δ)-label-private."""

    flip_prob: float
    epsilon: float
    delta: float


@plain_arguments
def theorem3(cluster_size: int, sampling_rate: float) -> Theorem3 | None:
    """Theorem 3 of the clustering paper for clusters of s users, with the constants of its proof. None: α would exceed
    1/2, or s = 1.

    α = 4√2 ln s / √(θs) and δ = 1/s². By line (32) of the proof, ε = θ + 3θ^1.5/(e √(s ln s)) + 3 (2θ)^0.75 / s^0.25.

    >>> theorem3(10_000, 1.0) is None
    True
    >>> round(theorem3(12_000, 1.0).flip_prob, 3)
    0.485
    """
    s, theta = cluster_size, sampling_rate
    alpha = 4.0 * math.sqrt(2.0) * math.log(s) / math.sqrt(theta * s)
    if alpha > 0.5 or s == 1:
        return None
    epsilon = theta + 3.0 * theta**1.5 / (math.e * math.sqrt(s * math.log(s))) + 3.0 * (2.0 * theta) ** 0.75 / s**0.25
    return Theorem3(alpha, epsilon, 1.0 / s**2)


def theorem3_stated(
    cluster_size: int, flip_prob: float, sampling_rate: float, delta: float, situation: Situation = IDEAL
) -> Stated:
    """The ε of Theorem 3 of the clustering paper if the smallest cluster has s users, or the theorem's first failed
    condition.

    The theorem fixes α = 4√2 ln s / √(θs), at most 1/2, and δ = 1/s². It applies if the given α and δ are at least as
    large.

    Args:
        cluster_size: s. flip_prob: α. sampling_rate: θ. delta: δ. situation: what else decides whether the theorem
        applies: number of classes, network faults, rounds, who observes. The default is the exchange of the paper.

    Returns:
        `epsilon`, or None if a condition fails; `fails` is then this condition.
    """
    fails = first_failure(PAPER, situation)
    if fails is not None:
        return Stated(None, fails)
    printed = theorem3(cluster_size, sampling_rate)
    if printed is None:
        return Stated(None, _THEOREM3_SIZE)
    if flip_prob < printed.flip_prob:
        return Stated(None, _THEOREM3_FLIPS)
    return Stated(None, _THEOREM3_DELTA) if delta < printed.delta else Stated(printed.epsilon)
