"""The majority of every distinct row of features: empirical risk minimisation over all functions."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from p2p_sim.learning.class_weights import class_weights
from p2p_sim.learning.learner import Counted, Loss, OwnLearner, Received
from p2p_sim.mechanisms.outcome import Predictor, ReleaseKind

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
