"""A learner that predicts the majority class in each cube, and the errors of a released density."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.histograms import CellTable, Cubes, cube_side
from p2p_sim.learning.learner import SUMS, Floats, Learner, Loss, labels_in, normalised
from p2p_sim.measures import half_l1
from p2p_sim.mechanisms import DensityRelease, Predictor, ReleaseKind
from p2p_sim.population import Population

FIGURES = ("half_l1", "nonprivate_half_l1", "cells", "nonprivate_cells", "count_error")
"""Columns that a released density adds to a result row."""


def density_figures(people: Population, release: DensityRelease) -> dict[str, float | None]:
    """The errors of a released density of the users' features, as columns of a result row.

    half_l1: half the L1 distance from the true density. cells: the number of cells. count_error: the largest error of a
    noisy count in a cell that holds users; a cell that was not released has the count 0. nonprivate_half_l1,
    nonprivate_cells: half_l1 and cells of a density without privacy, with the same grid and the exact share of the
    users in each cell. The distances are None if the true density is not known. count_error is None if no counts are
    released.

    Args:
        people: the users, with their features. release: the density, which is constant on each cell of a grid. It has
        the cells' side length, the grid's origin, and each cell's coordinates and mass. It may have noisy counts.
    """
    from p2p_sim.histograms import HistogramDensity

    with np.errstate(over="ignore"):  # points too far away are in the outermost cell
        true = HistogramDensity(release.side).fit(DensityRelease.moved(people.features, release.origin))
    own = DensityRelease(true.coordinates_, true.masses_, release.side, release.origin)
    # half the L1 distance of each density from the users' law, and each density's number of cells
    law, densities = people.line_law, (release, own)
    distances = [
        None if law is None else half_l1(law, each.coordinates[:, 0], each.side, each.heights, each.origin)
        for each in densities
    ]
    sizes = [float(len(each.masses)) for each in densities]
    count_error = None
    if release.counts is not None:
        counts = CellTable.of(release.coordinates).look_up(release.counts, own.coordinates)
        count_error = float(np.max(np.abs(counts - own.masses * people.num_users)))
    return dict(zip(FIGURES, (*distances, *sizes, count_error), strict=True))


class HistogramConfig(Learner):
    """Predict in each cube of [0, 1]^d the class with the largest sum of weights there, and class 0 in empty cubes.

    This is the rule of *Private Bayes consistency* (Bousquet et al. 2022) without its noise. Labels that are private
    already, for example exchanged labels, need no more noise. A comparison with `private_histogram` shows what privacy
    costs.
    """

    kind: Literal["histogram"] = "histogram"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = SUMS
    loss: ClassVar[Loss] = "zero_one"
    takes_counts: ClassVar[bool] = True
    side: float | None = Field(default=None, gt=0, le=1)
    """Side of the cubes, above 0 and at most 1; absent: n^(-1/(2d)), where n labels arrive."""
    low: float = 0.0
    """Feature value that becomes 0 after scaling. A value outside [low, high] is moved to the nearer end."""
    high: float = 1.0
    """Feature value that becomes 1 after scaling, above `low`."""

    @model_validator(mode="after")
    def _ordered(self) -> "HistogramConfig":
        if not self.low < self.high:
            raise ValueError(f"low = {self.low:g}: must be below high = {self.high:g}")
        return self

    def fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """The predictor learned from m labels. In each cube, the weights of each class are summed over the cube's rows.

        Args:
            features: (m, d). weights: (m, K) weights of the K classes in each label.
        """
        labels = int(labels_in(weights).sum())
        cubes = Cubes(self.side or cube_side(max(labels, 1), features.shape[1]), unit_cube=True)
        if not len(features):
            return _Cubes(self, cubes, None, np.zeros((1, weights.shape[1])))
        cells = cubes.cells(self._scaled(features))
        table = CellTable.of(cells)
        rows = table.find(cells)
        sums = np.stack([np.bincount(rows, column, len(table.coordinates)) for column in weights.T], axis=1)
        return _Cubes(self, cubes, table, np.vstack([sums, np.zeros(weights.shape[1])]))

    def _scaled(self, features: NDArray[np.floating]) -> Floats:
        return np.asarray(np.clip((features.astype(np.float64) - self.low) / (self.high - self.low), 0.0, 1.0))


@dataclass(frozen=True)
class _Cubes:
    """A predictor from sums of weights in cubes.

    table: the m cubes that have labels; None: no cube has any. sums: (m + 1, K) sums of weights in these cubes; the
    last row is for all other cubes.
    """

    config: HistogramConfig
    cubes: Cubes
    table: CellTable | None
    sums: Floats

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """Predicted class probabilities (n, K): the positive parts of the cube's sums, divided by their total. Without
        positive sums, each class has probability 1/K.
        """
        cells = self.cubes.cells(self.config._scaled(features))
        cell = np.full(len(cells), -1) if self.table is None else self.table.find(cells)
        return normalised(np.maximum(self.sums[cell], 0.0) + 1e-12)
