"""What all groupings of users share, and the merging of clusters that are too small."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.configuration import Config
from p2p_sim.base.errors import InputError
from p2p_sim.base.notebook_view import count

Clusters = NDArray[np.int64]


class Clustering(Config):
    """What all groupings share."""

    by_distance: ClassVar[str] = ""
    """Its name where distances between users decide, so that it depends on the scale of features; else empty."""
    blind: ClassVar[bool] = False
    """Whether it looks at no user's features, so that it says nothing of a row."""

    def shortfall(self, made: int) -> str:
        """Why there are fewer clusters than were asked for; nothing if no number was."""
        return ""


def merge_small(features: NDArray[np.floating], cluster: Clusters, min_size: int) -> Clusters:
    """Merge the smallest cluster into the one with the nearest mean until none is smaller than `min_size`.

    Args:
        features: (n, d).
        cluster: (n,) numbered 0..C-1 without gaps.
        min_size: at least 1 and at most n, else an InputError.

    Returns:
        Clusters (n,), numbered without gaps.
    """
    if min_size > len(cluster):
        raise InputError(f"clusters.min_size = {min_size}: there are only {count(len(cluster), 'user')}")
    sizes = np.bincount(cluster)
    order = np.argsort(cluster, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    sums = np.add.reduceat(features[order].astype(np.float64), starts, axis=0)
    target = np.arange(len(sizes))
    alive = sizes > 0
    while (small := int(np.argmin(np.where(alive, sizes, np.iinfo(np.int64).max)))) >= 0:
        if sizes[small] >= min_size:
            break
        alive[small] = False
        others = np.flatnonzero(alive)
        means = sums[others] / sizes[others, None]
        distance = np.sum((means - sums[small] / sizes[small]) ** 2, axis=1)
        into = others[int(np.argmin(distance))]
        sums[into] += sums[small]
        sizes[into] += sizes[small]
        target[target == small] = into
    return np.unique(target[cluster], return_inverse=True)[1].astype(np.int64)


def check_count(clusters: int, users: int) -> None:
    """Refuse more clusters than there are users."""
    if clusters > users:
        raise InputError(f"clusters.count = {clusters}: there are only {count(users, 'user')}")
