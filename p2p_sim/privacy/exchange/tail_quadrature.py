"""Sums Σ_x Pr[X = x] F(p(x)) of a binomial tail F from few values of F, with a certified error.

X is how many users besides the target have the noisy label 1. The target is the user whose label is protected. Given
X = x, a submission is a 1 with probability p(x). For t submissions, F(p) = Pr[Bin(t, p) <= k], or the complement. F is
a polynomial in p. The range of p is cut into pieces [c-h, c+h]. In each piece, F is interpolated at N = `POINTS`
Chebyshev points. So the sum over x becomes a sum over these points. The points' weights are moments of X, and depend on
neither k nor t.

The error. For complex z = v + iw, |F(z)| <= (|z| + |1-z|)^t, and |z| + |1-z| is at most 1 + w²/(2v(1-v)). Take any
ρ > 1, and the ellipse with half axes h(ρ + 1/ρ)/2 and h(ρ - 1/ρ)/2. Inside, |F| is at most M, the largest exp(t
w²/(2v(1-v))) there. Interpolation is off by at most 4 M ρ^(1-N)/(ρ-1) (Trefethen, Approximation Theory, 8.2).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats

POINTS = 21
"""N, the number of points of a piece. Interpolation multiplies errors of F by at most the Lebesgue constant, < 4."""
_WIDTHS, _RADII = (1.5, 1.25, 1.0, 0.75, 0.5, 0.35, 0.25, 0.15), (4.0, 5.0, 6.5, 8.0, 10.0, 13.0, 20.0, 40.0)
"""_WIDTHS: half widths h of pieces to try, in standard deviations of the share of ones among t submissions.
_RADII: values of ρ to try."""
_VALUES = 2e-11
"""Allowed error of the values of F (3e-12, times 4) and of the weights, as a share of the largest value in a piece."""


class TailPair(NamedTuple):
    """The probability of one event if the target's noisy bit is 0 (a), and if it is 1 (b).

    off: bound of the absolute error that interpolation causes in a and in b; 0 without interpolation.
    """

    a: float
    b: float
    off: float


@dataclass(frozen=True)
class TailQuadrature:
    """Points and weights with which the mean of a binomial tail F over X, or over X + 1, is a sum of few values of F.

    points: (N, pieces) values of p in (0, 1). at, above: weights of these points for the mean over X and over X + 1.
    mass: (pieces,) the larger of Pr[p(X) in the piece] and Pr[p(X + 1) in the piece].
    off: bound of the error of an interpolated value of F.
    """

    points: Floats
    at: Floats
    above: Floats
    mass: Floats
    off: float

    @staticmethod
    def of(weights: Floats, share: Floats, submissions: int, log_off: float) -> "TailQuadrature | None":
        """Points and weights with which the mean of F(p(X)) is a sum of few values of F.

        F is any tail of Bin(t, p). The range of p is cut into pieces of equal width, as few as the allowed error
        permits. None: the points would save little, or the error would be too large.

        Args:
            weights: (W,) the probabilities Pr[X = x] of W consecutive numbers x. share: (W + 1,), ascending: p(x) for
            each of these x, and for the last x plus 1. submissions: the largest t. log_off: ln of the largest allowed
            error of an interpolated value of F.
        """
        low, high = float(share[0]), float(share[-1])
        deviation = math.sqrt(min(low * (1.0 - low), high * (1.0 - high)) / submissions)
        for width in _WIDTHS:
            pieces = max(1, math.ceil((high - low) / (2.0 * width * deviation))) if deviation > 0.0 else 0
            if not 0 < 2 * pieces * POINTS < share.size:
                return None
            half = (high - low) / (2.0 * pieces)
            off = min(_log_off(low, high, half, submissions, rho) for rho in _RADII)
            if off <= log_off:
                return TailQuadrature._with_moments(weights, share, pieces, math.exp(off))
        return None

    @staticmethod
    def _with_moments(weights: Floats, share: Floats, pieces: int, off: float) -> "TailQuadrature":
        """The points and weights for a given number of pieces of equal width.

        Args:
            weights: (W,) the probabilities Pr[X = x] of W consecutive numbers x. share: (W + 1,) p(x) for each of these
            x, and for the last x plus 1. off: largest error of an interpolated value of F; it is stored.
        """
        # pieces of equal width, and the piece in which each share lies
        low, half = float(share[0]), float(share[-1] - share[0]) / (2.0 * pieces)
        centres = low + half * (2.0 * np.arange(pieces) + 1.0)
        angles = np.pi * (np.arange(POINTS) + 0.5) / POINTS
        piece = np.minimum(((share - low) / (2.0 * half)).astype(np.int64), pieces - 1)
        starts = np.searchsorted(piece, np.arange(pieces))
        # moments Σ Pr[x] T_j(x) of each piece, from which the points' weights follow
        terms = np.polynomial.chebyshev.chebvander((share - centres[piece]) / half, POINTS - 1)
        laws = np.append(weights, 0.0), np.insert(weights, 0, 0.0)
        to_points = np.cos(np.outer(angles, np.arange(POINTS))) * 2.0 / POINTS
        to_points[:, 0] /= 2.0
        at, above = (to_points @ np.add.reduceat(law[:, None] * terms, starts, axis=0).T for law in laws)
        mass = np.maximum(*(np.add.reduceat(law, starts) for law in laws))
        return TailQuadrature(centres + half * np.cos(angles)[:, None], at, above, mass, off)

    def sums(self, values: Floats) -> TailPair:
        """Means of the binomial tail F over X (a) and over X + 1 (b), with a bound of their absolute error (off).

        So a belongs to the target's noisy label 0, and b to her noisy label 1.

        Args:
            values: (21, pieces) the values of F at `points`.
        """
        off = float(self.mass @ (self.off + _VALUES * values.max(axis=0)))
        return TailPair(float((self.at * values).sum()), float((self.above * values).sum()), off)


def _log_off(low: float, high: float, half: float, submissions: int, rho: float) -> float:
    """ln of a bound of the error of interpolating a tail of Bin(t, p) on pieces of [low, high].

    The bound is 4 M ρ^(1-N)/(ρ-1), for any ρ > 1. M bounds the tail in an ellipse about each piece, with half axes
    half·(ρ + 1/ρ)/2 and half·(ρ - 1/ρ)/2. The result is infinite if an ellipse reaches beyond (0, 1).

    Args:
        low, high: the ends of the range of p. half: half the width of a piece. submissions: t. rho: ρ.
    """
    beyond = half * ((rho + 1.0 / rho) / 2.0 - 1.0)
    least, largest = low - beyond, high + beyond
    if least <= 0.0 or largest >= 1.0:
        return math.inf
    imaginary = half * (rho - 1.0 / rho) / 2.0
    growth = submissions * imaginary**2 / (2.0 * min(least * (1.0 - least), largest * (1.0 - largest)))
    return math.log(4.0 / (rho - 1.0)) + growth - (POINTS - 1) * math.log(rho) + 1e-9
