"""Kernels: the probability that a submission is a 1, as a function of how many of all users' noisy labels are 1.

A user asks an odd number k of peers, drawn uniformly with replacement, herself included. If N of the n noisy labels are
ones, her submission is a one with probability g_k(N/n), where g_k(p) = Pr[Bin(k, p) > k/2]. If k is drawn at random
first, the probability is g(N/n), where g is a mixture of the g_k. g is increasing, g(0) = 0 and g(1-p) = 1 - g(p).
Given N, submissions are independent. The label exchange is the case k = 1, where g(p) = p.

**Most facts of the label exchange need only that g increases.** Let A and B be the laws of the number of ones among t
submissions if the target's noisy bit is 0 and 1, respectively. The learner needs no more than this number, since given
N the submissions are independent and equally distributed. The binomial kernel is totally positive in (ones, N), so that
B/A is monotone, and the learner's best event is "fewer than j ones" for some j, or its complement. δ given t does not
decrease in t, since the learner may ignore submissions. Fresh peers in further rounds are further submissions. Because
g(1-p) = 1 - g(p), swapping the labels maps data sets onto each other. Let X be the number of ones among the other noisy
bits. The module `direct_sum` sums over some values of X only; its error bound uses the number of users on whose bits
the submissions depend, which is at most k t.

**One fact needs a linear g:** the learner can tell apart the submissions that were fetched from sources whose bits are
revealed, and the other submissions form a smaller exchange. For other g, the following comparison replaces this fact:

*Comparison.* Let the law of X be log-concave. Given X = x, let a submission be a 1 with probability p(x) or, in another
exchange, p̃(x); both increase in x. If

    p̃(x+1)/p̃(x) >= p(x+1)/p(x)   and   (1-p̃(x+1))/(1-p̃(x)) <= (1-p(x+1))/(1-p(x))   for all x,

then δ(ε) of p is at most that of p̃, at every ε and t, in both directions. *Proof.* By multiplication over successive
x, both inequalities also hold for x₂ against x₁ if x₁ < x₂. So p(x) = a + c p̃(x) at these two points, for some c > 0
and a >= 0 with a + c <= 1: each submission under p is a post-processing of one under p̃. Under p, take the test "fewer
than j ones", with power F(x). Under p̃, take the randomised threshold test that has the same power at one of these two
points; it is the best test by Neyman and Pearson. So the test under p is no better for telling x₁ from x₂. Now δ is the
largest of Σ_x ψ(x) F(x) over tests, where ψ(x) = keep·Pr[X = x] - lose·Pr[X = x-1]. ψ changes its sign once, from + to
-, since the law of X is log-concave. Let x* be the last x with ψ(x) >= 0, and take the test under p̃ whose power at x*
is F(x*). Its power is at least F(x) where x < x* and at most F(x) where x > x*. So the sum is at least as large. In the
other direction the signs of ψ and the events are swapped.

*Revealed bits.* Let the noisy bits of b of S sources be revealed, and let r of these bits be ones. A submission is then
a one with probability g((r + x)/S), where x is the number of ones among the other bits. The kernel that
`dominating_kernel` returns satisfies the conditions of the comparison for all r = 0..b at once. If g is linear, the
result is x/(S-b), as in the exchange among S-b sources.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from p2p_sim.privacy.binomial_windows import UNIT, Floats

LARGEST_PEERS = 41
"""Largest number k of peers that a user may ask."""
_MARGIN = 1e-12
"""Relative margin for the rounding of ratios p(x+1)/p(x), whose error is approximately 1e-14."""


class Shares(NamedTuple):
    """The probability that a submission is a 1 (ones) and that it is a 0 (zeros), for each number of noisy ones."""

    ones: Floats
    zeros: Floats


class Kernel(ABC):
    """The probability that a submission is a 1, as a function of how many of the sources' noisy labels are 1.

    requests: largest number of peers whose labels a submission depends on; None if it is unknown, or if there are no
    peers.
    error: relative error of the kernel's values.
    """

    @property
    @abstractmethod
    def requests(self) -> int | None: ...

    @property
    @abstractmethod
    def error(self) -> float: ...

    @abstractmethod
    def shares(self, noisy: Floats, sources: int) -> Shares:
        """The probability that a submission is a 1 and that it is a 0, for each number of noisy labels that are 1: two
        arrays of the shape of `noisy`.

        Args:
            noisy: numbers of ones among all noisy labels. sources: S, how many users have a noisy label that
            submissions may depend on.
        """


class SmoothKernel(Kernel):
    """A kernel g(x/S) that depends on the share of noisy ones alone; non-decreasing, with g(1-p) = 1 - g(p)."""

    @abstractmethod
    def slope(self, p: float) -> float:
        """The derivative g'(p) of the probability g that a submission is a 1, at a share p of noisy labels that are 1.

        It is used for estimates that guide searches, and for no certified bound.
        """


@dataclass(frozen=True)
class MajorityKernel(SmoothKernel):
    """The kernel of a user who asks k peers and submits the majority of their noisy labels, k drawn from a fixed law.

    Args:
        weights: (k, probability) with k odd and ascending, each probability above 0.
    """

    weights: tuple[tuple[int, float], ...]

    @property
    def requests(self) -> int:
        """The largest number k of peers that a user may ask."""
        return self.weights[-1][0]

    @property
    def error(self) -> float:
        """Upper bound of the relative error of the probabilities that `shares` gives.

        Let u = 2^-53. The share p of ones and q = 1 - p are off by u each, which counts up to k times in their powers,
        k being the largest number of peers. Each of two powers adds 2u, products and weights add a few u, and each term
        summed adds u.
        """
        return (self.requests + sum((k + 1) // 2 for k, _ in self.weights) + 16.0) * UNIT

    def shares(self, noisy: Floats, sources: int) -> Shares:
        """For each number `noisy` of noisy ones among the sources: Pr[a submission is 1] and Pr[it is 0].

        They are g(x/S) and 1 - g(x/S), where x is the number of noisy ones; the latter is computed without
        cancellation.
        """
        p, q = noisy / sources, (sources - noisy) / sources
        return Shares(self.majority(p, q), self.majority(q, p))

    def majority(self, p: Floats, q: Floats) -> Floats:
        """g(p), elementwise: the probability that more than half of a user's peers have the noisy label 1. q is 1-p."""
        total = np.zeros_like(p)
        for k, weight in self.weights:
            for ones in range((k + 1) // 2, k + 1):
                total += weight * math.comb(k, ones) * p**ones * q ** (k - ones)
        return total

    def slope(self, p: float) -> float:
        """The derivative g'(p) of the probability g(p) that a submission is a 1, at a share p of noisy labels that are
        1.

        It is Σ w_k k C(k-1, (k-1)/2) (p(1-p))^((k-1)/2). The sum is over all odd numbers k of peers that a user may
        ask, w_k is the probability of k, and C(a, b) the number of ways to choose b of a.
        """
        return sum(w * k * math.comb(k - 1, k // 2) * (p * (1.0 - p)) ** (k // 2) for k, w in self.weights)


@dataclass(frozen=True, eq=False)
class TabulatedKernel(Kernel):
    """A kernel given by its values at x = first, first + 1, ... noisy ones, which count as exact.

    table: for each of these x, the probability that a submission is a 1.
    """

    first: int
    table: Floats
    requests = None
    error = 2.0 * UNIT

    def shares(self, noisy: Floats, sources: int) -> Shares:
        """The probability that a submission is a 1 and that it is a 0, for each number of noisy labels that are 1, from
        the table.

        The probability of a 1 is the table's value, which counts as exact; the probability of a 0 is the rounded
        difference of this value from 1.

        Args:
            noisy: numbers of ones among the noisy labels, in the table's range. sources: not used.

        Raises:
            ValueError: a number lies outside the table.
        """
        index = np.asarray(noisy, dtype=np.int64) - self.first
        if index.size and not 0 <= index.min() <= index.max() < len(self.table):
            raise ValueError(f"noisy = {noisy.min():g}..{noisy.max():g}: lies outside the table")
        share = self.table[index]
        return Shares(share, 1.0 - share)


def dominating_kernel(kernel: Kernel, sources: int, *, revealed: int, first: int, last: int) -> TabulatedKernel | None:
    """A law of submissions that is at least as bad for privacy as the given one if the noisy labels of b users are told
    to the learner, whatever these labels are.

    So one evaluation of δ certifies all data sets that differ in these b users. If r of their labels and x of the
    others are 1, a submission is a 1 with probability g((r + x)/S). The result is a table of a probability p̃(x) by x
    alone, with which δ(ε) is at least as large as with g for each r = 0..b. None if no such table is found.

    Args:
        kernel: g. sources: S, the number of users. revealed: b, at least 1. first, last: smallest and largest x.
    """
    share, rest = kernel.shares(np.arange(first, last + revealed + 1, dtype=np.float64), sources)
    count, window = last - first, revealed + 1
    if share[0] <= 0.0 or rest[-1] <= 0.0:
        return None
    # for each x: the largest p(x+1)/p(x) and the smallest (1-p(x+1))/(1-p(x)) of r = 0..b
    start = -(window // 2)
    rise = scipy.ndimage.maximum_filter1d(share[1:] / share[:-1], window, origin=start)[:count] * (1.0 + _MARGIN)
    fall = scipy.ndimage.minimum_filter1d(rest[1:] / rest[:-1], window, origin=start)[:count] * (1.0 - _MARGIN)
    # p̃/(1-p̃) is g(x/S)/(1-g((x+b)/S)) in the middle; from there go up and down by the smallest steps
    middle = count // 2
    value = centre = float(share[middle] / (share[middle] + rest[middle + revealed]))
    above, below = [], []
    # upwards p̃ is multiplied by `rise`, or 1-p̃ by `fall`, whichever gives the larger p̃; 4 UNIT is added for rounding
    for more, less in zip(rise[middle:].tolist(), fall[middle:].tolist(), strict=True):
        value = max(value * more, 1.0 - (1.0 - value) * less + 4.0 * UNIT)
        above.append(value)
    # downwards p̃ is divided by `rise`, or 1-p̃ by `fall`, whichever gives the smaller p̃
    value = centre
    for more, less in zip(rise[:middle][::-1].tolist(), fall[:middle][::-1].tolist(), strict=True):
        value = min(value / more, 1.0 - (1.0 - value) / less - 4.0 * UNIT)
        below.append(value)
    table = np.array([*below[::-1], centre, *above])
    return TabulatedKernel(first, table) if table[0] > 0.0 and table[-1] < 1.0 else None
