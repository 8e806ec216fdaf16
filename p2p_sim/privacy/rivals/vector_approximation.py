"""Vector approximation: each bit of the one-hot label goes through randomised response at half of ε.

A changed label changes two bits. All bits get independent noise. So a vector has twice the ε of one bit (Theorem 1 of
the vector approximation paper). For a vector with this ε, each bit is kept with probability e^{ε/2}/(1+e^{ε/2}).
"""

import math

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.randomized_response import OVERFLOW, local_epsilon, local_flip_prob, outward


def vector_epsilon(bit_flip_prob: float) -> float:
    """2 ln((1-p)/p), rounded up: the ε of one noisy vector at δ = 0, for every K >= 2.

    >>> round(vector_epsilon(1.0 / (1.0 + math.exp(0.5))), 12)
    1.0

    Args:
        bit_flip_prob: p in [0, 1/2], the probability that a bit differs from the same bit of the one-hot label.
    """
    return 2.0 * local_epsilon(bit_flip_prob)


def bit_flip_prob_of(epsilon: float) -> float:
    """The smallest p at which a noisy vector is ε-private: 1/(1+e^{ε/2}), rounded up and at least 1e-300.

    >>> vector_epsilon(bit_flip_prob_of(1.0)) <= 1.0
    True

    Args:
        epsilon: ε, above 0 and at most 1400. p is the probability of a flip of one bit.
    """
    if not 0.0 < epsilon <= 1400.0:
        raise ValueError(f"epsilon = {epsilon}: must be above 0 and at most 1400")
    return local_flip_prob(epsilon / 2.0)


def vector_delta(bit_flip_prob: float, epsilon: float) -> Bracket:
    """δ(ε) of one noisy vector: max(0, (1-p)² - e^ε p²) = max(0, 1-2p - p²(e^ε-1)), exact to rounding.

    Under two labels, only two bits have different laws. (1, 0) is their only outcome that is likelier under the first
    label.

    Args:
        bit_flip_prob: p in [0, 1/2]; epsilon: ε, at least 0.
    """
    if epsilon >= vector_epsilon(bit_flip_prob):
        return Bracket(0.0, 0.0)
    if bit_flip_prob == 0.0:
        return Bracket(1.0, 1.0)
    gap = 1.0 - 2.0 * bit_flip_prob
    if epsilon <= OVERFLOW:
        lost = bit_flip_prob * math.expm1(epsilon) * bit_flip_prob
    else:
        # the square's relative error is at most 14 · 2^-53 if exp errs by one unit in the last place, as measured
        lost = (bit_flip_prob * math.exp(epsilon / 4.0) * math.exp(epsilon / 4.0)) ** 2
    error = 2.0**-49 * (gap + lost)  # of the difference, from the rounding of both terms
    return outward(gap - lost - error, gap - lost + error) if gap - lost + error > 0.0 else Bracket(0.0, 0.0)


def vector_advantage(bit_flip_prob: float, num_classes: int) -> float:
    """An observer's advantage, Pr[right] - 1/K, in guessing a label from the noisy vector. Labels are equally likely.

    The best guess is a class whose bit is 1, or any class if all bits are 0. With q = 1-p, the guess is right with
    probability (q (1 + q + ... + q^(K-1)) + p q^(K-1)) / K.

    >>> law = vector_law(0.3, 4)
    >>> round(float(vector_advantage(0.3, 4) - (law.max(axis=0).sum() - 1) / 4), 12)
    0.0

    Args:
        bit_flip_prob: p in [0, 1/2]; num_classes: K, at least 2.
    """
    keep = 1.0 - bit_flip_prob
    with_own_bit = math.fsum(keep ** (power + 1) for power in range(num_classes))
    right = with_own_bit + bit_flip_prob * keep ** (num_classes - 1)  # or no bit is 1
    return (right - 1.0) / num_classes * (1.0 + 1e-12)


def vector_law(bit_flip_prob: float, num_classes: int) -> Floats:
    """The probabilities (K, 2^K) of all noisy vectors, one row for each label.

    Column z is for the vector in which class j has the bit (z >> j) & 1.

    Args:
        bit_flip_prob: p in [0, 1/2]. num_classes: K, from 2 to 16.
    """
    if not 2 <= num_classes <= 16:
        raise ValueError(f"num_classes = {num_classes}: must lie in 2..16")
    bits = (np.arange(2**num_classes) >> np.arange(num_classes)[:, None]) & 1  # (K, 2^K)
    wrong = bits.sum(axis=0) + 1 - 2 * bits  # differences from the one-hot label: (K, 2^K)
    return np.asarray(bit_flip_prob**wrong * (1.0 - bit_flip_prob) ** (num_classes - wrong))
