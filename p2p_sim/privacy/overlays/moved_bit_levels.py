"""What is common to all targets of a dense fetch distribution whose others' bits hide them: see `docs/theorem.md`.

Some of the hidden users hold label 1. Their bit is 1 for sure with some probability and else Bernoulli(α): which, is
revealed. So a data set is a set C of ones among the hidden users, at most half of them, while the other bits are all
Bernoulli(α); by a cell, |C| lies in a range, and of the others so many are revealed that H bits are left hidden.
X of these are ones, and which, is uniform among all sets of X, whatever X is.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats, bernstein_window, binomial_pmf, tail_mass
from p2p_sim.privacy.overlays.row_offsets import Offsets
from p2p_sim.privacy.overlays.shifted_pairs import LOG_TAIL

LARGEST_TABLE = 2**23
"""Most entries of a table that is looked at whole."""
_EXACT = 1e-12


@dataclass(frozen=True)
class MovedBitCell:
    """Data sets with `least` to `most` known ones, of which H = `hidden` bits of others are left."""

    least: int
    most: int
    hidden: int


@dataclass(frozen=True, eq=False)
class OffsetBands:
    """What is known of p_i given X = x, in one cell, but for what is charged.

    ones: (K,) values x. law: (K,) their probabilities. low, high: (K,) with low <= p_i <= high for all users i.
    stray: probability, given x, that one user's p_i is not there; 0 where that cannot be.
    """

    ones: NDArray[np.int64]
    law: Floats
    low: Floats
    high: Floats
    stray: float


@dataclass(frozen=True, eq=False)
class Crowd:
    """Users' rows.

    Args:
        rows: (R, N+1), the entries of those whose labels may be seen, for the users whose bits are hidden.
        known: (R,) the rest of their rows: what they fetch from users whose bits are known.
        rates: (R,) probabilities that their labels are seen. flip_prob: α in (0, 1/2].
        told: so many of the hidden bits may be revealed besides, whichever these are.
    """

    rows: Floats
    known: Floats
    rates: Floats
    flip_prob: float
    told: int = 0
    _found: dict[tuple[MovedBitCell, float], OffsetBands] = field(default_factory=dict, init=False, repr=False)

    @property
    def others(self) -> int:
        """N, hidden users besides a target."""
        return int(self.rows.shape[1]) - 1

    @cached_property
    def cells(self) -> list[MovedBitCell]:
        """Cells for every number of known ones from none to half."""
        half, ends = self.others // 2, [0]
        if self.others <= half + self.told:
            return []
        while ends[-1] < half:
            ends.append(min(2 * ends[-1] + 1 + self.others // 200, half))
        starts = [0, *(end + 1 for end in ends[:-1])]
        return [MovedBitCell(a, b + self.told, self.others - b - self.told) for a, b in zip(starts, ends, strict=True)]

    @cached_property
    def offsets(self) -> Offsets:
        return Offsets(self.rows, self.rates)

    @cached_property
    def exposed(self) -> float:
        """Expected number of users who show the target's bit or that of one other user, at most."""
        return float(self.rates @ self.rows.max(axis=1)) * (1.0 + 1e-9)

    @cached_property
    def _sums(self) -> Floats:
        """Sums of the k least entries of each row, (R, N+2)."""
        sums = np.zeros((self.rows.shape[0], self.rows.shape[1] + 1))
        np.cumsum(np.sort(self.rows, axis=1), axis=1, out=sums[:, 1:])
        return sums

    @cached_property
    def _spread(self) -> tuple[Floats, Floats]:
        """Range and variance of the entries of each row, (R, 1) each."""
        ends = (self.rows.max(axis=1), self.rows.min(axis=1))
        return (ends[0] - ends[1])[:, None], self.rows.var(axis=1)[:, None] * (1.0 + 1e-9)

    def bands(self, cell: MovedBitCell, log_stray: float) -> OffsetBands:
        """Bands which one user leaves with probability at most 2 exp(log_stray)."""
        if (cell, log_stray) not in self._found:
            self._found[cell, log_stray] = self._bands(cell, log_stray)
        return self._found[cell, log_stray]

    def _bands(self, cell: MovedBitCell, log_stray: float) -> OffsetBands:
        hidden, alpha = cell.hidden, self.flip_prob
        first, last = bernstein_window(hidden * alpha, hidden * alpha * (1.0 - alpha), hidden, LOG_TAIL)
        ones = np.arange(first, last + 1)
        law = binomial_pmf(first, last, hidden, alpha) * (1.0 + 1e-9)
        sums, size = self._sums, self.rows.shape[1]
        total = sums[:, -1:]
        # for certain: as many of the least, or of the largest, entries
        least, most = sums[:, cell.least + ones], total - sums[:, size - np.minimum(cell.most + ones, size)]
        # the mean: known ones at the least entries, known zeros at the largest, or the other way round
        start = sums[:, [cell.least]]
        low = start + (sums[:, [cell.least + hidden]] - start) * (ones / hidden)
        high = total - sums[:, [hidden + 1]] + (sums[:, [hidden + 1]] - sums[:, [1]]) * (ones / hidden)
        reach = self._reach(hidden, ones, -log_stray)
        if even := bool((self._spread[0] <= _EXACT * total).all()):
            low, high = least, most
        else:
            low, high = np.maximum(least, low - reach) * (1.0 - 1e-9), np.minimum(most, high + reach) + 1e-9
        high = np.minimum(high + self.known[:, None], 1.0)
        stray = 0.0 if even else 2.0 * math.exp(log_stray)
        return OffsetBands(ones, law, np.maximum(low.min(axis=0), 0.0), high.max(axis=0), stray)

    def _reach(self, hidden: int, ones: NDArray[np.int64], budget: float) -> Floats:
        """How far x entries drawn without replacement stray from their mean, but with probability exp(-budget).

        Hoeffding (1963): moment generating functions are at most those of draws with replacement, for which his own and
        Bernstein's inequality hold. The zeros may be drawn in place of the ones. The variance of some of the entries is
        at most that of all, times how many more these are.
        """
        width, variance = self._spread
        drawn = np.minimum(ones, hidden - ones)
        even = width * np.sqrt(drawn * (budget / 2.0))
        part = width * (budget / 3.0)
        rare = part + np.sqrt(part**2 + 2.0 * budget * drawn * variance * (self.rows.shape[1] / hidden))
        return np.asarray(np.minimum(even, rare))

    @property
    def missed(self) -> float:
        """Probability of the values x that are left out, under either law."""
        return 8.0 * tail_mass(LOG_TAIL)
