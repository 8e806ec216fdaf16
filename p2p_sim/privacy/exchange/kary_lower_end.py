"""Lower bounds of δ for the exchange with K classes: the law of a statistic in one data set, by Fourier series.

The target is the user whose label is protected. In the data set her label changes from class x to class x', and all
others hold a third class. There are n users and t ~ Bin(n, θ) submissions. Of these, k are x and k' are x'. Take a
statistic d = w k - w' k' with weights w and w'. As d is a post-processing of the submissions, its hockey-stick
divergence is a lower bound of δ. Let N of the noisy labels be x, and N' be x'. Given N and N', each user independently
adds w to d with probability θN/n, -w' with probability θN'/n, and 0 otherwise:

    E e^(iud) = (1 + θ N/n (e^(iwu) - 1) + θ N'/n (e^(-iw'u) - 1))^n.

Let α be the flip probability. Each other user counts in N with probability α' = α/(K-1), and in N' with the same
probability. So the others' numbers are multinomial. The target adds 1 to N, to N' or to neither.

Rounding, with η = 2^-53. Powers are taken by squaring. No base has a modulus above one. A product of complex numbers
has a relative error of at most √5·η (Brent, Percival and Zimmermann 2007). So the power adds less than 3nη, and an
error of the base counts n times. NumPy's complex expm1 has a relative error below 4η; this is measured, not proved. So
each power is off by less than (64 + 8n)η. At a frequency u, E e^(iud) is the weighted mean of such powers over P pairs
(N, N'). The sum over the pairs adds Pη. A probability of d is the mean of M such values, each times a number of modulus
one. So the probability has the same error as one value. `_DOUBT` charges four times this error for each of the M
probabilities.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import UNIT, VALUE_ERROR, Floats, bernstein_window, binomial_pmf

LOG_TAIL = -42.0
"""ln of the probability that a window of values may leave out on each side."""
WEIGHTS = ((1, 1), (1, 0), (0, 1))
"""The pairs (w, w') of the statistics that are tried."""
MOST = 40_000_000
"""Largest number of terms for one statistic: three for each pair (N, N') and each frequency u. A statistic that needs
more terms is left out."""
LOG_NOTHING = -50.0
"""A value of the series is left out if the ln of its estimated size is below this. Such a value adds to the stated
error. Clusters below 200 users keep all values."""
_DOUBT = 4.0
"""Safety factor: the stated error of a value is this many times the error that is measured and proved."""
Complex = NDArray[np.complex128]


@dataclass(frozen=True)
class Statistic:
    """The law of a statistic of the submissions under each of the target's two labels.

    first, second: (M,) probabilities of the statistic's values if the target's label is x, and if it is x'.
    error: bound of the error of any sum of probabilities under one label.
    """

    first: Floats
    second: Floats
    error: float

    def delta(self, epsilon: float) -> float:
        """A lower bound of the learner's δ(ε): the hockey-stick divergence of the two laws, in the larger direction."""
        grow = math.exp(epsilon)
        sums = [
            float(np.maximum(p - grow * q, 0.0).sum())
            for p, q in ((self.first, self.second), (self.second, self.first))
        ]
        return max(0.0, max(sums) * (1.0 - 1e-12) - (1.0 + grow) * self.error)


@lru_cache(maxsize=64)
def statistics(users: int, num_classes: int, flip_prob: float, sampling_rate: float) -> list[Statistic]:
    """The laws of up to three statistics of a cluster's submissions, under two labels x and x' of the target. Each
    statistic gives a lower bound of δ at any ε.

    All other users hold a third class; k submissions are x, and k' are x'. The statistics are k - k', k and k'. A
    statistic that needs more than 40 million terms is left out. For two classes the list is empty, as there is no third
    class.

    Args:
        users: n. num_classes: K. flip_prob: α. sampling_rate: θ.
    """
    if num_classes < 3:
        return []
    laws = (_law(users, num_classes, flip_prob, sampling_rate, up=up, down=down) for up, down in WEIGHTS)
    return [law for law in laws if law is not None]


def _law(users: int, classes: int, flip_prob: float, rate: float, *, up: int, down: int) -> Statistic | None:
    """The law of d = up·k - down·k' under the target's label x and under x'; None if the computation would take too
    long.

    Here k submissions are x and k' are x'. All other users hold a third class.

    Args:
        users: n. classes: K. flip_prob: α. rate: θ. up, down: weights of k and k', each 0 or 1.
    """
    flipped = flip_prob / (classes - 1)
    counts, weights, missing = _noisy_counts(users - 1, flipped, up, down)
    # the statistic is taken modulo M = `width`; two values may rarely become equal, which only lowers the bound
    reach = 9.0 * math.sqrt((up + down) * 2.0 * (users * flipped * rate)) + 24.0
    width = 1 << math.ceil(math.log2(min(2.0 * reach, (up + down) * users + 2.0)))
    frequencies = width // 2 + 1
    if counts.shape[1] * frequencies * 3 > MOST:
        return None
    # E e^(iud) at each frequency u, if the target's noisy label is x ("up"), x' ("down") or another ("none")
    series = {kind: np.zeros(frequencies, dtype=np.complex128) for kind in ("up", "down", "none")}
    for index, u in enumerate(2.0 * math.pi * np.arange(frequencies) / width):
        rise, fall = rate * np.expm1(1j * up * u) / users, rate * np.expm1(-1j * down * u) / users
        moved = counts[0] * rise + counts[1] * fall
        size = 0.5 * users * np.log1p(np.maximum(2.0 * moved.real + moved.real**2 + moved.imag**2, -1.0 + UNIT)).max()
        # the target changes the base, 1 + z, by at most 2/n. If |1 + z| >= 1/2, this changes n ln|1 + z| by at most 4.
        # If |1 + z| < 1/2, the power is below (0.51)^200
        if size < LOG_NOTHING and users >= 200:
            missing += 2.0 * math.exp(LOG_NOTHING + 5.0)
            continue
        for kind, own in (("up", rise), ("down", fall), ("none", 0.0)):
            series[kind][index] = weights @ _power(1.0 + (moved + own), users)
    # back to probabilities; label x becomes the noisy label x with probability 1 - α, and each other class with α'
    laws = {kind: np.fft.irfft(np.conj(values), width) for kind, values in series.items()}
    true, rest = 1.0 - flip_prob, (classes - 2) * flipped
    first = true * laws["up"] + flipped * laws["down"] + rest * laws["none"]
    second = flipped * laws["up"] + true * laws["down"] + rest * laws["none"]
    series_error = _DOUBT * (64.0 + 8.0 * users + counts.shape[1]) * UNIT * width
    return Statistic(first, second, series_error + missing + VALUE_ERROR * (counts.shape[1] + 1))


def _power(base: Complex, n: int) -> Complex:
    """Elementwise base^n by squaring, for complex numbers of modulus at most one."""
    power = base.copy()
    for digit in f"{n:b}"[1:]:
        power *= power
        if digit == "1":
            power *= base
    return power


class CountPairs(NamedTuple):
    """The joint law of (N, N'), where N of the others' noisy labels are x and N' are x'.

    counts: (2, pairs) values of N and N'. probabilities: (pairs,). missing: probability of the pairs left out.
    """

    counts: Floats
    probabilities: Floats
    missing: float


def _noisy_counts(others: int, flipped: float, up: int, down: int) -> CountPairs:
    """The joint law of N and N': how many of the other users' noisy labels are x, and how many are x'.

    All others hold a third class. Each noisy label is x with probability `flipped`, and x' with the same probability.
    The result lists pairs (N, N') with probabilities. `missing` bounds the probability of all pairs that are left out.

    Args:
        others: number of other users. up, down: if `up` is 0, N counts as 0; if `down` is 0, N' counts as 0.
    """
    if not (up and down):
        low, high = bernstein_window(others * flipped, others * flipped * (1.0 - flipped), others, LOG_TAIL)
        alone = np.arange(low, high + 1.0)
        counts = np.array([alone * bool(up), alone * bool(down)])
        return CountPairs(counts, binomial_pmf(low, high, others, flipped), 2.0 * math.exp(LOG_TAIL))
    # s noisy labels are x or x'; each of these is x with probability 1/2
    both = 2.0 * flipped
    low, high = bernstein_window(others * both, others * both * (1.0 - both), others, LOG_TAIL)
    parts: list[Floats] = []
    for s, weight in zip(range(low, high + 1), binomial_pmf(low, high, others, both), strict=True):
        first, last = bernstein_window(0.5 * s, 0.25 * s, s, LOG_TAIL)
        split = np.arange(first, last + 1.0)
        parts.append(np.stack([split, s - split, weight * binomial_pmf(first, last, s, 0.5)]))
    table = np.concatenate(parts, axis=1)
    return CountPairs(table[:2], table[2], 4.0 * math.exp(LOG_TAIL))
