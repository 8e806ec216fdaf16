"""Offsets of fetch probabilities, and plans of slots: the parts of the bound `moved_bit` that all targets share.

The target v is the user whose label is protected. User i fetches from user j with probability W_ij. Row i of the table
W holds her fetch probabilities, and m_i is their median. Her *offset* for user j is u_ij = W_ij - m_i. θ_i is the
probability that her submission is seen.

The proof of `moved_bit` shows the learner more than the exchange does: besides the submissions, the noisy labels of N
users other than v. Q0 and Q1 are the laws of all that is shown if v's noisy label is 0 and 1. Let p_i be the
probability under Q0 that a submission of user i is 1, given the labels shown. Under Q1 the probability is p_i + W_iv.
Under Q1 the proof may also *move a bit*: it shows the label 0 of a random user J as 1. Then the probability is
p_i + W_iv - W_iJ, so the submissions show less of v's label. The number of ones shown is larger by 1 instead. This
hardly shows, because the number is random.

The proof also puts each choice of a peer at random into one of three slots, and reveals the slot. There is a main slot,
and there are two *side slots* of probability κ each (see `moved_bit_slots`). If a bit was moved, the probability of
submitting a 1 shifts by u_iv/κ in the first side slot, and by -u_iJ/κ in the second. If no bit was moved, this
probability shifts by W_iv/(1-2κ) in the main slot. So a larger κ makes the shifts in side slots smaller, and the shift
in the main slot larger. Any κ is valid. `Offsets.plan` picks κ by variances in the Gaussian limit.

For speed, offsets are rounded up to few values (`OffsetBins`), and the columns of W are put in few classes. A class has
one law. Both steps weaken the bound slightly.
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
"""Values of κ that are tried for users with a large offset. They are below 1/2, because each user has two side slots.
"""
_KAPPAS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.13, 0.16, 0.2, 0.25)
"""Values of κ that are tried for the other users."""
_BINS = (5, 2)
"""Largest number of values to which offsets are rounded up: first for small offsets, then for large offsets."""
_CLASSES = 8
"""Largest number of classes of columns."""
_FINE = 4.0
"""Number of grid points in one standard deviation. The deviation is of the sum of the privacy losses in all users'
first side slots."""


@dataclass(frozen=True)
class SlotPlan:
    """How the proof puts users' choices of a peer into slots: a main slot or one of two side slots.

    Args:
        limit: a user with an offset of a size above this limit has wide side slots.
        kappa, wide: the probability κ of a narrow and of a wide side slot.
        wide_users: the largest number of users with wide side slots, for any target and any user J.
        variance: approximate variance of the log likelihood ratio.
        moved_share: approximately the best probability of moving a bit.
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
        """Whether any user's choice of a peer may fall in a side slot."""
        return self.kappa > 0.0 or self.wide_users > 0


@dataclass(frozen=True, eq=False)
class OffsetBins:
    """Offsets whose sizes are rounded up to the ends of B bins.

    ends: (B,), ascending; a bin starts at the previous bin's end, or at 0. counts: (2, B, N+1), numbers of users for
    each bin and each column. counts[0] is for positive offsets above the bin's start, counts[1] for negative offsets of
    such a size.
    """

    ends: Floats
    counts: Ints


@dataclass(frozen=True, eq=False)
class Offsets:
    """The offsets u_ij = W_ij - m_i of a table's entries W_ij, where m_i is the median of row i.

    Args:
        rows: (R, N+1), W_ij for R users i who may submit and N+1 users j: the target and N others, whose noisy labels
        are unknown in the exchange. rates: (R,), θ_i.
    """

    rows: Floats
    rates: Floats

    @cached_property
    def _exact_entries(self) -> Floats:
        """The offsets u_ij before tiny ones are set to 0, (R, N+1). A row with θ_i = 0 is 0."""
        return np.asarray((self.rows - np.median(self.rows, axis=1, keepdims=True)) * (self.rates > 0.0)[:, None])

    @cached_property
    def _least_size(self) -> float:
        """Offsets up to this size count as 0. Rounding alone may make equal entries differ by as much."""
        return 1e-13 * float(self.rows.max(initial=0.0))

    @cached_property
    def entries(self) -> Floats:
        """The offsets u_ij, (R, N+1). Sizes up to `_least_size` count as 0, because they may be rounding errors."""
        return np.where(np.abs(self._exact_entries) > self._least_size, self._exact_entries, 0.0)

    @cached_property
    def neglected(self) -> float:
        """The largest error, in total variation, that the offsets counted as 0 cause; rounded up.

        It is Σ_i θ_i · 2 max_j |u_ij| over these tiny offsets. Only Q1 has the error, because Q0 does not depend on
        offsets.
        """
        sizes = np.abs(self._exact_entries)
        largest = np.where(sizes <= self._least_size, sizes, 0.0).max(axis=1, initial=0.0)
        return 2.0 * float(self.rates @ largest) * (1.0 + 1e-9)

    @cached_property
    def sizes(self) -> Floats:
        """The sizes |u_ij| of all offsets that are not 0, in one array, ascending."""
        sizes = np.abs(self.entries).ravel()
        return np.sort(sizes[sizes > 0.0])

    @property
    def largest(self) -> float:
        """The largest |u_ij|; 0 if all offsets are 0."""
        return float(self.sizes[-1]) if self.sizes.size else 0.0

    def plan(self, weights: Floats, rates: Floats, *, spread: float, hiding: float) -> SlotPlan:
        """The best plan for a target v, among the plans that are tried: the privacy loss has the least variance.

        Any plan is valid. If none of the tried plans fits, no bit is moved (`moved_share` is 0). Let `own` be the
        variance of the privacy loss in main slots if no bit is moved. Let `hiding` be the variance of the loss from the
        number of ones if a bit is moved for sure. Without side slots the best probability of moving a bit is own/(own +
        hiding). The variance is then own · hiding/(own + hiding). Side slots add to `hiding`.

        Args:
            weights, rates: (F,), W_iv and θ_i of each user i who may fetch from v.
            spread: about 1/p + 1/(1-p), where p is the probability that a typical submission is 1.
            hiding: 1/(N α (1-α)).
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
        """Yield one plan for each suitable pair of values of κ: one for small offsets, one for large offsets.

        Let p be the probability that a typical submission is 1. A pair is suitable if shifts in side slots are at most
        0.25 p(1-p) for small offsets, and at most 0.7 p(1-p) for large offsets.

        Args:
            limit: see `SlotPlan`. weights, rates, spread, hiding: see `plan`.
        """
        # `beyond` is the average column's sum of θ_i u_ij² over the offsets above the limit. `within` is the sum over
        # all other offsets.
        squares, large = self.entries**2 * self.rates[:, None], np.abs(self.entries) > limit
        columns = max(1, self.rows.shape[1])
        beyond = float((squares * large).sum()) / columns
        within = float(squares.sum()) / columns - beyond
        # Take the largest number of offsets above `limit` in a column, and the largest number below -`limit`. The two
        # maxima may be from different columns: the law of a class of columns uses both. `wide_users` is twice their
        # sum: once for v, and once for J.
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
        """The sizes |u_ij| of all offsets, sorted into a few bins.

        Sizes up to `limit` and larger sizes have separate bins, because large offsets get wider side slots. For each
        column, sign and bin, the result counts the offsets above the bin's start, those of later bins included.
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
        """The law of the likelihood ratio of what all users show in first, or in second, side slots, for one column j.

        In first slots j is the target. In second slots j is the user J whose label 0 is shown as 1. User i shows 1 in
        her slot with probability p in [low, high] under Q0, and p + sign · u_ij/κ under Q1. The slot counts as seen
        with probability θκ/(1-θκ'). Here θ is the largest θ_i, and κ' the larger of `plan.kappa` and `plan.wide`. No
        side slot is seen with a larger probability.

        Args:
            counts: (2, B), the entries of `OffsetBins.counts` for column j, or larger numbers. sign: 1 for first slots,
            -1 for second slots. low, high: the ends of the interval for p.
        """
        ends, rate, shifts = self.bins(plan.limit).ends.tolist(), float(self.rates.max()), []
        rate *= (1.0 + 1e-12) / (1.0 - rate * max(plan.kappa, plan.wide))
        for direction, users in zip((sign, -sign), (-np.diff(counts, axis=1, append=0)).tolist(), strict=True):
            for end, count in zip(ends, users, strict=True):
                kappa = plan.kappa if end <= plan.limit else plan.wide
                # Let d = u/κ be the size of a shift downward, and d' >= d this size for the end of u's bin. p - d must
                # not be negative. If p_i < d, the side slot gets p = d, and the main slot a p below p_i, such that the
                # mean over all slots stays p_i (see `Slots._slot_bands`). The law has the shift d' in place of d. If
                # p > d', the larger shift only shows more. If d <= p <= d', the pair (p, p - d) is a post-processing of
                # (d', 0).
                least = low if direction > 0.0 else max(low, end / kappa)
                shifts.append(Shift(min(1.0, rate * kappa), least, max(least, high), direction * end / kappa, count))
        return product(shifts, plan.grid)

    def average(self, plan: SlotPlan, low: float, high: float) -> ShiftLaw:
        """The law of the likelihood ratio of what all users show in second side slots, averaged over the user J.

        J is any of the N+1 users. Every probability p of submitting a 1 lies in [low, high]. The law depends only on
        the plan's limit, values of κ and grid. So plans that agree in these share one stored law.
        """
        return self._mixture(replace(plan, wide_users=0, variance=0.0, moved_share=0.0), low, high)

    @remembered
    def _mixture(self, plan: SlotPlan, low: float, high: float) -> ShiftLaw:
        """The mean over all columns of the law of what all users show in second side slots.

        Columns are put in at most `_CLASSES` (8) classes of nearly equal size, by how many offsets of each size they
        have. For each size, all columns of a class get the largest number in any column of the class. This never lowers
        a divergence: more users show at least as much, and so does a larger offset in a slot of the same width.
        `moved_bit_slots` explains whose slots are wide. The result is `LAW_SHOWN` (the target's noisy label counts as
        seen) if some shifted probability exceeds 1.
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
