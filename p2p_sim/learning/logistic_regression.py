"""Logistic regression on a release of hard labels."""

import warnings
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.learning.class_weights import check_accepts
from p2p_sim.learning.learner import Counted, OwnLearner, Received
from p2p_sim.mechanisms.outcome import LabelRelease, Predictor

Floats = NDArray[np.float64]


class PenalisedLogisticConfig(OwnLearner):
    """What learners share that fit scikit-learn's logistic regression with an L2 penalty."""

    takes_counts: ClassVar[bool] = True
    l2: float = Field(default=1.0, gt=0)
    """Weight of the penalty |w|²/2 against the sum of the log losses (1/C in scikit-learn), above 0."""
    max_iterations: int = Field(default=1000, ge=1)
    """Largest number of L-BFGS iterations, at least 1; the last iterate is then used."""

    def fit(self, features: NDArray[np.floating], labels: NDArray[np.uint8], num_classes: int) -> Predictor:
        """Learn from features (m, d) and true labels (m,) without privacy."""
        return self._fit_weighted(features, labels, num_classes)

    def fit_counts(self, true: Counted) -> Predictor:
        """Learn from true labels without privacy, counted."""
        features, labels, weights = true.lines
        return self._fit_weighted(features, labels, true.num_classes, weights)

    def _fit_weighted(
        self,
        features: NDArray[np.floating],
        labels: NDArray[np.integer],
        num_classes: int,
        weights: Floats | None = None,
    ) -> Predictor:
        """Fit rows that count `weights` (m,) times each; with fewer than two classes among them, predict these."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        present = np.unique(labels)
        if present.size < 2:
            return constant_predictor(present, num_classes)
        model = LogisticRegression(C=1.0 / self.l2, max_iter=self.max_iterations)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(features, labels, weights)
        return FittedClassifier(model, num_classes)

    def _hard_labels(self, release: LabelRelease) -> NDArray[np.uint8]:
        """The release's labels; an InputError if they are of another kind."""
        check_accepts(release, self.kind, self.accepts)
        return release.payload.astype(np.uint8)


class LogisticRegressionConfig(PenalisedLogisticConfig):
    """scikit-learn's logistic regression with an L2 penalty, multinomial for more than two classes."""

    kind: Literal["logistic_regression"] = "logistic_regression"

    def learned(self, received: Received) -> Predictor:
        """Learn from a release."""
        return self._fit_weighted(received.rows, self._hard_labels(received.release), received.num_classes)


def constant_predictor(present: NDArray[np.integer], num_classes: int) -> Predictor:
    """What is learned from labels of one class, or from none: that class, or nothing.

    Args:
        present: (0 or 1,) the classes that occur. num_classes: K.
    """
    return _Constant(np.eye(num_classes)[present[0]] if present.size else np.full(num_classes, 1.0 / num_classes))


@dataclass(frozen=True)
class _Constant:
    distribution: Floats

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        return np.tile(self.distribution, (len(features), 1))


class _Model(Protocol):
    classes_: NDArray[np.uint8]

    def predict_proba(self, X: NDArray[np.floating]) -> Floats: ...


@dataclass(frozen=True)
class FittedClassifier:
    """A classifier of scikit-learn that may not have seen all K classes."""

    model: _Model
    num_classes: int

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """Predicted class probabilities (n, K)."""
        out = np.zeros((len(features), self.num_classes))
        out[:, self.model.classes_] = self.model.predict_proba(features)
        return out
