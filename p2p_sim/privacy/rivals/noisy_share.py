"""The law of the noisy share q̃₁ of label 1, from which the clustering paper's Algorithm 1 draws labels of two classes.

Let a be the true share of label 1. Laplace noise z₀ and z₁ of scale b is added to both shares: q₀ = 1-a + z₀ and
q₁ = a + z₁. Then q₀ and q₁ are clipped to [τ, 1]. The paper's renormalisation yields q̃₁ = τ + (1-2τ)(q₁-τ)/(q₀+q₁-2τ)
where q₀ + q₁ >= 1, and q̃₁ = (1-q₀)/(2-q₀-q₁) elsewhere. So for τ <= s < 1-τ, q̃₁ <= s means
q₁ <= s + slope·(q₀ - (1-s)). The slope is (s-τ)/(1-τ-s) for q₀ >= 1-s, and (1-s)/s for smaller q₀. So the boundary is a
line through (1-s, s) with a bend there. The probability that q̃₁ <= s is an integral over q₀ of products of
exponentials. Each piece of this integral has a closed form. All terms are positive, so small probabilities keep their
relative accuracy.

**A lower bound of δ(ε) where q̃₁ is released** (`released_delta`). The observer sees q̃₁ and the target's noisy label.
Cut [τ, 1-τ] into bins. The bin of q̃₁ is a post-processing. The bins' probabilities have a closed form. Below the true
share the formula uses the distribution function of q̃₁. Above the true share the formula uses the distribution function
of the other label's noisy share. So both tails keep their relative accuracy. The target's noisy label is resampled with
probability λ. So it is 1 with probability λq̃₁ + (1-λ) 1{her label is 1}. In a bin from u to v this probability lies
between its values at q̃₁ = u and q̃₁ = v.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats

_STEEP = 1e300
"""Largest slope of the line. This slope stands for a vertical line."""
_TABLE = 2**14
"""Number of entries computed together, few enough for the processor's cache. The number does not change the result."""


def share_cdf(share: Floats, at: Floats, scale: float, threshold: float) -> Floats:
    """The distribution function Pr[q̃₁ <= s], (J, S), of the noisy share q̃₁ from which Algorithm 1 draws labels.

    J is the number of true shares a of label 1, and S the number of values s. Laplace noise of scale b is added to the
    true shares 1-a and a of labels 0 and 1. Both sums are clipped to [τ, 1], and then changed so that they add up to 1.
    The relative error of the result is at most 1e-13 + 1e-15/b.

    Args:
        share: (J,) a in [0, 1]. at: (S,) s in [τ, 1-τ). scale: b, above 0 and finite. threshold: τ in [0, 1/2).
    """
    rows, s = max(1, _TABLE // at.size), at[None, :]
    bottom, top, parts = np.full_like(s, threshold), np.ones_like(s), []
    for start in range(0, share.size, rows):
        a = share[start : start + rows, None]
        line = _Line(a, s, scale, threshold)
        # three cases: q₀ is clipped to τ, clipped to 1, or lies between
        to_bottom, to_top = _laplace_cdf(threshold - 1.0 + a, scale), _laplace_cdf(-a, scale)
        parts.append(np.minimum(to_bottom * line.below(bottom) + to_top * line.below(top) + line.between(), 1.0))
    return np.concatenate(parts)


@dataclass(frozen=True)
class _Line:
    """For each s, a line in the plane of the clipped noisy shares (q₀, q₁) of labels 0 and 1. The renormalised share
    q̃₁ of label 1 is at most s on and below this line. The line bends at q₀ = 1-s.

    a: (J, 1) true shares of label 1. s: (1, S) values of q̃₁. scale: b of the Laplace noise on each share.
    threshold: τ, the least share after clipping.
    """

    a: Floats
    s: Floats
    scale: float
    threshold: float

    @property
    def upper(self) -> Floats:
        """The slope of the line where q₀ is above 1-s, for each s, (1, S)."""
        return (self.s - self.threshold) / (1.0 - self.threshold - self.s)

    @property
    def lower(self) -> Floats:
        """The slope of the line where q₀ is below 1-s, for each s, (1, S). A vertical line gets the slope 1e300."""
        return np.asarray(np.minimum((1.0 - self.s) / np.maximum(self.s, 1.0 / _STEEP), _STEEP))

    def below(self, q0: Floats) -> Floats:
        """The probability, given q₀, that q₁ is on or below the line, for J true shares and S values s, (J, S).

        Args:
            q0: q₀, an array that broadcasts to (J, S).
        """
        limit = self.s + np.where(q0 >= 1.0 - self.s, self.upper, self.lower) * (q0 - (1.0 - self.s))
        inside = _laplace_cdf(np.clip(limit, self.threshold, 1.0) - self.a, self.scale)
        return np.asarray(np.where(limit >= 1.0, 1.0, np.where(limit >= self.threshold, inside, 0.0)))

    def between(self) -> Floats:
        """The probability that q₀ is strictly between τ and 1 and q₁ is on or below the line, (J, S).

        The range of q₀ is cut into pieces. In each piece, two densities are exponential functions of q₀: the density of
        q₀, and the density of q₁ on the line. The result is the sum of the pieces' integrals.
        """
        # ends of the pieces of q₀: where the line leaves q₁ = τ, bends, and reaches q₁ = a and q₁ = 1; q₀ = 1-a and
        # q₀ = 1
        turn, up, b, centre = 1.0 - self.s, np.maximum(self.upper, 1.0 / _STEEP), self.scale, 1.0 - self.a
        start = np.maximum(self.threshold, turn - (self.s - self.threshold) / self.lower)  # the line leaves q₁ = τ
        end = turn + (1.0 - self.s) / up  # the line reaches q₁ = 1
        kink = turn + (self.a - self.s) / np.where(self.a < self.s, self.lower, up)  # the line reaches q₁ = a
        cuts = np.clip(np.stack(np.broadcast_arrays(start, turn, kink, centre, end, np.ones_like(turn))), start, 1.0)
        cuts.sort(axis=0)
        # at these ends: x = q₁ - a on the line, far = |q₀ - (1-a)|/b, and both = far + |x|/b
        x = (self.s - self.a) + np.where(cuts >= turn, self.upper, self.lower) * (cuts - turn)
        far = np.abs(cuts - centre) / b
        both = far + np.abs(x) / b
        density, joint = np.exp(-far), np.exp(-both)
        # integrals of q₀'s density (mass), and of q₀'s density times q₁'s tail (tail). `tail` needs the mean of an
        # exponential function over a piece. Where the function is flat, a series gives this mean
        mass = 0.5 * np.abs(np.diff(density, axis=0))
        gap = np.diff(both, axis=0)
        close = np.abs(gap) < 1e-3
        mean = -np.diff(joint, axis=0) / np.where(close, 1.0, gap)
        series = joint[:-1] * (1.0 - gap / 2.0 * (1.0 - gap / 3.0 * (1.0 - gap / 4.0 * (1.0 - gap / 5.0))))
        tail = 0.25 * np.diff(cuts, axis=0) / b * np.where(close, series, mean)
        # Pr[q₁ on or below the line] is 1 - q₁'s tail if the line is above q₁ = a, the tail if the line is below
        # q₁ = a, and 1 if the line is above q₁ = 1
        value = np.where(x[1:] + x[:-1] > 0.0, mass - tail, tail)
        return np.asarray(np.where(cuts[1:] + cuts[:-1] >= 2.0 * end, mass, value).sum(axis=0))


def _laplace_cdf(distance: Floats, scale: float) -> Floats:
    """Pr[z <= distance], where z is Laplace noise of the given scale."""
    half = 0.5 * np.exp(-np.abs(distance) / scale)
    return np.asarray(np.where(distance < 0.0, half, 1.0 - half))


_BINS = 1500
"""Number of bin ends in each of three groups: near the true share, near τ and near 1-τ."""
_STEPS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""The data sets that are tried: how far their numbers of users with label 1 are above n·τ, in units of σ. The numbers 0
and n/2 are tried, too.
"""
_REACH = 40.0
"""How far the bins near the true share reach on either side, in scales of the noise."""


@dataclass(frozen=True)
class _Bins:
    """Bins of q̃₁, with bounds of their probabilities in two neighbouring data sets. These data sets have J and J + 1
    users with label 1.

    ends: (B+1,) ends of the bins. low, high: (2, B) lower and upper bounds of the probabilities, a row for each data
    set.
    """

    ends: Floats
    low: Floats
    high: Floats


def released_delta(n: int, resampling_prob: float, scale: float, threshold: float, epsilon: float) -> float:
    """A lower bound of δ(ε) for an observer of the noisy share of label 1 and the target's noisy label.

    The bound is the largest over some pairs of neighbouring data sets. The data sets of a pair have J and J + 1 users
    with label 1, where J is about n·τ, 0 or n/2. The range of the share is cut into bins, and the bound uses only the
    bin of the share.

    Args:
        n: users, at least 2. resampling_prob: λ in (0, 1], the probability that a label is drawn anew from the noisy
        share. scale: σ, above 0 and finite; the noise on a share has scale σ/n. threshold: τ in [0, 1/2), the least
        noisy share. epsilon: ε, at least 0.
    """
    lam, grow, best = resampling_prob, math.exp(epsilon), 0.0
    for bins in _tables(n, scale, threshold):
        first, last = bins.ends[:-1], bins.ends[1:]
        for own in (0, 1):
            # Σ over noisy labels and bins of [P - e^ε P']₊, where P has the target's label `own`
            total = 0.0
            for label, least, most in ((1, first, last), (0, 1.0 - last, 1.0 - first)):
                p = bins.low[own] * (lam * least + (1.0 - lam) * (label == own))
                q = grow * bins.high[1 - own] * (lam * most + (1.0 - lam) * (label != own))
                total += np.maximum(p - q, 0.0).sum()
            best = max(best, float(total))
    return best * (1.0 - 1e-12)


@lru_cache(maxsize=8)
def _tables(n: int, scale: float, threshold: float) -> tuple[_Bins, ...]:
    """Bins of the noisy share of label 1, with bounds of the probabilities, for each pair of data sets.

    A pair has J and J + 1 users with label 1. J is 0, n//2, or one of a few numbers from n·τ - 2σ to n·τ + 8σ, limited
    to [0, n//2]; σ is `scale`. The pairs are in ascending order of J.
    """
    near = (math.ceil(n * threshold + steps * scale) for steps in _STEPS)
    ones = {min(n // 2, max(0, each)) for each in near} | {0, n // 2}
    return tuple(_bins(n, each, scale, threshold) for each in sorted(ones))


def _bins(n: int, ones: int, scale: float, threshold: float) -> _Bins:
    """Bins of the noisy share of label 1, with bounds of their probabilities in two neighbouring data sets.

    In the two data sets, J and J + 1 users have label 1, where J = `ones`. The bins are narrow about the true share J/n
    and towards the ends τ and 1-τ. The noise on a share has scale σ/n, with σ = `scale`.
    """
    # inner ends of the bins
    share, end = np.array([ones, ones + 1]) / n, 1.0 - threshold
    steps = np.geomspace(1e-6, 1.0, _BINS) * (end - threshold)
    inner = np.concatenate([threshold + steps, end - steps, share[0] + np.linspace(-_REACH, _REACH, _BINS) * scale / n])
    inner = np.unique(inner[(inner > threshold) & (inner < end)])
    # probabilities of the bins: differences of the distribution function F below the true share, and of 1 - F above the
    # true share; the bin in between has the rest
    below, above = np.split(inner, [max(1, int(np.searchsorted(inner, share[0])))])
    under = np.pad(share_cdf(share, below, scale / n, threshold), ((0, 0), (1, 0)))
    over = np.pad(share_cdf(1.0 - share, 1.0 - above, scale / n, threshold), ((0, 0), (0, 1)))
    middle = 1.0 - under[:, -1:] - over[:, :1]
    mass = np.concatenate([np.diff(under, axis=1), middle, -np.diff(over, axis=1)], axis=1)
    # rounding, relative to the values of F that are subtracted
    doubt = (4e-13 + 8e-15 * n / scale) * np.concatenate([under[:, 1:], np.ones_like(middle), over[:, :-1]], axis=1)
    ends = np.concatenate([[threshold], inner, [end]])
    return _Bins(ends, np.maximum(mass - doubt, 0.0), np.maximum(mass, 0.0) + doubt)


def released_distribution(share: Floats, noise: Floats, threshold: float) -> Floats:
    """The noisy distribution that Algorithm 1 of the clustering paper releases: noisy shares, clipped to [τ, 1], that
    sum to 1.

    If the clipped shares sum to less than 1, each share is raised in proportion to its distance from 1. If the sum is
    above 1, each share is lowered in proportion to its distance from τ (the paper's Theorem 6). If rounding at τ = 1/K
    makes the formula 0/0, the clipped shares stay unchanged.

    >>> released_distribution(np.array([0.9, 0.1]), np.array([0.0, -1.0]), 0.05).round(12).tolist()
    [0.904761904762, 0.095238095238]

    Args:
        share: (..., K) the labels' true shares. noise: (..., K) Laplace noise; may be infinite. threshold: τ in [0,
        1/K].
    """
    clipped = np.clip(share + noise, threshold, 1.0)
    missing = 1.0 - clipped.sum(axis=-1, keepdims=True)
    room = np.where(missing < 0.0, clipped - threshold, 1.0 - clipped)
    total = room.sum(axis=-1, keepdims=True)
    step = np.divide(missing, total, out=np.zeros_like(missing), where=total > 0.0)
    return np.asarray(np.clip(clipped + room * step, threshold, 1.0))
