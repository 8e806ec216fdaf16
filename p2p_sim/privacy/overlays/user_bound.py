"""What bounds one user's δ(ε): three-point pairs of her label's fetchers at several levels τ, and other ways.

At a level τ the three-point pairs bound the fetchers whose p_i lie in [τ, 1-τ-w] (see `fetch_distribution`). p_i lies
outside only if the other noisy bits of her row sum to less than τ, or their complements do: `Tails` bounds how likely
that is.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import SUBNORMAL, Floats
from p2p_sim.privacy.overlays.symmetric_pairs import (
    SHARES,
    Divergence,
    Levels,
    Pair,
    SymmetricLosses,
    amplified,
    amplified_delta,
    product,
)
from p2p_sim.privacy.randomized_response import cross, local_delta, outward

_STRENGTHS = 2.0 ** np.arange(-6.0, 8.0, 0.25)
"""Parameters that Chernoff's bound tries, times the largest weight."""
MOST_LINES = 128
"""Most different weights of one target's fetchers that are kept apart."""
_GRID = 24
"""Of more, weights are rounded up to about twice as many."""
_FEW = 8
"""Levels that are tried before all others."""


def tail_bounds(weights: Floats, flip_prob: float, levels: Floats) -> Floats:
    """Upper bounds of Pr[Σ w_j Bernoulli(α) < level] at each level, (K,); labels of 1 only make the sum larger.

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
    """The bounds of `tail_bounds` for `count` equal weights w: Pr[fewer than level/w ones]."""
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
    """What is remembered of a user's row: how many entries hide somebody, and the two least and two largest of them."""

    size: int
    least: tuple[float, ...]
    largest: tuple[float, ...]
    strengths: Floats
    factors: Floats | None


@dataclass(frozen=True, eq=False)
class Tails:
    """Bounds of the probability that a user's p_i is below a level, for rows of a table, each without one of its
    entries.

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
    _bounds: dict[tuple[float, int] | bytes, Floats] = field(default_factory=dict, init=False)

    def lacking(self, users: NDArray[np.integer], entries: Floats) -> "Lacking":
        """Bounds for some users' rows, each without one hiding entry, which is given by its value."""
        fixed = np.zeros((len(entries), len(self.levels)))
        uneven: list[int] = []
        for index, (user, entry) in enumerate(zip(users.tolist(), entries.tolist(), strict=True)):
            bounds = self._even_bounds(user, entry)
            if bounds is None:
                uneven.append(index)
            else:
                fixed[index] = bounds
        rows = [self._of(user) for user in users[uneven].tolist()]
        uneven_users = np.array(uneven, dtype=np.int64)
        return Lacking(fixed, uneven_users, entries[uneven], rows=rows, flip_prob=self.flip_prob, levels=self.levels)

    def worst(self, users: NDArray[np.integer], count: int) -> "Lacking":
        """Bounds for `count` rows that hold for any of these users' rows, whichever entry is left out: without the
        largest.
        """
        lacking = self.lacking(users, np.array([self.row(user).max(initial=0.0) for user in users.tolist()]))
        bounds = np.array([lacking.at(level).max(initial=0.0) for level in range(len(self.levels))])
        none = np.zeros(0)
        fixed = np.broadcast_to(bounds, (count, bounds.size))
        return Lacking(fixed, none.astype(np.int64), none, rows=[], flip_prob=self.flip_prob, levels=self.levels)

    def _even_bounds(self, user: int, entry: float) -> Floats | None:
        """The bounds at all levels of a row whose other entries are equal, or without the largest; else None."""
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
        if key not in self._bounds:
            self._bounds[key] = make()
        return self._bounds[key]

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
    """Bounds for some rows, (F,) at each level; those of rows with different entries are computed when first needed.

    Such a row's factors, those of the entry taken off, are off by at most 1e-12 times those of the whole row.
    """

    fixed: Floats
    uneven: NDArray[np.int64]
    entries: Floats
    rows: list[_Row]
    flip_prob: float
    levels: Floats

    def at(self, level: int) -> Floats:
        """The bounds of all rows, (F,), at one level, given by its index."""
        bounds = self.fixed[:, level].copy()
        if self.uneven.size:
            bounds[self.uneven] = _chernoff((self.levels[level] * self._strengths + self._factors).min(axis=1))
        return bounds

    @cached_property
    def _strengths(self) -> Floats:
        """The exponents that Chernoff's bound tries, a line for each row with different entries."""
        return np.stack([row.strengths for row in self.rows])

    @cached_property
    def _factors(self) -> Floats:
        """Logarithms of moment generating functions of those rows without the one entry; rounded up, a line each."""
        factors = np.stack([row.factors for row in self.rows if row.factors is not None])
        own = np.log1p(self.flip_prob * np.expm1(-self._strengths * self.entries[:, None]))
        return factors - own + 1e-12 * np.abs(factors)


class LevelBound(NamedTuple):
    """At one level τ, as in `Levels`: what leaks, what always leaks, the chance that anybody strays, the loss law."""

    leak: float
    always: float
    stray: float
    law: SymmetricLosses


@dataclass(frozen=True, eq=False)
class TargetLevels:
    """The bounds of `Levels` for one target, each level worked out when it is first needed.

    Her fetchers are given in groups, whose users have one and the same row, and stray together. A larger weight gives a
    pair with a larger curve, so weights may be rounded up.

    Args:
        weights, rates, counts: (G,) of each group: w, the rate, and how many users. flip_prob: α in [0, 1/2].
        tails: bounds for the groups' rows without the target; None if there is no group, or α is below `LEAST_FLIP`.
        copies: (G,) how many such groups there are, each with a row of its own.
    """

    weights: Floats
    rates: Floats
    counts: Floats
    flip_prob: float
    tails: Lacking | None
    copies: Floats
    _bounds: dict[int, LevelBound | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if np.unique(self.weights).size > MOST_LINES:
            ends = (float(self.weights.min()), float(self.weights.max()))
            grid = np.union1d(np.geomspace(*ends, _GRID), np.quantile(self.weights, np.linspace(0.0, 1.0, _GRID)))
            above = np.minimum(np.searchsorted(grid, self.weights), grid.size - 1)
            object.__setattr__(self, "weights", np.maximum(grid[above], self.weights))

    @cached_property
    def _exposures(self) -> Floats:
        """Probability that some user of a group submits the target's bit."""
        with np.errstate(divide="ignore"):
            unseen = self.counts * np.log1p(-self.rates * np.minimum(self.weights, 1.0))
        return np.asarray(-np.expm1(unseen) * (1.0 + 1e-15) + SUBNORMAL)

    @cached_property
    def _exposure(self) -> float:
        return any_of(self._exposures, self.copies)

    def all(self) -> Levels:
        """The bound that combines all levels."""
        return self.some(range(len(SHARES)))

    def some(self, levels: Sequence[int]) -> Levels:
        """A bound from some levels alone, by their indices; it is nowhere below that of all."""
        bounds = [bound for level in levels if (bound := self._level(level)) is not None]
        leaks, always, strays, laws = zip(*bounds, strict=True) if bounds else ((), (), (), ())
        return Levels(self._exposure, leaks, always, strays, laws)

    def best(self, ratio: float) -> tuple[int, ...]:
        """A few levels that together bound HS_ratio nearly as well as all: chosen one after another."""
        chosen: tuple[int, ...] = ()
        bounds = {level: self._level(level) for level in range(len(SHARES))}
        within = {level: bound.law.divergence(ratio) for level, bound in bounds.items() if bound}
        rest = set(within)
        while rest and len(chosen) < _FEW:
            longer = [(*chosen, level) for level in sorted(rest)]
            chosen = min(longer, key=lambda levels: self.some(levels).combined(np.array([within[k] for k in levels])))
            rest.remove(chosen[-1])
        return chosen

    def _level(self, level: int) -> LevelBound | None:
        """The bound at one level, by its index; None if it would be little better than the exposure."""
        if level not in self._bounds:
            self._bounds[level] = self._make(level)
        return self._bounds[level]

    def _make(self, level: int) -> LevelBound | None:
        if self.tails is None:
            return None
        # A group strays if its p_i < τ or p_i + w > 1-τ; in groups without room for it, always.
        threshold, weights, copies = SHARES[level] * self.flip_prob, self.weights, self.copies
        chance = np.minimum(1.0, 2.0 * self.tails.at(level))
        chance[2.0 * threshold + weights >= 1.0] = 1.0
        bounded = chance < 1.0
        # Stray groups show the target's bit if they submit it.
        always = any_of(self._exposures[~bounded], copies[~bounded])
        stray = float((copies * chance)[bounded].sum()) * (1.0 + 1e-12)
        leak = always + float((copies * (self._exposures * chance))[bounded].sum()) * (1.0 + 1e-12)
        if not bounded.any() or (leak >= 0.25 * self._exposure and stray >= 1.0) or always >= self._exposure:
            return None
        # The others' three-point pairs, by weight and rate.
        lines, at = np.unique(np.stack([weights, self.rates], axis=1)[bounded], axis=0, return_inverse=True)
        users = np.bincount(at.ravel(), weights=(self.counts * copies)[bounded])
        each = zip(lines.tolist(), users, strict=True)
        pairs = [Pair.three_point(threshold, weight, rate, int(count)) for (weight, rate), count in each]
        return LevelBound(leak, always, stray, product(pairs))


def any_of(chances: Floats, copies: Floats) -> float:
    """Probability that one of several independent events happens, rounded up; there are `copies` of each."""
    with np.errstate(divide="ignore"):
        return min(1.0, -math.expm1(float((copies * np.log1p(-np.minimum(chances, 1.0))).sum())) * (1.0 + 1e-12))


@dataclass(frozen=True, eq=False)
class UserBound:
    """What bounds one user's δ(ε).

    With probability `met` a member fetched her bit, or everybody knows it: then only the local noise is left. Otherwise
    the least of the bounds counts that `ways` build, each when it is first needed. levels: those of the last way, and
    of the first, which holds a few of them. precision: relative, of ε, from above.
    """

    flip_prob: float
    met: float
    ways: tuple[Callable[[], Divergence], ...]
    levels: TargetLevels | None = None
    precision: float = 1e-6
    _built: list[Divergence] = field(default_factory=list, init=False, repr=False)

    def delta(self, epsilon: float) -> float:
        """Certified upper bound on δ(ε)."""
        return min(self._bounds(epsilon))

    def holds(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) is certified."""
        return any(bound <= delta for bound in self._bounds(epsilon, delta))

    def epsilon(self, delta: float) -> float:
        """Certified ε(δ), at most ε₀."""
        return cross(lambda epsilon: not self.holds(epsilon, delta), self.flip_prob, precision=self.precision)[1]

    def best_levels(self, epsilon: float) -> tuple[int, ...]:
        """Indices of a few levels τ that together nearly give the least δ(ε); none where another bound is better."""
        if self.levels is None:
            return ()
        last = amplified_delta(self._built[-1], self.flip_prob, epsilon)
        others = [amplified_delta(its, self.flip_prob, epsilon, last) for its in self._built[1:-1]]
        if min(others, default=last if len(self._built) > 1 else 0.0) < last:
            return ()
        return self.levels.best(amplified(self.flip_prob, epsilon).ratio)

    def _bounds(self, epsilon: float, delta: float | None = None) -> Iterator[float]:
        """Bounds of δ(ε), one after another; if `delta` is given, a bound need only be on the right side of it."""
        direct = local_delta(self.flip_prob, epsilon).upper
        yield direct
        limit = None if delta is None else (delta - self.met * direct) / max(1.0 - self.met, SUBNORMAL)
        for number, way in enumerate(self.ways):
            if number == len(self._built):
                self._built.append(way())
            rest = amplified_delta(self._built[number], self.flip_prob, epsilon, limit)
            both = outward(0.0, (self.met * direct + (1.0 - self.met) * rest) * (1.0 + 1e-12)).upper
            yield both if self.met > 0.0 or rest > 0.0 else 0.0
