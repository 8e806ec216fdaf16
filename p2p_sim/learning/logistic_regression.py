"""Logistic regression: on hard labels, on weights of the classes, on each class separately, and on trimmed shares. A
trimmed share is a cluster's class share after some labels of each class were removed.
"""

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base import InputError
from p2p_sim.learning.learner import (
    SUMS,
    VECTORS,
    Counted,
    Floats,
    Learner,
    Loss,
    Received,
    labelled_rows,
    labels_in,
    normalised,
)
from p2p_sim.mechanisms import Predictor, ReleaseKind


class PenalisedLogisticConfig(Learner):
    """The base of learners that fit scikit-learn's logistic regression with an L2 penalty."""

    takes_counts: ClassVar[bool] = True
    l2: float = Field(default=1.0, gt=0)
    """Weight of the penalty |w|²/2 against the sum of the log losses (1/C in scikit-learn), above 0."""
    max_iterations: int = Field(default=1000, ge=1)
    """Largest number of L-BFGS iterations, at least 1; after these the last iterate is used."""

    def fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """The predictor learned from m labels, with features (m, d) and weights (m, K) of the K classes, at least 0.

        Each row is used once for each class whose weight is not 0. The weight is the row's sample weight. If fewer than
        two classes have a weight that is not 0, the predictor is a constant.
        """
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        rows, labels, count = labelled_rows(features, weights)
        present, num_classes = np.unique(labels), weights.shape[1]
        if present.size < 2:
            return constant_predictor(present, num_classes)
        model = LogisticRegression(C=1.0 / self.l2, max_iter=self.max_iterations)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(rows, labels, count)
        return FittedClassifier(model, num_classes)


class LogisticRegressionConfig(PenalisedLogisticConfig):
    """scikit-learn's logistic regression with an L2 penalty, multinomial for more than two classes."""

    kind: Literal["logistic_regression"] = "logistic_regression"


def constant_predictor(present: NDArray[np.integer], num_classes: int) -> Predictor:
    """A predictor of the only class that occurs. If no class occurs, all classes have equal probabilities.

    Args:
        present: (0,) or (1,) the classes that occur. num_classes: K.
    """
    return _Constant(np.eye(num_classes)[present[0]] if present.size else np.full(num_classes, 1.0 / num_classes))


@dataclass(frozen=True)
class _Constant:
    distribution: Floats

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        return np.tile(self.distribution, (len(features), 1))


@dataclass(frozen=True)
class FittedClassifier:
    """A fitted classifier of scikit-learn. Classes that did not occur in its training data have probability 0."""

    model: Any
    num_classes: int

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """Predicted class probabilities (n, K)."""
        out = np.zeros((len(features), self.num_classes))
        out[:, self.model.classes_] = self.model.predict_proba(features)
        return out


class OneVsRestConfig(PenalisedLogisticConfig):
    """scikit-learn's logistic regression, separately for each entry of the label vector: K sigmoids, not one softmax.

    An entry s of a soft label counts as a label 1 of weight s and a label 0 of weight 1 - s. The sigmoids divided by
    their sum are uncalibrated scores: only their order is meaningful.
    """

    kind: Literal["one_vs_rest"] = "one_vs_rest"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = VECTORS
    loss: ClassVar[Loss] = "zero_one"
    takes_counts: ClassVar[bool] = False

    def fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """K logistic regressions, one for each entry of the label vectors. A row with the entry s is used twice: as
        label 1 with weight s, and as label 0 with weight 1 - s.

        Args:
            features: (m, d). weights: (m, K) label vectors with entries in [0, 1].
        """
        rows, models = len(features), []
        for share in weights.T:
            pairs = np.zeros((2 * rows, 2))
            pairs[:rows, 0], pairs[rows:, 1] = 1.0 - share, share
            used = np.flatnonzero(pairs.any(axis=1))
            models.append(super().fit(features[used % rows], pairs[used]))
        return _Sigmoids(tuple(models))


@dataclass(frozen=True)
class _Sigmoids:
    each: tuple[Predictor, ...]

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        return normalised(np.stack([model.probabilities(features)[:, 1] for model in self.each], axis=1))


def trimmed_shares(counts: NDArray[np.integer] | Floats, trim: float) -> Floats:
    """Class shares (C, K) of the labels that remain in each of C clusters after trimming. From each of the K classes,
    `trim` times the number of all labels of the cluster are removed.

    A class loses no more labels than it has. If no label of a cluster remains, all its shares are 0.

    >>> trimmed_shares(np.array([[70, 30]]), 0.2).round(4).tolist()
    [[0.8333, 0.1667]]

    Args:
        counts: (C, K) number of labels of each class that arrived from each cluster. trim: share of a cluster's labels
        that each class loses, 0 to 1.
    """
    remaining = np.maximum(counts - trim * counts.sum(axis=1, keepdims=True), 0.0)
    total = remaining.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(remaining, total, out=np.zeros_like(remaining), where=total > 0))


class TrimmedClustersConfig(PenalisedLogisticConfig):
    """Logistic regression in which every submission of a cluster counts as the cluster's trimmed class shares.

    For two classes the share q of ones becomes (q - trim) / (1 - 2 trim), cut to [0, 1]. Suppose that a random share
    `trim` of the labels was inverted, by liars or by a randomizer. Then the result is on average the share before the
    inversions, unless the result was cut. Other lies are not undone. Suppose that a share `trim` of the users always
    submit 1, and that the other users' share of ones is p. Then the result is closer to p than q is only if p < (1 - 2
    trim) / (2 - 2 trim). If nobody lies, shares are exaggerated.
    """

    kind: Literal["trimmed_clusters"] = "trimmed_clusters"
    trim: float = Field(default=0.1, ge=0, lt=0.5)
    """Share of a cluster's labels that each class loses, at least 0 and below 1/K for K classes."""

    def learn(self, received: Received | Counted) -> Predictor:
        """The logistic regression learned from released hard labels. Each label is replaced by its cluster's class
        shares, after every class lost the share `trim` of the cluster's labels. If a row stands for several labels, the
        shares are multiplied by the number of labels.

        Args:
            received: single labels, or the numbers of labels of each class at each point of a known law. Both have
            features and clusters.

        Raises:
            InputError: `trim` is not below 1/K.
        """
        weights, cluster = received.weights, received.cluster
        classes = weights.shape[1]
        if self.trim * classes >= 1:
            raise InputError(f"learner.trim = {self.trim:g}: must be below 1/{classes} for {classes} classes")
        counts = np.stack([np.bincount(cluster, weights=column) for column in weights.T], axis=1)
        shares = trimmed_shares(counts, self.trim)[cluster] * weights.sum(axis=1, keepdims=True)
        return self.fit(received.rows, shares)

    def learn_counts(self, received: Counted) -> Predictor:
        return self.learn(received)


class WeightedLogisticConfig(Learner):
    """The base of learners that fit multinomial logistic regression to weights of the classes, with an L2 penalty."""

    l2: float = Field(default=1.0, gt=0)
    """Weight of the penalty |W|²/2 against the sum of the losses, above 0. Intercepts have no penalty where possible.
    """
    max_iterations: int = Field(default=1000, ge=1)
    """Largest number of L-BFGS iterations, at least 1."""

    def fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """The model that minimises the penalised loss, found by L-BFGS. All coefficients start at 0.

        Args:
            features: (m, d). weights: (m, K) weights of the classes in each label, of any sign.
        """
        from scipy.optimize import minimize

        labels = labels_in(weights)
        design = np.hstack([features, np.ones((len(features), 1), features.dtype)])
        targets = weights if weights.shape[1] > 2 else weights[:, 1:]  # the first of two classes has score 0
        width, scores = design.shape[1], targets.shape[1]
        pull = (design.T @ targets.astype(design.dtype)).astype(np.float64)
        penalised = np.full((width, 1), self.l2)
        if (weights.sum(axis=0) >= 0.0).all():
            penalised[-1] = 0.0

        def objective(flat: Floats) -> tuple[float, Floats]:
            w = flat.reshape(width, scores)
            total, p = _log_sum(design @ w.astype(design.dtype), labels)
            value = total - float(np.vdot(pull, w)) + 0.5 * float(np.vdot(penalised * w, w))
            return value, np.ravel(design.T @ p - pull + penalised * w)

        optimum = minimize(
            objective, np.zeros(width * scores), jac=True, method="L-BFGS-B",
            options={"maxiter": self.max_iterations, "gtol": 1e-6 * max(1.0, labels.sum()) ** 0.5},
        )  # fmt: skip
        return LinearSoftmax(optimum.x.reshape(width, scores))


class SoftLogisticRegressionConfig(WeightedLogisticConfig):
    """Multinomial logistic regression that minimises Σᵢ Σ_y w_iy (-ln p(y|xᵢ)) + l2 |W|²/2 over coefficients W.

    The weights w_iy of label i sum to 1 over the classes y. So the loss of a label with weights w is ln Σ_y e^(s_y) -
    w·s, where s_y is the score of class y. This loss is convex in the scores, whatever the signs of the weights. For
    hard labels this is scikit-learn's objective. For weights that are columns of Q⁻¹, it is the modified loss of the
    clustering paper's Algorithm 1. Strong noise can make the sum of a class's weights negative. Then intercepts are
    penalised too, because the loss has no minimum without a penalty on intercepts.
    """

    kind: Literal["soft_logistic_regression"] = "soft_logistic_regression"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = SUMS
    takes_counts: ClassVar[bool] = True


def _log_sum(scores: NDArray[np.floating], labels: Floats) -> tuple[float, NDArray[np.floating]]:
    """A part of the logistic loss, and its gradient. The part is Σ (number of labels) · ln Σ_y e^(s_y) over rows, where
    s_y is the score of class y. The rest of the loss is linear in the scores. A row of the gradient (m, K) has the
    class probabilities times the row's number of labels.

    Args:
        scores: (m, K) s_y. A single column (m, 1) has the scores of the second of two classes; the first has score 0.
        labels: (m,) number of labels of each row.
    """
    if scores.shape[1] == 1:
        each, p = np.logaddexp(0.0, scores), 0.5 * (1.0 + np.tanh(0.5 * scores))
    else:
        top = scores.max(axis=1, keepdims=True)
        p = np.exp(scores - top)
        total = p.sum(axis=1, keepdims=True)
        p /= total
        each = top + np.log(total)
    if (labels == 1.0).all():
        return float(each.sum(dtype=np.float64)), p
    return float(labels @ each[:, 0]), labels[:, None] * p


@dataclass(frozen=True)
class LinearSoftmax:
    """A softmax of linear scores.

    coefficients: (d + 1, K), or (d + 1, 1) for two classes. The last row has the intercepts.
    """

    coefficients: Floats

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """Predicted class probabilities (n, K)."""
        p = _log_sum(features @ self.coefficients[:-1] + self.coefficients[-1], np.ones(len(features)))[1]
        return np.asarray(np.hstack([1.0 - p, p]) if p.shape[1] == 1 else p, dtype=np.float64)
