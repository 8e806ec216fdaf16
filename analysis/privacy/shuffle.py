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
from dataclasses import dataclass

from analysis.privacy.bound import Bracket, PrivacyBound
from analysis.privacy.kary import LARGEST_CLUSTER, ShuffledLabels
from analysis.privacy.label_exchange import LEARNER_CONDITIONS, check_delta, check_epsilon
from analysis.privacy.local import local_epsilon as randomized_response_epsilon

WEAKEST = 100.0
"""ε₀ from which on no number of users amplifies anything worth computing."""


@dataclass(frozen=True)
class ShuffledMessages:
    """Privacy of one user's label among n users who each ran the same local randomiser once, their messages shuffled.

    Holds for one changed label and all other labels, for anything computed from the messages without their senders, the
    exchange for the learner among them; not where a user's randomiser depends on what others said.

    Args:
        users: n, at least 1; more than 1,000,000 count as these.
        local_epsilon: ε₀ of the randomiser, at least 0, infinite allowed.
    """

    users: int
    local_epsilon: float

    def __post_init__(self) -> None:
        if not self.local_epsilon >= 0.0:
            raise ValueError(f"local_epsilon = {self.local_epsilon}: must be at least 0")
        if self.users < 1:
            raise ValueError(f"users = {self.users}: must be at least 1")

    def delta(self, epsilon: float) -> Bracket:
        """δ(ε): 0 and a certified bound, which is 0 from ε₀ on and 1 where nothing better is known."""
        check_epsilon(epsilon)
        if epsilon >= self.local_epsilon:
            return Bracket(0.0, 0.0)
        worst = self._worst
        return Bracket(0.0, 1.0) if worst is None else worst.delta(epsilon)

    def epsilon(self, delta: float) -> PrivacyBound:
        """ε(δ): 0 and a certified bound, never above ε₀."""
        check_delta(delta)
        worst, upper, basis = self._worst, self.local_epsilon, "local randomiser alone"
        found = math.inf if worst is None else worst.epsilon(delta).epsilon_upper
        if found < upper:
            upper, basis = found, "bound for shuffled messages of any local randomiser"
        return PrivacyBound(0.0, upper, delta, "learner", "label", basis, LEARNER_CONDITIONS)

    @property
    def _worst(self) -> ShuffledLabels | None:
        """Two labels with flip probability 1/(1+e^ε₀), rounded down, so that they are as far apart as ε₀ allows."""
        if self.users == 1 or not 0.0 < self.local_epsilon < WEAKEST:
            return None
        flip = 1.0 / (1.0 + math.exp(self.local_epsilon))
        while randomized_response_epsilon(flip) < self.local_epsilon:
            flip *= 1.0 - 2.0**-50
        return ShuffledLabels(min(self.users, LARGEST_CLUSTER), flip, 1.0, 2)


def shuffled_epsilon(local_epsilon: float, users: int, delta: float) -> float:
    """Certified ε at δ of the shuffled messages of n users with an ε₀-private local randomiser: `ShuffledMessages`.

    >>> 0.03 < shuffled_epsilon(1.0, 10_000, 1e-6) < 0.06
    True

    Args:
        local_epsilon: ε₀, at least 0, infinite allowed. users: n, at least 1. delta: δ in (0, 1).
    """
    return ShuffledMessages(users, local_epsilon).epsilon(delta).epsilon_upper
