"""One cluster as an observer knows it: what is random besides the target's noisy bit.

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

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from p2p_sim.privacy.binomial_windows import UNIT, Floats, bernstein_window, binomial_pmf, centred_rounding
from p2p_sim.privacy.exchange.majority_kernel import Kernel

_BELOW = 16.0
"""By so much the logarithm of what is skipped lies below that of a truncation."""


@dataclass(frozen=True)
class OtherUsers:
    """The users who can be fetched, each with probability 1/sources.

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

    def noisy_ones(self, log_tail: float) -> tuple[int, Floats]:
        """First value and probabilities of X, the noisy ones among all but the target.

        X = known_ones + ones - Bin(ones, α) + Bin(zeros, α); the window misses at most 6 exp(log_tail). Flips among
        the ones are counted, not those who keep their label, since 1-α would be rounded.
        """
        return self.spaced_ones(log_tail, 1)

    def spaced_ones(self, log_tail: float, step: int) -> tuple[int, Floats]:
        """The multiples of `step` within the window of `noisy_ones`: the first of them, and their probabilities."""
        alpha = self.flip_prob
        first, flipped, _ = _flips(self.ones, alpha, log_tail)
        low, risen, _ = _flips(self.zeros, alpha, log_tail)
        start, count = low + self.ones - first - len(flipped) + 1, len(flipped) + len(risen) - 1
        others = self.zeros + self.ones
        mean = self.ones * (1.0 - alpha) + self.zeros * alpha
        low, high = bernstein_window(mean, others * alpha * (1.0 - alpha), others, log_tail)
        low, high = max(low, start) + self.known_ones, min(high, start + count - 1) + self.known_ones
        low, start = low + -low % step, start + self.known_ones
        chosen = slice(low - start, high + 1 - start, step)
        if step == 1 or min(len(flipped), len(risen)) == 1:
            return low, np.convolve(flipped[::-1], risen)[chosen]
        shorter, longer = sorted((flipped[::-1], risen), key=len)
        windows = sliding_window_view(np.pad(longer, len(shorter) - 1), len(shorter))
        return low, windows[chosen] @ shorter[::-1]

    def rounding(self, log_tail: float) -> tuple[float, int]:
        """Charged for the probabilities of X: a relative error, and how often the smallest positive number.

        The convolution of windows of L and L' values keeps their relative errors and adds (min(L, L') + 1)u; by
        underflow each value gets at most 2L + 2L' + min(L, L') times 2^-1074.
        """
        parts = [_flips(users, self.flip_prob, log_tail) for users in (self.ones, self.zeros)]
        widths = [len(pmf) for _, pmf, _ in parts]
        return sum(error for _, _, error in parts) + (min(widths) + 1) * UNIT, 3 * sum(widths)


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


@lru_cache(maxsize=1024)
def _flips(users: int, flip_prob: float, log_tail: float) -> tuple[int, Floats, float]:
    """Of the number of flips among so many users: first value, probabilities and their relative error."""
    mean, variance = users * flip_prob, users * flip_prob * (1.0 - flip_prob)
    low, high = bernstein_window(mean, variance, users, log_tail)
    pmf = binomial_pmf(low, high, users, flip_prob)
    pmf.flags.writeable = False
    return low, pmf, centred_rounding(low, high, mean, variance)
