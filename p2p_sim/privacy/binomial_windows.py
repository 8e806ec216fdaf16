"""Binomial probabilities on windows, ranges of whole numbers that hold nearly all the mass, and blocks of values.

Errors of rounding are bounded as follows, with u = 2^-53. A sum, product or quotient is off by a factor within 1 ± u,
or, where it is subnormal, by at most 2^-1075. All terms here are non-negative, so a sum of N terms in any order adds
(N-1)u and the products of a convolution or a matrix add (N+1)u.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_LONG = 100
"""Values from which on a window's products may overflow if they start with one."""
_WIDE = 300
"""Columns from which on products are formed row by row, which is faster."""
UNIT = 2.0**-53
"""u, the largest relative error of one operation."""
SUBNORMAL = 2.0**-1074
"""The smallest positive number."""
NARROW = 0.05
"""By what share δ may change within a block of submissions, about, where figures are reported."""
LEAST = 1e-300
"""The smallest α and θ, besides α = 0: with up to 10^7 users and 10^10 submissions no odds leave the normal numbers."""


VALUE_ERROR = 16.0 * UNIT
"""Bound of the relative error of binomial probabilities, times one more than the number of values of their window.

13u a value are proved (see `binomial_columns`); the further 3u are for convolving two windows and for second-order
terms.
"""


class Window(NamedTuple):
    """The first and the last of a range of whole numbers, both included."""

    first: int
    last: int


class BinomialProducts(NamedTuple):
    """Binomial probabilities, not normalised yet: weights (values, columns), to be divided by sums (columns,)."""

    weights: Floats
    sums: Floats


def bernstein_window(mean: float, variance: float, largest: int, log_tail: float) -> Window:
    """A window outside of which a sum of independent bits lies with probability <= 2 exp(log_tail).

    By Bernstein's inequality the sum is more than s above its mean, or below it, with probability at most
    exp(-s² / (2(variance + s/3))). The window is 1e-6 wider, more than rounding requires for up to 10^9 bits.

    Args:
        mean, variance: of the sum.
        largest: number of bits; the window is cut to [0, largest].
        log_tail: natural logarithm of each side's allowed probability, negative; -inf asks for everything.
    """
    budget = -log_tail
    if math.isinf(budget):
        return Window(0, largest)
    reach = 1e-6 + (budget / 3.0 + math.sqrt(budget * budget / 9.0 + 2.0 * variance * budget)) * (1.0 + 1e-12)
    return Window(max(0, math.floor(mean - reach)), min(largest, math.ceil(mean + reach)))


def tail_mass(log_tail: float) -> float:
    """The probability exp(log_tail) that a truncation may leave out, rounded up; 0 only for log_tail = -inf."""
    return 0.0 if math.isinf(log_tail) else max(math.exp(log_tail) * (1.0 + 1e-12), SUBNORMAL)


def binomial_columns(first: int, last: int, trials: int | Floats, odds: Floats) -> Floats:
    """Bin(k; trials, p) for k = first..last, one column for each of the odds p/(1-p), which may be 0 or infinite.

    `trials` is one number, or one for each column; `last` may lie above some of them.

    In each column the products of ratios of neighbours R(k) = (trials-k)/(k+1) · odds are accumulated and normalised to
    one. They start at the first value; in long windows the start is a power of two that brings the largest near one.
    Where that overflows they start at the mode and go up by min(1, R) and down by min(1, 1/R).

    Let K be the number of rows. A ratio is off by 4u, odds off by 2u included, its inverse by 5u, and each step of a
    product adds u: before normalising an entry is off by at most 6u(K-1), the sum by as much and (K-1)u more. In all
    that is (13K - 12)u < (K + 1) `VALUE_ERROR`. Away from the mode products fall, and
    their sum is at least a half, so that underflow adds at most 2K times the smallest positive number.

    The window must hold the mode of each column and nearly all its mass. The values are too large by the share that it
    leaves out.
    """
    weights, sums = binomial_products(first, last, trials, odds)
    weights /= sums
    return weights


def binomial_products(first: int, last: int, trials: int | Floats, odds: Floats) -> BinomialProducts:
    """The columns of `binomial_columns` with their sums, not normalised: a caller may divide other factors instead.

    Args:
        first, last, trials, odds: as of `binomial_columns`.
    """
    k = np.arange(first, last, dtype=np.float64)
    certain = np.isinf(odds)
    weights = np.empty((k.size + 1, odds.size))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        finite = np.where(certain, 1.0, odds)
        weights[0] = _starts(first, trials, finite) if k.size > _LONG else 1.0
        # each row is the one before times R(k) = (trials-k)/(k+1) · odds, and 0 above `trials`
        if odds.size < _WIDE:
            ratios = (trials - k[:, None]) * finite / (k + 1.0)[:, None]
            ratios[:1] *= weights[0]
            np.cumprod(ratios, axis=0, out=weights[1:])
        else:
            # the same products, a row at a time in one buffer
            ratio = np.empty(odds.size)
            for row, at in enumerate(k.tolist()):
                np.subtract(trials, at, out=ratio)
                ratio *= finite
                ratio /= at + 1.0
                np.multiply(weights[row], ratio, out=weights[row + 1])
        sums = weights.sum(axis=0)
        if not np.all(np.isfinite(sums)):
            # they overflow: from the mode, up by min(1, R) and down by min(1, 1/R), none of which exceeds one
            ratios = np.maximum(trials - k[:, None], 0.0) * finite / (k + 1.0)[:, None]
            weights[0] = 1.0
            np.cumprod(np.minimum(ratios, 1.0), axis=0, out=weights[1:])
            weights[:-1] *= np.cumprod(np.minimum(1.0 / ratios, 1.0)[::-1], axis=0)[::-1]
            sums = weights.sum(axis=0)
    # infinite odds: all trials succeed
    if certain.any():
        weights[:, certain] = 0.0
        ends = np.broadcast_to(np.asarray(trials, dtype=np.int64), odds.shape)[certain]
        weights[ends - first, certain], sums[certain] = 1.0, 1.0
    return BinomialProducts(weights, sums)


def _starts(first: int, trials: int | Floats, odds: Floats) -> Floats:
    """Where each column's products start, powers of two of at least 2^-900: they then reach about 1 at the mode."""
    from scipy.special import gammaln

    # ln of Bin(mode)/Bin(first), by which the products rise; odds of 0 have their mode at `first`
    mode = np.maximum(np.floor((trials + 1) * odds / (1.0 + odds)), first)
    rise = gammaln(first + 1.0) + gammaln(trials - first + 1.0) - gammaln(mode + 1.0) - gammaln(trials - mode + 1.0)
    with np.errstate(divide="ignore"):
        rise += (mode - first) * np.maximum(np.log(odds), -1e6)
    return np.asarray(np.ldexp(1.0, -np.clip(rise / math.log(2.0), 0.0, 900.0).astype(np.int64)))


def binomial_pmf(first: int, last: int, trials: int, probability: float) -> Floats:
    """Binomial probabilities (last - first + 1,) of k = first..last, which must hold the mode and nearly all the mass.

    Errors as of `binomial_columns`. The probability counts as exact; for 1-α, which is rounded, mirror Bin(α) instead.
    """
    if probability in (0.0, 1.0):
        return np.asarray(np.arange(first, last + 1) == trials * probability, dtype=np.float64)
    weights, sums = binomial_products(first, last, trials, np.array([probability / (1.0 - probability)]))
    return np.asarray(weights[:, 0] / sums[0])


def share_of(rate: float, part: int, whole: int, up: bool) -> float:
    """rate · part / whole, rounded up (to at most 1) or down, for a bound of δ, which does not decrease in the rate."""
    exact = Fraction(rate) * part / whole
    nearest = float(exact)
    if up and nearest < exact:
        return min(1.0, math.nextafter(nearest, math.inf))
    return math.nextafter(nearest, 0.0) if not up and nearest > exact else nearest


def some(chance: float, trials: float) -> float:
    """Probability that at least one of `trials` independent events occurs, each of probability `chance`.

    That is 1 - (1-chance)^trials, with a relative error below 2^-49.

    log1p and expm1 are off by an ulp or two; d ln(1 - e^-x) / d ln x is at most one.
    """
    if trials == 0 or chance == 0.0:
        return 0.0
    return -math.expm1(trials * math.log1p(-chance)) if chance < 1.0 else 1.0


@dataclass(frozen=True)
class SubmissionCounts:
    """Numbers of submissions t at which δ given t is evaluated, with weights: δ lies between the lower and the upper
    sum.

    δ given t does not decrease in t. So the lower sum takes the δ of a block's first t for the whole block of values of
    t, and the upper sum the δ of the next block's first t.

    counts: values of t at which δ is evaluated, ascending.
    lower, upper: weights of δ at `counts`.
    lost: probability of the t left out; the upper sum adds it, as if δ were 1 there.
    log_tail: ln of the probability that each truncation, of t and of the views given t, may leave out; -inf: none.
    """

    counts: tuple[int, ...]
    lower: Floats
    upper: Floats
    lost: float
    log_tail: float = -math.inf

    @staticmethod
    @lru_cache(maxsize=256)
    def of(
        trials: int, rate: float, sources: int, *, log_tail: float, log_delta: float, change: float = NARROW
    ) -> "SubmissionCounts":
        """The blocks of t ~ Bin(trials, rate), so narrow that δ changes by a share of about `change` within one.

        Blocks are wider where t is improbable. Weights of the lower sum are rounded down, those of the upper sum up.

        Args:
            trials, rate: of the binomial law of t.
            sources: users whose labels can be submitted; decides how fast δ changes with t.
            log_tail: ln of the probability that either side may leave out; -inf: every t is a block.
            log_delta: ln of the δ of interest.
            change: share by which δ may change within a block.
        """
        if rate == 1.0:
            return SubmissionCounts((trials,), np.ones(1), np.ones(1), 0.0, log_tail)
        mean, variance = trials * rate, trials * rate * (1.0 - rate)
        first, last = bernstein_window(mean, variance, trials, log_tail)
        mass = binomial_pmf(first, last, trials, rate)
        # width of a block about the mean: d ln δ / d ln t is about -ln δ / (1 + t/sources) in the Gaussian limit
        slope = max(-log_delta, 1.0) / (1.0 + mean / sources)
        narrow = 0.0 if math.isinf(log_tail) else change * mean / slope
        # width of a block whose end nearer the mean is t, growing with the square of the distance in deviations
        t = np.arange(first, last + 1)
        widths = np.maximum(1, (narrow * (1.0 + (t - mean) ** 2 / (4.0 * variance))).astype(np.int64))
        if narrow <= 1e-3:
            widths[:] = 1
        # first values of the blocks: from the mean up, then from the mean down
        middle = min(max(round(mean), first), last)
        starts, at = [], middle
        while at <= last:
            starts.append(at)
            at += int(widths[at - first])
        at = middle
        while at > first:
            at = max(first, at - int(widths[at - first]))
            starts.insert(0, at)
        # a block [t, next t) is charged δ(t) below and δ(next t) above; a single value is charged as it is
        masses = np.add.reduceat(mass, np.array(starts) - first)
        ends = np.array([*starts[1:], last + 1])
        single = ends - np.array(starts) == 1
        ends = np.minimum(ends, trials)
        lower, upper = np.append(masses, 0.0), np.append(np.where(single, masses, 0.0), 0.0)
        upper[1:] += np.where(single, 0.0, masses)
        # what lies below the window is charged at its first value, what lies above it is lost; weights are rounded
        missed, error = tail_mass(log_tail), 2.0 * VALUE_ERROR * (mass.size + 1)
        tiny = 2.0 * mass.size * SUBNORMAL
        upper[0] += missed if first > 0 else 0.0
        used = (lower > 0) | (upper > 0)
        counts = np.array([*starts, ends[-1]])[used]
        lower = np.maximum(lower[used] * (1.0 - 4.0 * missed - error) - tiny, 0.0)  # normalised to the window
        upper = upper[used] * (1.0 + error) + tiny
        lost = (missed if last < trials else 0.0) + tiny * float(mass.size)
        return SubmissionCounts(tuple(counts.tolist()), lower, upper, lost, log_tail)

    @staticmethod
    def between(trials: int, least: float, most: float) -> "SubmissionCounts":
        """Every t = 0..trials as a block, for a rate of which only bounds are known: δ does not fall as it grows.

        least, most: bounds of the rate, for the lower and for the upper sum.
        """
        low, high = (
            SubmissionCounts.of(trials, rate, trials, log_tail=-math.inf, log_delta=-50.0) for rate in (least, most)
        )
        lower, upper = np.zeros(trials + 1), np.zeros(trials + 1)
        lower[list(low.counts)], upper[list(high.counts)] = low.lower, high.upper
        return SubmissionCounts(tuple(range(trials + 1)), lower, upper, high.lost)
