"""Grouping users by their public features; labels never take part."""

from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base.errors import InputError
from p2p_sim.base.notebook_view import count
from p2p_sim.base.streams import Streams
from p2p_sim.population.agglomerative import AgglomerativeClusters
from p2p_sim.population.balanced import BalancedClusters
from p2p_sim.population.hdbscan import HdbscanClusters
from p2p_sim.population.population import Examples
from p2p_sim.population.small_clusters import Clustering, Clusters, merge_small


class GivenClusters(Clustering):
    """The clusters that the population comes with (synthetic laws, tables with a cluster column)."""

    kind: Literal["given"] = "given"
    blind: ClassVar[bool] = True
    min_size: int = Field(default=2, ge=2)
    """s: smallest cluster allowed, at least 2; a smaller one is an error."""

    def assign(self, users: Examples, streams: Streams) -> Clusters:
        """Cluster of each user (n,), numbered from 0."""
        if users.cluster is None:
            raise InputError(
                "clusters.kind = 'given': this population has no clusters; use 'random' or, where features are public, "
                "'kmeans' or 'grid'"
            )
        cluster = np.unique(users.cluster, return_inverse=True)[1].astype(np.int64)
        self.check_sizes(np.bincount(cluster))
        return cluster

    def check_sizes(self, sizes: NDArray[np.int64]) -> None:
        """Refuse a cluster (of C, each with users) that is too small."""
        smallest = int(sizes.min())
        if smallest < self.min_size:
            raise InputError(f"clusters.min_size = {self.min_size}: the population has a cluster of {smallest} users")


class RandomClusters(Clustering):
    """Users dealt to clusters at random, whatever their features: sizes differ by at most one user."""

    kind: Literal["random"] = "random"
    blind: ClassVar[bool] = True
    count: int = Field(default=20, ge=1)
    """Clusters, at least 1."""
    min_size: int = Field(default=2, ge=2)
    """s: smallest cluster allowed, at least 2; a smaller one is an error."""

    def assign(self, users: Examples, streams: Streams) -> Clusters:
        """Cluster of each user (n,), numbered from 0."""
        total = len(users.labels)
        if total // self.count < self.min_size:
            each = total // self.count
            raise InputError(
                f"clusters.count = {self.count}: makes clusters of {each}, below min_size = {self.min_size}"
            )
        return streams.generator("clusters").permutation(np.arange(total) % self.count)


class KMeansClusters(Clustering):
    """k-means on the features; clusters below the minimum are merged into their nearest neighbour."""

    kind: Literal["kmeans"] = "kmeans"
    by_distance: ClassVar[str] = "k-means"
    count: int = Field(default=20, ge=1)
    """Clusters asked for, at least 1; merging may leave fewer."""
    min_size: int = Field(default=2, ge=2)
    """s: smallest cluster allowed, at least 2."""
    minibatch: bool = False
    """Use mini-batch k-means: faster on very large populations, a little less tight."""

    def assign(self, users: Examples, streams: Streams) -> Clusters:
        """Cluster of each user (n,), numbered from 0."""
        from sklearn.cluster import KMeans, MiniBatchKMeans

        if self.count > len(users.labels):
            raise InputError(f"clusters.count = {self.count}: there are only {count(len(users.labels), 'user')}")
        algorithm = MiniBatchKMeans if self.minibatch else KMeans
        model = algorithm(self.count, n_init=1, random_state=streams.integer_seed("clusters"))
        cluster = np.unique(model.fit_predict(users.features), return_inverse=True)[1]
        return merge_small(users.features, cluster.astype(np.int64), self.min_size)

    def shortfall(self, made: int) -> str:
        """Why there are fewer clusters than were asked for; nothing if there are as many."""
        if made >= self.count:
            return ""
        return f"{self.count:,} asked for; those of fewer than min_size = {self.min_size:,} users are merged"


class GridClusters(Clustering):
    """Cells of a regular grid over some features; cells below the minimum are merged into their nearest neighbour."""

    kind: Literal["grid"] = "grid"
    dims: tuple[int, ...] = Field(default=(0,), min_length=1)
    """Indices of the features that the grid divides."""
    bins: int = Field(default=4, ge=1, le=10_000)
    """Equal intervals along each of them, between the smallest and largest value; 1 to 10,000."""
    min_size: int = Field(default=2, ge=2)
    """s: smallest cluster allowed, at least 2."""

    def assign(self, users: Examples, streams: Streams) -> Clusters:
        """Cluster of each user (n,), numbered from 0."""
        available = users.features.shape[1]
        for dim in self.dims:
            if not 0 <= dim < available:
                raise InputError(f"clusters.dims: {dim} is not among the features 0 to {available - 1}")
        chosen = users.features[:, list(self.dims)].astype(np.float64)
        low, high = chosen.min(axis=0), chosen.max(axis=0)
        span = np.where(high > low, high - low, 1.0)
        cells = np.minimum((chosen - low) / span * self.bins, self.bins - 1).astype(np.int64)
        cluster = np.unique(cells, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
        return merge_small(users.features, cluster, self.min_size)


ClustersConfig = Annotated[
    GivenClusters
    | RandomClusters
    | KMeansClusters
    | GridClusters
    | AgglomerativeClusters
    | HdbscanClusters
    | BalancedClusters,
    Field(discriminator="kind"),
]
