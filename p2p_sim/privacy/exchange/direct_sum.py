"""δ by summing over every number of ones: accurate to the last digits, for small clusters, many data sets at once.

*Sources* are the users whose noisy bits may be submitted. A *view* is what the learner sees: t submissions, of which k
are ones.

**Sums over some values of X only.** Let X be the number of noisy ones among N others. Let G be an event of the
learner's view given t submissions. Its probability is Σ_x f(x), with f(x) = Pr[X = x and G]. To save time, h f(x) is
summed over the multiples x of a whole number h only. Let φ(w) = E[e^(iwX); G]. The sum over j = 0..h-1 of e^(2πijx/h)
is h at the multiples of h and 0 elsewhere. So the error is Σ φ(2πj/h) over j = 1..h-1. How large may h be?

A user is *fetched* if a submission carries her label. With S sources, q = (1-1/S)^t is the probability that a user is
not fetched. Given who is fetched, G depends on the noisy bits of the fetched users alone. With flip probability α, the
bit of a user who is not fetched multiplies φ by 1-α + αe^(iw) or α + (1-α)e^(iw). Both factors have the modulus r = √(1
- 4α(1-α) sin²(w/2)). Hence |φ| <= E[r^U], where U is the number of users who are not fetched.

Take a random set that holds each user independently with probability 1-r. Then r^U is the probability that all members
of this set are fetched. Let P_j be the probability that all members of a fixed set of j users are fetched. By induction
over j, P_j is at most (1-q)^j: Suppose that a further user is not fetched. Then each submission falls on the set with
probability j/(S-1) in place of j/S, and all members are fetched with a probability of at least P_j. Hence, if the
further user is fetched, this probability is at most P_j. So E[r^U] <= (1 - (1-r)q)^N <= exp(-N q (1-r)), and 1-r >=
2α(1-α) sin²(w/2). The largest of the h-1 terms has w = 2π/h.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import (
    SUBNORMAL,
    UNIT,
    VALUE_ERROR,
    Floats,
    SubmissionCounts,
    bernstein_window,
    binomial_pmf,
    binomial_products,
    tail_mass,
)
from p2p_sim.privacy.exchange.majority_kernel import Kernel, Shares
from p2p_sim.privacy.randomized_response import Coefficients

_FURTHER = 12.0
"""A window of k, the number of ones among t submissions, leaves out a probability of e^(`log_tail` - this number). So
normalising changes little.
"""
_CELLS = 1_000_000
"""Approximately how many binomial probabilities are computed in one array."""
_UNSCALED = 4.0
"""Columns of binomial probabilities are divided by their sums if the largest sum exceeds this number times a column's
length. Otherwise the weights are divided by the sums. Underflow of the weights may grow by this factor.
"""
_TOGETHER = 150_000
"""With fewer values than this, all t are computed in one array, whatever their windows. This affects only speed."""
_BELOW = 16.0
"""Summing over some values of X only has an error of at most e^(`log_tail` - this number). This error is small beside
the error of a truncation.
"""
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class OtherUsers:
    """The sources besides the target, as an observer knows them. Bits that she does not know hide the target's bit.

    A submission carries the noisy bit of one of the S sources, each with probability 1/S. The observer does not know
    the noisy bits of `zeros` others with label 0 and `ones` others with label 1. She knows all further bits.

    Args:
        sources: S, at least 1 + zeros + ones + known_ones.
        zeros, ones: how many others with unknown noisy bits hold label 0, and how many hold label 1.
        flip_prob: α in [0, 1/2].
        known_ones: number of others whose noisy bit is known to be 1.
        kernel: how a submission depends on the noisy ones. None: it is the noisy bit of one source.
    """

    sources: int
    zeros: int
    ones: int
    flip_prob: float
    known_ones: int = 0
    kernel: Kernel | None = None

    def shares(self, noisy: Floats) -> Shares:
        """The probabilities that a submission is a 1, and that it is a 0: two arrays, with an entry for each entry of
        `noisy`.

        For S sources and x = `noisy` these are x/S and (S - x)/S. A kernel has another rule, such as a majority of
        several.

        Args:
            noisy: (J,) numbers of ones among the noisy labels of all sources, the target among them.
        """
        if self.kernel is None:
            return Shares(noisy / self.sources, (self.sources - noisy) / self.sources)
        return self.kernel.shares(noisy, self.sources)

    def noisy_ones(self, log_tail: float, step: int = 1) -> "NoisyOnes":
        """The law (distribution) of X near its mean, at multiples of `step` only, with bounds of the rounding errors.

        X is the number of users besides the target with the noisy label 1: known_ones + ones - Bin(ones, α) +
        Bin(zeros, α). Flips among the ones are counted, since 1-α would be rounded. The probabilities are Pr[X = x],
        not multiplied by `step`.

        The relative error comes from three steps; u = 2^-53. First come the two binomial laws, each on K values k. The
        products for values k and k' share all roundings except in the steps between k and k', which add at most
        6u|k-k'|. Normalising divides the value at k by the sum over all k'. E|k'-mean| is at most the standard
        deviation. So the error at k is at most 6u (the largest |k-mean| + the deviation) + (K+2)u. Here this is less
        than (K+1) · 16u. Second, the convolution of the two laws, on L and L' values, keeps their relative errors and
        adds (min(L, L') + 1)u. Third, underflow changes each value by at most 2L + 2L' + min(L, L') times 2^-1074.

        Args:
            log_tail: values too far from the mean are left out. Their probability is at most 6 exp(log_tail). -inf: no
            value is left out. step: above 1, only multiples of it are computed, which saves time.
        """
        alpha, laws, error = self.flip_prob, [], 0.0
        # the laws of the flips among the ones and among the zeros, with their relative errors
        for users in (self.ones, self.zeros):
            mean, variance = users * alpha, users * alpha * (1.0 - alpha)
            low, high = bernstein_window(mean, variance, users, log_tail)
            reach = max(mean - low, high - mean) + math.sqrt(variance) + 2.0
            error += (6.1 * reach + (high - low + 3)) * UNIT
            laws.append((low, binomial_pmf(low, high, users, alpha)))
        # the error that the convolution of the two laws adds, and the values of X that it covers
        (first, flipped), (low, risen) = laws
        shorter, longer = sorted((flipped[::-1], risen), key=len)
        error, tiny = error + (len(shorter) + 1) * UNIT, 3 * (len(shorter) + len(longer))
        start, count = low + self.ones - first - len(flipped) + 1, len(flipped) + len(risen) - 1
        # the window of X itself, cut to these values, and the multiples of `step` in the window
        others = self.zeros + self.ones
        mean = self.ones * (1.0 - alpha) + self.zeros * alpha
        low, high = bernstein_window(mean, others * alpha * (1.0 - alpha), others, log_tail)
        low, high = max(low, start) + self.known_ones, min(high, start + count - 1) + self.known_ones
        low, start = low + -low % step, start + self.known_ones
        chosen = slice(low - start, high + 1 - start, step)
        if step == 1 or len(shorter) == 1:
            return NoisyOnes(low, np.convolve(flipped[::-1], risen)[chosen], error, tiny)
        # the sums of the convolution at the chosen values only
        windows = sliding_window_view(np.pad(longer, len(shorter) - 1), len(shorter))
        return NoisyOnes(low, windows[chosen] @ shorter[::-1], error, tiny)


@dataclass(frozen=True)
class NoisyOnes:
    """The law of X, the number of noisy ones among all sources except the target, on values a fixed step apart.

    first: the smallest value. probabilities: (J,) probabilities of this and the next values, each a step apart. error:
    relative error of each probability. tiny: absolute error of each probability by underflow, in units of 2^-1074.
    """

    first: int
    probabilities: Floats
    error: float
    tiny: int


class Spacing(NamedTuple):
    """How far apart the values of X are at which a sum over X is evaluated, and the error of skipping the others.

    step: h, at least 1. skipped: largest absolute error of the probability of any event at this step.
    """

    step: int
    skipped: float


def spacing(world: OtherUsers, submissions: int, log_tail: float) -> Spacing:
    """The largest h for which a sum over every h-th value of X, multiplied by h, is accurate enough.

    X is how many other users have the noisy label 1. Skipping values saves time where the law of X is smooth. The
    probability of any event is then off by at most exp(log_tail - 16). The result has h and a bound of this error.

    Args:
        world: the users besides the target. submissions: the largest number t of submissions. log_tail: ln of the
        probability that truncations may leave out; -inf gives h = 1.
    """
    requests = 1 if world.kernel is None else world.kernel.requests
    if requests is None or math.isinf(log_tail) or world.sources == 1:
        return Spacing(1, 0.0)
    # |φ(2π/h)| <= exp(-decay sin²(π/h)), decay = 2 N q α (1-α). q is the probability that a user is not fetched.
    fetched_not = math.exp(submissions * requests * math.log1p(-1.0 / world.sources))
    decay = 2.0 * (world.zeros + world.ones) * fetched_not * world.flip_prob * (1.0 - world.flip_prob)
    # solve ln h - decay sin²(π/h) = log_tail - 16 for h: at first without ln h, then with ln of the previous h
    larger = math.pi * math.sqrt(decay / (_BELOW - log_tail))
    for _ in range(3):
        budget = _BELOW - log_tail + math.log(max(larger, 1.0))
        larger = math.pi / math.asin(math.sqrt(budget / decay)) if budget < decay else 1.0
    # the largest h at which the sum of the h - 1 terms, rounded up, is small enough
    for step in range(int(larger), 1, -1):
        exponent = decay * math.sin(math.pi / step) ** 2
        skipped = math.exp(math.log(step - 1.0) - exponent * (1.0 - 1e-9)) * (1.0 + 1e-9)
        if skipped <= math.exp(log_tail - _BELOW):
            return Spacing(step, skipped)
    return Spacing(1, 0.0)


@dataclass(frozen=True)
class DirectViews:
    """Tables of the probabilities of all views: a row for each view, a column for each data set. δ is a sum over rows.

    A view is t submissions with k ones. a, b: (R, M) the view's probability given t, if the target's noisy bit is 0,
    and if it is 1. lower, upper: (R,) weights of the row's t in the lower and in the upper bound of δ. slack: relative
    error of a and b. tiny: absolute error of a and b by underflow. lost: probability of left-out views, added to the
    upper bound of δ. missed: error of a sum of a or of b, because values of X are left out. It widens both bounds.
    """

    a: Floats
    b: Floats
    lower: Floats
    upper: Floats
    slack: float
    lost: float
    missed: float
    tiny: float = 0.0

    @staticmethod
    def of(worlds: Sequence[OtherUsers], submissions: SubmissionCounts, sparse: bool = False) -> "DirectViews":
        """Tables of the probabilities of all views in each of the given data sets, for every t of `submissions`.

        A view is t submissions with k ones. Its probability given t is Σ_j Bin(k; t, j/S) Pr[X = j]. S is the number of
        sources, and X the number of ones among the others' noisy labels. At t = 0 nothing is seen, and there is no row.

        The fields of the result hold four kinds of errors. Let u = 2^-53; exp(log_tail) is the probability that
        `submissions` allow to leave out. `lost`: values of k are left out with a probability below 2 exp(log_tail).
        `missed`: values of X are left out, too. Normalising makes the rest too large by as much. `slack`: a row with K
        values of k and J values of j has a relative error of four parts. The binomials add 16(K+1)u, Pr[X = j] adds its
        error, the sum adds (J+1)u, and a kernel adds 4(K+1) times its error. `tiny`: underflow adds at most 2h (K + s
        (s + 4K)) times 2^-1074. Here s - 2 is the underflow of X in this unit, which is at least J. 4K bounds the sums
        by which weights are divided. h is the step of `sparse`, else 1.

        Args:
            worlds: the users besides the target in each data set, all with the same S. submissions: the numbers t, with
            their weights. sparse: whether to sum over multiples of a number h only, and to multiply by h, which is
            faster. All data sets must then have equally many users with unknown noisy labels. A probability is off by
            what is skipped, and by h times what is left out of X. So only exp(log_tail)/h is left out of X.
        """
        log_tail, positive = submissions.log_tail, np.array(submissions.counts) > 0
        counts = [t for t in submissions.counts if t > 0]
        if not counts:
            empty = np.zeros((0, len(worlds)))
            return DirectViews(empty, empty, empty[:, 0], empty[:, 0], slack=0.0, lost=submissions.lost, missed=0.0)
        # A and B, row by row
        step, skipped = spacing(worlds[0], counts[-1], log_tail) if sparse else Spacing(1, 0.0)
        laws = [world.noisy_ones(log_tail - math.log(step), step) for world in worlds]
        tables = _tables(worlds[0], counts, laws, log_tail, step)
        index, a, b = (np.concatenate(columns) for columns in zip(*tables, strict=True))
        # K, and J as it is charged; an error of a kernel's values enters each step of a product
        most = int(np.bincount(index).max())
        sums, kernel = max(law.tiny for law in laws) + 2, worlds[0].kernel
        kernel_error = 0.0 if kernel is None else 4.0 * (most + 1) * kernel.error
        return DirectViews(
            a,
            b,
            lower=submissions.lower[positive][index],
            upper=submissions.upper[positive][index],
            slack=VALUE_ERROR * (most + 1) + max(law.error for law in laws) + sums * UNIT + kernel_error,
            lost=submissions.lost + 2.0 * tail_mass(log_tail),
            missed=(6.0 + 4.0 * math.exp(-_FURTHER)) * tail_mass(log_tail) + 2.0 * skipped,
            tiny=2.0 * (most + sums * (sums + _UNSCALED * most)) * step * SUBNORMAL,
        )

    def deltas(
        self, coefficients: Coefficients, ends: Sequence[bool] = (False, True), starts: Ints | None = None
    ) -> list[Floats]:
        """Lower or upper bounds of δ(ε), the sum over all views of max(0, keep·p - lose·q).

        p and q are a view's probabilities if the target's noisy label is 0, and if it is 1. In the second direction p
        and q are exchanged. keep = 1-α-αe^ε and lose = (1-α)e^ε - α account for the flip of her label.

        Args:
            coefficients: keep and lose at ε, both positive, and a bound of the relative rounding error of keep. ends:
            which bounds: False for the lower one, True for the upper one. starts: (G,) first rows of groups of rows
            that are summed separately, without weights; the first entry is 0. None: one sum of all rows, weighted by
            the probabilities of the numbers of submissions (rounded down for lower, up for upper bounds).

        Returns:
            One array (M data sets, 2 directions) for each entry of `ends`, or (G, M, 2) with `starts`.
        """
        keep, lose, relative_error = coefficients
        bounds = []
        for upper in ends:
            up, weights = (1.0, self.upper) if upper else (-1.0, self.lower)
            # keep·p - lose·q with the relative errors of keep, p and q taken on the safe side
            slack = up * (self.slack + 2e-15)
            more, less = keep * (1.0 + slack + up * relative_error), lose * (1.0 - slack)
            directions = []
            for p, q in ((self.a, self.b), (self.b, self.a)):
                gained = p * more
                gained -= q * less
                np.maximum(gained, 0.0, out=gained)
                directions.append(weights @ gained if starts is None else np.add.reduceat(gained, starts, axis=0))
            # Widen by the rounding of the sum, by the windows of X, by underflow, and by what is lost. `missed` counts
            # once: the exact probabilities of all t sum to 1, and are at most the upper weights.
            error, missed = (len(weights) + 4) * UNIT, (keep + lose) * self.missed
            off = missed + (keep + lose) * self.tiny * float(weights.sum()) + len(weights) * SUBNORMAL
            widened = np.stack(directions, axis=-1) * (1.0 + up * error) + up * off
            bounds.append(widened + self.lost if upper else widened)
        return bounds


class TableRows(NamedTuple):
    """Rows of the tables A and B, each (rows, data sets); t_index: (rows,) index of a row's t among all given t."""

    t_index: Ints
    a: Floats
    b: Floats


def likelihoods(worlds: Sequence[OtherUsers], counts: Sequence[int]) -> Iterator[Floats]:
    """Yields for each t in `counts` an array (2, t + 1, worlds): the probability of k = 0..t ones among t submissions.
    The first axis is the target's noisy bit, 0 or 1. worlds: the other users of each data set.
    """
    laws = [world.noisy_ones(-math.inf) for world in worlds]
    for t in counts:
        [table] = _tables(worlds[0], [t], laws, -math.inf, 1)
        yield np.stack([table.a, table.b])


def _tables(
    world: OtherUsers, counts: Sequence[int], laws: Sequence[NoisyOnes], log_tail: float, step: int
) -> Iterator[TableRows]:
    """Yields tables of the probability of k ones among t submissions, for groups of the t in `counts`.

    Each item has tables A and B, and the index of every row's t in `counts`. Table A is for the target's noisy label 0,
    B for 1. There is a row for each k and t, sorted by k, and a column for each data set. A row of A is Σ_j Bin(k; t,
    j/S) Pr[X = j]. S is the number of sources, and X the number of ones among the others' noisy labels. B has j + 1 in
    place of j. A kernel, such as a majority of several, replaces j/S by the probability of a 1 given j ones. k runs
    over all values that matter for any t of the group. Where k > t the probability is 0.

    Args:
        world: gives S and the kernel of all data sets. counts: the numbers t, ascending. laws: the law of X for each
        data set, at multiples of `step`; this function multiplies each probability by `step`. log_tail: values of k are
        left out at each end with a probability of about exp(log_tail - 12).
    """
    # `step` times the probabilities of X, (J, worlds)
    low = min(laws, key=lambda law: law.first).first
    weights = np.zeros((max((law.first - low) // step + law.probabilities.size for law in laws), len(laws)))
    for column, law in enumerate(laws):
        weights[(law.first - low) // step :][: law.probabilities.size, column] = step * law.probabilities
    # all j and all j + 1, each once if `step` is 1, with their odds
    at = low + step * np.arange(len(weights))
    noisy = np.append(at, at + 1) if step > 1 else np.append(at, at[-1] + 1)
    with np.errstate(divide="ignore"):
        shares = world.shares(noisy.astype(np.float64))
        odds = noisy / (world.sources - noisy) if world.kernel is None else shares.ones / shares.zeros
    # k runs from the window's first at the smallest probability to its last at the largest
    least, largest, tail = float(shares.ones[0]), float(shares.ones[-1]), log_tail - _FURTHER
    first = np.array([bernstein_window(t * least, t * least * (1.0 - least), t, tail).first for t in counts])
    last = np.array([bernstein_window(t * largest, t * largest * (1.0 - largest), t, tail).last for t in counts])
    start, narrow = 0, max(1, _TOGETHER // noisy.size)
    while start < len(counts):
        # put together all t with similar windows of k, as long as the values fit into `_CELLS`
        most = max((5 * int(last[start] - first[start] + 8)) // 4, narrow // len(counts))
        end = start + 1 + _CELLS // (most * noisy.size)
        fitting = last[start + 1 : end] - first[start] < most
        size = 1 + int(np.append(fitting, False).argmin())
        group = slice(start, start + size)
        # Bin(k; t, j/S), to be divided by its sums: (k, t, j)
        trials = np.repeat(np.array(counts[group], dtype=np.float64), noisy.size)
        rows = int(first[group].min()), int(last[group].max())
        kernel, sums = binomial_products(*rows, trials, np.tile(odds, size))
        if sums.max() > _UNSCALED * len(kernel):
            kernel /= sums
            sums[:] = 1.0
        kernel, sums = kernel.reshape(-1, size, noisy.size), sums.reshape(size, -1, 1)
        # times Pr[X = j], divided by the sums (1 where the products are already divided)
        a, b = np.empty((2, len(kernel), size, weights.shape[1]))
        for t in range(size):
            np.matmul(kernel[:, t, : len(at)], weights / sums[t, : len(at)], out=a[:, t])
            np.matmul(kernel[:, t, -len(at) :], weights / sums[t, -len(at) :], out=b[:, t])
        index = np.tile(np.arange(start, start + size), len(kernel))
        yield TableRows(index, a.reshape(-1, weights.shape[1]), b.reshape(-1, weights.shape[1]))
        start += size
