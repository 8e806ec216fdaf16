"""The moved bit's bound for the targets of a table: which L is best, and which targets are bounded at once.

Speed only: `moved_bit` holds for every target and every L. `MovedBitSearch` takes the least bound over some L, and the
largest over the known ones and both directions. `MovingTargets` bounds targets with similar weights at once.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.overlays.moved_bit import DenseTable, MovedBit
from p2p_sim.privacy.overlays.moved_bit_slots import Slots
from p2p_sim.privacy.overlays.overlay_table import Ints, OverlayTable
from p2p_sim.privacy.overlays.user_kinds import UserKinds

LEAST_MOVED = 1e-9
"""α below which no bit is moved."""
LARGEST_TABLE = 2**23
"""Most entries of a table that is looked at whole."""
_DENSE = 2
"""A table is dense if one in so many of its entries is not 0; with fewer, nothing was gained."""
_CLASSES = 6
"""Targets are bounded in at most so many classes,"""
_STEP = 1.3
"""by the sums of their squared weights, from one power of this to the next."""
_STRAYS = (-8.0, -12.0, -16.0, -20.0, -25.0, -31.0, -38.0, -46.0, -56.0)
"""-L, logarithms of how likely a user may leave her band."""


class KnownOnesCase(NamedTuple):
    """What a bound is the largest over: a range of known ones, by its index, and HS_r(Q1 | Q0) if `up`, else the
    other direction."""

    known_ones: int
    up: bool


class LargestDivergence(NamedTuple):
    """The largest divergence among cases, rounded up, and whether it is over all: with some left out it bounds
    nothing, but exceeds the limit."""

    divergence: float
    complete: bool


@dataclass(eq=False)
class MovedBitSearch:
    """HS_r <= min over L of ( strays(L) + missed + max over known ones and directions of the divergence ).

    Both searches start from what did best for the last ratio: `level`, an index of -L, and `cases`, in order.
    """

    bound: MovedBit
    level: int = 3
    _bounds: dict[tuple[float, float | None], float] = field(default_factory=dict, init=False, repr=False)

    @staticmethod
    def of(table: DenseTable, weights: Floats, rates: Floats, columns: Ints) -> "MovedBitSearch | None":
        """The bound of one target, or of several at once; None where nothing can be moved to advantage.

        Args:
            weights, rates: (F,) of the target's fetchers, or larger ones. columns: the targets, by their indices among
                the hidden users.
        """
        used = (weights > 0.0) & (rates > 0.0)
        weights, rates = weights[used], rates[used]
        alpha = table.flip_prob
        typical = alpha * float(np.median(table.rows.sum(axis=1)))  # p_i of a data set without known ones
        if not weights.size or not table.known_ones or typical <= 0.0:
            return None
        hiding = 1.0 / (table.others * alpha * (1.0 - alpha))
        plan = table.offsets.plan(weights, rates, spread=1.0 / typical + 1.0, hiding=hiding)
        return MovedBitSearch(MovedBit(table, Slots(table.offsets, plan, weights, rates, columns)))

    @cached_property
    def cases(self) -> list[KnownOnesCase]:
        """All of them, in the order in which they are tried."""
        return [KnownOnesCase(index, up) for index in range(len(self.bound.table.known_ones)) for up in (True, False)]

    def divergence(self, ratio: float, limit: float | None = None) -> float:
        """Upper bound of HS_ratio in either direction; with a limit, a larger one may do on the same side of it."""
        if (ratio, limit) not in self._bounds:
            self._bounds[ratio, limit] = self._divergence(ratio, limit)
        return self._bounds[ratio, limit]

    def _divergence(self, ratio: float, limit: float | None) -> float:
        """min over L of strays(L) + inside(L), from the last best L on until strays are few."""
        bound, least = 1.0, 1.0
        for level in range(self.level, min(self.level + 3, len(_STRAYS))):
            strays = self.bound.table.strays(_STRAYS[level])
            inside, complete = self._inside(ratio, level, None if limit is None else limit - strays)
            if limit is not None and complete and strays > 1e-4 * inside:  # the choice of L needs the least bound
                inside = self._inside(ratio, level, None).divergence
            if inside + strays < least:
                least, self.level = inside + strays, level
            if complete:
                bound = min(bound, inside + strays)
            if strays <= 0.05 * inside:
                break
        # Next time start one L lower, if hardly anybody strays.
        if 0.0 < strays < 1e-7 * inside:
            self.level = max(0, self.level - 1)
        return min(1.0, bound)

    def _inside(self, ratio: float, level: int, limit: float | None) -> LargestDivergence:
        """missed + max over known ones and directions of the divergence; ends at the first that exceeds the limit."""
        worst, missed = 0.0, self.bound.missed(ratio)
        enough = 0.0 if limit is None else (limit * (1.0 - 1e-8) - missed)
        for case in self.cases:
            divergence = self.bound.divergence(
                ratio, case.known_ones, _STRAYS[level], up=case.up, enough=max(worst, enough)
            )
            worst = max(worst, divergence)
            if limit is not None and worst * (1.0 + 1e-9) + missed > limit:
                self.cases.remove(case)
                self.cases.insert(0, case)  # most likely to exceed the next limit too
                return LargestDivergence(worst, False)
        return LargestDivergence(worst * (1.0 + 1e-9) + missed, True)


@dataclass(frozen=True, eq=False)
class MovingTargets:
    """The targets of a table.

    Args:
        kinds: its users' kinds. alike: (n,) for each user one with the same bound, or -1.
    """

    table: OverlayTable
    kinds: UserKinds
    alike: Ints
    _searches: dict[int, MovedBitSearch | None] = field(default_factory=dict, init=False, repr=False)

    def of(self, target: int) -> MovedBitSearch | None:
        """The bound for a target and others whose fetchers have similar weights; None if there is none."""
        if self._dense is None:
            return None
        table, group = self.table, int(self._classes[target])
        if group not in self._searches:
            # Of the class, the k-th largest weight of any target, for each k, and the largest rate of all users.
            lead = self.alike == np.arange(len(self.alike))
            targets = np.flatnonzero(lead & (self._classes == group))
            weights = self.kinds.envelope(targets)
            rates = np.full(weights.size, self._dense.rates.max())
            if targets.size == 1:
                users, weights = table.fetchers(int(targets[0]))
                rates = np.where(table.members[users], 0.0, table.rates[users])
            self._searches[group] = self.bounded(weights, rates, targets)
        return self._searches[group]

    def bounded(self, weights: Floats, rates: Floats, targets: Ints) -> MovedBitSearch | None:
        """The bound for targets whose fetchers have at most these weights and rates; None if there is none."""
        if self._dense is None:
            return None
        columns = np.cumsum(~self.table.revealed) - 1
        return MovedBitSearch.of(self._dense, weights, rates, columns[targets])

    @cached_property
    def _dense(self) -> DenseTable | None:
        """None for a table that is sparse or too large."""
        table, hidden = self.table, ~self.table.revealed
        submitters = np.flatnonzero((table.rates > 0.0) & ~table.members)
        rows, size = table.rows[submitters], submitters.size * int(hidden.sum())
        if table.flip_prob < LEAST_MOVED or not 0 < size <= min(LARGEST_TABLE, _DENSE * rows.nnz):
            return None
        entries, rates = rows.toarray(), table.rates[submitters]
        known_mass = entries[:, ~hidden].sum(axis=1)
        return DenseTable(entries[:, hidden], known_mass, rates, table.flip_prob, table.members_labels)

    @cached_property
    def _classes(self) -> Ints:
        """For each user a number, the same for targets who are bounded at once, (n,); -1 for those with no bound."""
        lead = np.flatnonzero((self.alike == np.arange(len(self.alike))) & ~self.table.revealed)
        steps = np.arange(lead.size)
        if lead.size > _CLASSES:
            squares = np.asarray(self.table.columns.power(2).sum(axis=0)).ravel()[lead]
            steps = np.floor(np.log(np.maximum(squares / squares.max(initial=1e-300), 1e-30)) / math.log(_STEP))
        kinds, kind = np.unique(steps, return_inverse=True)
        group = np.full(len(self.alike), -1)
        group[lead] = kind.ravel() * _CLASSES // max(kinds.size, _CLASSES)
        return np.where(self.alike >= 0, group[self.alike], -1)
