"""Privacy amplification by shuffling, for any local randomiser: the worst is randomised response between two labels.

Let every output o have probability P(o) or P'(o) under the target's two labels, and at least b(o) under every label;
where all are ε₀-private, b = max(P, P') e^-ε₀ will do. Tell the learner which of the others did not draw from b, and
what they said. Then (Balle et al. 2019, Lemma 5.3)

    δ(ε) <= (1/n) E [Y_1 + ... + Y_n]_+,    Y_i = (P(o) - e^ε P'(o)) / b(o) with probability b(o) for each o, else 0,

independent, with mean 1 - e^ε. The bound grows with Y in the convex order. For convex f with f(0) = 0,
E f(Y) = Σ_o F(P(o), P'(o)), where F is homogeneous and convex on either side of P = P', so that E f(Y) is at most that
of a mixture of outputs with (P, P') proportional to (e^ε₀, 1), (1, e^ε₀) and (1, 1). The first two alone, which is
randomised response between two labels, give Y = e^ε₀ - e^ε or 1 - e^(ε₀+ε) with probability 1/(e^ε₀+1) each; (1, 1)
alone gives e^ε₀ (1 - e^ε) with probability e^-ε₀, which is smaller in the convex order (compare E [Y - k]_+ for k above
0, between the two negative values, and below). Hence δ(ε) is at most that of two labels with n - 1 others of whom each
tosses a coin with probability 2/(e^ε₀+1): the bound of Feldman, McMillan and Talwar (Stronger privacy amplification by
shuffling, 2023), and that of `kary.py` for K = 2.
"""

import math

from analysis.privacy.kary import LARGEST_CLUSTER, ShuffledLabels
from analysis.privacy.local import local_epsilon as randomized_response_epsilon

WEAKEST = 100.0
"""ε₀ from which on no number of users amplifies anything worth computing."""


def shuffled_epsilon(local_epsilon: float, users: int, delta: float) -> float:
    """Certified ε at δ of the shuffled messages of n users who each ran the same ε₀-private local randomiser once.

    Holds for one changed label and all other labels, for anything computed from the messages without their senders, and
    not where a user's randomiser depends on what others said. Never above ε₀.

    >>> 0.03 < shuffled_epsilon(1.0, 10_000, 1e-6) < 0.06
    True

    Args:
        local_epsilon: ε₀, at least 0, infinite allowed. users: n, at least 1; more than 1,000,000 count as these.
        delta: δ in (0, 1).
    """
    _check(local_epsilon, users)
    if users == 1 or local_epsilon == 0.0 or local_epsilon >= WEAKEST:
        return local_epsilon
    return min(local_epsilon, _worst(local_epsilon, users).epsilon(delta).epsilon_upper)


def shuffled_delta(local_epsilon: float, users: int, epsilon: float) -> float:
    """Certified δ at ε, as `shuffled_epsilon`; 0 from ε₀ on, and 1 where nothing better is known.

    Args:
        local_epsilon: ε₀, at least 0, infinite allowed. users: n, at least 1. epsilon: ε, at least 0.
    """
    _check(local_epsilon, users)
    if epsilon >= local_epsilon:
        return 0.0
    return 1.0 if users == 1 or local_epsilon >= WEAKEST else _worst(local_epsilon, users).delta(epsilon).upper


def _worst(epsilon: float, users: int) -> ShuffledLabels:
    """Two labels with flip probability 1/(1+e^ε₀), rounded down, so that they are at least as far apart as ε₀ says."""
    flip = 1.0 / (1.0 + math.exp(epsilon))
    while randomized_response_epsilon(flip) < epsilon:
        flip *= 1.0 - 2.0**-50
    return ShuffledLabels(min(users, LARGEST_CLUSTER), flip, 1.0, 2)


def _check(local_epsilon: float, users: int) -> None:
    if not local_epsilon >= 0.0:
        raise ValueError(f"local_epsilon = {local_epsilon}: must be at least 0")
    if users < 1:
        raise ValueError(f"users = {users}: must be at least 1")
