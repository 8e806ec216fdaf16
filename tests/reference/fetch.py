"""δ(ε) of the learner for a fetch distribution, by going through every flip and every view."""

import itertools
import math

import numpy as np

from tests.reference.enumeration import NOTHING, flip_law, views


def delta(weights: np.ndarray, alpha: float, theta: float, epsilon: float) -> float:
    """Largest hockey-stick divergence over all ordered pairs of neighbouring label vectors."""
    n = len(weights)
    table = np.zeros((2**n, 3**n))
    everything = np.array(views(n))
    for row, noisy in enumerate(itertools.product((0, 1), repeat=n)):
        p = weights @ np.array(noisy)
        chances = np.stack([theta * (1 - p), theta * p, np.full(n, 1 - theta)], axis=1)
        table[row] = np.prod(chances[np.arange(n), everything], axis=1)
    assert NOTHING == 2
    laws = {y: flip_law(y, alpha) @ table for y in itertools.product((0, 1), repeat=n)}
    worst, grow = 0.0, math.exp(epsilon)
    for labels, law in laws.items():
        for target in range(n):
            other = laws[tuple(1 - y if i == target else y for i, y in enumerate(labels))]
            worst = max(worst, float(np.maximum(law - grow * other, 0.0).sum()))
    return worst
