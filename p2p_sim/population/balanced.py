"""Clusters of equal size: k-means whose assignment has a capacity for each cluster."""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.population.population import Examples
from p2p_sim.population.small_clusters import Clustering, Clusters, check_count

PART, ROUNDS = 500, 3
"""Users that are assigned at once (or `count`, if that is more); assignments, each from the last one's means."""


class BalancedClusters(Clustering):
    """k-means with equal sizes: sizes differ by at most one user, and no user is left out or merged.

    Users are assigned in random parts of 500 (or `count`, if that is more). Each part is assigned at the least total
    squared distance (a linear assignment) into places that are spread equally over the clusters.
    """

    kind: Literal["balanced"] = "balanced"
    by_distance: ClassVar[str] = "balanced k-means"
    count: int = Field(default=20, ge=1, le=2000)
    """Clusters asked for, 1 to 2,000; fewer are made where min_size needs it."""
    min_size: int = Field(default=2, ge=2)
    """s: smallest cluster allowed, at least 2."""

    def assign(self, users: Examples, streams: Streams) -> Clusters:
        """Cluster of each user (n,), numbered from 0."""
        from sklearn.cluster import MiniBatchKMeans

        total, features = len(users.labels), users.features.astype(np.float64)
        check_count(self.count, total)
        if self.min_size > total:
            raise InputError(f"clusters.min_size = {self.min_size}: there are only {total} users")
        count = min(self.count, total // self.min_size)
        seed = streams.integer_seed("clusters")
        means = MiniBatchKMeans(count, n_init=1, random_state=seed).fit(features).cluster_centers_
        order = np.random.default_rng(seed).permutation(total)
        for _ in range(ROUNDS):
            cluster = _assigned(features, means, order)
            members = np.argsort(cluster, kind="stable")
            sizes = np.bincount(cluster, minlength=count)
            means = np.add.reduceat(features[members], np.cumsum(sizes) - sizes, axis=0) / sizes[:, None]
        return cluster

    def shortfall(self, made: int) -> str:
        """Why there are fewer clusters than were asked for; nothing if there are as many."""
        if made >= self.count:
            return ""
        return f"{self.count:,} asked for; there are too few users for so many of min_size = {self.min_size:,}"


def _assigned(features: NDArray[np.float64], means: NDArray[np.float64], order: NDArray[np.int64]) -> Clusters:
    """Cluster of each user (n,); users take part after part in this order (n,)."""
    import scipy

    count, cluster = len(means), np.empty(len(order), dtype=np.int64)
    places = np.arange(len(order)) % count  # of the j-th user's place: sizes differ by at most one
    for start in range(0, len(order), max(PART, count)):
        part = order[start : start + max(PART, count)]
        place = places[start : start + len(part)]
        cost = np.sum(means**2, axis=1) - 2.0 * features[part] @ means.T  # squared distance, but for |x|²
        rows, columns = scipy.optimize.linear_sum_assignment(cost[:, place])
        cluster[part[rows]] = place[columns]
    return cluster
