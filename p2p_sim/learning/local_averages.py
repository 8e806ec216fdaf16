"""Learners that average the labels of the k nearest users, or of the users with equal features."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.learning.learner import SUMS, VECTORS, Floats, Learner, Loss, normalised
from p2p_sim.mechanisms import NeighbourMeans, Predictor, ReleaseKind


class KnnConfig(Learner):
    """Predict the class with the largest entry in the mean label vector of the k nearest users.

    This is equation 16 of the vector approximation paper. For bits and soft labels the predicted probabilities are
    uncalibrated scores: only their order is meaningful.
    """

    kind: Literal["knn"] = "knn"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = VECTORS
    loss: ClassVar[Loss] = "zero_one"
    neighbours: int = Field(default=200, ge=1)
    """k: number of users whose labels are averaged, at least 1. If fewer labels arrive, all are averaged."""

    def fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """The predictor learned from m label vectors. At a point it predicts from the mean label vector of the k =
        `neighbours` rows that are nearest to the point.

        Args:
            features: (m, d). weights: (m, K) label vectors.
        """
        if not len(weights):  # if no label arrived, all classes are equally probable
            features, weights = np.zeros((1, features.shape[1])), np.zeros((1, weights.shape[1]))
        return _Neighbours(NeighbourMeans(features, weights.astype(np.float32), self.neighbours))


@dataclass(frozen=True)
class _Neighbours:
    means: NeighbourMeans

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        return normalised(self.means.at(features))


class MajorityTableConfig(Learner):
    """Predict for each distinct row of features the class with the largest sum of weights among equal rows.

    No other function of the features has a smaller sum, over the labels, of 1 minus the weight of the predicted class.
    A row whose features did not occur in learning gets the class with the largest sum of all weights. The learner is
    for laws on finitely many points. The excess risk is the learner's 0-1 loss minus the 0-1 loss of Bayes' rule.
    """

    kind: Literal["table"] = "table"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = SUMS
    loss: ClassVar[Loss] = "zero_one"
    takes_counts: ClassVar[bool] = True
    depends_on_scale: ClassVar[bool] = False

    def fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """The predictor learned from m labels. For each distinct row of features, the weights of each class are summed
        over the labels with these features. The class with the largest sum is predicted. Features that did not occur
        get the sums over all labels.

        Args:
            features: (m, d). weights: (m, K) weights of the K classes in each label.
        """
        rows, inverse = np.unique(np.ascontiguousarray(features), axis=0, return_inverse=True)
        sums = np.stack([np.bincount(inverse.ravel(), w, len(rows)) for w in weights.T], axis=1)
        return _Table({row.tobytes(): total for row, total in zip(rows, sums, strict=True)}, weights.sum(axis=0))


@dataclass(frozen=True)
class _Table:
    """A predictor from sums of the weights of K classes.

    sums: the key is a row of features, as bytes; the value is the sums (K,) over the labels with these features.
    overall: the sums (K,) over all labels.
    """

    sums: dict[bytes, Floats]
    overall: Floats

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """Predicted class probabilities (n, K) for the features (n, d): the class sums, divided by their total.
        Features that did not occur in learning get the sums over all labels. Negative sums count as 0. Without positive
        sums, each class has probability 1/K.
        """
        sums = np.array([self.sums.get(row.tobytes(), self.overall) for row in np.ascontiguousarray(features)])
        return normalised(np.maximum(sums.reshape(len(features), self.overall.size), 0.0) + 1e-12)
