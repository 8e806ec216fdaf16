"""Logistic regression on labels that are weights over the classes, negative ones included."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.learning.class_weights import class_weights
from p2p_sim.learning.learner import Counted, OwnLearner, Received
from p2p_sim.mechanisms.outcome import Predictor, ReleaseKind

Floats = NDArray[np.float64]


class SoftLogisticRegressionConfig(OwnLearner):
    """Multinomial logistic regression that minimises Σᵢ Σ_y w_iy (-ln p(y|xᵢ)) + l2 |W|²/2 over weights w.

    The weights of a label sum to one, so that the loss is log Σ e^s - w·s in the scores s: convex whatever the signs.
    It is the modified loss of the clustering paper's Algorithm 1 where the weights are columns of Q⁻¹. For hard labels
    it is scikit-learn's objective. Where strong noise leaves a class with a negative sum of weights, the loss has no
    minimum unless intercepts are penalised too; there, they are.
    """

    kind: Literal["soft_logistic_regression"] = "soft_logistic_regression"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = ("hard", "soft", "signed")
    takes_counts: ClassVar[bool] = True
    l2: float = Field(default=1.0, gt=0)
    """Weight of the penalty |W|²/2 against the sum of the losses, intercepts left out where they can be; above 0."""
    max_iterations: int = Field(default=1000, ge=1)
    """Most L-BFGS iterations, at least 1."""

    def fit(self, features: NDArray[np.floating], labels: NDArray[np.uint8], num_classes: int) -> Predictor:
        """Learn from features (m, d) and true labels (m,) without privacy."""
        return self.fit_weights(features, np.eye(num_classes)[labels])

    def fit_counts(self, true: Counted) -> Predictor:
        """Learn from true labels without privacy, counted."""
        return self.fit_weights(true.points, true.counts.astype(np.float64), true.counts.sum(axis=1, dtype=np.float64))

    def learned(self, received: Received) -> Predictor:
        """Learn from a release."""
        weights = class_weights(received.release, received.num_classes, self.kind, self.accepts)
        everybody = len(received.release) == len(received.features)
        return self.fit_weights(received.features if everybody else received.rows, weights)

    def fit_weights(self, features: NDArray[np.floating], weights: Floats, labels: Floats | float = 1.0) -> Predictor:
        """Fit weights (m, K), each row the sum of so many labels, (m,) or the same for all."""
        from scipy.optimize import minimize

        design = np.hstack([features, np.ones((len(features), 1), features.dtype)])
        classes = weights.shape[1]
        targets = weights if classes > 2 else weights[:, 1:]  # two classes: one score, that of the first is 0
        width, scores = design.shape[1], targets.shape[1]
        pull = (design.T @ targets.astype(design.dtype)).astype(np.float64)
        count = float(np.sum(np.broadcast_to(labels, len(features))))
        penalised = np.full((width, 1), self.l2)
        if (weights.sum(axis=0) >= 0.0).all():
            penalised[-1] = 0.0

        def objective(flat: Floats) -> tuple[float, Floats]:
            w = flat.reshape(width, scores)
            total, p = _log_sum(design @ w.astype(design.dtype), labels)
            value = total - float(np.vdot(pull, w)) + 0.5 * float(np.vdot(penalised * w, w))
            return value, np.ravel(design.T @ p - pull + penalised * w)

        found = minimize(
            objective, np.zeros(width * scores), jac=True, method="L-BFGS-B",
            options={"maxiter": self.max_iterations, "gtol": 1e-6 * max(1.0, count) ** 0.5},
        )  # fmt: skip
        return LinearSoftmax(found.x.reshape(width, scores))


def _log_sum(scores: NDArray[np.floating], labels: Floats | float = 1.0) -> tuple[float, NDArray[np.floating]]:
    """Σ ln Σ e^s over the rows, each of so many labels, and the probabilities times these; a single column is a score
    against one of 0."""
    if scores.shape[1] == 1:
        each, p = np.logaddexp(0.0, scores), 0.5 * (1.0 + np.tanh(0.5 * scores))
    else:
        top = scores.max(axis=1, keepdims=True)
        p = np.exp(scores - top)
        total = p.sum(axis=1, keepdims=True)
        p /= total
        each = top + np.log(total)
    if isinstance(labels, float):
        return float(each.sum(dtype=np.float64)), p
    return float(labels @ each[:, 0]), labels[:, None] * p


@dataclass(frozen=True)
class LinearSoftmax:
    """Scores are linear: coefficients (d + 1, K), or (d + 1, 1) for two classes."""

    coefficients: Floats

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """Predicted class probabilities (n, K)."""
        p = _log_sum(features @ self.coefficients[:-1] + self.coefficients[-1])[1]
        return np.asarray(np.hstack([1.0 - p, p]) if p.shape[1] == 1 else p, dtype=np.float64)
