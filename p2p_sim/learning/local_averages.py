"""Learners that average labels nearby: k nearest neighbours, and the majority of every distinct row of features."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.learning.learner import SUMS, VECTORS, Learner, Loss, normalised
from p2p_sim.mechanisms import NeighbourMeans, Predictor, ReleaseKind

Floats = NDArray[np.float64]


class KnnConfig(Learner):
    """Predict the class with the largest entry in the mean label vector of the k nearest users (equation 16 of the
    paper).

    For bits and soft labels the shares are scores whose order counts, not calibrated probabilities.
    """

    kind: Literal["knn"] = "knn"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = VECTORS
    loss: ClassVar[Loss] = "zero_one"
    neighbours: int = Field(default=200, ge=1)
    """k: users whose labels are averaged, at least 1; all of them where there are fewer."""

    def fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """Keep features (m, d) and label vectors (m, K)."""
        if not len(weights):  # nothing arrived: every class alike
            features, weights = np.zeros((1, features.shape[1])), np.zeros((1, weights.shape[1]))
        return _Neighbours(NeighbourMeans(features, weights.astype(np.float32), self.neighbours))


@dataclass(frozen=True)
class _Neighbours:
    means: NeighbourMeans

    def probabilities(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        return normalised(self.means.at(features))


class MajorityTableConfig(Learner):
    """Predict for each distinct row of features the class with the largest sum of weights there.

    This minimises the (modified) 0-1 loss over all functions of the features; other rows get the class with the largest
    sum of all weights. For laws on finitely many points; its excess risk is that of the 0-1 loss over Bayes' rule.
    """

    kind: Literal["table"] = "table"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = SUMS
    loss: ClassVar[Loss] = "zero_one"
    takes_counts: ClassVar[bool] = True
    depends_on_scale: ClassVar[bool] = False

    def fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """Sum the weights (m, K) of each distinct row of features (m, d)."""
        rows, inverse = np.unique(np.ascontiguousarray(features), axis=0, return_inverse=True)
        sums = np.stack([np.bincount(inverse.ravel(), w, len(rows)) for w in weights.T], axis=1)
        return _Table({row.tobytes(): total for row, total in zip(rows, sums, strict=True)}, weights.sum(axis=0))


@dataclass(frozen=True)
class _Table:
    """Sums of weights (K,) by the bytes of a row of features, and over all rows."""

    sums: dict[bytes, Floats]
    overall: Floats

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """Shares of the classes' positive sums; the class with the largest sum has the largest share."""
        sums = np.array([self.sums.get(row.tobytes(), self.overall) for row in np.ascontiguousarray(features)])
        sums = np.maximum(sums.reshape(len(features), self.overall.size), 0.0) + 1e-12
        return np.asarray(sums / sums.sum(axis=1, keepdims=True))
