"""The bound of `moved_bit` for the targets of a table: which L is best, and which targets are bounded at once.

Let p_i be the probability that user i submits a 1. With probability at most 2e^-L, p_i leaves an interval, its band.
The bound of `moved_bit` holds for every target and every L > 0. For each of several L, `MovedBitSearch` takes the
largest bound over both directions and over all ranges for the number of labels known to be 1. It then takes the least
over these L. For speed, at some cost in sharpness, `MovingTargets` bounds targets with similar weights at once.
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
"""A table is dense if at least one in `_DENSE` of its entries is not 0; in sparser tables this bound gained nothing."""
_CLASSES = 6
"""Largest number of classes of targets; the targets of a class are bounded at once."""
_STEP = 1.3
"""If there are more than `_CLASSES` targets v, those whose Σ_i W_iv², as shares of the largest such sum, lie between
the same two neighbouring powers of `_STEP` are of one kind; W_iv is the probability that user i fetches from v."""
_EXPONENTS = (8.0, 12.0, 16.0, 20.0, 25.0, 31.0, 38.0, 46.0, 56.0)
"""Values of L that are tried; a user's probability p_i of submitting a 1 leaves its band with probability at most
2e^-L."""


class LargestDivergence(NamedTuple):
    """The largest divergence among cases, rounded up if all were tried.

    complete: whether all cases were tried, so that the divergence is an upper bound. If it is False, the divergence is
    that of the cases tried, not rounded up; together with what its computation leaves out it exceeds the limit.
    """

    divergence: float
    complete: bool


@dataclass(eq=False)
class MovedBitSearch:
    """Bounds, at each ratio r, of the hockey-stick divergence HS_r of what is seen of a target's bit. Each is the
    least, over L, of the bounds of `MovedBit`.

    HS_r <= min over L of ( strays(L) + missed + max over `cases` of the divergence if nobody strays ).

    A user strays if her p_i leaves its band. strays(L) is what users who stray add to the divergence, and `missed` is
    what the computation leaves out.

    level: the index in `_EXPONENTS` of the L that is tried first. It is the index that gave the least bound at the last
    ratio, or the index before it.
    """

    bound: MovedBit
    level: int = 3

    @staticmethod
    def of(table: DenseTable, weights: Floats, rates: Floats, columns: Ints) -> "MovedBitSearch | None":
        """The bound by "moving a bit" of what is seen of the noisy label of a target v, or of several targets at once;
        None where this bound cannot help.

        The proof shows the learner all hidden noisy labels. If v's noisy label is 1, the proof shows, with some
        probability, a random 0 among the others as 1. Then the number of ones, too, hides v's label. The bound cannot
        help if nobody submits v's label, or if no label or submission of 1 is left to hide it.

        Args:
            table: the fetch probabilities of all users who may submit, for users with hidden noisy labels. weights,
            rates: (F,), for each user i who may fetch from v, the probability W_iv that she does and the probability
            θ_i that her submission is seen, or larger values. columns: the targets' indices among the users with hidden
            noisy labels.
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
        """All cases in the order in which they are tried; the case that last exceeded a limit comes first. The case
        with the largest divergence counts.

        A case is a pair. The first entry is an index in the list `known_ones`. Each item of this list is a range for
        the number of other users' noisy labels that the proof reveals to be 1. The second entry is whether the law for
        the target's noisy label 1 comes first in the divergence (`up`) or second.
        """
        return list(itertools.product(range(len(self.bound.table.known_ones)), (True, False)))

    @remembered
    def divergence(self, ratio: float, limit: float | None = None) -> float:
        """Upper bound of the hockey-stick divergence HS_ratio, in both directions, of what is seen if the target's
        noisy label is 1 and if it is 0.

        For any L, with probability at most 2e^-L, a user's probability of submitting a 1 leaves an interval; she is
        then a stray. For one L, the bound is the sum of what all strays add and the largest divergence, over all
        `cases`, if there are no strays. The result is the least bound over up to three values of L. The search starts
        at index `level` of a list of values of L, and L grows until strays cost little.

        Args:
            limit: a number with which the bound will be compared; the result may then be larger, but is on the same
            side of it. None: the bound itself.
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
        """The largest divergence HS_ratio of all `cases` for one L, if nobody strays, plus what the computation of the
        divergence leaves out. The search ends at the first case that exceeds the limit.

        A case is a range for the number of labels revealed to be 1, with a direction. A user strays, with probability
        at most 2e^-L, if her probability of submitting a 1 leaves an interval. What strays add to the divergence is not
        in the result.

        Args:
            level: the index of L in `_EXPONENTS`, the nine values from 8 to 56 that are tried. limit: a number with
            which the result is compared; None: all cases are tried.

        Returns:
            `divergence`, and `complete`, which is False if the search ended early; the divergence is then no bound.
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
        """The bound by "moving a bit" of what is seen of a user's noisy label; None if there is none.

        The proof shows the learner the hidden noisy labels, a random 0 among them perhaps as 1, so that the number of
        ones hides the user's label. Users whose labels are fetched with similar probabilities form a class. They share
        one bound, computed from the largest of these probabilities.
        """
        return None if self._dense is None else self._of_class(int(self._classes[target]))

    @remembered
    def _of_class(self, number: int) -> MovedBitSearch | None:
        """The bound by "moving a bit" of what is seen of a noisy label, for all targets of a class; None if there is
        none.

        Classes are numbered as in `_classes`. The proof shows the learner the hidden noisy labels, a random 0 among
        them perhaps as 1. For several targets, sort the probabilities with which each target's label is fetched, the
        largest first. The bound takes the largest k-th value of any target, for each k. It also takes the largest rate
        (probability that a submission is seen) of all users who are not members of the coalition.
        """
        targets = np.flatnonzero((self.alike == np.arange(len(self.alike))) & (self._classes == number))
        if targets.size == 1:
            users, weights = self.table.fetchers(int(targets[0]))
            return self.bounded(weights, np.where(self.table.members[users], 0.0, self.table.rates[users]), targets)
        # Larger weights and rates give larger bounds. So take, for each k, the largest k-th largest weight of any
        # target of the class, and take the largest rate of all users.
        weights = self.table.envelope(targets)
        return self.bounded(weights, np.full(weights.size, self.table.rates[~self.table.members].max()), targets)

    def bounded(self, weights: Floats, rates: Floats, targets: Ints) -> MovedBitSearch | None:
        """The bound by "moving a bit" of what is seen of the targets' noisy labels; None if α is tiny, if the table of
        fetch probabilities is too large or too sparse, or if the bound cannot help.

        The proof shows the learner the hidden noisy labels, a random 0 among them perhaps as 1, so that the number of
        ones hides a target's label.

        Args:
            weights, rates: (F,), for each user who may fetch a target's label, the probability that she does and the
            probability that her submission is seen, or larger values for several targets. targets: their numbers in the
            table.
        """
        if self._dense is None:
            return None
        return MovedBitSearch.of(self._dense, weights, rates, (np.cumsum(~self.table.revealed) - 1)[targets])

    @cached_property
    def _dense(self) -> DenseTable | None:
        """The fetch probabilities of the users who may submit, in the form that the bound by "moving a bit" needs; None
        where this bound is not used.

        The bound is used if α is at least `LEAST_MOVED` (1e-9) and two conditions hold for the table of submitters
        (rows) and users with hidden noisy labels (columns). The table has at least one and at most `LARGEST_TABLE`
        (2^23) entries. And it has at most twice as many entries as there are positive fetch probabilities of
        submitters.
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
        """For each user the number of her class, whose users are bounded at once, (n,); -1 if she has no bound by
        "moving a bit".

        If there are more than 6 different targets v, those with similar Σ_i W_iv² are in one class, and there are at
        most 6 classes; W_iv is the probability that user i fetches from v. One target stands for all that are `alike`:
        the rows of their fetchers have the same entries in some order, and so have all other rows. Rows with the same
        entries have the same median, so that the differences of entries from their row's median are also the same in
        some order. The bound depends on these differences alone.
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
