"""Numbers with intervals, and confidence intervals of means over replicates."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """An estimated or predicted number with its two-sided 95% interval; the ends are NaN if there is no interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if not np.isfinite(self.low):
            return f"{self.value:.3g} (no interval)"
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"

    def __contains__(self, measured: float) -> bool:
        return self.low <= measured <= self.high


@dataclass(frozen=True)
class Mean(Estimate):
    """A mean over replicates with its two-sided confidence interval, and the number of replicates."""

    replicates: int

    def __str__(self) -> str:
        if self.replicates < 2:
            return f"{self.value:z.4f} (1 replicate, no interval)"
        return f"{self.value:z.4f} [{self.low:z.4f}, {self.high:z.4f}]"

    @property
    def above_zero(self) -> bool:
        """Whether the mean counts as above 0: the lower end of the interval must be above 0. A single replicate has no
        interval; then the mean itself must be above 0.
        """
        return (self.low if self.replicates > 1 else self.value) > 0

    def within(self, least: float, most: float) -> "Mean":
        """The mean with both ends of its interval moved into [least, most]. The true mean must lie in this range. So
        the interval contains the true mean at least as often as before.
        """
        return replace(self, low=min(max(self.low, least), most), high=max(min(self.high, most), least))


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> Mean:
    """The mean of one or more independent replicates with Student's t confidence interval; a single one gives NaN ends.

    >>> str(mean_interval([1.0, 2.0, 3.0]))
    '2.0000 [-0.4841, 4.4841]'
    """
    from scipy.special import stdtrit

    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or data.size == 0:
        raise ValueError(f"values of shape {data.shape}: a non-empty vector is needed")
    mean = float(data.mean())
    if data.size == 1:
        return Mean(mean, float("nan"), float("nan"), 1)
    half = float(stdtrit(data.size - 1, 0.5 + confidence / 2) * data.std(ddof=1) / np.sqrt(data.size))
    return Mean(mean, mean - half, mean + half, data.size)


def expected_misses(sizes: ArrayLike, rate: float, true_rate: float, tail: float) -> float:
    """The expected number of exact (Clopper-Pearson) confidence intervals that do not contain `rate`, if a hit has the
    probability `true_rate`. With `true_rate` = `rate`, this is the number to expect by chance. Many more misses speak
    against `rate`.

    The interval of k hits in n trials lies above `rate` if at least k hits have a probability below `tail` under
    `rate`. It lies below `rate` if at most k hits have a probability below `tail`. For each interval, the result adds
    the probability under `true_rate` of all such k.

    Args:
        sizes: (C,) trials behind each of C intervals, each a whole number of at least 1. rate: the rate that intervals
        contain or miss, 0 to 1. true_rate: the probability of a hit, 0 to 1. tail: error probability of each end of an
        interval, in (0, 1/2).

    >>> round(expected_misses([180] * 20, 0.5, 0.5, 0.025), 2), round(expected_misses([180] * 20, 0.5, 0.4, 0.025), 1)
    (0.88, 15.1)
    """
    from scipy.stats import binom

    trials = np.asarray(sizes, dtype=np.int64)
    few = binom.ppf(tail, trials, rate) - 1  # largest k such that at most k hits have a probability below `tail`
    many = binom.isf(tail, trials, rate) + 1
    return float(np.sum(binom.cdf(few, trials, true_rate) + binom.sf(many - 1, trials, true_rate)))
