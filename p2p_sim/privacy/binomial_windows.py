"""Binomial probabilities on windows. A window is a range of whole numbers that holds nearly all the mass.

Rounding errors are bounded as follows, with u = 2^-53. A sum, product or quotient is off by a factor within 1 ± u. A
subnormal result is off by at most 2^-1075 instead. All terms are non-negative. So a sum of N terms in any order adds a
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
"""The products in `binomial_products` may overflow if there are more ratios than this and the products start with 1."""
_WIDE = 300
"""From this number of columns on, products are computed row by row, which is then faster."""
UNIT = 2.0**-53
"""u, the largest relative error of one operation in double precision."""
SUBNORMAL = 2.0**-1074
"""The smallest positive number."""
NARROW = 0.05
"""Approximately the largest relative change of δ within a block of successive numbers of submissions, by default."""
LEAST = 1e-300
"""The smallest θ, and the smallest α above 0. All odds are then normal floating-point numbers for up to 10^7 users and
10^10 submissions."""
VALUE_ERROR = 16.0 * UNIT
"""The relative error of binomial probabilities on a window of K values is at most K + 1 times this number.

`binomial_columns` proves 13u of the 16u. The other 3u are for the convolution of two windows and for second-order
terms.
"""


class Window(NamedTuple):
    """The first and the last of a range of whole numbers, both included."""

    first: int
    last: int


class BinomialProducts(NamedTuple):
    """Binomial probabilities before normalisation: weights (values, columns), and the sums (columns,) to divide by."""

    weights: Floats
    sums: Floats


def bernstein_window(mean: float, variance: float, largest: int, log_tail: float) -> Window:
    """A window [first, last]; a sum of independent bits lies outside it with probability at most 2 exp(log_tail).

    By Bernstein's inequality, the sum exceeds its mean by more than s with probability at most exp(-s² / (2(variance +
    s/3))). The same bound holds for a sum below the mean. The window is 1e-6 wider, which is more than rounding
    requires for up to 10^9 bits.

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

    The range must hold the most probable value of each column and nearly all of the column's mass. Each column is
    scaled to sum to 1. So the probabilities are too large by the share of the mass outside. Let K = last - first + 1 be
    the number of values, and u = 2^-53. Relative rounding errors are below 16u (K + 1). Underflow adds at most 2K times
    the smallest positive number.

    Computation: In each column Pr[k+1]/Pr[k] = R(k) = (trials-k)/(k+1) · odds. So the products of these ratios are
    proportional to the probabilities. The products divided by their sum are the probabilities. In long ranges the
    products start with a power of two that makes the largest product approximately 1. If products overflow
    nevertheless, they start at the mode. A step up then multiplies by min(1, R), and a step down by min(1, 1/R).

    Error: A ratio is off by 4u, of which 2u are for the odds. The inverse of a ratio is off by 5u. Each step of a
    product adds u. So a product is off by at most 6u(K-1), and the sum by (K-1)u more. A probability, the quotient of
    the two, is off by both errors and by u for the division. In total this is (13K - 12)u < 16u (K + 1). Away from the
    mode the products become smaller, and their sum is at least a half. This bounds underflow.

    Args:
        first, last: the least and the largest value k. trials: one number, or one for each column; `last` may exceed
        some of these numbers. odds: (columns,) p/(1-p), which may be 0 or infinite.
    """
    weights, sums = binomial_products(first, last, trials, odds)
    return np.divide(weights, sums, out=weights)


def binomial_products(first: int, last: int, trials: int | Floats, odds: Floats) -> BinomialProducts:
    """Numbers proportional to Pr[Bin(trials, p) = k] for k = first..last, (values, columns), and the sum of each
    column.

    There is a column for each p. A column divided by its sum holds the probabilities. The factor of a column is
    arbitrary: it is chosen so that nothing overflows.

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
            # products that overflow start at the mode. A step up multiplies by min(1, R), and a step down by
            # min(1, 1/R). So no product exceeds 1.
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
    """The powers of two (columns,) with which the products start, so that the product at the mode is approximately 1.

    The products run from the value `first` up. Each power is at least 2^-900, hence not subnormal. So multiplying by it
    rounds nothing.

    Args:
        first: the least value k of the columns. trials: one number, or one for each column. odds: (columns,), p/(1-p),
        finite.
    """
    from scipy.special import gammaln

    # the products rise by the factor Bin(mode)/Bin(first); this is its logarithm. For odds of 0 the mode is `first`.
    mode = np.maximum(np.floor((trials + 1) * odds / (1.0 + odds)), first)
    rise = gammaln(first + 1.0) + gammaln(trials - first + 1.0) - gammaln(mode + 1.0) - gammaln(trials - mode + 1.0)
    with np.errstate(divide="ignore"):
        rise += (mode - first) * np.maximum(np.log(odds), -1e6)
    return np.asarray(np.ldexp(1.0, -np.clip(rise / math.log(2.0), 0.0, 900.0).astype(np.int64)))


def binomial_pmf(first: int, last: int, trials: int, probability: float) -> Floats:
    """The binomial probabilities Pr[Bin(trials, probability) = k], (values,), for k = first..last.

    The window must hold the most probable value and nearly all the mass. The result is scaled to sum to 1. With K
    values, rounding errors are below 16 (K + 1) 2^-53, relative to each probability, if `probability` is exact. So do
    not pass 1 - p for a small p, which would be rounded. Compute the probabilities for p, and reverse their order.
    """
    if probability in (0.0, 1.0):
        return np.asarray(np.arange(first, last + 1) == trials * probability, dtype=np.float64)
    weights, sums = binomial_products(first, last, trials, np.array([probability / (1.0 - probability)]))
    return np.asarray(weights[:, 0] / sums[0])


def share_of(rate: float, part: int, whole: int, up: bool) -> float:
    """rate · part / whole, rounded up (to at most 1) if `up`, else down.

    An example: with probability `rate`, a user submits a label of one of `whole` users. The result is the probability
    that she submits a label of one of `part` users. If δ grows with the result, rounding up serves upper bounds of δ,
    and rounding down lower bounds.
    """
    exact = Fraction(rate) * part / whole
    nearest = float(exact)
    if up and nearest < exact:
        return min(1.0, math.nextafter(nearest, math.inf))
    return math.nextafter(nearest, 0.0) if not up and nearest > exact else nearest


def some(chance: float, trials: float) -> float:
    """The probability 1 - (1-c)^trials that at least one of `trials` independent events occurs, each of probability c =
    `chance`.

    The relative error is below 2^-49: log1p and expm1 are off by an ulp or two, and d ln(1 - e^-x) / d ln x is at most
    1.
    """
    if trials == 0 or chance == 0.0:
        return 0.0
    return -math.expm1(trials * math.log1p(-chance)) if chance < 1.0 else 1.0


@dataclass(frozen=True)
class SubmissionCounts:
    """The numbers t of submissions at which δ given t is evaluated, and the weights of two sums that bound δ.

    δ given t does not decrease in t. So δ is evaluated only at the ends of blocks of successive t. For a whole block,
    the lower sum takes δ at the block's first t, and the upper sum takes δ at the next block's first t. For a block of
    a single t, both sums take δ at this t.

    counts: values of t at which δ is evaluated, ascending.
    lower, upper: weights of δ at `counts`, for the lower and the upper sum.
    lost: probability of the values of t above the window. The upper sum adds this probability, as if δ were 1 there.
        The values of t below the window count in `upper`, at the first of `counts`.
    log_tail: ln of the probability that a window may leave out on each side; -inf: nothing is left out. Windows are
        taken of t, and of what is seen given t.
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
        """Blocks of successive t ~ Bin(trials, rate) within which δ given t changes little, with the weights of both
        sums.

        Blocks are wider where t is improbable. The weights are rounded down for the lower sum and up for the upper sum.

        Args:
            trials, rate: parameters of the binomial law of t. sources: number of users whose labels can be submitted;
            it decides how fast δ changes with t. log_tail: ln of the probability that may be left out on each side of
            the mean. -inf: nothing is left out, and every t is a block. log_delta: approximately ln of the δ that is
            computed. A smaller δ changes faster with t, so its blocks are narrower. change: approximately the share by
            which δ may change within a block.
        """
        if rate == 1.0:
            return SubmissionCounts((trials,), np.ones(1), np.ones(1), 0.0, log_tail)
        mean, variance = trials * rate, trials * rate * (1.0 - rate)
        first, last = bernstein_window(mean, variance, trials, log_tail)
        mass = binomial_pmf(first, last, trials, rate)
        # width of a block near the mean; in the Gaussian limit, d ln δ / d ln t is about -ln δ / (1 + t/sources)
        slope = max(-log_delta, 1.0) / (1.0 + mean / sources)
        narrow = 0.0 if math.isinf(log_tail) else change * mean / slope
        # the width grows with the square of the distance between the mean and the block's nearer end
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
        # a block [t, next t) has δ(t) in the lower, δ(next t) in the upper sum. A block of one t has δ(t) in both.
        masses = np.add.reduceat(mass, np.array(starts) - first)
        ends = np.array([*starts[1:], last + 1])
        single = ends - np.array(starts) == 1
        ends = np.minimum(ends, trials)
        lower, upper = np.append(masses, 0.0), np.append(np.where(single, masses, 0.0), 0.0)
        upper[1:] += np.where(single, 0.0, masses)
        # in the upper sum, mass below the window counts at the window's first value. Mass above the window is lost.
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
        """Every t = 0..trials as a block of its own, with weights of sums that bound δ for any rate from `least` to
        `most`.

        The rate is the probability with which each of the `trials` labels is submitted. δ must not decrease with the
        rate. Both sums are Σ_t weight · δ(t). The lower weights are the probabilities of t at the rate `least`, rounded
        down. The upper weights are the probabilities of t at the rate `most`, rounded up.
        """
        low, high = (
            SubmissionCounts.of(trials, rate, trials, log_tail=-math.inf, log_delta=-50.0) for rate in (least, most)
        )
        lower, upper = np.zeros(trials + 1), np.zeros(trials + 1)
        lower[list(low.counts)], upper[list(high.counts)] = low.lower, high.upper
        return SubmissionCounts(tuple(range(trials + 1)), lower, upper, high.lost)
