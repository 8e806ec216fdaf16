"""What all targets share in step 4 of `moved_bit`: the offsets u_ij = W_ij - m_i, and the probability κ of side slots.

`moved_bit_slots` defines slots: a user's choice falls in a side slot with probability κ, and then shows 1 with a
probability that is shifted by ±u_ij/κ under Q1. A larger κ makes this shift smaller, and that of the main slot larger.
Any κ is valid, and `Offsets.plan` picks one by the variances in the Gaussian limit. For speed, at some cost in
sharpness, offsets are rounded up to few values (`OffsetBins`), and columns are put in few classes with one law each.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.overlays.overlay_table import Ints, remembered
from p2p_sim.privacy.overlays.shifted_pairs import LAW_SHOWN, Shift, ShiftLaw, product

WIDE = (0.3, 0.45)
"""κ that are tried for users with a large offset; below 1/2, since each user has two side slots."""
_KAPPAS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.13, 0.16, 0.2, 0.25)
"""κ that are tried for the other users."""
_BINS = (5, 2)
"""Largest number of values to which offsets up to the limit are rounded up; the same for larger offsets."""
_CLASSES = 8
"""Largest number of classes of columns."""
_FINE = 4.0
"""Points of the grid in one standard deviation of the loss of a side slot."""


@dataclass(frozen=True)
class SlotPlan:
    """How users' choices are split into slots.

    Args:
        limit: users with larger offsets have wide side slots. kappa, wide: κ of narrow and of wide side slots.
        wide_users: the largest number of users with wide side slots, for any target and J.
        variance: approximate variance of the log likelihood ratio. moved_share: see `moved_bit.MovedLaw`.
        grid: step of the grid of side slots' losses; not used without side slots.
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


@dataclass(frozen=True, eq=False)
class OffsetBins:
    """Offsets whose sizes are rounded up to the ends of B bins.

    ends: (B,), ascending; a bin starts at the previous bin's end, or at 0. counts: (2, B, N+1): for each column, how
    many users have an offset above 0 (first) or below 0 (second) whose size exceeds the bin's start.
    """

    ends: Floats
    counts: Ints


@dataclass(frozen=True, eq=False)
class Offsets:
    """The offsets u_ij = W_ij - m_i of a table's entries, m_i the median of row i.

    Args:
        rows: (R, N+1), W_ij for each user who may submit and each user with a hidden bit. rates: (R,), θ_i.
    """

    rows: Floats
    rates: Floats

    @cached_property
    def _exact_entries(self) -> Floats:
        """W_ij - m_i, (R, N+1); 0 for users who never submit."""
        return np.asarray((self.rows - np.median(self.rows, axis=1, keepdims=True)) * (self.rates > 0.0)[:, None])

    @cached_property
    def _least_size(self) -> float:
        """Offsets up to this size count as 0: entries that are equal but for rounding may differ by as much."""
        return 1e-13 * float(self.rows.max(initial=0.0))

    @cached_property
    def entries(self) -> Floats:
        """u_ij = W_ij - m_i, (R, N+1); 0 where its size is at most `_least_size`."""
        return np.where(np.abs(self._exact_entries) > self._least_size, self._exact_entries, 0.0)

    @cached_property
    def neglected(self) -> float:
        """Σ_i θ_i · 2 max_j |u_ij| over offsets that count as 0: how far they can move Q1, in total variation."""
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
        """How to split choices into slots for a target: of the plans tried, that with the least variance of the loss.

        It moves no bit (`moved_share` is 0) if no other plan fits.
        Any plan is valid. Let `own` be the variance of the loss of the main slots, and `hiding` that of the number of
        ones if a bit is moved for sure. The best share to move is then own/(own + hiding), and leaves the variance
        own · hiding/(own + hiding).

        Args:
            weights, rates: (F,), W_iv and θ_i of the users who may fetch from the target.
            spread: a typical 1/p + 1/(1-p), p the probability that a submission is 1. hiding: 1/(N α (1-α)).
        """
        own = spread * float(rates @ weights**2)
        if not self.sizes.size:
            variance, moved_share = own * hiding / (own + hiding), own / (own + hiding)
            return SlotPlan(0.0, 0.0, 0.0, wide_users=0, variance=variance, moved_share=moved_share, grid=1.0)
        limits = {0.0, *(float(np.quantile(self.sizes, q)) for q in (0.5, 0.9, 0.99)), self.largest}
        plans = [plan for limit in sorted(limits) for plan in self._plans(limit, weights, rates, spread, hiding)]
        still = SlotPlan(0.0, 0.0, 0.0, wide_users=0, variance=own, moved_share=0.0, grid=1.0)
        return min(plans, key=lambda plan: plan.variance, default=still)

    def _plans(self, limit: float, weights: Floats, rates: Floats, spread: float, hiding: float) -> Iterator[SlotPlan]:
        """A plan for each κ with room for the shifts of a typical submission; none if there is none.

        limit: users with a larger offset have wide side slots. weights, rates: (F,), of the target's possible fetchers.
        spread: a typical 1/p + 1/(1-p), p the probability that a submission is 1. hiding: 1/(N α (1-α)).
        """
        # Sums of squares of the offsets above and up to the limit, for the average column.
        squares, large = self.entries**2 * self.rates[:, None], np.abs(self.entries) > limit
        columns = max(1, self.rows.shape[1])
        beyond = float((squares * large).sum()) / columns
        within = float(squares.sum()) / columns - beyond
        # Twice, for v and for J, the sum of two numbers: the most offsets above `limit` that any column has, and the
        # most below -`limit`. They may be of different columns, since a class of columns is charged for both.
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
            yield SlotPlan(
                limit,
                kappa,
                wide,
                wide_users=wide_users,
                variance=variance,
                moved_share=moved_share,
                grid=math.sqrt(side / 2.0) / _FINE,
            )

    @remembered
    def bins(self, limit: float) -> OffsetBins:
        """The sizes |u_ij| in bins, none of which holds both sizes up to the limit and larger ones."""
        parts = []
        for inside, bins in ((self.sizes <= limit, _BINS[0]), (self.sizes > limit, _BINS[1])):
            if inside.any():
                ends = np.unique(np.quantile(self.sizes[inside], np.arange(1, bins + 1) / bins))
                parts.append(ends[np.append(np.diff(ends) > 1e-9 * ends[-1], True)])
        ends = np.concatenate(parts)
        starts, signed = np.append(0.0, ends[:-1]).tolist(), (self.entries, -self.entries)
        counts = [[np.count_nonzero(side > start, axis=0) for start in starts] for side in signed]
        return OffsetBins(ends, np.array(counts))

    def slot(self, plan: SlotPlan, counts: Ints, *, sign: float, low: float, high: float) -> ShiftLaw:
        """The law of the likelihood ratio of all users' first side slots, or of all second ones, for one column.

        User i's slot shows 1 with probability p, in [low, high], under Q0, and p + sign · u_i/κ under Q1. It is seen
        with probability θκ/(1-θκ), the value of the second slots; that of the first is smaller (see `moved_bit_slots`).

        Args:
            counts: (2, B), the column's numbers of users, as in `OffsetBins`. sign: 1 for first slots, -1 for second.
        """
        ends, rate, shifts = self.bins(plan.limit).ends.tolist(), float(self.rates.max()), []
        rate *= (1.0 + 1e-12) / (1.0 - rate * max(plan.kappa, plan.wide))
        for direction, users in zip((sign, -sign), (-np.diff(counts, axis=1, append=0)).tolist(), strict=True):
            for end, count in zip(ends, users, strict=True):
                kappa = plan.kappa if end <= plan.limit else plan.wide
                # A shift downward needs p >= u/κ; `Slots._slot_bands` lowers the main slot's p for this.
                least = low if direction > 0.0 else max(low, end / kappa)
                shifts.append(Shift(min(1.0, rate * kappa), least, max(least, high), direction * end / kappa, count))
        return product(shifts, plan.grid)

    def average(self, plan: SlotPlan, low: float, high: float) -> ShiftLaw:
        """The likelihood ratio of all second side slots, averaged over the user J, with every p_i in [low, high].

        It is computed once for plans of equal limits, κ and grids, as it does not depend on their other fields.
        """
        return self._mixture(replace(plan, wide_users=0, variance=0.0, moved_share=0.0), low, high)

    @remembered
    def _mixture(self, plan: SlotPlan, low: float, high: float) -> ShiftLaw:
        """The mean over all columns of the law of all second side slots; `LAW_SHOWN` if some p + shift exceeds 1.

        Columns are put in at most `_CLASSES` classes of about equal size, by the sums of their counts. The law of a
        class is that of the largest counts of any of its columns: more and larger offsets show no less.
        """
        counts = np.moveaxis(self.bins(plan.limit).counts, 2, 0)
        lines, columns = np.unique(counts.reshape(len(counts), -1), axis=0, return_counts=True)
        lines, columns = lines[order := np.argsort(lines.sum(axis=1), kind="stable")], columns[order]
        group = np.minimum(np.cumsum(columns) * _CLASSES // (columns.sum() + 1), _CLASSES - 1)
        groups = np.unique(group)
        shares = np.array([columns[group == k].sum() for k in groups]) / columns.sum()
        most = [lines[group == k].max(axis=0).reshape(counts.shape[1:]) for k in groups]
        laws = [self.slot(plan, largest, sign=-1.0, low=low, high=high) for largest in most]
        if not all(law.law.any() for law in laws):
            return LAW_SHOWN
        first, last = min(law.first for law in laws), max(law.first + len(law.law) for law in laws)
        total, lost = np.zeros(last - first), np.zeros(2)
        for law, share in zip(laws, shares.tolist(), strict=True):
            total[law.first - first : law.first - first + len(law.law)] += share * law.law
            lost += share * np.array(law.lost)
        return ShiftLaw(total, first, laws[0].grid, (float(lost[0]), float(lost[1])))
