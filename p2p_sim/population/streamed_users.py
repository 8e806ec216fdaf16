"""Users of a known law who are drawn shard by shard, when they are asked for, and never held all at once."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_sim.population.population import FiniteLaw, People
from p2p_sim.population.shards import Shard


@dataclass(frozen=True)
class DrawnUsers:
    """Users of a law with two classes, in the order of its points.

    A user's label takes one number of a PCG64 stream, so that the stream can be entered at any user.

    law: the law. counts: (P,) users at each of its points. state: of the stream, where the first user's label is drawn.
    """

    law: FiniteLaw
    counts: NDArray[np.int64]
    state: Any

    @cached_property
    def bounds(self) -> NDArray[np.int64]:
        """(P+1,); point p has the users bounds[p]..bounds[p+1]-1."""
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)

    def points(self, start: int, stop: int) -> NDArray[np.int32]:
        """The law's point of each of the users start..stop-1, (stop - start,)."""
        first, counts = self._runs(start, stop)
        return np.repeat(np.arange(first, first + len(counts), dtype=np.int32), counts)

    def labels(self, start: int, stop: int) -> NDArray[np.uint8]:
        """True labels of the users start..stop-1, (stop - start,), 0 or 1."""
        stream = np.random.PCG64()
        stream.state = self.state
        stream.advance(start)
        first, counts = self._runs(start, stop)
        positive = np.repeat(self.law.label_distribution[first : first + len(counts), 1], counts)
        return np.less(np.random.Generator(stream).random(stop - start), positive).view(np.uint8)

    def _runs(self, start: int, stop: int) -> tuple[int, NDArray[np.int64]]:
        """The first point that some of these users have, and how many of them have it and each following one."""
        first = int(np.searchsorted(self.bounds, start, side="right")) - 1
        last = int(np.searchsorted(self.bounds, stop, side="left"))
        ends = np.clip(self.bounds[first : last + 1], start, stop)
        return first, ends[1:] - ends[:-1]


@dataclass(frozen=True)
class DrawnPeople(People):
    """The population of a law whose clusters are its own; of its users nothing is kept.

    users: who they are. cluster_offsets: (C+1,), of the clusters that have users. law: the users'.
    """

    users: DrawnUsers
    cluster_offsets: NDArray[np.int64]
    law: FiniteLaw
    num_classes: int = 2
    law_clusters: bool = True
    row: None = None
    source_rows: None = None

    def labels_of(self, shard: Shard) -> NDArray[np.uint8]:
        return self.users.labels(shard.start, shard.stop)

    def points_of(self, shard: Shard) -> NDArray[np.int32]:
        """The law's point of each user of a shard, (shard.size,)."""
        return self.users.points(shard.start, shard.stop)
