"""The law of the noisy share q̃₁ of label 1, from which the clustering paper's Algorithm 1 draws labels of two classes.

Let a be the true share of label 1. The noisy shares q₀ = 1-a + z₀ and q₁ = a + z₁, where z₀ and z₁ are Laplace noise of
scale b, are clipped to [τ, 1]. The paper's renormalisation yields q̃₁ = τ + (1-2τ)(q₁-τ)/(q₀+q₁-2τ) where q₀ + q₁ >= 1,
and (1-q₀)/(2-q₀-q₁) elsewhere. So for τ <= s < 1-τ, q̃₁ <= s means q₁ <= s + slope·(q₀ - (1-s)). The slope is
(s-τ)/(1-τ-s) for q₀ >= 1-s, and (1-s)/s for smaller q₀. So the boundary is a line through (1-s, s) with a bend there.
The probability that q̃₁ <= s is an integral over q₀ of products of exponentials. It has a closed form piece by piece.
All terms are positive, so that small probabilities keep their relative accuracy.

**A lower bound of δ(ε) where q̃₁ is released** (`released_delta`). Cut [τ, 1-τ] into bins. An observer of q̃₁ and of
the target's noisy label knows the bin of q̃₁, which is a post-processing. The bins' probabilities have a closed form.
Below the true share they are computed from the distribution function of q̃₁, above it from that of the other class's
noisy share. So both tails keep their relative accuracy. The target's noisy label, resampled with probability λ, is 1
with probability λq̃₁ + (1-λ) 1{her label is 1}. In a bin from u to v this probability lies between its values at
q̃₁ = u and q̃₁ = v.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats

_STEEP = 1e300
"""Largest slope of the line; this slope stands for a vertical line."""
_TABLE = 2**14
"""Number of entries computed together, few enough for the processor's cache; this number does not change the result."""


def share_cdf(share: Floats, at: Floats, scale: float, threshold: float) -> Floats:
    """The distribution function Pr[q̃₁ <= s], (J, S), of the noisy share q̃₁ of label 1 that Algorithm 1 draws labels
    from, for J true shares a of label 1 and S values s.

    Laplace noise of scale b is added to the true shares 1-a and a of labels 0 and 1. Both are clipped to [τ, 1], and
    then changed so that they add up to 1. The relative error is at most 1e-13 + 1e-15/b.

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
    """For each s, a line in the plane of the clipped noisy shares (q₀, q₁). On and below this line the noisy share q̃₁
    of label 1 is at most s. The line bends at q₀ = 1-s.

    a: (J, 1) true shares of label 1. s: (1, S) values of q̃₁. scale: b of the Laplace noise on each share.
    threshold: τ, the least share after clipping.
    """

    a: Floats
    s: Floats
    scale: float
    threshold: float

    @property
    def upper(self) -> Floats:
        """For each s, the slope of the line where q₀ is above 1-s, (1, S). On and below this line the noisy share q̃₁
        of label 1 is at most s.

        q̃₁ is computed from the noisy shares (q₀, q₁) of labels 0 and 1, each limited to [τ, 1]. The line lies in the
        plane of (q₀, q₁), and bends at (1-s, s).
        """
        return (self.s - self.threshold) / (1.0 - self.threshold - self.s)

    @property
    def lower(self) -> Floats:
        """For each s, the slope of the line where q₀ is below 1-s, (1, S). On and below this line the noisy share q̃₁
        of label 1 is at most s.

        q̃₁ is computed from the noisy shares (q₀, q₁) of labels 0 and 1, each limited to [τ, 1]. The line lies in the
        plane of (q₀, q₁), and bends at (1-s, s). The slope is at most 1e300, which stands for a vertical line.
        """
        return np.asarray(np.minimum((1.0 - self.s) / np.maximum(self.s, 1.0 / _STEEP), _STEEP))

    def below(self, q0: Floats) -> Floats:
        """The probability that the noisy share of label 1 is at most s, given q₀, for each of the object's J true
        shares a of label 1 and S values s, (J, S).

        q₀ and q₁ are the shares of labels 0 and 1 with Laplace noise, clipped to [τ, 1]. The event is that q₁ is on or
        below a line in their plane, which depends on s.

        Args:
            q0: q₀, an array that broadcasts to (J, S).
        """
        limit = self.s + np.where(q0 >= 1.0 - self.s, self.upper, self.lower) * (q0 - (1.0 - self.s))
        inside = _laplace_cdf(np.clip(limit, self.threshold, 1.0) - self.a, self.scale)
        return np.asarray(np.where(limit >= 1.0, 1.0, np.where(limit >= self.threshold, inside, 0.0)))

    def between(self) -> Floats:
        """The probability that q₀ is strictly between τ and 1 and the noisy share of label 1 is at most s, for each of
        the object's J true shares a of label 1 and S values s, (J, S).

        q₀ and q₁ are the shares of labels 0 and 1 with Laplace noise, clipped to [τ, 1]. The second condition is that
        q₁ is on or below a line in their plane. The range of q₀ is cut into pieces, in each of which the density of q₀,
        and that of q₁ on the line, are exponential functions of q₀. The probability is the sum of the pieces'
        integrals.
        """
        # ends of the pieces of q₀: where the line bends, and where the line or q₀ crosses a true share or an end of the
        # range
        turn, up, b, centre = 1.0 - self.s, np.maximum(self.upper, 1.0 / _STEEP), self.scale, 1.0 - self.a
        start = np.maximum(self.threshold, turn - (self.s - self.threshold) / self.lower)  # the line leaves q₁ = τ
        end = turn + (1.0 - self.s) / up  # the line reaches q₁ = 1
        kink = turn + (self.a - self.s) / np.where(self.a < self.s, self.lower, up)  # the line reaches q₁ = a
        cuts = np.clip(np.stack(np.broadcast_arrays(start, turn, kink, centre, end, np.ones_like(turn))), start, 1.0)
        cuts.sort(axis=0)
        # at these ends: q₁ - a on the line, and the distances of q₀ from 1-a and of q₁ from a, in units of b
        x = (self.s - self.a) + np.where(cuts >= turn, self.upper, self.lower) * (cuts - turn)
        far = np.abs(cuts - centre) / b
        both = far + np.abs(x) / b
        density, joint = np.exp(-far), np.exp(-both)
        # integrals of q₀'s density, and of q₀'s density times q₁'s tail; the latter uses the average of an exponential
        # function over a piece, which is computed by a series where the function is flat
        mass = 0.5 * np.abs(np.diff(density, axis=0))
        gap = np.diff(both, axis=0)
        close = np.abs(gap) < 1e-3
        mean = -np.diff(joint, axis=0) / np.where(close, 1.0, gap)
        series = joint[:-1] * (1.0 - gap / 2.0 * (1.0 - gap / 3.0 * (1.0 - gap / 4.0 * (1.0 - gap / 5.0))))
        tail = 0.25 * np.diff(cuts, axis=0) / b * np.where(close, series, mean)
        # Pr[q₁ on or below the line]: 1 - tail where the line is above a, the tail where it is below, 1 from q₁ = 1 on
        value = np.where(x[1:] + x[:-1] > 0.0, mass - tail, tail)
        return np.asarray(np.where(cuts[1:] + cuts[:-1] >= 2.0 * end, mass, value).sum(axis=0))


def _laplace_cdf(distance: Floats, scale: float) -> Floats:
    """Pr[z <= distance], where z is Laplace noise of the given scale."""
    half = 0.5 * np.exp(-np.abs(distance) / scale)
    return np.asarray(np.where(distance < 0.0, half, 1.0 - half))


_BINS = 1500
"""Number of bin ends in each of three groups: near the true share, near τ and near 1-τ."""
_STEPS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""The data sets that are tried: their numbers of users with label 1, minus n·τ, in units of σ. The numbers 0 and n/2
are tried, too.
"""
_REACH = 40.0
"""How far the bins near the true share reach on either side, in scales of the noise."""


@dataclass(frozen=True)
class _Bins:
    """Bins of q̃₁, with bounds of their probabilities in two neighbouring data sets, which have J and J + 1 users with
    label 1.

    ends: (B+1,) ends of the bins. low, high: (2, B) lower and upper bounds of the probabilities, a row for each data
    set.
    """

    ends: Floats
    low: Floats
    high: Floats


def released_delta(n: int, resampling_prob: float, scale: float, threshold: float, epsilon: float) -> float:
    """A lower bound of δ(ε) of the noisy share of label 1 and the target's noisy label together: the largest over some
    pairs of neighbouring data sets.

    The data sets of a pair have J and J + 1 users with label 1, where J is about n·τ, 0 or n/2. The range of the share
    is cut into bins, and the observer knows the bin of the share.

    Args:
        n: users, at least 2. resampling_prob: λ in (0, 1], the probability that a label is drawn anew from the
        noisy share. scale: σ, above 0 and finite; the noise on a share has scale σ/n. threshold: τ in [0, 1/2), the
        least noisy share. epsilon: ε, at least 0.
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
    """The bins of the noisy share of label 1 for each pair of neighbouring data sets that is tried, with bounds of
    their probabilities.

    The data sets of a pair have J and J + 1 users of n with label 1, where J is about n·τ, 0 or n/2.

    Args:
        scale: σ; the noise on a share has scale σ/n. threshold: τ, the least noisy share.
    """
    near = (math.ceil(n * threshold + steps * scale) for steps in _STEPS)
    ones = {min(n // 2, max(0, each)) for each in near} | {0, n // 2}
    return tuple(_bins(n, each, scale, threshold) for each in sorted(ones))


def _bins(n: int, ones: int, scale: float, threshold: float) -> _Bins:
    """Bins of the noisy share of label 1, with bounds of their probabilities if J = `ones` of n users hold label 1, and
    if J + 1 do.

    The bins are narrow about the true share J/n and towards the ends τ and 1-τ.

    Args:
        scale: σ; the noise on a share has scale σ/n. threshold: τ, the least noisy share.
    """
    # inner ends of the bins
    share, end = np.array([ones, ones + 1]) / n, 1.0 - threshold
    steps = np.geomspace(1e-6, 1.0, _BINS) * (end - threshold)
    inner = np.concatenate([threshold + steps, end - steps, share[0] + np.linspace(-_REACH, _REACH, _BINS) * scale / n])
    inner = np.unique(inner[(inner > threshold) & (inner < end)])
    # probabilities of the bins: differences of the distribution function F below the true share and of 1 - F above it;
    # the bin in between has the rest
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
    """The noisy distribution that Algorithm 1 of the clustering paper releases: shares plus noise, clipped to [τ, 1],
    and changed so that they sum to 1, (..., K).

    If the clipped shares sum to less than 1, each is raised in proportion to its distance from 1. If they sum to more,
    each is lowered in proportion to its distance from τ (the paper's Theorem 6). In exact arithmetic the sum of these
    distances is above 0 unless the sum of shares is 1. If rounding at τ = 1/K makes the formula 0/0, the values stay as
    they are.

    >>> released_distribution(np.array([0.9, 0.1]), np.array([0.0, -1.0]), 0.05).round(12).tolist()
    [0.904761904762, 0.095238095238]

    Args:
        share: (..., K) the labels' true shares. noise: (..., K) Laplace noise; may be infinite. threshold: τ in
        [0, 1/K].
    """
    clipped = np.clip(share + noise, threshold, 1.0)
    missing = 1.0 - clipped.sum(axis=-1, keepdims=True)
    room = np.where(missing < 0.0, clipped - threshold, 1.0 - clipped)
    total = room.sum(axis=-1, keepdims=True)
    step = np.divide(missing, total, out=np.zeros_like(missing), where=total > 0.0)
    return np.asarray(np.clip(clipped + room * step, threshold, 1.0))
