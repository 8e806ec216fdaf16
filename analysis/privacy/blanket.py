"""A bound for the learner that holds for every data set at once: shuffled randomised response, blanket revealed.

A noisy bit is a fair coin with probability 2α and the true label otherwise. Tell the learner which of the others' bits
are true, and give her all noisy bits as a shuffled multiset: the exchange is a post-processing of that, and what
is left is b ~ Bin(n-1, 2α) fair coins beside the target's noisy bit, whatever the others' labels are.
"""

import math

import numpy as np
from scipy.special import betainc

from analysis.privacy.windows import Floats, bernstein_window, binomial_pmf, rounding

BLOCKS = 128


def blanket_delta(cluster_size: int, flip_prob: float, epsilon: float, log_tail: float) -> float:
    """Upper bound on δ(ε) for every sampling rate and every data set (Balle et al. 2019, for one bit).

    δ given b does not increase in b (a further coin can be simulated), so blocks of b are charged at their first.
    """
    others, share = cluster_size - 1, 2.0 * flip_prob
    first, last = bernstein_window(others * share, others * share * (1.0 - share), others, log_tail)
    mass = binomial_pmf(first, last, others, share)
    starts = np.arange(0, mass.size, max(1, mass.size // BLOCKS))
    held = np.add.reduceat(mass, starts)
    total = float(held @ _coins_delta((first + starts).astype(np.float64), flip_prob, epsilon))
    return min(1.0, total * (1.0 + 1e-9 + rounding(cluster_size)) + 2.0 * math.exp(log_tail))


def _coins_delta(coins: Floats, flip_prob: float, epsilon: float) -> Floats:
    """δ(ε) of the number of ones among `coins` fair coins and the target's noisy bit."""
    keep = 1.0 - flip_prob - flip_prob * math.exp(epsilon)
    lose = math.exp(epsilon) * (1.0 - flip_prob) - flip_prob
    if keep <= 0.0:
        return np.zeros_like(coins)
    # the event is "at most j ones", j being the last at which keep·A(j) > lose·A(j-1)
    cut = np.ceil(keep * (coins + 1.0) / (keep + lose)) - 1.0
    cut = np.clip(cut, 0.0, coins)
    return np.asarray(np.maximum(keep * _at_most(cut, coins) - lose * _at_most(cut - 1.0, coins), 0.0))


def _at_most(j: Floats, coins: Floats) -> Floats:
    """Pr[Bin(coins, 1/2) <= j]."""
    inside = (j >= 0) & (j < coins)
    safe = np.where(inside, j, 0.0)
    value = betainc(np.where(inside, coins - safe, 1.0), safe + 1.0, 0.5)
    return np.where(j < 0, 0.0, np.where(j >= coins, 1.0, value))
