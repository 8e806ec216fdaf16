"""The utility bounds of the clustering paper as functions with free constants, and a fit of one constant."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.analysis.utility.scaling import RESAMPLES, Estimate

Floats = NDArray[np.float64]


def theorem4(
    arrived: float,
    heterogeneity: float,
    flip_prob: float,
    dimension: float = 1.0,
    constants: tuple[float, float, float] = (1.0, 1.0, 1.0),
) -> float:
    """Theorem 4, the label exchange: C₁ √(dim/(θn)) + C₂ φ + C₃ α.

    Args:
        arrived: θn, the labels that reach the learner; infinity leaves the first term out.
        heterogeneity: φ, the full L1 distance, in [0, 2].
        flip_prob: α. dimension: dim of the hypotheses. constants: C₁, C₂, C₃.

    >>> theorem4(100.0, 0.0, 0.25)
    0.35
    """
    rate, spread, noise = constants
    return float(rate * np.sqrt(dimension / arrived) + spread * heterogeneity + noise * flip_prob)


@dataclass(frozen=True)
class Algorithm1:
    """The parameters of the centralised mechanism.

    Attributes:
        resampling_prob: λ in [0, 1]; the paper excludes 1, with which only the released shares are used.
        bias_correction: β in [0, 1).
        noise_scale: σ, at least 0; the Laplace noise on a cluster's shares has scale σ/s.
        threshold: τ in [0, 1/K].
    """

    resampling_prob: float
    bias_correction: float = 0.0
    noise_scale: float = 0.0
    threshold: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.resampling_prob <= 1.0:
            raise ValueError(f"resampling_prob = {self.resampling_prob:g}: must lie in [0, 1]")
        if not 0.0 <= self.bias_correction < 1.0:
            raise ValueError(f"bias_correction = {self.bias_correction:g}: must be at least 0 and below 1")

    @property
    def pull(self) -> float:
        """κ = (λ-β)/(1-β): the modified loss sees, on average, p + κ(q̃ - p) in place of p(y|x)."""
        return (self.resampling_prob - self.bias_correction) / (1.0 - self.bias_correction)


def theorem2(
    users: float,
    classes: int,
    heterogeneity: float,
    cluster_size: float,
    parameters: Algorithm1,
    dimension: float = 1.0,
    constants: tuple[float, float] = (1.0, 1.0),
    leading_classes: bool = True,
) -> float:
    """Theorem 2, the centralised mechanism: C₁ L √(dim/n)/(1-β) + C₂ L |β-λ|/(1-β) (φ + Kσ/s + Kτ), L = K or 1.

    Args:
        users: n; infinity leaves the first term out.
        heterogeneity: φ, the full L1 distance.
        classes: K. cluster_size: s. dimension: dim of the hypotheses. constants: C₁, C₂.
        leading_classes: L = K, as printed; else L = 1, which the sharp form of Lemma 2, (1+β)/(1-β), gives.
    """
    lead = classes if leading_classes else 1
    rate = np.sqrt(dimension / users) / (1.0 - parameters.bias_correction)
    distortion = classes * (parameters.noise_scale / cluster_size + parameters.threshold)
    return float(lead * (constants[0] * rate + constants[1] * abs(parameters.pull) * (heterogeneity + distortion)))


def limiting_excess(heterogeneity: float, classes: int, cluster_size: float, parameters: Algorithm1) -> float:
    """An explicit bound on the excess risk that remains as n grows: |κ| (φ + 2Kτ + 2√2 Kσ/s), without a leading K.

    The bound holds for any hypotheses and any loss in [0, 1]. The best model for p + κ(q̃ - p) has excess risk at most
    -κ E Σ_y (q̃ - p)(y) Δ(y), where Δ is the difference of two losses and lies in [-1, 1]; since q̃ - p sums to zero
    over y, that is at most |κ| E Σ_y |q̃ - p|, and Lemma 5 bounds the part of it that is not φ. The paper's Lemmas 4
    and 6 give 2√2 K |κ| in place of |κ|.

    Args:
        heterogeneity: φ, the full L1 distance; classes: K; cluster_size: s; parameters: of Algorithm 1.
    """
    distortion = 2.0 * parameters.threshold + 2.0 * np.sqrt(2.0) * parameters.noise_scale / cluster_size
    return float(abs(parameters.pull) * (heterogeneity + classes * distortion))


@dataclass(frozen=True)
class ShapeFit:
    """constant: C of measured = C shape, with a 95% interval; misfit: the largest |fitted/measured - 1|."""

    constant: Estimate
    misfit: float


def fit_constant(shape: Floats, values: Floats, rng: np.random.Generator) -> ShapeFit:
    """Fit one constant to means over replicates, in relative least squares: C minimises Σ (C shape/mean - 1)².

    Args:
        shape: (P,) above 0, the bound's term with constant 1.
        values: (P, R), R >= 3 independent replicates at each point, means above 0.
        rng: for a bootstrap of the replicates of each point (95% percentiles, of the samples with means above 0).

    Raises:
        ValueError: a mean or a shape is not above 0, or there are fewer than 3 replicates.

    >>> fit = fit_constant(np.array([1.0, 2.0]), np.array([[3.0] * 4, [6.0] * 4]), np.random.default_rng(0))
    >>> str(fit.constant), fit.misfit
    ('3 [3, 3]', 0.0)
    """
    points, replicates = values.shape
    if replicates < 3 or shape.min() <= 0.0 or values.mean(axis=1).min() <= 0.0:
        raise ValueError("a constant needs positive shapes and means, and at least 3 replicates")

    def constant(mean: Floats) -> Floats:
        ratio = shape / mean
        return np.asarray(ratio.sum(axis=-1) / (ratio**2).sum(axis=-1))

    drawn = rng.integers(replicates, size=(RESAMPLES, points, replicates))
    means = np.take_along_axis(values[None], drawn, axis=2).mean(axis=2)
    again = constant(means[means.min(axis=1) > 0.0])
    low, high = np.quantile(again, [0.025, 0.975]) if again.size else (np.nan, np.nan)
    mean = values.mean(axis=1)
    value = float(constant(mean))
    misfit = float(np.max(np.abs(value * shape / mean - 1.0)))
    return ShapeFit(Estimate(value, float(low), float(high)), misfit)
