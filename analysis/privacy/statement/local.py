"""Randomised response on its own: what protects a label from an observer who gets no amplification."""

import math

from analysis.privacy.statement.bound import Bracket


def local_epsilon(flip_prob: float, num_classes: int = 2) -> float:
    """ε₀ = ln((1-α)(K-1)/α), rounded up: pure label differential privacy of K-ary randomised response.

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
    largest = (num_classes - 1) / num_classes
    if not 0.0 <= flip_prob <= largest:
        raise ValueError(f"flip_prob = {flip_prob}: must lie in [0, {largest:g}]")
    if flip_prob == 0.0:
        return math.inf
    excess = (num_classes - 1 - num_classes * flip_prob) / flip_prob  # e^ε₀ - 1, without cancellation for K = 2
    if excess <= 0.0:
        return 0.0
    return math.log1p(excess) * (1.0 + 2.0**-50)


def local_flip_prob(epsilon: float, num_classes: int = 2) -> float:
    """The smallest α at which K-ary randomised response is ε-private: (K-1)/(K-1+e^ε), rounded up.

    Args:
        epsilon: ε, above 0; num_classes: K, at least 2.

    >>> round(local_flip_prob(math.log(9.0)), 12)
    0.1
    """
    largest = (num_classes - 1) / num_classes
    alpha = (num_classes - 1) / (num_classes - 1 + math.exp(min(epsilon, 700.0)))
    while local_epsilon(alpha, num_classes) > epsilon:
        alpha = min(alpha * (1.0 + 2.0**-50), largest)
    return alpha


def local_delta(flip_prob: float, epsilon: float, num_classes: int = 2) -> Bracket:
    """δ(ε) of one noisy label seen with its owner: max(0, 1-α-e^ε α/(K-1)), exact to rounding.

    Args:
        flip_prob: α in [0, (K-1)/K]; epsilon: ε, at least 0; num_classes: K, at least 2.
    """
    if epsilon > 700.0:
        return Bracket(0.0, 0.0) if flip_prob > 0 else Bracket(1.0, 1.0)
    other = flip_prob / (num_classes - 1)  # of each wrong class
    gap, lost = 1.0 - (flip_prob + other), other * math.expm1(epsilon)
    doubt = 2.0**-51 * (gap + lost)
    return Bracket(max(0.0, gap - lost - doubt), max(0.0, min(1.0, gap - lost + doubt)) if gap + doubt > lost else 0.0)
