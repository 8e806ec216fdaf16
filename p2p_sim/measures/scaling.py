"""Fits the growth of excess risk: slopes on log-log scales, and sums of terms from theory with free constants."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from p2p_sim.measures.intervals import Estimate, Floats

RESAMPLES = 400
"""Number of bootstrap samples of the replicates for the 95% interval of a fitted constant."""
VARIES = 1.1
"""A term varies if its largest value over the points is above this factor times its smallest value. All other terms
share one constant.
"""


FORMS = {
    "Theorem 4's form": {"φ": 1.0, "α": 1.0, "1/√(θn)": 0.5},
    "squares": {"φ²": 2.0, "α²": 2.0, "1/(θn)": 1.0},
}
"""The three terms of each form of a sum: the symbol of a term, and its exponent. The terms are powers of φ
(heterogeneity of clusters), of α (flip probability) and of 1/(θn). Here θn is the number of labels that reach the
learner.

Theorem 4 of the clustering paper (Esfandiari et al.) bounds the excess risk by O(√(dim log(1/γ)/(θn)) + φ + α). The
fits do not vary its dimension dim and its γ. The excess risk may be smaller. A smooth loss near its minimum grows with
the square of the distance, and the second form is for such losses. An example is log loss in a model that can represent
the law of the data.
"""


@dataclass(frozen=True)
class Fit:
    """A sum of terms from theory, fitted to measured risks.

    name: the form of the sum, one of `FORMS`. constants: for the symbol of each term that varies, an estimate of its
    constant; under "fixed", the constant of all other terms together. fitted: (P,) values of the sum at the P points.
    misfit: largest |fitted/measured - 1|.
    """

    name: str
    constants: dict[str, Estimate]
    fitted: Floats
    misfit: float

    def __str__(self) -> str:
        parts = [f"{c} {'(terms held fixed)' if name == 'fixed' else name}" for name, c in self.constants.items()]
        return f"{' + '.join(parts)}; off by up to {self.misfit:.0%}"


def log_log_slope(x: Floats, values: Floats) -> Estimate:
    """Least-squares slope of ln(mean over replicates) against ln x, with a 95% jackknife t-interval over replicates.

    The jackknife leaves out one replicate at all points at a time. So random numbers that points share are accounted
    for. The interval is for the slope of the expected values at these x. The expected values need not lie on a line.
    Both ends are NaN if there are fewer than three replicates, or if a mean without one replicate is not above 0.

    Args:
        x: (P,) above 0, at least two distinct values. values: (P, R) measured at each of P points in each of R
        replicates; the means over replicates must be above 0.

    Raises:
        ValueError: x or a mean is not above 0, or all x are equal.

    >>> str(log_log_slope(np.array([1.0, 10.0, 100.0]), np.array([[4.0], [2.0], [1.0]])))
    '-0.301 (no interval)'
    """
    from scipy.special import stdtrit

    if len(np.unique(x)) < 2 or x.min() <= 0 or values.size == 0 or values.mean(axis=1).min() <= 0:
        raise ValueError("a slope on log-log scales needs positive means at two or more positive x")
    centred = np.log(x) - np.log(x).mean()
    weights = centred / (centred @ centred)
    slope = float(weights @ np.log(values.mean(axis=1)))
    count = values.shape[1]
    means_without = (values.sum(axis=1, keepdims=True) - values) / max(count - 1, 1)  # (P, R): without each replicate
    if count < 3 or means_without.min() <= 0:
        return Estimate(slope, float("nan"), float("nan"))
    left_out = weights @ np.log(means_without)
    error = float(np.sqrt((count - 1) / count * np.sum((left_out - left_out.mean()) ** 2)))
    half = float(stdtrit(count - 1, 0.975)) * error
    return Estimate(slope, slope - half, slope + half)


def fit_forms(table: pd.DataFrame, values: Floats, rng: np.random.Generator) -> list[Fit]:
    """Two formulas for the excess risk, fitted to its means over replicates. The first is a φ + b α + c/√(θn), the form
    of Theorem 4; the second is a φ² + b α² + c/(θn). Here φ is the heterogeneity of clusters, α the flip probability,
    and θn the number of labels that reach the learner. The constants a, b and c are at least 0.

    The fit minimises Σ (fitted/measured - 1)², so small and large risks count alike. The 95% percentile intervals come
    from resampled replicates; a replicate is resampled for all points at once. With few replicates the intervals are
    too narrow. If a constant is 0, its interval is one-sided. With fewer than three replicates, both ends are NaN.
    Terms that do not vary over the points share one constant.

    Args:
        table: a row for each of P points, with columns sampling_rate (θ), num_users (n), heterogeneity (φ) and
        flip_prob (α). values: (P, R) risks at each point and replicate, with means over replicates above 0. rng: draws
        the resampled replicates.

    Raises:
        ValueError: there are fewer points than constants, terms are linearly dependent over the points, or a mean is
        not above 0.
    """
    if values.size == 0 or values.mean(axis=1).min() <= 0:
        raise ValueError("the mean excess risk must be above 0 at every point, in replicates that all points share")
    arrived = table["sampling_rate"] * table["num_users"]
    base = np.stack([table["heterogeneity"], table["flip_prob"], 1.0 / arrived], axis=1).astype(float)
    return [_fit(name, powers, base, values, rng) for name, powers in FORMS.items()]


def _fit(name: str, powers: dict[str, float], base: Floats, values: Floats, rng: np.random.Generator) -> Fit:
    """One formula for the excess risk, fitted to the means over replicates, with 95% intervals. The formula is a sum of
    powers of φ, α and 1/(θn) with free constants of at least 0. Terms that do not vary over the points share one
    constant.

    Args:
        name: the formula. powers: the exponents of φ, α and 1/(θn), in this order, each under the term's symbol, such
        as "1/√(θn)". base: (P, 3) φ, α and 1/(θn) at each of P points. values: (P, R) risks measured at each point and
        replicate. rng: draws the resampled replicates.

    Raises:
        ValueError: there are fewer points than constants, or terms are linearly dependent over the points.
    """
    # the design has a column for each term that varies, and one for all other terms; values up to 1e-12 count as
    # rounding errors
    terms, (points, replicates) = base ** list(powers.values()), values.shape
    varying = terms.max(axis=0) > np.maximum(VARIES * terms.min(axis=0), 1e-12)
    design = np.column_stack([terms[:, varying], *([] if varying.all() else [np.ones(points)])])
    symbols = [symbol for symbol, varies in zip(powers, varying, strict=True) if varies]
    symbols += [] if varying.all() else ["fixed"]
    scaled = design / design.max(axis=0)
    if points < len(symbols) or np.linalg.matrix_rank(scaled, tol=1e-6 * np.sqrt(points)) < len(symbols):
        raise ValueError(f"these points cannot tell the terms {', '.join(symbols)} apart")
    # the constants, fitted to all replicates, and again to resampled ones
    mean = values.mean(axis=1)
    constants = _relative_nnls(design, mean)
    drawn = rng.integers(replicates, size=(RESAMPLES if replicates > 2 else 0, replicates))
    resampled = [values[:, chosen].mean(axis=1) for chosen in drawn]
    again = [_relative_nnls(design, means) for means in resampled if means.min() > 0] or [np.full(len(symbols), np.nan)]
    ends = np.quantile(again, [0.025, 0.975], axis=0)
    estimates = [Estimate(*map(float, numbers)) for numbers in zip(constants, *ends, strict=True)]
    fitted = design @ constants
    misfit = float(np.max(np.abs(fitted / mean - 1.0)))
    return Fit(name, dict(zip(symbols, estimates, strict=True)), fitted, misfit)


def _relative_nnls(design: Floats, mean: Floats) -> Floats:
    """The constants c (p,), at least 0, that minimise Σ ((design c)/mean - 1)².

    Args:
        design: (P, p) values of p terms at P points. mean: (P,) measured mean at each point, above 0.
    """
    from scipy.optimize import nnls

    relative = design / mean[:, None]
    scale = np.linalg.norm(relative, axis=0)  # all columns get the same norm, for the solver's tolerance
    return np.asarray(nnls(relative / scale, np.ones(len(mean)))[0] / scale)
