"""A learner of one's own, for p2p-sim."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from p2p_sim import extend


class NearestMeanConfig(extend.Learner):
    """Predict the class whose users' mean features lie nearest."""

    kind: Literal["nearest_mean"] = "nearest_mean"
    loss: ClassVar[Literal["zero_one"]] = "zero_one"

    def fit(self, features: Any, weights: Any) -> extend.Predictor:
        counts = weights.sum(axis=0)[:, None]
        return NearestMean(weights.T @ features / np.maximum(counts, 1))


@dataclass(frozen=True)
class NearestMean:
    means: Any  # (K, d), of the classes

    def probabilities(self, features: Any) -> Any:
        weights = np.exp(-((features[:, None, :] - self.means) ** 2).sum(axis=2)) + 1e-300
        return weights / weights.sum(axis=1, keepdims=True)
