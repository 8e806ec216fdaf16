"""A synthetic law with known p(y|x), whose cluster heterogeneity is set exactly."""

from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from p2p_sim.base.streams import Streams
from p2p_sim.population.population import Examples, FiniteLaw, Sample
from p2p_sim.population.source import Source
from p2p_sim.population.streamed_users import DrawnUsers


class SyntheticConfig(Source):
    """Clusters whose share of ones rises from the first to the last; each has points above and below its mean.

    A point has features (u, v, w): u in [-1, 1] is its cluster's place, v = +1 or -1 the side on which its p(1|x) lies
    from the cluster's, w in [-1, 1] spreads the points of a side and means nothing. All points are equally likely, and
    p(1|x) = p_c + v φ/2, so that the heterogeneity Σ_y E|p(y|x) - p(y|c)| is φ to the letter.
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
    """Equally likely points of a cluster, an even number from 2 to 100."""
    heterogeneity: float = Field(default=0.2, ge=0, le=1)
    """φ: expected L1 distance between a point's and its cluster's label distribution, 0 to 1."""
    positive_low: float = Field(default=0.2, ge=0, le=1)
    """p(1|c) of the first cluster; at least φ/2."""
    positive_high: float = Field(default=0.8, ge=0, le=1)
    """p(1|c) of the last cluster; at most 1 - φ/2."""
    positive: Literal["even", "random"] = "even"
    """"even": p(1|c) rises in equal steps; "random": p(1|c) of each cluster is uniform between the two ends, drawn
    again in every replicate."""

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
        """The law of a replicate, points ordered by cluster."""
        clusters, points = self.num_clusters, self.points_per_cluster
        cluster = np.repeat(np.arange(clusters), points)
        place = _spread(clusters)[cluster]
        side = np.tile(np.repeat([1.0, -1.0], points // 2), clusters)
        within = np.tile(_spread(points // 2), 2 * clusters)
        means = np.linspace(self.positive_low, self.positive_high, clusters)
        if self.positive == "random":
            means = streams.generator("law").uniform(self.positive_low, self.positive_high, clusters)
        middle = means[cluster]
        positive = middle + side * self.heterogeneity / 2
        return FiniteLaw(
            np.stack([place, side, within], axis=1),
            np.full(clusters * points, 1.0 / (clusters * points)),
            np.stack([1.0 - positive, positive], axis=1),
            cluster,
        )

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Draw the users of one replicate."""
        drawn = self.drawn(streams)
        law, point = drawn.law, drawn.points(0, self.users)
        users = Examples(law.points[point], drawn.labels(0, self.users), law.cluster[point])
        return Sample(users, 2, law=law, point=point)

    def drawn(self, streams: Streams) -> DrawnUsers:
        """The users of one replicate, of whom any run can be drawn alone."""
        law, rng = self.law(streams), streams.generator("population")
        return DrawnUsers(law, rng.multinomial(self.users, law.mass), rng.bit_generator.state)


def _spread(count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """`count` values evenly over [-1, 1]; 0 for a single one."""
    return np.linspace(-1.0, 1.0, count) if count > 1 else np.zeros(1)
