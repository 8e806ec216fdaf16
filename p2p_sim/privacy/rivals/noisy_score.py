"""Accountant of a model's noisy score: how many held-out users' true labels it predicts, with noise.

The model is fixed, or has its own privacy bound. One changed label moves the number of right predictions by at most 1.

- *Two-sided geometric noise* Z of scale σ has Pr[Z = z] = (1-t)/(1+t) t^|z| with t = e^(-1/σ). Take two true counts
  that differ by 1. The privacy loss is 1/σ at all outputs nearer to the first count, and -1/σ at all others. If the
  first count is true, these nearer outputs have total probability 1/(1+t). So δ(ε) = max(0, 1 - t e^ε)/(1+t), exactly.
- *Gaussian noise* of standard deviation σ has a Gaussian loss. So δ(ε) = Φ(-εσ + 1/(2σ)) - e^ε Φ(-εσ - 1/(2σ)). The
  Rényi ε of order λ is λ/(2σ²) (Balle and Wang 2018, Theorem 8; Mironov 2017, Corollary 3).

The target has two different labels in two neighbouring data sets. Both δ(ε) are attained if the model predicts one of
these two labels.
"""

import math
from dataclasses import dataclass
from typing import Literal

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import Bracket, check_epsilon, check_range
from p2p_sim.privacy.conditions import Condition
from p2p_sim.privacy.conversions import loss_law
from p2p_sim.privacy.randomized_response import outward
from p2p_sim.privacy.where_bounds_hold import ANYWHERE

Noise = Literal["geometric", "gaussian"]
LEAST_SCALE, LARGEST_SCALE = 0.05, 1e6
SCORE_CONDITIONS = (
    Condition("trusted-scorer", "a trusted curator holds the held-out users' labels, counts and adds the noise"),
    Condition("one-row-each", "every held-out user is counted once; features and who is held out depend on no label"),
    Condition(
        "exact-score-noise",
        "the noise is exactly two-sided geometric or Gaussian: what a random generator gives away is not counted",
    ),
)
_MARGIN = 1e-12


@dataclass(frozen=True)
class NoisyScore(Accountant):
    """Privacy of one held-out user's label against whoever sees the model's number of right predictions, with noise.

    Args:
        noise_scale: σ, 0.05 to 1,000,000 users: the scale of geometric noise, or the standard deviation of Gaussian
            noise.
        noise: "geometric" (two-sided) or "gaussian".

    >>> round(NoisyScore(10.0).pure_epsilon, 9)
    0.1
    """

    requires = ANYWHERE
    conditions = SCORE_CONDITIONS

    noise_scale: float
    noise: Noise = "geometric"

    def __post_init__(self) -> None:
        check_range("noise_scale", self.noise_scale, LEAST_SCALE, LARGEST_SCALE)
        if self.noise not in ("geometric", "gaussian"):
            raise ValueError(f"noise = {self.noise!r}: must be geometric or gaussian")

    @property
    def pure_epsilon(self) -> float:
        """The pure ε. With geometric noise of scale σ = `noise_scale` it is 1/σ, rounded up. With Gaussian noise it is
        infinite.
        """
        return math.nextafter(1.0 / self.noise_scale, math.inf) if self.noise == "geometric" else math.inf

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε), ε at least 0, which differ by rounding alone."""
        check_epsilon(epsilon)
        if epsilon >= self.pure_epsilon:
            return Bracket(0.0, 0.0)
        if self.noise == "geometric":
            exact = 1.0 / self.noise_scale
            most = 1.0 / (1.0 + math.exp(-exact))
            lower = max(0.0, -math.expm1(epsilon - exact)) * most * (1.0 - _MARGIN)
            return outward(lower, -math.expm1(epsilon - self.pure_epsilon) * most * (1.0 + _MARGIN))
        from scipy.special import log_ndtr

        # logarithms of Φ(-εσ + 1/(2σ)) and e^ε Φ(-εσ - 1/(2σ)); the absolute error of a logarithm is the relative error
        # of its term
        first = float(log_ndtr(-epsilon * self.noise_scale + 0.5 / self.noise_scale))
        second = epsilon + float(log_ndtr(-epsilon * self.noise_scale - 0.5 / self.noise_scale))
        value = math.exp(first) * -math.expm1(min(second - first, 0.0))
        error = math.exp(first) * (1e-13 * (1.0 + abs(first) + abs(second) + epsilon))
        return outward(max(0.0, value - error), value + error)

    @property
    def basis(self) -> str:
        """How the bounds are computed."""
        return f"exact: a count of right predictions with {self.noise} noise"

    def renyi(self, order: float) -> float:
        """The Rényi ε of an order λ above 1. With Gaussian noise of standard deviation σ = `noise_scale` it is λ/(2σ²).
        With geometric noise the result is an upper bound.
        """
        if self.noise == "gaussian" and 1.0 < order < math.inf:
            return order / (2.0 * self.noise_scale**2) * (1.0 + _MARGIN)
        return loss_law(self).renyi(order)
