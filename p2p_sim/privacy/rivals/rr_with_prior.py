"""RRWithPrior (Ghazi et al. 2021): randomised response among the k labels that a prior thinks most likely.

RRTop-k draws as k-ary randomised response if the label is among the k most likely, else uniformly among these k. An
output has probability e^ε/(e^ε+k-1), 1/(e^ε+k-1) or 1/k, whose ratios lie within e^ε: ε-private for any prior that
does not depend on the label, and any k; 0-private for k = 1. RRWithPrior takes the k that maximises the probability
w_k = e^ε/(e^ε+k-1) · (prior mass of the k most likely labels) of keeping the label.
"""

import math

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats


def keep_probability(epsilon: float, candidates: NDArray[np.integer] | int) -> Floats:
    """e^ε/(e^ε+k-1), the probability that randomised response among k labels keeps a label, for each k >= 1."""
    return np.asarray(1.0 / (1.0 + (np.asarray(candidates) - 1.0) * math.exp(-epsilon)))


def by_prior(prior: Floats) -> NDArray[np.intp]:
    """Labels (..., K) from the most to the least likely; of equally likely ones the lower first."""
    return np.argsort(-prior, axis=-1, kind="stable")


def best_candidates(prior: Floats, epsilon: float) -> NDArray[np.int64]:
    """How many labels RRWithPrior chooses among: the k in 1..K that maximises w_k, for each prior (..., K); the
    smallest of several.

    >>> int(best_candidates(np.array([0.45, 0.45, 0.05, 0.05]), 1.0)), int(best_candidates(np.full(4, 0.25), 1.0))
    (2, 4)

    Args:
        prior: probabilities that sum to one along the last axis; epsilon: ε, above 0.
    """
    ranked = -np.sort(-prior, axis=-1)
    weights = np.cumsum(ranked, axis=-1) * keep_probability(epsilon, np.arange(1, prior.shape[-1] + 1))  # w_k
    return np.asarray(np.argmax(weights, axis=-1) + 1, dtype=np.int64)


def top_k_law(prior: Floats, candidates: int, epsilon: float) -> Floats:
    """Probability of each output given each label under RRTop-k: (K, K).

    Args:
        prior: (K,); candidates: k in 1..K; epsilon: ε, above 0.
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
