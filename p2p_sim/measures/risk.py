"""Exact risks of classifiers under a law on finitely many points, and the heterogeneity φ of clusters."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def log_risk(mass: Floats, label_distribution: Floats, predicted: Floats) -> float:
    """Expected log loss -Σ_x mass(x) Σ_y p(y|x) ln predicted(y|x) of predicted probabilities, in nats.

    Args:
        mass: (P,) probability of each point. label_distribution: (P, K) p(y|x).
        predicted: (P, K), rows that sum to 1.
    """
    safe = np.log(np.clip(predicted, 1e-300, 1.0))
    return float(-(mass @ np.sum(label_distribution * safe, axis=1)))


def error_rate(mass: Floats, label_distribution: Floats, predicted: Floats) -> float:
    """Expected 0-1 loss of predicting the class with the largest predicted probability; arguments as for `log_risk`."""
    chosen = predicted.argmax(axis=1)
    return float(mass @ (1.0 - label_distribution[np.arange(len(chosen)), chosen]))


def bayes_error_rate(mass: Floats, label_distribution: Floats) -> float:
    """The smallest expected 0-1 loss of any classifier under the law: 1 - E max_k p(k|x)."""
    return float(mass @ (1.0 - label_distribution.max(axis=1)))


def constant_risks(mass: Floats, label_distribution: Floats) -> tuple[float, float]:
    """Smallest expected 0-1 loss, and smallest expected log loss in nats, of predictors that ignore the features.

    >>> constant_risks(np.array([0.5, 0.5]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    (0.5, 0.6931471805599453)
    """
    share = mass @ label_distribution
    positive = share[share > 0]
    return 1.0 - float(share.max()), -float(positive @ np.log(positive))


def best_logistic_risk(points: Floats, mass: Floats, positive: Floats) -> float:
    """Smallest expected log loss, in nats, of any affine logistic model p(1|x) = 1/(1 + exp(-w·x - b)).

    Args:
        points: (P, d) features. mass: (P,) their probabilities. positive: (P,) p(1|x), in [0, 1].
    """
    return logistic_risk_after(points, mass, positive, positive)


def logistic_risk_after(points: Floats, mass: Floats, learned: Floats, positive: Floats) -> float:
    """Expected log loss, in nats, of the affine logistic model fitted to infinitely many labels of another law.

    The expected loss over the finite law is a convex function of (w, b). A trust-region Newton method minimises it to a
    gradient of 1e-11; nothing is sampled.

    Args:
        points: (P, d) features. mass: (P,) their probabilities.
        learned: (P,) p(1|x), in [0, 1], of the labels to which the model is fitted.
        positive: (P,) p(1|x), in [0, 1], of the labels on which the loss is measured.
    """
    from scipy.optimize import minimize

    # an orthonormal basis of the affine functions on the points: well-conditioned, and the same minimum
    design = np.hstack([points, np.ones((len(points), 1))])
    basis, values, _ = np.linalg.svd(design, full_matrices=False)
    design = basis[:, values > 1e-10 * values[0]] * np.sqrt(len(points))

    def loss(w: Floats, target: Floats = learned) -> float:
        score = design @ w
        return float(mass @ (np.logaddexp(0.0, score) - target * score))

    def share(w: Floats) -> Floats:
        return np.asarray(0.5 * (1.0 + np.tanh(0.5 * (design @ w))))

    def gradient(w: Floats) -> Floats:
        return np.asarray(design.T @ (mass * (share(w) - learned)))

    def hessian(w: Floats) -> Floats:
        p = share(w)
        return np.asarray(design.T @ (design * (mass * p * (1.0 - p))[:, None]))

    start = np.zeros(design.shape[1])
    optimum = minimize(loss, start, jac=gradient, hess=hessian, method="trust-exact", options={"gtol": 1e-11})
    return loss(optimum.x, positive)


def exchanged_distribution(mass: Floats, positive: Floats, cluster: NDArray[np.integer], flip_prob: float) -> Floats:
    """Probability (P,) that the noisy label of a random user of a point's cluster is 1, for each point.

    Args:
        mass: (P,) of the points. positive: (P,) p(1|x). cluster: (P,) in 0..C-1. flip_prob: α.
    """
    ones = np.bincount(cluster, weights=mass * positive) / np.maximum(np.bincount(cluster, weights=mass), 1e-300)
    return np.asarray((1.0 - 2.0 * flip_prob) * ones[cluster] + flip_prob)
