"""How far the entries of each row stray from one value of it, counted for each column.

W[i, v] - W[i, j] = u_iv - u_ij, where u_ij = W[i, j] less the median of row i. So that a bit can be moved from v to j,
users get two *side slots*: with probability κ each a choice is one of the first, or of the second, and shows which;
the first takes the shift u_iv/κ, the second the shift -u_ij/κ, and all other choices that of the target's bit. Users
with an offset above a limit have slots of `WIDE` each, whatever κ is.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.overlays.shifted_pairs import NOTHING_SEEN, TOLD, Shift, ShiftLaw, product

WIDE = (0.3, 0.45)
"""Shares of each slot that are tried for users with a large offset."""
WIDER = (0.25, 0.45)
"""κ that are tried where a smaller one does not fit a band."""
_SHARES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.13, 0.16, 0.2, 0.25)
"""κ that are tried."""
_BINS = (5, 2)
"""Steps to which offsets are rounded up, below the limit and above."""
_CLASSES = 8
"""Columns are treated alike in at most so many classes."""
_LADDER = (1.2, 1.5)
"""For side slots, the low and the high end of a band are widened to ladders with these ratios."""
_FINE = 4.0
"""Points of the grid for one standard deviation of a loss."""


@dataclass(frozen=True)
class OffsetPlan:
    """limit: larger offsets have wide slots. share, wide: κ for the others, and for wide slots. users: who have these.

    size: what the variance of the log likelihood ratio is then, about; moved: what share of the shift is best moved.
    grid: for the losses of side slots.
    """

    limit: float
    share: float
    wide: float
    users: int
    size: float
    moved: float
    grid: float


@dataclass(frozen=True, eq=False)
class Offsets:
    """Offsets of a table's entries.

    Args:
        rows: (R, N), entries of users' rows. rates: (R,).
    """

    rows: Floats
    rates: Floats
    _laws: dict[tuple[object, ...], ShiftLaw] = field(default_factory=dict, init=False, repr=False)
    _counted: dict[float, tuple[Floats, NDArray[np.int64]]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def _offsets(self) -> Floats:
        found = self.rows - np.median(self.rows, axis=1, keepdims=True)
        found[np.abs(found) <= 1e-13 * self.rows.max(initial=0.0)] = 0.0
        return found

    @cached_property
    def _sizes(self) -> Floats:
        """Sizes of the offsets that are not 0, ascending."""
        sizes = np.abs(self._offsets).ravel()
        return np.sort(sizes[sizes > 0.0])

    def plan(self, weights: Floats, rates: Floats, spread: float, hiding: float) -> OffsetPlan:
        """The best of a few plans; one that moves nothing if none of them has room.

        Args:
            weights, rates: (F,) of a target's fetchers. spread: 1/p + 1/(1-p), about. hiding: 1/(N α (1-α)).
        """
        if not self._sizes.size:
            own = spread * float(rates @ weights**2)
            return OffsetPlan(0.0, 0.0, 0.0, 0, own * hiding / (own + hiding), own / (own + hiding), 1.0)
        found = [plan for limit in self._limits for plan in self._plans(limit, weights, rates, spread, hiding)]
        still = OffsetPlan(0.0, 0.0, 0.0, 0, spread * float(rates @ weights**2), 0.0, 1.0)
        return min(found, key=lambda its: its.size, default=still)

    @cached_property
    def _limits(self) -> list[float]:
        largest = float(self._sizes[-1])
        return sorted({0.0, *(float(np.quantile(self._sizes, q)) for q in (0.5, 0.9, 0.99)), largest})

    def _plans(
        self, limit: float, weights: Floats, rates: Floats, spread: float, hiding: float
    ) -> Iterator[OffsetPlan]:
        users, within, beyond = self._energies(limit)
        few, most = 1.0 / spread, float(weights.max())
        energy, rate = float(rates @ weights**2), float(rates.max())
        for share, wide in itertools.product(_SHARES if within else (0.0,), WIDE if users else (0.0,)):
            if limit > 0.25 * few * share or (users and self.largest > 0.7 * few * wide):
                continue
            own = spread * (energy / (1.0 - 2.0 * share) + users * rate * most**2 / (1.0 - 2.0 * wide))
            side = 2.0 * spread * ((within / share if share else 0.0) + (beyond / wide if users else 0.0))
            total = own * (hiding + side) / (own + hiding + side)
            yield OffsetPlan(
                limit, share, wide, users, total, own / (own + hiding + side), math.sqrt(side / 2.0) / _FINE
            )

    def _energies(self, limit: float) -> tuple[int, float, float]:
        """Most wide slots of two columns; the mean column's sums of squares of smaller and larger offsets."""
        squares, large = self._offsets**2 * self.rates[:, None], np.abs(self._offsets) > limit
        columns = max(1, self.rows.shape[1])
        beyond = float((squares * large).sum()) / columns
        counts = np.sort(np.count_nonzero(large, axis=0))
        wide = min(int(counts[-2:].sum()), self.rows.shape[0])
        return wide, float(squares.sum()) / columns - beyond, beyond

    def law(self, plan: OffsetPlan, columns: NDArray[np.int64], low: float, high: float) -> ShiftLaw | None:
        """The laws of both slots, averaged over who is moved, for one target or for all given ones together.

        None where p is not in [low, high] with room for the slots' shifts.
        """
        if not self._sizes.size or plan.moved == 0.0:
            return NOTHING_SEEN
        low, high = _lowered(low, _LADDER[0]), 1.0 - _lowered(1.0 - high, _LADDER[1])
        key = (plan.limit, plan.share, plan.wide, low, high)
        if key not in self._laws:
            self._laws[key] = self._average(plan, low, high)
        moved = self._laws[key]
        own: tuple[object, ...] = (*key, columns.tobytes())
        if own not in self._laws:
            counts = self._bins(plan.limit)[1][:, :, columns].max(axis=2)
            self._laws[own] = self._slot(plan, counts, 1.0, low, high)
        mine = self._laws[own]
        return mine.times(moved) if mine.law.any() and moved.law.any() else None

    def room(self, plan: OffsetPlan, columns: NDArray[np.int64], low: float) -> float:
        """Below which p does not fall in main slots, if it is at least `low` over all; negative where there is no room.

        A side slot has the same p, or the least with room for a negative shift d/κ, which leaves less for the others.
        """
        least = low
        falls = (max(0.0, -float(self._offsets[:, columns].min())), max(0.0, float(self._offsets.max())))
        for share, most in ((plan.share, plan.limit), (plan.wide, self.largest if plan.users else 0.0)):
            needed = [max(share * low, min(fall, most) * (1.0 + 1e-9)) for fall in falls]
            if max(needed) > share * low:
                least = min(least, (low - sum(needed)) / (1.0 - 2.0 * share))
        return least

    def told(self, columns: NDArray[np.int64]) -> ShiftLaw:
        """The same if a user's slots are as wide as her offsets, and show which law it is."""
        sums = self.rates @ np.abs(self._offsets)
        chance = min(1.0, float(sums[columns].max() + sums.mean()) * (1.0 + 1e-9))
        return ShiftLaw(np.array([1.0 - chance]), 0, 1.0, (chance, chance))

    @property
    def largest(self) -> float:
        """The largest offset."""
        return float(self._sizes[-1]) if self._sizes.size else 0.0

    def _average(self, plan: OffsetPlan, low: float, high: float) -> ShiftLaw:
        counts, shares = self._classes(plan)
        laws = [self._slot(plan, its, -1.0, low, high) for its in counts]
        if not all(law.law.any() for law in laws):
            return TOLD
        first, last = min(law.first for law in laws), max(law.first + len(law.law) for law in laws)
        total, lost = np.zeros(last - first), np.zeros(2)
        for law, share in zip(laws, shares.tolist(), strict=True):
            total[law.first - first : law.first - first + len(law.law)] += share * law.law
            lost += share * np.array(law.lost)
        return ShiftLaw(total, first, laws[0].grid, (float(lost[0]), float(lost[1])))

    def _slot(self, plan: OffsetPlan, counts: NDArray[np.int64], sign: float, low: float, high: float) -> ShiftLaw:
        """Law of one slot of all users; counts: (2, B) above 0 and below, how many offsets exceed each bin's start."""
        edges, rate, shifts = self._bins(plan.limit)[0], float(self.rates.max()), []
        for way, above in zip((sign, -sign), counts.tolist(), strict=True):
            for edge, number in zip(edges.tolist(), (np.array(above) - np.append(above[1:], 0)).tolist(), strict=True):
                share = plan.share if edge <= plan.limit else plan.wide
                least = low if way > 0.0 else max(low, edge / share)  # see `room`
                shifts.append(Shift(rate * share, least, max(least, high), way * edge / share, int(number)))
        return product(shifts, plan.grid)

    def _bins(self, limit: float) -> tuple[Floats, NDArray[np.int64]]:
        """Upper ends of the bins, ascending, (B,), and for each column, (2, B, N), how many offsets above 0, and below,
        are larger than each bin's start."""
        if limit not in self._counted:
            parts = []
            for inside, bins in ((self._sizes <= limit, _BINS[0]), (self._sizes > limit, _BINS[1])):
                if inside.any():
                    edges = np.unique(np.quantile(self._sizes[inside], np.arange(1, bins + 1) / bins))
                    parts.append(edges[np.append(np.diff(edges) > 1e-9 * edges[-1], True)])
            edges = np.concatenate(parts)
            starts = np.append(0.0, edges[:-1]).tolist()
            signed = (self._offsets, -self._offsets)
            counts = [[np.count_nonzero(side > start, axis=0) for start in starts] for side in signed]
            self._counted[limit] = edges, np.array(counts)
        return self._counted[limit]

    def _classes(self, plan: OffsetPlan) -> tuple[NDArray[np.int64], Floats]:
        """Counts that no column of a class exceeds, (C, 2, B), and the classes' shares of the columns."""
        counts = np.moveaxis(self._bins(plan.limit)[1], 2, 0)
        lines, number = np.unique(counts.reshape(len(counts), -1), axis=0, return_counts=True)
        lines, number = lines[order := np.argsort(lines.sum(axis=1), kind="stable")], number[order]
        place = np.minimum(np.cumsum(number) * _CLASSES // (number.sum() + 1), _CLASSES - 1)
        kept = np.unique(place)
        most = np.array([lines[place == k].max(axis=0) for k in kept])
        share = np.array([number[place == k].sum() for k in kept]) / number.sum()
        return most.reshape(len(kept), *counts.shape[1:]), share


def _lowered(value: float, ratio: float) -> float:
    """The value, or the next smaller one of a ladder."""
    return ratio ** math.floor(math.log(value) / math.log(ratio)) if value > 1e-6 else 0.0
