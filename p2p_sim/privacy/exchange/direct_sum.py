"""δ by summing over every number of ones: accurate to the last digits, for small clusters, many data sets at once.

**Sums over some X only.** How far apart may the values of X be at which a sum over X is evaluated? Let X be the
noisy ones among N others and E an event of the learner's view given t submissions, so that its probability is
Σ_x f(x), f(x) = Pr[X = x and E]. Summing h f(x) over multiples x of h only is off by Σ φ(2πj/h), j = 1..h-1, where
φ(w) = E[e^(iwX); E]: the sum over j = 0..h-1 of e^(2πijx/h) is h at the multiples of h and 0 elsewhere.

Given who was fetched, E depends on the noisy bits of those users alone. Each of the others is not fetched with
probability q = (1-1/S)^t, and a user who is not fetched multiplies φ by 1-α + αe^(iw) or α + (1-α)e^(iw), of modulus
r = √(1 - 4α(1-α) sin²(w/2)). Hence |φ| <= E[r^U], U being how many are not fetched. r^U is the probability that all
members of a random set, which holds each user with probability 1-r, are fetched. A set of j users is fetched with
probability at most (1-q)^j: if a further user is not fetched, each submission falls on the set with the larger
probability j/(S-1), so the set is fetched no less often; therefore it is fetched no more often together with her than
independently of her. So E[r^U] <= (1 - (1-r)q)^N <= exp(-N q (1-r)), and 1-r >= 2α(1-α) sin²(w/2). The largest of the
h-1 terms has w = 2π/h.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import (
    SUBNORMAL,
    UNIT,
    Floats,
    SubmissionCounts,
    bernstein_window,
    binomial_pmf,
    binomial_products,
    rounding,
    tail_mass,
)
from p2p_sim.privacy.exchange.majority_kernel import Kernel

_FURTHER = 12.0
"""By so much the windows of k reach further down in the logarithm, since their columns are normalised."""
_CELLS = 1_000_000
"""Values of binomial probabilities that are computed together, about."""
_UNSCALED = 4.0
"""Sums for each k up to which columns are normalised by dividing the weights, whose underflow grows by as much."""
_TOGETHER = 150_000
"""Values below which all submissions are taken together, however different their windows are."""
Ints = NDArray[np.int64]


_BELOW = 16.0
"""By so much the logarithm of what is skipped lies below that of a truncation."""


@dataclass(frozen=True)
class OtherUsers:
    """The users who can be fetched, each with probability 1/sources, as an observer knows them.

    Besides the target, `zeros` and `ones` users hold label 0 and 1 and noisy bits that the observer does not know;
    the noisy bits of the rest are known, and `known_ones` of them are one.

    Args:
        sources: S, at least 1 + zeros + ones + known_ones.
        zeros, ones: others with unknown noisy bits, by true label.
        flip_prob: α in [0, 1/2].
        known_ones: others whose noisy bit is known to be one.
        kernel: how a submission depends on the noisy ones; None: it is the noisy bit of one source.
    """

    sources: int
    zeros: int
    ones: int
    flip_prob: float
    known_ones: int = 0
    kernel: Kernel | None = None

    def shares(self, noisy: Floats) -> tuple[Floats, Floats]:
        """The probability that a submission is a one, and that it is a zero, by the number of noisy ones."""
        if self.kernel is None:
            return noisy / self.sources, (self.sources - noisy) / self.sources
        return self.kernel.shares(noisy, self.sources)

    def noisy_ones(self, log_tail: float, step: int = 1) -> "NoisyOnes":
        """X, the noisy ones among all but the target; only the multiples of `step` within its window.

        X = known_ones + ones - Bin(ones, α) + Bin(zeros, α); the window misses at most 6 exp(log_tail). Flips among
        the ones are counted, not those who keep their label, since 1-α would be rounded.

        Rounding of a window about the mean costs less than `rounding`: products at k and k' share all roundings but
        those between, 6u|k-k'|; normalising compares k with all k', each by its probability, with E|k'-mean| at most
        the deviation: 6u (the largest |k-mean| + the deviation) + (K+2)u. The convolution of windows of L and L' values
        keeps their relative errors and adds (min(L, L') + 1)u; by underflow each value gets at most
        2L + 2L' + min(L, L') times 2^-1074.
        """
        alpha, laws, error = self.flip_prob, [], 0.0
        # flips among the ones, and among the zeros
        for users in (self.ones, self.zeros):
            mean, variance = users * alpha, users * alpha * (1.0 - alpha)
            low, high = bernstein_window(mean, variance, users, log_tail)
            reach = max(mean - low, high - mean) + math.sqrt(variance) + 2.0
            error += (6.1 * reach + (high - low + 3)) * UNIT
            laws.append((low, binomial_pmf(low, high, users, alpha)))
        (first, flipped), (low, risen) = laws
        shorter, longer = sorted((flipped[::-1], risen), key=len)
        error, tiny = error + (len(shorter) + 1) * UNIT, 3 * (len(shorter) + len(longer))
        start, count = low + self.ones - first - len(flipped) + 1, len(flipped) + len(risen) - 1
        # both together, in a window of the sum
        others = self.zeros + self.ones
        mean = self.ones * (1.0 - alpha) + self.zeros * alpha
        low, high = bernstein_window(mean, others * alpha * (1.0 - alpha), others, log_tail)
        low, high = max(low, start) + self.known_ones, min(high, start + count - 1) + self.known_ones
        low, start = low + -low % step, start + self.known_ones
        chosen = slice(low - start, high + 1 - start, step)
        if step == 1 or len(shorter) == 1:
            return NoisyOnes(low, np.convolve(flipped[::-1], risen)[chosen], error, tiny)
        windows = sliding_window_view(np.pad(longer, len(shorter) - 1), len(shorter))
        return NoisyOnes(low, windows[chosen] @ shorter[::-1], error, tiny)


@dataclass(frozen=True)
class NoisyOnes:
    """The law of X: its first value, the probabilities of it and of those a step apart, and what is charged for these.

    error: relative error of each probability. tiny: how often the smallest positive number is added to it.
    """

    first: int
    probabilities: Floats
    error: float
    tiny: int


def spacing(world: OtherUsers, submissions: int, log_tail: float) -> int:
    """The largest h, at least 1, up to rounding, at which exp(log_tail - 16) at most is skipped.

    Args:
        world: who is unknown. submissions: the largest t. log_tail: logarithm of a truncation; -inf gives 1.
    """
    scale = _scale(world, submissions)
    step = 1
    if math.isinf(log_tail) or scale <= 0.0 or (world.kernel is not None and world.kernel.requests is None):
        return step
    larger = math.pi * math.sqrt(scale / (_BELOW - log_tail))
    for _ in range(3):  # larger steps need more
        budget = _BELOW - log_tail + math.log(max(larger, 1.0))
        larger = math.pi / math.asin(math.sqrt(budget / scale)) if budget < scale else 1.0
    step = max(1, int(larger))
    while step > 1 and skipped(world, submissions, step) > math.exp(log_tail - _BELOW):
        step -= 1
    return step


def skipped(world: OtherUsers, submissions: int, step: int) -> float:
    """By how much, at most, the probability of any event of t <= `submissions` labels is off at this step."""
    if step == 1:
        return 0.0
    exponent = _scale(world, submissions) * math.sin(math.pi / step) ** 2
    return math.exp(math.log(step - 1.0) - exponent * (1.0 - 1e-9)) * (1.0 + 1e-9)


def _scale(world: OtherUsers, submissions: int) -> float:
    """2 N q α (1-α)."""
    if world.sources == 1:
        return 0.0
    requests = submissions * (1 if world.kernel is None else world.kernel.requests or 0)
    fetched_not = math.exp(requests * math.log1p(-1.0 / world.sources))
    return 2.0 * (world.zeros + world.ones) * fetched_not * world.flip_prob * (1.0 - world.flip_prob)


@dataclass(frozen=True)
class DirectViews:
    """Likelihoods A and B (target's noisy bit 0 or 1) of shape (R, M): a row for each (submissions t, ones among them),
    a column for each world; lower and upper (R,) are the weights of the row's t in the two sums.

    slack: charged for the relative error of A and of B. tiny: for what underflow adds to either.
    lost, missed: probabilities that the windows cut off, of the views and of X.
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
        """Tabulate the views of worlds with the same number of sources; where t = 0 nothing is seen.

        The window of k misses less than 2 exp(log_tail), which is lost; that of X misses `missed` in either world, by
        which normalising makes the rest too large. A row is Σ_j Bin(k; t, j/S) Pr[X = j]. With K values of k and J of j
        its relative error is at most that of the kernel, `rounding(K)`, that of X, and (J+1)u for the sum; underflow
        adds K + J times the number that X is charged, and 4JK times it where weights are divided by sums of up to 4K.

        If `sparse`, X is summed at multiples of h only, h times each: a probability of any event is then off by
        `skipped`, and by h times what the window of X misses, which is therefore chosen to miss 1/h of the above.
        """
        log_tail, seen = submissions.log_tail, np.array(submissions.counts) > 0
        counts = [t for t in submissions.counts if t > 0]
        if not counts:
            nothing = np.zeros((0, len(worlds)))
            return DirectViews(
                nothing, nothing, lower=nothing[:, 0], upper=nothing[:, 0], slack=0.0, lost=submissions.lost, missed=0.0
            )
        step = min(spacing(world, counts[-1], log_tail) for world in worlds) if sparse else 1
        tail_x = log_tail - math.log(step)
        laws = [world.noisy_ones(tail_x, step) for world in worlds]
        parts = list(_tables(worlds[0], counts, laws, log_tail, step))
        rows = [len(a) // group for group, a, _ in parts]
        most = max(rows)
        sums = max(law.tiny for law in laws) + 2
        ends = list(itertools.accumulate(group for group, _, _ in parts))[:-1]
        lower, upper = (
            np.concatenate([np.tile(part, k) for part, k in zip(np.split(w[seen], ends), rows, strict=True)])
            for w in (submissions.lower, submissions.upper)
        )
        off = max(skipped(world, counts[-1], step) for world in worlds)
        return DirectViews(
            np.concatenate([a for _, a, _ in parts]),
            np.concatenate([b for _, _, b in parts]),
            lower=lower,
            upper=upper,
            slack=rounding(most) + max(law.error for law in laws) + sums * UNIT + _kernel_error(worlds[0], most),
            lost=submissions.lost + 2.0 * tail_mass(log_tail),
            missed=(6.0 + 4.0 * math.exp(-_FURTHER)) * tail_mass(log_tail) + 2.0 * off,
            tiny=2.0 * (most + sums * (sums + _UNSCALED * most)) * step * SUBNORMAL,
        )

    def deltas(
        self, keep: float, lose: float, relative_error: float, ends: Sequence[bool] = (False, True)
    ) -> list[Floats]:
        """Lower and upper bounds (M, 2) of Σ max(0, keep·p - lose·q) for (p, q) = (A, B) and (B, A).

        Args:
            keep, lose: positive coefficients, keep known to a relative error of `relative_error` and lose to 1e-15.
            ends: which bounds: False for the lower one, True for the upper one.
        """
        found = []
        for upper in ends:
            up, weights = (1.0, self.upper) if upper else (-1.0, self.lower)
            sums = np.stack([weights @ gained for gained in self._gains(keep, lose, relative_error, up)], axis=1)
            error, missed = (len(weights) + 4) * UNIT, (keep + lose) * self.missed
            off = missed + (keep + lose) * self.tiny * float(weights.sum()) + len(weights) * SUBNORMAL
            found.append(sums * (1.0 + up * error) + up * off + (self.lost if upper else 0.0))
        return found

    def given(self, keep: float, lose: float, relative_error: float, starts: Ints) -> Floats:
        """The upper bound (G,) of the worst data set and direction for each group of rows, all of weight one.

        Args:
            keep, lose, relative_error: as in `deltas`. starts: (G,), the first row of each group, the first of them 0.
        """
        sums = [np.add.reduceat(gained, starts, axis=0) for gained in self._gains(keep, lose, relative_error, 1.0)]
        rows = len(self.a)
        off = (keep + lose) * (self.missed + self.tiny * rows) + rows * SUBNORMAL
        worst: Floats = np.max(sums, axis=(0, 2))
        return worst * (1.0 + (rows + 4) * UNIT) + off + self.lost

    def _gains(self, keep: float, lose: float, relative_error: float, up: float) -> Iterator[Floats]:
        """For each direction what a row adds to δ (R, M), rounded up, or down if `up` is -1."""
        slack = up * (self.slack + 2e-15)
        more, less = keep * (1.0 + slack + up * relative_error), lose * (1.0 - slack)
        for p, q in ((self.a, self.b), (self.b, self.a)):
            gained = p * more
            gained -= q * less
            yield np.maximum(gained, 0.0, out=gained)


def likelihoods(worlds: Sequence[OtherUsers], counts: Sequence[int]) -> Iterator[tuple[Floats, Floats]]:
    """For each t in `counts`, A and B as arrays (k, len(worlds)), k = 0..t."""
    laws = [world.noisy_ones(-math.inf) for world in worlds]
    for t in counts:
        for _, a, b in _tables(worlds[0], [t], laws, -math.inf, 1):
            yield a, b


def _tables(
    world: OtherUsers, counts: Sequence[int], laws: Sequence[NoisyOnes], log_tail: float, step: int
) -> Iterator[tuple[int, Floats, Floats]]:
    """How many of the t are taken together, and A and B for these, as arrays ((k, t), worlds).

    A row is Σ_j Bin(k; t, j/S) Pr[X = j], or has the world's kernel in place of j/S; k runs over all that matter for
    any of these t and j, and above t the probability is 0. B has j + 1 in place of j.
    """
    # `step` times the probabilities of X, (J, worlds)
    low = min(law.first for law in laws)
    weights = np.zeros((max((law.first - low) // step + law.probabilities.size for law in laws), len(laws)))
    for column, law in enumerate(laws):
        weights[(law.first - low) // step :][: law.probabilities.size, column] = step * law.probabilities
    at = low + step * np.arange(len(weights))
    noisy = np.append(at, at + 1) if step > 1 else np.append(at, at[-1] + 1)
    with np.errstate(divide="ignore"):
        share, rest = world.shares(noisy.astype(np.float64))
        odds = noisy / (world.sources - noisy) if world.kernel is None else share / rest
    # k runs from the window's first at the smallest probability to its last at the largest
    least, largest, tail = float(share[0]), float(share[-1]), log_tail - _FURTHER
    first = np.array([bernstein_window(t * least, t * least * (1.0 - least), t, tail)[0] for t in counts])
    last = np.array([bernstein_window(t * largest, t * largest * (1.0 - largest), t, tail)[1] for t in counts])
    taken, narrow = 0, max(1, _TOGETHER // noisy.size)
    while taken < len(counts):
        most = max((5 * int(last[taken] - first[taken] + 8)) // 4, narrow // len(counts))
        end = taken + 1 + _CELLS // (most * noisy.size)
        fitting = last[taken + 1 : end] - first[taken] < most
        size = 1 + (len(fitting) if fitting.all() else int(fitting.argmin()))
        group = slice(taken, taken + size)
        trials = np.repeat(np.array(counts[group], dtype=np.float64), noisy.size)
        rows = int(first[group].min()), int(last[group].max())
        kernel, sums = binomial_products(*rows, trials, np.tile(odds, size))
        if sums.max() > _UNSCALED * len(kernel):
            kernel /= sums
            sums[:] = 1.0
        kernel, sums = kernel.reshape(-1, size, noisy.size), sums.reshape(size, -1, 1)
        a, b = np.empty((2, len(kernel), size, weights.shape[1]))
        for index in range(size):
            columns, divisors = kernel[:, index], sums[index]
            np.matmul(columns[:, : len(at)], weights / divisors[: len(at)], out=a[:, index])
            np.matmul(columns[:, -len(at) :], weights / divisors[-len(at) :], out=b[:, index])
        yield size, a.reshape(-1, weights.shape[1]), b.reshape(-1, weights.shape[1])
        taken += size


def _kernel_error(world: OtherUsers, rows: int) -> float:
    """Charged for odds that are off by more than the 2u of j/S: each step of a product repeats their error."""
    return 0.0 if world.kernel is None else 4.0 * (rows + 1) * world.kernel.error
