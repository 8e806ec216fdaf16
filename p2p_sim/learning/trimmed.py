"""Logistic regression on each cluster's trimmed share of labels, for when some users lie."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base.errors import InputError
from p2p_sim.learning.learner import Counted, Received
from p2p_sim.learning.logistic_regression import Floats, PenalisedLogisticConfig
from p2p_sim.mechanisms.outcome import Predictor


def trimmed_shares(counts: NDArray[np.integer] | Floats, trim: float) -> Floats:
    """Class shares (C, K) after the share `trim` of a cluster's labels was taken from each of its classes.

    A class keeps no less than nothing. Rows without labels, or of which nothing is left, are 0.

    >>> trimmed_shares(np.array([[70, 30]]), 0.2).round(4).tolist()
    [[0.8333, 0.1667]]

    Args:
        counts: (C, K) labels of each class that arrived from each cluster.
        trim: 0 to 1.
    """
    left = np.maximum(counts - trim * counts.sum(axis=1, keepdims=True), 0.0)
    total = left.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(left, total, out=np.zeros_like(left), where=total > 0))


class TrimmedClustersConfig(PenalisedLogisticConfig):
    """Logistic regression in which every submission of a cluster carries the cluster's trimmed class shares.

    For two classes the share of ones becomes (p - trim) / (1 - 2 trim), cut to [0, 1]. Where the cut does not matter,
    this undoes on average that a random share `trim` of the labels was inverted, flips of a randomizer included. It
    does not correct all lies: if a share `trim` always says 1, the estimate comes closer to the honest share p if p <
    (1 - 2 trim) / (2 - 2 trim) and is farther from it otherwise; if nobody lies, it exaggerates.
    """

    kind: Literal["trimmed_clusters"] = "trimmed_clusters"
    trim: float = Field(default=0.1, ge=0, lt=0.5)
    """Share of a cluster's labels that is taken from each class, at least 0 and below 1/K for K classes."""

    def learned(self, received: Received) -> Predictor:
        """Learn from a release of hard labels."""
        release, classes = received.release, received.num_classes
        self._check(classes)
        labels, num_clusters = self._hard_labels(release), len(received.cluster_offsets) - 1
        cluster = np.searchsorted(received.cluster_offsets, release.user, side="right") - 1
        counts = np.bincount(cluster * classes + labels, minlength=num_clusters * classes)
        shares = trimmed_shares(counts.reshape(num_clusters, classes), self.trim)[cluster]
        row, label = np.nonzero(shares)
        return self._fit_weighted(received.rows[row], label, classes, shares[row, label])

    def learned_counts(self, received: Counted) -> Predictor:
        """Learn from a release of hard labels, counted."""
        classes, cluster = received.num_classes, received.cluster
        self._check(classes)
        counts = np.stack([np.bincount(cluster, weights=c) for c in received.counts.T], axis=1)
        shares = trimmed_shares(counts, self.trim)[cluster] * received.counts.sum(axis=1, keepdims=True)
        row, label = np.nonzero(shares)
        return self._fit_weighted(received.points[row], label, classes, shares[row, label])

    def _check(self, classes: int) -> None:
        if self.trim * classes >= 1:
            raise InputError(f"learner.trim = {self.trim:g}: must be below 1/{classes} for {classes} classes")
