"""A synthetic law of features x and labels y: p(y|x) and the heterogeneity are known. Users are held in arrays, or
drawn shard by shard. A shard is a group of whole clusters.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.base import Streams
from p2p_sim.population.population import Examples, FiniteLaw, People, Sample, Shard, Source


@dataclass(frozen=True)
class DrawnPeople(People):
    """Users of a law with two classes. Labels are not stored: every use generates the labels anew.

    One number of a PCG64 stream makes one user's label. So generation can start at any user, and always gives the same
    label. A point is one of the law's P feature vectors. Users are ordered by their points.

    counts: (P,) number of users at each point. state: the stream's state before the first user's label.
    cluster_offsets: (C+1,) first user of each of the C clusters that have users; the last entry is the number of users.
    """

    law: FiniteLaw
    counts: NDArray[np.int64]
    state: Any
    cluster_offsets: NDArray[np.int64]
    num_classes: int = 2
    law_clusters: bool = True
    row: None = None
    source_rows: None = None

    @cached_property
    def _bounds(self) -> NDArray[np.int64]:
        """The first user at each point, (P+1,); the last entry is the number of users. The users at point p are
        _bounds[p] to _bounds[p+1] - 1.
        """
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)

    def points(self, start: int, stop: int) -> NDArray[np.int32]:
        """The points (stop - start,) of the users start to stop - 1, as indices into the law's P feature vectors."""
        first = int(np.searchsorted(self._bounds, start, side="right")) - 1
        last = int(np.searchsorted(self._bounds, stop, side="left"))
        # the number of these users at each of the points first..last-1
        ends = np.clip(self._bounds[first : last + 1], start, stop)
        return np.repeat(np.arange(first, last, dtype=np.int32), ends[1:] - ends[:-1])

    def labels_of(self, shard: Shard) -> NDArray[np.uint8]:
        """True labels of a shard's users, (shard.size,), 0 or 1."""
        return self.labels(shard.start, shard.stop)

    def labels(self, start: int, stop: int) -> NDArray[np.uint8]:
        """True labels (stop - start,) of the users start to stop - 1, 0 or 1."""
        stream = np.random.PCG64()
        stream.state = self.state
        stream.advance(start)
        positive: NDArray[np.float64] = self.law.label_distribution[self.points(start, stop), 1]
        return np.less(np.random.Generator(stream).random(stop - start), positive).view(np.uint8)


class SyntheticConfig(Source):
    """Clusters c differ in p(1|c), the share of label 1. If φ > 0, a cluster's points x differ in p(1|x).

    All points are equally likely. A point has features (u, v, w). u in [-1, 1] is the position of the point's cluster
    among the clusters. v is +1 at half of a cluster's points, and -1 at the other half. w in [-1, 1] differs between
    points with equal u and v, and says nothing about the label. In cluster c, p(1|x) = p(1|c) + v φ/2. So the
    heterogeneity Σ_y E|p(y|x) - p(y|c)| is exactly φ.
    """

    kind: Literal["synthetic"] = "synthetic"
    clustered: ClassVar[bool] = True
    known_classes: ClassVar[int | None] = 2
    row_by_row: ClassVar[frozenset[str]] = frozenset(
        ("users", "num_clusters", "points_per_cluster", "heterogeneity", "positive_low", "positive_high", "positive")
    )
    users: int = Field(default=10_000, ge=2, le=2**31 - 1)
    """n: number of users, each drawn independently from the law; 2 to 2**31 - 1."""
    num_clusters: int = Field(default=20, ge=1, le=1_000_000)
    """Number of clusters of the law, 1 to 1,000,000."""
    points_per_cluster: int = Field(default=4, ge=2, le=100, multiple_of=2)
    """Number of equally likely points in each cluster, an even number from 2 to 100."""
    heterogeneity: float = Field(default=0.2, ge=0, le=1)
    """φ: expected L1 distance between a point's and its cluster's label distribution, 0 to 1."""
    positive_low: float = Field(default=0.2, ge=0, le=1)
    """p(1|c) of the first cluster, φ/2 to 1 - φ/2."""
    positive_high: float = Field(default=0.8, ge=0, le=1)
    """p(1|c) of the last cluster, φ/2 to 1 - φ/2."""
    positive: Literal["even", "random"] = "even"
    """"even": p(1|c) changes in equal steps from the first to the last cluster; "random": every replicate draws each
    p(1|c) uniformly between positive_low and positive_high."""

    @model_validator(mode="after")
    def _probabilities(self) -> "SyntheticConfig":
        half = self.heterogeneity / 2
        low, high = sorted((self.positive_low, self.positive_high))
        if low < half or high > 1 - half:
            raise ValueError(
                f"positive_low and positive_high must lie in [{half:g}, {1 - half:g}] "
                f"for heterogeneity = {self.heterogeneity:g}"
            )
        return self

    def law(self, streams: Streams) -> FiniteLaw:
        """The joint law of features and labels in one replicate. The points (feature vectors) are equally likely, and
        ordered by cluster.

        Args:
            streams: the replicate's random streams, used only if the key `positive` is "random". Then p(1|c) of each
            cluster c is drawn uniformly between `positive_low` and `positive_high`. Otherwise p(1|c) is evenly spaced,
            from `positive_low` in the first cluster to `positive_high` in the last cluster.
        """
        clusters, points = self.num_clusters, self.points_per_cluster
        cluster = np.repeat(np.arange(clusters), points)
        # the features u, v and w of each point, explained in the docstring of the class
        level = _spread(clusters)[cluster]
        side = np.tile(np.repeat([1.0, -1.0], points // 2), clusters)
        within = np.tile(_spread(points // 2), 2 * clusters)
        low, high = sorted((self.positive_low, self.positive_high))
        even = np.linspace(self.positive_low, self.positive_high, clusters)
        means = even if self.positive == "even" else streams.generator("law").uniform(low, high, clusters)
        positive = means[cluster] + side * self.heterogeneity / 2
        return FiniteLaw(
            np.stack([level, side, within], axis=1),
            np.full(clusters * points, 1.0 / (clusters * points)),
            np.stack([1.0 - positive, positive], axis=1),
            cluster,
        )

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Draws the users of one replicate. The known law takes the place of held-out rows; `places` is not used."""
        drawn = self.drawn(streams)
        law, point = drawn.law, drawn.points(0, self.users)
        users = Examples(law.points[point], drawn.labels(0, self.users), law.cluster[point])
        return Sample(users, 2, law=law, point=point)

    def drawn(self, streams: Streams) -> DrawnPeople:
        """Draws the users of one replicate with `streams`. Every use of their labels generates the labels anew."""
        law, rng = self.law(streams), streams.generator("population")
        counts = rng.multinomial(self.users, law.mass)
        sizes = np.bincount(law.cluster, weights=counts).astype(np.int64)  # exact, since all are below 2**53
        offsets = np.concatenate([[0], np.cumsum(sizes[sizes > 0])])
        return DrawnPeople(law, counts, rng.bit_generator.state, offsets)


def _spread(count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Numbers (count,) evenly spaced over [-1, 1]; a single number is 0."""
    return np.linspace(-1.0, 1.0, count) if count > 1 else np.zeros(1)
