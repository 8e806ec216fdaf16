"""A synthetic law of labels that are numbers, whose mean is linear in the features."""

import math
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.base.streams import Streams
from p2p_sim.population.population import Examples, FiniteLaw, Sample
from p2p_sim.population.source import Source
from p2p_sim.population.value_grid import GRID, GridSize, even_grid

Floats = NDArray[np.float64]
SLOPE = 0.2
"""a: change of the mean from the middle cluster to the last one."""


class LinearConfig(Source):
    """Labels on a grid of [0, 1] with mean f(x) = 1/2 + a t + γ v and a = 0.2; clusters differ in t alone.

    A point has features (t, v): t = u + τ r with u in [-1, 1] the place of its cluster, and r, v = ±1, all four equally
    likely. The label is binomial: k-1 trials with probability f(x), divided by k-1. a τ = γ = h/√2, so that the
    variance of f within a cluster is h² exactly; half of it lies along t, which clusters differ in, half along v.
    """

    kind: Literal["linear"] = "linear"
    clustered: ClassVar[bool] = True
    users: int = Field(default=10_000, ge=2, le=2**31 - 1)
    """n: number of users, at least `num_clusters`, at most 2**31 - 1; sizes of clusters differ by at most one."""
    num_clusters: int = Field(default=50, ge=1, le=1_000_000)
    """Number of clusters, 1 to 1,000,000."""
    spread: float = Field(default=0.1, ge=0, le=0.2)
    """h: standard deviation of a label's mean f within a cluster, 0 to 0.2."""
    grid: GridSize = GRID
    """k: number of label values, evenly spaced over the public range from 0 to 1, 2 to 64."""

    @model_validator(mode="after")
    def _somebody_everywhere(self) -> "LinearConfig":
        if self.users < self.num_clusters:
            raise ValueError(f"users = {self.users}: must be at least num_clusters = {self.num_clusters}")
        return self

    @property
    def known_classes(self) -> int | None:
        return self.grid

    @property
    def known_values(self) -> tuple[float, ...]:
        return even_grid(0.0, 1.0, self.grid)

    @property
    def points(self) -> Floats:
        """(4 · num_clusters, 2), cluster by cluster."""
        count = self.num_clusters
        place = np.repeat(np.linspace(-1.0, 1.0, count) if count > 1 else np.zeros(1), 4)
        r, v = (np.tile(side, count) for side in ([1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0]))
        return np.stack([place + self.spread / math.sqrt(2.0) / SLOPE * r, v], axis=1)

    @property
    def mean(self) -> Floats:
        """f at every point (4 · num_clusters,)."""
        points = self.points
        return np.asarray(0.5 + SLOPE * points[:, 0] + self.spread / math.sqrt(2.0) * points[:, 1])

    def law(self) -> FiniteLaw:
        """The law, points ordered by cluster, each with the share of its cluster's users."""
        import scipy

        trials = self.grid - 1
        mass = np.repeat(np.bincount(self._clusters) / self.users, 4) / 4.0
        labels = np.asarray(scipy.stats.binom.pmf(np.arange(self.grid), trials, self.mean[:, None]))
        labels /= labels.sum(axis=1, keepdims=True)
        return FiniteLaw(self.points, mass, labels, np.repeat(np.arange(self.num_clusters), 4))

    @property
    def _clusters(self) -> NDArray[np.int64]:
        return np.arange(self.users, dtype=np.int64) * self.num_clusters // self.users

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Draw the users of one replicate."""
        rng, cluster = streams.generator("population"), self._clusters
        point = (4 * cluster + rng.integers(0, 4, self.users)).astype(np.int32)
        labels = rng.binomial(self.grid - 1, self.mean[point]).astype(np.uint8)
        users = Examples(self.points[point], labels, cluster)
        return Sample(users, self.grid, law=self.law(), point=point, values=self.known_values)
