"""Cluster heterogeneity φ (Definition 1 of the clustering paper): the full L1 distance, not half of this distance."""

import numpy as np
from numpy.typing import NDArray


def heterogeneity(
    mass: NDArray[np.float64], label_distribution: NDArray[np.float64], cluster: NDArray[np.integer]
) -> float:
    """φ = E Σ_y |p(y|x) - p(y|c)| for a known law.

    Args:
        mass: (P,) probability of each point.
        label_distribution: (P, K) p(y|x).
        cluster: (P,) cluster of each point.

    >>> round(heterogeneity(np.full(2, 0.5), np.array([[0.4, 0.6], [0.6, 0.4]]), np.zeros(2, dtype=int)), 12)
    0.2
    """
    count = int(cluster.max()) + 1
    weights = np.bincount(cluster, weights=mass, minlength=count)
    total = 0.0
    for values in label_distribution.T:
        ones = np.bincount(cluster, weights=mass * values, minlength=count)
        mean = np.divide(ones, weights, out=np.zeros(count), where=weights > 0)
        total += float(mass @ np.abs(values - mean[cluster]))
    return total


def heterogeneity_upper_estimate(
    labels: NDArray[np.integer], cluster_offsets: NDArray[np.int64], num_classes: int
) -> float:
    """An unbiased estimate of an upper bound on φ, computed only from labels.

    If each label is treated as certain given its features (p(y|x) = 1), φ does not become smaller, by Jensen's
    inequality: it becomes E 2(1 - p(Y|c)). The other users of the cluster estimate p(Y|c) without bias. The estimate
    reads true labels: it is for the experimenter, and a parameter chosen by it is not private.

    Args:
        labels: (n,) in 0..K-1, stored cluster by cluster.
        cluster_offsets: (C+1,), every cluster with at least 2 users.
        num_classes: K.
    """
    sizes = np.diff(cluster_offsets)
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    counts = np.bincount(cluster * num_classes + labels, minlength=len(sizes) * num_classes)
    counts = counts.reshape(len(sizes), num_classes)
    same = (counts * (counts - 1)).sum(axis=1)  # ordered pairs of users of a cluster with the same label
    return float(np.sum(2.0 * (sizes - same / (sizes - 1))) / len(labels))
