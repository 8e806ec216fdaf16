"""Histogram classifiers: by noisy votes (PCL, PCL2), by two stability-based histograms (PCL2b), without privacy."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from p2p_sim.base.errors import InputError
from p2p_sim.histograms.cell_estimator import (
    CellClassifier,
    check_parameters,
    check_points,
    check_positive,
    default_delta,
)
from p2p_sim.histograms.partitions import (
    CellNoise,
    CellTable,
    Cubes,
    Floats,
    Ints,
    Metric,
    Partition,
    Voronoi,
    cube_side,
    greedy_packing,
    warn_if_sparse,
)
from p2p_sim.privacy.bound import Adjacency, PrivacyBound
from p2p_sim.privacy.rivals.histograms import counts_epsilon, stability_threshold, vote_epsilon


class HistogramClassifier(CellClassifier):
    """The histogram rule without privacy: the majority in each cube of side n^(-1/(2d)) on [0, 1]^d; 0 in empty cubes.

    Args:
        side: of the cubes; by default n^(-1/(2d)).
    """

    partition_: Partition

    def __init__(self, side: float | None = None) -> None:
        self.side = side

    def _fit(self, points: Floats, labels: NDArray[np.uint8]) -> Self:
        check_parameters(self)
        self.partition_ = self._partition(points)
        cells = self.partition_.cells(points)
        self.table_ = CellTable.of(cells)
        rows = self.table_.find(cells)
        self.counts_ = np.bincount(rows).astype(np.float64)
        self.votes_ = np.bincount(rows, weights=labels) - 0.5 * self.counts_
        return self

    def _partition(self, points: Floats) -> Partition:
        rows, dimensions = points.shape
        cubes = Cubes(self.side or cube_side(rows, dimensions), unit_cube=True)
        warn_if_sparse(rows, dimensions, cubes.per_axis)
        return cubes

    def decision_function(self, X: ArrayLike) -> Floats:
        """Votes (n,) of the cell that holds each point: Σ (y_i - 1/2), plus the cell's noise if the rule is private."""
        return self._votes(self.partition_.cells(check_points(X, self.n_features_in_)))

    def _votes(self, cells: Ints) -> Floats:
        return self.table_.look_up(self.votes_, cells)

    def _share(self, points: Floats) -> Floats:
        return self._of_public_counts(self.partition_.cells(points))

    def _of_public_counts(self, cells: Ints) -> Floats:
        """Estimated share of ones (n,) in each of the cells (n, k): 1/2 + votes / count, cut to [0, 1]."""
        counts = np.maximum(self.table_.look_up(self.counts_, cells), 1.0)
        return np.clip(0.5 + self._votes(cells) / counts, 0.0, 1.0)


@dataclass(eq=False, repr=False)
class PCL(HistogramClassifier):
    """Private histogram rule on [0, 1]^d (Algorithm 2): (ε, 0)-private, and consistent for every law.

    Each cube, even an empty one, gets Laplace noise of scale 1/ε on Σ (y_i - 1/2), once: a query draws no noise. Points
    outside [0, 1]^d are moved to its boundary, with a warning. The counts of cells are not released: `predict_proba`
    divides by those of the uniform law, n r^d, which orders points by confidence and is not calibrated. Only the
    methods' answers are private: the fitted object holds the exact votes and the seed of the noise.

    Args:
        epsilon: ε, above 0. side: public side of the cubes; by default n^(-1/(2d)). random_state: seed of the noise;
            use another one for every release: two releases with the same noise, of other data or another ε, reveal
            votes.
    """

    epsilon: float = 1.0
    side: float | None = None
    random_state: int = 0

    def _fit(self, points: Floats, labels: NDArray[np.uint8]) -> Self:
        super()._fit(points, labels)
        self.noise_ = CellNoise.drawn(self.random_state, "votes", 1.0 / self.epsilon)
        self.usual_count_ = self.partition_.usual_count(*points.shape)
        return self

    def _votes(self, cells: Ints) -> Floats:
        return np.asarray(super()._votes(cells) + self.noise_.at(cells))

    def _share(self, points: Floats) -> Floats:
        return np.clip(0.5 + self._votes(self.partition_.cells(points)) / self.usual_count_, 0.0, 1.0)

    @property
    def released_cells(self) -> int:
        """Number of cells that have a noisy vote: all cells of the space, empty ones included."""
        return self.partition_.number(self.n_features_in_)

    def privacy(self, adjacency: Adjacency = "example") -> PrivacyBound:
        """ε bound of the noisy votes of all cells, for one example; or for one label, if features are public."""
        return vote_epsilon(self.epsilon, adjacency)


class LabelPrivateHistogram(PCL):
    """The votes of PCL with public features: label privacy at ε, with estimated shares by true counts.

    A changed label moves one cell's vote by 1, so the noise is PCL's. Empty cells, which are public, get no noise and
    answer 0.
    """

    def _votes(self, cells: Ints) -> Floats:
        return np.asarray(np.where(self.table_.find(cells) >= 0, super()._votes(cells), 0.0))

    def _share(self, points: Floats) -> Floats:
        return self._of_public_counts(self.partition_.cells(points))

    def privacy(self, adjacency: Adjacency = "label") -> PrivacyBound:
        """ε bound of the noisy votes, for one label.

        Raises:
            InputError: `adjacency` is "example", although features are public here.
        """
        if adjacency != "label":
            raise InputError("adjacency = 'example': empty cells are told apart; label privacy alone holds")
        return vote_epsilon(self.epsilon, "label")


class PCL2(PCL):
    """Private histogram rule on a bounded metric space (Algorithm 4): PCL on the Voronoi cells of a maximal r-packing.

    By default the space is [0, 1]^d with the supremum norm and the packing a grid, so that the cells are cubes.
    Otherwise the packing is chosen greedily from the public points `reference`: a packing from the sample would reveal
    who is in it.

    Args:
        epsilon: ε, above 0. radius: r, public; by default n^(-1/(4d)). random_state: seed of the noise.
        reference: (N, d) public points, or None. metric: of the space, where there is a reference.
        dimension: doubling dimension for the default r; by default d.
        centred: whether the grid's first centre is r/2 from 0 along each axis rather than at 0; both are maximal.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        radius: float | None = None,
        random_state: int = 0,
        *,
        reference: ArrayLike | None = None,
        metric: Metric = "euclidean",
        dimension: float | None = None,
        centred: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.radius = radius
        self.random_state = random_state
        self.reference = reference
        self.metric = metric
        self.dimension = dimension
        self.centred = centred

    def _partition(self, points: Floats) -> Partition:
        return packing_cells(self, points, bounded=True)


def packing_cells(rule: "PCL2 | PCL2b", points: Floats, *, bounded: bool) -> Partition:
    """The partition into Voronoi cells of a maximal r-packing, either a grid or chosen from a public reference set.

    Args:
        rule: its radius, reference, metric, dimension and centred. bounded: whether the space is [0, 1]^d, else R^d.

    Raises:
        InputError: r or the dimension is not above 0, or the reference set is the sample.
    """
    rows, dimensions = points.shape
    dimension = dimensions if rule.dimension is None else rule.dimension
    check_positive("dimension", dimension)
    r = float(rows ** (-1.0 / (4.0 * dimension))) if rule.radius is None else rule.radius
    check_positive("radius", r)
    if rule.reference is None:
        # Centres at 0, r, 2r, ... or at r/2, 3r/2, ..., up to 1: a packing lies within its space, and what is beyond
        # the last centre is nearest to it.
        count = max(1, math.floor(1.0 / r + 0.5 + 0.5 * (not rule.centred) + 1e-9)) if bounded else None
        cubes = Cubes(r, 0.0 if rule.centred else -r / 2.0, bounded, count)
        if bounded:
            warn_if_sparse(rows, dimensions, cubes.per_axis)
        return cubes
    public = check_points(rule.reference, dimensions)
    if np.shares_memory(public, points) or np.array_equal(public, points):
        raise InputError("reference: is the sample itself; the packing must come from public points")
    return Voronoi(greedy_packing(public, r, rule.metric), rule.metric)


@dataclass(frozen=True)
class StabilityHistogram:
    """Noisy counts of the cells whose noisy count passed a threshold (Algorithm 1); every other cell counts 0.

    table: of the m cells that passed; None if none did. counts: (m,) noisy, each at least the threshold.
    """

    table: CellTable | None
    counts: Floats

    @classmethod
    def of(cls, cells: Ints, epsilon: float, delta: float, seed: int, purpose: str = "counts") -> "StabilityHistogram":
        """The histogram of the cells (n, k), k >= 1, of n examples: Laplace noise of scale 2/ε, then the threshold.

        Only non-empty cells get noise.

        Args:
            cells: one row an example. epsilon: above 0; delta: in (0, 1). seed, purpose: which noise.

        Raises:
            ValueError: ε or δ is out of range.
        """
        threshold = stability_threshold(epsilon, delta)
        if not len(cells):
            return cls(None, np.zeros(0))
        table = CellTable.of(cells)
        noise = CellNoise.drawn(seed, purpose, 2.0 / epsilon).at(table.coordinates)
        noisy = np.bincount(table.find(cells)) + noise
        passed = noisy >= threshold
        if not passed.any():
            return cls(None, np.zeros(0))
        return cls(CellTable.of(table.coordinates[passed]), noisy[passed])

    @property
    def coordinates(self) -> Ints:
        """The m cells that passed the threshold, (m, k); (0, 0) if none did."""
        return np.zeros((0, 0), dtype=np.int64) if self.table is None else self.table.coordinates

    def at(self, cells: Ints) -> Floats:
        """Noisy count (n,) of each of the cells (n, k); 0 for a cell that did not pass."""
        return np.zeros(len(cells)) if self.table is None else self.table.look_up(self.counts, cells)


@dataclass(eq=False, repr=False)
class PCL2b(CellClassifier):
    """Private histogram rule on an unbounded metric space (Algorithm 5): (2ε, 2δ)-private, consistent for every law.

    It holds two stability-based histograms, of all examples and of those with label 1. A point gets class 1 if the
    second counts more than half of the first in its cell. Cells below the threshold answer 0.

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
        self.partition_: Partition = packing_cells(self, points, bounded=False)
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
        """Number of cells of the histogram of all examples that passed its threshold."""
        return len(self.all_.counts)

    def privacy(self) -> PrivacyBound:
        """Bound 2ε at 2δ of both histograms together, for one example."""
        return counts_epsilon(self.epsilon, self.delta_, histograms=2, num_rows=self.num_rows_)
