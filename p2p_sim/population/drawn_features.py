"""Synthetic populations of the studies: Gaussians on a circle, numeric labels, one real feature, and a cube."""

import math
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.base import Extended, Streams
from p2p_sim.measures import LINE_LAWS, Factor, Harmonic, LineLaw, ProductLaw, Sine, StepLaw, box_centres
from p2p_sim.population.population import GRID, Examples, FiniteLaw, Floats, GridSize, Sample, Source, even_grid


class CircleConfig(Source):
    """K equally likely classes, each a round Gaussian about one of K centres equally spaced on the unit circle.

    A user's cluster is the class with the centre nearest to her features; Bayes' rule predicts this class.
    """

    kind: Literal["circle"] = "circle"
    clustered: ClassVar[bool] = True
    users: int = Field(default=10_000, ge=2, le=2**31 - 1)
    """N: number of users, each drawn independently from the law; 2 to 2**31 - 1."""
    num_classes: int = Field(default=10, ge=2, le=256)
    """K: number of classes, 2 to 256."""
    spread: float | None = Field(default=None, gt=0, le=10)
    """σ: standard deviation of a class in each direction, above 0 and at most 10. Absent: 2/K; then neighbouring
    classes overlap about as much for every K."""
    holdout: int = Field(default=10_000, ge=1, le=2**31 - 1)
    """Number of rows that belong to no user, drawn from the same law to measure error, at least 1."""

    @property
    def sigma(self) -> float:
        """Standard deviation σ of each feature within a class: `spread`, or 2/K if absent."""
        return 2.0 / self.num_classes if self.spread is None else self.spread

    @property
    def centres(self) -> Floats:
        """The mean features (K, 2) of the K classes, evenly spaced on the unit circle."""
        angle = 2.0 * math.pi * np.arange(self.num_classes) / self.num_classes
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)

    @property
    def known_classes(self) -> int | None:
        return self.num_classes

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Draws the users of one replicate, and further rows to measure errors, all independently from the law.

        Args:
            places: not used, since no file is read. streams: the replicate's random streams.
        """
        users = self._draw(self.users, streams.generator("population"))
        return Sample(users, self.num_classes, self._draw(self.holdout, streams.generator("holdout")))

    def label_distribution(self, features: Floats) -> Floats:
        """Class probabilities p(y|x) (n, K) at features (n, 2), proportional to exp(x · centre / σ²)."""
        logits = features @ self.centres.T / self.sigma**2
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def bayes_error_rate(self) -> float:
        """Smallest error rate of any classifier: the probability that a point lies outside the wedge of its class.

        The wedge has the points that are nearest to the class's centre. For the centre on the first axis, the wedge is
        |x₂| < x₁ tan(π/K), and only an integral over x₁ must be computed.
        """
        from scipy.integrate import quad
        from scipy.special import erf

        sigma, slope = self.sigma, math.tan(math.pi / self.num_classes)

        def density(u: float) -> float:  # x₁ = 1 + σ u
            height = (1.0 + sigma * u) * slope / (sigma * math.sqrt(2.0))
            return math.exp(-u * u / 2.0) / math.sqrt(2.0 * math.pi) * float(erf(height))

        return 1.0 - float(quad(density, max(-1.0 / sigma, -40.0), 40.0, points=[0.0], epsabs=1e-13, limit=200)[0])

    def _draw(self, count: int, rng: np.random.Generator) -> Examples:
        """Draws `count` independent rows of the law. A row's cluster is the class with the nearest centre."""
        labels = rng.integers(0, self.num_classes, count, dtype=np.uint8, endpoint=False)
        features = self.centres[labels] + self.sigma * rng.standard_normal((count, 2))
        turn = np.arctan2(features[:, 1], features[:, 0]) * self.num_classes / (2.0 * math.pi)
        return Examples(features, labels, np.rint(turn).astype(np.int64) % self.num_classes)


SLOPE = 0.2
"""The slope a: change of a label's mean from the middle cluster to the last cluster."""


class LinearConfig(Source):
    """Numeric labels on a grid of [0, 1] with mean f(x) = 1/2 + a t + γ v and a = 0.2; clusters differ only in t.

    A point has features (t, v), with t = u + τ r. Here u in [-1, 1] is the centre of the point's cluster. r and v are
    ±1; all four pairs (r, v) are equally likely. The label is a binomial number of k-1 trials with probability f(x),
    divided by k-1 (k: the key `grid`). The key `spread`, written h, sets τ = h/(a√2) and γ = h/√2. So the variance of f
    within a cluster is exactly h². Half of the variance comes from t, in which clusters differ, and half from v.
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
    def known_values(self) -> tuple[float, ...]:
        return even_grid(0.0, 1.0, self.grid)

    @property
    def points(self) -> Floats:
        """Features (4 · num_clusters, 2) of all points that have a probability above 0, cluster by cluster.

        Each cluster has four points (u + r b, v) with r = ±1 and v = ±1. Here u in [-1, 1] is the centre of the
        cluster. The step is b = h/(a √2), where h is the key `spread` and a = 0.2.
        """
        count = self.num_clusters
        centre = np.repeat(np.linspace(-1.0, 1.0, count) if count > 1 else np.zeros(1), 4)
        r, v = (np.tile(side, count) for side in ([1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0]))
        return np.stack([centre + self.spread / math.sqrt(2.0) / SLOPE * r, v], axis=1)

    @property
    def mean(self) -> Floats:
        """The mean (4 · num_clusters,) of a label at each of the `points`.

        At features (t, v) the mean is f = 1/2 + 0.2 t + (h/√2) v, where h is the key `spread`.
        """
        points = self.points
        return np.asarray(0.5 + SLOPE * points[:, 0] + self.spread / math.sqrt(2.0) * points[:, 1])

    def law(self) -> FiniteLaw:
        """The joint law of features and labels: four points in each cluster, with the probability of each label value.

        Points are ordered by cluster. The probability of a cluster is the cluster's share of the users. The four points
        of a cluster are equally likely.
        """
        import scipy

        mass = np.repeat(np.bincount(self._clusters) / self.users, 4) / 4.0
        labels = np.asarray(scipy.stats.binom.pmf(np.arange(self.grid), self.grid - 1, self.mean[:, None]))
        labels /= labels.sum(axis=1, keepdims=True)
        return FiniteLaw(self.points, mass, labels, np.repeat(np.arange(self.num_clusters), 4))

    @property
    def _clusters(self) -> NDArray[np.int64]:
        """The cluster of each user, (n,); the sizes of clusters differ by at most one user."""
        return np.arange(self.users, dtype=np.int64) * self.num_clusters // self.users

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Draws the users of one replicate. No rows are held out: errors are computed exactly under the known law.

        Args:
            places: not used, since no file is read. streams: the replicate's random streams.
        """
        rng, cluster = streams.generator("population"), self._clusters
        point = (4 * cluster + rng.integers(0, 4, self.users)).astype(np.int32)
        labels = rng.binomial(self.grid - 1, self.mean[point]).astype(np.uint8)
        users = Examples(self.points[point], labels, cluster)
        return Sample(users, self.grid, law=self.law(), point=point, values=self.known_values)


class RealLineConfig(Source):
    """One feature x on the real line, with a known density; the label shows on which side of the median x lies.

    Density estimates are compared with the law of x. As in the study *Private Bayes consistency*, the label follows
    from x, and each class has probability 1/2.
    """

    kind: Literal["real_line"] = "real_line"
    clustered: ClassVar[bool] = True
    known_classes: ClassVar[int | None] = 2
    row_by_row: ClassVar[frozenset[str]] = frozenset(("users", "law", "holdout"))
    users: int = Field(default=10_000, ge=2, le=10_000_000)
    """n: number of users, each drawn independently from the law; 2 to 10,000,000."""
    law: Literal["normal", "cauchy", "spikes"] = "normal"
    """Law of x. "normal": N(0, 1); "cauchy": the standard Cauchy law, which has no mean; "spikes": half of the mass is
    uniform on [0, 1], half lies on ten intervals of width 0.002 in [0, 1]."""
    holdout: int = Field(default=10_000, ge=1, le=10_000_000)
    """Number of rows that belong to no user, drawn from the same law to measure error, 1 to 10,000,000."""

    @property
    def line_law(self) -> LineLaw:
        """The law of the feature x that the key `law` names, with methods such as `cdf` and `draw`."""
        return LINE_LAWS[self.law]

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Draws the users of one replicate, and further rows to measure errors, all independently from the law.

        Args:
            places: not used, since no file is read. streams: the replicate's random streams.
        """
        users = self._draw(self.users, streams.generator("population"))
        return Sample(users, 2, self._draw(self.holdout, streams.generator("holdout")), line_law=self.line_law)

    def _draw(self, count: int, rng: np.random.Generator) -> Examples:
        """Draws `count` independent rows, all in one cluster; the label is 1 if the feature is not below the median."""
        x = self.line_law.draw(count, rng)
        labels = (self.line_law.cdf(x[:, 0]) >= 0.5).astype(np.uint8)
        return Examples(x, labels, np.zeros(count, dtype=np.int64))


class UnitCubeConfig(Extended, Source):
    """Features x are uniform on the midpoints of a fine grid of [0, 1]^d; p(1|x) = 1/2 + amplitude · Π_j g(x_j).

    The key `curve` names the function g. Every error is exact, since there are finitely many points. The grid is much
    finer than the cells of any rule that learns from at most a million users.
    """

    kind: Literal["unit_cube"] = "unit_cube"
    clustered: ClassVar[bool] = True
    known_classes: ClassVar[int | None] = 2
    row_by_row: ClassVar[frozenset[str]] = frozenset(
        ("users", "dimensions", "curve", "periods", "amplitude", "per_axis")
    )
    later: ClassVar[tuple[str, ...]] = ("cells",)
    users: int = Field(default=10_000, ge=2, le=10_000_000)
    """n: number of users, each drawn independently from the law; 2 to 10,000,000."""
    dimensions: int = Field(default=1, ge=1, le=4)
    """d: number of features, 1 to 4."""
    curve: Literal["sine", "harmonic", "step"] = "sine"
    """The function g. "sine": sin(2π periods x); "harmonic": 1 where floor(1/x) is odd, else -1, with ever faster
    changes towards 0; "step": -1 below 1/2, then 1."""
    periods: float = Field(default=2.0, gt=0, le=1000)
    """Number of periods of the sine in [0, 1], above 0 and at most 1000."""
    amplitude: float = Field(default=0.4, gt=0, le=0.5)
    """Largest distance of p(1|x) from 1/2, above 0 and at most 0.5."""
    per_axis: int | None = Field(default=None, ge=1, le=1_000_000)
    """Number of grid points along each axis, with at most 1,000,000 in all; absent: about 65,536 in all."""

    cells: bool = False
    """Whether users in the same cube of side n^(-1/(2d)) are a cluster, as histogram rules on exchanged labels need.
    Otherwise all users are one cluster. The cubes divide [0, 1]^d evenly if n is the (2d)-th power of a whole
    number."""

    @model_validator(mode="after")
    def _bounded(self) -> "UnitCubeConfig":
        if self.grid**self.dimensions > 1_000_000:
            raise ValueError(f"per_axis = {self.per_axis}: at most 1,000,000 grid points are allowed in all dimensions")
        return self

    @property
    def grid(self) -> int:
        """Number of grid points along each axis; by default there are approximately 65,536 points in all."""
        return self.per_axis or round(65_536 ** (1.0 / self.dimensions))

    def law(self) -> FiniteLaw:
        """The joint law of features and labels: equally likely grid points of [0, 1]^d, and p(y|x) at each point.

        If the key `cells` is set, the points of each cube are a cluster. Otherwise all points are in one cluster.
        """
        curves: dict[str, Factor] = {"sine": Sine(self.periods), "harmonic": Harmonic(), "step": StepLaw()}
        points = box_centres(np.linspace(0.0, 1.0, self.grid + 1), self.dimensions)
        positive = ProductLaw(curves[self.curve], self.dimensions, self.amplitude).positive(points)
        count = len(points)
        return FiniteLaw(
            points,
            np.full(count, 1.0 / count),
            np.stack([1.0 - positive, positive], axis=1),
            self.cubes(points) if self.cells else np.zeros(count, dtype=np.int64),
        )

    def cubes(self, points: NDArray[np.float64]) -> NDArray[np.int64]:
        """The number (m,) of the cube in which each of the points (m, d) of [0, 1]^d lies.

        Numbers vary fastest along the last axis. For n users, the cubes have the side n^(-1/(2d)), so there are
        approximately √n cubes. The last cubes on an axis may reach beyond 1.
        """
        side = float(self.users ** (-0.5 / self.dimensions))
        per_axis = math.ceil(1.0 / side - 1e-9)
        cell = np.minimum(np.floor(points / side), per_axis - 1).astype(np.int64)
        return np.asarray(np.ravel_multi_index(tuple(cell.T), (per_axis,) * self.dimensions), dtype=np.int64)

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Draws the users of one replicate. No rows are held out: errors are computed exactly under the known law.

        Args:
            places: not used, since no file is read. streams: the replicate's random streams.
        """
        law, rng = self.law(), streams.generator("population")
        point = rng.integers(0, len(law.mass), self.users, dtype=np.int32)
        labels = (rng.random(self.users) < law.label_distribution[point, 1]).astype(np.uint8)
        users = Examples(law.points[point], labels, law.cluster[point])
        return Sample(users, 2, law=law, point=point)
