"""A lower bound of ε for several releases together, from what the observer sees of one data set.

In this data set all users except the target hold label 0. The target's label is 0 or 1. With fresh noise the releases
are independent given the labels. Each outcome of a release gets a score: the logarithm of its likelihood ratio, rounded
to whole steps. The sum of the scores depends only on what the observer sees. Let P and Q be the laws (distributions) of
the sum under the target's two labels. Then, for every number s,

    ε(δ) >= ln((P[sum >= s] - δ) / Q[sum >= s]).

Scores may be rounded, since any scores give a lower bound. Convolutions give the laws of the sum; all their terms are
non-negative. Let the sum have N scores with K values, and let u = 2^-53. Then the laws' relative error is below
N (K + 2) · 8u. The bound allows for this error. Any probability that is cut off is added to Q.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from p2p_sim.privacy.binomial_windows import UNIT, Floats

_STEPS = 4096
"""Approximate number of steps in the range of the sum of scores."""
_REACH = 28.0
"""Approximate width of this range, in standard deviations of the sum of scores."""
_CUT = 1e-30
"""Values with at most this probability are cut off at the ends of a law."""


@dataclass(frozen=True, eq=False)
class AttainedPair:
    """Two laws (distributions) of what the observer sees of a release, one for each label of the target.

    All other users hold label 0. label_zero, label_one: (v,), the probabilities of v outcomes if the target's label is
    0, and if it is 1. Some outcomes may be missing. error: the relative error of the probabilities.
    """

    label_zero: Floats
    label_one: Floats
    error: float


def composed_epsilon(pairs: Sequence[AttainedPair], times: Sequence[int], delta: float) -> float:
    """A lower bound of ε at δ for several releases about the same users; 0 if none is found.

    In the data set all users except the target hold label 0. Evidence that the target's label is 0 gives one bound.
    Evidence that it is 1 gives another bound. The larger bound is taken.

    Args:
        pairs: for each release, the probabilities of what the observer sees if the target's label is 0, and if it is 1.
        times: how often each release is made, with fresh noise.
    """
    return 0.0 if not pairs else max(_one_way(pairs, times, delta, swapped) for swapped in (False, True))


class ScoreLaw(NamedTuple):
    """The law of a sum of scores: probabilities of the values first, first + 1, and so on. `cut` is a bound of the
    probability that was cut off.
    """

    probabilities: Floats
    first: int
    cut: float = 0.0


def _one_way(pairs: Sequence[AttainedPair], times: Sequence[int], delta: float, swapped: bool) -> float:
    """A lower bound of ε at δ: the largest ln((P - δ)/Q) over events "the sum of scores is at least s".

    P and Q are the event's probabilities under the target's two labels. P is rounded down, and Q up. The event is
    evidence of label 0, or of label 1 if `swapped`.

    Args:
        pairs: for each release, the probabilities of its outcomes under both labels. times: how often each release is
        made, with fresh noise.
    """
    ways = [(pair.label_one, pair.label_zero) if swapped else (pair.label_zero, pair.label_one) for pair in pairs]
    losses = [_losses(p, q) for p, q in ways]
    # width of a step: the range of the sum around its mean has approximately `_STEPS` steps
    spread = math.sqrt(sum(n * float(p @ loss**2) for (p, _), loss, n in zip(ways, losses, times, strict=True)))
    step = max((_REACH * spread + max(float(np.abs(loss).max()) for loss in losses)) / _STEPS, 1e-12)
    # the laws of the sum under P, rounded down, and under Q, rounded up
    sums, lost = [ScoreLaw(np.ones(1), 0), ScoreLaw(np.ones(1), 0)], 0.0
    for (p, q), loss, count, pair in zip(ways, losses, times, pairs, strict=True):
        scores = np.rint(loss / step).astype(np.int64)
        low = int(scores.min())
        for side, (law, error) in enumerate(((p, -pair.error), (q, pair.error))):
            table: Floats = np.bincount(scores - low, weights=law * (1.0 + error)).astype(np.float64)
            power = _power(table, low, count)
            sums[side] = ScoreLaw(
                np.convolve(sums[side].probabilities, power.probabilities), sums[side].first + power.first, power.cut
            )
        # outcomes that are missing under Q may have any score
        lost += count * max(0.0, 1.0 - float(q.sum()) * (1.0 - pair.error)) + sums[1].cut
    (first_law, first, _), (second_law, second, _) = sums
    charge = sum(times) * (len(first_law) + len(second_law) + 2.0 * _STEPS) * 8.0 * UNIT
    start = max(first, second)
    end = min(first + len(first_law), second + len(second_law))
    if end <= start:
        return 0.0
    # P and Q of each event, and ε = ln((P - δ)/Q)
    reached = np.cumsum(first_law[::-1])[::-1][start - first : end - first] * (1.0 - charge)
    mistaken = np.cumsum(second_law[::-1])[::-1][start - second : end - second] * (1.0 + charge) + lost
    with np.errstate(divide="ignore", invalid="ignore"):
        epsilons = np.where(reached > delta, np.log((reached - delta) / mistaken), 0.0)
    return max(0.0, float(np.max(epsilons)) * (1.0 - 1e-12))


def _losses(p: Floats, q: Floats) -> Floats:
    """ln p/q for each outcome, (v,), its score before rounding; 0 where p or q is 0.

    p, q: (v,), the probabilities of the outcomes under the two laws.
    """
    used = (p > 0.0) & (q > 0.0)
    return np.where(used, np.log(np.where(used, p, 1.0) / np.where(used, q, 1.0)), 0.0)


def _power(law: Floats, first: int, count: int) -> ScoreLaw:
    """The law of the sum of `count` independent whole numbers, by repeated squaring.

    Each number has the values first, first + 1, and so on, with the probabilities `law`. `cut` of the result is an
    upper bound of the probability that was cut off at the ends, by `_trim`.
    """
    whole, square, lost = ScoreLaw(np.ones(1), 0), ScoreLaw(law, first), 0.0
    while count:
        if count & 1:
            whole = _trim(np.convolve(whole.probabilities, square.probabilities), whole.first + square.first)
            lost += square.cut + whole.cut
        count >>= 1
        if count:
            trimmed = _trim(np.convolve(square.probabilities, square.probabilities), 2 * square.first)
            square = trimmed._replace(cut=2.0 * square.cut + trimmed.cut)
    return whole._replace(cut=lost * (1.0 + 1e-6))


def _trim(law: Floats, first: int) -> ScoreLaw:
    """The law of a number without the values at its ends whose probability is at most `_CUT` (1e-30).

    The number has the values first, first + 1, and so on, with the probabilities `law`. `cut` of the result is an upper
    bound of the probability that was cut off.
    """
    large = np.flatnonzero(law > _CUT)
    low, high = int(large[0]), int(large[-1]) + 1
    return ScoreLaw(law[low:high], first + low, float(law[:low].sum() + law[high:].sum()) + len(law) * 1e-300)
