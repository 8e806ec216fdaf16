"""How many labels reach the learner: t ~ Bin(trials, rate), cut into blocks."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from p2p_sim.privacy.binomial_windows import (
    SUBNORMAL,
    Floats,
    bernstein_window,
    binomial_pmf,
    rounding,
    tail_mass,
)

NARROW = 0.05
"""By what share δ may change within a block, about, where figures are reported."""


@dataclass(frozen=True)
class SubmissionCounts:
    """Values of t and their weights in a lower and an upper sum; δ given t does not decrease in t.

    counts: values of t at which δ is evaluated, ascending.
    lower, upper: weights of δ at `counts`.
    lost: probability that is charged to the upper sum in full.
    """

    counts: tuple[int, ...]
    lower: Floats
    upper: Floats
    lost: float

    @staticmethod
    @lru_cache(maxsize=256)
    def of(
        trials: int, rate: float, sources: int, log_tail: float, log_delta: float, change: float = NARROW
    ) -> "SubmissionCounts":
        """Blocks so narrow that δ changes by a share of about `change` within one, wider where t is improbable.

        The weights are rounded against us: those of the lower sum down, those of the upper sum up, and what underflows
        is lost.

        Args:
            trials, rate: of the binomial law of t.
            sources: users who can be fetched, for how fast δ changes with t.
            log_tail: logarithm of what each end may miss; -inf asks for every t on its own.
            log_delta: logarithm of the δ of interest.
            change: as above.
        """
        if rate == 1.0:
            return SubmissionCounts((trials,), np.ones(1), np.ones(1), 0.0)
        mean, variance = trials * rate, trials * rate * (1.0 - rate)
        first, last = bernstein_window(mean, variance, trials, log_tail)
        mass = binomial_pmf(first, last, trials, rate)
        # d ln δ / d ln t is about -ln δ / (1 + t/sources) in the Gaussian limit
        slope = max(-log_delta, 1.0) / (1.0 + mean / sources)
        narrow = 0.0 if math.isinf(log_tail) else change * mean / slope

        def width(t: int) -> int:
            """Of a block whose end nearer the mean is t."""
            return max(1, int(narrow * (1.0 + (t - mean) ** 2 / (4.0 * variance)))) if narrow > 1e-3 else 1

        middle = min(max(round(mean), first), last)
        starts, t = [], middle
        while t <= last:
            starts.append(t)
            t += width(t)
        t = middle
        while t > first:
            t = max(first, t - width(t))
            starts.insert(0, t)
        held = np.add.reduceat(mass, np.array(starts) - first)
        # a block [t, next t) is charged δ(t) below and δ(next t) above; a single value is charged as it is
        ends = np.array([*starts[1:], last + 1])
        single = ends - np.array(starts) == 1
        ends = np.minimum(ends, trials)
        lower, upper = np.append(held, 0.0), np.append(np.where(single, held, 0.0), 0.0)
        upper[1:] += np.where(single, 0.0, held)
        missed, error, tiny = tail_mass(log_tail), 2.0 * rounding(mass.size), 2.0 * mass.size * SUBNORMAL
        upper[0] += missed if first > 0 else 0.0
        used = (lower > 0) | (upper > 0)
        counts = np.array([*starts, ends[-1]])[used]
        lower = np.maximum(lower[used] * (1.0 - 4.0 * missed - error) - tiny, 0.0)  # normalised to the window
        upper = upper[used] * (1.0 + error) + tiny
        lost = (missed if last < trials else 0.0) + tiny * float(mass.size)
        return SubmissionCounts(tuple(int(t) for t in counts), lower, upper, lost)

    @staticmethod
    def between(trials: int, least: float, most: float) -> "SubmissionCounts":
        """Every t on its own, where all that is known of the rate is that it lies between two: δ rises with it."""
        low, high = (SubmissionCounts.of(trials, rate, trials, -math.inf, -50.0) for rate in (least, most))
        lower, upper = np.zeros(trials + 1), np.zeros(trials + 1)
        lower[list(low.counts)], upper[list(high.counts)] = low.lower, high.upper
        return SubmissionCounts(tuple(range(trials + 1)), lower, upper, high.lost)
