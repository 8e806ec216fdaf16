"""Learners that average labels nearby: k nearest neighbours, and the majority of every distinct row of features."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.learning.class_weights import ACCEPTED, class_weights, label_vectors, normalised, one_hot
from p2p_sim.learning.learner import Counted, Loss, OwnLearner, Received
from p2p_sim.mechanisms.outcome import Predictor, ReleaseKind
from p2p_sim.mechanisms.rr_with_prior import NeighbourMeans


class KnnConfig(OwnLearner):
    """Predict the class with the largest entry in the mean label vector of the k nearest users (equation 16 of the
    paper).

    For bits and soft labels the shares are scores whose order counts, not calibrated probabilities.
    """

    kind: Literal["knn"] = "knn"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = ACCEPTED
    loss: ClassVar[Loss] = "zero_one"
    neighbours: int = Field(default=200, ge=1)
    """k: users whose labels are averaged, at least 1; all of them where there are fewer."""

    def fit(self, features: NDArray[np.floating], labels: NDArray[np.uint8], num_classes: int) -> Predictor:
        """Learn from features (m, d) and true labels (m,) without privacy."""
        return self._of(features, one_hot(labels, num_classes))

    def learned(self, received: Received) -> Predictor:
        """Learn from a release."""
        return self._of(received.rows, label_vectors(received.release, received.num_classes, self.kind))

    def _of(self, features: NDArray[np.floating], vectors: NDArray[np.float32]) -> Predictor:
        if not len(vectors):  # nothing arrived: every class alike
            features, vectors = np.zeros((1, features.shape[1])), np.zeros((1, vectors.shape[1]), np.float32)
        return _Neighbours(NeighbourMeans(features, vectors, self.neighbours))


@dataclass(frozen=True)
class _Neighbours:
    means: NeighbourMeans

    def probabilities(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        return normalised(self.means.at(features))


Floats = NDArray[np.float64]


class MajorityTableConfig(OwnLearner):
    """Predict for each distinct row of features the class with the largest sum of weights there.

    This minimises the (modified) 0-1 loss over all functions of the features; other rows get the class with the largest
    sum of all weights. For laws on finitely many points; its excess risk is that of the 0-1 loss over Bayes' rule.
    """

    kind: Literal["table"] = "table"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = ("hard", "soft", "signed")
    loss: ClassVar[Loss] = "zero_one"
    takes_counts: ClassVar[bool] = True

    @property
    def depends_on_scale(self) -> bool:
        return False

    def fit(self, features: NDArray[np.floating], labels: NDArray[np.uint8], num_classes: int) -> Predictor:
        """Learn from features (m, d) and true labels (m,) without privacy."""
        return _tabulate(features, np.eye(num_classes)[labels])

    def fit_counts(self, true: Counted) -> Predictor:
        """Learn from true labels without privacy, counted."""
        return _tabulate(true.points, true.counts.astype(np.float64))

    def learned(self, received: Received) -> Predictor:
        """Learn from a release."""
        weights = class_weights(received.release, received.num_classes, self.kind, self.accepts)
        return _tabulate(received.rows, weights)


def _tabulate(features: NDArray[np.floating], weights: Floats) -> "_Table":
    rows, inverse = np.unique(np.ascontiguousarray(features), axis=0, return_inverse=True)
    sums = np.stack([np.bincount(inverse.ravel(), w, len(rows)) for w in weights.T], axis=1)
    return _Table({row.tobytes(): total for row, total in zip(rows, sums, strict=True)}, weights.sum(axis=0))


@dataclass(frozen=True)
class _Table:
    """Sums of weights (K,) by the bytes of a row of features, and over all rows."""

    sums: dict[bytes, Floats]
    overall: Floats

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """Positive parts of the sums, normalised; the leading class leads."""
        found = np.array([self.sums.get(row.tobytes(), self.overall) for row in np.ascontiguousarray(features)])
        found = np.maximum(found.reshape(len(features), self.overall.size), 0.0) + 1e-12
        return np.asarray(found / found.sum(axis=1, keepdims=True))
