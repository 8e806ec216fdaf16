"""Partitions of a space into cells: cubes, and Voronoi cells of a packing. The partitions depend only on the number n
of rows and on public data.

A cell is given by a row of integers: the coordinates of a cube in a grid, or the number of a Voronoi cell. The cells
that contain a point of the sample are kept in a sorted table. Noise belongs to a cell, not to a query.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError, Streams, splitmix64

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Metric = str | Callable[..., float]
FARTHEST = 2.0**62
"""Largest coordinate of a cell; points beyond it belong to the outermost cells."""


@dataclass(frozen=True)
class Cubes:
    """A partition into cubes: cell j holds the points x with offset + j·side <= x < offset + (j+1)·side in each
    coordinate.

    The cubes centred on a grid of spacing r (offset = -r/2) are the Voronoi cells of a maximal r-packing of R^d in the
    supremum norm, for every d.

    Args:
        side: side of each cube, above 0. offset: coordinate of the first cube's corner along each axis. unit_cube:
        whether points outside [0, 1]^d are first moved to its boundary, with a warning. A cube that would begin at 1 is
        then joined to the cube before it. count: number of cubes along each axis of the unit cube; the last cube holds
        the rest of the axis. None: all cubes that begin below 1.
    """

    side: float
    offset: float = 0.0
    unit_cube: bool = False
    count: int | None = None

    def cells(self, points: Floats) -> Ints:
        """Integer coordinates (n, d) of the cube that holds each of the points (n, d)."""
        if self.unit_cube and points.size and (points.min() < 0.0 or points.max() > 1.0):
            outside = int(np.sum(np.any((points < 0.0) | (points > 1.0), axis=1)))
            warnings.warn(
                f"{outside} of {len(points)} points lie outside [0, 1]^{points.shape[1]}: moved to its boundary",
                stacklevel=4,
            )
            points = np.clip(points, 0.0, 1.0)
        scaled = (points - self.offset) / self.side
        np.clip(np.floor(scaled, out=scaled), -FARTHEST, FARTHEST if not self.unit_cube else self.per_axis - 1, scaled)
        return scaled.astype(np.int64)

    def number(self, dimensions: int) -> int:
        """The number of cubes in the unit cube of `dimensions` dimensions."""
        return int(self.per_axis**dimensions)

    def usual_count(self, rows: int, dimensions: int) -> float:
        """The expected number n r^d of rows in a cube of side r if n = `rows` rows are uniformly distributed on the
        unit cube. It is public, so votes can be divided by it instead of by the true counts of cubes, which are
        private.

        Args:
            rows: n. dimensions: d.
        """
        return float(rows * self.side**dimensions)

    @property
    def per_axis(self) -> int:
        """The number of cubes along each axis of the unit cube."""
        return self.count or math.ceil((1.0 - self.offset) / self.side - 1e-9)

    def edges(self) -> Floats:
        """The boundaries (per_axis + 1,) of the cubes along one axis of the unit cube, from 0 to 1."""
        return np.concatenate([[0.0], self.offset + self.side * np.arange(1, self.per_axis), [1.0]])


@dataclass(frozen=True, eq=False)
class Voronoi:
    """A partition into Voronoi cells: each point belongs to the nearest one of given centres.

    Args:
        centres: (m, d), public. metric: a name that scikit-learn's search trees know, or a function of two points. The
        function must be a metric, and makes searches slow.
    """

    centres: Floats
    metric: Metric = "euclidean"

    @cached_property
    def _tree(self) -> Any:
        return _search_tree(self.centres, self.metric)

    def cells(self, points: Floats) -> Ints:
        """For each of the points (n, d), the number of the nearest centre, as (n, 1)."""
        return np.asarray(self._tree.query(points, k=1, return_distance=False), dtype=np.int64)

    def number(self, dimensions: int) -> int:
        """The number of cells, one for each centre, in any dimension."""
        return len(self.centres)

    def usual_count(self, rows: int, dimensions: int) -> float:
        """The average number of rows in a cell: `rows` divided by the number of centres, in any dimension."""
        return rows / len(self.centres)


Partition = Cubes | Voronoi


def greedy_packing(reference: Floats, radius: float, metric: Metric = "euclidean") -> Floats:
    """A maximal r-packing (m, d) of a reference set (N, d): points of the set that are at least r = `radius` apart, and
    to which no other point of the set can be added.

    Points are chosen in the order of the rows. The reference set must be public: the chosen points reveal who is in it.

    Raises:
        InputError: the reference set is empty.
    """
    if not len(reference):
        raise InputError("reference: empty; a packing needs at least one public point")
    tree, free, chosen = _search_tree(reference, metric), np.ones(len(reference), dtype=np.bool_), []
    for row in range(len(reference)):
        if free[row]:
            chosen.append(row)
            near, distance = tree.query_radius(reference[row : row + 1], radius, return_distance=True)
            free[near[0][distance[0] < radius]] = False
    return reference[chosen]


def _search_tree(points: Floats, metric: Metric) -> Any:
    """A search tree for nearest neighbours: a k-d tree if the metric allows one, else a ball tree."""
    from sklearn.neighbors import BallTree, KDTree

    return (KDTree if metric in KDTree.valid_metrics else BallTree)(points, metric=metric)


def cube_side(rows: int, dimensions: int) -> float:
    """The default side r = n^(-1/(2d)) of the cubes of a private histogram classifier (PCL) or density estimate (PCDE).

    Args:
        rows: n, the number of rows. dimensions: d, the number of features.
    """
    return float(rows ** (-1.0 / (2 * dimensions)))


def even_side(rows: int, dimensions: int) -> float:
    """The smallest side of at least n^(-1/(2d)) that divides [0, 1] evenly: then all cubes of [0, 1]^d have full size.

    >>> even_side(1000, 1)
    0.03225806451612903
    """
    return 1.0 / int(1.0 / cube_side(rows, dimensions) + 1e-9)


def warn_if_sparse(rows: int, dimensions: int, per_axis: int) -> None:
    """Warn if a partition of the unit cube has more cubes than the sample has rows: most cubes are then empty, and an
    empty cube answers by its noise alone.

    Args:
        rows: number of rows of the sample. dimensions: d, the number of features. per_axis: number of cubes along each
        axis, so that there are per_axis^d cubes.
    """
    cells = float(per_axis) ** dimensions
    if cells > rows:
        warnings.warn(
            f"n = {rows} rows in d = {dimensions} dimensions: {cells:.3g} cells, most of them empty; "
            "an empty cell answers by its noise alone, which is a fair coin",
            stacklevel=3,
        )


class Level(NamedTuple):
    """The index of one coordinate in a table of cells.

    values: (v,) distinct values of the coordinate, ascending. codes: (c,) codes of the distinct prefixes, ascending. A
    prefix is a cell's coordinates up to and including this one. Its code is v times the index of the prefix that is one
    shorter, plus the index of this coordinate's value. So codes are ordered like prefixes, exactly and in any
    dimension.
    """

    values: Ints
    codes: Ints


@dataclass(frozen=True)
class CellTable:
    """An index of the distinct cells of a sample, in lexicographic order.

    coordinates: (m, k) coordinates of the m cells. levels: the index of each of the k coordinates.
    """

    coordinates: Ints
    levels: tuple[Level, ...]

    @classmethod
    def of(cls, cells: Ints) -> "CellTable":
        """The table of the m distinct cells among n cells (n, k)."""
        rows, levels = np.zeros(len(cells), dtype=np.int64), []
        for column in cells.T:
            values, at = np.unique(column, return_inverse=True)
            codes, rows = np.unique(rows * len(values) + at, return_inverse=True)
            levels.append(Level(values, codes))
        coordinates = np.empty((len(levels[-1].codes), cells.shape[1]), dtype=np.int64)
        coordinates[rows] = cells
        return cls(coordinates, tuple(levels))

    def find(self, cells: Ints) -> Ints:
        """The row (n,) in the table of each of the cells (n, k); -1 if the table lacks the cell. The table must not be
        empty.
        """
        rows = np.zeros(len(cells), dtype=np.int64)
        present = np.ones(len(cells), dtype=np.bool_)
        for level, column in zip(self.levels, cells.T, strict=True):
            at = _position(level.values, column)
            codes = rows * len(level.values) + at
            rows = _position(level.codes, codes)
            present &= (level.values[at] == column) & (level.codes[rows] == codes)
        return np.where(present, rows, -1)

    def look_up(self, values: Floats, cells: Ints) -> Floats:
        """The value (n,) of each of the cells (n, k), given values (m,) of the table's cells; 0 for other cells."""
        if not len(values):
            return np.zeros(len(cells))
        rows = self.find(cells)
        return np.where(rows >= 0, values[rows], 0.0)


def _position(ordered: Ints, numbers: Ints) -> Ints:
    """The index (n,) of each of the numbers in an ascending vector; arbitrary for a number that the vector lacks."""
    return np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)


@dataclass(frozen=True)
class CellNoise:
    """Laplace noise of every possible cell: a function of the seed and the cell, so that no noise is stored.

    The noise is for simulation, not to protect anyone: the generator is not cryptographic, and the noise has 53 bits.
    Two cells that differ before the last coordinate have the same address, and so by construction the same noise, with
    a probability of approximately 2**-64.

    Args:
        seed, purpose: they determine the noise; different purposes have independent noise. scale: of the Laplace law,
        above 0.
    """

    seed: int
    purpose: str
    scale: float

    def at(self, cells: Ints) -> Floats:
        """The noise (n,) of each of the cells (n, k); it is the same at every call."""
        # a uniform number minus 1/2; it never has the absolute value 1/2, where the noise is infinite
        centred = Streams(self.seed, 0).uniforms(f"histogram {self.purpose}").at(addresses(cells)) - (0.5 - 2.0**-54)
        return np.asarray(-self.scale * np.sign(centred) * np.log1p(-2.0 * np.abs(centred)))


def addresses(cells: Ints) -> NDArray[np.uint64]:
    """A 64-bit number (n,) for each of n cells, from which its noise is drawn. Cells that differ only in the last
    coordinate never have the same number. Other cells have the same number with a probability of approximately 2^-64.
    To this end, the coordinates before the last are hashed, and the last one is added.

    Args:
        cells: (n, k) k whole numbers that name each cell.
    """
    numbers = cells[:, 0].astype(np.uint64)
    for column in cells.T[1:]:
        numbers = splitmix64(0, numbers) + column.astype(np.uint64)
    return numbers
