"""What the estimators share: input checks and the face of a scikit-learn classifier with the classes 0 and 1."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, DensityMixin

from p2p_sim.base.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class CellClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A binary classifier whose answer depends only on a point's cell."""

    n_features_in_: int

    @property
    def classes_(self) -> Ints:
        """The two classes."""
        return np.array([0, 1])

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from features (n, d) and labels (n,) of 0 and 1.

        Raises:
            InputError: shapes, labels or parameters are out of range.
        """
        points = check_points(X)
        self.n_features_in_ = points.shape[1]
        return self._fit(points, check_labels(y, len(points)))

    def _fit(self, points: Floats, labels: NDArray[np.uint8]) -> Self:
        raise NotImplementedError

    def _share(self, points: Floats) -> Floats:
        """Estimate of p(1|x) in [0, 1], (n,)."""
        raise NotImplementedError

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Estimated class probabilities (n, 2)."""
        share = self._share(check_points(X, self.n_features_in_))
        return np.column_stack([1.0 - share, share])

    def predict(self, X: ArrayLike) -> Ints:
        """The more probable class (n,); 0 if both are equally probable."""
        return (self._share(check_points(X, self.n_features_in_)) > 0.5).astype(np.int64)


class CellDensity(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """A density that is constant on cells."""

    n_features_in_: int

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn from points (n, d); `y` is ignored.

        Raises:
            InputError: shapes or parameters are out of range.
        """
        points = check_points(X)
        self.n_features_in_ = points.shape[1]
        return self._fit(points)

    def _fit(self, points: Floats) -> Self:
        raise NotImplementedError


def check_points(X: ArrayLike, dimensions: int | None = None) -> Floats:
    """Points as (n, d) doubles, all finite."""
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] == 0 or (dimensions is None and not len(points)):
        raise InputError(f"X of shape {points.shape}: must be (n, d) with d >= 1 and, to fit, n >= 1")
    if dimensions not in (None, points.shape[1]):
        raise InputError(f"X has {points.shape[1]} features: fitted on {dimensions}")
    if not np.isfinite(points).all():
        raise InputError("X: holds NaN or infinite values; all must be finite")
    return points


def check_labels(y: ArrayLike, rows: int) -> NDArray[np.uint8]:
    """Labels (n,) of 0 and 1."""
    labels = np.asarray(y)
    if labels.shape != (rows,):
        raise InputError(f"y of shape {labels.shape}: must be ({rows},)")
    if not np.isin(labels, (0, 1)).all():
        raise InputError("y: labels must be 0 or 1")
    return labels.astype(np.uint8)


def check_parameters(estimator: Any) -> None:
    """Refuse an ε, δ, side or seed out of range, by the names under which the estimator was given them."""
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
    """Refuse a value that is not above 0 and finite."""
    if not 0.0 < value < np.inf:
        raise InputError(f"{name} = {value}: must be above 0 and finite")


def default_delta(delta: float | None, rows: int) -> float:
    """δ, by default n^-2.

    Raises:
        InputError: there is one row only and no δ.
    """
    if delta is None and rows < 2:
        raise InputError("delta: n^-2 is 1 for a single row; give one between 0 and 1")
    return rows**-2.0 if delta is None else delta
