"""Exact ε and δ of a local randomizer with finitely many outputs, from its table of probabilities."""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def law_epsilon(law: Floats) -> float:
    """Pure label ε: the largest log-ratio of two inputs' probabilities of an output; infinite if only one can give it.

    Exact up to the rounding of the table's entries.

    >>> round(law_epsilon(np.array([[0.9, 0.1], [0.1, 0.9]])), 12) == round(math.log(9.0), 12)
    True

    Args:
        law: (inputs, outputs) probabilities, rows that sum to one.
    """
    _check(law)
    highest, lowest = law.max(axis=0), law.min(axis=0)
    possible = highest > 0
    if np.any(lowest[possible] == 0):
        return math.inf
    return max(0.0, float(np.log(highest[possible] / lowest[possible]).max()))


def law_delta(law: Floats, epsilon: float) -> float:
    """δ(ε): the largest hockey-stick divergence between two inputs' output laws.

    Args:
        law: (inputs, outputs) probabilities, rows that sum to one; epsilon: ε, at least 0.
    """
    _check(law)
    grown = math.exp(epsilon) * law
    return max(float(np.maximum(row - grown, 0.0).sum(axis=1).max()) for row in law)


def attained_epsilon(law: Floats, delta: float, top: float) -> float:
    """Where δ(ε) is still above δ, between 0 and `top`; found by bisection, and 0 where it never is."""
    low, high = 0.0, top
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if law_delta(law, middle) > delta * (1.0 + 1e-9) + 1e-13 else (low, middle)
    return low * (1.0 - 1e-12)


def drawn_from_rows(law: Floats, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Outputs (n,) of the labels (n,), each drawn from its label's row: one uniform number each, looked up."""
    ends = np.cumsum(law, axis=1)
    ends[:, -1] = 1.0
    drawn, outputs = rng.random(labels.size), np.zeros(labels.size, dtype=np.uint8)
    for label in range(len(law)):
        chosen = np.flatnonzero(labels == label)
        outputs[chosen] = np.searchsorted(ends[label], drawn[chosen], side="right")
    return outputs


def _check(law: Floats) -> None:
    if law.ndim != 2 or np.any(law < 0) or not np.allclose(law.sum(axis=1), 1.0, rtol=0, atol=1e-9):
        raise ValueError("law: must be a table of probabilities whose rows sum to one")
