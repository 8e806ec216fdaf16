"""Products of symmetric pairs as laws of the privacy loss on one grid, rounded against us.

A user's pair is a mixture of parts; a part shows -ℓ with probability `low` and +ℓ with probability `high` under P,
and the other way round under Q, where ℓ = ln(high/low). What is left is shown alike under both. The three-point pair
(τ, 1-2τ-w, τ+w) against its mirror image is low = τ, high = τ+w.

A loss between the points kg and (k+1)g of the grid is split into these two so that the hockey-stick curve of the pair
is kept at every e^(kg) and linear in between. The curve is convex, so the new pair's is nowhere below it, and pairs
with larger curves have products with larger curves (Blackwell).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.privacy.exchange.windows import Floats

SHARES = tuple(float(share) for share in np.arange(0.05, 0.975, 0.025))
"""Levels τ that are tried, as shares of α."""
_NEGLIGIBLE = 1e-40
_POINTS = 3000
"""Points of the grid for the sum of all losses, about."""


@dataclass(frozen=True, eq=False)
class Pair:
    """`count` users with one pair each: parts (low, high), arrays of one length; `leak` shows the bit itself."""

    low: Floats
    high: Floats
    count: int = 1
    leak: float = 0.0

    @staticmethod
    def three_point(level: float, weight: float, rate: float, count: int) -> "Pair":
        """Users who are seen with probability `rate` and then show the three-point pair (τ, 1-2τ-w, τ+w)."""
        return Pair(np.array([rate * level]), np.array([rate * (level + weight)]), count)


@dataclass(frozen=True, eq=False)
class LossLaw:
    """Law of the loss under P: probabilities of (first + 0, 1, ...) · grid; `lost` has an infinite loss."""

    law: Floats
    first: int
    grid: float
    lost: float

    def divergence(self, ratio: float) -> float:
        """HS_ratio(P || Q) = Σ max(0, P - ratio·Q), an upper bound; the other direction's is equal."""
        losses = self.grid * (self.first + np.arange(len(self.law)))
        above = losses > math.log(ratio)
        excess = -np.expm1(math.log(ratio) - losses[above])
        return min(1.0, float(self.law[above] @ excess) * (1.0 + 1e-11) + self.lost)


def product(pairs: Sequence[Pair]) -> LossLaw:
    """Upper bound on the product of all users' pairs."""
    law, first, lost, shown = np.ones(1), 0, 0.0, 1.0
    grid = _grid(pairs)
    for pair in pairs:
        shown *= (1.0 - pair.leak) ** pair.count
        if not pair.low.size:
            continue
        step = _step(pair, grid)
        start, missed, power = -(len(step) // 2), 0.0, step
        if pair.count > 1:
            power, start, missed = _power(step, start, pair.count)
        law, first = _trim(np.convolve(law, power), first + start)
        lost += missed + 2.0 * _NEGLIGIBLE * len(law)
    return LossLaw(law, first, grid, lost + 1.0 - shown)


def _grid(pairs: Sequence[Pair]) -> float:
    """Width of the grid: the loss itself if there is only one, an eighth of a typical one if that is not too fine."""
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
    """One user's law under P on the points -K..K of the grid; what leaks counts as shown alike here."""
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


def _power(step: Floats, first: int, count: int) -> tuple[Floats, int, float]:
    """Law of the sum of `count` steps: probabilities, first value, and what was cut off, by repeated squaring."""
    law, start, lost = np.ones(1), 0, 0.0
    square, square_start, square_lost = step, first, 0.0
    while count:
        if count & 1:
            law, start, lost = *_trim(np.convolve(law, square), start + square_start), lost + square_lost
        count >>= 1
        if count:
            square, square_start = _trim(np.convolve(square, square), 2 * square_start)
            square_lost = 2.0 * square_lost + _NEGLIGIBLE * 2.0 * len(square)
        lost += _NEGLIGIBLE * 2.0 * len(law)
    return law, start, lost


def _trim(law: Floats, start: int) -> tuple[Floats, int]:
    """Cut entries below the negligible at both ends."""
    kept = np.flatnonzero(law > _NEGLIGIBLE)
    return law[kept[0] : kept[-1] + 1], start + int(kept[0])


@dataclass(frozen=True, eq=False)
class Levels:
    """Bounds of HS_r of the users' products at several levels τ, and their best combination.

    Reveal all noisy bits but the target's. A fetcher is *stray* at τ if her p_i < τ or p_i + w > 1-τ. At each level the
    stray ones show whether they fetched the target's bit, and, if so, the bit: that leaks with probability
    `leaks` (and `always`, part of it, for those who are always treated so). The others are bounded by `laws`, and
    `strays` bounds the probability that there is a stray one at all. `exposure` bounds the probability that anybody
    submits the target's bit, hence every divergence. So HS_r <= leaks + H at each level; and where nobody is stray at
    a level, HS_r <= always + H there, so with these sorted to fall, G_0 = exposure > G_1 > ...,
    HS_r <= G_K + Σ (G_{k-1} - G_k) min(1, strays_k).
    """

    exposure: float
    leaks: tuple[float, ...] = ()
    always: tuple[float, ...] = ()
    strays: tuple[float, ...] = ()
    laws: tuple[LossLaw, ...] = ()

    def divergence(self, ratio: float) -> float:
        """Upper bound of HS_ratio, averaged over the revealed bits."""
        if not self.laws:
            return self.exposure
        within = np.array([law.divergence(ratio) for law in self.laws])
        single = float((np.array(self.leaks) + within).min())
        values = np.minimum(self.exposure, np.array(self.always) + within)
        order = np.argsort(-values)
        steps = -np.diff(np.append(self.exposure, values[order]))
        layered = float(values.min() + steps @ np.minimum(1.0, np.array(self.strays)[order]))
        return min(self.exposure, single, layered) * (1.0 + 1e-12)


def amplified_delta(levels: Levels | LossLaw, flip_prob: float, epsilon: float) -> float:
    """δ(ε) of the target's label from HS_r of her noisy bit: keep · HS_r, keep = 1-α-αe^ε, r = (e^ε(1-α)-α)/keep."""
    gap, growth = 1.0 - 2.0 * flip_prob, math.expm1(min(epsilon, 700.0))
    keep, lose = gap - flip_prob * growth, gap + (1.0 - flip_prob) * growth
    if keep <= 0.0:
        return 0.0
    return min(1.0, keep * levels.divergence(lose / keep)) * (1.0 + 1e-12)
