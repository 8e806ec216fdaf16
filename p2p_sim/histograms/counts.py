"""The stability-based histogram, and the classifier of two of them on unbounded spaces (PCL2b)."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from p2p_sim.histograms.cell_estimator import CellClassifier, check_parameters, default_delta
from p2p_sim.histograms.cells import CellNoise, CellTable
from p2p_sim.histograms.classifiers import packing_cells
from p2p_sim.histograms.partitions import Metric, Partition
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.rivals.histograms import counts_epsilon, stability_threshold

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class StabilityHistogram:
    """Noisy counts of the cells that passed a threshold (Algorithm 1); every other cell counts 0.

    coordinates: (m, k) cells in lexicographic order. counts: (m,) noisy, each at least the threshold.
    epsilon, delta: its parameters.
    """

    table: CellTable | None
    counts: Floats
    epsilon: float
    delta: float

    @classmethod
    def of(cls, cells: Ints, epsilon: float, delta: float, seed: int, purpose: str = "counts") -> "StabilityHistogram":
        """Count the cells (n, k), any k >= 1: Laplace noise of scale 2/ε on non-empty ones, kept from the threshold on.

        Args:
            cells: one row an example. epsilon: above 0; delta: in (0, 1). seed, purpose: which noise.

        Raises:
            ValueError: ε or δ is out of range.
        """
        threshold = stability_threshold(epsilon, delta)
        if not len(cells):
            return cls(None, np.zeros(0), epsilon, delta)
        table, place = CellTable.of(cells)
        noisy = np.bincount(place) + CellNoise.drawn(seed, purpose, 2.0 / epsilon).at(table.coordinates)
        kept = noisy >= threshold
        if not kept.any():
            return cls(None, np.zeros(0), epsilon, delta)
        return cls(CellTable.of(table.coordinates[kept])[0], noisy[kept], epsilon, delta)

    @property
    def coordinates(self) -> Ints:
        """The cells that passed, (m, k); (0, 0) if none did."""
        return np.zeros((0, 0), dtype=np.int64) if self.table is None else self.table.coordinates

    def at(self, cells: Ints) -> Floats:
        """The noisy count of each of the cells (n, k)."""
        return np.zeros(len(cells)) if self.table is None else self.table.look_up(self.counts, cells)

    def privacy(self) -> PrivacyBound:
        """What the counts say of one example, whatever the number of examples."""
        return counts_epsilon(self.epsilon, self.delta)


@dataclass(eq=False, repr=False)
class PCL2b(CellClassifier):
    """Private histogram rule on an unbounded metric space (Algorithm 5): (2ε, 2δ), and consistent for every law.

    Two stability-based histograms, of all examples and of those with label 1; a point is 1 if more than half of its
    cell's noisy count is. Cells below the threshold answer 0.

    Args:
        epsilon: ε of each histogram, above 0: the classifier costs 2ε. delta: δ of each, by default n^-2.
        radius, random_state, reference, metric, dimension, centred: as for PCL2; without reference the cells are cubes
            in R^d.
    """

    epsilon: float = 1.0
    delta: float | None = None
    radius: float | None = None
    random_state: int = 0
    reference: ArrayLike | None = None
    metric: Metric = "euclidean"
    dimension: float | None = None
    centred: bool = False

    def _fit(self, points: Floats, labels: NDArray[np.uint8]) -> Self:
        check_parameters(self)
        self.delta_, self.num_rows_ = default_delta(self.delta, len(points)), len(points)
        self.partition_: Partition = packing_cells(
            points, self.radius, self.reference, self.metric, self.dimension, False, self.centred
        )
        cells, parameters = self.partition_.cells(points), (self.epsilon, self.delta_, self.random_state)
        self.all_ = StabilityHistogram.of(cells, *parameters, "all")
        self.ones_ = StabilityHistogram.of(cells[labels == 1], *parameters, "ones")
        return self

    def _share(self, points: Floats) -> Floats:
        cells = self.partition_.cells(points)
        counts = self.all_.at(cells)
        ones = np.minimum(self.ones_.at(cells), counts)
        return ones / np.where(counts > 0.0, counts, 1.0)

    @property
    def released_cells(self) -> int:
        """Cells of the first histogram that passed its threshold."""
        return len(self.all_.counts)

    def privacy(self) -> PrivacyBound:
        """What both histograms say of one example: 2ε at 2δ."""
        return counts_epsilon(self.epsilon, self.delta_, histograms=2, num_rows=self.num_rows_)
