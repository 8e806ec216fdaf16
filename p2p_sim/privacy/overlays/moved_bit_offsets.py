"""Step 4 of the theorem, what all targets of a table share: the offsets u_ij = W_ij - m_i, and how wide slots are.

`moved_bit_slots` defines slots: a user's choice falls in a side slot with probability κ, and then shows 1 with a
probability that is shifted by ±u_ij/κ under Q1. A larger κ makes this shift smaller, and that of the main slot larger.
Any κ is valid, and `Offsets.plan` picks one by the variances in the Gaussian limit. Speed only: offsets are rounded up
to few values (`OffsetBins`), and columns are treated alike in few classes (`ColumnClasses`).
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.overlays.shifted_pairs import LAW_SHOWN, Shift, ShiftLaw, product

WIDE = (0.3, 0.45)
"""κ that are tried for users with a large offset. A user has two side slots, so that κ < 1/2."""
_KAPPAS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.13, 0.16, 0.2, 0.25)
"""κ that are tried for the other users."""
_BINS = (5, 2)
"""How many values offsets are rounded up to, of those up to the limit and of those above it."""
_CLASSES = 8
"""How many classes of columns there are at most."""
_FINE = 4.0
"""Points of the grid in one standard deviation of the loss that a side slot shows."""
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SlotPlan:
    """How users' choices are split into slots.

    limit: larger offsets have wide slots. kappa, wide: κ for the others, and for wide slots. wide_users: how many users
    have these at most, for any two columns. variance: that of the log likelihood ratio, about. moved_share: what share
    of the shift is best moved. grid: step of the grid of side slots' losses; without side slots it is not used.
    """

    limit: float
    kappa: float
    wide: float
    wide_users: int
    variance: float
    moved_share: float
    grid: float

    @property
    def has_side_slots(self) -> bool:
        """Whether any user's choice may fall in a side slot."""
        return self.kappa > 0.0 or self.wide_users > 0


class ColumnClasses(NamedTuple):
    """Columns in C classes. counts: (C, 2, B), as in `OffsetBins`, the largest of any column of the class. shares:
    (C,),
    the share of all columns that is of the class."""

    counts: Ints
    shares: Floats


@dataclass(frozen=True, eq=False)
class OffsetBins:
    """Offsets rounded up to few values.

    ends: (B,) these values, ascending; a bin reaches from the end before it, or from 0. counts: (2, B, N) for each
    column, how many users have an offset above 0 (first) or below 0 (second) that is larger than the bin's start.
    """

    ends: Floats
    counts: Ints

    @cached_property
    def classes(self) -> ColumnClasses:
        """Speed only: at most `_CLASSES` classes of columns of about equal size, by the sums of their counts."""
        counts = np.moveaxis(self.counts, 2, 0)
        lines, columns = np.unique(counts.reshape(len(counts), -1), axis=0, return_counts=True)
        lines, columns = lines[order := np.argsort(lines.sum(axis=1), kind="stable")], columns[order]
        group = np.minimum(np.cumsum(columns) * _CLASSES // (columns.sum() + 1), _CLASSES - 1)
        groups = np.unique(group)
        most = np.array([lines[group == k].max(axis=0) for k in groups])
        shares = np.array([columns[group == k].sum() for k in groups]) / columns.sum()
        return ColumnClasses(most.reshape(len(groups), *counts.shape[1:]), shares)


@dataclass(frozen=True, eq=False)
class Offsets:
    """The offsets u_ij = W_ij - m_i of a table's entries, m_i the median of row i.

    Args:
        rows: (R, N) W_ij, for each user who may submit and each user with a hidden bit. rates: (R,) θ_i.
    """

    rows: Floats
    rates: Floats
    _bins: dict[float, OffsetBins] = field(default_factory=dict, init=False, repr=False)
    _averages: dict[tuple[float, ...], ShiftLaw] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def _exact_entries(self) -> Floats:
        """W_ij - m_i, (R, N); 0 for users who never submit."""
        return np.asarray((self.rows - np.median(self.rows, axis=1, keepdims=True)) * (self.rates > 0.0)[:, None])

    @cached_property
    def _least_size(self) -> float:
        """Offsets up to this size count as 0: rounding in a table makes equal entries differ by as much."""
        return 1e-13 * float(self.rows.max(initial=0.0))

    @cached_property
    def entries(self) -> Floats:
        """u_ij = W_ij - m_i, (R, N), those of at most `_least_size` as 0."""
        return np.where(np.abs(self._exact_entries) > self._least_size, self._exact_entries, 0.0)

    @cached_property
    def neglected(self) -> float:
        """Σ_i θ_i · 2 max_j |u_ij| over offsets that count as 0: how far Q1 is, in total variation, from what is
        used.
        """
        sizes = np.abs(self._exact_entries)
        largest = np.where(sizes <= self._least_size, sizes, 0.0).max(axis=1, initial=0.0)
        return 2.0 * float(self.rates @ largest) * (1.0 + 1e-9)

    @cached_property
    def sizes(self) -> Floats:
        """|u_ij| of all offsets that are not 0, ascending."""
        sizes = np.abs(self.entries).ravel()
        return np.sort(sizes[sizes > 0.0])

    @property
    def largest(self) -> float:
        """The largest |u_ij|."""
        return float(self.sizes[-1]) if self.sizes.size else 0.0

    def plan(self, weights: Floats, rates: Floats, *, spread: float, hiding: float) -> SlotPlan:
        """The plan of slots with the least variance of the loss; one that moves nothing if no plan has room. Any plan
        is valid.

        If the main slots have the variance own, and the moved bit hides with the variance `hiding`, the best share to
        move is own/(own + hiding), and leaves the variance own · hiding/(own + hiding).

        Args:
            weights, rates: (F,) W_iv and θ_i of the users who may fetch from the target. spread: 1/p + 1/(1-p), about,
                for their p_i. hiding: 1/(N α (1-α)).
        """
        own = spread * float(rates @ weights**2)
        if not self.sizes.size:
            variance = own * hiding / (own + hiding)
            return SlotPlan(0.0, 0.0, 0.0, wide_users=0, variance=variance, moved_share=own / (own + hiding), grid=1.0)
        limits = {0.0, *(float(np.quantile(self.sizes, q)) for q in (0.5, 0.9, 0.99)), self.largest}
        plans = [plan for limit in sorted(limits) for plan in self._plans(limit, weights, rates, spread, hiding)]
        still = SlotPlan(0.0, 0.0, 0.0, wide_users=0, variance=own, moved_share=0.0, grid=1.0)
        return min(plans, key=lambda plan: plan.variance, default=still)

    def _plans(self, limit: float, weights: Floats, rates: Floats, spread: float, hiding: float) -> Iterator[SlotPlan]:
        """A plan for each κ with room for the shifts, larger offsets than `limit` having wide slots; variances as
        in `plan`.
        """
        # The mean column's sums of squares of smaller and larger offsets.
        squares, large = self.entries**2 * self.rates[:, None], np.abs(self.entries) > limit
        columns = max(1, self.rows.shape[1])
        beyond = float((squares * large).sum()) / columns
        within = float(squares.sum()) / columns - beyond
        # In a class of columns as many users with the largest offsets above 0 have wide slots as in any column, and as
        # many with the largest ones below 0; and so for v and for J.
        signs = [np.count_nonzero(side > limit, axis=0).max(initial=0) for side in (self.entries, -self.entries)]
        wide_users = min(2 * int(sum(signs)), self.rows.shape[0])
        few, most = 1.0 / spread, float(weights.max())
        energy, rate = float(rates @ weights**2), float(rates.max())
        for kappa, wide in itertools.product(_KAPPAS if within else (0.0,), WIDE if wide_users else (0.0,)):
            if limit > 0.25 * few * kappa or (wide_users and self.largest > 0.7 * few * wide):
                continue
            own = spread * (energy / (1.0 - 2.0 * kappa) + wide_users * rate * most**2 / (1.0 - 2.0 * wide))
            side = 2.0 * spread * ((within / kappa if kappa else 0.0) + (beyond / wide if wide_users else 0.0))
            variance, moved_share = own * (hiding + side) / (own + hiding + side), own / (own + hiding + side)
            grid = math.sqrt(side / 2.0) / _FINE
            yield SlotPlan(
                limit, kappa, wide, wide_users=wide_users, variance=variance, moved_share=moved_share, grid=grid
            )

    def bins(self, limit: float) -> OffsetBins:
        """The offsets rounded up to few values, none of which joins offsets up to the limit with larger ones."""
        if limit not in self._bins:
            parts = []
            for inside, bins in ((self.sizes <= limit, _BINS[0]), (self.sizes > limit, _BINS[1])):
                if inside.any():
                    ends = np.unique(np.quantile(self.sizes[inside], np.arange(1, bins + 1) / bins))
                    parts.append(ends[np.append(np.diff(ends) > 1e-9 * ends[-1], True)])
            ends = np.concatenate(parts)
            starts, signed = np.append(0.0, ends[:-1]).tolist(), (self.entries, -self.entries)
            counts = [[np.count_nonzero(side > start, axis=0) for start in starts] for side in signed]
            self._bins[limit] = OffsetBins(ends, np.array(counts))
        return self._bins[limit]

    def slot(self, plan: SlotPlan, counts: Ints, *, sign: float, low: float, high: float) -> ShiftLaw:
        """The likelihood ratio of one column's side slots, over all users: Π_i of the pairs (p, p + sign · u_i/κ).

        Every p_i is in [low, high]. Each slot is seen with probability θκ/(1-θκ): slots are seen independently, and the
        second one of a user then needs this, the first one less.

        Args:
            counts: (2, B) of users, as in `OffsetBins`. sign: 1 of the first
                slot, -1 of the second.
        """
        ends, rate, shifts = self.bins(plan.limit).ends.tolist(), float(self.rates.max()), []
        rate *= (1.0 + 1e-12) / (1.0 - rate * max(plan.kappa, plan.wide))
        for direction, users in zip((sign, -sign), (-np.diff(counts, axis=1, append=0)).tolist(), strict=True):
            for end, count in zip(ends, users, strict=True):
                kappa = plan.kappa if end <= plan.limit else plan.wide
                # A shift downward needs p >= u/κ; `Slots._room` takes it from the main slot.
                least = low if direction > 0.0 else max(low, end / kappa)
                shifts.append(Shift(min(1.0, rate * kappa), least, max(least, high), direction * end / kappa, count))
        return product(shifts, plan.grid)

    def average(self, plan: SlotPlan, low: float, high: float) -> ShiftLaw:
        """The law of Λ_second averaged over J, every p_i in [low, high]: Σ_classes share · (law of the class)."""
        key = (plan.limit, plan.kappa, plan.wide, low, high)
        if key not in self._averages:
            self._averages[key] = self._mixture(plan, low, high)
        return self._averages[key]

    def _mixture(self, plan: SlotPlan, low: float, high: float) -> ShiftLaw:
        """Σ_classes share · (law of the class), on one range of grid points; `LAW_SHOWN` if a class has no room."""
        classes = self.bins(plan.limit).classes
        laws = [self.slot(plan, counts, sign=-1.0, low=low, high=high) for counts in classes.counts]
        if not all(law.law.any() for law in laws):
            return LAW_SHOWN
        first, last = min(law.first for law in laws), max(law.first + len(law.law) for law in laws)
        total, lost = np.zeros(last - first), np.zeros(2)
        for law, share in zip(laws, classes.shares.tolist(), strict=True):
            total[law.first - first : law.first - first + len(law.law)] += share * law.law
            lost += share * np.array(law.lost)
        return ShiftLaw(total, first, laws[0].grid, (float(lost[0]), float(lost[1])))
