"""Three-point pairs of one target's fetchers at several levels τ, and how likely their p_i leave [τ, 1-τ-w]."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from p2p_sim.privacy.binomial_windows import SUBNORMAL, Floats
from p2p_sim.privacy.overlays.row_tails import Lacking
from p2p_sim.privacy.overlays.symmetric_pairs import LEAST_FLIP, SHARES, Levels, Pair, SymmetricLosses, product

MOST_LINES = 128
"""Most different weights of one target's fetchers that are kept apart."""
_GRID = 24
"""Of more, weights are rounded up to about twice as many."""
_FEW = 8
"""Levels that are tried before all others."""


@dataclass(frozen=True, eq=False)
class TargetLevels:
    """The bounds of `Levels` for one target, each level worked out when it is first needed.

    Her fetchers are given in groups, whose users have one and the same row, and stray together. A larger weight gives a
    pair with a larger curve, so weights may be rounded up.

    Args:
        weights, rates, counts: (G,) of each group: w, the rate, and how many users. flip_prob: α in [0, 1/2].
        tails: bounds for the groups' rows without the target; None if there is no group.
        copies: (G,) how many such groups there are, each with a row of its own.
    """

    weights: Floats
    rates: Floats
    counts: Floats
    flip_prob: float
    tails: Lacking | None
    copies: Floats
    _made: dict[int, "tuple[float, float, float, SymmetricLosses] | None"] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if np.unique(self.weights).size > MOST_LINES:
            ends = (float(self.weights.min()), float(self.weights.max()))
            grid = np.union1d(np.geomspace(*ends, _GRID), np.quantile(self.weights, np.linspace(0.0, 1.0, _GRID)))
            place = np.minimum(np.searchsorted(grid, self.weights), grid.size - 1)
            object.__setattr__(self, "weights", np.maximum(grid[place], self.weights))

    @cached_property
    def _shown(self) -> Floats:
        """Probability that some user of a group submits the target's bit."""
        with np.errstate(divide="ignore"):
            unseen = self.counts * np.log1p(-self.rates * np.minimum(self.weights, 1.0))
        return np.asarray(-np.expm1(unseen) * (1.0 + 1e-15) + SUBNORMAL)

    @cached_property
    def _exposure(self) -> float:
        return any_of(self._shown, self.copies)

    def all(self) -> Levels:
        """All levels together."""
        return self.some(range(len(SHARES)))

    def some(self, places: Sequence[int]) -> Levels:
        """Some levels together: a bound that is nowhere below that of all."""
        found = [made for place in places if (made := self._level(place)) is not None]
        leaks, always, strays, laws = zip(*found, strict=True) if found else ((), (), (), ())
        return Levels(self._exposure, leaks, always, strays, laws)

    def best(self, ratio: float) -> tuple[int, ...]:
        """A few levels that together bound HS_ratio nearly as well as all: chosen one after another."""
        chosen: tuple[int, ...] = ()
        rest = {place: made[3].divergence(ratio) for place in range(len(SHARES)) if (made := self._level(place))}
        within = dict(rest)
        while rest and len(chosen) < _FEW:
            tried = {place: (*chosen, place) for place in rest}
            bound = {place: self.some(its).combined(np.array([within[k] for k in its])) for place, its in tried.items()}
            best = min(bound, key=bound.__getitem__)
            chosen, _ = tried[best], rest.pop(best)
        return chosen

    def _level(self, level: int) -> "tuple[float, float, float, SymmetricLosses] | None":
        """What leaks, what always leaks, the chance that anybody strays, and the law; None if it would say little more
        than the exposure."""
        if level not in self._made:
            self._made[level] = self._make(level)
        return self._made[level]

    def _make(self, place: int) -> "tuple[float, float, float, SymmetricLosses] | None":
        if self.flip_prob < LEAST_FLIP or not self.weights.size:
            return None
        assert self.tails is not None
        level, weights, shown = SHARES[place] * self.flip_prob, self.weights, self._shown
        chance = np.minimum(1.0, 2.0 * self.tails.at(place))
        chance[2.0 * level + weights >= 1.0] = 1.0
        kept = chance < 1.0
        copies = self.copies
        base, stray = any_of(shown[~kept], copies[~kept]), float((copies * chance)[kept].sum()) * (1.0 + 1e-12)
        leak = base + float((copies * (shown * chance))[kept].sum()) * (1.0 + 1e-12)
        if not kept.any() or (leak >= 0.25 * self._exposure and stray >= 1.0) or base >= self._exposure:
            return None
        lines, at = np.unique(np.stack([weights[kept], self.rates[kept]], axis=1), axis=0, return_inverse=True)
        users = np.bincount(at.ravel(), weights=(self.counts * copies)[kept])
        pairs = [Pair.three_point(level, w, rate, int(k)) for (w, rate), k in zip(lines.tolist(), users, strict=True)]
        return leak, base, stray, product(pairs)


def any_of(chances: Floats, copies: Floats) -> float:
    """Probability that one of several independent events happens, rounded up; there are `copies` of each."""
    with np.errstate(divide="ignore"):
        return min(1.0, -math.expm1(float((copies * np.log1p(-np.minimum(chances, 1.0))).sum())) * (1.0 + 1e-12))
