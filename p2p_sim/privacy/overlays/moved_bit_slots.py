"""Step 4 of the theorem for any fetch law (`docs/theorem.md`): main and side slots of users' choices.

Under Q1 the bit of the target v is one, or that of the moved J. Let m_i be the median of row i and u_ij = W_ij - m_i,
the *offsets*; then W_iv - W_iJ = u_iv - u_iJ. With probability κ each a choice of user i falls in the first or in the
second *side slot*, and shows which, else in the *main slot*; each slot shows 1 with her p_i. If J is moved, the first
slot is shifted by u_iv/κ and the second by -u_iJ/κ; if v's bit is one, the main slot is by W_iv/(1-2κ). To forget the
slots gives the laws of the submissions. With M and S of `moved_bit`, the likelihood ratio of Q1 to Q0 is

    (1-M) Λ_main + S Λ_side,   Λ_side = Λ_first Λ_second,

of independent variables. Users with an offset above a limit have slots of `WIDE` each, whatever κ is.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.overlays.shifted_pairs import LAW_SHOWN, NOTHING_SEEN, Shift, ShiftLaw, product

WIDE = (0.3, 0.45)
"""κ that are tried for users with a large offset."""
WIDER = (0.25, 0.45)
"""κ that are tried where a smaller one does not fit a band."""
_KAPPAS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.13, 0.16, 0.2, 0.25)
"""κ that are tried."""
_BINS = (5, 2)
"""Steps to which offsets are rounded up, below the limit and above."""
_CLASSES = 8
"""Columns are treated alike in at most so many classes."""
_LADDER = (1.2, 1.5)
"""For side slots, the low and the high end of a band are widened to ladders with these ratios."""
_FINE = 4.0
"""Points of the grid for one standard deviation of a loss."""
_WEIGHTS = 8
"""Different weights of fetchers that are kept apart."""
_LEAST, _MOST = 1e-200, 1e100
"""Ratios of laws are formed from numbers in this range: a smaller ratio only raises a bound."""
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SlotLaws:
    """Λ_main and Λ_side for all values p_i of one band, as laws under Q0."""

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

    def divergence(self, stay: Floats, moved: Floats, ratio: float, *, up: bool, rough: bool = False) -> Floats:
        """HS_ratio(Q1 || Q0) if up, else HS_ratio(Q0 || Q1), where Q1 = stay · Λ_main + moved · Λ_side.

        Args:
            stay, moved: 1-M and S, of one shape. rough: of the side law only `rough` counts.
        """
        side = self.rough if rough else (self.side.law, self.side.ratios)
        return (self._above if up else self._below)(stay, moved, ratio, side)

    def _above(self, stay: Floats, moved: Floats, ratio: float, side: tuple[Floats, Floats]) -> Floats:
        """E_side E_main [ stay · Λ_main - (ratio - moved · Λ_side) ]^+, and what the side law shows."""
        chances, gains = side
        rest = ratio - moved[..., None] * gains * (1.0 + 1e-8)
        safe = np.maximum(stay[..., None], _LEAST)
        main = stay[..., None] * self.main.above(np.clip(rest, 0.0, _MOST) / safe)
        inside = np.where(rest > 0.0, main, stay[..., None] - rest)
        # The side law shows that nothing was moved: what stays is as likely there as under Q0.
        unmoved = (stay[..., None] * self.main.above(min(ratio, _MOST) / safe))[..., 0]
        return np.asarray(inside @ chances + self.side.lost[0] * unmoved + moved * self.side.lost[1])

    def _below(self, stay: Floats, moved: Floats, ratio: float, side: tuple[Floats, Floats]) -> Floats:
        """E_side E_main [ (1 - ratio · moved · Λ_side) - ratio · stay · Λ_main ]^+, and what the side law shows."""
        chances, gains = side
        rest = 1.0 - ratio * moved[..., None] * gains * (1.0 - 1e-8)
        threshold = np.minimum(ratio * stay, _MOST)
        main = self.main.below(threshold[..., None] / np.maximum(rest, _LEAST))
        inside = np.where(rest > 0.0, rest * main, 0.0)
        # Without what was moved, which only makes Q1 larger.
        return np.minimum(inside @ chances + self.side.lost[0], self.main.below(threshold))


@dataclass(frozen=True)
class SlotPlan:
    """How choices are split into slots.

    limit: larger offsets have wide slots. kappa, wide: κ for the others, and for wide slots. wide_users: how many have
    these. variance: what that of the log likelihood ratio is then, about; moved: what share of the shift is best moved.
    grid: for the losses of side slots; 1 if there are none.
    """

    limit: float
    kappa: float
    wide: float
    wide_users: int
    variance: float
    moved: float
    grid: float


@dataclass(frozen=True, eq=False)
class OffsetBins:
    """Offsets rounded up to few values.

    ends: (B,) these, ascending. counts: (2, B, N) for each column, how many offsets above 0, and below, are larger than
    each bin's start.
    """

    ends: Floats
    counts: Ints

    @cached_property
    def classes(self) -> tuple[Ints, Floats]:
        """Counts that no column of a class exceeds, (C, 2, B), and the classes' shares of the columns."""
        counts = np.moveaxis(self.counts, 2, 0)
        lines, columns = np.unique(counts.reshape(len(counts), -1), axis=0, return_counts=True)
        lines, columns = lines[order := np.argsort(lines.sum(axis=1), kind="stable")], columns[order]
        group = np.minimum(np.cumsum(columns) * _CLASSES // (columns.sum() + 1), _CLASSES - 1)
        groups = np.unique(group)
        most = np.array([lines[group == k].max(axis=0) for k in groups])
        share = np.array([columns[group == k].sum() for k in groups]) / columns.sum()
        return most.reshape(len(groups), *counts.shape[1:]), share


@dataclass(frozen=True, eq=False)
class Offsets:
    """Offsets u_ij of a table's entries.

    Args:
        rows: (R, N), entries of users' rows. rates: (R,).
    """

    rows: Floats
    rates: Floats
    _bins: dict[float, OffsetBins] = field(default_factory=dict, init=False, repr=False)
    _averages: dict[tuple[float, ...], ShiftLaw] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def entries(self) -> Floats:
        """u_ij = W_ij - m_i, (R, N)."""
        entries = self.rows - np.median(self.rows, axis=1, keepdims=True)
        entries[np.abs(entries) <= 1e-13 * self.rows.max(initial=0.0)] = 0.0
        return entries

    @cached_property
    def sizes(self) -> Floats:
        """Sizes of the offsets that are not 0, ascending."""
        sizes = np.abs(self.entries).ravel()
        return np.sort(sizes[sizes > 0.0])

    @property
    def largest(self) -> float:
        """The largest size of an offset."""
        return float(self.sizes[-1]) if self.sizes.size else 0.0

    def plan(self, weights: Floats, rates: Floats, *, spread: float, hiding: float) -> SlotPlan:
        """The plan with the least variance; one that moves nothing if no plan has room. Any plan is valid.

        Args:
            weights, rates: (F,) of a target's fetchers. spread: 1/p + 1/(1-p), about. hiding: 1/(N α (1-α)).
        """
        own = spread * float(rates @ weights**2)
        if not self.sizes.size:
            together = own * hiding / (own + hiding)
            return SlotPlan(0.0, 0.0, 0.0, wide_users=0, variance=together, moved=own / (own + hiding), grid=1.0)
        limits = {0.0, *(float(np.quantile(self.sizes, q)) for q in (0.5, 0.9, 0.99)), self.largest}
        plans = [plan for limit in sorted(limits) for plan in self._plans(limit, weights, rates, spread, hiding)]
        still = SlotPlan(0.0, 0.0, 0.0, wide_users=0, variance=own, moved=0.0, grid=1.0)
        return min(plans, key=lambda plan: plan.variance, default=still)

    def _plans(self, limit: float, weights: Floats, rates: Floats, spread: float, hiding: float) -> Iterator[SlotPlan]:
        """Plans by κ, in the Gaussian limit: the main slots' variance, and the moved bit's with the side slots'."""
        # Most wide slots of two columns; the mean column's sums of squares of smaller and larger offsets.
        squares, large = self.entries**2 * self.rates[:, None], np.abs(self.entries) > limit
        columns = max(1, self.rows.shape[1])
        beyond = float((squares * large).sum()) / columns
        within = float(squares.sum()) / columns - beyond
        wide_users = min(int(np.sort(np.count_nonzero(large, axis=0))[-2:].sum()), self.rows.shape[0])
        few, most = 1.0 / spread, float(weights.max())
        energy, rate = float(rates @ weights**2), float(rates.max())
        for kappa, wide in itertools.product(_KAPPAS if within else (0.0,), WIDE if wide_users else (0.0,)):
            if limit > 0.25 * few * kappa or (wide_users and self.largest > 0.7 * few * wide):
                continue
            own = spread * (energy / (1.0 - 2.0 * kappa) + wide_users * rate * most**2 / (1.0 - 2.0 * wide))
            side = 2.0 * spread * ((within / kappa if kappa else 0.0) + (beyond / wide if wide_users else 0.0))
            variance, moved = own * (hiding + side) / (own + hiding + side), own / (own + hiding + side)
            grid = math.sqrt(side / 2.0) / _FINE
            yield SlotPlan(limit, kappa, wide, wide_users=wide_users, variance=variance, moved=moved, grid=grid)

    def bins(self, limit: float) -> OffsetBins:
        """The offsets rounded up to few values, which are up to the limit or above it."""
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
        """Law of one side slot of all users, with shifts sign · u/κ; counts: (2, B) as in `OffsetBins`."""
        ends, rate, shifts = self.bins(plan.limit).ends.tolist(), float(self.rates.max()), []
        for way, users in zip((sign, -sign), (-np.diff(counts, axis=1, append=0)).tolist(), strict=True):
            for end, count in zip(ends, users, strict=True):
                kappa = plan.kappa if end <= plan.limit else plan.wide
                least = low if way > 0.0 else max(low, end / kappa)  # see `Slots._room`
                shifts.append(Shift(rate * kappa, least, max(least, high), way * end / kappa, count))
        return product(shifts, plan.grid)

    def average(self, plan: SlotPlan, low: float, high: float) -> ShiftLaw:
        """Λ_second averaged over J: the mixture of the classes of columns."""
        key = (plan.limit, plan.kappa, plan.wide, low, high)
        if key not in self._averages:
            self._averages[key] = self._mixture(plan, low, high)
        return self._averages[key]

    def _mixture(self, plan: SlotPlan, low: float, high: float) -> ShiftLaw:
        counts, shares = self.bins(plan.limit).classes
        laws = [self.slot(plan, count, sign=-1.0, low=low, high=high) for count in counts]
        if not all(law.law.any() for law in laws):
            return LAW_SHOWN
        first, last = min(law.first for law in laws), max(law.first + len(law.law) for law in laws)
        total, lost = np.zeros(last - first), np.zeros(2)
        for law, share in zip(laws, shares.tolist(), strict=True):
            total[law.first - first : law.first - first + len(law.law)] += share * law.law
            lost += share * np.array(law.lost)
        return ShiftLaw(total, first, laws[0].grid, (float(lost[0]), float(lost[1])))


@dataclass(frozen=True, eq=False)
class Slots:
    """The slots for one target, or for several together: pairs with larger weights and offsets have larger curves.

    Args:
        weights, rates: (F,) of the target's fetchers, or larger ones. columns: the targets among the table's columns.
    """

    offsets: Offsets
    plan: SlotPlan
    weights: Floats
    rates: Floats
    columns: Ints
    _first: dict[tuple[float, ...], ShiftLaw] = field(default_factory=dict, init=False, repr=False)
    _main_shifts: dict[tuple[float, float], list[Shift]] = field(default_factory=dict, init=False, repr=False)

    def laws(self, low: float, high: float) -> SlotLaws:
        """Λ_main and Λ_side for p_i in [low, high]; where that has no room for the side slots, these are wider, or show
        all that they may."""
        plan, wide = self.plan, WIDE[-1] if self.plan.wide_users else 0.0
        for tried in (plan, *(replace(plan, kappa=more if plan.kappa else 0.0, wide=wide) for more in WIDER)):
            side, least = self._side(tried, low, high), self._room(tried, low)
            if side is not None and least >= 0.0:
                return SlotLaws(self._main(least, high, tried.kappa, tried.wide), side)
        # A user's slots are as wide as her offsets, and show which law it is.
        sums = self.offsets.rates @ np.abs(self.offsets.entries)
        chance = min(1.0, float(sums[self.columns].max() + sums.mean()) * (1.0 + 1e-9))
        side = ShiftLaw(np.array([1.0 - chance]), 0, 1.0, (chance, chance))
        few, many = min(plan.limit, 0.25), min(self.offsets.largest, 0.25)
        low, high = max(0.0, low - 2.0 * many), min(1.0, high / (1.0 - 2.0 * many))
        return SlotLaws(self._main(low, high, few, many), side)

    def _side(self, plan: SlotPlan, low: float, high: float) -> ShiftLaw | None:
        """Λ_side = Λ_first Λ_second, averaged over J; None where p is not in [low, high] with room for the shifts."""
        if not self.offsets.sizes.size or plan.moved == 0.0:
            return NOTHING_SEEN
        low, high = _lowered(low, _LADDER[0]), 1.0 - _lowered(1.0 - high, _LADDER[1])
        key = (plan.kappa, plan.wide, low, high)
        if key not in self._first:
            counts = self.offsets.bins(plan.limit).counts[:, :, self.columns].max(axis=2)
            self._first[key] = self.offsets.slot(plan, counts, sign=1.0, low=low, high=high)
        first, second = self._first[key], self.offsets.average(plan, low, high)
        return first.times(second) if first.law.any() and second.law.any() else None

    def _room(self, plan: SlotPlan, low: float) -> float:
        """Below which p does not fall in main slots, if it is at least `low` over all; negative where there is no room.

        A side slot has the same p, or the least with room for a negative shift -u/κ, which is u/κ, and leaves less for
        the others: (low - κ (p_first + p_second)) / (1 - 2κ).
        """
        least, entries = low, self.offsets.entries
        falls = (max(0.0, -float(entries[:, self.columns].min())), max(0.0, float(entries.max())))
        largest = self.offsets.largest if plan.wide_users else 0.0
        for kappa, most in ((plan.kappa, plan.limit), (plan.wide, largest)):
            needed = [max(kappa * low, min(fall, most) * (1.0 + 1e-9)) for fall in falls]
            if max(needed) > kappa * low:
                least = min(least, (low - sum(needed)) / (1.0 - 2.0 * kappa))
        return least

    def _main(self, low: float, high: float, kappa: float, wide: float) -> ShiftLaw:
        """Λ_main: shifts W_iv/(1-2κ)."""
        if (kappa, wide) not in self._main_shifts:
            self._main_shifts[kappa, wide] = self._shifts(1.0 - 2.0 * kappa, 1.0 - 2.0 * wide)
        shifts = self._main_shifts[kappa, wide]
        return product([replace(shift, low=low, high=min(high, 1.0 - shift.shift)) for shift in shifts])

    def _shifts(self, share: float, narrow: float) -> list[Shift]:
        """The main slots of the target's fetchers, 1-2κ = `share`, or `narrow` for as many as have wide side slots.

        Their weights are rounded up to few.
        """
        order = np.argsort(self.weights, kind="stable")
        weights, rates = self.weights[order], self.rates[order]
        wide = min(self.plan.wide_users, weights.size)
        shifts = [Shift(float(rates.max()) * narrow, 0.0, 1.0, float(weights[-1]) / narrow, wide)] if wide else []
        if np.ptp(rates) == 0.0:  # the dominating users with wide slots stand for the least weights
            weights, rates = weights[wide:], rates[wide:]
        if weights.size and np.unique(weights).size > _WEIGHTS:
            ends = np.quantile(weights, np.arange(1, _WEIGHTS + 1) / _WEIGHTS)
            ends[-1] = weights[-1]
            weights = ends[np.searchsorted(ends, weights)]
        lines, counts = np.unique(np.stack([weights, rates]), axis=1, return_counts=True)
        for weight, rate, count in zip(*lines.tolist(), counts.tolist(), strict=True):
            shifts.append(Shift(rate * share, 0.0, 1.0, weight / share, count))
        return shifts


def _lowered(value: float, ratio: float) -> float:
    """The value, or the next smaller one of a ladder."""
    return ratio ** math.floor(math.log(value) / math.log(ratio)) if value > 1e-6 else 0.0
