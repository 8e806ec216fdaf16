"""A learner of one's own, for p2p-sim."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from p2p_sim import extend


class NearestMeanConfig(extend.Learner):
    """Predict the class whose users' mean features lie nearest."""

    kind: Literal["nearest_mean"] = "nearest_mean"
    loss: ClassVar[Literal["zero_one"]] = "zero_one"

    def fit(self, features: Any, labels: Any, num_classes: int) -> extend.Predictor:
        sums = np.eye(num_classes)[labels].T @ features
        counts = np.bincount(labels, minlength=num_classes)[:, None]
        return NearestMean(sums / np.maximum(counts, 1))

    def fit_release(self, features: Any, release: Any, num_classes: int, cluster_offsets: Any) -> extend.Predictor:
        return self.fit(features[release.user], release.payload, num_classes)


@dataclass(frozen=True)
class NearestMean:
    """Means of the classes (K, d)."""

    means: Any

    def probabilities(self, features: Any) -> Any:
        weights = np.exp(-((features[:, None, :] - self.means) ** 2).sum(axis=2)) + 1e-300
        return weights / weights.sum(axis=1, keepdims=True)
