"""One cluster as an observer knows it: what is random besides the target's noisy bit."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from p2p_sim.privacy.binomial_windows import UNIT, Floats, bernstein_window, binomial_pmf, centred_rounding


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
    """

    sources: int
    zeros: int
    ones: int
    flip_prob: float
    known_ones: int = 0

    def noisy_ones(self, log_tail: float) -> tuple[int, Floats]:
        """First value and probabilities of X, the noisy ones among all but the target.

        X = known_ones + ones - Bin(ones, α) + Bin(zeros, α); the window misses at most 6 exp(log_tail). Flips among
        the ones are counted, not those who keep their label, since 1-α would be rounded.
        """
        return self.spaced_ones(log_tail, 1)

    def spaced_ones(self, log_tail: float, step: int) -> tuple[int, Floats]:
        """The same at the multiples of `step` within the window only: the first of them, and their probabilities."""
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


@lru_cache(maxsize=1024)
def _flips(users: int, flip_prob: float, log_tail: float) -> tuple[int, Floats, float]:
    """Of the number of flips among so many users: first value, probabilities and their relative error."""
    mean, variance = users * flip_prob, users * flip_prob * (1.0 - flip_prob)
    low, high = bernstein_window(mean, variance, users, log_tail)
    pmf = binomial_pmf(low, high, users, flip_prob)
    pmf.flags.writeable = False
    return low, pmf, centred_rounding(low, high, mean, variance)
