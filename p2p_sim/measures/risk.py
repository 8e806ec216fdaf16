"""Risks of classifiers under a law on finitely many points, area under the ROC curve, and heterogeneity φ.

P is the number of points, K the number of classes, and p(y|x) the probability of label y at point x.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def log_risk(mass: Floats, label_distribution: Floats, predicted: Floats) -> float:
    """Expected log loss -Σ_x mass(x) Σ_y p(y|x) ln predicted(y|x) of predicted probabilities, in nats.

    Args:
        mass: (P,) probability of each point. label_distribution: (P, K) p(y|x).
        predicted: (P, K) predicted probabilities; each row sums to 1. A value below 1e-300 counts as 1e-300.
    """
    return float(-(mass @ np.sum(label_distribution * np.log(np.clip(predicted, 1e-300, 1.0)), axis=1)))


def error_rate(mass: Floats, label_distribution: Floats, predicted: Floats) -> float:
    """Expected 0-1 loss of predicting the class with the largest predicted probability.

    Args:
        mass: (P,) probability of each point. label_distribution: (P, K) p(y|x).
        predicted: (P, K) predicted probabilities.
    """
    chosen = predicted.argmax(axis=1)
    return float(mass @ (1.0 - label_distribution[np.arange(len(chosen)), chosen]))


def bayes_error_rate(mass: Floats, label_distribution: Floats) -> float:
    """The smallest expected 0-1 loss of any classifier under the law: 1 - E max_k p(k|x).

    Args:
        mass: (P,) probability of each point x. label_distribution: (P, K) p(k|x).
    """
    return float(mass @ (1.0 - label_distribution.max(axis=1)))


def area_under_curve(negative: Floats, positive: Floats, score: Floats) -> float | None:
    """Area under the ROC curve: the probability that a row of label 1 has a larger score than a row of label 0. Ties
    count half. The result is None if a label has no mass.

    Args:
        negative, positive: (P,) mass, or number of rows, of labels 0 and 1 at each score. score: (P,) the scores.

    >>> area_under_curve(np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0]), np.array([0.1, 0.7, 0.7]))
    0.75
    """
    rank = np.unique(score, return_inverse=True)[1]
    zeros, ones = np.bincount(rank, weights=negative), np.bincount(rank, weights=positive)
    if not (zeros.sum() > 0.0 and ones.sum() > 0.0):
        return None
    return float(ones @ (np.cumsum(zeros) - 0.5 * zeros) / (zeros.sum() * ones.sum()))


def constant_risks(mass: Floats, label_distribution: Floats) -> tuple[float, float]:
    """The smallest expected 0-1 loss, and the smallest expected log loss in nats, of predictors that ignore the
    features.

    Args:
        mass: (P,) probability of each point. label_distribution: (P, K) p(y|x).

    >>> constant_risks(np.array([0.5, 0.5]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    (0.5, 0.6931471805599453)
    """
    share = mass @ label_distribution
    positive = share[share > 0]
    return 1.0 - float(share.max()), -float(positive @ np.log(positive))


def best_logistic_risk(points: Floats, mass: Floats, positive: Floats) -> float:
    """The smallest expected log loss, in nats, among all affine logistic models p(1|x) = 1/(1 + exp(-w·x - b)).

    Args:
        points: (P, d) features. mass: (P,) their probabilities. positive: (P,) p(1|x), in [0, 1].
    """
    return logistic_risk_after(points, mass, positive, positive)


def logistic_risk_after(points: Floats, mass: Floats, learned: Floats, positive: Floats) -> float:
    """Expected log loss, in nats, of the affine logistic model fitted to infinitely many labels of another law.

    The fit minimises the expected loss on the other law's labels, a convex function of the coefficients. A trust-region
    Newton method runs until the gradient is below 1e-11; nothing is sampled.

    Args:
        points: (P, d) features. mass: (P,) their probabilities. learned: (P,) p(1|x), in [0, 1], of the labels to which
        the model is fitted. positive: (P,) p(1|x), in [0, 1], of the labels on which the loss is measured.
    """
    from scipy.optimize import minimize

    # an orthonormal basis of the affine functions on the points: well-conditioned, with the same minimum
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

    optimum = minimize(
        loss, np.zeros(design.shape[1]), jac=gradient, hess=hessian, method="trust-exact", options={"gtol": 1e-11}
    )
    return loss(optimum.x, positive)


def cluster_means(mass: Floats, values: Floats, cluster: NDArray[np.integer]) -> Floats:
    """For each of P points, the weighted mean of a quantity over all points of its cluster: (P,). For the quantity
    p(y|x), the mean is p(y|c), where c is the cluster of the point.

    Args:
        mass: (P,) weight of each point. values: (P,) the quantity at each point. cluster: (P,) cluster of each point.
    """
    weight = np.bincount(cluster, weights=mass)
    means = np.bincount(cluster, weights=mass * values) / np.where(weight > 0, weight, 1.0)
    return np.asarray(means[cluster])


def exchanged_distribution(mass: Floats, positive: Floats, cluster: NDArray[np.integer], flip_prob: float) -> Floats:
    """The probability (P,), at each of P points, that the noisy label of a random user of the point's cluster is 1.

    Args:
        mass: (P,) probability of each point. positive: (P,) p(1|x). cluster: (P,) cluster of each point. flip_prob: α,
        the probability that noise flips a label.
    """
    return (1.0 - 2.0 * flip_prob) * cluster_means(mass, positive, cluster) + flip_prob


def heterogeneity(mass: Floats, label_distribution: Floats, cluster: NDArray[np.integer]) -> float:
    """Heterogeneity φ = E Σ_y |p(y|x) - p(y|c)| under a known law, where c is the cluster of x.

    Args:
        mass: (P,) probability of each point. label_distribution: (P, K) p(y|x). cluster: (P,) cluster of each point.

    >>> round(heterogeneity(np.full(2, 0.5), np.array([[0.4, 0.6], [0.6, 0.4]]), np.zeros(2, dtype=int)), 12)
    0.2
    """
    total = 0.0
    for values in label_distribution.T:
        total += float(mass @ np.abs(values - cluster_means(mass, values, cluster)))
    return total


def heterogeneity_upper_estimate(
    labels: NDArray[np.integer], cluster_offsets: NDArray[np.int64], num_classes: int
) -> float:
    """An unbiased estimate, from true labels, of an upper bound of heterogeneity φ.

    The bound is E 2(1 - p(Y|c)), where Y is a user's label and c her cluster. Jensen's inequality gives the bound.
    Equality holds if features determine labels. An unbiased estimate of p(Y|c) is the share of users with label Y among
    the other users of c. The estimate is only for the experimenter: a parameter that depends on it is not private.

    Args:
        labels: (n,) in 0..K-1, stored cluster by cluster. cluster_offsets: (C+1,) first user of each cluster, and n at
        the end; a cluster has at least 2 users. num_classes: K.
    """
    sizes = np.diff(cluster_offsets)
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    counts = np.bincount(cluster * num_classes + labels, minlength=len(sizes) * num_classes).reshape(-1, num_classes)
    same = (counts * (counts - 1)).sum(axis=1)  # ordered pairs of users of a cluster with the same label
    return float(np.sum(2.0 * (sizes - same / (sizes - 1))) / len(labels))
