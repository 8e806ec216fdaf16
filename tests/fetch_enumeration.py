"""Random fetch laws of few users, and their exact δ(ε) by enumeration of labels, bits, choices and submissions."""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from p2p_sim.privacy.randomized_response import local_epsilon


@dataclass(frozen=True, eq=False)
class FewUsers:
    """An exchange of few users: user i fetches from j with probability weights[i, j], and submits with probability
    rates[i]. All that the learner can see, under all label vectors, is tabulated: up to some 7 users.
    """

    weights: np.ndarray
    flip_prob: float
    rates: np.ndarray

    @cached_property
    def laws(self) -> np.ndarray:
        """Probability of each view, by label vector, (2^n, 3^n); the bits of the row's number are the labels."""
        n = len(self.weights)
        bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        table = np.ones((2**n, 1))
        for rate, p in zip(self.rates, (bits @ self.weights.T).T, strict=True):
            seen = np.stack([rate * (1.0 - p), rate * p, np.full(len(p), 1.0 - rate)], axis=1)
            table = (table[:, :, None] * seen[:, None, :]).reshape(2**n, -1)
        flips = (bits[:, None, :] != bits[None, :, :]).sum(axis=2)
        return (self.flip_prob**flips * (1.0 - self.flip_prob) ** (n - flips)) @ table

    def user_delta(self, user: int, epsilon: float) -> float:
        """The largest divergence over the others' labels and both directions of this user's label."""
        one = (np.arange(len(self.laws)) >> user) & 1 == 1
        zero_law, one_law = self.laws[~one], self.laws[one]
        grow = math.exp(epsilon)
        return float(
            max(np.maximum(p - grow * q, 0.0).sum(1).max() for p, q in itertools.permutations((zero_law, one_law)))
        )

    def delta(self, epsilon: float) -> float:
        """The largest over all users."""
        return max(self.user_delta(user, epsilon) for user in range(len(self.weights)))

    def user_epsilon(self, user: int, delta: float) -> float:
        """The smallest ε at which this user's δ(ε) is at most `delta`, to 1e-9 from above; at most ε₀."""
        low, high = 0.0, local_epsilon(self.flip_prob)
        if self.user_delta(user, low) <= delta:
            return 0.0
        while high - low > 1e-9:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.user_delta(user, middle) > delta else (low, middle)
        return high

    def epsilon(self, delta: float) -> float:
        """The largest over all users."""
        return max(self.user_epsilon(user, delta) for user in range(len(self.weights)))


def random_laws(count: int, most_users: int = 6, seed: int = 0) -> list[FewUsers]:
    """Fetch laws of 3 to `most_users` users: rows with some zeros or nearly uniform; α and rates of several sizes."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        n = int(rng.integers(3, most_users + 1))
        spread = rng.choice([0.2, 1.0, 3.0])
        rows = np.exp(spread * rng.standard_normal((n, n))) * (rng.random((n, n)) < rng.choice([0.5, 0.8, 1.0]))
        rows[np.arange(n), rng.integers(0, n, n)] += 0.1
        rates = np.full(n, 1.0) if rng.random() < 0.4 else rng.random(n)
        alpha = float(rng.choice([0.02, 0.1, 0.2, 0.35, 0.45]))
        found.append(FewUsers(rows / rows.sum(axis=1, keepdims=True), alpha, rates))
    return found
