"""The input checks of all histogram estimators, and the base class of their classifiers."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from p2p_sim.base import InputError
from p2p_sim.histograms.partitions import Floats, Ints


class CellClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of classifiers with the labels 0 and 1 that give one answer in each cell of a partition of the feature
    space.
    """

    n_features_in_: int

    classes_ = np.array([0, 1])

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from features X (n, d) and labels y (n,), each 0 or 1, and return this object.

        Raises:
            InputError: shapes, labels or parameters are out of range.
        """
        points = check_points(X)
        self.n_features_in_ = points.shape[1]
        return self._fit(points, check_labels(y, len(points)))

    def _fit(self, points: Floats, labels: NDArray[np.uint8]) -> Self:
        """Learn what each cell answers, and return this object. Points (n, d) and labels (n,) have been checked."""
        raise NotImplementedError

    def _share(self, points: Floats) -> Floats:
        """The estimated probability of label 1 at each of the points (n, d), as (n,)."""
        raise NotImplementedError

    def predict_proba(self, X: ArrayLike) -> Floats:
        """The estimated class probabilities at the points X (n, d), as (n, 2)."""
        share = self._share(check_points(X, self.n_features_in_))
        return np.column_stack([1.0 - share, share])

    def predict(self, X: ArrayLike) -> Ints:
        """The more probable class at each of the points X (n, d), as (n,); class 0 if both are equally probable."""
        return (self._share(check_points(X, self.n_features_in_)) > 0.5).astype(np.int64)


def check_points(X: ArrayLike, dimensions: int | None = None) -> Floats:
    """The points X as an array of finite doubles (n, d).

    Args:
        X: the points. dimensions: the d that X must have; None: any d is allowed, and X must have at least one row.

    Raises:
        InputError: the shape is wrong, or a value is NaN or infinite.
    """
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] == 0 or (dimensions is None and not len(points)):
        raise InputError(f"X of shape {points.shape}: must be (n, d) with d >= 1 and, to fit, n >= 1")
    if dimensions not in (None, points.shape[1]):
        raise InputError(f"X has {points.shape[1]} features: fitted on {dimensions}")
    if not np.isfinite(points).all():
        raise InputError("X: holds NaN or infinite values; all must be finite")
    return points


def check_labels(y: ArrayLike, rows: int) -> NDArray[np.uint8]:
    """The labels y (n,) as bytes.

    Args:
        y: 0 or 1 for each row. rows: n, the required number of labels.

    Raises:
        InputError: the shape is wrong, or a label is neither 0 nor 1.
    """
    labels = np.asarray(y)
    if labels.shape != (rows,):
        raise InputError(f"y of shape {labels.shape}: must be ({rows},)")
    if not np.isin(labels, (0, 1)).all():
        raise InputError("y: labels must be 0 or 1")
    return labels.astype(np.uint8)


def check_parameters(estimator: Any) -> None:
    """Check the parameters of a histogram estimator. epsilon (ε) and side (the side length of the cubes) must be finite
    and above 0. delta (δ) must be in (0, 1). random_state (the seed of the noise) must be a whole number of at least 0.
    A parameter may be missing. A parameter other than the seed may be None.

    Raises:
        InputError: a parameter is out of range; the text names it.
    """
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
    """The given δ, or n^-2 for n rows if δ is None.

    Raises:
        InputError: δ is None and there is only one row.
    """
    if delta is None and rows < 2:
        raise InputError("delta: n^-2 is 1 for a single row; give one between 0 and 1")
    return rows**-2.0 if delta is None else delta
