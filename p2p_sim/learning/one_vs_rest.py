"""One logistic regression a class, for labels of which several bits may be 1."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from p2p_sim.learning.label_vectors import ACCEPTED, label_vectors, normalised, one_hot
from p2p_sim.learning.learner import Loss, Received
from p2p_sim.learning.logistic_regression import PenalisedLogisticConfig
from p2p_sim.mechanisms.outcome import Predictor, ReleaseKind


class OneVsRestConfig(PenalisedLogisticConfig):
    """scikit-learn's logistic regression, separately for each entry of the label vector: K sigmoids, not one softmax.

    A soft label's entry s counts as a label 1 of weight s and a label 0 of weight 1 - s. The sigmoids' shares are
    scores whose order counts, not calibrated probabilities.
    """

    kind: Literal["one_vs_rest"] = "one_vs_rest"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = ACCEPTED
    loss: ClassVar[Loss] = "zero_one"

    def fit(self, features: NDArray[np.floating], labels: NDArray[np.uint8], num_classes: int) -> Predictor:
        """Learn from features (m, d) and true labels (m,) without privacy."""
        return self._each(features, one_hot(labels, num_classes))

    def learned(self, received: Received) -> Predictor:
        """Learn from a release."""
        return self._each(received.rows, label_vectors(received.release, received.num_classes, self.kind))

    def _each(self, features: NDArray[np.floating], vectors: NDArray[np.float32]) -> Predictor:
        return _Sigmoids(tuple(self._entry(features, column.astype(np.float64)) for column in vectors.T))

    def _entry(self, features: NDArray[np.floating], share: NDArray[np.float64]) -> Predictor:
        rows = len(share)
        weights = np.concatenate([1.0 - share, share])
        used = np.flatnonzero(weights)
        labels = (used >= rows).astype(np.uint8)
        return self._fit_weighted(features[used % rows], labels, 2, weights[used])


@dataclass(frozen=True)
class _Sigmoids:
    each: tuple[Predictor, ...]

    def probabilities(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        return normalised(np.stack([one.probabilities(features)[:, 1] for one in self.each], axis=1))
