"""What several releases attain together: the laws of their views of one data set, and one event of all views.

All others hold label 0; the target's label is 0 or 1. With fresh noise the releases are independent given the labels.
Give each outcome of a release a score, the logarithm of its likelihood ratio in whole steps. The sum of the scores is a
post-processing of all views, so that for every s

    ε(δ) >= ln((P[sum >= s] - δ) / Q[sum >= s]).

Rounding scores costs little and is never wrong: any scores would do. All terms are non-negative; a sum of N scores with
K values is off by less than N (K + 2) times 8u of itself, which is charged, and what is cut off is added to Q.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from p2p_sim.privacy.binomial_windows import UNIT, Floats

_STEPS = 4096
"""Steps of a score within the reach of the sum, about."""
_REACH = 28.0
"""Standard deviations within that reach."""
_CUT = 1e-30


@dataclass(frozen=True, eq=False)
class AttainedPair:
    """The law of a release's view if the target's label is 0, and if it is 1; all others hold label 0.

    zero, one: (v,), probabilities of outcomes, the same in both; what is missing of their sum is not looked at.
    error: charged for their relative error.
    """

    zero: Floats
    one: Floats
    error: float


def composed_epsilon(pairs: Sequence[AttainedPair], times: Sequence[int], delta: float) -> float:
    """An ε below which no ε holds at δ for all of these releases, each made so many times; 0 if none is found."""
    if not pairs:
        return 0.0
    return max(_one_way(pairs, times, delta, swapped) for swapped in (False, True))


def _one_way(pairs: Sequence[AttainedPair], times: Sequence[int], delta: float, swapped: bool) -> float:
    ways = [(pair.one, pair.zero) if swapped else (pair.zero, pair.one) for pair in pairs]
    losses = [_losses(p, q) for p, q in ways]
    spread = math.sqrt(sum(n * float(p @ loss**2) for (p, _), loss, n in zip(ways, losses, times, strict=True)))
    step = max((_REACH * spread + max(float(np.abs(loss).max()) for loss in losses)) / _STEPS, 1e-12)
    both, lost, steps = [(np.ones(1), 0), (np.ones(1), 0)], 0.0, 0
    for (p, q), loss, count, pair in zip(ways, losses, times, pairs, strict=True):
        scores = np.rint(loss / step).astype(np.int64)
        low = int(scores.min())
        for place, (law, error) in enumerate(((p, -pair.error), (q, pair.error))):
            table: Floats = np.bincount(scores - low, weights=law * (1.0 + error)).astype(np.float64)
            power, first, cut = _power(table, low, count)
            whole, start = both[place]
            both[place] = np.convolve(whole, power), start + first
            if place == 1:
                lost += count * max(0.0, 1.0 - float(q.sum()) * (1.0 - pair.error)) + cut
        steps += count
    (first_law, first), (second_law, second) = both
    charge = steps * (len(first_law) + len(second_law) + 2.0 * _STEPS) * 8.0 * UNIT
    start = max(first, second)
    end = min(first + len(first_law), second + len(second_law))
    if end <= start:
        return 0.0
    reached = np.cumsum(first_law[::-1])[::-1][start - first : end - first] * (1.0 - charge)
    other = np.cumsum(second_law[::-1])[::-1][start - second : end - second] * (1.0 + charge) + lost
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(reached > delta, np.log((reached - delta) / other), 0.0)
    return max(0.0, float(np.max(found)) * (1.0 - 1e-12))


def _losses(p: Floats, q: Floats) -> Floats:
    """Logarithms of likelihood ratios; 0 where an outcome is as good as impossible."""
    used = (p > 0.0) & (q > 0.0)
    return np.where(used, np.log(np.where(used, p, 1.0) / np.where(used, q, 1.0)), 0.0)


def _power(law: Floats, first: int, count: int) -> tuple[Floats, int, float]:
    """Law of the sum of `count` scores, its first value, and what was cut off of it at most."""
    whole, start, lost, cut = np.ones(1), 0, 0.0, 0.0
    while count:
        if count & 1:
            whole, start, gone = _trim(np.convolve(whole, law), start + first)
            lost += cut + gone
        count >>= 1
        if count:
            law, first, gone = _trim(np.convolve(law, law), 2 * first)
            cut = 2.0 * cut + gone
    return whole, start, lost * (1.0 + 1e-6)


def _trim(law: Floats, first: int) -> tuple[Floats, int, float]:
    kept = np.flatnonzero(law > _CUT)
    low, high = int(kept[0]), int(kept[-1]) + 1
    return law[low:high], first + low, float(law[:low].sum() + law[high:].sum()) + len(law) * 1e-300
