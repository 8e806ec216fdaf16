"""A certified lower bound of a mean from a sample, for lower ends of ε; the proof is in `networks/attained.py`."""

import math

import numpy as np

from p2p_sim.analysis.privacy.statement.windows import Floats

ERROR = 1e-9
"""Probability that a lower end is above the truth, over the draw of its sample."""


def mean_at_least(values: Floats, cut: float, most: float, error: float) -> float:
    """A lower bound of the mean of independent values, at most `error` of the time above it.

    Args:
        values: (N,), none below -most. cut: above 0, chosen before; larger values count as this. error: in (0, 1).
    """
    count, confidence = len(values), math.log(4.0 / error)
    above, below = np.clip(values, 0.0, cut), np.maximum(-values, 0.0)
    gain = float(above.mean()) - math.sqrt(2.0 * float(above.var(ddof=1)) * confidence / count)
    gain -= 7.0 * confidence * cut / (3.0 * (count - 1))
    reach = math.sqrt(2.0 * most * confidence / count)
    return max(gain, 0.0) - ((reach + math.sqrt(reach * reach + 4.0 * float(below.mean()))) / 2.0) ** 2
