"""Bounds of δ(ε) for Algorithm 1 of the clustering paper, for two classes, if only noisy labels are released.

In this module `scale` is σ: the noise on a share has scale σ/n. `threshold` is τ, the least noisy share.
`resampling_prob` is λ.

Let Q = q̃₁ be the random noisy share of label 1 if J of n users hold label 1. Let Bin(k; n, p) be the binomial
probability of k ones in n draws, and V_J(k) = E Bin(k; n, Q). With probability λ a label is resampled: it is replaced
by a draw that is a one with probability Q. If every label is resampled (λ = 1), the learner sees n draws. Exactly k
draws are ones with probability V_J(k). Let m others hold label 1. Then J is m if the target's label is 0, and m + 1 if
her label is 1.

For λ < 1, an upper bound follows if the learner is told which of the others were resampled. This fact does not depend
on labels. Assume a number of resampled others that is hardly ever exceeded. This only raises δ, since fewer draws are a
post-processing of more draws. The learner sees these draws and the target's noisy label, which is a draw from Q with
probability λ. The joint law of both is a positive combination of V_J(k) and V_J(k + 1). A lower bound follows if the
learner looks only at the target and the others with label 0. The noisy label of each such other is a one with
probability λQ.

V_J is an integral over the law of Q. The distribution function F of Q is known in closed form (`noisy_share`). The
range of Q is cut into bins by nodes. On each bin the chord replaces Bin(k; n, ·), with a bound on the difference. So
V_J is a sum over nodes. The weights follow from the means of F over the bins. Since F increases, sums over finer points
bracket these means. Few points are enough for data sets that are far from the worst one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats, bernstein_window
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.rivals.noisy_share import share_cdf

LARGEST_CLUSTER = 2048
"""Largest number of users."""
LARGEST_WORK = 600_000
"""Largest product of the number of users and the number of counts of users over which the noise reaches."""
_ROUGH, _FINE = 16, 256
"""The number of points per count of users at which F is evaluated. The first number is for all data sets. The second
number is for data sets that may be the worst. For more noise `counts_delta` takes fewer points.
"""
_FEWEST_BINS = 192
_REACH = 28.0
"""F is evaluated up to this many scales of the noise on either side. The probability beyond is added to the bounds."""
_LOG_TAIL = -32.0
"""Logarithm of the probability of the counts that are left out on either side. The bounds allow for this probability.
"""
_BLOCK = 16
"""How many data sets are evaluated together for σ up to 1. More noise allows more, since the data sets share nodes."""


@dataclass(frozen=True)
class Bracketed:
    """Lower and upper bounds (R, N) of N probabilities for each of R successive data sets.

    missing: (R,) upper bounds of the probability that is left out. first: the number k of ones of the first column,
    where columns stand for such numbers.
    """

    lower: Floats
    upper: Floats
    missing: Floats
    first: int = 0


Views = tuple[Bracketed, Bracketed]
"""Laws of what the learner sees if the target's label is 0, and if it is 1, for successive data sets."""


def affordable(n: int, scale: float, threshold: float) -> bool:
    """Whether the bounds of δ(ε) for the noisy labels alone of two classes (`counts_delta`) take a few seconds at most.

    This is so for 2 to 2,048 users, positive and finite noise, and a least share below 1/2. In addition, n times the
    reach of the noise must be at most 600,000. The reach, in users, is the smaller of n(1-2τ) and 56σ.

    Args:
        n: users. scale: σ; the noise on a share has scale σ/n. threshold: τ, the least noisy share.
    """
    reach = min(n * (1.0 - 2.0 * threshold), 2.0 * _REACH * scale)
    return 0.0 < scale < math.inf and threshold < 0.5 and 2 <= n <= LARGEST_CLUSTER and n * reach <= LARGEST_WORK


def counts_delta(n: int, resampling_prob: float, scale: float, threshold: float, epsilon: float) -> Bracket:
    """Bounds of δ(ε) of the noisy labels alone, over all data sets and in both directions.

    Args:
        n: users, at least 2. resampling_prob: λ in (0, 1], the probability that a label is resampled. scale: σ; the
        noise on a share has scale σ/n. threshold: τ in [0, 1/2), the least noisy share. epsilon: ε, at least 0.
    """
    rough = max(4, round(_ROUGH / max(1.0, 0.5 * scale)))  # more noise makes F smoother
    fine = _FINE if n <= 64 else max(_ROUGH, round(_FINE / max(1.0, scale)))
    block = _blocks(n, resampling_prob, scale, threshold)
    # m up to (n-1)/2 is enough, since swapping the labels mirrors the other data sets. First, all blocks get few points
    firsts = range(0, (n - 1) // 2 + 1, _block_size(scale))
    coarse = {first: _divergences(block(first, rough), epsilon) for first in firsts}
    # Then the blocks that may hold the largest δ get many points, the worst block first
    lower, upper = max(bracket.lower for bracket in coarse.values()), 0.0
    for first in sorted(coarse, key=lambda first: -coarse[first].upper):
        if coarse[first].upper <= upper:
            break
        finer = _divergences(block(first, fine), epsilon)
        lower, upper = max(lower, finer.lower), max(upper, finer.upper)
    # for λ < 1 the blocks bound δ only from above. For the lower bound, try numbers of ones with few clipped shares and
    # little variation of the draws
    if resampling_prob < 1.0:
        promising = {0, *(min((n - 1) // 2, math.ceil(n * threshold + steps * scale)) for steps in (0, 1, 2, 4))}
        lower = max(
            _divergences(_zeros_alone(n, resampling_prob, scale, threshold, ones), epsilon).lower
            for ones in sorted(promising)
        )
    return Bracket(max(0.0, min(lower, 1.0)), min(upper, 1.0))


def _block_size(scale: float) -> int:
    """How many successive data sets are bounded together as a block: 16 for σ up to 1, and more for more noise."""
    return max(_BLOCK, int(_BLOCK * scale))


def _divergences(views: Views, epsilon: float) -> Bracket:
    """Bounds of the largest hockey-stick divergence Σ max(0, p - e^ε q) over data sets, in both directions.

    p and q are the laws for the target's two labels. Only bounds of each probability, and of the total that is left
    out, are known. The divergence is at least Σ max(0, p_lower - e^ε q_upper) - e^ε q_missing, and at most Σ max(0,
    p_upper - e^ε q_lower) + p_missing.

    Args:
        views: for labels 0 and 1, the bounds of the law of what the learner sees, with a row for each data set.
    """
    grow, lower, upper = math.exp(epsilon), 0.0, 0.0
    for p, q in (views, views[::-1]):
        gain = np.maximum(p.lower - grow * q.upper, 0.0).sum(axis=1)
        lower = max(lower, float((gain - grow * q.missing).max()))
        gain = np.maximum(p.upper - grow * q.lower, 0.0).sum(axis=1)
        upper = max(upper, float((gain + p.missing).max()))
    return Bracket(lower * (1.0 - 1e-12), upper * (1.0 + 1e-12))


@lru_cache(maxsize=1)
def _blocks(n: int, resampling_prob: float, scale: float, threshold: float) -> Callable[[int, int], Views]:
    """A function that bounds, for a block of data sets, the laws of what the learner sees for the target's labels 0 and
    1.

    The number m of others with label 1 stands for a data set. The function takes two numbers: the first m of a block,
    and the number of points per count of users at which F is evaluated. F is the distribution function of the noisy
    share of label 1. If λ is below 1, the laws bound δ from above only. Results of the last arguments, up to some 200
    MB, stay in memory, since ε(δ) needs the same blocks at many ε.
    """
    # the target, and a number of resampled others that is hardly ever exceeded
    mean = (n - 1) * resampling_prob
    draws = 1 + bernstein_window(mean, mean * (1.0 - resampling_prob), n - 1, _LOG_TAIL)[1]

    @cache
    def block(first: int, density: int) -> Views:
        last = min(first + _block_size(scale), (n - 1) // 2 + 1)
        return _views(
            draw_law(n, first, last, scale=scale, threshold=threshold, density=density, draws=draws),
            draws,
            resampling_prob,
            1.0,
        )

    return block


@lru_cache(maxsize=8)
def _zeros_alone(n: int, resampling_prob: float, scale: float, threshold: float, ones: int) -> Views:
    """Bounds of the laws of the noisy labels of the target and of all others who hold label 0.

    `ones` others hold label 1. The target's labels 0 and 1 have one law each, with one row. The laws bound δ from
    below: a learner may ignore all other noisy labels.
    """
    draws = draw_law(
        n, ones, ones + 1, scale=scale, threshold=threshold, density=_FINE, draws=n - ones, rate=resampling_prob
    )
    return _views(draws, n - ones, resampling_prob, resampling_prob)


def _views(draws: Bracketed, n: int, resampling_prob: float, rate: float) -> Views:
    """Bounds of the joint laws of the target's noisy label and of the number of ones among n-1 other noisy labels.

    Each of the others' noisy labels is a one with probability rate·Q, where Q is the random noisy share of label 1. If
    λ is 1, the target's noisy label is just another draw from Q. Then the laws describe the number of ones among all n.

    Args:
        draws: bounds of the mean over Q of Bin(k; n, rate·Q), (R, N), with a row for each number J of users with label
        1, and a column for each k. n: the number of draws, with the target's draw. resampling_prob: λ, the probability
        that a label is drawn anew from Q. rate: 1 if the others' labels are all drawn anew; λ if each label is drawn
        anew with probability λ and otherwise stays 0.

    Returns:
        For the target's labels 0 and 1, lower and upper bounds with a row for each data set.
    """
    zeros, ones = (
        Bracketed(draws.lower[rows], draws.upper[rows], draws.missing[rows], draws.first)
        for rows in (slice(None, -1), slice(1, None))
    )
    if resampling_prob == 1.0:
        return zeros, ones
    return _view(zeros, n, resampling_prob, rate, label=0), _view(ones, n, resampling_prob, rate, label=1)


def _view(draws: Bracketed, n: int, lam: float, rate: float, *, label: int) -> Bracketed:
    """Bounds of the joint law of the target's noisy label and the number k of ones among n-1 others.

    The target holds `label`. The columns are for her noisy label 1 and each k, then for her noisy label 0 and each k. Q
    is the random noisy share of label 1. Each of the others' noisy labels is a one with probability rate·Q. V(k) is the
    mean over Q of the binomial probability Bin(k; n, rate·Q). Count a draw of the target among the n draws. With
    probability (k+1)/n V(k+1) this draw is a one and k of the others are ones. With probability (1-k/n) V(k) this draw
    is a zero and k of the others are ones. Her noisy label is a draw from Q with probability λ, and her own label with
    probability 1-λ.

    Args:
        draws: bounds of V, with a row for each data set. lam: λ. rate: 1 if the others' labels are all drawn anew, else
        λ.
    """
    k = draws.first - 1 + np.arange(draws.lower.shape[1] + 1, dtype=np.float64)
    # lower and upper bounds of two joint probabilities: k others are ones, and the target's draw is a one, or a zero
    padded = [np.pad(table, ((0, 0), (1, 1))) for table in (draws.lower, draws.upper)]
    ones = [(k + 1.0) / n * table[:, 1:] for table in padded]
    zeros = [(1.0 - k / n) * table[:, :-1] * (k >= 0.0) for table in padded]
    # `first`: her noisy label is a one. This is λ/rate times `ones`, plus, if her own label is 1, 1-λ times the sum of
    # both tables. `second`: her noisy label is a zero. This is `balance` times `ones`, plus λ times `zeros` (1 times
    # `zeros` if her own label is 0). A negative `balance` needs the opposite bound of `ones`
    own = 1.0 - lam
    balance = (0.0 if label else own) - (lam / rate - lam)
    bounds = []
    for a_one, a_zero, balanced in zip(ones, zeros, ones if balance >= 0.0 else ones[::-1], strict=True):
        first = lam / rate * a_one + (own * (a_one + a_zero) if label else 0.0)
        second = (lam + (0.0 if label else own)) * a_zero + balance * balanced
        bounds.append(np.concatenate([first, np.maximum(second, 0.0)], axis=1))
    return Bracketed(bounds[0], bounds[1], draws.missing)


def draw_law(
    n: int,
    first: int,
    last: int,
    *,
    scale: float,
    threshold: float,
    density: int,
    draws: int | None = None,
    rate: float = 1.0,
) -> Bracketed:
    """Bounds of the mean over Q of the binomial probability Bin(k; draws, rate·Q), for J = first..last.

    The result has a row for each J and a column for each likely k. Q is the random noisy share of label 1 if J users
    hold this label. F is the distribution function of Q. The range of Q is cut into bins. On each bin a straight line
    replaces Bin(k; draws, rate·q) as a function of q. So the mean is Σ w B over the ends of all bins. Here B is the
    binomial probability at an end. The weight w follows from the means of F over the two bins that meet there. There
    are two errors. The means of F use the values of F at s points of each bin. This costs at most Σ_bins (probability
    of the bin) |ΔB|/(2s), where ΔB is the difference of B between the bin's ends. The straight line costs at most
    Σ_bins (probability of the bin) (largest distance of the line from the function).

    Args:
        n: users. first, last: the smallest and the largest J, with last at most n/2 + 1. scale, threshold: σ and τ.
        density: the number of points per count of users at which F is evaluated. draws: the number of draws; None: n.
        rate: in (0, 1].
    """
    nodes = _nodes(n, first, last, scale, threshold)
    points = max(2, math.ceil(density * n * float(nodes[-1] - nodes[0]) / (nodes.size - 1)))
    # the law of Q on the nodes
    weights = _Weights.of(n, np.arange(first, last + 1), nodes, scale=scale, threshold=threshold, points=points)
    # Bin(k; n, p) at the nodes, for k in a window that leaves out a probability of 2 exp(_LOG_TAIL)
    p, trials = rate * nodes, n if draws is None else draws
    low = bernstein_window(trials * p[0], trials * p[0] * (1.0 - p[0]), trials, _LOG_TAIL)[0]
    high = bernstein_window(trials * p[-1], trials * p[-1] * (1.0 - p[-1]), trials, _LOG_TAIL)[1]
    k = np.arange(low, high + 1, dtype=np.float64)
    kernel = _binomials(trials, k, p)
    # the errors of the chord and of the bracketed means of F
    misplaced = np.abs(np.diff(kernel, axis=0)) / (2.0 * points) + _chord_error(trials, k, p, kernel)
    middle, error = weights.mean @ kernel, weights.rise @ misplaced + weights.doubt @ kernel
    doubt = 1.2e-14 * trials + 1e-13  # relative rounding of the kernel
    # two tails of k, and one tail for the case of more draws than `_blocks` assumes
    missing = weights.missing + 4.0 * math.exp(_LOG_TAIL)
    return Bracketed(np.maximum(middle - error, 0.0) * (1.0 - doubt), (middle + error) * (1.0 + doubt), missing, low)


def _binomials(n: int, k: Floats, p: Floats) -> Floats:
    """Binomial probabilities Bin(k; n, p) (P, K), for each p (P,) and each k (K,)."""
    inner = (p > 0.0) & (p < 1.0)
    out = np.zeros((p.size, k.size))
    exponent = np.multiply.outer(np.log(p[inner]) - np.log1p(-p[inner]), k)
    exponent += n * np.log1p(-p[inner])[:, None]
    exponent += _log_ways(n, k)
    out[inner] = np.exp(exponent, out=exponent)
    out[np.ix_(p <= 0.0, k == 0.0)] = 1.0
    out[np.ix_(p >= 1.0, k == n)] = 1.0
    return out


def _log_ways(n: int, k: Floats) -> Floats:
    """Logarithm of the number of ways to choose k of n, for each k."""
    from scipy.special import gammaln

    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def _chord_error(n: int, k: Floats, p: Floats, kernel: Floats) -> Floats:
    """Upper bound (P - 1, K) of the distance between f = Bin(k; n, ·) and its chord on each bin between two p (P,).

    kernel: (P, K) the values of f. The distance is at most the range of f. The distance is also at most width²/8 times
    the largest absolute second derivative of f. The second derivative is f times the difference of two terms:
    (k/p - (n-k)/(1-p))² and k/p² + (n-k)/(1-p)². Both terms are largest at the ends of the bin.
    """
    from scipy.special import xlog1py, xlogy

    # the range of f: from the values at the ends, and from the value at the mode k/n if this is inside the bin
    highest = np.maximum(kernel[:-1], kernel[1:])
    mode = np.searchsorted(p, k / n) - 1
    inside = (mode >= 0) & (mode < p.size - 1)
    at = k[inside]
    peak = np.exp(_log_ways(n, at) + xlogy(at, at / n) + xlog1py(n - at, -at / n))
    highest[mode[inside], inside] = np.maximum(highest[mode[inside], inside], peak)
    span = highest - np.minimum(kernel[:-1], kernel[1:])
    # bound of the second derivative over f; 1e-100 keeps it finite at p = 0 and p = 1
    low, high = np.maximum(p[:-1], 1e-100), np.maximum(1.0 - p[1:], 1e-100)
    score = np.abs(np.subtract.outer(-n * p, -k)) / np.maximum(p * (1.0 - p), 1e-100)[:, None]
    square = np.maximum(score[:-1], score[1:]) ** 2
    square = np.maximum(square, np.multiply.outer(low**-2, k) + np.multiply.outer(high**-2, n - k))
    return np.asarray(np.minimum(span, highest * square * (np.diff(p)[:, None] ** 2 / 8.0)))


def _nodes(n: int, first: int, last: int, scale: float, threshold: float) -> Floats:
    """The ends of bins of the noisy share Q, within [τ, 1-τ], ascending, for J = first..last users with label 1.

    The bins cover 28 scales of the noise on either side of the true shares. No bin has 1/2 in its interior.
    """
    # the range of Q within `_REACH` scales of the noise
    reach = _REACH * scale
    start, end = max(threshold, (first - reach) / n), min(1.0 - threshold, (last + reach) / n)
    end = min(max(end, threshold + 0.5 / n), 1.0 - threshold)
    # the width of the bins, in counts of users, is a small part of the draws' standard deviation
    spread = math.sqrt(n * min(start * (1.0 - start), end * (1.0 - end)))
    bins = max(_FEWEST_BINS, math.ceil(n * (end - start) / min(max(0.0625, 0.015 * spread), 0.25)))
    if start < 0.5 < end:
        below = min(max(1, round(bins * (0.5 - start) / (end - start))), bins - 1)
        return np.concatenate([np.linspace(start, 0.5, below + 1), np.linspace(0.5, end, bins - below + 1)[1:]])
    return np.linspace(start, end, bins + 1)


@dataclass(frozen=True)
class _Weights:
    """The law of the noisy share Q as weights of the ends of bins (nodes), for R numbers J of users with label 1.

    mean: (R, P) weights of the nodes. rise: (R, P - 1) probability of each bin. doubt: (R, P) rounding error of the
    weights. missing: (R,) probability outside the bins.
    """

    mean: Floats
    rise: Floats
    doubt: Floats
    missing: Floats

    @staticmethod
    def of(
        n: int, ones: NDArray[np.int64], nodes: Floats, *, scale: float, threshold: float, points: int
    ) -> "_Weights":
        """Weights of the nodes, the ends of bins of Q, that give the mean of any function of Q that is linear on each
        bin.

        F is the distribution function of Q if J users hold label 1. The weight of a node is the difference of the means
        of F over the bins on its two sides. F is used below the true share, and 1 - F above. So both tails keep their
        relative accuracy.

        Args:
            n: users. ones: (R,) the values of J, one for each row of the result. nodes: (P,), ascending. points: the
            number of points of each bin at which F is evaluated.
        """
        # F and 1 - F at `points` places of each bin: F below the node `split`, 1 - F above this node
        share, bins = ones / n, nodes.size - 1
        split = int(np.searchsorted(nodes, min(float(share.mean()), 0.5)))
        split = min(max(split, 1), bins - 1)
        at = nodes[:-1, None] + np.diff(nodes)[:, None] * (np.arange(points) / points)
        at = np.append(at.ravel(), nodes[-1])
        lower, upper = at[: split * points + 1], at[split * points :]
        below = share_cdf(share, lower, scale / n, threshold)
        above = share_cdf(1.0 - share, np.maximum(1.0 - upper, threshold), scale / n, threshold)
        # the probability outside the nodes: 0 at an end where the nodes reach τ or 1-τ
        start = below[:, :1] * (nodes[0] > threshold)
        end = above[:, -1:] * (nodes[-1] < 1.0 - threshold)
        # weights of the nodes: differences of means of F below `split`, and of means of 1 - F above `split`. The node
        # `split` has the rest to 1
        up = np.concatenate([start, _bin_means(below, points)], axis=1)
        down = np.concatenate([_bin_means(above, points), end], axis=1)
        centre = 1.0 - up[:, -1:] - down[:, :1]
        mean = np.concatenate([np.diff(up, axis=1), centre, -np.diff(down, axis=1)], axis=1)
        sizes = [up[:, 1:] + up[:, :-1], np.ones_like(centre), down[:, 1:] + down[:, :-1]]
        rise = [np.diff(below[:, ::points], axis=1), -np.diff(above[:, ::points], axis=1)]
        # rounding, relative to the terms of the differences; see `share_cdf`
        doubt = (4e-13 + 8e-15 * n / scale) * np.concatenate(sizes, axis=1)
        return _Weights(mean, np.concatenate(rise, axis=1), doubt, (start + end)[:, 0] * (1.0 + 1e-9))


def _bin_means(values: Floats, points: int) -> Floats:
    """Means over bins of monotone functions, (R, bins). An error is at most the change over the bin / (2 · `points`).

    Args:
        values: (R, bins · points + 1), R functions at `points` equally spaced places of each bin and at the last end.
    """
    pieces = 0.5 * (values[:, 1:] + values[:, :-1])
    return np.asarray(pieces.reshape(len(values), -1, points).mean(axis=2))
