"""The clustering paper's own bounds on the learner's ε, for comparison with the exact value."""

import math
from dataclasses import dataclass


def lemma9_epsilon(cluster_size: int, flip_prob: float, sampling_rate: float, delta: float) -> float | None:
    """ε of Lemma 9 at δ, or None where the lemma's conditions do not hold.

    With s users in the smallest cluster, δ fixes ξ through δ = exp(-αξ² / (4(α + 1/s)(1-α))), and
    ε = θ ln(e + 3/(sα)) + √θ ξ ln(1 + 3/√(sα)). Conditions: s ≥ 2/α and 0 ≤ ξ ≤ 3α√(θs(1-α)).

    The lemma's proof treats the cluster's share of positive noisy labels and the number of submissions as fixed; no
    counter-example to the statement itself is known where its conditions hold.

    >>> lemma9_epsilon(40, 0.1, 0.5, 1e-5) is None
    True
    """
    s, alpha, theta = cluster_size, flip_prob, sampling_rate
    if alpha <= 0.0 or s < 2.0 / alpha or not 0.0 < delta < 1.0:
        return None
    xi = math.sqrt(-math.log(delta) * 4.0 * (alpha + 1.0 / s) * (1.0 - alpha) / alpha)
    if xi > 3.0 * alpha * math.sqrt(theta * s * (1.0 - alpha)):
        return None
    return theta * math.log(math.e + 3.0 / (s * alpha)) + math.sqrt(theta) * xi * math.log1p(3.0 / math.sqrt(s * alpha))


@dataclass(frozen=True)
class Theorem3:
    """Theorem 3 at one cluster size: with this α the exchange is (ε, δ)-label-private."""

    flip_prob: float
    epsilon: float
    delta: float


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
