"""Agglomerative clustering of users by their public features."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.population.population import Examples
from p2p_sim.population.small_clusters import Clustering, Clusters, check_count, merge_small

MOST_USERS = 20_000
"""Users at most: the distances of all pairs are held in memory, 1.6 GB for so many."""


class AgglomerativeClusters(Clustering):
    """Ward's agglomerative clustering; clusters below the minimum are merged into their nearest neighbour.

    It draws nothing at random. At most 20,000 users, since memory grows with the square of their number.
    """

    kind: Literal["agglomerative"] = "agglomerative"
    by_distance: ClassVar[str] = "agglomerative clustering"
    count: int = Field(default=20, ge=1)
    """Clusters asked for, at least 1; merging may leave fewer."""
    min_size: int = Field(default=2, ge=2)
    """s: smallest cluster allowed, at least 2."""

    def assign(self, users: Examples, streams: Streams) -> Clusters:
        """Cluster of each user (n,), numbered from 0."""
        from sklearn.cluster import AgglomerativeClustering

        check_count(self.count, len(users.labels))
        if len(users.labels) > MOST_USERS:
            raise InputError(
                f"clusters.kind = 'agglomerative': there are {len(users.labels):,} users; at most {MOST_USERS:,} are "
                "allowed; 'kmeans' and 'balanced' take more"
            )
        found = AgglomerativeClustering(self.count).fit_predict(users.features)
        cluster = np.unique(found, return_inverse=True)[1].astype(np.int64)
        return merge_small(users.features, cluster, self.min_size)

    def shortfall(self, made: int) -> str:
        """Why there are fewer clusters than were asked for; nothing if there are as many."""
        if made >= self.count:
            return ""
        return f"{self.count:,} asked for; those of fewer than min_size = {self.min_size:,} users are merged"
