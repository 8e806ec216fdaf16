"""How excess risk grows: slopes on log-log scales, and sums of theoretical terms with free constants."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RESAMPLES = 400
"""Bootstrap samples of the replicates."""
VARIES = 1.1
"""A term varies if its largest value exceeds its smallest by this factor; all others together are one constant."""


@dataclass(frozen=True)
class Estimate:
    """A fitted number and its two-sided 95% confidence interval; NaN ends if the replicates give no interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if not np.isfinite(self.low):
            return f"{self.value:.3g} (no interval)"
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


@dataclass(frozen=True)
class Form:
    """A sum of terms in heterogeneity φ, flip probability α and what reaches the learner, θn, with free constants.

    powers: of φ, of α and of 1/(θn).
    """

    name: str
    powers: tuple[float, float, float]

    def terms(self, phi: Floats, alpha: Floats, arrived: Floats) -> Floats:
        """The three terms at each point, (P, 3).

        Args:
            phi, alpha, arrived: (P,) φ, α and θn, the last above 0.
        """
        return np.asarray(np.stack([phi, alpha, 1.0 / arrived], axis=1) ** np.array(self.powers))

    @property
    def symbols(self) -> tuple[str, str, str]:
        """How the terms are written."""
        phi, alpha = ({1.0: s, 2.0: f"{s}²"}[power] for s, power in zip("φα", self.powers[:2], strict=True))
        return phi, alpha, {0.5: "1/√(θn)", 1.0: "1/(θn)"}[self.powers[2]]


THEOREM4 = Form("Theorem 4's form", (1.0, 1.0, 0.5))
"""Clustering paper, Theorem 4: excess risk at most O(√(dim log(1/γ)/(θn)) + φ + α). A bound: risk may be smaller."""
SQUARES = Form("squares", (2.0, 2.0, 1.0))
"""Squares of Theorem 4's terms: what a smooth loss does near its minimum, such as log loss in a model that fits."""


@dataclass(frozen=True)
class Fit:
    """A fitted form.

    constants: of the terms that vary, by symbol; what is fixed everywhere is the constant called `fixed`.
    fitted: (P,) values at the points; misfit: largest |fitted/measured - 1|.
    """

    form: Form
    constants: dict[str, Estimate]
    fitted: Floats
    misfit: float


def log_log_slope(x: Floats, values: Floats) -> Estimate:
    """Least-squares slope of ln(mean over replicates) against ln x, with a jackknife t-interval over replicates.

    The jackknife leaves out one replicate of all points at a time. So it accounts for common random numbers of the
    points; an interval from the scatter about the line would not. The interval is for the slope of the expected values
    at these x; it does not say that they lie on a line.

    Args:
        x: (P,) above 0, at least two distinct values.
        values: (P, R), means over replicates above 0.

    Raises:
        ValueError: there is no such slope.

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
    left = (values.sum(axis=1, keepdims=True) - values) / max(count - 1, 1)  # (P, R) means without replicate r
    if count < 3 or left.min() <= 0:
        return Estimate(slope, float("nan"), float("nan"))
    left_out = weights @ np.log(left)
    error = float(np.sqrt((count - 1) / count * np.sum((left_out - left_out.mean()) ** 2)))
    half = float(stdtrit(count - 1, 0.975)) * error
    return Estimate(slope, slope - half, slope + half)


def fit_form(form: Form, terms: Floats, values: Floats, rng: np.random.Generator) -> Fit:
    """Fit non-negative constants to the means over replicates, in relative least squares, with bootstrap intervals.

    Minimises Σ (fitted/measured - 1)², so that small and large risks count alike. Replicates are resampled, all
    points at a time (95% percentile intervals, which are too narrow for a handful of replicates, and one-sided where a
    constant is 0). Terms that do not vary over the points cannot be told apart: together they are one constant.

    Args:
        terms: (P, 3), as `form.terms` gives them.
        values: (P, R), means over replicates above 0.

    Raises:
        ValueError: there are fewer points than constants, terms vary in step, or a mean is not above 0.
    """
    varying = terms.max(axis=0) > np.maximum(VARIES * terms.min(axis=0), 1e-12)  # a φ of 1e-17 is rounding
    columns = [*terms.T[varying], *([] if varying.all() else [np.ones(len(terms))])]
    names = [symbol for symbol, free in zip(form.symbols, varying, strict=True) if free]
    names += [] if varying.all() else ["fixed"]
    design = np.stack(columns, axis=1)
    if values.size == 0 or values.mean(axis=1).min() <= 0:
        raise ValueError("the mean excess risk must be above 0 at every point, in replicates that all points share")
    scaled = design / design.max(axis=0)
    if len(design) < len(names) or np.linalg.matrix_rank(scaled, tol=1e-6 * np.sqrt(len(design))) < len(names):
        raise ValueError(f"these points cannot tell the terms {', '.join(names)} apart")
    constants = _relative_nnls(design, values.mean(axis=1))
    drawn = rng.integers(values.shape[1], size=(RESAMPLES, values.shape[1]))
    means = [values[:, chosen].mean(axis=1) for chosen in drawn] if values.shape[1] > 2 else []
    again = np.array([_relative_nnls(design, mean) for mean in means if mean.min() > 0])
    low, high = np.quantile(again, [0.025, 0.975], axis=0) if len(again) else np.full((2, len(names)), np.nan)
    found = {n: Estimate(float(c), float(a), float(b)) for n, c, a, b in zip(names, constants, low, high, strict=True)}
    fitted = design @ constants
    return Fit(form, found, fitted, float(np.max(np.abs(fitted / values.mean(axis=1) - 1.0))))


def _relative_nnls(design: Floats, mean: Floats) -> Floats:
    """Non-negative c that minimises Σ ((design c)/mean - 1)²."""
    from scipy.optimize import nnls

    relative = design / mean[:, None]
    scale = np.linalg.norm(relative, axis=0)  # columns of the same size, for the solver's tolerance
    return np.asarray(nnls(relative / scale, np.ones(len(mean)))[0] / scale)


def constants_text(fit: Fit) -> str:
    """The fitted sum with its constants and their intervals, and how far off it is."""
    parts = [f"{c} (terms held fixed)" if name == "fixed" else f"{c} {name}" for name, c in fit.constants.items()]
    return f"{' + '.join(parts)}; off by up to {fit.misfit:.0%}"
