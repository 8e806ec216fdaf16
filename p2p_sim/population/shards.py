"""Shards: runs of whole clusters, the unit in which random numbers are drawn and work can be split."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.streams import BLOCK


@dataclass(frozen=True)
class Shard:
    """A run of whole clusters: users `start` to `stop - 1`.

    `offsets` are the cluster boundaries within the shard, starting at 0 and ending at `stop - start`.
    """

    index: int
    start: int
    stop: int
    offsets: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Number of users."""
        return self.stop - self.start


def shards(cluster_offsets: NDArray[np.int64]) -> Iterator[Shard]:
    """Cut a population into shards of at most 65,536 users, or one larger cluster each.

    The cut depends on the cluster sizes alone, so it is the same on one machine and on many.

    >>> [(s.start, s.stop) for s in shards(np.array([0, 40_000, 60_000, 200_000, 200_010]))]
    [(0, 60000), (60000, 200000), (200000, 200010)]
    """
    first, index, last = 0, 0, len(cluster_offsets) - 1
    while first < last:
        begin = int(cluster_offsets[first])
        end = int(np.searchsorted(cluster_offsets, begin + BLOCK, side="right")) - 1
        end = max(end, first + 1)
        offsets = cluster_offsets[first : end + 1] - begin
        yield Shard(index, begin, int(cluster_offsets[end]), offsets)
        first, index = end, index + 1
