"""The learner's view of one cluster: the law of (submissions, ones among them) in two neighbouring worlds.

Given the noisy labels, the t released labels of a cluster of n are independent and 1 with probability J/n, J being the
number of noisy ones. With X noisy ones among the users other than the target, of whom `ones` hold label 1,

    A(k) = E Bin(k; t, X/n)        (the target's noisy bit is 0)
    B(k) = E Bin(k; t, (X+1)/n)    (it is 1),      X ~ Bin(ones, 1-α) + Bin(n-1-ones, α),

and the view is (1-α)A + αB if the target's label is 0, αA + (1-α)B if it is 1.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.privacy.windows import Floats, bernstein_window, binomial_pmf, log_choose


@dataclass(frozen=True)
class Submissions:
    """The law of t ~ Bin(n, θ), cut into blocks; δ given t does not decrease in t, so blocks bracket the average.

    counts: values of t at which δ is evaluated, ascending.
    lower, upper: weights of δ at `counts` that give a lower and an upper sum.
    lost: probability that is charged to the upper sum in full.
    """

    counts: tuple[int, ...]
    lower: Floats
    upper: Floats
    lost: float

    @staticmethod
    def of(cluster_size: int, sampling_rate: float, log_tail: float, log_delta: float) -> "Submissions":
        """Blocks so narrow that δ changes by a few percent within one, wider where t is improbable."""
        n, theta = cluster_size, sampling_rate
        if theta == 1.0:
            return Submissions((n,), np.ones(1), np.ones(1), 0.0)
        variance = n * theta * (1.0 - theta)
        first, last = bernstein_window(n * theta, variance, n, log_tail)
        mass = binomial_pmf(first, last, n, theta)
        # d ln δ / d ln t is about -ln δ / (1+θ) in the Gaussian limit
        narrow = min(0.05 * n * theta * (1.0 + theta) / max(-log_delta, 1.0), 0.25 * math.sqrt(variance))
        if math.isinf(log_tail):
            narrow = 0.0  # every t on its own
        starts, t = [], first
        while t <= last:
            starts.append(t)
            t += max(1, int(narrow * (1.0 + (t - n * theta) ** 2 / (4.0 * variance))))
        held = np.add.reduceat(mass, np.array(starts) - first)
        # a block [t, next t) is charged δ(t) below and δ(next t) above; a single value is charged as it is
        ends = np.array([*starts[1:], min(last + 1, n)])
        single = ends - np.array(starts) <= 1
        lower, upper = np.append(held, 0.0), np.append(np.where(single, held, 0.0), 0.0)
        upper[1:] += np.where(single, 0.0, held)
        below = math.exp(log_tail) if first > 0 else 0.0
        above = math.exp(log_tail) if last < n else 0.0
        upper[0] += below
        used = (lower > 0) | (upper > 0)
        counts = np.array([*starts, ends[-1]])[used]
        return Submissions(tuple(int(t) for t in counts), lower[used], upper[used], above)


def noisy_ones(cluster_size: int, flip_prob: float, ones: int, log_tail: float) -> tuple[int, Floats]:
    """First value and probabilities of X on a window that misses at most 6 exp(log_tail)."""
    first, pmf = 0, np.ones(1)
    for users, probability in ((ones, 1.0 - flip_prob), (cluster_size - 1 - ones, flip_prob)):
        spread = users * flip_prob * (1.0 - flip_prob)
        low, high = bernstein_window(users * probability, spread, users, log_tail)
        first += low
        pmf = np.convolve(pmf, binomial_pmf(low, high, users, probability))
    others = cluster_size - 1
    mean = ones * (1.0 - flip_prob) + (others - ones) * flip_prob
    low, high = bernstein_window(mean, others * flip_prob * (1.0 - flip_prob), others, log_tail)
    low = max(low, first)
    return low, pmf[low - first : high + 1 - first]


def likelihoods(
    cluster_size: int, flip_prob: float, ones: Sequence[int], counts: Sequence[int], log_tail: float
) -> Iterator[tuple[Floats, Floats]]:
    """For each t in `counts`, A and B as arrays (k, len(ones)) on a window of k.

    For each data set and t the windows of X and of k together miss at most 8 exp(log_tail) of the probability.
    """
    parts = [noisy_ones(cluster_size, flip_prob, m, log_tail) for m in ones]
    low = min(first for first, _ in parts)
    high = max(first + pmf.size for first, pmf in parts)  # one past the largest X
    weights = np.zeros((high - low, len(ones)))
    for column, (first, pmf) in enumerate(parts):
        weights[first - low : first - low + pmf.size, column] = pmf
    for t in counts:
        kernel = _kernel(cluster_size, t, low, high, log_tail)
        yield kernel[:, :-1] @ weights, kernel[:, 1:] @ weights


def _kernel(cluster_size: int, t: int, low: int, high: int, log_tail: float) -> Floats:
    """Bin(k; t, j/n) as an array (k, j), j = low..high, for all k that matter for any of these j."""
    n = cluster_size
    first = bernstein_window(t * low / n, t * low / n * (1.0 - low / n), t, log_tail)[0]
    last = bernstein_window(t * high / n, t * high / n * (1.0 - high / n), t, log_tail)[1]
    k = np.arange(first, last + 1, dtype=np.float64)
    j = np.arange(low, high + 1, dtype=np.float64)
    inner = (j > 0) & (j < n)
    kernel = np.zeros((k.size, j.size))
    share = j[inner] / n
    exponent = np.multiply.outer(k, np.log(share) - np.log1p(-share))
    exponent += t * np.log1p(-share)
    exponent += log_choose(t, k)[:, None]
    kernel[:, inner] = np.exp(exponent, out=exponent)
    kernel[k == 0, j == 0] = 1.0
    kernel[k == t, j == n] = 1.0
    return kernel
