"""What the histogram estimators share: input checks, and scikit-learn's interface of a classifier of 0 and 1."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, DensityMixin

from p2p_sim.base.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class CellClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of binary classifiers whose answer depends only on the cell that holds a point."""

    n_features_in_: int

    @property
    def classes_(self) -> Ints:
        """The two classes, 0 and 1."""
        return np.array([0, 1])

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learns from features X (n, d) and labels y (n,) of 0 and 1.

        Raises:
            InputError: shapes, labels or parameters are out of range.
        """
        points = check_points(X)
        self.n_features_in_ = points.shape[1]
        return self._fit(points, check_labels(y, len(points)))

    def _fit(self, points: Floats, labels: NDArray[np.uint8]) -> Self:
        raise NotImplementedError

    def _share(self, points: Floats) -> Floats:
        """Estimated probability p(1|x) in [0, 1] at each of the points (n, d): (n,)."""
        raise NotImplementedError

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Estimated class probabilities (n, 2) at the points X (n, d)."""
        share = self._share(check_points(X, self.n_features_in_))
        return np.column_stack([1.0 - share, share])

    def predict(self, X: ArrayLike) -> Ints:
        """The more probable class (n,) at each of the points X (n, d); 0 if both are equally probable."""
        return (self._share(check_points(X, self.n_features_in_)) > 0.5).astype(np.int64)


class CellDensity(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """Base of density estimators that are constant on cells."""

    n_features_in_: int

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learns from points X (n, d); `y` is ignored.

        Raises:
            InputError: shapes or parameters are out of range.
        """
        points = check_points(X)
        self.n_features_in_ = points.shape[1]
        return self._fit(points)

    def _fit(self, points: Floats) -> Self:
        raise NotImplementedError


def check_points(X: ArrayLike, dimensions: int | None = None) -> Floats:
    """Returns points as finite doubles (n, d), else raises InputError; dimensions: the d expected, None: any."""
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] == 0 or (dimensions is None and not len(points)):
        raise InputError(f"X of shape {points.shape}: must be (n, d) with d >= 1 and, to fit, n >= 1")
    if dimensions not in (None, points.shape[1]):
        raise InputError(f"X has {points.shape[1]} features: fitted on {dimensions}")
    if not np.isfinite(points).all():
        raise InputError("X: holds NaN or infinite values; all must be finite")
    return points


def check_labels(y: ArrayLike, rows: int) -> NDArray[np.uint8]:
    """Returns labels (n,) of 0 and 1 as bytes, else raises InputError; rows: n."""
    labels = np.asarray(y)
    if labels.shape != (rows,):
        raise InputError(f"y of shape {labels.shape}: must be ({rows},)")
    if not np.isin(labels, (0, 1)).all():
        raise InputError("y: labels must be 0 or 1")
    return labels.astype(np.uint8)


def check_parameters(estimator: Any) -> None:
    """Raise InputError if an estimator's ε, δ, side or seed is out of range, under its parameter's name."""
    parameters = estimator.get_params(deep=False)
    for name in ("epsilon", "side"):
        if parameters.get(name) is not None:
            check_positive(name, parameters[name])
    delta = parameters.get("delta")
    if delta is not None and not 0.0 < delta < 1.0:
        raise InputError(f"delta = {delta}: must lie strictly between 0 and 1")
    seed = parameters.get("random_state", 0)
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"random_state = {seed}: must be an integer of at least 0, on which the noise depends")


def check_positive(name: str, value: float) -> None:
    """Raise InputError unless a value is finite and above 0."""
    if not 0.0 < value < np.inf:
        raise InputError(f"{name} = {value}: must be above 0 and finite")


def default_delta(delta: float | None, rows: int) -> float:
    """Returns δ, or n^-2 for n rows if δ is None.

    Raises:
        InputError: there is one row only and no δ.
    """
    if delta is None and rows < 2:
        raise InputError("delta: n^-2 is 1 for a single row; give one between 0 and 1")
    return rows**-2.0 if delta is None else delta
