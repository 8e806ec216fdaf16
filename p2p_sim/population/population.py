"""Sources of users' rows, and the population of one replicate, which is processed shard by shard.

A source draws a sample. The sample's users, stored cluster by cluster, are the population. A shard is a group of
consecutive clusters. A label that is a number is stored as an index into a public grid of values.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base import BLOCK, Config, InputError, Streams
from p2p_sim.measures import LineLaw
from p2p_sim.population.measured_groups import Grouping

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shard:
    """A group of consecutive whole clusters: users `start` to `stop - 1`.

    index: number of the shard, from 0. offsets: boundaries of the clusters within the shard, from 0 to `stop - start`.
    """

    index: int
    start: int
    stop: int
    offsets: NDArray[np.int64]

    @property
    def size(self) -> int:
        """The number of users in the shard."""
        return self.stop - self.start


def shards(cluster_offsets: NDArray[np.int64]) -> Iterator[Shard]:
    """Divides a population into shards of at most 65,536 users; a larger cluster is a shard of its own.

    The division depends only on the cluster sizes, so it is the same on one machine and on many.

    >>> [(s.start, s.stop) for s in shards(np.array([0, 40_000, 60_000, 200_000, 200_010]))]
    [(0, 60000), (60000, 200000), (200000, 200010)]
    """
    first, index, last = 0, 0, len(cluster_offsets) - 1
    while first < last:
        begin = int(cluster_offsets[first])
        end = max(int(np.searchsorted(cluster_offsets, begin + BLOCK, side="right")) - 1, first + 1)
        yield Shard(index, begin, int(cluster_offsets[end]), cluster_offsets[first : end + 1] - begin)
        first, index = end, index + 1


@dataclass(frozen=True)
class Examples:
    """Labelled rows: features (n, d), labels (n,) in 0..K-1, and the cluster (n,) of each row if known.

    row: (n,) index of each row in the source, from 0. source_rows: number of rows of the source. If row and source_rows
    are None, the rows are the source's n rows. target: (n,) numeric labels before rounding to the grid; None: labels
    are classes.
    """

    features: NDArray[np.floating]
    labels: NDArray[np.uint8]
    cluster: NDArray[np.int64] | None = None
    row: NDArray[np.int32] | None = None
    source_rows: int | None = None
    target: NDArray[np.float64] | None = None

    def take(self, rows: NDArray[np.intp]) -> "Examples":
        """The rows with the indices `rows` (m,). Each row keeps its index in the source."""
        cluster = None if self.cluster is None else self.cluster[rows]
        row = rows.astype(np.int32) if self.row is None else self.row[rows]
        source_rows = len(self.labels) if self.source_rows is None else self.source_rows
        target = None if self.target is None else self.target[rows]
        return Examples(self.features[rows], self.labels[rows], cluster, row, source_rows, target=target)


@dataclass(frozen=True)
class FiniteLaw:
    """A known joint law of features x and label y on finitely many points.

    points: (P, d) features. mass: (P,) probability of each point. label_distribution: (P, K) probability p(y|x) of each
    label at each point. cluster: (P,) cluster of each point.
    """

    points: NDArray[np.float64]
    mass: NDArray[np.float64]
    label_distribution: NDArray[np.float64]
    cluster: NDArray[np.int64]


@dataclass(frozen=True)
class Sample:
    """The data of one replicate: the users' rows, and held-out rows or the known law, on which errors are measured.

    holdout: labelled rows that belong to no user, to measure errors. point: (n,) index of each user's point in the law.
    values: (K,) public grid, if labels are numbers. line_law: law of the single feature, if its density is known.
    """

    users: Examples
    num_classes: int
    holdout: Examples | None = None
    law: FiniteLaw | None = None
    point: NDArray[np.int32] | None = None
    values: tuple[float, ...] | None = None
    line_law: LineLaw | None = None

    def sort_users(self, cluster: NDArray[np.int64]) -> "Sample":
        """The sample with its users stored cluster by cluster; the order within a cluster does not change.

        cluster: (n,) the cluster of each user.
        """
        if not np.any(cluster[1:] < cluster[:-1]):
            return self
        order = np.argsort(cluster, kind="stable")
        return replace(self, users=self.users.take(order), point=None if self.point is None else self.point[order])


GRID = 17
"""Number of values of a public grid if a scenario does not state it."""
GridSize = Annotated[int, Field(ge=2, le=64)]
"""k: number of values of a grid, 2 to 64; the linear programme for unbiased values allows no more."""


def even_grid(low: float, high: float, count: int, key: str = "high") -> tuple[float, ...]:
    """A grid of `count` values evenly spaced from `low` to `high`.

    >>> even_grid(0.0, 2.0, 5)
    (0.0, 0.5, 1.0, 1.5, 2.0)

    Raises:
        ValueError: the values do not increase; the message begins with `key`.
    """
    values = np.linspace(low, high, count)
    if not low < high or not np.isfinite(values).all() or not np.all(np.diff(values) > 0):
        raise ValueError(f"{key}: the high end, {high:g}, must be above the low one, {low:g}, so that values increase")
    return tuple(values.tolist())


def rounded(target: NDArray[np.float64], values: tuple[float, ...]) -> NDArray[np.uint8]:
    """For each number (n,), the index of the nearest grid value (n,); of two equally near values, the smaller one.

    Numbers outside the grid are clipped to its ends.

    >>> rounded(np.array([-7.0, 0.5, 1.6, 9.0]), (0.0, 1.0, 2.0)).tolist()
    [0, 0, 2, 2]
    """
    grid = np.array(values)
    above = np.clip(np.searchsorted(grid, target), 1, len(grid) - 1)
    lower = np.asarray(target - grid[above - 1] <= grid[above] - target)
    return np.asarray(above - lower, dtype=np.uint8)


class Source(Config):
    """Base of all sources of users' rows: configurations of a population."""

    kind: str
    own: ClassVar[bool] = False
    """Whether the source reads a file of the person who runs p2p-sim; the scenario must then state the path."""
    row_by_row: ClassVar[frozenset[str]] = frozenset()
    """Keys whose values never make a user's features, label or cluster depend on other users' rows. Any other key may
    cause such a dependence. If no key is listed, the kind of the source itself may cause a dependence."""

    @property
    def known_classes(self) -> int | None:
        """Number of classes K, or of values of the grid if labels are numbers; None if only the data show it."""
        return None if self.known_values is None else len(self.known_values)

    @property
    def known_values(self) -> tuple[float, ...] | None:
        """Public grid (K,) of label values, increasing, if labels are numbers; None if labels are classes."""
        return None

    @property
    def group_columns(self) -> tuple[str, ...] | None:
        """Columns by which held-out rows can be grouped, by default none; None: only the data show the names."""
        return ()

    @property
    def clustered(self) -> bool:
        """Whether the source gives each user a cluster; by default False.

        A scenario without a clustering uses these clusters.
        """
        return False

    @property
    def looks_at_all_rows(self) -> str | None:
        """The key by which a user's features or label may depend on other users' rows; None: there is no such key.

        The keys in `row_by_row` are harmless. The result is the first other key whose value differs from the default,
        such as a key to standardise features by means over all rows. If `row_by_row` is empty, the result is the key
        `population.kind`. A scenario with such a key is refused if whole rows are private: ε does not cover what other
        users' features reveal of a row.
        """
        if not self.row_by_row:
            return f"population.kind = {self.kind!r}"
        for key, defined in type(self).model_fields.items():
            if key != "kind" and key not in self.row_by_row and getattr(self, key) != defined.default:
                return f"population.{key}"
        return None

    def files(self, places: tuple[Path, ...]) -> list[Path]:
        """Paths of the files that are read; their checksums are part of the scenario's identity. By default none.

        Args:
            places: directories in which the files are looked for, in this order.

        Raises:
            InputError: a file is missing.
        """
        return []

    def remarks(self, places: tuple[Path, ...]) -> list[str]:
        """Lines that `p2p-sim validate` prints about the data; by default none.

        Raises:
            InputError: a file is missing or damaged.
        """
        return []

    def spreads(self, places: tuple[Path, ...]) -> dict[str, float]:
        """The standard deviation of each feature, by name, if features may differ in scale; by default empty.

        Features of large scale would dominate a clustering by distances; p2p-sim then prints a warning.

        Args:
            places: directories in which data files are looked for, in this order.

        Raises:
            InputError: a file is missing or damaged.
        """
        return {}

    def doubts(self, places: tuple[Path, ...]) -> list[str]:
        """Warnings about likely mistakes in the data; each warning is a line with advice. By default there are none.

        Raises:
            InputError: a file is missing or damaged.
        """
        return []

    def grouping(self, column: str, places: tuple[Path, ...], streams: Streams) -> Grouping:
        """Divides the held-out rows, in the order of `sample`, into groups by the values of a column.

        Args:
            column: name of the column. places: directories in which files are looked for. streams: the replicate's
            random streams.

        Raises:
            InputError: there is no such column, or the column has too many values.
        """
        raise InputError(f"groups = {column!r}: population.kind = {self.kind!r} has no column of that name")

    @abstractmethod
    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Draws the data of one replicate: the users' rows, and the data on which errors are measured.

        Errors are measured on labelled rows that belong to no user (the holdout), or exactly under the known law of
        features and labels.

        Args:
            places: directories in which files are looked for. streams: the replicate's random streams.

        Raises:
            InputError: a file is missing or damaged.
        """


class People(ABC):
    """Base of populations: users stored cluster by cluster, held in arrays or drawn shard by shard.

    cluster_offsets: (C+1,); cluster c holds users offsets[c]..offsets[c+1]-1. num_classes: K. law: the law of features
    and labels, if it is known. law_clusters: whether the clusters are the clusters of the law. row: (n,) index of each
    user's row in the source, from 0. source_rows: number of rows of the source. If row and source_rows are None, user i
    is row i of n rows.
    values: (K,) public grid of numbers, increasing; None: labels are classes.
    """

    cluster_offsets: NDArray[np.int64]
    num_classes: int
    law: FiniteLaw | None
    law_clusters: bool
    row: NDArray[np.int32] | None
    source_rows: int | None
    values: tuple[float, ...] | None = None

    @cached_property
    def shards(self) -> tuple[Shard, ...]:
        """All shards, in order: consecutive clusters of at most 65,536 users together, or a single larger cluster."""
        return tuple(shards(self.cluster_offsets))

    @property
    def num_users(self) -> int:
        """Number n of users in all clusters."""
        return int(self.cluster_offsets[-1])

    @property
    def cluster_sizes(self) -> NDArray[np.int64]:
        """Number of users in each cluster (C,)."""
        return np.diff(self.cluster_offsets)

    @abstractmethod
    def labels_of(self, shard: Shard) -> NDArray[np.uint8]:
        """True labels of a shard's users, (shard.size,) in 0..K-1."""

    def features_of(self, shard: Shard) -> NDArray[np.floating]:
        """Features of a shard's users, (shard.size, d); d is 0 unless a subclass has features."""
        return np.zeros((shard.size, 0))

    def rows_of(self, shard: Shard) -> NDArray[np.int32]:
        """For each user of a shard, the index (shard.size,), from 0, of her row in the source."""
        if self.row is None:
            return np.arange(shard.start, shard.stop, dtype=np.int32)
        return self.row[shard.start : shard.stop]


@dataclass(frozen=True)
class Population(People):
    """Users held in arrays, stored cluster by cluster: features are public, labels are protected.

    features: (n, d). labels: (n,) in 0..K-1. cluster_offsets: (C+1,); cluster c holds users offsets[c]..offsets[c+1]-1.
    num_classes: K. holdout: labelled rows that belong to no user, to measure errors. law: the law of features and
    labels, if it is known. point: (n,) index of each user's point in the law. law_clusters: whether the clusters are
    the clusters of the law. row: (n,) index of each user's row in the source, from 0. source_rows: number of rows of
    the source, including rows that are no users, without official test rows. If row and source_rows are None, user i is
    row i of n rows. groupings: named divisions of the holdout's rows, or of the law's points, into groups; the division
    by class is left out.
    values: (K,) public grid, if labels are numbers. line_law: law of the single feature, if its density is known.
    """

    features: NDArray[np.floating]
    labels: NDArray[np.uint8]
    cluster_offsets: NDArray[np.int64]
    num_classes: int
    holdout: Examples | None = None
    law: FiniteLaw | None = None
    point: NDArray[np.int32] | None = None
    law_clusters: bool = False
    row: NDArray[np.int32] | None = None
    source_rows: int | None = None
    groupings: Mapping[str, Grouping] = field(default_factory=dict)
    values: tuple[float, ...] | None = None
    line_law: LineLaw | None = None

    def labels_of(self, shard: Shard) -> NDArray[np.uint8]:
        return self.labels[shard.start : shard.stop]

    def features_of(self, shard: Shard) -> NDArray[np.floating]:
        return self.features[shard.start : shard.stop]
