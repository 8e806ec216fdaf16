"""Divides the rows on which errors are measured into groups, by cluster size or by a public column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError, shortened

CLASS, CLUSTER_SIZE = "class", "cluster_size"
"""Names of the two divisions of rows into groups that every population has."""
THIRDS = ("small", "middle", "large")
MOST_GROUPS = 50
"""Largest number of different values of a column by which rows are grouped."""


def check_kinds(kinds: Sequence[str], columns: Sequence[str] | None) -> None:
    """Raise ValueError if a division of rows into groups is named twice, or if a name is not allowed.

    Allowed names are "class" (the row's label), "cluster_size", and the columns of the population.

    Args:
        kinds: names of the divisions. columns: columns of the population; None: not known yet, so any name is accepted.
    """
    allowed = (CLASS, CLUSTER_SIZE, *(columns or ()))
    for kind in kinds:
        if columns is not None and kind not in allowed:
            raise ValueError(f"groups = {shortened(kind)!r}: must be one of {', '.join(map(repr, allowed))}")
        if kinds.count(kind) > 1:
            raise ValueError(f"groups = {shortened(kind)!r}: is there twice")


@dataclass(frozen=True)
class Grouping:
    """A partition of rows into named groups.

    names: (G,) the groups' names. of: (m,) index of each row's group in `names`; -1 for a row in no group.
    """

    names: tuple[str, ...]
    of: NDArray[np.int64]


def take_rows(groupings: Mapping[str, Grouping], rows: NDArray[np.intp] | NDArray[np.bool_]) -> dict[str, Grouping]:
    """Each grouping, under its name, restricted to some rows.

    groupings: groupings of m rows. rows: indices of the rows that remain, or a mask (m,).
    """
    return {kind: Grouping(grouping.names, grouping.of[rows]) for kind, grouping in groupings.items()}


def by_column(kind: str, values: Sequence[str], column_values: Sequence[str] | None = None) -> Grouping:
    """Groups rows by their text in a column; groups are in the order of sorted texts.

    Args:
        kind: the column's name. values: (m,) text of each row. column_values: texts that name all groups, including
        every text in `values`; None: the groups are the texts in `values`.

    Raises:
        InputError: there are more than 50 groups.
    """
    names = sorted(set(values if column_values is None else column_values))
    if len(names) > MOST_GROUPS:
        raise InputError(
            f"groups = {shortened(kind)!r}: the column has {len(names):,} different values; at most {MOST_GROUPS} are "
            "allowed"
        )
    index_of = {name: index for index, name in enumerate(names)}
    return Grouping(tuple(names), np.array([index_of[value] for value in values], dtype=np.int64))


def by_size(sizes: NDArray[np.int64], cluster: NDArray[np.int64]) -> Grouping:
    """Groups rows by the size of their cluster: "small", "middle" and "large".

    Users are ordered by the size of their cluster and divided into thirds. All clusters of one size belong to the same
    group: the third that contains the median user of these clusters. A group may be empty. Rows in no cluster are in no
    group.

    Args:
        sizes: (C,) users in each cluster. cluster: (m,) cluster of each row, 0..C-1; -1: the row is in no cluster.
    """
    of = np.unique(sizes, return_inverse=True)[1]
    users = np.bincount(of, weights=sizes)
    middle = np.cumsum(users) - users / 2.0
    third = np.minimum(3.0 * middle / users.sum(), 2.0).astype(np.int64)[of]
    return Grouping(THIRDS, np.where(cluster >= 0, third[cluster], -1))


def nearest_cluster(
    rows: NDArray[np.floating], features: NDArray[np.floating], offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each row, the cluster (m,) with the nearest mean features (Euclidean); of equally near clusters, the first.

    Args:
        rows: (m, d) features. features: (n, d) of the users, stored cluster by cluster.
        offsets: (C+1,) first user of each cluster, and n at the end.
    """
    sums = np.add.reduceat(features.astype(np.float64), offsets[:-1], axis=0)
    means = sums / np.diff(offsets)[:, None]
    distances = (means**2).sum(axis=1) - 2.0 * (rows.astype(np.float64) @ means.T)  # squared, without the term |row|²
    return np.asarray(np.argmin(distances, axis=1), dtype=np.int64)
