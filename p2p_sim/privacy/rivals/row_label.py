"""The label of one row behind private logistic regressions: its whole curve, where rows alone have a pure ε.

If the label of one row differs, the models of one group are as private as its noise b against b + z, |z| <= q
(`objective_perturbation`). The density of b falls with |b| alone, so that b is likelier than b + z on one side of a
plane half-way: the total variation is Pr[|b₁| < |z|/2], of one coordinate b₁ of b, and largest for |z| = q. With
b = R u, R of the law Gamma(d, scale) and u uniform on the sphere, u₁² has the law Beta(1/2, (d-1)/2), and

    δ(0) = E Pr[R < q/(2|u₁|)],

whose integrand falls with |u₁|: upper and lower sums enclose it. The overlap 1 - δ(0) of several groups is at least the
product of their overlaps. For ε > 0, δ is convex in e^ε and 0 at the pure ε_label, hence below the chord
δ(0) (e^ε_label - e^ε)/(e^ε_label - 1).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import LARGEST_EPSILON, Bracket, PrivacyBound, check_delta, check_epsilon
from p2p_sim.privacy.rivals.objective_perturbation import LABEL_CONDITIONS, ObjectivePerturbation
from p2p_sim.privacy.where_bounds_hold import ANYWHERE

_PARTS, _LEAST = 4000, 1e-9
_UP = 1.0 + 1e-9


@dataclass(frozen=True)
class RowLabel(Accountant):
    """Privacy of the label of one row against whoever sees all models that were learned from it.

    Args:
        noise: of the models. features: (K,) number of features of each group, at least 1.

    >>> from p2p_sim.privacy.rivals.objective_perturbation import calibrate_perturbation
    >>> plr = calibrate_perturbation(1.0, 1000, [0.01], tight=True)
    >>> round(math.tanh(plr.epsilon_upper / 2) / 2, 3), round(RowLabel(plr, (10,)).advantage().upper, 3)
    (0.231, 0.032)
    """

    requires = ANYWHERE
    conditions = LABEL_CONDITIONS

    noise: ObjectivePerturbation
    features: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.features) != len(self.noise.norms) or min(self.features) < 1:
            raise ValueError(f"features = {self.features}: needs a number for each of {len(self.noise.norms)} groups")

    @property
    def pure_epsilon(self) -> float:
        """ε' Σ q/2."""
        return self.noise.label_epsilon

    @cached_property
    def total_variation(self) -> Bracket:
        """δ(0); the lower end is attained, and 0 for several groups."""
        each = [
            _between(d, 0.5 * q / self.noise.noise_scale) for d, q in zip(self.features, self.noise.norms, strict=True)
        ]
        apart = -math.expm1(math.fsum(math.log1p(-min(one.upper, 1.0 - 1e-15)) for one in each))
        upper = min(apart * _UP, math.tanh(0.5 * self.pure_epsilon) * _UP, 1.0)
        return Bracket(min(each[0].lower, upper) if len(each) == 1 else 0.0, upper)

    def delta(self, epsilon: float) -> Bracket:
        """δ(ε), ε at least 0: below the chord from δ(0) to the pure ε."""
        check_epsilon(epsilon)
        pure = self.pure_epsilon
        if epsilon >= pure:
            return Bracket(0.0, 0.0)
        if epsilon == 0.0:
            return self.total_variation
        if pure > LARGEST_EPSILON:
            return Bracket(0.0, self.total_variation.upper)
        share = -math.expm1(epsilon - pure) / -math.expm1(-pure)
        return Bracket(0.0, min(1.0, self.total_variation.upper * share * _UP))

    def epsilon(self, delta: float) -> PrivacyBound:
        """ε(δ), δ in (0, 1): where the chord falls to δ."""
        check_delta(delta)
        pure, most = self.pure_epsilon, self.total_variation.upper
        upper = 0.0 if delta >= most else pure
        if delta < most and pure <= LARGEST_EPSILON:
            upper = max(0.0, pure + math.log1p(delta / (most * _UP) * math.expm1(-pure))) * _UP
        basis = "objective perturbation: noise that the label of one row moves by its norm"
        return PrivacyBound(0.0, upper, delta, "learner", "label", basis, self.conditions)


def _between(dimension: int, distance: float) -> Bracket:
    """Pr[|b₁| < distance] of noise of this dimension and scale 1."""
    from scipy.special import betainc, gammainc

    if dimension == 1:
        exact = float(-np.expm1(-distance))
        return Bracket(exact * (1.0 - 1e-12), exact * (1.0 + 1e-12))
    ends = np.append(0.0, np.geomspace(_LEAST, 1.0, _PARTS))
    masses = np.diff(betainc(0.5, 0.5 * (dimension - 1), ends**2))
    inside = np.append(1.0, gammainc(dimension, distance / ends[1:]))
    return Bracket(float(masses @ inside[1:]) * (1.0 - 1e-9), min(1.0, float(masses @ inside[:-1]) * _UP))
