"""Gradient-boosted trees on labels whose noise was undone on average."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.learning.knows_noise import UNBIASED, unbiased_weights
from p2p_sim.learning.learner import Loss, OwnLearner, Received
from p2p_sim.mechanisms.noise_law import to_simplex
from p2p_sim.mechanisms.outcome import Predictor, ReleaseKind

Floats = NDArray[np.float64]


class BoostedTreesConfig(OwnLearner):
    """scikit-learn's histogram gradient boosting: a regression of each class's noise-corrected weight, squared loss.

    The mean of a weight under the noise is the true label's indicator, so that the regression function is p(y|x); with
    labels of a cluster it is the mean of p(y|x) over the cluster. Predictions are the nearest distributions, whose
    order counts: they may be 0. A noise law without an inverse is refused.
    """

    kind: Literal["boosted_trees"] = "boosted_trees"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = UNBIASED
    loss: ClassVar[Loss] = "zero_one"
    uses_noise_law: ClassVar[bool] = True
    trees: int = Field(default=100, ge=1, le=10_000)
    """Trees of each class, 1 to 10,000; fixed beforehand, since a stop that depends on true labels costs privacy."""
    learning_rate: float = Field(default=0.1, gt=0, le=1)
    """Share of a tree's prediction that is added, above 0 and at most 1."""
    leaves: int = Field(default=15, ge=2, le=1_000)
    """Most leaves of a tree, 2 to 1,000."""
    users_in_leaf: int = Field(default=20, ge=1)
    """Fewest labels in a leaf, at least 1."""

    @property
    def depends_on_scale(self) -> bool:
        return False

    def fit(self, features: NDArray[np.floating], labels: NDArray[np.uint8], num_classes: int) -> Predictor:
        """Learn from features (m, d) and true labels (m,) without privacy."""
        return self._fit(features, np.eye(num_classes)[labels])

    def learned(self, received: Received) -> Predictor:
        """Learn from a release of hard labels whose noise law is public, or of signed ones."""
        return self._fit(received.rows, unbiased_weights(received, self.kind))

    def _fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """Regress weights (m, K) whose rows sum to 1; for two classes one of both is sufficient."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        classes = weights.shape[1]
        targets = weights if classes > 2 else weights[:, 1:]
        if len(features) < 2:  # no histogram of fewer
            return _Regressed((), np.full(classes, 1.0 / classes))
        models = tuple(
            HistGradientBoostingRegressor(
                max_iter=self.trees, learning_rate=self.learning_rate, max_leaf_nodes=self.leaves,
                min_samples_leaf=self.users_in_leaf, early_stopping=False, random_state=0,
            ).fit(features, target)
            for target in targets.T
        )  # fmt: skip
        return _Regressed(models, np.full(classes, 1.0 / classes))


@dataclass(frozen=True)
class _Regressed:
    """A regression for each class, or for the second of two; without any, equal shares (K,)."""

    models: tuple[Any, ...]
    even: Floats

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        if not self.models:
            return np.tile(self.even, (len(features), 1))
        found = np.stack([model.predict(features) for model in self.models], axis=1)
        return to_simplex(found if len(self.models) > 1 else np.hstack([1.0 - found, found]))
