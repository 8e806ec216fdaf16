"""The exact law of the label exchange in a tiny cluster, by going through every flip, choice and subsample."""

import functools
import itertools
import math

import numpy as np

NOTHING = 2
"""Stands in a view for a user who submitted no label."""


def views(n: int) -> list[tuple[int, ...]]:
    """All views of the learner: for each user 0, 1 or NOTHING."""
    return list(itertools.product((0, 1, NOTHING), repeat=n))


@functools.lru_cache
def law_given_noisy(n: int, theta: float) -> np.ndarray:
    """Pr[view | noisy labels], shape (2**n, 3**n), over all choices of peers and all subsamples."""
    peers = np.array(list(itertools.product(range(n), repeat=n)))
    digits = 3 ** np.arange(n - 1, -1, -1)  # a view's place in `views`
    table = np.zeros((2**n, 3**n))
    for row, noisy in enumerate(itertools.product((0, 1), repeat=n)):
        fetched = np.array(noisy)[peers]
        for keep in itertools.product((0, 1), repeat=n):
            probability = math.prod(theta if x else 1 - theta for x in keep) / n**n
            places = np.where(np.array(keep, dtype=bool), fetched, NOTHING) @ digits
            table[row] += probability * np.bincount(places, minlength=3**n)
    return table


def law(labels: tuple[int, ...], alpha: float, theta: float) -> np.ndarray:
    """Pr[view] for true labels, shape (3**n,)."""
    return flip_law(labels, alpha) @ law_given_noisy(len(labels), theta)


def flip_law(labels: tuple[int, ...], alpha: float) -> np.ndarray:
    """Pr[noisy labels], shape (2**n,)."""
    noisy = itertools.product((0, 1), repeat=len(labels))
    return np.array([math.prod(alpha if a != b else 1 - alpha for a, b in zip(labels, z, strict=True)) for z in noisy])


def memoised_law(n: int, theta: float, rounds: int) -> np.ndarray:
    """Pr[views of all rounds | noisy labels] when every round repeats the same noisy labels: (2**n, 3**(n rounds))."""
    once = law_given_noisy(n, theta)
    table = once
    for _ in range(rounds - 1):
        table = (table[:, :, None] * once[:, None, :]).reshape(len(once), -1)
    return table


def delta(n: int, alpha: float, theta: float, epsilon: float, rounds: int = 1) -> float:
    """Largest hockey-stick divergence over all ordered pairs of neighbouring label vectors."""
    given = memoised_law(n, theta, rounds)
    worst = 0.0
    for labels in itertools.product((0, 1), repeat=n):
        for target in range(n):
            other = tuple(1 - y if i == target else y for i, y in enumerate(labels))
            p, q = flip_law(labels, alpha) @ given, flip_law(other, alpha) @ given
            worst = max(worst, float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()))
    return worst
