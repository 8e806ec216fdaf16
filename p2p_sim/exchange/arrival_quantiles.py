"""When submissions arrive: quantiles of any number of times in little memory."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

EXACT = 2**22
"""Most times that are kept as they are."""
DROPPED = 36
"""Trailing bits of a time that are rounded away where there are more: 17 significant bits are left."""


@dataclass
class Arrivals:
    """Arrival times, seconds, at least 0, that are added piece by piece.

    More than `EXACT` are rounded to 17 significant bits and counted by value, so that a quantile is right to one part
    in 130,000. What is found depends on the times alone, not on their order or on the pieces.

    times: those kept as they are, in pieces. values, counts: (V,) rounded times, ascending, and how many there are.
    """

    times: list[NDArray[np.float64]] = field(default_factory=list)
    values: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def total(self) -> int:
        """Number of times."""
        return self._waiting + int(self.counts.sum())

    @property
    def _waiting(self) -> int:
        return sum(piece.size for piece in self.times)

    def add(self, other: "Arrivals") -> None:
        """Take in others."""
        self.times += other.times
        self._merge(other.values, other.counts)
        if self._waiting > EXACT:
            self._round()

    def quantile(self, share: float) -> float | None:
        """The time by which a share, 0 to 1, has arrived, as `numpy.quantile` has it; None if nothing has."""
        if self.total == 0:
            return None
        if self.total <= EXACT:
            return float(np.quantile(np.concatenate(self.times), share))
        self._round()
        place = share * (self.total - 1)
        below = int(place)
        found = np.searchsorted(np.cumsum(self.counts), [below, min(below + 1, self.total - 1)], side="right")
        low, high = (self.values[found] << DROPPED).view(np.float64).tolist()
        return float(low + (high - low) * (place - below))

    def _round(self) -> None:
        """Round and count the times that were kept as they are."""
        values = np.concatenate([np.zeros(0), *self.times]).view(np.int64)  # the bits have the order of the numbers
        self.times = []
        values += 1 << (DROPPED - 1)
        values >>= DROPPED
        low, high = int(values.min(initial=2**62)), int(values.max(initial=0))
        if high - low < EXACT:  # bincount is faster, if it does not need too much memory
            counts = np.bincount(values - low)
            found = np.flatnonzero(counts)
            self._merge(found + low, counts[found])
        else:
            self._merge(*np.unique(values, return_counts=True))

    def _merge(self, values: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Take in rounded times, ascending."""
        if not values.size:
            return
        every, place = np.unique(np.concatenate([self.values, values]), return_inverse=True)
        weights = np.concatenate([self.counts, counts]).astype(np.float64)  # exact: below 2**53
        self.values, self.counts = every, np.bincount(place, weights).astype(np.int64)
