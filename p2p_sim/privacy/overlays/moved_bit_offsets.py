"""What all targets share in step 4 of `moved_bit`: the offsets u_ij = W_ij - m_i, and κ, the probability of a side
slot.

W_ij is the probability that user i fetches from user j, and m_i is the median of row i. `moved_bit_slots` defines
slots: a user's choice of a peer falls in each of two side slots with probability κ, and then shows 1 with a probability
that is shifted by ±u_ij/κ under Q1, the law for the target's noisy label 1. A larger κ makes this shift smaller, and
the shift of the main slot larger. Any κ is valid, and `Offsets.plan` picks one according to the variances in the
Gaussian limit. For speed, at some cost in sharpness, offsets are rounded up to few values (`OffsetBins`), and the
columns of W are put in few classes with one law each.
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
"""Values of κ that are tried for users with a large offset; below 1/2, since each user has two side slots."""
_KAPPAS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.13, 0.16, 0.2, 0.25)
"""Values of κ that are tried for the other users."""
_BINS = (5, 2)
"""Largest number of values to which offsets are rounded up: first for offsets up to the limit, then for larger ones."""
_CLASSES = 8
"""Largest number of classes of columns."""
_FINE = 4.0
"""Number of points of the grid in one standard deviation of the loss of a side slot."""


@dataclass(frozen=True)
class SlotPlan:
    """How the proof splits users' choices of a peer into a main slot and two side slots.

    Args:
        limit: a user with an offset above this limit has wide side slots.
        kappa, wide: the probability κ of a narrow and of a wide side slot.
        wide_users: the largest number of users with wide side slots, for any target and any user J whose 0 may be shown
            as 1.
        variance: approximate variance of the log likelihood ratio. moved_share: see `moved_bit.MovedLaw`.
        grid: step of the grid of side slots' losses; not used if there are no side slots.
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
        """Whether any user's choice of a peer may fall in a side slot.

        The proof splits each choice at random into a main slot and two side slots, and reveals which slot it is. Side
        slots take up the differences between a user's fetch probabilities. A side slot has probability `kappa`, or
        `wide` for up to `wide_users` users with large differences. If `kappa` and `wide_users` are 0, every choice is
        in the main slot.
        """
        return self.kappa > 0.0 or self.wide_users > 0


@dataclass(frozen=True, eq=False)
class OffsetBins:
    """Offsets whose sizes are rounded up to the ends of B bins.

    ends: (B,), ascending; a bin starts at the previous bin's end, or at 0. counts: (2, B, N+1): for each bin and
    column, how many users have a positive (first) or negative (second) offset of a size above the bin's start.
    """

    ends: Floats
    counts: Ints


@dataclass(frozen=True, eq=False)
class Offsets:
    """The offsets u_ij = W_ij - m_i of a table's entries W_ij, where m_i is the median of row i.

    Args:
        rows: (R, N+1), W_ij for each user who may submit and each user with a hidden bit. rates: (R,), θ_i, the
        probability that user i's submission is seen.
    """

    rows: Floats
    rates: Floats

    @cached_property
    def _exact_entries(self) -> Floats:
        """W_ij - m_i, (R, N+1), for R users i who may submit and N + 1 users j whose noisy labels are hidden; 0 where
        θ_i is 0.

        W_ij is the probability that i fetches from j, m_i the median of row i, and θ_i the probability that i's
        submission is seen.
        """
        return np.asarray((self.rows - np.median(self.rows, axis=1, keepdims=True)) * (self.rates > 0.0)[:, None])

    @cached_property
    def _least_size(self) -> float:
        """Offsets up to this size count as 0: entries that are equal but for rounding may differ by as much."""
        return 1e-13 * float(self.rows.max(initial=0.0))

    @cached_property
    def entries(self) -> Floats:
        """The offsets u_ij = W_ij - m_i, (R, N+1), with 0 for sizes up to `_least_size`, which may be rounding errors
        of equal entries.

        W_ij is the probability that user i, of R who may submit, fetches from user j, of N + 1 with hidden noisy
        labels; m_i is the median of row i.
        """
        return np.where(np.abs(self._exact_entries) > self._least_size, self._exact_entries, 0.0)

    @cached_property
    def neglected(self) -> float:
        """Σ_i θ_i · 2 max_j |u_ij| over the tiny offsets that count as 0; the result is rounded up. It is the largest
        error, in total variation, that counting them as 0 causes.

        u_ij is the probability that user i fetches from user j minus the median of row i, and θ_i the probability that
        i's submission is seen. Offsets describe only what is seen if the target's noisy label is 1, so that only this
        law has the error.
        """
        sizes = np.abs(self._exact_entries)
        largest = np.where(sizes <= self._least_size, sizes, 0.0).max(axis=1, initial=0.0)
        return 2.0 * float(self.rates @ largest) * (1.0 + 1e-9)

    @cached_property
    def sizes(self) -> Floats:
        """|u_ij| of all offsets that are not 0, in one array, ascending.

        The offset u_ij is the probability that user i fetches from user j, minus the median of i's fetch probabilities.
        """
        sizes = np.abs(self.entries).ravel()
        return np.sort(sizes[sizes > 0.0])

    @property
    def largest(self) -> float:
        """The largest |u_ij|, where the offset u_ij is a fetch probability minus the median of its row; 0 if all
        offsets are 0.
        """
        return float(self.sizes[-1]) if self.sizes.size else 0.0

    def plan(self, weights: Floats, rates: Floats, *, spread: float, hiding: float) -> SlotPlan:
        """How to split users' choices into slots for a target v: the plan with the least variance of the privacy loss
        among those that are tried.

        The proof splits each choice of a peer at random into a main slot and two side slots, and reveals which slot it
        is. It also shows the learner the N hidden noisy labels. If v's noisy label is 1, one of these labels that is 0
        may be shown as 1 (a moved bit), so that the number of ones hides v's label too. Any plan is valid. If none of
        the tried plans fits, no bit is moved (`moved_share` is 0). Let `own` be the variance of the loss of the main
        slots, and `hiding` the variance of the loss of the number of ones if a bit is moved for sure. Without side
        slots the best probability of moving a bit is own/(own + hiding). It leaves the variance
        own · hiding/(own + hiding). Side slots add to `hiding`.

        Args:
            weights, rates: (F,), for each user i who may fetch from v, the probability W_iv that she does, and the
            probability θ_i that her submission is seen. spread: about 1/p + 1/(1-p) for a typical probability p
            that a submission is 1. hiding: 1/(N α (1-α)).
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
        """Yield plans of slots, one for each pair of values of κ (for small and for large offsets) that suits the
        shifts of a typical submission.

        The proof splits each choice of a peer at random into a main slot and two side slots of probability κ each. In
        side slots the probability of a 1 shifts by ±u/κ, where the offset u is a fetch probability minus the median of
        its row. κ is tried only if this shift is well below the probability of a typical submission.

        Args:
            limit: users with a larger offset have wide side slots, with a larger κ. weights, rates: (F,), for each user
            i who may fetch from the target v, the probability W_iv that she does, and the probability θ_i that her
            submission is seen. spread: about 1/p + 1/(1-p) for a typical probability p that a submission is 1. hiding:
            1/(N α (1-α)), for N other users with hidden noisy labels.
        """
        # For the average column, `beyond` is the sum of squares of the offsets above the limit, and `within` that of
        # the offsets up to the limit.
        squares, large = self.entries**2 * self.rates[:, None], np.abs(self.entries) > limit
        columns = max(1, self.rows.shape[1])
        beyond = float((squares * large).sum()) / columns
        within = float(squares.sum()) / columns - beyond
        # `wide_users` is twice (for v, and for the user J whose 0 is shown as 1) the sum of two numbers: the largest
        # number of offsets above `limit` in a column, and the largest number below -`limit`. The two columns may
        # differ, since a class of columns is charged for both numbers.
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
        """The sizes |u_ij| of all offsets, sorted into a few bins: the bins' ends, to which sizes are rounded up, and
        for each bin and column j how many users have an offset larger than the bin's start.

        u_ij is the probability that user i fetches from user j minus the median of row i. Sizes up to `limit` and sizes
        above it have bins of their own, since users with an offset above `limit` get larger side slots.
        """
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
        """The law of the likelihood ratio of what all users show in their first side slots, or in their second ones,
        for one column j of the table.

        The proof splits each choice of a peer at random into a main slot and two side slots of probability κ, and
        reveals which slot it is. Column j is that of the target for first slots, and for second slots that of the user
        whose label 0 the proof shows as 1. In her slot user i shows 1 with probability p, in [low, high], under the law
        Q0 (target's noisy label 0), and with p + sign · u_ij/κ under Q1 (label 1). u_ij is her fetch probability for j
        minus the median of her row. The slot is taken as seen with probability θκ/(1-θκ'), which is no less than that
        of either slot. Here θ is the largest probability of any user that her submission is seen, and κ' is the larger
        of `plan.kappa` and `plan.wide`.

        Args:
            counts: (2, B), for each of B bins of sizes |u_ij| the number of users with a positive (first) or negative
            (second) offset above the start of the bin. sign: 1 for first slots, -1 for second. low, high: the interval
            for p.
        """
        ends, rate, shifts = self.bins(plan.limit).ends.tolist(), float(self.rates.max()), []
        rate *= (1.0 + 1e-12) / (1.0 - rate * max(plan.kappa, plan.wide))
        for direction, users in zip((sign, -sign), (-np.diff(counts, axis=1, append=0)).tolist(), strict=True):
            for end, count in zip(ends, users, strict=True):
                kappa = plan.kappa if end <= plan.limit else plan.wide
                # A shift downward needs p >= u/κ, for which `Slots._slot_bands` lowers the main slot's p. Charging the
                # end of the bin in place of u is safe: the pair (p, p - d) is a post-processing of (d', 0) if d <= d'.
                least = low if direction > 0.0 else max(low, end / kappa)
                shifts.append(Shift(min(1.0, rate * kappa), least, max(least, high), direction * end / kappa, count))
        return product(shifts, plan.grid)

    def average(self, plan: SlotPlan, low: float, high: float) -> ShiftLaw:
        """The law of the likelihood ratio of what all users show in their second side slots, averaged over all columns
        of the table, that is, over every user J with a hidden noisy label.

        The proof splits each choice of a peer into a main slot and two side slots. If the target's noisy label is 1, it
        may also show the label 0 of a random user J as 1; in second side slots the probability of a 1 then shifts
        according to the fetch probabilities for J. Every probability p of submitting a 1 lies in [low, high]. The law
        depends only on the plan's limit, values of κ and grid, so that it is computed once for plans that share these.
        """
        return self._mixture(replace(plan, wide_users=0, variance=0.0, moved_share=0.0), low, high)

    @remembered
    def _mixture(self, plan: SlotPlan, low: float, high: float) -> ShiftLaw:
        """The mean over all columns j of the law of what all users show in their second side slots. If some shifted
        probability exceeds 1, the result is `LAW_SHOWN`: the target's noisy label counts as seen.

        Column j has the probabilities with which the users fetch from user j, each minus the median of the user's row:
        the offset. Side slots are parts into which the proof splits a choice of a peer. There the offsets shift the
        probability p of a 1, which lies in [low, high]. Columns are put in at most `_CLASSES` (8) classes of nearly
        equal size, according to how many offsets of each size they have. All columns of a class get the law for the
        largest of these numbers of any column of the class. More users show no less, and a larger offset shows no less
        in a slot of the same width; the module `moved_bit_slots` says whose slots are wide.
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
