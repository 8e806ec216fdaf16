"""The law of the noisy share q̃₁ of label 1 that Algorithm 1 draws labels from, for two classes.

With the share a of label 1, q₀ = 1-a + z₀ and q₁ = a + z₁ (Laplace noise of scale b) are clipped to [τ, 1]. The printed
renormalisation makes of them q̃₁ = τ + (1-2τ)(q₁-τ)/(q₀+q₁-2τ) where q₀ + q₁ >= 1, and (1-q₀)/(2-q₀-q₁) elsewhere. So
q̃₁ <= s, for τ <= s < 1-τ, means q₁ <= s + slope·(q₀ - (1-s)), with slope (s-τ)/(1-τ-s) for q₀ >= 1-s and (1-s)/s below:
a line through (1-s, s), bent there. The probability is an integral over q₀ of products of exponentials, in closed form
piece by piece. All terms are positive, so that small probabilities keep their relative accuracy.
"""

from dataclasses import dataclass

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats

_STEEP = 1e300
_TABLE = 2**14
"""Entries computed together, which stay in the cache."""


def share_cdf(share: Floats, at: Floats, scale: float, threshold: float) -> Floats:
    """Pr[q̃₁ <= s] for shares a (J,) of label 1 and values s (S,): (J, S), to a relative error of 1e-13 + 1e-15/b.

    Args:
        share: a in [0, 1]. at: s in [τ, 1-τ). scale: b = σ/n, above 0 and finite. threshold: τ in [0, 1/2).
    """
    rows = max(1, _TABLE // at.size)
    parts = [_cdf(share[i : i + rows], at, scale, threshold) for i in range(0, share.size, rows)]
    return np.concatenate(parts)


def _cdf(share: Floats, at: Floats, scale: float, threshold: float) -> Floats:
    """The same, all at once."""
    line = _Line(share[:, None], at[None, :], scale, threshold)
    bottom, top = np.full_like(line.s, threshold), np.ones_like(line.s)
    total = _laplace_cdf(threshold - 1.0 + line.a, scale) * line.below(bottom)  # q₀ clipped to τ
    total = total + _laplace_cdf(-line.a, scale) * line.below(top)  # and to 1
    return np.asarray(np.minimum(total + line.between(), 1.0))


@dataclass(frozen=True)
class _Line:
    """The bent line under which q̃₁ <= s: a (J, 1), s (1, S)."""

    a: Floats
    s: Floats
    scale: float
    threshold: float

    @property
    def upper(self) -> Floats:
        """Slope above 1-s."""
        return (self.s - self.threshold) / (1.0 - self.threshold - self.s)

    @property
    def lower(self) -> Floats:
        """Slope below 1-s."""
        return np.asarray(np.minimum((1.0 - self.s) / np.maximum(self.s, 1.0 / _STEEP), _STEEP))

    def below(self, q0: Floats) -> Floats:
        """Pr[q₁ <= the line at q₀]."""
        limit = self.s + np.where(q0 >= 1.0 - self.s, self.upper, self.lower) * (q0 - (1.0 - self.s))
        inside = _laplace_cdf(np.clip(limit, self.threshold, 1.0) - self.a, self.scale)
        return np.asarray(np.where(limit >= 1.0, 1.0, np.where(limit >= self.threshold, inside, 0.0)))

    def between(self) -> Floats:
        """Pr[τ < q₀ < 1, q₁ under the line]: (J, S), summed over pieces on which both densities are exponentials."""
        turn, up, b, centre = 1.0 - self.s, np.maximum(self.upper, 1.0 / _STEEP), self.scale, 1.0 - self.a
        start = np.maximum(self.threshold, turn - (self.s - self.threshold) / self.lower)  # the line leaves q₁ = τ
        end = turn + (1.0 - self.s) / up  # it reaches q₁ = 1
        kink = turn + (self.a - self.s) / np.where(self.a < self.s, self.lower, up)  # it reaches q₁ = a
        points = (start, turn, kink, centre, end, np.ones_like(turn))
        cuts = np.clip(np.stack(np.broadcast_arrays(*points)), start, 1.0)
        cuts.sort(axis=0)
        x = (self.s - self.a) + np.where(cuts >= turn, self.upper, self.lower) * (cuts - turn)
        far = np.abs(cuts - centre) / b
        both = far + np.abs(x) / b
        density, joint = np.exp(-far), np.exp(-both)
        mass = 0.5 * np.abs(np.diff(density, axis=0))
        gap = np.diff(both, axis=0)
        close = np.abs(gap) < 1e-3
        mean = -np.diff(joint, axis=0) / np.where(close, 1.0, gap)
        series = joint[:-1] * (1.0 - gap / 2.0 * (1.0 - gap / 3.0 * (1.0 - gap / 4.0 * (1.0 - gap / 5.0))))
        tail = 0.25 * np.diff(cuts, axis=0) / b * np.where(close, series, mean)
        value = np.where(x[1:] + x[:-1] > 0.0, mass - tail, tail)
        return np.asarray(np.where(cuts[1:] + cuts[:-1] >= 2.0 * end, mass, value).sum(axis=0))


def _laplace_cdf(distance: Floats, scale: float) -> Floats:
    """Pr[z <= distance] for Laplace noise."""
    half = 0.5 * np.exp(-np.abs(distance) / scale)
    return np.asarray(np.where(distance < 0.0, half, 1.0 - half))
