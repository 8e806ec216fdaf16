"""The moved bit's bound for the targets of a table: who are bounded together, and which choices are tried."""

import math
from dataclasses import dataclass, field
from functools import cached_property

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
"""Targets are told apart in at most so many classes,"""
_STEP = 1.3
"""by the sums of their squared weights, from one power of this to the next."""
_STRAYS = (-8.0, -12.0, -16.0, -20.0, -25.0, -31.0, -38.0, -46.0, -56.0)
"""-L, logarithms of how likely a user may leave her band."""


@dataclass(eq=False)
class MovedBitSearch:
    """Speed only: which L are tried, and in which order the known ones and directions that the bound is the largest of.

    Both start from what did best for the last ratio: `at`, the place of L, and `order`.
    """

    bound: MovedBit
    at: int = 3
    _bounds: dict[tuple[float, float | None], float] = field(default_factory=dict, init=False, repr=False)

    @staticmethod
    def of(table: DenseTable, weights: Floats, rates: Floats, columns: Ints) -> "MovedBitSearch | None":
        """The bound of one target, or of several together; None where nothing can be moved to advantage.

        Args:
            weights, rates: (F,) of the target's fetchers, or larger ones. columns: the targets, by their place among
                the hidden users.
        """
        used = (weights > 0.0) & (rates > 0.0)
        weights, rates = weights[used], rates[used]
        alpha = table.flip_prob
        few = alpha * float(np.median(table.rows.sum(axis=1)))
        if not weights.size or not table.known_ones or few <= 0.0:
            return None
        hiding = 1.0 / (table.others * alpha * (1.0 - alpha))
        plan = table.offsets.plan(weights, rates, spread=1.0 / few + 1.0, hiding=hiding)
        return MovedBitSearch(MovedBit(table, Slots(table.offsets, plan, weights, rates, columns)))

    @cached_property
    def order(self) -> list[tuple[int, bool]]:
        """Known ones, by their place, and directions."""
        return [(known_ones, up) for known_ones in range(len(self.bound.table.known_ones)) for up in (True, False)]

    def divergence(self, ratio: float, limit: float | None = None) -> float:
        """Upper bound of HS_ratio in either direction; with a limit, a larger one may do on the same side of it."""
        if (ratio, limit) not in self._bounds:
            self._bounds[ratio, limit] = self._divergence(ratio, limit)
        return self._bounds[ratio, limit]

    def _divergence(self, ratio: float, limit: float | None) -> float:
        """The least bound by L from the last best one on, until strays are few; next time the one before, if fewest."""
        bound, least = 1.0, 1.0
        for at in range(self.at, min(self.at + 3, len(_STRAYS))):
            strays = self.bound.table.strays(_STRAYS[at])
            inside, whole = self._inside(ratio, at, None if limit is None else limit - strays)
            if limit is not None and whole and strays > 1e-4 * inside:  # the choice of L needs the least bound
                inside, _ = self._inside(ratio, at, None)
            if inside + strays < least:
                least, self.at = inside + strays, at
            if whole:
                bound = min(bound, inside + strays)
            if strays <= 0.05 * inside:
                break
        if strays < 1e-7 * inside and self.bound.table.strays(_STRAYS[0]) > 0.0:
            self.at = max(0, self.at - 1)
        return min(1.0, bound)

    def _inside(self, ratio: float, at: int, limit: float | None) -> tuple[float, bool]:
        """The bound but for what strays, and whether it is one: a part of it that exceeds the limit is none."""
        worst, missed = 0.0, self.bound.missed
        enough = 0.0 if limit is None else (limit * (1.0 - 1e-8) - missed)
        for case in self.order:
            value = self.bound.divergence(ratio, case[0], _STRAYS[at], up=case[1], enough=max(worst, enough))
            worst = max(worst, value)
            if limit is not None and worst * (1.0 + 1e-9) + missed > limit:
                self.order.remove(case)
                self.order.insert(0, case)  # most likely to exceed the next limit too
                return worst, False
        return worst * (1.0 + 1e-9) + missed, True


@dataclass(frozen=True, eq=False)
class MovingTargets:
    """The targets of a table.

    Args:
        kinds: its users' places. alike: (n,) for each user one with the same bound, or -1.
    """

    table: OverlayTable
    kinds: UserKinds
    alike: Ints
    _searches: dict[int, MovedBitSearch | None] = field(default_factory=dict, init=False, repr=False)

    def of(self, target: int) -> MovedBitSearch | None:
        """The bound for a target and others whose fetchers have about as large weights; None if there is none."""
        if self._dense is None:
            return None
        table, group = self.table, int(self._classes[target])
        if group not in self._searches:
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
        """For each user a number, the same for targets who are bounded together, (n,); -1 for those with no bound."""
        lead = np.flatnonzero((self.alike == np.arange(len(self.alike))) & ~self.table.revealed)
        steps = np.arange(lead.size)
        if lead.size > _CLASSES:
            squares = np.asarray(self.table.columns.power(2).sum(axis=0)).ravel()[lead]
            steps = np.floor(np.log(np.maximum(squares / squares.max(initial=1e-300), 1e-30)) / math.log(_STEP))
        kinds, kind = np.unique(steps, return_inverse=True)
        group = np.full(len(self.alike), -1)
        group[lead] = kind.ravel() * _CLASSES // max(kinds.size, _CLASSES)
        return np.where(self.alike >= 0, group[self.alike], -1)
