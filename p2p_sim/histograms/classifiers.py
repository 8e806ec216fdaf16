"""Histogram classifiers: without privacy, with noisy votes (PCL, PCL2), and with two noisy histograms (PCL2b).

Algorithm numbers refer to Bousquet et al. (2022), "Private Bayes consistency". A cell's votes are the sum of y - 1/2
over the training examples in the cell. Here y is an example's label, 0 or 1. So the votes are positive if most labels
in the cell are 1.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from p2p_sim.base import InputError
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
from p2p_sim.privacy import Adjacency, PrivacyBound
from p2p_sim.privacy.rivals import counts_epsilon, stability_threshold, vote_epsilon


class HistogramClassifier(CellClassifier):
    """The histogram rule without privacy on [0, 1]^d: the majority label of each cube, and 0 for empty cubes.

    Args:
        side: side of the cubes; None: n^(-1/(2d)) for n rows of d features.
    """

    def __init__(self, side: float | None = None) -> None:
        self.side = side

    def _fit(self, points: Floats, labels: NDArray[np.uint8]) -> Self:
        check_parameters(self)
        self.partition_: Partition = self._partition(points)
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
        """The votes at each of the points X (n, d), as (n,); votes above 0 mean label 1. A point gets the votes of its
        cell, with noise if the rule is private.
        """
        return self._votes(self.partition_.cells(check_points(X, self.n_features_in_)))

    def _votes(self, cells: Ints) -> Floats:
        """The votes (n,) of the cells (n, k): the number of labels 1 minus half the number of all labels. A cube has
        k = d whole-number coordinates in the grid; any other cell has its number alone (k = 1). A cell without examples
        has 0 votes. Private subclasses add noise.
        """
        return self.table_.look_up(self.votes_, cells)

    def _share(self, points: Floats) -> Floats:
        # 1/2 + votes / count, with the exact counts of examples in the cells
        cells = self.partition_.cells(points)
        counts = np.maximum(self.table_.look_up(self.counts_, cells), 1.0)
        return np.clip(0.5 + self._votes(cells) / counts, 0.0, 1.0)


@dataclass(eq=False, repr=False)
class PCL(HistogramClassifier):
    """Private histogram rule on [0, 1]^d (Algorithm 2). It is (ε, 0)-private, and consistent for every law of the data.

    The votes of every cube, empty or not, get Laplace noise of scale 1/ε once; a query draws no noise. Points outside
    [0, 1]^d are moved to its boundary, with a warning. The counts of cells are not released. So `predict_proba` divides
    votes by n r^d, not by counts. If n rows are uniformly distributed, a cube of side r has n r^d rows on average. The
    result orders points by confidence, but is not calibrated. Only the answers of the methods are private: the fitted
    object contains the exact votes and the seed.

    Args:
        epsilon: ε, above 0. side: public side r of the cubes; None: n^(-1/(2d)). random_state: seed of the noise. Use a
        new seed for every release: two releases with the same noise reveal votes if the data or ε differ.
    """

    epsilon: float = 1.0
    side: float | None = None
    random_state: int = 0

    def _fit(self, points: Floats, labels: NDArray[np.uint8]) -> Self:
        super()._fit(points, labels)
        self.noise_ = CellNoise(self.random_state, "votes", 1.0 / self.epsilon)
        self.usual_count_ = self.partition_.usual_count(*points.shape)
        return self

    def _votes(self, cells: Ints) -> Floats:
        return np.asarray(super()._votes(cells) + self.noise_.at(cells))

    def _share(self, points: Floats) -> Floats:
        return np.clip(0.5 + self._votes(self.partition_.cells(points)) / self.usual_count_, 0.0, 1.0)

    @property
    def released_cells(self) -> int:
        """The number of cells whose noisy votes are released: all cells of the space, empty or not."""
        return self.partition_.number(self.n_features_in_)

    def privacy(self, adjacency: Adjacency = "example") -> PrivacyBound:
        """The statement that the noisy votes of all cells are private with this ε and δ = 0.

        Args:
            adjacency: the difference between neighbouring data sets. "example": one example (features and label) is
            replaced. "label": one label changes, and features are public.
        """
        return vote_epsilon(self.epsilon, adjacency)


class LabelPrivateHistogram(PCL):
    """The histogram rule with label privacy at ε, for public features: PCL's noisy votes, divided by exact counts.

    If a label changes, the votes of one cell change by 1. So PCL's noise suffices. Empty cells are public, get no noise
    and answer 0.
    """

    def _votes(self, cells: Ints) -> Floats:
        return np.asarray(np.where(self.table_.find(cells) >= 0, super()._votes(cells), 0.0))

    def _share(self, points: Floats) -> Floats:
        return HistogramClassifier._share(self, points)

    def privacy(self, adjacency: Adjacency = "label") -> PrivacyBound:
        """The statement that the noisy votes are private with this ε and δ = 0 if one label changes.

        Args:
            adjacency: must be "label".

        Raises:
            InputError: `adjacency` is "example", although features are public here.
        """
        if adjacency != "label":
            raise InputError("adjacency = 'example': empty cells are told apart; label privacy alone holds")
        return vote_epsilon(self.epsilon, "label")


class PCL2(PCL):
    """Private histogram rule on a bounded metric space (Algorithm 4): PCL on the Voronoi cells of a maximal r-packing.

    A maximal r-packing is a set of points at least r apart to which no point can be added. By default the space is [0,
    1]^d with the supremum norm, the packing is a grid, and the cells are cubes. Otherwise the packing is chosen
    greedily from the public points `reference`. A packing chosen from the sample would reveal who is in the sample.

    Args:
        epsilon: ε, above 0. radius: r, public; None: n^(-1/(4d)). random_state: seed of the noise. reference: (N, d)
        public points; None: the packing is a grid. metric: the metric of the space, used only with `reference`.
        dimension: doubling dimension of the space, which replaces d in the default r; None: d. centred: True: the
        grid's first centre is at r/2 along each axis; False: at 0. Both grids are maximal.
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
    """The partition of the feature space into Voronoi cells: each cell holds the points nearest to one centre. The
    centres are a maximal r-packing: centres are at least r apart, and no centre can be added. The centres form a grid,
    or are chosen from public points. With a grid, the cells are cubes of side r.

    Args:
        rule: the estimator; `PCL2` explains the parameters radius (r), dimension, reference, metric and centred.
        points: (n, d), the private sample; the partition depends only on its shape. bounded: True: a grid covers [0,
        1]^d; False: all of R^d.

    Raises:
        InputError: r or the dimension is out of range, or the reference set is malformed, empty or the sample itself.
    """
    rows, dimensions = points.shape
    dimension = dimensions if rule.dimension is None else rule.dimension
    check_positive("dimension", dimension)
    r = float(rows ** (-1.0 / (4.0 * dimension))) if rule.radius is None else rule.radius
    check_positive("radius", r)
    if rule.reference is None:
        # The centres are 0, r, 2r, ... or r/2, 3r/2, ..., up to 1, because a packing lies within the space. Points
        # beyond the last centre belong to the last cell.
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
class CellCounts:
    """Counts of examples by cell, exact or noisy. A cell that is not in the table has the count 0.

    table: the table of m cells. counts: (m,) one count for each cell of the table.
    """

    table: CellTable
    counts: Floats

    @classmethod
    def noisy(cls, cells: Ints, epsilon: float, delta: float, seed: int, purpose: str = "counts") -> "CellCounts":
        """The stability-based histogram (Algorithm 1). The count of each cell with examples gets Laplace noise of scale
        2/ε. A noisy count is kept if it reaches the threshold (2/ε) ln(2/δ) + 1. The scale is 2/ε because two counts
        change by 1 if one example is replaced.

        Args:
            cells: (n, k) the cell of each of n examples, as k >= 1 whole numbers. epsilon: ε, above 0. delta: δ in (0,
            1). seed: of the noise. purpose: a name; histograms with one seed and different names have independent
            noise.

        Raises:
            ValueError: ε or δ is out of range.
        """
        threshold, table = stability_threshold(epsilon, delta), CellTable.of(cells)
        noisy = np.bincount(table.find(cells)) + CellNoise(seed, purpose, 2.0 / epsilon).at(table.coordinates)
        passed = noisy >= threshold
        return cls(CellTable.of(table.coordinates[passed]), noisy[passed])

    def at(self, cells: Ints) -> Floats:
        """The count of each of the cells (n, k), as (n,)."""
        return self.table.look_up(self.counts, cells)


@dataclass(eq=False, repr=False)
class PCL2b(CellClassifier):
    """Private histogram rule on an unbounded metric space (Algorithm 5). It is (2ε, 2δ)-private, and consistent for
    every law of the data.

    Two noisy histograms are released: the number of all examples in each cell, and the number with label 1. Numbers
    below a threshold are not released, and count as 0. A point gets class 1 if its cell's first number is released, and
    the second number is more than half of the first.

    Args:
        epsilon: ε of each histogram, above 0: the classifier costs 2ε. delta: δ of each histogram; None: n^-2. radius:
        public r of the packing whose Voronoi cells are used; None: n^(-1/(4d)). random_state: seed of the noise.
        reference: (N, d) public points, from which the packing is chosen; None: the cells are cubes in R^d. metric: the
        metric of the space, used only with `reference`. dimension: doubling dimension of the space, which replaces d in
        the default r; None: d. centred: True: the centre of a cube is at r/2 along each axis; False: at 0.
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
        self.all_ = CellCounts.noisy(cells, *parameters, "all")
        self.ones_ = CellCounts.noisy(cells[labels == 1], *parameters, "ones")
        return self

    def _share(self, points: Floats) -> Floats:
        cells = self.partition_.cells(points)
        counts = self.all_.at(cells)
        return np.minimum(self.ones_.at(cells), counts) / np.where(counts > 0.0, counts, 1.0)

    @property
    def released_cells(self) -> int:
        """The number of cells that passed the threshold in the histogram of all examples."""
        return len(self.all_.counts)

    def privacy(self) -> PrivacyBound:
        """The statement that both histograms together are private with 2ε at 2δ if one example is replaced."""
        return counts_epsilon(self.epsilon, self.delta_, histograms=2, num_rows=self.num_rows_)
