"""Both mechanisms of the clustering paper on finite laws, with a table of every point's best label: exact excess risk.

The points of a cluster are equally likely and every cluster has s users. A user's labels enter only through counts by
point, so releases of billions of users are drawn as counts, from the same law as one by one. The learner minimises the
modified empirical loss over all functions of the points, which for each point depends only on the mean of its signed
weights: an estimate of p(y|x).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.analysis.privacy.others.noisy_distribution import released_distribution
from p2p_sim.analysis.utility.bounds import Algorithm1
from p2p_sim.analysis.utility.heterogeneity import heterogeneity

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Law:
    """p(y|x) at P equally likely points in each of C clusters of the same mass, (C, P, K), rows that sum to one."""

    label_distribution: Floats

    def __post_init__(self) -> None:
        p = self.label_distribution
        if p.ndim != 3 or p.min() < 0.0 or np.abs(p.sum(axis=2) - 1.0).max() > 1e-9:
            raise ValueError("a law needs distributions over K labels at P points in C clusters, (C, P, K)")

    @property
    def heterogeneity(self) -> float:
        """φ, the full L1 distance."""
        clusters, points, classes = self.label_distribution.shape
        mass = np.full(clusters * points, 1.0 / (clusters * points))
        rows = self.label_distribution.reshape(-1, classes)
        return heterogeneity(mass, rows, np.repeat(np.arange(clusters), points))


def centralised(
    law: Law, cluster_size: int, parameters: Algorithm1, replicates: int, rng: np.random.Generator
) -> Floats:
    """Algorithm 1: the mean signed weight of each label at each point, (R, C, P, K); 1/K where no user has the point.

    Args:
        cluster_size: s, users in each cluster. replicates: R, each with users of its own.
    """
    truth = _true_counts(law, cluster_size, replicates, rng)
    share = truth.sum(axis=2) / cluster_size
    noise = rng.laplace(size=share.shape) * parameters.noise_scale / cluster_size
    released = released_distribution(share, noise, parameters.threshold)
    resampled = rng.binomial(truth, parameters.resampling_prob)
    fresh = rng.multinomial(resampled.sum(axis=3), _normalised(released)[:, :, None, :])
    counts = truth - resampled + fresh
    seen = counts.sum(axis=3, keepdims=True)
    beta = parameters.bias_correction
    return _per_user((counts - beta * seen * released[:, :, None, :]) / (1.0 - beta), seen)


def exchanged(
    law: Law, cluster_size: int, flip_prob: float, sampling_rate: float, replicates: int, rng: np.random.Generator
) -> Floats:
    """Algorithm 2: the share of each label among those that arrive from each point, (R, C, P, K); 1/K where none does.

    Args:
        cluster_size: s, users in each cluster. sampling_rate: θ.
        flip_prob: α; the K-1 other labels are equally likely.
        replicates: R, each with users of its own.
    """
    truth = _true_counts(law, cluster_size, replicates, rng)
    classes = truth.shape[3]
    redrawn = flip_prob * classes / (classes - 1)  # a label drawn afresh from all K equals the old one in 1/K of cases
    held = truth.sum(axis=2)
    lost = rng.binomial(held, redrawn)
    noisy = held - lost + rng.multinomial(lost.sum(axis=2), np.full(classes, 1.0 / classes))
    arrived = rng.binomial(truth.sum(axis=3), sampling_rate)
    fetched = rng.multinomial(arrived, _normalised(noisy / cluster_size)[:, :, None, :])
    return _per_user(fetched, arrived[..., None])


def _true_counts(law: Law, cluster_size: int, replicates: int, rng: np.random.Generator) -> Counts:
    """Users of each cluster by point and true label, (R, C, P, K)."""
    clusters, points, _ = law.label_distribution.shape
    users = rng.multinomial(cluster_size, np.full(points, 1.0 / points), size=(replicates, clusters))
    return np.asarray(rng.multinomial(users, _normalised(law.label_distribution)))


def _normalised(distribution: Floats) -> Floats:
    """Rows that sum to one to the last bit or so, as the multinomial sampler asks for."""
    positive = np.clip(distribution, 0.0, 1.0)
    return np.asarray(positive / positive.sum(axis=-1, keepdims=True))


def _per_user(total: NDArray[np.generic], users: Counts) -> Floats:
    uniform = np.full(total.shape, 1.0 / total.shape[-1])
    return np.asarray(np.divide(total, users, out=uniform, where=users > 0))


def subset_excess(law: Law, estimate: Floats, rng: np.random.Generator, chosen: int = 1) -> Floats:
    """Exact excess risk (R,) of a model that names k labels and loses 1 if the true one is not among them.

    k = 1 is the 0-1 loss. The table names the k labels with the largest estimates; ties are broken at random.

    Args:
        estimate: (R, C, P, K). chosen: k in 1..K-1.
    """
    truth = law.label_distribution
    jittered = estimate + 1e-12 * rng.random(estimate.shape)
    named = np.argpartition(jittered, -chosen, axis=3)[..., -chosen:]
    won = np.take_along_axis(np.broadcast_to(truth, estimate.shape), named, axis=3).sum(axis=3)
    most = np.sort(truth, axis=2)[..., -chosen:].sum(axis=2)
    return np.asarray((most - won).mean(axis=(1, 2)))


def cost_excess(law: Law, estimate: Floats, cost: float) -> Floats:
    """Exact excess risk (R,) for K = 2 where a false 1 costs t and a false 0 costs 1-t: a table says 1 above t.

    Args:
        estimate: (R, C, P, 2). cost: t in (0, 1).
    """
    positive = law.label_distribution[..., 1]
    wrong = (estimate[..., 1] > cost) != (positive > cost)
    return np.asarray((wrong * np.abs(positive - cost)).mean(axis=(1, 2)))


def squared_excess(law: Law, estimate: Floats) -> Floats:
    """Exact excess Brier risk (R,) of the estimates as predictions: E Σ_y (estimate - p(y|x))²."""
    return np.asarray(((estimate - law.label_distribution) ** 2).sum(axis=3).mean(axis=(1, 2)))
