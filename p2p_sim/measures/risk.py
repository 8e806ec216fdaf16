"""Risk of classifiers under a law on finitely many points, without sampling error, and cluster heterogeneity φ."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def log_risk(mass: Floats, label_distribution: Floats, predicted: Floats) -> float:
    """Expected log loss -Σ_x mass(x) Σ_y p(y|x) ln predicted(y|x) of predicted probabilities, nats.

    Args:
        mass: (P,) of the points; label_distribution: (P, K) p(y|x); predicted: (P, K), rows that sum to 1.
    """
    safe = np.log(np.clip(predicted, 1e-300, 1.0))
    return float(-(mass @ np.sum(label_distribution * safe, axis=1)))


def error_rate(mass: Floats, label_distribution: Floats, predicted: Floats) -> float:
    """Expected 0-1 loss of predicting the most probable class; arguments as for `log_risk`."""
    chosen = predicted.argmax(axis=1)
    return float(mass @ (1.0 - label_distribution[np.arange(len(chosen)), chosen]))


def bayes_error_rate(mass: Floats, label_distribution: Floats) -> float:
    """The smallest expected 0-1 loss of any classifier under the law: 1 - E max_k p(k|x)."""
    return float(mass @ (1.0 - label_distribution.max(axis=1)))


def area_under_curve(negative: Floats, positive: Floats, score: Floats) -> float | None:
    """Area under the ROC curve: probability that a row of label 1 scores above one of label 0, ties counted half.

    None if one of the labels has no mass.

    Args:
        negative, positive: (P,) mass, or number of rows, of each label. score: (P,).

    >>> area_under_curve(np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0]), np.array([0.1, 0.7, 0.7]))
    0.75
    """
    rank = np.unique(score, return_inverse=True)[1]
    zeros, ones = np.bincount(rank, weights=negative), np.bincount(rank, weights=positive)
    if not (zeros.sum() > 0.0 and ones.sum() > 0.0):
        return None
    below = np.cumsum(zeros) - 0.5 * zeros
    return float(ones @ below / (zeros.sum() * ones.sum()))


def constant_risks(mass: Floats, label_distribution: Floats) -> tuple[float, float]:
    """Smallest expected 0-1 loss and smallest expected log loss (nats) of predictors that ignore the features.

    >>> constant_risks(np.array([0.5, 0.5]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    (0.5, 0.6931471805599453)
    """
    share = mass @ label_distribution
    positive = share[share > 0]
    return 1.0 - float(share.max()), -float(positive @ np.log(positive))


def best_logistic_risk(points: Floats, mass: Floats, positive: Floats) -> float:
    """Smallest expected log loss of any affine logistic model p(1|x) = 1/(1 + exp(-w·x - b)), nats.

    Args:
        points: (P, d) features; mass: (P,); positive: (P,) p(1|x), in [0, 1].
    """
    return logistic_risk_after(points, mass, positive, positive)


def logistic_risk_after(points: Floats, mass: Floats, learned: Floats, positive: Floats) -> float:
    """Expected log loss, nats, of the affine logistic model fitted to infinitely many labels of another distribution.

    The expected loss over the finite law is a convex function of (w, b), minimised by a trust-region Newton method to a
    gradient of 1e-11; nothing is sampled.

    Args:
        points: (P, d) features; mass: (P,); learned: (P,) probability of label 1 in the labels that are fitted;
            positive: (P,) p(1|x) in the labels on which the loss is measured; both in [0, 1].
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
    """Probability (P,) that a label fetched from a random user of the cluster is a noisy 1, for users at each point.

    Args:
        mass: (P,); positive: (P,) p(1|x); cluster: (P,) in 0..C-1; flip_prob: α.
    """
    ones = np.bincount(cluster, weights=mass * positive) / np.maximum(np.bincount(cluster, weights=mass), 1e-300)
    return np.asarray((1.0 - 2.0 * flip_prob) * ones[cluster] + flip_prob)


def heterogeneity(
    mass: NDArray[np.float64], label_distribution: NDArray[np.float64], cluster: NDArray[np.integer]
) -> float:
    """Heterogeneity φ = E Σ_y |p(y|x) - p(y|c)| of the clusters c under a known law.

    Args:
        mass: (P,) probability of each point.
        label_distribution: (P, K) p(y|x).
        cluster: (P,) cluster of each point.

    >>> round(heterogeneity(np.full(2, 0.5), np.array([[0.4, 0.6], [0.6, 0.4]]), np.zeros(2, dtype=int)), 12)
    0.2
    """
    count = int(cluster.max()) + 1
    weights = np.bincount(cluster, weights=mass, minlength=count)
    total = 0.0
    for values in label_distribution.T:
        ones = np.bincount(cluster, weights=mass * values, minlength=count)
        mean = np.divide(ones, weights, out=np.zeros(count), where=weights > 0)
        total += float(mass @ np.abs(values - mean[cluster]))
    return total


def heterogeneity_upper_estimate(
    labels: NDArray[np.integer], cluster_offsets: NDArray[np.int64], num_classes: int
) -> float:
    """An unbiased estimate, from true labels, of an upper bound of heterogeneity φ.

    The bound E 2(1 - p(Y|c)) treats each label as certain given its features (p(y|x) = 1), which cannot decrease φ, by
    Jensen's inequality. The other users of the cluster estimate p(Y|c) without bias. The estimate reads true labels: it
    is for the experimenter, and a parameter chosen by it is not private.

    Args:
        labels: (n,) in 0..K-1, stored cluster by cluster.
        cluster_offsets: (C+1,), every cluster with at least 2 users.
        num_classes: K.
    """
    sizes = np.diff(cluster_offsets)
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    counts = np.bincount(cluster * num_classes + labels, minlength=len(sizes) * num_classes)
    counts = counts.reshape(len(sizes), num_classes)
    same = (counts * (counts - 1)).sum(axis=1)  # ordered pairs of users of a cluster with the same label
    return float(np.sum(2.0 * (sizes - same / (sizes - 1))) / len(labels))
