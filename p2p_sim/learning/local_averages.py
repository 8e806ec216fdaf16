"""Learners that average labels: those of the k nearest users, or those of the users with the same features."""

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
    scores whose order counts; they are not calibrated.
    """

    kind: Literal["knn"] = "knn"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = VECTORS
    loss: ClassVar[Loss] = "zero_one"
    neighbours: int = Field(default=200, ge=1)
    """k: number of users whose labels are averaged, at least 1; all users where there are fewer than k."""

    def fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """The predictor learned from m label vectors. At a point it predicts from the mean of the k label vectors whose
        features are nearest to the point; k is the field `neighbours`.

        Args:
            features: (m, d). weights: (m, K) label vectors.
        """
        if not len(weights):  # no label arrived: all classes are equally probable
            features, weights = np.zeros((1, features.shape[1])), np.zeros((1, weights.shape[1]))
        return _Neighbours(NeighbourMeans(features, weights.astype(np.float32), self.neighbours))


@dataclass(frozen=True)
class _Neighbours:
    means: NeighbourMeans

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        return normalised(self.means.at(features))


class MajorityTableConfig(Learner):
    """Predict for each distinct row of features the class with the largest sum of weights among equal rows.

    This minimises the sum over the labels of 1 minus the weight of the predicted class, over all functions of the
    features. A row whose features did not occur in learning gets the class with the largest sum of all weights. The
    learner is for laws on finitely many points; its excess risk is the 0-1 loss beyond that of Bayes' rule.
    """

    kind: Literal["table"] = "table"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = SUMS
    loss: ClassVar[Loss] = "zero_one"
    takes_counts: ClassVar[bool] = True
    depends_on_scale: ClassVar[bool] = False

    def fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """The predictor learned from m labels. For each distinct row of features, the weights of each class are summed
        over the labels with these features, and the class with the largest sum is predicted. For features that did not
        occur, the sums over all labels are used.

        Args:
            features: (m, d). weights: (m, K) weights of the K classes in each label.
        """
        rows, inverse = np.unique(np.ascontiguousarray(features), axis=0, return_inverse=True)
        sums = np.stack([np.bincount(inverse.ravel(), w, len(rows)) for w in weights.T], axis=1)
        return _Table({row.tobytes(): total for row, total in zip(rows, sums, strict=True)}, weights.sum(axis=0))


@dataclass(frozen=True)
class _Table:
    """A predictor from sums of the weights of K classes.

    sums: for each row of features that occurred in learning, the sums (K,) over the labels with these features; the key
    is the row's bytes. overall: the sums (K,) over all labels.
    """

    sums: dict[bytes, Floats]
    overall: Floats

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """Predicted class probabilities (n, K) for the features (n, d). A row whose features occurred in learning gets
        the sums of class weights over the labels with these features; any other row gets the sums over all labels.
        Negative sums count as 0, and the sums are divided by their total.
        """
        sums = np.array([self.sums.get(row.tobytes(), self.overall) for row in np.ascontiguousarray(features)])
        return normalised(np.maximum(sums.reshape(len(features), self.overall.size), 0.0) + 1e-12)
