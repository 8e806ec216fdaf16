"""Products of symmetric pairs as laws of the privacy loss on one grid, rounded against us.

A user's pair is a mixture of parts; a part shows -ℓ with probability `low` and +ℓ with probability `high` under P,
and the other way round under Q, where ℓ = ln(high/low). What is left is shown alike under both. The three-point pair
(τ, 1-2τ-w, τ+w) against its mirror image is low = τ, high = τ+w.

A loss between the points kg and (k+1)g of the grid is split into these two so that the hockey-stick curve of the pair
is kept at every e^(kg) and linear in between. The curve is convex, so the new pair's is nowhere below it, and pairs
with larger curves have products with larger curves (Blackwell).

Rounding: `low` and `high` come with a few u and are moved apart by more before they are used. In the terms of a law all
is non-negative, so that a sum of N steps of K values is off by the N times 8u of its steps and what `LossSum` counts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from p2p_sim.privacy.binomial_windows import UNIT, Floats
from p2p_sim.privacy.randomized_response import hockey_stick_coefficients, outward

SHARES = tuple(float(share) for share in np.arange(0.05, 0.975, 0.025))
"""Levels τ that are tried, as shares of α."""
LEAST_FLIP = 1e-100
"""α below which no pairs are looked at: no number of users hides anything, and products of e^ε₀ would overflow."""
_APART = 2.0**-48
"""By this factor low and high are moved apart, more than they are rounded."""
_NEGLIGIBLE = 1e-40
"""Probability below which the ends of a law are cut off, and charged."""
_POINTS = 3000
"""Points of the grid for the sum of all losses, about."""


@dataclass(frozen=True, eq=False)
class Pair:
    """`count` users, each of whose outcomes come in mirrored parts: one has probability `low` under one law and `high`
    under the other, its mirror the reverse.

    low, high: arrays of one length. leak: the probability that she shows the bit itself.
    """

    low: Floats
    high: Floats
    count: int = 1
    leak: float = 0.0

    @staticmethod
    def three_point(level: float, weight: float, rate: float, count: int) -> "Pair":
        """The pair of users who are seen with probability `rate` and then show the three points (τ, 1-2τ-w, τ+w); τ:
        `level`, w: `weight`.
        """
        return Pair(np.array([rate * level]), np.array([rate * (level + weight)]), count)


@dataclass(frozen=True, eq=False)
class SymmetricLosses:
    """The law of the privacy loss of a symmetric pair of laws, on a grid.

    law: probabilities of (first + 0, 1, ...) · grid, off by `error` times themselves; `lost` has an infinite loss.
    """

    law: Floats
    first: int
    grid: float
    lost: float
    error: float = 0.0

    def divergence(self, ratio: float, limit: float | None = None) -> float:
        """HS_ratio(P || Q) = Σ max(0, P - ratio·Q), an upper bound; the other direction's is equal.

        ln(ratio) and the losses are rounded, so that ln(ratio) is taken to be smaller by 4u times the larger of them.
        """
        losses = self.grid * (self.first + np.arange(len(self.law)))
        least = math.log(ratio) * (1.0 - 4.0 * UNIT) - 4.0 * UNIT * (1.0 + float(np.abs(losses).max(initial=0.0)))
        above = losses > least
        excess = -np.expm1(least - losses[above])
        return min(1.0, float(self.law[above] @ excess) * (1.0 + 1e-11 + self.error) + self.lost)


class LossSum(NamedTuple):
    """The law of a sum of users' privacy losses on a grid: probabilities of first + 0, 1, ... steps.

    Besides: what was cut off, and by how much the probabilities may be off, as a share of themselves.
    """

    law: Floats
    first: int
    lost: float = 0.0
    error: float = 0.0

    def plus(self, more: "LossSum") -> "LossSum":
        """The law of the sum of both; a convolution of K and L values adds an error of (min(K, L) + 1)u."""
        law = np.convolve(self.law, more.law)
        # Cut negligible ends; their sum is charged, and at least what may have underflowed.
        likely = np.flatnonzero(law > _NEGLIGIBLE)
        low, high = int(likely[0]), int(likely[-1])
        cut = float(law[:low].sum() + law[high + 1 :].sum()) + len(law) * 1e-300
        error = self.error + more.error + (min(len(self.law), len(more.law)) + 1) * UNIT
        return LossSum(law[low : high + 1], self.first + more.first + low, self.lost + more.lost + cut, error)

    def times(self, count: int) -> "LossSum":
        """The sum of `count` such losses, at least one, by repeated squaring; the rounding error doubles each time."""
        total, square = LossSum(np.ones(1), 0), self
        while count:
            if count & 1:
                total = total.plus(square)
            count >>= 1
            if count:
                square = square.plus(square)
        return total


def product(pairs: Sequence[Pair]) -> SymmetricLosses:
    """The loss law that bounds the product of all users' pairs: losses add up, and 1 - Π (1 - leak) shows the bit
    itself.
    """
    total, hidden = LossSum(np.ones(1), 0), 0.0  # hidden: ln Π (1 - leak)
    pairs = [Pair(p.low * (1.0 - _APART), p.high * (1.0 + _APART), p.count, p.leak) for p in pairs]
    grid = _grid(pairs)
    for pair in pairs:
        hidden += pair.count * math.log1p(-pair.leak) if pair.leak < 1.0 else -math.inf
        if pair.low.size:
            law = _step(pair, grid)
            step = LossSum(law, -(len(law) // 2), error=8.0 * UNIT)
            total = total.plus(step.times(pair.count) if pair.count > 1 else step)
    lost = total.lost * (1.0 + 1e-6) - math.expm1(hidden) * (1.0 + 1e-12)
    return SymmetricLosses(total.law, total.first, grid, lost, total.error)


def _grid(pairs: Sequence[Pair]) -> float:
    """Width of the grid: the loss itself if there is only one, an eighth of a typical one if that is not too fine.

    At most `_POINTS` points in 26 deviations of the sum, and 500 in the largest loss.
    """
    low = np.concatenate([p.low for p in pairs] or [np.ones(1)])
    high = np.concatenate([p.high for p in pairs] or [np.full(1, 2.0)])
    count = np.concatenate([np.full(p.low.size, float(p.count)) for p in pairs] or [np.ones(1)])
    used = high > low
    if not used.any():
        return 1.0
    low, high, count = low[used], high[used], count[used]
    losses = np.log(high / low)
    if np.ptp(losses) <= 1e-12 * losses.max():
        return float(losses.max())
    gains = count * (high - low)
    typical = float(gains @ losses / gains.sum())
    spread = math.sqrt(float((count * (low + high)) @ losses**2))
    return max(typical / 8.0, 26.0 * spread / _POINTS, float(losses.max()) / 500.0)


def _step(pair: Pair, grid: float) -> Floats:
    """The law of one user's loss on the points -K..K of the grid; what leaks counts as shown alike here.

    A loss between kg and (k+1)g goes to both points so that the curve is kept at e^(kg): the mass at -(k+1)g is (high -
    e^(kg) low)/(e^((k+1)g) - e^(kg)), and the rest of `low` is at -kg.
    """
    losses = np.log(pair.high / pair.low)
    below = np.maximum(np.floor(losses / grid + 1e-12), 0.0)
    near, far = np.exp(below * grid), np.exp((below + 1.0) * grid)
    mass_far = np.clip((pair.high - near * pair.low) / (far - near), 0.0, pair.low)
    mass_near = pair.low - mass_far
    middle = int(below.max()) + 1
    step = np.zeros(2 * middle + 1)
    k = below.astype(np.int64)
    for offset, mass, growth in ((k, mass_near, near), (k + 1, mass_far, far)):
        np.add.at(step, middle - offset, mass)
        np.add.at(step, middle + offset, mass * growth)
    step[middle] = 0.0
    step[middle] = max(0.0, 1.0 - step.sum())
    return step[1:-1] if step[0] == 0.0 and step[-1] == 0.0 and middle > 1 else step


@dataclass(frozen=True, eq=False)
class Levels:
    """Bounds of HS_r of the users' products at several levels τ, and their best combination.

    Reveal all noisy bits but the target's. A fetcher is *stray* at τ if her p_i < τ or p_i + w > 1-τ. At each level the
    stray ones show whether they fetched the target's bit, and, if so, the bit: that leaks with probability
    `leaks` (and `always`, part of it, for those who are always treated so). The others are bounded by `laws`, and
    `strays` bounds the probability that there is a stray one at all. `exposure` bounds the probability that anybody
    submits the target's bit, hence every divergence. So HS_r <= leaks + H at each level; and where nobody is stray at
    a level, HS_r <= always + H there, so with these sorted to fall, G_0 = exposure > G_1 > ..., and s_k the least
    strays of the levels k, k+1, ..., HS_r <= G_K + Σ (G_{k-1} - G_k) min(1, s_k): it exceeds G_k only if somebody is
    stray at each of these levels. Fewer levels never bound it better.
    """

    exposure: float
    leaks: tuple[float, ...] = ()
    always: tuple[float, ...] = ()
    strays: tuple[float, ...] = ()
    laws: tuple[SymmetricLosses, ...] = ()

    def divergence(self, ratio: float, limit: float | None = None) -> float:
        """Upper bound of HS_ratio, averaged over the revealed bits."""
        if not self.laws:
            return self.exposure
        return self.combined(np.array([law.divergence(ratio) for law in self.laws]))

    def combined(self, within: Floats) -> float:
        """The best bound of HS_ratio from all levels, given that of each level's law, (K,), at least one."""
        # min over k of leaks_k + H_k.
        single = float((np.array(self.leaks) + within).min())
        # G_K + Σ (G_(k-1) - G_k) min(1, s_k).
        values = np.minimum(self.exposure, np.array(self.always) + within)
        order = np.argsort(-values)
        steps = -np.diff(np.append(self.exposure, values[order]))
        strays = np.minimum.accumulate(np.array(self.strays)[order][::-1])[::-1]
        layered = float(values.min() + steps @ np.minimum(1.0, strays))
        return min(self.exposure, single, layered) * (1.0 + 1e-12)


def amplified_delta(levels: "Divergence", flip_prob: float, epsilon: float, limit: float | None = None) -> float:
    """δ(ε) of the target's label from HS_r, the divergence that `levels` gives of views with her noisy bit 1 and 0:
    keep · HS_r.

    keep = 1-α-αe^ε is rounded up and r = (e^ε(1-α)-α)/keep down, in which HS_r does not rise. limit: of δ, as in
    `Divergence`.
    """
    flip = amplified(flip_prob, epsilon)
    if flip.keep == 0.0:
        return 0.0
    divergence = levels.divergence(flip.ratio, None if limit is None else limit / flip.keep)
    return outward(0.0, flip.keep * divergence * (1.0 + 1e-12)).upper if divergence > 0.0 else 0.0


class Amplification(NamedTuple):
    """The factor and the ratio in δ(ε) <= keep · HS_ratio, which the noise on the target's own label gives."""

    keep: float
    ratio: float


def amplified(flip_prob: float, epsilon: float) -> Amplification:
    """keep = 1-α-αe^ε, rounded up, and the ratio r = (e^ε(1-α)-α)/keep, at least 1, rounded down."""
    keep, lose, relative_error = hockey_stick_coefficients(flip_prob, epsilon)
    if keep == 0.0:
        return Amplification(0.0, 1.0)
    most = keep * (1.0 + relative_error)
    return Amplification(most, max(1.0, lose * (1.0 - 16.0 * UNIT) / most) if lose < most * 1e300 else 1e300)


class Divergence(Protocol):
    """What bounds the hockey-stick divergences of the laws of one user's noisy bit."""

    def divergence(self, ratio: float, limit: float | None = None) -> float:
        """Upper bound of HS_ratio. With a limit, a less sharp bound may do, if it is on the same side of the limit."""
