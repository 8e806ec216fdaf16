"""RRWithPrior (Ghazi et al. 2021): randomised response among the k labels that are most likely under a prior.

RRTop-k is k-ary randomised response if the label is among the k most likely labels. Otherwise it draws uniformly from
these k. An output has probability e^ε/(e^ε+k-1), 1/(e^ε+k-1) or 1/k. The ratio of any two of these is at most e^ε. So
RRTop-k is ε-private for any k and any prior that does not depend on the label. For k = 1 it is 0-private. RRWithPrior
takes the k that maximises w_k, the probability that the label is kept. Here w_k = e^ε/(e^ε+k-1) · (prior probability of
the k most likely labels).
"""

import math

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats


def keep_probability(epsilon: float, candidates: NDArray[np.integer] | int) -> Floats:
    """The probability e^ε/(e^ε+k-1) that k-ary randomised response keeps a label.

    candidates: k >= 1, one number or an array.
    """
    return np.asarray(1.0 / (1.0 + (np.asarray(candidates) - 1.0) * math.exp(-epsilon)))


def by_prior(prior: Floats) -> NDArray[np.intp]:
    """Labels (..., K) by falling prior probability (..., K). Equally likely labels are in ascending order."""
    return np.argsort(-prior, axis=-1, kind="stable")


def best_candidates(prior: Floats, epsilon: float) -> NDArray[np.int64]:
    """For each prior, the number k of most likely labels among which RRWithPrior answers. This is the smallest k that
    maximises w_k = e^ε/(e^ε+k-1) · (prior probability of the k most likely labels). w_k is the probability that the
    label is kept.

    >>> int(best_candidates(np.array([0.45, 0.45, 0.05, 0.05]), 1.0)), int(best_candidates(np.full(4, 0.25), 1.0))
    (2, 4)

    Args:
        prior: (..., K) probabilities of the K labels, which sum to one along the last axis. epsilon: ε, above 0.
    """
    mass = np.cumsum(-np.sort(-prior, axis=-1), axis=-1)
    weights = mass * keep_probability(epsilon, np.arange(1, prior.shape[-1] + 1))  # w_k
    return np.asarray(np.argmax(weights, axis=-1) + 1, dtype=np.int64)


def top_k_law(prior: Floats, candidates: int, epsilon: float) -> Floats:
    """The probability (K, K) of each output (column) given each of K labels (row) under RRTop-k.

    RRTop-k is randomised response at ε among the k most likely labels. A less likely label gets a uniform draw from
    these k. RRWithPrior is RRTop-k with the k that is best for the prior.

    Args:
        prior: (K,) probabilities of the labels. candidates: k in 1..K. epsilon: ε, above 0.
    """
    classes = len(prior)
    if not 1 <= candidates <= classes:
        raise ValueError(f"candidates = {candidates}: must lie in 1..{classes}")
    top = by_prior(prior)[:candidates]
    keep = float(keep_probability(epsilon, candidates))
    law = np.zeros((classes, classes))
    law[:, top] = 1.0 / candidates
    law[np.ix_(top, top)] = keep * math.exp(-epsilon)
    law[top, top] = keep
    return law
