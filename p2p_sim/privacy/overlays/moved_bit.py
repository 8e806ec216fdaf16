"""The target's bit hidden by the others' bits and by the submissions together: see `docs/theorem.md`, any fetch law.

Under the view in which the target's bit is one, set one more of the others' bits to one with a probability M(x) that
depends on their number x. Whichever M is, the bound holds; it is chosen by dynamic programming.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.overlays.moved_bit_levels import Crowd, MovedBitCell, OffsetBands
from p2p_sim.privacy.overlays.row_offsets import WIDE, WIDER, OffsetPlan
from p2p_sim.privacy.overlays.shifted_pairs import Shift, ShiftLaw, product

_LINES = 8
"""Different weights of fetchers that are kept apart."""
_STRAYS = (-8.0, -12.0, -16.0, -20.0, -25.0, -31.0, -38.0, -46.0, -56.0)
"""Logarithms of how likely a user may leave her band."""
_TRIED = 24
"""Values of M(x), besides 0, that are tried."""
_ALIKE = 30.0
"""M is chosen for ratios r with ln ln r rounded to one in so many."""
_BLOCKS = (0.02, 0.04, 0.06, 0.08, 0.12, 0.2)
"""Widths of blocks of x, as shares of its mean, in the first cells; the others have more slack."""
_LEAST, _MOST = 1e-200, 1e100
"""Ratios of laws are formed from numbers in this range: a smaller ratio only raises a bound."""
_USUAL = 8.0
"""Blocks are wider, up to half a deviation, where the logarithm of the probability is below the largest by more."""


@dataclass(frozen=True, eq=False)
class Block:
    """Values x with one band: the law of who fetched the target's bit, and that of who is moved in its place."""

    inside: slice
    main: ShiftLaw
    side: ShiftLaw

    @cached_property
    def rough(self) -> tuple[Floats, Floats]:
        """Three probabilities and likelihood ratios with the mean and variance of the side law's loss."""
        law, losses = self.side.law, np.log(self.side.ratios)
        mean = float(law @ losses)
        deviation = math.sqrt(max(float(law @ (losses - mean) ** 2), 0.0))
        if deviation == 0.0:
            return np.ones(1), self.side.ratios[:1]
        ratios = np.exp(math.sqrt(3.0) * deviation * np.array([-1.0, 0.0, 1.0]))
        shares = np.array([1.0, 4.0, 1.0]) / 6.0
        return shares, ratios / float(shares @ ratios)

    def divergence(self, stay: Floats, moved: Floats, ratio: float, up: bool, rough: bool = False) -> Floats:
        """HS_ratio(Q1 || Q0) if up, else HS_ratio(Q0 || Q1), where Q1 is `stay` · main law + `moved` · side law."""
        chances, gains = self.rough if rough else (self.side.law, self.side.ratios)
        stay, moved = stay[..., None], moved[..., None]
        rest = (1.0 if up else ratio) * moved * gains
        if up:
            left = ratio - rest * (1.0 + 1e-8)
            safe = np.maximum(stay, _LEAST)
            found = np.where(left > 0.0, stay * self.main.above(np.clip(left, 0.0, _MOST) / safe), stay - left)
            # the side law shows that nothing was moved: what stays is as likely there as under Q0
            unmoved = (stay * self.main.above(min(ratio, _MOST) / safe))[..., 0]
            return np.asarray(found @ chances + self.side.lost[0] * unmoved + moved[..., 0] * self.side.lost[1])
        left = 1.0 - rest * (1.0 - 1e-8)
        safe = np.maximum(left, _LEAST)
        found = np.where(left > 0.0, left * self.main.below(np.minimum(ratio * stay, _MOST) / safe), 0.0)
        alone = self.main.below(
            np.minimum(ratio * stay[..., 0], _MOST)
        )  # without what was moved, which only makes Q1 larger
        return np.minimum(found @ chances + self.side.lost[0], alone)


@dataclass(frozen=True, eq=False)
class Move:
    """What is worked out of one cell: M may be any function of x in each direction."""

    cell: MovedBitCell
    bands: OffsetBands
    blocks: list[Block]
    flip_prob: float
    moved: float
    chosen: dict[tuple[int, bool], Floats] = field(default_factory=dict)

    @cached_property
    def _lifted(self) -> Floats:
        """Pr[X = x-1] / Pr[X = x], times how many bits could be set."""
        x = self.bands.ones
        return np.asarray(x * (1.0 - self.flip_prob) / ((self.cell.hidden - x + 1.0) * self.flip_prob))

    def value(self, chance: Floats, ratio: float, up: bool) -> float:
        """Bound of HS_ratio in one direction, with M(x) = `chance`."""
        came = np.append(0.0, chance[:-1]) * self._lifted * (1.0 + (1e-12 if up else -1e-12))
        found = [b.divergence(1.0 - chance[b.inside], came[b.inside], ratio, up) for b in self.blocks]
        most = 1.0 - chance + came if up else 1.0
        return float(self.bands.law @ np.minimum(np.concatenate(found), most * (1.0 + 1e-12)))

    def plain(self) -> Floats:
        """M(x) by which each bit is set with one probability."""
        x, hidden = self.bands.ones, self.cell.hidden
        return np.asarray(np.minimum(self.moved * (hidden - x) / (hidden * (1.0 - self.flip_prob)), 1.0))

    def best(self, ratio: float, up: bool) -> Floats:
        """The best M(x) of a few values, for a ratio near this one."""
        power = round(_ALIKE * math.log(max(math.log(ratio), 1e-9)))
        if (power, up) not in self.chosen:
            self.chosen[power, up] = self._program(math.exp(math.exp(power / _ALIKE)), up)
        return self.chosen[power, up]

    def _program(self, ratio: float, up: bool) -> Floats:
        if self.moved == 0.0:
            return np.zeros(self.bands.ones.size)
        tried = np.append(0.0, np.geomspace(min(0.01, self.moved / 4.0), 1.0, _TRIED))
        rest, choice = np.zeros(tried.size), np.zeros((self.bands.ones.size, tried.size), dtype=np.int64)
        for block in reversed(self.blocks):
            for k in reversed(range(block.inside.start, block.inside.stop)):
                came = (self._lifted[k] * tried if k else np.zeros(tried.size))[:, None]
                stay = 1.0 - tried[None, :]
                shape = np.broadcast_shapes(stay.shape, came.shape)
                its = block.divergence(
                    np.broadcast_to(stay, shape), np.broadcast_to(came, shape), ratio, up, rough=True
                )
                total = self.bands.law[k] * its + rest
                if self.bands.ones[k] == self.cell.hidden:  # no zero is left
                    total[:, 1:] = np.inf
                choice[k] = total.argmin(axis=1)
                rest = total[np.arange(tried.size), choice[k]]
        found, place = np.zeros(self.bands.ones.size), 0
        for k, line in enumerate(choice):
            place = int(line[place])
            found[k] = tried[place]
        return found


@dataclass(frozen=True, eq=False)
class MovedBit:
    """Bound of HS_r for one target, or for several together.

    Args:
        crowd: all users. weights, rates: (F,) of the target's fetchers, or larger ones. columns: the targets, by their
            place among the hidden users. plan: how users' choices are split.
    """

    crowd: Crowd
    weights: Floats
    rates: Floats
    columns: NDArray[np.int64]
    plan: OffsetPlan
    _moves: dict[tuple[int, int], Move] = field(default_factory=dict, init=False, repr=False)
    _slots: dict[tuple[float, float], list[Shift]] = field(default_factory=dict, init=False, repr=False)
    _bounds: dict[tuple[float, float | None], float] = field(default_factory=dict, init=False, repr=False)
    _level: list[int] = field(default_factory=lambda: [3], init=False, repr=False)

    @cached_property
    def _order(self) -> list[tuple[int, bool]]:
        """Cells and directions."""
        return [(place, up) for place in range(len(self.crowd.cells)) for up in (True, False)]

    @staticmethod
    def of(crowd: Crowd, weights: Floats, rates: Floats, columns: NDArray[np.int64]) -> "MovedBit | None":
        """None where nothing can be moved to advantage."""
        used = (weights > 0.0) & (rates > 0.0)
        weights, rates = weights[used], rates[used]
        alpha = crowd.flip_prob
        few = alpha * float(np.median(crowd.rows.sum(axis=1)))
        if not weights.size or not crowd.cells or few <= 0.0:
            return None
        plan = crowd.offsets.plan(weights, rates, 1.0 / few + 1.0, 1.0 / (crowd.others * alpha * (1.0 - alpha)))
        return MovedBit(crowd, weights, rates, columns, plan)

    def divergence(self, ratio: float, limit: float | None = None) -> float:
        """Upper bound of HS_ratio in either direction; with a limit, a larger one may do on the same side of it."""
        if (ratio, limit) not in self._bounds:
            self._bounds[ratio, limit] = self._divergence(ratio, limit)
        return self._bounds[ratio, limit]

    def _divergence(self, ratio: float, limit: float | None) -> float:
        found, least, first = 1.0, 1.0, self._level[0]
        for step in (0, 1, 1):
            level = min(max(first + step, 0), len(_STRAYS) - 1)
            strays = self._strays(level)
            inside, whole = self._within(ratio, level, None if limit is None else limit - strays)
            if limit is not None and whole and strays > 1e-4 * inside:  # the choice of a level needs the least bound
                inside, _ = self._within(ratio, level, None)
            if inside + strays < least:
                least, self._level[0] = inside + strays, level
            if whole:
                found = min(found, inside + strays)
            if strays <= 0.05 * inside or level == len(_STRAYS) - 1:
                break
            first = level
        if strays < 1e-7 * inside and self._strays(0) > 0.0:
            self._level[0] = max(0, self._level[0] - 1)
        return min(1.0, found)

    def _strays(self, level: int) -> float:
        return self.crowd.bands(self.crowd.cells[0], _STRAYS[level]).stray * self.crowd.exposed

    def _within(self, ratio: float, level: int, limit: float | None) -> tuple[float, bool]:
        """The bound but for what strays, and whether it is one: a part of it that exceeds the limit is none."""
        worst, missed = 0.0, self.crowd.missed
        enough = 0.0 if limit is None else (limit * (1.0 - 1e-8) - missed)
        for which in self._order:
            place, up = which
            move = self._move(place, level)
            share = 1.0 if self.plan.grid == 1.0 else (self.crowd.others + 1.0) / move.cell.hidden
            value = share * move.value(move.plain(), ratio, up)
            if value > max(worst, enough):
                value = min(value, share * move.value(move.best(ratio, up), ratio, up))
            worst = max(worst, value)
            if limit is not None and worst * (1.0 + 1e-9) + missed > limit:
                self._order.remove(which)
                self._order.insert(0, which)  # most likely to exceed the next limit too
                return worst, False
        return worst * (1.0 + 1e-9) + missed, True

    def _move(self, place: int, level: int) -> Move:
        if (place, level) not in self._moves:
            cell = self.crowd.cells[place]
            bands = self.crowd.bands(cell, _STRAYS[level])
            blocks = list(self._blocks(bands, _BLOCKS[min(place, len(_BLOCKS) - 1)]))
            self._moves[place, level] = Move(cell, bands, blocks, self.crowd.flip_prob, self.plan.moved)
        return self._moves[place, level]

    def _blocks(self, bands: OffsetBands, share: float) -> Iterator[Block]:
        mean = float(bands.law @ bands.ones)
        deviation = math.sqrt(mean * (1.0 - self.crowd.flip_prob))
        width, start = max(1, round(share * mean)), 0
        while start < bands.ones.size:
            rare = -math.log(max(float(bands.law[start]), 1e-300) / float(bands.law.max()))
            wide = max(width, int(min(width * rare / _USUAL, 0.5 * deviation)))
            inside = slice(start, min(start + wide, bands.ones.size))
            low, high = float(bands.low[inside].min()), float(bands.high[inside].max())
            yield Block(inside, *self._laws(low, high))
            start = inside.stop

    def _laws(self, low: float, high: float) -> tuple[ShiftLaw, ShiftLaw]:
        """Laws of the main slots and of the side slots; where the band has no room for these, they are wider, or show
        all that they may."""
        plan, offsets = self.plan, self.crowd.offsets
        wide = WIDE[-1] if plan.users else 0.0
        for its in (plan, *(replace(plan, share=more if plan.share else 0.0, wide=wide) for more in WIDER)):
            side, least = offsets.law(its, self.columns, low, high), offsets.room(its, self.columns, low)
            if side is not None and least >= 0.0:
                return self._main(least, high, its.share, its.wide), side
        few, many = min(plan.limit, 0.25), min(offsets.largest, 0.25)
        low, high = max(0.0, low - 2.0 * many), min(1.0, high / (1.0 - 2.0 * many))
        return self._main(low, high, few, many), offsets.told(self.columns)

    def _main(self, low: float, high: float, share: float, wide: float) -> ShiftLaw:
        if (share, wide) not in self._slots:
            self._slots[share, wide] = self._shifts(share, wide)
        shifts = self._slots[share, wide]
        return product([replace(its, low=low, high=min(high, 1.0 - its.shift)) for its in shifts])

    def _shifts(self, share: float, wide_share: float) -> list[Shift]:
        """The main slots of the target's fetchers, their weights rounded up to few."""
        share, narrow = 1.0 - 2.0 * share, 1.0 - 2.0 * wide_share
        order = np.argsort(self.weights, kind="stable")
        weights, rates = self.weights[order], self.rates[order]
        wide = min(self.plan.users, weights.size)
        rate = float(rates.max())
        found = [Shift(rate * narrow, 0.0, 1.0, float(weights[-1]) / narrow, wide)] if wide else []
        if np.ptp(rates) == 0.0:  # the dominating users with wide slots stand for the least weights
            weights, rates = weights[wide:], rates[wide:]
        if weights.size and np.unique(weights).size > _LINES:
            ends = np.quantile(weights, np.arange(1, _LINES + 1) / _LINES)
            ends[-1] = weights[-1]
            weights = ends[np.searchsorted(ends, weights)]
        lines, counts = np.unique(np.stack([weights, rates]), axis=1, return_counts=True)
        for weight, its, count in zip(*lines.tolist(), counts.tolist(), strict=True):
            found.append(Shift(its * share, 0.0, 1.0, weight / share, count))
        return found
