"""Logistic regression on a release of hard labels."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.config import Config
from p2p_sim.learning.weights import check_accepts
from p2p_sim.mechanisms.interface import LabelRelease, Predictor, ReleaseKind

Floats = NDArray[np.float64]


class PenalisedLogisticConfig(Config):
    """What learners share that fit scikit-learn's logistic regression with an L2 penalty."""

    kind: str
    accepts: ClassVar[tuple[ReleaseKind, ...]] = ("hard",)
    """Releases it can learn from."""
    loss: ClassVar[Literal["log", "zero_one"]] = "log"
    """In which its excess risk is measured."""
    l2: float = Field(default=1.0, gt=0)
    """Weight of the penalty |w|²/2 against the sum of the log losses (1/C in scikit-learn), above 0."""
    max_iterations: int = Field(default=1000, ge=1)
    """Most L-BFGS iterations, at least 1."""

    def fit(
        self,
        features: NDArray[np.floating],
        labels: NDArray[np.uint8],
        num_classes: int,
        cluster_offsets: NDArray[np.int64] | None = None,
    ) -> Predictor:
        """Learn from features (m, d) and labels (m,) without privacy; the clusters do not matter."""
        return self._fit_weighted(features, labels, num_classes)

    def _fit_weighted(
        self,
        features: NDArray[np.floating],
        labels: NDArray[np.integer],
        num_classes: int,
        weights: Floats | None = None,
    ) -> Predictor:
        """Fit rows that count `weights` (m,) times each; with fewer than two classes among them, predict these."""
        from sklearn.linear_model import LogisticRegression

        present = np.unique(labels)
        if present.size < 2:
            constant = np.full(num_classes, 1.0 / num_classes) if present.size == 0 else np.eye(num_classes)[present[0]]
            return _Constant(constant)
        model = LogisticRegression(C=1.0 / self.l2, max_iter=self.max_iterations)
        model.fit(features, labels, weights)
        return _Fitted(model, num_classes)

    def _hard_labels(self, release: LabelRelease) -> NDArray[np.uint8]:
        """The release's labels; an InputError if they are of another kind."""
        check_accepts(release, self.kind, self.accepts)
        return release.payload.astype(np.uint8)


class LogisticRegressionConfig(PenalisedLogisticConfig):
    """scikit-learn's logistic regression with an L2 penalty, multinomial for more than two classes."""

    kind: Literal["logistic_regression"] = "logistic_regression"

    def fit_release(
        self,
        features: NDArray[np.floating],
        release: LabelRelease,
        num_classes: int,
        cluster_offsets: NDArray[np.int64] | None = None,
    ) -> Predictor:
        """Learn from a release; `features` (n, d) are the public features of all users; the clusters do not matter."""
        return self._fit_weighted(features[release.user], self._hard_labels(release), num_classes)


@dataclass(frozen=True)
class _Constant:
    distribution: Floats

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        return np.tile(self.distribution, (len(features), 1))


class _Model(Protocol):
    classes_: NDArray[np.uint8]

    def predict_proba(self, X: NDArray[np.floating]) -> Floats: ...


@dataclass(frozen=True)
class _Fitted:
    model: _Model
    num_classes: int

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        out = np.zeros((len(features), self.num_classes))
        out[:, self.model.classes_] = self.model.predict_proba(features)
        return out
