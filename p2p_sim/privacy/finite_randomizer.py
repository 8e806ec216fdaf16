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


def _check(law: Floats) -> None:
    if law.ndim != 2 or np.any(law < 0) or not np.allclose(law.sum(axis=1), 1.0, rtol=0, atol=1e-9):
        raise ValueError("law: must be a table of probabilities whose rows sum to one")
