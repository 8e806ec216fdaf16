"""Users with regression labels: a law whose heterogeneity is set exactly, and scikit-learn's diabetes table.

A label is a place in a public grid of values, so that places go through the exchange as classes do.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from p2p_sim.base.streams import Streams
from p2p_sim.population.clustering import merge_small
from p2p_sim.population.population import Population

Floats = NDArray[np.float64]
SLOPE, GRID = 0.2, 17
"""Change of the mean from the middle cluster to the last one, and label values of both data sets."""
DIABETES_RANGE = (0.0, 400.0)
"""Public range of the diabetes table's label, a measure of progression after one year."""


@dataclass(frozen=True)
class RegressionUsers:
    """Users and what their learner is measured on.

    population: their labels are places in `values`. values: (k,) the public grid.
    points: (m, d) features and target: (m,) the value that a prediction there is compared with; residual: mean squared
    distance of the labels from the targets, which no prediction avoids, where a law is known.
    """

    population: Population
    values: Floats
    points: Floats
    target: Floats
    residual: float = 0.0

    @property
    def cluster(self) -> NDArray[np.intp]:
        """(n,) cluster of each user."""
        return np.repeat(np.arange(len(self.population.cluster_sizes)), self.population.cluster_sizes)

    @property
    def label_variance(self) -> float:
        """Variance of labels within clusters, of the users at hand."""
        y, cluster = self.values[self.population.labels], self.cluster
        sizes = np.bincount(cluster)
        means = np.bincount(cluster, weights=y) / sizes
        return float(np.mean((y - means[cluster]) ** 2))


@dataclass(frozen=True)
class LabelLaw:
    """Labels on a grid of [0, 1] with mean f(x) = 1/2 + a t + γ v; clusters differ in t alone.

    A point has features (t, v): t = u + τ r with u in [-1, 1] the place of its cluster and r, v = ±1, all four equally
    likely. The label is binomial: k-1 trials with probability f(x), divided by k-1. a τ = γ = h/√2, so that the
    variance of f within a cluster is h² exactly; half of it lies along t, which clusters differ in, half along v.

    Args:
        heterogeneity: h in [0, 0.2]. clusters, size: numbers of clusters and of users in each.
    """

    heterogeneity: float
    clusters: int = 50
    size: int = 200

    @property
    def points(self) -> Floats:
        """(4 · clusters, 2), cluster by cluster."""
        along = self.heterogeneity / math.sqrt(2.0) / SLOPE
        place = np.repeat(np.linspace(-1.0, 1.0, self.clusters), 4)
        r, v = (np.tile(side, self.clusters) for side in ([1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0]))
        return np.stack([place + along * r, v], axis=1)

    @property
    def mean(self) -> Floats:
        """f at every point."""
        points = self.points
        return 0.5 + SLOPE * points[:, 0] + self.heterogeneity / math.sqrt(2.0) * points[:, 1]

    @property
    def residual(self) -> float:
        """Variance of a label around f(x), averaged over the points: the risk of f itself."""
        return float(np.mean(self.mean * (1.0 - self.mean)) / (GRID - 1))

    def label_law(self) -> Floats:
        """(points, k) probability of each value."""
        return np.asarray(binom.pmf(np.arange(GRID), GRID - 1, self.mean[:, None]))

    def draw(self, streams: Streams) -> RegressionUsers:
        """The users of one replicate."""
        rng, n = streams.generator("population"), self.clusters * self.size
        point = 4 * np.repeat(np.arange(self.clusters), self.size) + rng.integers(0, 4, n)
        labels = rng.binomial(GRID - 1, self.mean[point]).astype(np.uint8)
        offsets = np.arange(self.clusters + 1, dtype=np.int64) * self.size
        population = Population(self.points[point], labels, offsets, GRID)
        return RegressionUsers(population, np.linspace(0.0, 1.0, GRID), self.points, self.mean, self.residual)


@dataclass(frozen=True)
class Diabetes:
    """scikit-learn's 442 patients with 10 standardised features; clusters are made of the features, which are public.

    Args:
        clusters: asked for. least: users in the smallest. held_out: share of the rows that measures the error.
    """

    clusters: int = 6
    least: int = 40
    held_out: float = 0.2

    def draw(self, streams: Streams) -> RegressionUsers:
        """Users, and the rows that are held out in this replicate; their labels are not binned."""
        from sklearn.cluster import KMeans

        features, progression = _diabetes()
        order = streams.generator("holdout").permutation(len(features))
        held, kept = np.split(order, [round(self.held_out * len(order))])
        model = KMeans(self.clusters, n_init=1, random_state=streams.integer_seed("clusters"))
        cluster = merge_small(features[kept], model.fit_predict(features[kept]).astype(np.int64), self.least)
        kept = kept[np.argsort(cluster, kind="stable")]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(cluster))]).astype(np.int64)
        values = np.linspace(*DIABETES_RANGE, GRID)
        labels = np.abs(progression[kept, None] - values).argmin(axis=1).astype(np.uint8)
        population = Population(features[kept], labels, offsets, GRID)
        return RegressionUsers(population, values, features[held], progression[held])


@lru_cache(maxsize=1)
def _diabetes() -> tuple[Floats, Floats]:
    from sklearn.datasets import load_diabetes
    from sklearn.preprocessing import StandardScaler

    features, progression = load_diabetes(return_X_y=True, scaled=False)
    return StandardScaler().fit_transform(features), progression.astype(np.float64)
