"""Products of symmetric pairs as laws of the privacy loss on one grid. Rounding never lowers a bound.

A pair is two laws, P and Q, of what a user shows. A *symmetric* pair is a mixture of parts. Each part has two numbers
`low` and `high`, and the loss ℓ = ln(high/low). Under P the part shows the privacy loss -ℓ with probability `low`, and
+ℓ with probability `high`. Under Q the two probabilities are exchanged. Every other outcome has the same probability
under both laws. The three-point pair is (τ, 1-2τ-w, τ+w) against its mirror image. It has one part with low = τ and
high = τ+w.

The hockey-stick curve of a pair is HS_r = Σ max(0, P - rQ) as a function of r. A loss between the points kg and (k+1)g
of a grid of step g is split between the two points. The curve keeps its value at every r = e^(kg), and becomes linear
in between. The old curve is convex, so the new curve is nowhere below it. Pairs with larger curves have products with
larger curves (Blackwell).

Rounding: let u = 2^-53 be the unit of rounding. `low` and `high` have errors of a few u. They are moved apart by more
than this before they are used. All terms of a law are non-negative. So the relative error of the law of a sum of N
losses is N times 8u, the error of one loss. `SymmetricLosses.plus` adds further errors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from p2p_sim.privacy.binomial_windows import UNIT, Floats
from p2p_sim.privacy.randomized_response import hockey_stick_coefficients, outward

SHARES = tuple(float(share) for share in np.arange(0.05, 0.975, 0.025))
"""Thresholds τ (levels) that are tried, as shares of the flip probability α; see `LevelBound`."""
LEAST_FLIP = 1e-100
"""Flip probability α below which no pairs are used. Any number of users then hides too little, and products of e^ε₀
would overflow."""
_APART = 2.0**-48
"""Relative amount by which `low` and `high` are moved apart. It is larger than their rounding errors."""
_NEGLIGIBLE = 1e-40
"""Probability below which the ends of a law are cut off. What is cut off is added to the bound."""
_POINTS = 3000
"""Approximate number of points of the grid for the sum of all losses."""


@dataclass(frozen=True, eq=False)
class Pair:
    """The symmetric pair of each of `count` users.

    low, high: (J,), `low` and `high` of each of J parts. leak: the probability that a user shows the target's noisy
    label itself.
    """

    low: Floats
    high: Floats
    count: int = 1
    leak: float = 0.0

    @staticmethod
    def three_point(level: float, weight: float, rate: float, count: int) -> "Pair":
        """The three-point pair of `count` users, who are each seen with probability `rate`.

        A user who is seen shows one of three outcomes. Their probabilities are (τ, 1-2τ-w, τ+w) for one noisy label of
        the target, and (τ+w, 1-2τ-w, τ) for the other. Consider a user's probability of submitting a 1 if the target's
        noisy label is 0. If this probability lies in [τ, 1-τ-w], her submission shows no more than this pair.

        Args:
            level: τ. weight: w, the probability that a user fetches the target's label.
        """
        return Pair(np.array([rate * level]), np.array([rate * (level + weight)]), count)


@dataclass(frozen=True, eq=False)
class SymmetricLosses:
    """The law of the privacy loss of a symmetric pair of laws, or of a sum of such losses, on a grid.

    law: (K,), probabilities under P of the losses (first + i) · grid, i = 0 to K-1. error: bound of the relative errors
    of `law`. lost: the probability of an infinite loss, including what was cut off.
    """

    law: Floats
    first: int
    grid: float
    lost: float = 0.0
    error: float = 0.0

    def divergence(self, ratio: float, limit: float | None = None) -> float:
        """Upper bound of the hockey-stick divergence Σ max(0, P - ratio·Q). P and Q may be exchanged.

        Args:
            ratio: at least 1. To allow for rounding, its logarithm x is lowered by 4u (x + 1 + largest absolute loss),
            where u = 2^-53.
            limit: ignored; see `Divergence`, which allows other classes to stop early.
        """
        losses = self.grid * (self.first + np.arange(len(self.law)))
        least = math.log(ratio) * (1.0 - 4.0 * UNIT) - 4.0 * UNIT * (1.0 + float(np.abs(losses).max(initial=0.0)))
        above = losses > least
        excess = -np.expm1(least - losses[above])
        return min(1.0, float(self.law[above] @ excess) * (1.0 + 1e-11 + self.error) + self.lost)

    def plus(self, more: "SymmetricLosses") -> "SymmetricLosses":
        """The law of the sum of this loss and an independent loss on the same grid.

        `error` bounds the relative error of a law. The errors of the two laws add up. Their convolution adds (min(K, L)
        + 1)u, where the laws have K and L values, and u = 2^-53 is the unit of rounding.
        """
        law = np.convolve(self.law, more.law)
        # Cut negligible ends. `lost` grows by what is cut, and by more than may have underflowed.
        likely = np.flatnonzero(law > _NEGLIGIBLE)
        low, high = int(likely[0]), int(likely[-1])
        cut = float(law[:low].sum() + law[high + 1 :].sum()) + len(law) * 1e-300
        error = self.error + more.error + (min(len(self.law), len(more.law)) + 1) * UNIT
        lost = self.lost + more.lost + cut
        return SymmetricLosses(law[low : high + 1], self.first + more.first + low, self.grid, lost, error)

    def times(self, count: int) -> "SymmetricLosses":
        """The law of the sum of `count` independent losses of this law, by repeated squaring; `count` is at least 1."""
        total, square = SymmetricLosses(np.ones(1), 0, self.grid), self
        while count:
            if count & 1:
                total = total.plus(square)
            count >>= 1
            if count:
                square = square.plus(square)
        return total


def product(pairs: Sequence[Pair]) -> SymmetricLosses:
    """The law of the privacy loss that bounds what all users together show. Losses of independent users add up.

    Each user shows the target's noisy label itself with probability `leak`. At least one user shows it with probability
    1 - Π (1 - leak), which is added to `lost`.

    Args:
        pairs: for each group of users, the pair of laws of what one of them shows, and how many users the group has.
    """
    hidden = 0.0  # ln Π (1 - leak)
    pairs = [Pair(p.low * (1.0 - _APART), p.high * (1.0 + _APART), p.count, p.leak) for p in pairs]
    grid = _grid(pairs)
    total = SymmetricLosses(np.ones(1), 0, grid)
    for pair in pairs:
        hidden += pair.count * math.log1p(-pair.leak) if pair.leak < 1.0 else -math.inf
        if pair.low.size:
            law = _step(pair, grid)
            step = SymmetricLosses(law, -(len(law) // 2), grid, error=8.0 * UNIT)
            total = total.plus(step.times(pair.count) if pair.count > 1 else step)
    return replace(total, lost=total.lost * (1.0 + 1e-6) - math.expm1(hidden) * (1.0 + 1e-12))


def _grid(pairs: Sequence[Pair]) -> float:
    """The step of the grid of privacy losses; 1 if no loss is positive.

    If all users' losses are equal, the step is the loss. Otherwise it is at least an eighth of the mean loss. The mean
    is over all parts of all users' pairs, with weights high - low. The step is larger where the grid would otherwise
    have over 3,000 points in 26 standard deviations of the sum of losses. It is also larger where the grid would have
    over 500 points in the largest loss.
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
    """The law of one user's privacy loss on the points -K, ..., K of the grid, (2K+1,).

    Point K is the next above her largest loss. If the two ends have probability 0 and K is above 1, they are left out.
    Outcomes that are equally likely under both laws have the loss 0. A user who shows the target's noisy label itself
    counts with loss 0 here; `product` accounts for her.

    With g = `grid`, a loss between kg and (k+1)g is split between both points. The divergence HS_r at r = e^(kg) stays
    the same. The point -(k+1)g gets the probability (high - e^(kg) low)/(e^((k+1)g) - e^(kg)), and -kg gets the rest of
    `low`. The points (k+1)g and kg get these two probabilities times e^((k+1)g) and e^(kg).
    """
    below = np.maximum(np.floor(np.log(pair.high / pair.low) / grid + 1e-12), 0.0)
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


class LevelBound(NamedTuple):
    """Bounds of what a target's fetchers (users who may fetch her label) show, at one threshold τ, called a level.

    All noisy labels except the target's are revealed. Let w be the probability that fetcher i fetches the target's
    noisy label. Her submission is 1 with probability p_i if this label is 0, and p_i + w if it is 1. She is *stray* at
    τ if p_i < τ or p_i + w > 1-τ. A stray fetcher counts as showing whether she fetched the label. If she did, she
    shows the label.

    leak: the probability that a stray fetcher shows the label. always: the part of `leak` from fetchers who count as
    stray at every p_i. stray: a bound of the probability that any other fetcher is stray. law: bounds what fetchers who
    are not stray show.
    """

    leak: float
    always: float
    stray: float
    law: SymmetricLosses


@dataclass(frozen=True, eq=False)
class Levels:
    """Bounds of HS_r, the divergence of what a target's fetchers show, at several levels τ, and their best combination.

    exposure: a bound of the probability that anybody submits the target's noisy label. Every divergence is at most
    `exposure`. bounds: one `LevelBound` for each level.

    Let H be the divergence of a level's law. At each level HS_r <= leak + H. Given the revealed labels, HS_r is at most
    always + H at a level if no fetcher besides those in `always` is stray. Let G_0 = exposure, and G_k = always + H at
    level k. Sort the K levels so that G_0 > G_1 > ... > G_K. Let s_k be the least `stray` of the levels k, ..., K. HS_r
    exceeds G_k only if another fetcher is stray at each of them. So HS_r <= G_K + Σ (G_{k-1} - G_k) min(1, s_k).
    With fewer levels this bound is never smaller.
    """

    exposure: float
    bounds: tuple[LevelBound, ...] = ()

    def divergence(self, ratio: float, limit: float | None = None) -> float:
        """Upper bound of HS_ratio, of what is seen if the target's noisy label is 1 and if it is 0, from all levels
        together.

        Without any level the bound is `exposure`.

        Args:
            ratio: at least 1. limit: ignored, as in `SymmetricLosses.divergence`.
        """
        if not self.bounds:
            return self.exposure
        return self.combined(np.array([bound.law.divergence(ratio) for bound in self.bounds]))

    def combined(self, within: Floats) -> float:
        """The best bound of HS_ratio that follows from K > 0 levels: the least of three bounds.

        The first bound is `exposure`. The second is the least leak + H of a level. The third is the sum over all levels
        in the docstring of `Levels`.

        Args:
            within: (K,), the divergence H = HS_ratio of the law of each level's `LevelBound`.
        """
        leaks, always, strays = np.array([bound[:3] for bound in self.bounds]).T
        # The least leak_k + H_k over all levels k.
        single = float((leaks + within).min())
        # G_K + Σ (G_(k-1) - G_k) min(1, s_k).
        values = np.minimum(self.exposure, always + within)
        order = np.argsort(-values)
        steps = -np.diff(np.append(self.exposure, values[order]))
        strays = np.minimum.accumulate(strays[order][::-1])[::-1]
        layered = float(values.min() + steps @ np.minimum(1.0, strays))
        return min(self.exposure, single, layered) * (1.0 + 1e-12)


def amplified_delta(levels: "Divergence", flip_prob: float, epsilon: float, limit: float | None = None) -> float:
    """The bound keep · HS_r of δ(ε) of the target's label; 0 if keep is not positive.

    HS_r is the hockey-stick divergence of what is seen if the target's noisy label is 1 and if it is 0. The flip of her
    label with probability α gives keep = 1-α-αe^ε and r = (e^ε(1-α)-α)/keep. Here keep is rounded up, and r down,
    because HS_r falls with r.

    Args:
        levels: an object whose method `divergence` bounds HS_r. flip_prob: α.
        limit: a δ with which the result will be compared. The result may then be larger than the bound, but exceeds
            `limit` only if the bound does. None: the bound itself.
    """
    keep, ratio = amplified(flip_prob, epsilon)
    if keep == 0.0:
        return 0.0
    divergence = levels.divergence(ratio, None if limit is None else limit / keep)
    return outward(0.0, keep * divergence * (1.0 + 1e-12)).upper if divergence > 0.0 else 0.0


def amplified(flip_prob: float, epsilon: float) -> tuple[float, float]:
    """keep = 1-α-αe^ε, rounded up, and the ratio r = (e^ε(1-α)-α)/keep, at least 1, rounded down; 0 and 1 if keep <= 0.

    They describe the flip of the target's label: δ(ε) <= keep · HS_r.
    """
    keep, lose, relative_error = hockey_stick_coefficients(flip_prob, epsilon)
    if keep == 0.0:
        return 0.0, 1.0
    most = keep * (1.0 + relative_error)
    return most, max(1.0, lose * (1.0 - 16.0 * UNIT) / most) if lose < most * 1e300 else 1e300


class Divergence(Protocol):
    """A bound of the hockey-stick divergence of what is seen if one user's noisy label is 1 and if it is 0."""

    def divergence(self, ratio: float, limit: float | None = None) -> float:
        """Upper bound of the hockey-stick divergence HS_ratio, for a ratio of at least 1.

        Args:
            limit: a number with which the result will be compared. The result may then be larger than the bound, which
            saves time. It exceeds `limit` only if the bound does. None: the bound itself.
        """
