"""Groups users into clusters by public features, at random, or as the population states; never by the users' labels.

Some clusterings merge small clusters.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base import Config, InputError, Streams, count
from p2p_sim.population.measured_groups import nearest_cluster
from p2p_sim.population.population import Examples

Clusters = NDArray[np.int64]


class Clustering(Config):
    """Base of all clusterings, which group the users of a population."""

    kind: str
    by_distance: ClassVar[str] = ""
    """Name of the clustering if it uses distances between users, which depend on the scales of features; else empty."""
    blind: ClassVar[bool] = False
    """Whether the clustering uses no user's features, and so reveals nothing about a row."""
    min_size: int = Field(default=2, ge=2)
    """s: smallest cluster allowed, at least 2."""

    def shortfall(self, clusters: int) -> str:
        """For messages: why there are fewer clusters than the key `count` asks for; empty if there is no reason.

        Args:
            clusters: number of clusters that were made.
        """
        return ""


class _Merging(Clustering):
    """Base of clusterings that make `count` clusters and then merge small clusters."""

    count: int = Field(default=20, ge=1)
    """Number of clusters asked for, at least 1; merging may leave fewer."""

    def shortfall(self, clusters: int) -> str:
        """For messages: how many clusters were asked for, and that small ones are merged; empty if none is missing.

        Args:
            clusters: number of clusters that were made.
        """
        reason = f"clusters of fewer than min_size = {self.min_size:,} users are merged"
        return f"{self.count:,} asked for; {reason}" if clusters < self.count else ""


def merge_small(features: NDArray[np.floating], cluster: NDArray[np.integer], min_size: int) -> Clusters:
    """Merges the smallest cluster into the cluster with the nearest mean, until no cluster is smaller than `min_size`.

    Args:
        features: (n, d) of the users. cluster: (n,) number of each user's cluster.
        min_size: at least 1; if min_size is above n, InputError is raised.

    Returns:
        The cluster of each user (n,), numbered from 0 without gaps.
    """
    check_users("min_size", min_size, len(cluster))
    cluster = np.unique(cluster, return_inverse=True)[1]
    # sums of the features of each cluster; merging two clusters adds their sums
    sizes = np.bincount(cluster)
    order = np.argsort(cluster, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    sums = np.add.reduceat(features[order].astype(np.float64), starts, axis=0)
    target = np.arange(len(sizes))
    alive = sizes > 0
    while sizes[small := int(np.argmin(np.where(alive, sizes, np.iinfo(np.int64).max)))] < min_size:
        alive[small] = False
        others = np.flatnonzero(alive)
        means = sums[others] / sizes[others, None]
        distance = np.sum((means - sums[small] / sizes[small]) ** 2, axis=1)
        into = others[int(np.argmin(distance))]
        sums[into] += sums[small]
        sizes[into] += sizes[small]
        target[target == small] = into
    return np.unique(target[cluster], return_inverse=True)[1].astype(np.int64)


def check_users(key: str, least: int, users: int) -> None:
    """Raise InputError if there are fewer users than `least`, the number that the key `clusters.{key}` needs."""
    if least > users:
        raise InputError(f"clusters.{key} = {least}: there are only {count(users, 'user')}")


MOST_USERS = 20_000
"""Largest number of users in agglomerative clustering; the distances between all pairs of users need 1.6 GB."""


class AgglomerativeClusters(_Merging):
    """Ward's agglomerative clustering; clusters with fewer than `min_size` users are merged into the nearest cluster.

    Nothing is drawn at random. At most 20,000 users are allowed, since memory grows with the square of their number.
    """

    kind: Literal["agglomerative"] = "agglomerative"
    by_distance: ClassVar[str] = "agglomerative clustering"

    def assign(self, users: Examples, streams: Streams) -> Clusters:
        """The cluster (n,) of each user, numbered from 0, by Ward's clustering of the features.

        Args:
            users: the rows of all n users; only features are used. streams: not used, since nothing is drawn.

        Raises:
            InputError: there are more than 20,000 users, or too few for `count` or `min_size`.
        """
        from sklearn.cluster import AgglomerativeClustering

        check_users("count", self.count, len(users.labels))
        if len(users.labels) > MOST_USERS:
            raise InputError(
                f"clusters.kind = 'agglomerative': there are {len(users.labels):,} users; at most {MOST_USERS:,} are "
                "allowed; 'kmeans' and 'balanced' take more"
            )
        cluster = AgglomerativeClustering(self.count).fit_predict(users.features)
        return merge_small(users.features, cluster, self.min_size)


PART, ROUNDS = 500, 3
"""PART: number of users who are assigned together, or `count` if larger. ROUNDS: number of k-means rounds."""


class BalancedClusters(Clustering):
    """k-means with equal cluster sizes, which differ by at most one user. No user is left out, and nothing is merged.

    Users are divided at random into parts of 500, or of `count` if `count` is larger. Each part is spread over the
    clusters in numbers that differ by at most one. Among all such assignments of a part, the assignment with the
    smallest total squared distance to the means is taken.
    """

    kind: Literal["balanced"] = "balanced"
    by_distance: ClassVar[str] = "balanced k-means"
    count: int = Field(default=20, ge=1, le=2000)
    """Number of clusters asked for, 1 to 2,000; fewer are made if there are too few users for min_size."""

    def assign(self, users: Examples, streams: Streams) -> Clusters:
        """The cluster of each user (n,), numbered from 0, by k-means with equal cluster sizes.

        users: rows of all n users. streams: the replicate's random streams, for the first means and the order of users.
        """
        from sklearn.cluster import MiniBatchKMeans

        total, features = len(users.labels), users.features.astype(np.float64)
        check_users("count", self.count, total)
        check_users("min_size", self.min_size, total)
        count = min(self.count, total // self.min_size)
        seed = streams.integer_seed("clusters")
        means = MiniBatchKMeans(count, n_init=1, random_state=seed).fit(features).cluster_centers_
        order = np.random.default_rng(seed).permutation(total)
        # k-means in two alternating steps: assign users to clusters of equal sizes; then compute the means
        for _ in range(ROUNDS):
            cluster = _assigned(features, means, order)
            members = np.argsort(cluster, kind="stable")
            sizes = np.bincount(cluster, minlength=count)
            means = np.add.reduceat(features[members], np.cumsum(sizes) - sizes, axis=0) / sizes[:, None]
        return cluster

    def shortfall(self, clusters: int) -> str:
        """For messages: the number of clusters asked for, and that users are too few; empty if no cluster is missing.

        Args:
            clusters: number of clusters that were made.
        """
        reason = f"there are too few users for so many clusters of min_size = {self.min_size:,}"
        return f"{self.count:,} asked for; {reason}" if clusters < self.count else ""


def _assigned(features: NDArray[np.float64], means: NDArray[np.float64], order: NDArray[np.int64]) -> Clusters:
    """The cluster (n,) of each user, with a mean near to her features; cluster sizes differ by at most one.

    Args:
        features: (n, d) of the users. means: (C, d) of the clusters.
        order: (n,) users in the order of assignment. Consecutive users form parts. Each part has the assignment with
        the smallest sum of squared distances to cluster means.
    """
    import scipy

    count, cluster = len(means), np.empty(len(order), dtype=np.int64)
    # a slot in a cluster for each user; the numbers of slots in the clusters differ by at most one
    slots = np.arange(len(order)) % count
    for start in range(0, len(order), max(PART, count)):
        part = order[start : start + max(PART, count)]
        part_slots = slots[start : start + len(part)]
        cost = np.sum(means**2, axis=1) - 2.0 * features[part] @ means.T  # squared distance without the term |x|²
        rows, columns = scipy.optimize.linear_sum_assignment(cost[:, part_slots])
        cluster[part[rows]] = part_slots[columns]
    return cluster


class HdbscanClusters(Clustering):
    """HDBSCAN (Campello, Moulavi and Sander 2013) on the features; the method itself chooses the number of clusters.

    A user in no dense region ("noise") joins the cluster with the nearest mean, so no user is left out. If no dense
    region is found, all users are one cluster. Nothing is drawn at random.
    """

    kind: Literal["hdbscan"] = "hdbscan"
    by_distance: ClassVar[str] = "HDBSCAN"
    min_size: int = Field(default=2, ge=2)
    """s: smallest cluster allowed, at least 2; also the least number of users in a dense region."""

    def assign(self, users: Examples, streams: Streams) -> Clusters:
        """The cluster of each user (n,), numbered from 0: her dense region, or the nearest region if she is in none.

        users: rows of all n users. streams: not used, since nothing is drawn.
        """
        check_users("min_size", self.min_size, len(users.labels))
        region = density_clusters(users, self.min_size)
        dense = region >= 0
        if not dense.any():
            return np.zeros(len(region), dtype=np.int64)
        if not dense.all():
            order = np.argsort(region[dense], kind="stable")
            offsets = np.concatenate([[0], np.cumsum(np.bincount(region[dense]))])
            region[~dense] = nearest_cluster(users.features[~dense], users.features[dense][order], offsets)
        return region


def density_clusters(users: Examples, min_size: int) -> Clusters:
    """The dense region of each user's features (n,), numbered from 0, as HDBSCAN finds it; -1: no dense region.

    users: rows of all n users. min_size: smallest number of users in a dense region.
    """
    from sklearn.cluster import HDBSCAN

    return np.asarray(HDBSCAN(min_cluster_size=min_size, copy=True).fit_predict(users.features), dtype=np.int64)


class GivenClusters(Clustering):
    """The clusters that the population comes with, for example from a synthetic law or a table's cluster column."""

    kind: Literal["given"] = "given"
    blind: ClassVar[bool] = True
    min_size: int = Field(default=2, ge=2)
    """s: smallest cluster allowed, at least 2; a smaller cluster is an error."""

    def assign(self, users: Examples, streams: Streams) -> Clusters:
        """The cluster of each user (n,), stated by her row, numbered from 0 without gaps; `streams` is not used."""
        if users.cluster is None:
            raise InputError(
                "clusters.kind = 'given': this population has no clusters; use 'random' or, where features are public, "
                "'kmeans' or 'grid'"
            )
        cluster = np.unique(users.cluster, return_inverse=True)[1].astype(np.int64)
        self.check_sizes(np.bincount(cluster))
        return cluster

    def check_sizes(self, sizes: NDArray[np.int64]) -> None:
        """Raise InputError if a cluster has fewer than `min_size` users. sizes: (C,) users in each cluster."""
        if sizes.min() < self.min_size:
            raise InputError(
                f"clusters.min_size = {self.min_size}: the population has a cluster of {sizes.min()} users"
            )


class RandomClusters(Clustering):
    """Puts users into clusters at random, whatever their features; cluster sizes differ by at most one user."""

    kind: Literal["random"] = "random"
    blind: ClassVar[bool] = True
    count: int = Field(default=20, ge=1)
    """Number of clusters, at least 1."""
    min_size: int = Field(default=2, ge=2)
    """s: smallest cluster allowed, at least 2; a smaller cluster is an error."""

    def assign(self, users: Examples, streams: Streams) -> Clusters:
        """A random cluster for each of the n users (n,), numbered from 0, drawn from the replicate's `streams`."""
        total = len(users.labels)
        each = total // self.count
        if each < self.min_size:
            raise InputError(
                f"clusters.count = {self.count}: makes clusters of {each}, below min_size = {self.min_size}"
            )
        return streams.generator("clusters").permutation(np.arange(total) % self.count)


class KMeansClusters(_Merging):
    """k-means on the features; clusters with fewer than `min_size` users are merged into the nearest cluster."""

    kind: Literal["kmeans"] = "kmeans"
    by_distance: ClassVar[str] = "k-means"
    minibatch: bool = False
    """Whether to use mini-batch k-means: faster on very large populations, with slightly less compact clusters."""

    def assign(self, users: Examples, streams: Streams) -> Clusters:
        """The cluster of each user (n,), numbered from 0, by k-means on features; `streams` draw the first means."""
        from sklearn.cluster import KMeans, MiniBatchKMeans

        check_users("count", self.count, len(users.labels))
        algorithm = MiniBatchKMeans if self.minibatch else KMeans
        model = algorithm(self.count, n_init=1, random_state=streams.integer_seed("clusters"))
        return merge_small(users.features, model.fit_predict(users.features), self.min_size)


class GridClusters(Clustering):
    """Clusters are cells of a grid over some features; cells with fewer than `min_size` users join the nearest one."""

    kind: Literal["grid"] = "grid"
    dims: tuple[int, ...] = Field(default=(0,), min_length=1)
    """Indices of the features that the grid divides."""
    bins: int = Field(default=4, ge=1, le=10_000)
    """Number of equal intervals between the smallest and largest value of each feature in dims; 1 to 10,000."""

    def assign(self, users: Examples, streams: Streams) -> Clusters:
        """The cluster of each user (n,), numbered from 0, by the grid cell of her features; `streams` is not used."""
        available = users.features.shape[1]
        for dim in self.dims:
            if not 0 <= dim < available:
                raise InputError(f"clusters.dims: {dim} is not among the features 0 to {available - 1}")
        chosen = users.features[:, list(self.dims)].astype(np.float64)
        low, high = chosen.min(axis=0), chosen.max(axis=0)
        span = np.where(high > low, high - low, 1.0)
        cells = np.minimum((chosen - low) / span * self.bins, self.bins - 1).astype(np.int64)
        cluster = np.unique(cells, axis=0, return_inverse=True)[1].reshape(-1)
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
