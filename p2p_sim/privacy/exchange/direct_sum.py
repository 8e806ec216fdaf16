"""δ by summing over every number of ones: accurate to the last digits, for small clusters, many data sets at once."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import (
    SUBNORMAL,
    UNIT,
    Floats,
    binomial_products,
    rounding,
    tail_mass,
)
from p2p_sim.privacy.exchange.other_users import OtherUsers, skipped, spacing
from p2p_sim.privacy.exchange.submission_counts import SubmissionCounts

_FURTHER = 12.0
"""By so much the windows of k reach further down in the logarithm, since their columns are normalised."""
_CELLS = 1_000_000
"""Values of binomial probabilities that are computed together, about."""
_UNSCALED = 4.0
"""Sums for each k up to which columns are normalised by dividing the weights, whose underflow grows by as much."""
_TOGETHER = 150_000
"""Values below which all submissions are taken together, however different their windows are."""
Ints = NDArray[np.int64]


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
    def of(
        worlds: Sequence[OtherUsers], submissions: SubmissionCounts, log_tail: float, sparse: bool = False
    ) -> "DirectViews":
        """Tabulate the views of worlds with the same number of sources; where t = 0 nothing is seen.

        The window of k misses less than 2 exp(log_tail), which is lost; that of X misses `missed` in either world, by
        which normalising makes the rest too large. A row is Σ_j Bin(k; t, j/S) Pr[X = j]. With K values of k and J of j
        its relative error is at most that of the kernel, `rounding(K)`, that of X, and (J+1)u for the sum; underflow
        adds K + J times the number that X is charged, and 4JK times it where weights are divided by sums of up to 4K.

        If `sparse`, X is summed at multiples of h only, h times each: a probability of any event is then off by
        `skipped`, and by h times what the window of X misses, which is therefore chosen to miss 1/h of the above.
        """
        seen = np.array(submissions.counts) > 0
        counts = [t for t in submissions.counts if t > 0]
        if not counts:
            nothing = np.zeros((0, len(worlds)))
            return DirectViews(nothing, nothing, nothing[:, 0], nothing[:, 0], 0.0, submissions.lost, 0.0)
        step = min(spacing(world, counts[-1], log_tail) for world in worlds) if sparse else 1
        tail_x = log_tail - math.log(step)
        low, weights = _laws(worlds, tail_x, step)
        parts = list(_tables(worlds[0], counts, low, weights, log_tail, step))
        rows = [len(a) // group for group, a, _ in parts]
        most, of_x = max(rows), [world.rounding(tail_x) for world in worlds]
        sums = max(count for _, count in of_x) + 2
        ends = list(itertools.accumulate(group for group, _, _ in parts))[:-1]
        lower, upper = (
            np.concatenate([np.tile(part, k) for part, k in zip(np.split(w[seen], ends), rows, strict=True)])
            for w in (submissions.lower, submissions.upper)
        )
        off = max(skipped(world, counts[-1], step) for world in worlds)
        return DirectViews(
            np.concatenate([a for _, a, _ in parts]),
            np.concatenate([b for _, _, b in parts]),
            lower,
            upper,
            rounding(most) + max(error for error, _ in of_x) + sums * UNIT + _kernel_error(worlds[0], most),
            submissions.lost + 2.0 * tail_mass(log_tail),
            (6.0 + 4.0 * math.exp(-_FURTHER)) * tail_mass(log_tail) + 2.0 * off,
            2.0 * (most + sums * (sums + _UNSCALED * most)) * step * SUBNORMAL,
        )

    def deltas(self, keep: float, lose: float, relative_error: float) -> tuple[Floats, Floats]:
        """Lower and upper bounds (M, 2) of Σ max(0, keep·p - lose·q) for (p, q) = (A, B) and (B, A).

        Args:
            keep, lose: positive coefficients, keep known to a relative error of `relative_error` and lose to 1e-15.
        """
        return self._bounds(keep, lose, relative_error, False), self._bounds(keep, lose, relative_error, True)

    def largest(self, keep: float, lose: float, relative_error: float, upper: bool) -> float:
        """The largest of the upper bounds, or of the lower ones."""
        return float(self._bounds(keep, lose, relative_error, upper).max())

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

    def _bounds(self, keep: float, lose: float, relative_error: float, upper: bool) -> Floats:
        up, weights = (1.0, self.upper) if upper else (-1.0, self.lower)
        found = np.stack([weights @ gained for gained in self._gains(keep, lose, relative_error, up)], axis=1)
        sums, missed = (len(weights) + 4) * UNIT, (keep + lose) * self.missed
        off = missed + (keep + lose) * self.tiny * float(weights.sum()) + len(weights) * SUBNORMAL
        return found * (1.0 + up * sums) + up * off + (self.lost if upper else 0.0)

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
    low, weights = _laws(worlds, -math.inf, 1)
    for t in counts:
        for _, a, b in _tables(worlds[0], [t], low, weights, -math.inf, 1):
            yield a, b


def _laws(worlds: Sequence[OtherUsers], log_tail: float, step: int) -> tuple[int, Floats]:
    """The smallest X, and `step` times the probabilities of it and of the values `step` apart, (J, len(worlds))."""
    parts = [world.spaced_ones(log_tail, step) for world in worlds]
    low = min(first for first, _ in parts)
    count = max((first - low) // step + pmf.size for first, pmf in parts)
    weights = np.zeros((count, len(worlds)))
    for column, (first, pmf) in enumerate(parts):
        weights[(first - low) // step :][: pmf.size, column] = step * pmf
    return low, weights


def _tables(
    world: OtherUsers, counts: Sequence[int], low: int, weights: Floats, log_tail: float, step: int
) -> Iterator[tuple[int, Floats, Floats]]:
    """How many of the t are taken together, and A and B for these, as arrays ((k, t), worlds).

    A row is Σ_j Bin(k; t, j/S) Pr[X = j], or has the world's kernel in place of j/S; k runs over all that matter for
    any of these t and j, and above t the probability is 0. B has j + 1 in place of j.
    """
    at = low + step * np.arange(len(weights))
    noisy = np.append(at, at + 1) if step > 1 else np.append(at, at[-1] + 1)
    with np.errstate(divide="ignore"):
        share, rest = world.shares(noisy.astype(np.float64))
        odds = noisy / (world.sources - noisy) if world.kernel is None else share / rest
    first, last = _windows(np.array(counts), float(share[0]), float(share[-1]), log_tail - _FURTHER)
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


def _windows(counts: Ints, least: float, largest: float, log_tail: float) -> tuple[Ints, Ints]:
    """First and last k for each t, as `bernstein_window` has them: of the smallest probability and of the largest."""
    budget = -log_tail
    if math.isinf(budget):
        return np.zeros_like(counts), counts
    ends = []
    for p, side in ((least, -1.0), (largest, 1.0)):
        reach = budget / 3.0 + np.sqrt(budget * budget / 9.0 + 2.0 * counts * p * (1.0 - p) * budget)
        ends.append(counts * p + side * (1e-6 + reach * (1.0 + 1e-12)))
    first, last = np.maximum(np.floor(ends[0]), 0.0), np.minimum(np.ceil(ends[1]), counts)
    return first.astype(np.int64), last.astype(np.int64)
