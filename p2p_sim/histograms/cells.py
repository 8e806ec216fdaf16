"""Sorted tables of the non-empty cells, noise that belongs to a cell, and what the estimators on cells share.

A cell is a row of integer coordinates: of a cube in a grid, or the number of a Voronoi cell.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, DensityMixin

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams, Uniforms, splitmix64

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CellTable:
    """The distinct cells of a sample, in lexicographic order.

    coordinates: (m, k) int64. levels: per coordinate its distinct values, and the distinct codes "place of the
    coordinates so far, then of this value" (m', ) whose order is that of the prefixes; exact in any dimension.
    """

    coordinates: Ints
    levels: tuple[tuple[Ints, Ints], ...]

    @classmethod
    def of(cls, cells: Ints) -> tuple["CellTable", Ints]:
        """The table of cells (n, k), and the place of each row in it (n,)."""
        place, levels = np.zeros(len(cells), dtype=np.int64), []
        for column in cells.T:
            values, at = np.unique(column, return_inverse=True)
            codes, place = np.unique(place * len(values) + at, return_inverse=True)
            levels.append((values, codes))
        coordinates = np.empty((len(levels[-1][1]), cells.shape[1]), dtype=np.int64)
        coordinates[place] = cells
        return cls(coordinates, tuple(levels)), place

    def find(self, cells: Ints) -> Ints:
        """Place in the table of each of the cells (n, k), or -1."""
        place = np.zeros(len(cells), dtype=np.int64)
        known = np.ones(len(cells), dtype=np.bool_)
        for (values, codes), column in zip(self.levels, cells.T, strict=True):
            at, there = _position(values, column)
            known &= there
            place, there = _position(codes, place * len(values) + at)
            known &= there
        return np.where(known, place, -1)

    def look_up(self, values: Floats, cells: Ints) -> Floats:
        """`values` (m,) of the table's cells, at each of the cells (n, k); 0 where the table has none."""
        place = self.find(cells)
        return np.where(place >= 0, values[place], 0.0)


def _position(ordered: Ints, wanted: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Where each wanted number stands in an ascending vector, and whether it is there at all."""
    at = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return at, ordered[at] == wanted


@dataclass(frozen=True)
class CellNoise:
    """Laplace noise of every possible cell: a function of seed and cell, so it is drawn once and never stored.

    For simulation, not to protect anyone: the generator is not cryptographic and the noise has 53 bits. Two cells of
    different prefixes (all coordinates but the last) share their noise with probability about 2**-64.

    Args:
        numbers: the stream that is looked up. scale: of the Laplace law, above 0.
    """

    numbers: Uniforms
    scale: float

    @classmethod
    def drawn(cls, seed: int, purpose: str, scale: float) -> "CellNoise":
        """The noise of this seed, independent for each purpose."""
        return cls(Streams(seed, 0).uniforms(f"histogram {purpose}"), scale)

    def at(self, cells: Ints) -> Floats:
        """The noise of each of the cells (n, k)."""
        centred = self.numbers.at(_address(cells)) - (0.5 - 2.0**-54)  # never 1/2 from 0, where the noise is infinite
        return np.asarray(-self.scale * np.sign(centred) * np.log1p(-2.0 * np.abs(centred)))


def _address(cells: Ints) -> NDArray[np.uint64]:
    """One 64-bit number a cell: one to one in the last coordinate, the others scrambled into it."""
    address = cells[:, 0].astype(np.uint64)
    for column in cells.T[1:]:
        address = splitmix64(0, address) + column.astype(np.uint64)
    return address


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
    given = estimator.get_params(deep=False)
    for name in ("epsilon", "side"):
        value = given.get(name)
        if name in given and not (value is None and name == "side") and not 0.0 < value < np.inf:
            raise InputError(f"{name} = {value}: must be above 0 and finite")
    delta = given.get("delta")
    if delta is not None and not 0.0 < delta < 1.0:
        raise InputError(f"delta = {delta}: must lie strictly between 0 and 1")
    seed = given.get("random_state", 0)
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"random_state = {seed}: must be an integer of at least 0, on which the noise depends")


def default_delta(delta: float | None, rows: int) -> float:
    """δ, by default n^-2.

    Raises:
        InputError: there is one row only and no δ.
    """
    if delta is None and rows < 2:
        raise InputError("delta: n^-2 is 1 for a single row; give one between 0 and 1")
    return rows**-2.0 if delta is None else delta


def warn(message: str) -> None:
    """A warning at the line that called the estimator's method."""
    warnings.warn(message, stacklevel=4)
