"""Kernels: the probability that a submission is a 1, as a function of how many of all users' noisy labels are 1.

A user asks an odd number k of peers, drawn uniformly with replacement from all n users, herself included. She submits
the majority of their noisy labels. If N of the n noisy labels are ones, her submission is a one with probability
g_k(N/n), where g_k(p) = Pr[Bin(k, p) > k/2]. If k is random, this probability is g(N/n), where g is a mixture of the
g_k. The function g increases, with g(0) = 0 and g(1-p) = 1 - g(p). Given N, submissions are independent. The label
exchange is the case k = 1, with g(p) = p.

**Most facts of the label exchange need only that g increases.** The target is the user whose label is protected.

- The number of ones among t submissions has the law A if the target's noisy bit is 0, and B if it is 1. The learner
  needs only this number, since given N the submissions are independent and equally distributed.
- The binomial kernel is totally positive in (ones, N). So B/A is monotone, and the learner's best event is "fewer than
  j ones" for some j, or the complement of this event.
- δ given t does not decrease in t, since the learner may ignore submissions. Further rounds add submissions.
- Because g(1-p) = 1 - g(p), swapping the labels maps data sets onto each other.
- Let X be the number of ones among the other noisy bits. `direct_sum` sums over some values of X only. The error bound
  there uses the number of users on whose bits the submissions depend, at most k t.

**One fact needs a linear g.** Let the bits of some users be revealed. With linear g, the learner can also be
told which submissions carry these bits. The other submissions form a smaller exchange. For other g, a comparison
replaces this fact.

*Comparison.* Let the law of X be log-concave. Given X = x, let a submission be a 1 with probability p(x) or, in another
exchange, p̃(x). Both increase in x. If

    p̃(x+1)/p̃(x) >= p(x+1)/p(x)   and   (1-p̃(x+1))/(1-p̃(x)) <= (1-p(x+1))/(1-p(x))   for all x,

then δ(ε) of p is at most the δ(ε) of p̃, at every ε and t, in both directions.

*Proof.* Take x₁ < x₂. By multiplication over successive x, both inequalities also hold for x₂ against x₁. So
p(x) = a + c p̃(x) at these two points, for some c > 0 and a >= 0 with a + c <= 1. Hence each submission under p is a
post-processing of a submission under p̃. Let F(x) be the power of the test "fewer than j ones" under p. Under p̃, take
the randomised threshold test with the same power at one of these two points. By Neyman and Pearson, the test under p
tells x₁ from x₂ no better.

δ is the largest sum Σ_x ψ(x) F(x) over tests. Here ψ(x) = keep·Pr[X = x] - lose·Pr[X = x-1], with positive factors that
depend on ε and the flip probability only. As the law of X is log-concave, ψ changes its sign once, from + to -. Let x*
be the last x with ψ(x) >= 0. Take the threshold test under p̃ whose power at x* is F(x*). The power of this test is at
least F(x) for x < x*, and at most F(x) for x > x*. So the sum is at least as large. In the other direction, swap the
signs of ψ and the events. ∎

*Revealed bits.* Reveal the noisy bits of b of S users, and let r of these bits be ones. Then a submission is a one with
probability g((r + x)/S), where x is the number of ones among the other bits. The kernel of `dominating_kernel`
satisfies the conditions of the comparison for all r = 0..b at once. If g is linear, this kernel is x/(S-b), as in the
exchange among S-b users.
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
"""Relative margin for the rounding of ratios p(x+1)/p(x). Their error is approximately 1e-14."""


class Shares(NamedTuple):
    """The probability that a submission is a 1 (ones) and that it is a 0 (zeros), for each number of noisy ones."""

    ones: Floats
    zeros: Floats


class Kernel(ABC):
    """The probability that a submission is a 1, as a function of how many noisy labels are 1.

    requests: largest number of peers whose labels a submission depends on. None: unknown, or there are no peers.
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
        """The probability that a submission is a 1, and the probability that it is a 0: two arrays of the shape of
        `noisy`.

        Args:
            noisy: numbers of ones among all noisy labels. sources: S, how many users have a noisy label that
            submissions may depend on.
        """


class SmoothKernel(Kernel):
    """A kernel g(x/S) of the share of noisy ones alone. g does not decrease, and g(1-p) = 1 - g(p)."""

    @abstractmethod
    def slope(self, p: float) -> float:
        """The derivative g'(p) at a share p of noisy labels that are 1.

        The derivative only guides searches.
        """


@dataclass(frozen=True)
class MajorityKernel(SmoothKernel):
    """The kernel of a user who asks k peers and submits the majority of their noisy labels; k has a fixed law.

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

        Let u = 2^-53. The shares p of ones and q = 1 - p are off by u each. In a power of p or q this error counts up
        to k times, where k is the largest number of peers. Each of two powers adds 2u, products and weights add a few
        u, and each term of the sum adds u.
        """
        return (self.requests + sum((k + 1) // 2 for k, _ in self.weights) + 16.0) * UNIT

    def shares(self, noisy: Floats, sources: int) -> Shares:
        """Pr[a submission is 1] and Pr[it is 0], for each number x in `noisy` of noisy ones: g(x/S) and 1 - g(x/S).

        The second probability is computed without cancellation.
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
        """The derivative g'(p) at a share p of noisy labels that are 1.

        This is the sum over k of w_k k C(k-1, (k-1)/2) (p(1-p))^((k-1)/2). Here w_k is the probability that a user asks
        k peers, and C(a, b) the number of ways to choose b of a.
        """
        return sum(w * k * math.comb(k - 1, k // 2) * (p * (1.0 - p)) ** (k // 2) for k, w in self.weights)


@dataclass(frozen=True, eq=False)
class TabulatedKernel(Kernel):
    """A kernel given by a table of values at x = first, first + 1, ... noisy ones. The values count as exact.

    table: for each of these x, the probability that a submission is a 1.
    """

    first: int
    table: Floats
    requests = None
    error = 2.0 * UNIT

    def shares(self, noisy: Floats, sources: int) -> Shares:
        """The probability that a submission is a 1, from the table, and the probability that it is a 0, the rounded
        difference from 1.

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
    """A kernel that is at least as bad for privacy as the given kernel if b users' noisy labels are told to the
    learner.

    This holds whatever these labels are. So one evaluation of δ certifies all data sets that differ in these b users.
    Let r of the b labels and x of the others be 1. Then a submission is a 1 with probability g((r + x)/S). The result
    is a table p̃(x). With p̃, δ(ε) is at least as large as with g, for each r = 0..b. None: no such table is found.

    Args:
        kernel: g. sources: S, the number of users. revealed: b, at least 1. first, last: smallest and largest x.
    """
    share, rest = kernel.shares(np.arange(first, last + revealed + 1, dtype=np.float64), sources)
    count, window = last - first, revealed + 1
    if share[0] <= 0.0 or rest[-1] <= 0.0:
        return None
    # for each x: the largest p(x+1)/p(x), and the smallest (1-p(x+1))/(1-p(x)), over r = 0..b
    start = -(window // 2)
    rise = scipy.ndimage.maximum_filter1d(share[1:] / share[:-1], window, origin=start)[:count] * (1.0 + _MARGIN)
    fall = scipy.ndimage.minimum_filter1d(rest[1:] / rest[:-1], window, origin=start)[:count] * (1.0 - _MARGIN)
    # in the middle, p̃/(1-p̃) is g(x/S)/(1-g((x+b)/S)); from there go up and down by the smallest steps
    middle = count // 2
    value = centre = float(share[middle] / (share[middle] + rest[middle + revealed]))
    above, below = [], []
    # upwards: multiply p̃ by `rise`, or 1-p̃ by `fall`, whichever gives the larger p̃; 4 UNIT allows for rounding
    for more, less in zip(rise[middle:].tolist(), fall[middle:].tolist(), strict=True):
        value = max(value * more, 1.0 - (1.0 - value) * less + 4.0 * UNIT)
        above.append(value)
    # downwards: divide p̃ by `rise`, or 1-p̃ by `fall`, whichever gives the smaller p̃
    value = centre
    for more, less in zip(rise[:middle][::-1].tolist(), fall[:middle][::-1].tolist(), strict=True):
        value = min(value / more, 1.0 - (1.0 - value) / less - 4.0 * UNIT)
        below.append(value)
    table = np.array([*below[::-1], centre, *above])
    return TabulatedKernel(first, table) if table[0] > 0.0 and table[-1] < 1.0 else None
