"""Histogram density estimates, which are constant on cubes: one without privacy, and a private one (PCDE). Algorithm
and remark numbers refer to Bousquet et al. (2022), "Private Bayes consistency".
"""

import warnings
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, DensityMixin

from p2p_sim.base import InputError
from p2p_sim.histograms.cell_estimator import check_parameters, check_points, default_delta
from p2p_sim.histograms.classifiers import CellCounts
from p2p_sim.histograms.partitions import CellTable, Cubes, Floats, Ints, cube_side
from p2p_sim.privacy import PrivacyBound
from p2p_sim.privacy.rivals import counts_epsilon


class HistogramDensity(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """The histogram density estimate without privacy, on cubes of side n^(-1/(2d)) in R^d.

    Args:
        side: side of the cubes; None: n^(-1/(2d)) for n rows.

    Attributes:
        coordinates_: (m, d) the cubes of positive density. masses_: (m,) the probability mass of each cube. heights_:
        (m,) the density in each cube.
    """

    normalise: bool = False  # exact counts add up to n already

    def __init__(self, side: float | None = None) -> None:
        self.side = side

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn from points X (n, d), and return this object; `y` is ignored.

        Raises:
            InputError: shapes or parameters are out of range.
        """
        points = check_points(X)
        rows, self.n_features_in_ = points.shape
        check_parameters(self)
        self.cubes_ = Cubes(self.side or cube_side(*points.shape))
        self.histogram_ = self._count(self.cubes_.cells(points))
        self.coordinates_, counts = self.histogram_.table.coordinates, self.histogram_.counts
        self.masses_ = counts / (counts.sum() if self.normalise else rows)
        return self

    def _count(self, cells: Ints) -> CellCounts:
        """The number of examples in each cell, given the cube (n, d) of each example. Private subclasses return noisy
        counts.
        """
        table = CellTable.of(cells)
        return CellCounts(table, np.bincount(table.find(cells)).astype(np.float64))

    @property
    def heights_(self) -> Floats:
        """The density (m,) in each of the m cubes in `coordinates_`."""
        return np.asarray(self.masses_ / self.cubes_.side**self.n_features_in_)

    def score_samples(self, X: ArrayLike) -> Floats:
        """The log density at each of the points X (n, d), as (n,); -inf if the density is 0."""
        cells = self.cubes_.cells(check_points(X, self.n_features_in_))
        with np.errstate(divide="ignore"):
            return np.log(self.histogram_.table.look_up(self.heights_, cells))

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw points (count, d) from the estimated density, normalised to mass 1.

        Raises:
            InputError: the density is 0 everywhere.
        """
        if not len(self.masses_):
            raise InputError(
                "sample: no cell passed the threshold, so there is no density; use more rows or a larger ε"
            )
        cell = rng.choice(len(self.masses_), count, p=self.masses_ / self.masses_.sum())
        return (self.coordinates_[cell] + rng.random((count, self.n_features_in_))) * self.cubes_.side


@dataclass(eq=False, repr=False)
class PCDE(HistogramDensity):
    """Private density estimate on R^d (Algorithm 3). It is (ε, δ)-private, and consistent in total variation for every
    law of the data. A cube has a positive density only if its noisy count reaches the threshold (2/ε) ln(2/δ) + 1.

    Args:
        epsilon: ε, above 0. delta: δ in (0, 1); None: n^-2 for n rows. normalise: True: divide counts by their noisy
        total (Remark 4.1); False: divide by n. At moderate n many cells are below the threshold; division by the total
        moves their mass to the other cells. side: public side of the cubes; None: n^(-1/(2d)). random_state: seed of
        the noise.
    """

    epsilon: float = 1.0
    delta: float | None = None
    normalise: bool = True
    side: float | None = None
    random_state: int = 0

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn the density from points, and return this object. Warn if no noisy count reaches the threshold: then the
        density is 0 everywhere.

        Args:
            X: (n, d). y: ignored.

        Raises:
            InputError: X is not a finite (n, d) array, or ε, δ, the side or the seed is out of range.
        """
        super().fit(X)
        if not len(self.masses_):
            warnings.warn(
                f"no cell of {self.num_rows_} rows passed the threshold: the estimated density is 0 everywhere",
                stacklevel=2,  # at the line that called `fit`
            )
        return self

    def _count(self, cells: Ints) -> CellCounts:
        """The noisy counts that reach the threshold, with their cells, given the cube (n, d) of each example."""
        self.delta_, self.num_rows_ = default_delta(self.delta, len(cells)), len(cells)
        return CellCounts.noisy(cells, self.epsilon, self.delta_, self.random_state)

    def privacy(self) -> PrivacyBound:
        """The statement that the released density is (ε, δ)-private if one example is replaced."""
        return counts_epsilon(self.epsilon, self.delta_, num_rows=self.num_rows_)
