"""Probabilities of the noisy labels of Algorithm 1 of the clustering paper (Esfandiari et al.) in tiny clusters. They
are computed by quadrature over the noise.
"""

import itertools
from functools import cache

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.rivals import released_distribution


def laplace_nodes(classes: int, scale: float, count: int) -> Floats:
    """Equally likely noise vectors (count^K, K) for K classes, which stand for independent Laplace noise of this scale.

    The vectors are all combinations of `count` quantiles of the Laplace law, one for each class.
    """
    u = (np.arange(count) + 0.5) / count
    points = scale * np.where(u < 0.5, np.log(2.0 * u), -np.log(2.0 * (1.0 - u)))
    return np.stack(np.meshgrid(*[points] * classes, indexing="ij"), axis=-1).reshape(-1, classes)


def shares(labels: tuple[int, ...], classes: int) -> Floats:
    """The share of each class among a cluster's labels, (K,)."""
    return np.bincount(labels, minlength=classes) / len(labels)


def noisy_label_law(
    labels: tuple[int, ...], classes: int, threshold: float, noise: Floats, resampling_prob: float
) -> Floats:
    """The probability (K^n,) of each vector of noisy labels of a cluster's n users, averaged over the noise.

    Args:
        labels: the users' true labels. classes: K. noise: (M, K) equally likely vectors, added to the label shares.
        threshold: τ, the least value that noisy shares are clipped to. resampling_prob: λ, the probability with which a
        user's noisy label is drawn from the noisy shares.
    """
    q = released_distribution(shares(labels, classes), noise, threshold)
    law = np.ones((len(q), 1))
    for label in labels:
        each = resampling_prob * q
        each[:, label] += 1.0 - resampling_prob
        law = (law[:, :, None] * each[:, None, :]).reshape(len(q), -1)
    return np.asarray(law.mean(axis=0))


def label_epsilon(n: int, classes: int, threshold: float, noise: Floats, resampling_prob: float) -> float:
    """Pure ε of the noisy labels of a cluster of n users if nothing else is released, exact for this law of the noise.

    It is the largest log-ratio of probabilities, over all outputs and all pairs of data sets that differ in one label.

    Args:
        n: number of users. classes: K. noise: (M, K) equally likely vectors, added to the label shares. threshold: τ,
        the least value that noisy shares are clipped to. resampling_prob: λ, the probability with which a noisy label
        is drawn from the noisy shares.
    """
    law = cache(lambda labels: noisy_label_law(labels, classes, threshold, noise, resampling_prob))
    # the maximum over all labels of the other users, up to their order, and over all changes of the target's label
    return max(
        float(np.log(law((before, *rest)) / law((after, *rest))).max())
        for rest in itertools.combinations_with_replacement(range(classes), n - 1)
        for before, after in itertools.permutations(range(classes), 2)
    )
