"""Accountant of objective perturbation: K noisy logistic regressions on the same rows, whose features are private too.

Model k of K minimises (1/n) Σᵢ ln(1 + e^(-w·zᵢ)) + b·w/n + (Δ_k/2)|w|² + λ_k g_k(w) over its weights w, on n rows i.
Here zᵢ = yᵢ xᵢ with |zᵢ| ≤ q_k. The label is yᵢ = ±1, and xᵢ are the d_k features of group k. The penalty g_k is |w|²/2
or |w - u_k|²/2, with a vector u_k that was fixed before. The noise b has a density ∝ e^(-ε'|b|/2). Its norm has the law
Gamma(d_k, 2/ε'), and its direction is uniform (Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 2; Yao et al. 2019,
Algorithms 1 and 3). Neighbouring data sets differ in one whole row, features and label; n stays the same.

**Theorem.** All K models together are ε-differentially private with

    ε = ε' Σ_k q_k + Σ_k ln(1 + c_k),    c_k = q_k² / (4n(λ_k + Δ_k)).

*Proof.* Take one model, and omit k. The objective is strongly convex and smooth. So the map from the noise b to the
minimiser w has an inverse: b(w) = Σᵢ zᵢ/(1 + e^(w·zᵢ)) - nΔw - nλ∇g(w). The matrix ∇²g is the identity, and u cancels
in what follows. Let h be the density of b. Then the density of the minimiser at w is h(b(w)) det A(w), where
A = n(λ+Δ)I + Σᵢ aᵢ zᵢzᵢᵀ and 0 < aᵢ ≤ 1/4.
(1) Let z replace z', and let σ be the logistic function. Then b(w) moves by z σ(-w·z) - z' σ(-w·z'), a vector of norm
at most 2q. So h changes by a factor of at most e^(ε'q). (2) Let B be A without the row that differs; B ≥ n(λ+Δ)I. Since
a ≤ 1/4 and |z| ≤ q, the determinant det A = det B (1 + a zᵀB⁻¹z) lies between det B and det B (1 + c). Both data sets
have such a determinant, so the ratio of the two is at most 1 + c. Given the data, the noise of different models is
independent. So the logarithms of the factors add up. ∎

**The label alone.** Let neighbours differ only in the label of one row, z' = -z. Then all models together are private
with ε = ε' Σ_k q_k/2, less than half of the ε above. *Proof.* In (1) b(w) moves by z σ(-w·z) + z σ(w·z) = z, of norm at
most q. So h changes by a factor of at most e^(ε'q/2). In (2) aᵢ = σ(w·zᵢ) σ(-w·zᵢ) and zᵢzᵢᵀ are the same for z and -z.
So the determinants are equal. ∎ Hence the models are as private as the noise alone: b in one world and b + z in the
other.

Both papers bound the determinants' ratio by (1 + c)² = 1 + q²/(2nλ) + q⁴/(16n²λ²), from the two eigenvalues of the
difference of the two matrices A. These eigenvalues have opposite signs, so one factor is enough. The papers choose ε'
as ε minus the determinants' cost, whenever this is above 0. So the noise can be almost boundless, although ε' = ε/2
with Δ > 0 is possible. `tight=True` avoids the looser bound and this noise.

The constant 2q of (1) is attained in the limit for d ≥ 2 features. An example is g = |w - u|²/2 with a long u at obtuse
angles to z and z', if z' is almost -z. For d = 1 the constant is not attained: z and z' add up only if their signs
differ, and then w·z and w·z' are not both far below 0. So b(w) moves by less than 1.06 q.

**δ(ε) of one row's label** (`RowLabel`). As shown above, the model of one group is as private as the noise: b in one
world and b + z in the other. Here |z| <= q. The density of b falls with |b|. So it exceeds the density of b + z on one
side of the plane half-way between 0 and z. Let b₁ be one coordinate of b. Then the total variation is Pr[|b₁| < |z|/2],
which is largest for |z| = q. Write b = R v, where R has the law Gamma(d, scale) and v is uniform on the unit sphere.
Then v₁² has the law Beta(1/2, (d-1)/2), and

    δ(0) = E Pr[R < q/(2|v₁|)].

The probability falls with |v₁|, so upper and lower sums enclose its mean. The overlap of one group is 1 - δ(0). The
overlap of several groups together is at least the product of their overlaps. For ε > 0, δ is convex in e^ε. At ε_label,
the pure ε of the label, δ is 0. Hence δ is at most the chord δ(0) (e^ε_label - e^ε)/(e^ε_label - 1).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import (
    LARGEST_EPSILON,
    Bracket,
    PlainNumbers,
    PrivacyBound,
    check_delta,
    check_epsilon,
    plain_arguments,
)
from p2p_sim.privacy.conditions import Condition
from p2p_sim.privacy.where_bounds_hold import ANYWHERE

OBJECTIVE_PERTURBATION_CONDITIONS = (
    Condition(
        "replaced-row",
        "one whole row, features and label, is replaced; the number of rows and the two classes are public",
    ),
    Condition("clipped-rows", "every row is clipped on its own, and scaled by public constants only"),
    Condition(
        "public-hyperparameters",
        "the feature groups, their importance and all hyperparameters were chosen without looking at the data",
    ),
    Condition(
        "foreign-weights",
        "weights towards which the penalty pulls the models come from other data; else the ε of these weights is added",
    ),
    Condition("own-seed", "no other release has the same seed: a difference of two releases could cancel the noise"),
    Condition(
        "exact-minimiser",
        "the minimiser is exact (here: up to rounding), and a secure generator draws the noise (here: a simulation's)",
    ),
)
LABEL_CONDITIONS = (
    Condition("replaced-label", "the label of one row differs; the number of rows and the two classes are public"),
    *OBJECTIVE_PERTURBATION_CONDITIONS[1:],
)
"""The conditions if only the label of one row differs."""


@dataclass(frozen=True)
class ObjectivePerturbation(PlainNumbers):
    """The noise and regularisation of K models learned from the same rows, and the ε of all models together.

    Args:
        num_rows: n, at least 1.
        norms: (K,) q_k > 0, the norms to which the rows of each group of features are clipped.
        l2: (K,) λ_k > 0, the factors of the penalties.
        noise_epsilon: ε' > 0; infinite: no noise.
        extra_l2: (K,) Δ_k ≥ 0, additional factors of |w|²/2.

    >>> printed = ObjectivePerturbation(1000, (1.0,) * 5, (0.1,) * 5, 1.0, (0.0,) * 5)
    >>> round(printed.epsilon_upper, 2)  # the source of Yao et al.'s Algorithm 4 as printed, five groups at ε = 1 each
    5.01
    """

    num_rows: int
    norms: tuple[float, ...]
    l2: tuple[float, ...]
    noise_epsilon: float
    extra_l2: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_rows(self.num_rows, self.norms, self.l2)
        if not self.noise_epsilon > 0.0:
            raise ValueError(f"noise_epsilon = {self.noise_epsilon}: must be above 0")
        if len(self.extra_l2) != len(self.norms) or not all(0.0 <= extra < math.inf for extra in self.extra_l2):
            raise ValueError(f"extra_l2 = {self.extra_l2}: must hold a finite value of at least 0 for each group")

    @property
    def noise_scale(self) -> float:
        """2/ε', the scale of the noise. For d features the noise's norm has the law Gamma(d, 2/ε') with mean 2d/ε'."""
        return 2.0 / self.noise_epsilon

    @property
    def epsilon_upper(self) -> float:
        """The pure ε of all K models together if one whole row, features and label, is replaced.

        The formula is ε' Σ_k q_k + Σ_k ln(1 + q_k²/(4n(λ_k + Δ_k))). Here n is the number of rows, ε' is
        `noise_epsilon`, q_k are the `norms`, λ_k is `l2`, and Δ_k is `extra_l2`. The noise of each model has a
        density ∝ e^(-ε'|b|/2).
        """
        return self.noise_epsilon * math.fsum(self.norms) + math.fsum(
            math.log1p(q * q / (4.0 * self.num_rows * (l2 + extra)))
            for q, l2, extra in zip(self.norms, self.l2, self.extra_l2, strict=True)
        )

    @property
    def label_epsilon(self) -> float:
        """The pure ε of all models together if only one row's label is replaced: ε' Σ_k q_k/2."""
        return 0.5 * self.noise_epsilon * math.fsum(self.norms)

    def privacy(self) -> PrivacyBound:
        """The bound of ε at δ = 0 for one whole row, against an observer who sees all models."""
        return PrivacyBound(
            0.0,
            self.epsilon_upper,
            0.0,
            observer="learner",
            adjacency="example",
            basis="objective perturbation: noise of the gradient and one factor of the determinant for each model",
            conditions=OBJECTIVE_PERTURBATION_CONDITIONS,
        )


@plain_arguments
def calibrate_perturbation(
    epsilon: float, num_rows: int, l2: Sequence[float], norms: Sequence[float] = (1.0,), tight: bool = False
) -> ObjectivePerturbation:
    """Noise and regularisation with which K noisy logistic regressions on the same rows together are ε-private.

    One whole row is replaced. A row has one group of features for each model k. The noise has a density ∝
    e^(-ε'|b|/2). The norms q_k add up to 1, so the noise costs ε' Σ_k q_k = ε'. The determinants of the models'
    Hessians cost the rest. Model k has the regularisation λ_k plus Δ_k. Let f be 1 if `tight`, else 2. Two ways:

    1. ε' = ε - Σ_k f ln(1 + q_k²/(4nλ_k)) and Δ_k = 0. This way needs ε' above 0 (if `tight`: above ε/2).
    2. Otherwise ε' = ε/2 and Δ_k = max(0, q_k²/(4n(e^(ε q_k/(2f)) - 1)) - λ_k). Noise and determinants each cost ≤ ε/2.

    Args:
        epsilon: ε > 0; infinite: no noise. num_rows: n. l2: (K,) λ_k > 0. norms: (K,) q_k > 0, the importance of the
        groups, with sum 1; group k is clipped to the norm q_k. tight: if true, f = 1, which the module's proof shows to
        be enough; else f = 2 as in the papers (Algorithm 1, steps 1 to 6; Algorithm 3, steps 3 to 10).

    Raises:
        ValueError: a value is out of its range.

    >>> calibrate_perturbation(1.0, 1000, [0.01]).noise_epsilon == 1.0 - 2.0 * math.log1p(1 / 40)
    True
    """
    shares, penalties = tuple(float(q) for q in norms), tuple(float(value) for value in l2)
    if not epsilon > 0.0:
        raise ValueError(f"epsilon = {epsilon}: must be above 0")
    _check_rows(num_rows, shares, penalties)
    if abs(math.fsum(shares) - 1.0) > 1e-9:
        raise ValueError(f"importance = {list(shares)}: must sum to 1, not to {math.fsum(shares):g}")
    factor, least = (1.0, epsilon / 2.0) if tight else (2.0, 0.0)
    # ε' without additional regularisation: what remains of ε after the determinants' cost
    noise_epsilon = epsilon - factor * math.fsum(
        math.log1p(q * q / (4.0 * num_rows * value)) for q, value in zip(shares, penalties, strict=True)
    )
    if noise_epsilon > least:
        return ObjectivePerturbation(num_rows, shares, penalties, noise_epsilon, (0.0,) * len(shares))
    # second way: ε' = ε/2, and the Δ_k make the determinants cost the other half at most
    extra = tuple(
        max(0.0, q * q / (4.0 * num_rows * math.expm1(epsilon * q / (2.0 * factor))) - value)
        for q, value in zip(shares, penalties, strict=True)
    )
    return ObjectivePerturbation(num_rows, shares, penalties, epsilon / 2.0, extra)


def _check_rows(num_rows: int, norms: tuple[float, ...], l2: tuple[float, ...]) -> None:
    """Raise ValueError unless there are rows and groups, and each group has a q_k and a λ_k, above 0 and finite.

    Args:
        num_rows: n, the number of rows. norms: (K,) q_k, the norms to which the groups' rows are clipped. l2: (K,) λ_k.
    """
    if num_rows < 1:
        raise ValueError(f"num_rows = {num_rows}: must be at least 1")
    if not norms or len(norms) != len(l2):
        raise ValueError(f"l2 = {list(l2)}: needs a value for each of the {len(norms)} groups")
    for name, values in (("importance", norms), ("l2", l2)):
        if not all(0.0 < value < math.inf for value in values):
            raise ValueError(f"{name} = {list(values)}: every value must be above 0 and finite")


_PARTS, _LEAST = 4000, 1e-9
"""Sums over values of |v₁| in equal ratios enclose E Pr[R < distance/|v₁|]. These are the number of values, and the
smallest value above 0.
"""
_UP = 1.0 + 1e-9
"""Factor by which upper bounds are raised for rounding."""


@dataclass(frozen=True)
class RowLabel(Accountant):
    """Privacy of the label of one row against an observer of all models that were learned from this row.

    Args:
        noise: the noise of the models. features: (K,) number of features of each group, at least 1.

    >>> from p2p_sim.privacy import advantage, calibrate_perturbation
    >>> plr = calibrate_perturbation(1.0, 1000, [0.01], tight=True)
    >>> round(math.tanh(plr.epsilon_upper / 2) / 2, 3), round(advantage(RowLabel(plr, (10,))).upper, 3)
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
        """The pure ε of the label of one row: ε'/2 times the sum of the norms q_k to which the K models' rows are
        clipped.

        The models' noise has a density ∝ e^(-ε'|b|/2). A changed label moves the noise of model k by at most q_k.
        """
        return self.noise.label_epsilon

    @cached_property
    def total_variation(self) -> Bracket:
        """Bounds of δ(0) of a row's label, against an observer of the K models.

        For one group of features the lower bound is attained. For several groups it is 0, and the upper bound combines
        the groups' values.
        """
        # the total variation of each group: Pr[|b₁| < q/2]
        variations = [
            _between(d, 0.5 * q / self.noise.noise_scale) for d, q in zip(self.features, self.noise.norms, strict=True)
        ]
        # for all groups: 1 - Π (1 - δ_k), from the product of the overlaps; the pure ε allows at most tanh(ε/2)
        apart = -math.expm1(math.fsum(math.log1p(-min(group.upper, 1.0 - 1e-15)) for group in variations))
        upper = min(apart * _UP, math.tanh(0.5 * self.pure_epsilon) * _UP, 1.0)
        return Bracket(min(variations[0].lower, upper) if len(variations) == 1 else 0.0, upper)

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε). As a function of e^ε, the upper bound is the straight line from δ(0) at ε = 0 to 0 at the
        pure ε. If the pure ε is above 700, the upper bound is δ(0) for all smaller ε. The lower bound is 0 for ε above
        0.
        """
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
        """Bounds of ε at δ in (0, 1): 0, and the ε at which the upper bound of δ(ε) falls to δ or below."""
        check_delta(delta)
        pure, most = self.pure_epsilon, self.total_variation.upper
        upper = 0.0 if delta >= most else pure
        if delta < most and pure <= LARGEST_EPSILON:
            upper = max(0.0, pure + math.log1p(delta / (most * _UP) * math.expm1(-pure))) * _UP
        return PrivacyBound(
            0.0,
            upper,
            delta,
            observer="learner",
            adjacency="label",
            basis="objective perturbation: noise that the label of one row moves by its norm",
            conditions=self.conditions,
        )


def _between(dimension: int, distance: float) -> Bracket:
    """Bounds of Pr[|b₁| < distance], where b₁ is one coordinate of noise of this dimension and scale 1."""
    from scipy.special import betainc, gammainc

    if dimension == 1:
        exact = float(-np.expm1(-distance))
        return Bracket(exact * (1.0 - 1e-12), exact * (1.0 + 1e-12))
    # Pr[R < distance/|v₁|] falls with |v₁|, so the values at the ends of an interval bound it inside
    ends = np.append(0.0, np.geomspace(_LEAST, 1.0, _PARTS))
    masses = np.diff(betainc(0.5, 0.5 * (dimension - 1), ends**2))
    inside = np.append(1.0, gammainc(dimension, distance / ends[1:]))
    return Bracket(float(masses @ inside[1:]) * (1.0 - 1e-9), min(1.0, float(masses @ inside[:-1]) * _UP))
