"""Partitions of a space into cells: cubes, and Voronoi cells of a packing. A partition depends only on the number n of
rows and on public data.

A cell is a row of integers: the coordinates of a cube in a grid, or the number of a Voronoi cell. A sorted table has
the cells that contain a point of the sample. Noise belongs to a cell, not to a query.
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
"""Largest absolute value of a cell's coordinate. Points farther out belong to the outermost cells."""


@dataclass(frozen=True)
class Cubes:
    """A partition into cubes. Cell j holds the points x with offset + j·side <= x < offset + (j+1)·side in each
    coordinate.

    A maximal r-packing is a set of points at least r apart to which no point can be added. A grid of spacing r is a
    maximal r-packing of R^d in the supremum norm. Cubes with side r and offset -r/2 are the Voronoi cells of this grid.

    Args:
        side: side of each cube, above 0. offset: coordinate of the first cube's corner along each axis. unit_cube:
        whether points outside [0, 1]^d are first moved to its boundary, with a warning. Then a cube that would begin at
        1 is joined to the cube before. count: number of cubes along each axis of the unit cube; the last cube holds the
        rest of the axis. None: all cubes that begin below 1.
    """

    side: float
    offset: float = 0.0
    unit_cube: bool = False
    count: int | None = None

    def cells(self, points: Floats) -> Ints:
        """The integer coordinates of each point's cube, (n, d), for points (n, d)."""
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
        """The number of cubes in the unit cube of `dimensions` dimensions: per_axis to the power `dimensions`."""
        return int(self.per_axis**dimensions)

    def usual_count(self, rows: int, dimensions: int) -> float:
        """The mean number n r^d of rows in a cube of side r if n rows are uniformly distributed on the unit cube. This
        number is public. Private rules divide votes by this number, because the exact counts of cubes are private.

        Args:
            rows: n. dimensions: d.
        """
        return float(rows * self.side**dimensions)

    @property
    def per_axis(self) -> int:
        """The number of cubes along each axis of the unit cube: `count`, or else all that begin below 1."""
        return self.count or math.ceil((1.0 - self.offset) / self.side - 1e-9)

    def edges(self) -> Floats:
        """The boundaries (per_axis + 1,) of the cubes along one axis of the unit cube, from 0 to 1."""
        return np.concatenate([[0.0], self.offset + self.side * np.arange(1, self.per_axis), [1.0]])


@dataclass(frozen=True, eq=False)
class Voronoi:
    """A partition into Voronoi cells: each point belongs to the nearest of the given centres.

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
        """The number of the nearest centre, (n, 1), for each of the points (n, d)."""
        return np.asarray(self._tree.query(points, k=1, return_distance=False), dtype=np.int64)

    def number(self, dimensions: int) -> int:
        """The number of cells, one for each centre, in any dimension."""
        return len(self.centres)

    def usual_count(self, rows: int, dimensions: int) -> float:
        """The average number of rows in a cell: `rows` divided by the number of centres, in any dimension."""
        return rows / len(self.centres)


Partition = Cubes | Voronoi


def greedy_packing(reference: Floats, radius: float, metric: Metric = "euclidean") -> Floats:
    """A maximal r-packing (m, d) of a reference set (N, d). Its points are in the set and at least r = `radius` apart,
    and no other point of the set can be added.

    Points are chosen in the order of the rows. The reference set must be public: the chosen points reveal who is in the
    set.

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
    """A search tree for nearest neighbours: a k-d tree if the metric allows one, otherwise a ball tree."""
    from sklearn.neighbors import BallTree, KDTree

    return (KDTree if metric in KDTree.valid_metrics else BallTree)(points, metric=metric)


def cube_side(rows: int, dimensions: int) -> float:
    """The default side of cubes: r = n^(-1/(2d)).

    Args:
        rows: n, the number of rows. dimensions: d, the number of features.
    """
    return float(rows ** (-1.0 / (2 * dimensions)))


def even_side(rows: int, dimensions: int) -> float:
    """The smallest side of at least n^(-1/(2d)) with which cubes of full size fill [0, 1]^d.

    >>> even_side(1000, 1)
    0.03225806451612903
    """
    return 1.0 / int(1.0 / cube_side(rows, dimensions) + 1e-9)


def warn_if_sparse(rows: int, dimensions: int, per_axis: int) -> None:
    """Warn if a partition of the unit cube has more cubes than the sample has rows. Most cubes are then empty. An
    empty cube answers by noise alone, or 0 if empty cubes get no noise.

    Args:
        rows: number of rows of the sample. dimensions: d, the number of features. per_axis: number of cubes along each
        axis, so the total is per_axis^d.
    """
    cells = float(per_axis) ** dimensions
    if cells > rows:
        warnings.warn(
            f"n = {rows} rows in d = {dimensions} dimensions: {cells:.3g} cells, most of them empty; "
            "an empty cell answers by noise alone (a fair coin), or 0 if empty cells get no noise",
            stacklevel=3,
        )


class Level(NamedTuple):
    """The index of one coordinate in a table of cells.

    values: (v,) distinct values of the coordinate, ascending. codes: (c,) codes of the distinct prefixes, ascending. A
    prefix is a cell's coordinates up to and including this one. The code of a prefix is v times the index of the prefix
    without the last coordinate, plus the index of the last coordinate's value. So codes have the order of the prefixes.
    """

    values: Ints
    codes: Ints


@dataclass(frozen=True)
class CellTable:
    """An index of the distinct cells of a sample, in lexicographic order.

    coordinates: (m, k) the k coordinates of each of m cells. levels: the index of each coordinate.
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
        """The row of each of the cells (n, k) in the table, as (n,); -1 if the table lacks the cell. The table must not
        be empty.
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
        """The value of each of the cells (n, k), as (n,), given values (m,) of the table's cells. Other cells have the
        value 0.
        """
        if not len(values):
            return np.zeros(len(cells))
        rows = self.find(cells)
        return np.where(rows >= 0, values[rows], 0.0)


def _position(ordered: Ints, numbers: Ints) -> Ints:
    """The index of each of the numbers (n,) in an ascending vector. The index is arbitrary if the vector lacks the
    number.
    """
    return np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)


@dataclass(frozen=True)
class CellNoise:
    """Laplace noise for every possible cell. It is a function of the seed and the cell, so no noise is stored.

    The noise is for simulation and does not protect real people: the generator is not cryptographic, and the noise has
    53 bits. Two cells that differ before the last coordinate have equal addresses, and so equal noise, with a
    probability of approximately 2**-64.

    Args:
        seed, purpose: these determine the noise; different purposes have independent noise. scale: scale of the Laplace
        law, above 0.
    """

    seed: int
    purpose: str
    scale: float

    def at(self, cells: Ints) -> Floats:
        """The noise of each of the cells (n, k), as (n,). Every call gives the same noise."""
        # a uniform number minus 1/2; the absolute value is below 1/2, because the noise is infinite at 1/2
        centred = Streams(self.seed, 0).uniforms(f"histogram {self.purpose}").at(addresses(cells)) - (0.5 - 2.0**-54)
        return np.asarray(-self.scale * np.sign(centred) * np.log1p(-2.0 * np.abs(centred)))


def addresses(cells: Ints) -> NDArray[np.uint64]:
    """A 64-bit number for each of n cells, (n,). The cell's noise is drawn from this number. Coordinates before the
    last are hashed, and the last coordinate is added. So cells that differ only in the last coordinate have different
    numbers. Other cells have the same number with a probability of approximately 2^-64.

    Args:
        cells: (n, k) k whole numbers for each cell.
    """
    numbers = cells[:, 0].astype(np.uint64)
    for column in cells.T[1:]:
        numbers = splitmix64(0, numbers) + column.astype(np.uint64)
    return numbers
