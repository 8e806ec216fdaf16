"""The bound of `moved_bit` for the targets of a table.

The proof shows the learner the hidden noisy labels. It may show the label 0 of one user as 1 if the target's noisy
label is 1 (a *moved bit*). So the number of ones hides the target's label. User i submits a 1 with probability p_i. She
is a *stray* if p_i lies outside an interval, which has probability at most 2e^-L. The bound holds for every target v
and every L > 0. For each of several L, `MovedBitSearch` takes the largest bound over all `cases`. The least of these
bounds counts.

W_iv, the *weight*, is the probability that user i fetches from v. θ_i, her *rate*, is the probability that her
submission is seen. For speed, `MovingTargets` bounds targets with similar weights at once. This weakens the bound
slightly.
"""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.overlays.moved_bit import DenseTable, MovedBit
from p2p_sim.privacy.overlays.moved_bit_slots import Slots
from p2p_sim.privacy.overlays.overlay_table import Ints, OverlayTable, remembered

LEAST_MOVED = 1e-9
"""Smallest flip probability α at which this bound is used."""
LARGEST_TABLE = 2**23
"""Largest number of entries of a table to which this bound is applied."""
_DENSE = 2
"""A table is dense if at least one in `_DENSE` of its entries is not 0. In sparser tables this bound gained nothing."""
_CLASSES = 6
"""Largest number of classes of targets. The targets of a class are bounded at once."""
_STEP = 1.3
"""More than `_CLASSES` targets are sorted into kinds by Σ_i W_iv², as a share of the largest such sum. The shares of
one kind lie between two neighbouring powers of `_STEP`."""
_EXPONENTS = (8.0, 12.0, 16.0, 20.0, 25.0, 31.0, 38.0, 46.0, 56.0)
"""Values of L that are tried."""


class LargestDivergence(NamedTuple):
    """The largest divergence among cases, rounded up if all cases were tried.

    complete: whether all cases were tried. If it is False, the divergence covers only the tried cases and is not
    rounded up. It then exceeds the limit, together with what its computation leaves out.
    """

    divergence: float
    complete: bool


@dataclass(eq=False)
class MovedBitSearch:
    """Bounds of HS_r, the hockey-stick divergence of what is seen of a target's noisy label, at each ratio r.

        HS_r <= min over L of ( strays(L) + missed + max over `cases` of the divergence without strays )

    strays(L) is what strays add to the divergence. `missed` is what the computation leaves out.

    level: the index in `_EXPONENTS` of the L that is tried first. It is the index of the best L at the last ratio, or
    the index before it.
    """

    bound: MovedBit
    level: int = 3

    @staticmethod
    def of(table: DenseTable, weights: Floats, rates: Floats, columns: Ints) -> "MovedBitSearch | None":
        """The bound for a target v, or for several targets at once; None where the bound cannot help.

        It cannot help if nobody submits v's label. It cannot help either if no other hidden label, or no submission of
        a 1, is left to hide v's label.

        Args:
            table: the fetch probabilities of all users who may submit, for users with hidden noisy labels.
            weights, rates: (F,), W_iv and θ_i of each user i who may fetch from v, or larger values.
            columns: the targets' indices among the users with hidden noisy labels.
        """
        used = (weights > 0.0) & (rates > 0.0)
        weights, rates = weights[used], rates[used]
        alpha = table.flip_prob
        typical = alpha * float(np.median(table.rows.sum(axis=1)))  # mean of p_i if no label is known to be 1
        if not weights.size or not table.known_ones or typical <= 0.0:
            return None
        plan = table.offsets.plan(
            weights, rates, spread=1.0 / typical + 1.0, hiding=1.0 / (table.others * alpha * (1.0 - alpha))
        )
        return MovedBitSearch(MovedBit(table, Slots(table.offsets, plan, weights, rates, columns)))

    @cached_property
    def cases(self) -> list[tuple[int, bool]]:
        """All cases, in the order in which they are tried. The case that last exceeded a limit comes first.

        A case is a pair. The first entry is an index in the list `known_ones`. An item of this list is a range for the
        number of other users' noisy labels that the proof reveals to be 1. The second entry, `up`, is True if the law
        for the target's noisy label 1 comes first in the divergence.
        """
        return list(itertools.product(range(len(self.bound.table.known_ones)), (True, False)))

    @remembered
    def divergence(self, ratio: float, limit: float | None = None) -> float:
        """Upper bound of the hockey-stick divergence HS_ratio, in both directions, of what is seen of the noisy label.

        For one L, the bound is what strays add, plus the largest divergence over all `cases` without strays. The result
        is the least bound over up to three values of L. The search starts at index `level` of `_EXPONENTS`. L grows
        until strays add little.

        Args:
            limit: a number with which the bound will be compared. The result may then be larger, but is on the same
            side of `limit`. None: the bound itself.
        """
        bound, least = 1.0, 1.0
        for level in range(self.level, min(self.level + 3, len(_EXPONENTS))):
            strays = self.bound.table.strays(_EXPONENTS[level])
            inside, complete = self._inside(ratio, level, None if limit is None else limit - strays)
            if limit is not None and complete and strays > 1e-4 * inside:  # to choose L, the least bound is needed
                inside = self._inside(ratio, level, None).divergence
            if inside + strays < least:
                least, self.level = inside + strays, level
            if complete:
                bound = min(bound, inside + strays)
            if strays <= 0.05 * inside:
                break
        # If hardly anybody strays, the next ratio starts with the next smaller L.
        if 0.0 < strays < 1e-7 * inside:
            self.level = max(0, self.level - 1)
        return min(1.0, bound)

    def _inside(self, ratio: float, level: int, limit: float | None) -> LargestDivergence:
        """The largest divergence HS_ratio over all `cases`, for one L, plus what its computation leaves out.

        What strays add is not in the result. The search ends at the first case that exceeds the limit.

        Args:
            level: the index of L in `_EXPONENTS`. limit: a number with which the result is compared; None: all cases
            are tried.

        Returns:
            `complete` is False if the search ended early. The divergence is then no bound.
        """
        worst, missed = 0.0, self.bound.missed(ratio)
        enough = 0.0 if limit is None else (limit * (1.0 - 1e-8) - missed)
        for case in self.cases:
            known_ones, up = case
            inside = self.bound.divergence(ratio, known_ones, _EXPONENTS[level], up=up, enough=max(worst, enough))
            worst = max(worst, inside)
            if limit is not None and worst * (1.0 + 1e-9) + missed > limit:
                self.cases.remove(case)
                self.cases.insert(0, case)  # most likely to exceed the next limit too
                return LargestDivergence(worst, False)
        return LargestDivergence(worst * (1.0 + 1e-9) + missed, True)


@dataclass(frozen=True, eq=False)
class MovingTargets:
    """The bounds of a table's targets.

    alike: (n,), for each user the number of a user with the same bound; -1 if she has no bound.
    """

    table: OverlayTable
    alike: Ints

    def of(self, target: int) -> MovedBitSearch | None:
        """The bound for a user's noisy label; None if there is none.

        Users whose labels are fetched with similar probabilities form a class. The users of a class share one bound,
        computed from the largest of these probabilities.
        """
        return None if self._dense is None else self._of_class(int(self._classes[target]))

    @remembered
    def _of_class(self, number: int) -> MovedBitSearch | None:
        """The bound for all targets of a class, numbered as in `_classes`; None if there is none.

        For several targets, sort the weights of each target, the largest first. For each k, the bound takes the largest
        k-th weight of any target. It takes the largest rate of all users who are not members of the coalition.
        """
        targets = np.flatnonzero((self.alike == np.arange(len(self.alike))) & (self._classes == number))
        if targets.size == 1:
            users, weights = self.table.fetchers(int(targets[0]))
            return self.bounded(weights, np.where(self.table.members[users], 0.0, self.table.rates[users]), targets)
        # Larger weights and rates give larger bounds. So the largest ones serve the whole class.
        weights = self.table.envelope(targets)
        return self.bounded(weights, np.full(weights.size, self.table.rates[~self.table.members].max()), targets)

    def bounded(self, weights: Floats, rates: Floats, targets: Ints) -> MovedBitSearch | None:
        """The bound for the targets' noisy labels; None if it is not used (see `_dense`) or cannot help.

        Args:
            weights, rates: (F,), the weight and the rate of each user who may fetch a target's label, or larger values.
            targets: the targets' numbers in the table.
        """
        if self._dense is None:
            return None
        return MovedBitSearch.of(self._dense, weights, rates, (np.cumsum(~self.table.revealed) - 1)[targets])

    @cached_property
    def _dense(self) -> DenseTable | None:
        """The table in the form that the bound needs; None where the bound is not used.

        Rows are for users who may submit, and columns for users with hidden noisy labels. The bound is used under three
        conditions. α is at least `LEAST_MOVED` (1e-9). The table has at least one and at most `LARGEST_TABLE` (2^23)
        entries. It has at most twice as many entries as there are positive fetch probabilities of submitters.
        """
        table, hidden = self.table, ~self.table.revealed
        submitters = np.flatnonzero((table.rates > 0.0) & ~table.members)
        rows, size = table.rows[submitters], submitters.size * int(hidden.sum())
        if table.flip_prob < LEAST_MOVED or not 0 < size <= min(LARGEST_TABLE, _DENSE * rows.nnz):
            return None
        entries, rates = rows.toarray(), table.rates[submitters]
        return DenseTable(
            entries[:, hidden], entries[:, ~hidden].sum(axis=1), rates, table.flip_prob, table.members_labels
        )

    @cached_property
    def _classes(self) -> Ints:
        """For each user the number of her class, (n,); -1 if she has no bound.

        Up to 6 different targets v have a class each. More targets are put in at most 6 classes, by similar Σ_i W_iv².
        One target stands for all targets that are `alike`: the rows of their fetchers have the same entries in some
        order, and so have all other rows. Such rows also have the same median. So the entries minus their row's median
        are the same in some order. The bound depends on no other feature of the rows.
        """
        lead = np.flatnonzero((self.alike == np.arange(len(self.alike))) & ~self.table.revealed)
        steps = np.arange(lead.size)
        if lead.size > _CLASSES:
            squares = np.asarray(self.table.columns.power(2).sum(axis=0)).ravel()[lead]
            steps = np.floor(np.log(np.maximum(squares / squares.max(initial=1e-300), 1e-30)) / math.log(_STEP))
        kinds, kind = np.unique(steps, return_inverse=True)
        group = np.full(len(self.alike), -1)
        group[lead] = kind.ravel() * _CLASSES // max(kinds.size, _CLASSES)
        return np.where(self.alike >= 0, group[self.alike], -1)
