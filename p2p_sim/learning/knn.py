"""k nearest neighbours: the base learner of the vector approximation paper's synthetic study."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.learning.label_vectors import ACCEPTED, label_vectors, normalised, one_hot
from p2p_sim.learning.learner import Loss, OwnLearner, Received
from p2p_sim.mechanisms.nearest_neighbours import NeighbourMeans
from p2p_sim.mechanisms.outcome import Predictor, ReleaseKind


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
