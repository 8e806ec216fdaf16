"""The value that says who may ask whom: neighbours of every user, in arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.streams import Streams

Offsets = NDArray[np.int64]
"""Cluster boundaries (C+1,): cluster c holds users offsets[c]..offsets[c+1]-1."""
Rows = NDArray[np.int32]
Pairs = NDArray[np.int64]
"""Edges (m, 2), each once."""
Points = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OverlayInput:
    """What an overlay of one replicate is built from.

    cluster_offsets: (C+1,), cluster c holds users offsets[c]..offsets[c+1]-1.
    streams: the replicate's random streams. places: directories in which files are looked for.
    row: (n,) each user's row in the population's source; None: user i is row i.
    source_rows: rows in the source, users or not; None: n.
    """

    cluster_offsets: Offsets
    streams: Streams
    places: tuple[Path, ...] = ()
    row: Rows | None = None
    source_rows: int | None = None


@dataclass(frozen=True)
class Overlay:
    """Neighbours of user i are indices[indptr[i]:indptr[i+1]]: ascending, all in her cluster, without herself.

    The relation is symmetric: an edge stands with both its users.
    indptr: (n+1,); indices: (E,), every edge twice; position: (n, 2) in the unit square where users have a place.
    dropped_edges: edges of a file that join two clusters, or touch rows that are no users of this replicate.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    position: Points | None = None
    dropped_edges: int = 0

    @property
    def num_users(self) -> int:
        """n."""
        return len(self.indptr) - 1

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Neighbours of each user (n,)."""
        return np.diff(self.indptr)

    @property
    def isolated(self) -> int:
        """Users without a neighbour."""
        return int(np.count_nonzero(self.degrees == 0))

    @property
    def components(self) -> int:
        """Connected parts; at least one a cluster."""
        return int(self._component().max(initial=-1)) + 1

    @property
    def bytes(self) -> int:
        """Memory of the arrays."""
        return self.indptr.nbytes + self.indices.nbytes + (0 if self.position is None else self.position.nbytes)

    def disconnected_clusters(self, cluster_offsets: Offsets) -> int:
        """Clusters that fall into more than one connected part."""
        first = np.unique(self._component(), return_index=True)[1]
        parts = np.bincount(cluster_of(cluster_offsets)[first])
        return int(np.count_nonzero(parts > 1))

    def shard(self, start: int, stop: int) -> "Overlay":
        """Users start..stop-1, who must be whole clusters, renumbered from 0, with no count of dropped edges."""
        begin, end = self.indptr[start], self.indptr[stop]
        position = None if self.position is None else self.position[start:stop]
        indices = self.indices[begin:end] - np.int32(start) if start else self.indices[begin:end]
        return Overlay(self.indptr[start : stop + 1] - begin, indices, position)

    def _component(self) -> NDArray[np.int32]:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        edges = np.ones(len(self.indices), dtype=np.int8)
        graph = csr_array((edges, self.indices, self.indptr), shape=(self.num_users, self.num_users))
        # each edge stands with both its users, so strong components are the connected ones, and need less memory
        component: NDArray[np.int32] = connected_components(graph, connection="strong")[1]
        return component


def cluster_of(cluster_offsets: Offsets) -> NDArray[np.int64]:
    """Cluster of each user (n,)."""
    return np.repeat(np.arange(len(cluster_offsets) - 1), np.diff(cluster_offsets))


def from_pairs(num_users: int, pairs: Pairs, position: Points | None = None, dropped_edges: int = 0) -> Overlay:
    """The overlay with the given distinct edges (m, 2) between different users of one cluster."""
    from scipy.sparse import coo_array

    ends = (pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32))
    one_way = coo_array((np.ones(len(pairs), dtype=np.int8), ends), shape=(num_users, num_users)).tocsr()
    both = one_way + one_way.T.tocsr()
    indices = both.indices.astype(np.int32, copy=False)
    return Overlay(both.indptr.astype(np.int64), indices, position, dropped_edges)


def side_by_side(parts: Sequence[Overlay]) -> Overlay:
    """The overlay of all users of some overlays, at least one, numbered one part after the other."""
    if len(parts) == 1:
        return parts[0]
    firsts = np.cumsum([0, *(part.num_users for part in parts[:-1])]).astype(np.int32)
    degrees = np.concatenate([part.degrees for part in parts])
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    indices = np.concatenate([part.indices + first for part, first in zip(parts, firsts, strict=True)])
    points = [part.position for part in parts if part.position is not None]
    return Overlay(indptr, indices, np.concatenate(points) if points else None)
