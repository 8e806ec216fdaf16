"""One cluster as an observer knows it: what is random besides the target's noisy bit."""

from dataclasses import dataclass

import numpy as np

from analysis.privacy.exchange.windows import Floats, bernstein_window, binomial_pmf


@dataclass(frozen=True)
class World:
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

        X = known_ones + Bin(ones, 1-α) + Bin(zeros, α); the window misses at most 6 exp(log_tail).
        """
        first, pmf = 0, np.ones(1)
        alpha = self.flip_prob
        for users, probability in ((self.ones, 1.0 - alpha), (self.zeros, alpha)):
            low, high = bernstein_window(users * probability, users * alpha * (1.0 - alpha), users, log_tail)
            first += low
            pmf = np.convolve(pmf, binomial_pmf(low, high, users, probability))
        others = self.zeros + self.ones
        mean = self.ones * (1.0 - alpha) + self.zeros * alpha
        low, high = bernstein_window(mean, others * alpha * (1.0 - alpha), others, log_tail)
        low = max(low, first)
        return low + self.known_ones, pmf[low - first : high + 1 - first]
