"""How near a released density is to the law. Metrics alone may look at true features."""

import numpy as np
from numpy.typing import NDArray

from p2p_sim.histograms.cells import CellTable
from p2p_sim.measures.exact_laws import half_l1
from p2p_sim.mechanisms.outcome import DensityRelease
from p2p_sim.population.population import Population

FIGURES = ("half_l1", "nonprivate_half_l1", "cells", "nonprivate_cells", "count_error")
"""Columns of a row that a released density adds."""


def density_figures(people: Population, release: DensityRelease) -> dict[str, float | None]:
    """The columns of `FIGURES`; None where the law is not known, or no counts are released.

    Without privacy the same cells are counted without noise, none is left out, and counts are divided by n.
    """
    from p2p_sim.histograms.densities import HistogramDensity

    with np.errstate(over="ignore"):  # what lies too far away is in the outermost cell
        true = HistogramDensity(release.side).fit(DensityRelease.moved(people.features, release.origin))
    own = DensityRelease(true.coordinates_, true.masses_, release.side, release.origin)
    found = (
        *(_distance(people, density) for density in (release, own)),
        float(len(release.masses)),
        float(len(own.masses)),
        _count_error(release, own, people.num_users),
    )
    return dict(zip(FIGURES, found, strict=True))


def _distance(people: Population, density: DensityRelease) -> float | None:
    """Half the L1 distance from the law, exact to rounding; None if the law is not known."""
    if people.line_law is None:
        return None
    cells, side = density.coordinates[:, 0], density.side
    return half_l1(people.line_law, cells, side, density.heights, density.origin)


def _count_error(release: DensityRelease, own: DensityRelease, users: int) -> float | None:
    """The largest difference between a cell's released count, 0 if it is left out, and its true one."""
    if release.counts is None:
        return None
    counts: NDArray[np.float64] = np.zeros(len(own.masses))
    if len(release.counts):
        counts = CellTable.of(release.coordinates)[0].look_up(release.counts, own.coordinates)
    return float(np.max(np.abs(counts - own.masses * users)))
