"""Binomial probabilities on windows, which are ranges of whole numbers that hold nearly all the mass.

Errors of rounding are bounded as follows, with u = 2^-53. A sum, product or quotient is off by a factor within 1 ± u,
or, where it is subnormal, by at most 2^-1075. All terms here are non-negative, so a sum of N terms in any order adds a
relative error of (N-1)u. A convolution or a matrix product of N terms adds (N+1)u.
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
"""Number of ratios, one less than a window's values, above which the products in `binomial_products` may overflow if
they start with 1."""
_WIDE = 300
"""From this number of columns on, products are computed row by row, since this is then faster."""
UNIT = 2.0**-53
"""u, the largest relative error of one operation in double precision."""
SUBNORMAL = 2.0**-1074
"""The smallest positive number."""
NARROW = 0.05
"""Approximately the largest relative change of δ within a block of successive numbers of submissions, unless a caller
states another.
"""
LEAST = 1e-300
"""The smallest θ, and the smallest α above 0. With this limit all odds are normal floating-point numbers for up to 10^7
users and 10^10 submissions."""
VALUE_ERROR = 16.0 * UNIT
"""The relative error of binomial probabilities on a window of K values is at most K + 1 times this number.

Of its 16u, 13u are proved (see `binomial_columns`); the other 3u are for the convolution of two windows and for
second-order terms.
"""


class Window(NamedTuple):
    """The first and the last of a range of whole numbers, both included."""

    first: int
    last: int


class BinomialProducts(NamedTuple):
    """Binomial probabilities before normalisation: weights (values, columns), to be divided by sums (columns,)."""

    weights: Floats
    sums: Floats


def bernstein_window(mean: float, variance: float, largest: int, log_tail: float) -> Window:
    """A window [first, last]; a sum of independent bits lies outside it with probability at most 2 exp(log_tail).

    By Bernstein's inequality the sum exceeds its mean by more than s with probability at most
    exp(-s² / (2(variance + s/3))), and falls below it by more than s with at most the same probability. The window is
    1e-6 wider, which is more than rounding requires for up to 10^9 bits.

    Args:
        mean, variance: mean and variance of the sum.
        largest: number of bits; the window is cut to [0, largest].
        log_tail: natural logarithm of the probability allowed on each side, negative; -inf gives the whole range.
    """
    budget = -log_tail
    if math.isinf(budget):
        return Window(0, largest)
    reach = 1e-6 + (budget / 3.0 + math.sqrt(budget * budget / 9.0 + 2.0 * variance * budget)) * (1.0 + 1e-12)
    return Window(max(0, math.floor(mean - reach)), min(largest, math.ceil(mean + reach)))


def tail_mass(log_tail: float) -> float:
    """The probability exp(log_tail) that a window may leave out on one side, rounded up; 0 only for log_tail = -inf."""
    return 0.0 if math.isinf(log_tail) else max(math.exp(log_tail) * (1.0 + 1e-12), SUBNORMAL)


def binomial_columns(first: int, last: int, trials: int | Floats, odds: Floats) -> Floats:
    """The binomial probabilities Pr[Bin(trials, p) = k] for k = first..last, (values, columns), with a column for each
    p.

    The range must hold the most probable value of each column and nearly all of its mass: each column is scaled to sum
    to 1, which makes it too large by the share of the mass outside. With K = last - first + 1 values and u = 2^-53,
    rounding errors are below 16u (K + 1), relative to each probability. Underflow adds at most 2K times the smallest
    positive number.

    How it is computed: in each column Pr[k+1]/Pr[k] = R(k) = (trials-k)/(k+1) · odds. So the products of these ratios,
    from the first value on, are proportional to the probabilities, whatever number they start with; dividing by their
    sum makes them probabilities. In long ranges the products start with a power of two that makes the largest product
    approximately 1, so that they do not overflow. If they overflow nevertheless, they start at the mode: a step up
    multiplies by min(1, R), and a step down by min(1, 1/R).

    Why the error is so small: a ratio is off by 4u, which includes 2u for the odds, and its inverse by 5u. Each step of
    a product adds u. So a product is off by at most 6u(K-1), and the sum by (K-1)u more. A probability is the quotient
    of the two: it is off by both errors and by u for the division. Together that is (13K - 12)u < 16u (K + 1). Away
    from the mode the products become smaller, and their sum is at least a half; this bounds underflow.

    Args:
        first, last: the least and the largest value k. trials: one number, or one for each column; `last` may exceed
        some of them. odds: (columns,) p/(1-p), which may be 0 or infinite.
    """
    weights, sums = binomial_products(first, last, trials, odds)
    return np.divide(weights, sums, out=weights)


def binomial_products(first: int, last: int, trials: int | Floats, odds: Floats) -> BinomialProducts:
    """Numbers proportional to the binomial probabilities Pr[Bin(trials, p) = k] for k = first..last, (values, columns),
    with a column for each p; and the sum of each column, (columns,). A column divided by its sum holds the
    probabilities.

    The factor of a column is arbitrary: it is chosen so that nothing overflows.

    Args:
        first, last: both included; they must enclose the most probable value of each column. trials: one number, or one
        for each column. odds: (columns,), p/(1-p), which may be 0 or infinite.
    """
    k = np.arange(first, last, dtype=np.float64)
    certain = np.isinf(odds)
    weights = np.empty((k.size + 1, odds.size))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        finite = np.where(certain, 1.0, odds)
        weights[0] = _starts(first, trials, finite) if k.size > _LONG else 1.0
        # each row is the previous row times R(k) = (trials-k)/(k+1) · odds, and 0 above `trials`
        if odds.size < _WIDE:
            ratios = (trials - k[:, None]) * finite / (k + 1.0)[:, None]
            ratios[:1] *= weights[0]
            np.cumprod(ratios, axis=0, out=weights[1:])
        else:
            # the same products, one row at a time
            for row, at in enumerate(k.tolist()):
                np.multiply(weights[row], (trials - at) * finite / (at + 1.0), out=weights[row + 1])
        sums = weights.sum(axis=0)
        if not np.all(np.isfinite(sums)):
            # where products overflow, start at the mode: a step up multiplies by min(1, R), and a step down by
            # min(1, 1/R), so that no product exceeds 1
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
    """The numbers (columns,) with which the products of ratios of binomial probabilities start in each column, so that
    the product at the mode is approximately 1.

    The products run from the value `first` up. Each number is a power of two and at least 2^-900, hence not subnormal,
    so that multiplying by it rounds nothing.

    Args:
        first: the least value k of the columns. trials: one number, or one for each column. odds: (columns,),
        p/(1-p), finite.
    """
    from scipy.special import gammaln

    # ln of Bin(mode)/Bin(first), by which the products rise; for odds of 0 the mode is `first`
    mode = np.maximum(np.floor((trials + 1) * odds / (1.0 + odds)), first)
    rise = gammaln(first + 1.0) + gammaln(trials - first + 1.0) - gammaln(mode + 1.0) - gammaln(trials - mode + 1.0)
    with np.errstate(divide="ignore"):
        rise += (mode - first) * np.maximum(np.log(odds), -1e6)
    return np.asarray(np.ldexp(1.0, -np.clip(rise / math.log(2.0), 0.0, 900.0).astype(np.int64)))


def binomial_pmf(first: int, last: int, trials: int, probability: float) -> Floats:
    """The binomial probabilities Pr[Bin(trials, probability) = k], (values,), for k = first..last, a window that must
    hold the most probable value and nearly all the mass.

    They are scaled to sum to 1. With K values, rounding errors are below 16 (K + 1) 2^-53, relative to each
    probability, if `probability` is exact. So do not pass 1 - p for a small p, which would be rounded: compute the
    probabilities for p, and reverse their order.
    """
    if probability in (0.0, 1.0):
        return np.asarray(np.arange(first, last + 1) == trials * probability, dtype=np.float64)
    weights, sums = binomial_products(first, last, trials, np.array([probability / (1.0 - probability)]))
    return np.asarray(weights[:, 0] / sums[0])


def share_of(rate: float, part: int, whole: int, up: bool) -> float:
    """rate · part / whole, rounded up (to at most 1) if `up`, else down.

    An example is the probability with which each of `part` users submits, if all of `whole` submit with `rate`. If δ
    grows with this number, rounding up serves upper bounds of δ, and rounding down serves lower bounds.
    """
    exact = Fraction(rate) * part / whole
    nearest = float(exact)
    if up and nearest < exact:
        return min(1.0, math.nextafter(nearest, math.inf))
    return math.nextafter(nearest, 0.0) if not up and nearest > exact else nearest


def some(chance: float, trials: float) -> float:
    """The probability 1 - (1-c)^trials that at least one of `trials` independent events of probability c = `chance`
    occurs.

    Its relative error is below 2^-49: log1p and expm1 are off by an ulp or two, and d ln(1 - e^-x) / d ln x is at most
    one.
    """
    if trials == 0 or chance == 0.0:
        return 0.0
    return -math.expm1(trials * math.log1p(-chance)) if chance < 1.0 else 1.0


@dataclass(frozen=True)
class SubmissionCounts:
    """The numbers t of submissions at which δ given t is evaluated, with the weights of two sums that bound δ from
    below and above.

    δ given t does not decrease in t. So for a whole block of values of t, the lower sum takes δ at the block's first t,
    and the upper sum takes δ at the next block's first t. Both sums take a block of a single t at this t.

    counts: values of t at which δ is evaluated, ascending.
    lower, upper: weights of δ at `counts`.
    lost: probability of the values of t that are left out above the window; the upper sum adds this probability, as if
        δ were 1 there. Values left out below the window count in `upper`, at the first of `counts`.
    log_tail: ln of the probability that each window (of t, and of what is seen given t) may leave out on each side;
        -inf: nothing is left out.
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
        """Blocks of successive numbers t ~ Bin(trials, rate) of submissions, within which δ given t changes little,
        with weights for a lower and an upper sum of δ over t.

        δ given t does not decrease in t, so that it is evaluated only at the ends of blocks. Blocks are wider where t
        is improbable. The weights are rounded down for the lower sum and up for the upper sum.

        Args:
            trials, rate: parameters of the binomial law of t. sources: number of users whose labels can be
            submitted; it decides how fast δ changes with t. log_tail: ln of the probability that may be left out on
            each side of the mean; -inf: nothing is left out, and every t is a block. log_delta: ln of the δ that is
            computed, approximately; a smaller δ changes faster with t, so that blocks are narrower. change:
            approximately the share by which δ may change within a block.
        """
        if rate == 1.0:
            return SubmissionCounts((trials,), np.ones(1), np.ones(1), 0.0, log_tail)
        mean, variance = trials * rate, trials * rate * (1.0 - rate)
        first, last = bernstein_window(mean, variance, trials, log_tail)
        mass = binomial_pmf(first, last, trials, rate)
        # width of a block near the mean: d ln δ / d ln t is approximately -ln δ / (1 + t/sources) in the Gaussian limit
        slope = max(-log_delta, 1.0) / (1.0 + mean / sources)
        narrow = 0.0 if math.isinf(log_tail) else change * mean / slope
        # width of a block whose end nearer the mean is t: it grows with the square of t's distance from the mean
        growth = 1.0 + (np.arange(first, last + 1) - mean) ** 2 / (4.0 * variance)
        widths = np.maximum(1, ((narrow if narrow > 1e-3 else 0.0) * growth).astype(np.int64))
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
        # a block [t, next t) has δ(t) in the lower and δ(next t) in the upper sum; a block of one t has δ(t) in both
        masses = np.add.reduceat(mass, np.array(starts) - first)
        ends = np.array([*starts[1:], last + 1])
        single = ends - np.array(starts) == 1
        ends = np.minimum(ends, trials)
        lower, upper = np.append(masses, 0.0), np.append(np.where(single, masses, 0.0), 0.0)
        upper[1:] += np.where(single, 0.0, masses)
        # in the upper sum, mass below the window counts at the window's first value, and mass above the window as lost
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
        """Every number of submissions t = 0..trials as a block of its own, with weights of sums that bound δ for any
        rate from `least` to `most`.

        The rate is the probability with which each of the `trials` labels is submitted; δ must not decrease with it.
        Both sums have the form Σ_t weight · δ(t). The weights of the lower sum are the probabilities of t at the rate
        `least`, rounded down; the weights of the upper sum are the probabilities of t at the rate `most`, rounded up.
        """
        low, high = (
            SubmissionCounts.of(trials, rate, trials, log_tail=-math.inf, log_delta=-50.0) for rate in (least, most)
        )
        lower, upper = np.zeros(trials + 1), np.zeros(trials + 1)
        lower[list(low.counts)], upper[list(high.counts)] = low.lower, high.upper
        return SubmissionCounts(tuple(range(trials + 1)), lower, upper, high.lost)
