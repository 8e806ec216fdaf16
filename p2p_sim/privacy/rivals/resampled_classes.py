"""An upper bound of δ(ε) of Algorithm 1 of the clustering paper, for any number of classes K, over all data sets.

Only noisy labels are released. With probability λ each of n users' labels is replaced by a draw from q̃. Here q̃ is a
noisy distribution of the labels, which gives every class a probability of at least τ. The noise on a class's share has
scale σ/n. In this module `lam` is λ, `scale` is σ, and `threshold` is τ.

Fix the noise. A changed label then moves q̃ by at most 1/n in total variation. Let d = min(1/n, 1-Kτ). The pair of laws
q̃ before and after the change is a post-processing of two laws on three points: (τ + d, 1-2τ-d, τ) and (τ, 1-2τ-d,
τ + d). So n resampled labels reveal no more than n draws from the three points. The noise can hide a part f of the
change instead. Then two Laplace variables count as revealed, each moved by f/σ of its scale, and d is multiplied by
1-f. A pair of laws on three points also bounds the target's own noisy label, with λτ and 1-λ+λd in place of τ and d.
The bound holds for every f. The module takes the smallest bound for a few values of f. `docs/theorem.md` has the proof,
where it treats a curator who resamples.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats

LARGEST_CLUSTER = 2**17
"""Largest number of users of a cluster for which the bound is computed."""
LEAST_THRESHOLD = 1e-9
"""Smallest threshold τ for which the bound is computed."""
_PARTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.6, 2.5, 5.0)
"""Parts f that are tried, as multiples of σ²/(σ² + λnτ), which would be the best f if all laws were normal."""
_MOST_HIDDEN = 0.95
"""Largest part f."""
_FINE = 0.02
"""Desired step of the grid, in standard deviations of the loss; `_FINEST` and `_POINTS` may make it coarser."""
_CUT = 1e-40
"""Outcomes at an end are cut off if their probabilities under both laws are at most this value. `lost` then includes
their probabilities under the second law.
"""
_UNDERFLOW = 1e-30
"""Bound of the second law's probability of losses above 640, at which the first law underflows.

The losses of two Laplace laws and of the target's own label are at most 3 · `_LOSSES` = 180 together. The loss of the
draws is 460 or more with probability at most Pr[Bin(n, τ + 1/n) >= 460 / ln(1 + 1/(nτ))] < 1e-32. The largest value is
at n = 73 and τ = `LEAST_THRESHOLD`.
"""
_SLACK = 1e-7
"""Relative amount by which probabilities are raised for rounding, and half of the amount by which losses are raised.

Let u = 2^-53. All terms are non-negative, so relative errors add up. The three probabilities of a draw have errors of
at most 24u. A small middle probability has an absolute error of up to 3u. This is less than 24u times the last
probability under the second law. `np.convolve` sums directly, and adds at most m·u, where m is the shorter length.
Squaring doubles the error. Let m_j be the length of the law of 2^j draws. Then the error of the law of n draws is at
most n (24u + Σ_j m_j u / 2^(j+1)). By Hoeffding's inequality m_j <= min(2^(j+1) + 1, 28 · 2^(j/2)), and the sum is at
most 12u. At n = 2^17 this is 5.3e-10; at most 20 other convolutions add 3e-10. The errors of losses also add up: 4u of
at most 1000 for all draws together, and 2e-14 for each law on the grid.
"""
_LEAST_ROOM = 1e-4
"""τ is lowered until 1 - Kτ is at least this value. The bound stays valid, and the grid does not become too fine."""
_FINEST = 1000
"""Largest number of steps of the grid in the loss of one draw."""
_POINTS = 3e5
"""Most grid steps, roughly, up to the loss of the target's own label. A draw's loss is at least one step."""
_VASTEST = 1e150
"""From this noise scale σ on, the best part f is taken as 1. Then σ² need not be formed."""
_LOSSES = 60.0
"""A larger loss of the target's own label counts as infinite. No part f makes a loss of a Laplace law larger."""


@dataclass(frozen=True, eq=False)
class Losses:
    """A pair of laws, given by the loss on a grid. The loss is the logarithm of the ratio of the second law to the
    first.

    law: (L,) probabilities under the first law of the losses (first + i) · grid, i = 0 to L-1. lost: probability under
    the second law of all outcomes that are left out or are impossible under the first law.
    """

    law: Floats
    first: int
    grid: float
    lost: float

    def divergence(self, epsilon: float) -> float:
        """An upper bound of the hockey-stick divergence Σ [second law - e^ε · first law]₊, with allowance for all
        rounding errors.
        """
        gains = self.grid * (self.first + np.arange(len(self.law))) - epsilon
        above = gains > -_SLACK
        gained = self.law[above] * np.expm1(gains[above] + 2.0 * _SLACK) * math.exp(min(epsilon, 700.0))
        return float(np.maximum(gained, 0.0).sum()) * (1.0 + _SLACK) + self.lost

    def times(self, factor: "Losses") -> "Losses":
        """The pair of product laws of two independent observations, this pair and `factor`, with the same step `grid`.
        Negligible ends of the laws are cut off and added to `lost`.
        """
        law, first = np.convolve(self.law, factor.law), self.first + factor.first
        # cut off ends with hardly any probability under both laws; count their probability under the second law as lost
        second = law * np.exp(np.minimum(self.grid * (first + np.arange(len(law))), 700.0))
        likely = np.flatnonzero(np.maximum(law, second) > _CUT)
        inside = slice(int(likely[0]), int(likely[-1]) + 1)
        cut = float(second[: inside.start].sum() + second[inside.stop :].sum())
        lost = (self.lost + factor.lost + cut) * (1.0 + _SLACK) + _UNDERFLOW
        return Losses(law[inside], first + inside.start, self.grid, lost)

    def repeated(self, count: int) -> "Losses":
        """The pair of product laws of `count` independent observations, by repeated squaring."""
        product, power = Losses(np.ones(1), 0, self.grid, 0.0), self
        while count:
            if count & 1:
                product = product.times(power)
            count >>= 1
            power = power.times(power) if count else power
        return product

    def stretched(self, steps: int) -> "Losses":
        """This pair of laws on a grid that is `steps` times finer. The new points have probability 0."""
        law = np.zeros(steps * (len(self.law) - 1) + 1)
        law[::steps] = self.law
        return Losses(law, self.first * steps, self.grid / steps, self.lost)


def classes_delta(
    n: int, resampling_prob: float, scale: float, threshold: float, *, epsilon: float, classes: int
) -> float:
    """Upper bound of δ(ε) over all data sets for Algorithm 1 of the clustering paper, if only the noisy labels are
    released.

    A curator replaces each label, with probability λ, by a draw from the noisy shares of the classes. There may be any
    number of classes.

    Args:
        n: users, up to 131,072. resampling_prob: λ in (0, 1]. scale: σ in [0, ∞]; the noise on a share has scale σ/n.
        threshold: τ, the least noisy share, from 1e-9 to 1/K. epsilon: ε, at least 0. classes: K.
    """
    threshold = min(threshold, (1.0 - _LEAST_ROOM) / classes)
    moved = min(1.0 / n, 1.0 - classes * threshold)
    return min(1.0, *(losses.divergence(epsilon) for losses in _laws(n, resampling_prob, scale, threshold, moved)))


@lru_cache(maxsize=8)
def _laws(n: int, lam: float, scale: float, threshold: float, moved: float) -> tuple[Losses, ...]:
    """Pairs of laws that bound what the noisy labels reveal of one user's label: one valid pair for each of several
    parts f.

    One changed label moves the noisy shares. A part f of this move counts as seen through the noise on the shares, and
    the other part as seen through the draws.

    Args:
        moved: d, by how much a changed label moves the noisy shares, in total variation.
    """
    draws = lam * n * threshold
    best = scale**2 / (scale**2 + draws) if scale < _VASTEST else 1.0
    parts = sorted({min(part * best, min(_MOST_HIDDEN, _LOSSES * scale)) for part in _PARTS})
    return tuple(_law(n, lam, scale, threshold, moved=moved * (1.0 - part), part=part) for part in parts)


def _law(n: int, lam: float, scale: float, threshold: float, *, moved: float, part: float) -> Losses:
    """The pair of laws for one part f, which bounds what the noisy labels reveal of one user's label.

    The result is the product of the pairs of up to three independent observations. The first is the draws of all users,
    or of all others if λ is below 1. The second is the target's own noisy label if λ is below 1. The third, for f above
    0, is two Laplace variables, each moved by f/σ of its scale.

    Args:
        moved: (1-f) d, how much a changed label still moves the noisy shares in the draws. part: f.
    """
    # the grid: the loss of a draw, ln(1 + moved/τ), is a whole number of grid steps; the steps are finer if the loss
    # varies little
    step, hidden = math.log1p(moved / threshold), part / scale if part > 0.0 else 0.0
    deviation = math.sqrt(2.0 * n * lam * threshold * step**2 + 2.0 * hidden**2)
    own = min(math.log1p(1.0 / (lam * threshold)), _LOSSES) if lam < 1.0 else 0.0
    finest = max(1, min(_FINEST, int(_POINTS * step / own))) if own > 0.0 else _FINEST
    finer = min(finest, max(1, math.ceil(step / (_FINE * deviation))))
    # the draws from the three points; at λ = 1 they include the target's draw
    users = n if lam == 1.0 else n - 1
    chances = lam * np.array([threshold + moved, 0.0, threshold])
    chances[1] = max(0.0, 1.0 - chances.sum()) * (1.0 + 1e-15)
    law = Losses(chances, -1, step, 0.0).repeated(users).stretched(finer)
    # the two Laplace laws, and the target's own noisy label
    if hidden > 0.0:
        noise = _laplace(hidden, law.grid)
        law = law.times(noise.times(noise))
    if lam < 1.0:
        law = law.times(_label(lam * threshold, 1.0 - lam + lam * moved, law.grid))
    return law


def _label(least: float, moved: float, grid: float) -> Losses:
    """A pair of laws that bounds how well the target's own noisy label tells two values of her true label apart.

    Each noisy label has at least the probability `least`, since a label may be drawn anew. The probability of an
    outcome differs by at most `moved` between the two true labels. So the two laws have three outcomes. Under the first
    law their probabilities are least + moved, the rest to 1, and least. Under the second law the order is reversed. If
    the log-ratio ln(1 + moved/least) exceeds 60, the outcome with this log-ratio is left out. Every divergence then
    includes its probability under the second law.

    Args:
        least: the smallest probability of an outcome. moved: the largest difference. grid: the step of the grid.
    """
    loss = math.log1p(moved / least)
    if loss > _LOSSES:
        return Losses(np.array([1.0]), 0, grid, least + moved)
    first = np.array([least + moved, max(0.0, 1.0 - 2.0 * least - moved), least])
    return _spread(first, np.array([-loss, 0.0, loss]), grid)


def _laplace(shift: float, grid: float) -> Losses:
    """The pair of laws of Laplace noise, and of the noise moved by `shift` times its scale, on a grid of losses."""
    # pieces of [0, shift]; on each the loss lies between two points of the grid. Outside it is -shift or shift
    most = math.floor(shift / grid)
    inner = np.arange(-most, most + 1) * grid
    cuts = np.unique(np.clip(0.5 * (shift + np.concatenate([[-shift], inner, [shift]])), 0.0, shift))
    piece = 0.5 * np.exp(-cuts[:-1]) * -np.expm1(-np.diff(cuts))
    back = 0.5 * np.exp(cuts[1:] - shift) * -np.expm1(-np.diff(cuts))
    few = 0.5 * math.exp(-shift)
    first, second = np.concatenate([[0.5], piece, [few]]), np.concatenate([[few], back, [0.5]])
    return _spread(first, np.log(second / first), grid)


def _spread(first: Floats, losses: Floats, grid: float) -> Losses:
    """A pair of laws with J outcomes, put on a grid of losses.

    An outcome between two points of the grid is split between both, with the same total probability under either law. A
    split loss only varies more. Hockey-stick divergences are means of a convex function of the likelihood ratio, so
    they do not fall.

    Args:
        first: (J,), the outcomes' probabilities under the first law. losses: (J,), the logarithms of the ratio of the
        second law to the first. grid: the step of the grid.
    """
    used = first > 0.0
    first, losses = first[used], losses[used]
    below = np.floor(losses / grid + 1e-9).astype(np.int64)
    share = np.clip(np.expm1(losses - below * grid) / math.expm1(grid), 0.0, 1.0)
    start = int(below.min())
    size = int(below.max()) - start + 2
    law: Floats = np.bincount(below - start, first * (1.0 - share), size).astype(np.float64)
    law += np.bincount(below - start + 1, first * share, size)
    return Losses(law, start, grid, 0.0)
