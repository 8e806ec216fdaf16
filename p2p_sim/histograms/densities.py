"""Histogram density estimates: private (PCDE), and without privacy."""

import warnings
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from p2p_sim.base.errors import InputError
from p2p_sim.histograms.cell_estimator import CellDensity, check_parameters, check_points, default_delta
from p2p_sim.histograms.classifiers import StabilityHistogram
from p2p_sim.histograms.partitions import CellTable, Cubes, Floats, Ints, cube_side
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.rivals.histograms import counts_epsilon


class CellCounts(NamedTuple):
    """Cells (m, d) with their counts (m,), which may be noisy; all other cells count 0."""

    coordinates: Ints
    counts: Floats


class HistogramDensity(CellDensity):
    """The histogram density estimate without privacy, on cubes of side n^(-1/(2d)) in R^d.

    Fitted: `coordinates_` (m, d), the cubes of positive density; `masses_` (m,), their masses; `heights_` (m,).

    Args:
        side: of the cubes; by default n^(-1/(2d)).
    """

    normalise: bool = False  # the counts add up to n

    def __init__(self, side: float | None = None) -> None:
        self.side = side

    def _fit(self, points: Floats) -> Self:
        check_parameters(self)
        rows, dimensions = points.shape
        self.cubes_ = Cubes(self.side or cube_side(rows, dimensions))
        counted = self._count(self.cubes_.cells(points))
        self.coordinates_ = counted.coordinates
        self.masses_ = counted.counts / (counted.counts.sum() if self.normalise else rows)
        return self

    def _count(self, cells: Ints) -> CellCounts:
        table = CellTable.of(cells)
        return CellCounts(table.coordinates, np.bincount(table.find(cells)).astype(np.float64))

    @property
    def heights_(self) -> Floats:
        """Density (m,) in each of the cubes `coordinates_`."""
        return np.asarray(self.masses_ / self.cubes_.side**self.n_features_in_)

    def score_samples(self, X: ArrayLike) -> Floats:
        """Log density (n,) at each of the points X (n, d); -inf where the density is 0."""
        cells = self.cubes_.cells(check_points(X, self.n_features_in_))
        heights = np.zeros(len(cells))
        if len(self.masses_):
            heights = CellTable.of(self.coordinates_).look_up(self.heights_, cells)
        with np.errstate(divide="ignore"):
            return np.log(heights)

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """Draws points (count, d) from the estimated density, normalised to mass 1.

        Raises:
            InputError: the density is 0 everywhere.
        """
        if not len(self.masses_):
            raise InputError(
                "sample: no cell passed the threshold, so there is no density; use more rows or a larger ε"
            )
        cell = rng.choice(len(self.masses_), count, p=self.masses_ / self.masses_.sum())
        corner = self.coordinates_[cell] + rng.random((count, self.n_features_in_))
        return np.asarray(corner * self.cubes_.side)


@dataclass(eq=False, repr=False)
class PCDE(HistogramDensity):
    """Private density estimate on R^d (Algorithm 3): (ε, δ)-private, and consistent in total variation for every law.

    Args:
        epsilon: ε, above 0. delta: δ in (0, 1), by default n^-2.
        normalise: divide by the noisy total (Remark 4.1) rather than by n; at moderate n many cells fall below the
            threshold, and this moves their mass to the others.
        side: public side of the cubes; by default n^(-1/(2d)). random_state: seed of the noise.
    """

    epsilon: float = 1.0
    delta: float | None = None
    normalise: bool = True
    side: float | None = None
    random_state: int = 0

    def _fit(self, points: Floats) -> Self:
        self.delta_, self.num_rows_ = default_delta(self.delta, len(points)), len(points)
        super()._fit(points)
        if not len(self.masses_):
            message = f"no cell of {len(points)} rows passed the threshold: the estimated density is 0 everywhere"
            warnings.warn(message, stacklevel=3)  # at the line that called `fit`
        return self

    def _count(self, cells: Ints) -> CellCounts:
        self.histogram_ = StabilityHistogram.of(cells, self.epsilon, self.delta_, self.random_state)
        return CellCounts(self.histogram_.coordinates, self.histogram_.counts)

    def privacy(self) -> PrivacyBound:
        """Bound ε at δ of the released density, for one example."""
        return counts_epsilon(self.epsilon, self.delta_, num_rows=self.num_rows_)
