"""Clusters of dense regions (HDBSCAN) of the public features."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from p2p_sim.base.errors import InputError
from p2p_sim.base.notebook_view import count
from p2p_sim.base.streams import Streams
from p2p_sim.population.measured_groups import nearest_cluster
from p2p_sim.population.population import Examples
from p2p_sim.population.small_clusters import Clustering, Clusters


class HdbscanClusters(Clustering):
    """HDBSCAN (Campello, Moulavi and Sander 2013) on the features; it chooses the number of clusters.

    A user in no dense region ("noise") joins the cluster with the nearest mean, so no user is left out. Where no dense
    region is found, all users are one cluster. It draws nothing at random.
    """

    kind: Literal["hdbscan"] = "hdbscan"
    by_distance: ClassVar[str] = "HDBSCAN"
    min_size: int = Field(default=2, ge=2)
    """s: smallest cluster allowed, at least 2; also the least number of users in a dense region."""

    def assign(self, users: Examples, streams: Streams) -> Clusters:
        """Cluster of each user (n,), numbered from 0."""
        size = len(users.labels)
        if self.min_size > size:
            raise InputError(f"clusters.min_size = {self.min_size}: there are only {count(size, 'user')}")
        found = density_clusters(users, self.min_size)
        dense = found >= 0
        if not dense.any():
            return np.zeros(size, dtype=np.int64)
        if not dense.all():
            order = np.argsort(found[dense], kind="stable")
            offsets = np.concatenate([[0], np.cumsum(np.bincount(found[dense]))])
            found[~dense] = nearest_cluster(users.features[~dense], users.features[dense][order], offsets)
        return found


def density_clusters(users: Examples, min_size: int) -> Clusters:
    """Dense region of each user (n,), numbered from 0; -1 for one in no dense region."""
    from sklearn.cluster import HDBSCAN

    labels = HDBSCAN(min_cluster_size=min_size, copy=True).fit_predict(users.features)
    return np.asarray(labels, dtype=np.int64)
