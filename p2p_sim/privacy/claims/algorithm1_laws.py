"""Probabilities of noisy labels under Algorithm 1 of the clustering paper (Esfandiari et al.), in tiny clusters."""

import itertools
from functools import cache

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.rivals import released_distribution


def laplace_nodes(classes: int, scale: float, count: int) -> Floats:
    """Equally likely noise vectors (count^K, K) for K classes. They stand for independent Laplace noise of this scale.
    The vectors are all combinations of `count` quantiles of the Laplace distribution, one quantile for each class.
    """
    u = (np.arange(count) + 0.5) / count
    points = scale * np.where(u < 0.5, np.log(2.0 * u), -np.log(2.0 * (1.0 - u)))
    return np.stack(np.meshgrid(*[points] * classes, indexing="ij"), axis=-1).reshape(-1, classes)


def shares(labels: tuple[int, ...], classes: int) -> Floats:
    """The share of each class among a cluster's labels, (K,). Labels are numbers from 0 to K-1."""
    return np.bincount(labels, minlength=classes) / len(labels)


def noisy_label_law(
    labels: tuple[int, ...], classes: int, threshold: float, noise: Floats, resampling_prob: float
) -> Floats:
    """The probability (K^n,) of each vector of noisy labels of a cluster's n users, averaged over the noise.

    The vectors are in lexicographic order: the last user's label varies fastest.

    Args:
        labels: the users' true labels. classes: K. noise: (M, K) equally likely vectors, added to the label shares.
        threshold: τ; noisy shares are clipped to [τ, 1] and then changed to sum to 1. resampling_prob: λ. With
        probability λ a user's noisy label is drawn from the noisy shares.
    """
    q = released_distribution(shares(labels, classes), noise, threshold)
    law = np.ones((len(q), 1))
    for label in labels:
        each = resampling_prob * q
        each[:, label] += 1.0 - resampling_prob
        law = (law[:, :, None] * each[:, None, :]).reshape(len(q), -1)
    return np.asarray(law.mean(axis=0))


def label_epsilon(n: int, classes: int, threshold: float, noise: Floats, resampling_prob: float) -> float:
    """Pure ε of the noisy labels of a cluster of n users if nothing else is released. It is exact for the given
    `noise`.

    The result is the largest log-ratio of an output's probabilities under two data sets that differ in one label.

    Args:
        n: number of users. All other arguments are explained at `noisy_label_law`.
    """
    law = cache(lambda labels: noisy_label_law(labels, classes, threshold, noise, resampling_prob))
    # The maximum is over all labels of the other users, up to order, and over all changes of the target's label.
    return max(
        float(np.log(law((before, *rest)) / law((after, *rest))).max())
        for rest in itertools.combinations_with_replacement(range(classes), n - 1)
        for before, after in itertools.permutations(range(classes), 2)
    )
