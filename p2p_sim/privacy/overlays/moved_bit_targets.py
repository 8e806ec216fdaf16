"""The targets of a dense fetch distribution whose bits are bounded together by a moved bit."""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.overlays.moved_bit import MovedBit
from p2p_sim.privacy.overlays.moved_bit_levels import LARGEST_TABLE, Crowd
from p2p_sim.privacy.overlays.user_kinds import UserKinds

LEAST_MOVED = 1e-9
"""α below which no bit is moved."""
_DENSE = 2
"""A table is dense if one in so many of its entries is not 0; with fewer, nothing was gained."""
_CLASSES = 6
"""Targets are told apart in at most so many classes,"""
_STEP = 1.3
"""by the sums of their squared weights, from one power of this to the next."""
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class MovingTargets:
    """What is known of a table.

    Args:
        rows, columns: (n, n) the table twice. places: its users' places. alike: (n,) one with the same bound, or -1.
        flip_prob: α. rates: (n,) probabilities that labels arrive. revealed: (n,) whose bits are known, members among
            them. members: (n,) who are pooled with the learner. draws: labels that each of these got.
    """

    rows: "scipy.sparse.csr_array"
    columns: "scipy.sparse.csc_array"
    places: UserKinds
    alike: Ints
    flip_prob: float
    rates: Floats
    revealed: Bools
    members: Bools
    draws: int
    _found: dict[int, MovedBit | None] = field(default_factory=dict, init=False, repr=False)

    def of(self, target: int) -> MovedBit | None:
        """The bound for a target and others whose fetchers have about as large weights; None if there is none."""
        if self._crowd is None:
            return None
        its = int(self._classes[target])
        if its not in self._found:
            lead = self.alike == np.arange(len(self.alike))
            targets = np.flatnonzero(lead & (self._classes == its))
            weights = self.places.envelope(targets)
            rates = np.full(weights.size, self._crowd.rates.max())
            if targets.size == 1:
                part = slice(self.columns.indptr[targets[0]], self.columns.indptr[targets[0] + 1])
                users = self.columns.indices[part]
                weights, rates = self.columns.data[part], np.where(self.members[users], 0.0, self.rates[users])
            self._found[its] = self.bounded(weights, rates, targets)
        return self._found[its]

    def bounded(self, weights: Floats, rates: Floats, targets: Ints) -> MovedBit | None:
        """The bound for targets whose fetchers have at most these weights and rates; None if there is none."""
        if self._crowd is None:
            return None
        place = np.cumsum(~self.revealed) - 1
        return MovedBit.of(self._crowd, weights, rates, place[targets])

    @cached_property
    def _crowd(self) -> Crowd | None:
        """None for a table that is sparse or too large."""
        seen, hidden = np.flatnonzero((self.rates > 0.0) & ~self.members), ~self.revealed
        rows, size = self.rows[seen], seen.size * int(hidden.sum())
        if self.flip_prob < LEAST_MOVED or not 0 < size <= min(LARGEST_TABLE, _DENSE * rows.nnz):
            return None
        table = rows.toarray()
        told = self.draws * int((np.diff(self.rows.indptr)[self.members] > 0).sum())
        return Crowd(table[:, hidden], table[:, ~hidden].sum(axis=1), self.rates[seen], self.flip_prob, told)

    @cached_property
    def _classes(self) -> Ints:
        """For each user a number, the same for targets who are bounded together, (n,); -1 for those with no bound."""
        lead = np.flatnonzero((self.alike == np.arange(len(self.alike))) & ~self.revealed)
        steps = np.arange(lead.size)
        if lead.size > _CLASSES:
            squares = np.asarray(self.columns.power(2).sum(axis=0)).ravel()[lead]
            steps = np.floor(np.log(np.maximum(squares / squares.max(initial=1e-300), 1e-30)) / math.log(_STEP))
        kinds, place = np.unique(steps, return_inverse=True)
        found = np.full(len(self.alike), -1)
        found[lead] = place.ravel() * _CLASSES // max(kinds.size, _CLASSES)
        return np.where(self.alike >= 0, found[self.alike], -1)
