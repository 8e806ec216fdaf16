"""Randomised response on its own: what protects a label from an observer who gets no amplification.

The smallest numbers are no exception: α e^ε is (α e^(ε/2)) e^(ε/2), which does not overflow before α e^ε exceeds one.
"""

import math
from fractions import Fraction
from functools import lru_cache

from p2p_sim.privacy.binomial_windows import LEAST, SUBNORMAL
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.ranges import check_flip_prob, plain_arguments

OVERFLOW = 700.0
"""ε from which on e^ε is not formed."""
_NOTHING = 1450.0
"""ε above ε₀ of every positive α, the smallest included."""


@lru_cache(maxsize=4096)
def _gap(flip_prob: float, num_classes: int) -> float:
    """g = |1 - αK/(K-1)|, correctly rounded: K times α may be all but K-1, and a float of (K-1)/K may lie above it.

    There the true label is the less likely by u, and δ = max(0, g - (1-α)(e^ε-1)), where 1-α is α/(K-1) but for that.
    """
    return abs(float(1 - Fraction(flip_prob) * num_classes / (num_classes - 1)))


@plain_arguments
def local_epsilon(flip_prob: float, num_classes: int = 2) -> float:
    """ε₀ = ln((1-α)(K-1)/α), rounded up: pure label differential privacy of K-ary randomised response.

    e^ε₀ - 1 = (1 - αK/(K-1))(K-1)/α is off by 3u, its log1p therefore by 5u at most, and 8u are added.

    Args:
        flip_prob: α in [0, (K-1)/K], the probability that the noisy label differs from the true one.
        num_classes: K, at least 2.

    >>> round(local_epsilon(0.1), 4)
    2.1972
    >>> local_epsilon(0.5)
    0.0
    """
    if num_classes < 2:
        raise ValueError(f"num_classes = {num_classes}: must be at least 2")
    check_flip_prob(flip_prob, num_classes)
    if flip_prob == 0.0:
        return math.inf
    excess = _gap(flip_prob, num_classes) * (num_classes - 1) / flip_prob
    if math.isinf(excess):
        return (math.log(num_classes - 1) - math.log(flip_prob)) * (1.0 + 2.0**-50)
    return math.log1p(excess) * (1.0 + 2.0**-50)


def local_flip_prob(epsilon: float, num_classes: int = 2) -> float:
    """The smallest α at which K-ary randomised response is ε-private: (K-1)/(K-1+e^ε), rounded up; at least 1e-300.

    Args:
        epsilon: ε, above 0; num_classes: K, at least 2.

    >>> round(local_flip_prob(math.log(9.0)), 12)
    0.1
    """
    largest = (num_classes - 1) / num_classes
    alpha = max((num_classes - 1) / (num_classes - 1 + math.exp(min(epsilon, OVERFLOW))), LEAST)
    while local_epsilon(alpha, num_classes) > epsilon:
        alpha = min(alpha * (1.0 + 2.0**-50), largest)
    return alpha


def hockey_stick_coefficients(flip_prob: float, epsilon: float, num_classes: int = 2) -> tuple[float, float, float]:
    """(keep, lose, relative_error): P - e^ε P' = keep · A - lose · B, with A and B the laws given the noisy label.

    keep = 1-α-e^ε α' = g - α'(e^ε-1) and lose = e^ε(1-α)-α' = g + (1-α)(e^ε-1), where α' = α/(K-1) and g = 1-α-α'. With
    expm1 and exp off by an ulp each (measured), g is off by u g and the other term of keep by at most 7u of itself;
    keep is the middle of what is possible and off by at most `relative_error`, lose by less than 8u. keep is 0 where
    nothing else is possible. Above ε = 700, where e^ε is not formed, lose is too small: for upper bounds only.
    """
    if epsilon > _NOTHING and flip_prob > 0.0:
        return 0.0, math.inf, 0.0
    gap, other = _gap(flip_prob, num_classes), flip_prob / (num_classes - 1)
    growth = math.expm1(min(epsilon, OVERFLOW))
    lost = other * growth
    if epsilon > OVERFLOW:  # α itself is far below u α e^ε
        half = math.exp(epsilon / 2.0) if flip_prob > 0.0 else 0.0
        lost = flip_prob * half / (num_classes - 1) * half
    error = 2.0**-49 * (gap + lost)
    low, high = max(0.0, gap - lost - error), gap - lost + error
    if high <= 0.0 or gap == 0.0:
        return 0.0, gap + (1.0 - flip_prob) * growth, 0.0
    return (low + high) / 2.0, gap + (1.0 - flip_prob) * growth, (high - low) / (high + low) * (1.0 + 2.0**-40)


def local_delta(flip_prob: float, epsilon: float, num_classes: int = 2) -> Bracket:
    """δ(ε) of one noisy label seen with its owner: max(0, 1-α-e^ε α/(K-1)), exact to rounding, whatever α and ε.

    Args:
        flip_prob: α in [0, (K-1)/K]; epsilon: ε, at least 0; num_classes: K, at least 2.
    """
    keep, _, relative_error = hockey_stick_coefficients(flip_prob, epsilon, num_classes)
    if keep == 0.0:
        return Bracket(0.0, 0.0)
    if flip_prob == 0.0:
        return Bracket(1.0, 1.0)
    return outward(keep * (1.0 - relative_error), keep * (1.0 + relative_error))


def outward(lower: float, upper: float) -> Bracket:
    """The bracket, further apart by a rounding of each end and by the smallest positive number, within [0, 1]."""
    down = max(0.0, lower * (1.0 - 2.0**-52) - SUBNORMAL)
    return Bracket(down, min(1.0, upper * (1.0 + 2.0**-52) + SUBNORMAL))
