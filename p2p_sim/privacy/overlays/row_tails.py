"""How likely the other noisy bits of a row sum to less than a level: bounds for many rows at several levels."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import SUBNORMAL, Floats

_STRENGTHS = 2.0 ** np.arange(-6.0, 8.0, 0.25)
"""Parameters that Chernoff's bound tries, times the largest weight."""


def tail_bounds(weights: Floats, flip_prob: float, levels: Floats) -> Floats:
    """Bounds on Pr[Σ w_j Bernoulli(α) < level] at each level; labels of 1 only make the sum larger.

    SciPy's incomplete beta function is measured to be good to 5e-13; 1e-11 is charged, and as much for Chernoff's
    bound, whose exponent is a sum of logarithms that is good to 1e-13 of itself.

    Args:
        weights: sorted, positive. flip_prob: α in (0, 1/2]. levels: (K,), positive.
    """
    if weights.size == 0:
        return np.ones(len(levels))
    if np.ptp(weights) <= 1e-12 * weights[0]:
        return _even(float(weights[0]), weights.size, flip_prob, levels)
    strengths = _STRENGTHS / weights[-1]
    exponents = np.outer(levels, strengths) + _factors(weights, strengths, flip_prob)
    return _chernoff(exponents.min(axis=1))


def _even(weight: float, count: int, flip_prob: float, levels: Floats) -> Floats:
    """The same for `count` equal weights: fewer than level/w ones."""
    fewer = np.ceil(levels / weight * (1.0 + 1e-12))
    inside = np.minimum(fewer, count)
    exact = scipy.special.betainc(count - inside + 1.0, inside, 1.0 - flip_prob) * (1.0 + 1e-11)
    return np.where(fewer > count, 1.0, exact + SUBNORMAL)


def _factors(weights: Floats, strengths: Floats, flip_prob: float) -> Floats:
    """Σ_j ln E exp(-strength w_j Bernoulli(α)), for each strength."""
    values, counts = np.unique(weights, return_counts=True)
    return np.asarray(np.log1p(flip_prob * np.expm1(-np.outer(strengths, values))) @ counts)


def _chernoff(exponents: Floats) -> Floats:
    return np.asarray(np.exp(np.minimum(0.0, exponents * (1.0 - 1e-12))) * (1.0 + 1e-11) + SUBNORMAL)


@dataclass(frozen=True, eq=False)
class _Row:
    """What is kept of a row: how many entries hide, and the two least and the two largest of them."""

    size: int
    least: tuple[float, ...]
    largest: tuple[float, ...]
    strengths: Floats
    factors: Floats | None


@dataclass(frozen=True, eq=False)
class Tails:
    """`tail_bounds` of rows of a table, each without one of its entries.

    Args:
        row: gives the entries of a user's row that hide somebody, in any order.
        flip_prob: α in (0, 1/2]. levels: (K,), positive.
        without: this many of the largest entries, besides the one, hide nobody either.
    """

    row: Callable[[int], Floats]
    flip_prob: float
    levels: Floats
    without: int = 0
    _rows: dict[int, _Row] = field(default_factory=dict, init=False)
    _found: dict[tuple[float, int] | bytes, Floats] = field(default_factory=dict, init=False)

    def lacking(self, users: NDArray[np.integer], entries: Floats) -> "Lacking":
        """Bounds for some users' rows, each without the given one of its entries that hide."""
        fixed = np.zeros((len(entries), len(self.levels)))
        uneven: list[int] = []
        for place, (user, entry) in enumerate(zip(users.tolist(), entries.tolist(), strict=True)):
            found = self._known(user, entry)
            if found is None:
                uneven.append(place)
            else:
                fixed[place] = found
        rows = [self._of(user) for user in users[uneven].tolist()]
        return Lacking(fixed, np.array(uneven, dtype=np.int64), entries[uneven], rows, self.flip_prob, self.levels)

    def worst(self, users: NDArray[np.integer], count: int) -> "Lacking":
        """Bounds for `count` rows, none below that of a user's row without any one entry: without its largest."""
        lacking = self.lacking(users, np.array([self.row(user).max(initial=0.0) for user in users.tolist()]))
        bounds = np.array([lacking.at(level).max(initial=0.0) for level in range(len(self.levels))])
        none = np.zeros(0)
        fixed = np.broadcast_to(bounds, (count, bounds.size))
        return Lacking(fixed, none.astype(np.int64), none, [], self.flip_prob, self.levels)

    def _known(self, user: int, entry: float) -> Floats | None:
        """All levels' bounds of a row whose other entries are equal, or of any if the largest are left out."""
        if self.without:
            hiding = np.sort(self.row(user))
            hiding = np.delete(hiding, np.searchsorted(hiding, entry))
            hiding = hiding[: max(0, hiding.size - self.without)]
            return self._cached(hiding.tobytes(), lambda: tail_bounds(hiding, self.flip_prob, self.levels))
        row = self._of(user)
        if row.size < 2:
            return np.ones(len(self.levels))
        least = row.least[1] if entry == row.least[0] else row.least[0]
        largest = row.largest[1] if entry == row.largest[0] else row.largest[0]
        if largest - least > 1e-12 * least:
            return None
        count = row.size - 1
        return self._cached((least, count), lambda: _even(least, count, self.flip_prob, self.levels))

    def _cached(self, key: tuple[float, int] | bytes, make: Callable[[], Floats]) -> Floats:
        if key not in self._found:
            self._found[key] = make()
        return self._found[key]

    def _of(self, user: int) -> _Row:
        if user not in self._rows:
            entries = np.sort(self.row(user))
            least, largest = tuple(entries[:2].tolist()), tuple(entries[::-1][:2].tolist())
            strengths = _STRENGTHS / entries[-1] if entries.size else _STRENGTHS
            even = entries.size < 2 or entries[-1] - entries[0] <= 1e-12 * entries[0]
            factors = None if even else _factors(entries, strengths, self.flip_prob)
            self._rows[user] = _Row(entries.size, least, largest, strengths, factors)
        return self._rows[user]


@dataclass(frozen=True, eq=False)
class Lacking:
    """Bounds for some rows, (F,) at each level; those of uneven rows are worked out when they are asked for.

    An uneven row's factors, those of the entry taken off, are off by at most 1e-12 times those of the whole row.
    """

    fixed: Floats
    uneven: NDArray[np.int64]
    entries: Floats
    rows: list[_Row]
    flip_prob: float
    levels: Floats

    def at(self, level: int) -> Floats:
        """Of each row, at a level given by its place."""
        bounds = self.fixed[:, level].copy()
        if self.uneven.size:
            strengths, rest = self._rest
            bounds[self.uneven] = _chernoff((self.levels[level] * strengths + rest).min(axis=1))
        return bounds

    @cached_property
    def _rest(self) -> tuple[Floats, Floats]:
        strengths = np.stack([row.strengths for row in self.rows])
        factors = np.stack([row.factors for row in self.rows if row.factors is not None])
        own = np.log1p(self.flip_prob * np.expm1(-strengths * self.entries[:, None]))
        return strengths, factors - own + 1e-12 * np.abs(factors)
