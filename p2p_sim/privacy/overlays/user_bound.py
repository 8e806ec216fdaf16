"""Bounds of one user's δ(ε): the three-point pairs of her label's fetchers at several levels τ, and other bounds.

At a level τ the three-point pairs bound the fetchers whose p_i lie in [τ, 1-τ-w] (see `fetch_distribution`). A
fetcher's p_i lies outside only if the weighted sum of the other noisy bits of her row, or the weighted sum of their
complements, is below τ. `Tails` bounds how likely this is.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy

from p2p_sim.privacy.binomial_windows import SUBNORMAL, Floats
from p2p_sim.privacy.overlays.overlay_table import Ints, remembered
from p2p_sim.privacy.overlays.symmetric_pairs import (
    SHARES,
    Divergence,
    LevelBound,
    Levels,
    Pair,
    amplified,
    amplified_delta,
    product,
)
from p2p_sim.privacy.randomized_response import cross, local_delta, outward

_STRENGTHS = 2.0 ** np.arange(-6.0, 8.0, 0.25)
"""Parameters that Chernoff's bound tries, times the largest weight."""
MOST_LINES = 128
"""Largest number of different weights of one target's fetchers that are kept apart."""
_GRID = 24
"""More than `MOST_LINES` different weights are rounded up to about twice this number of values."""
_FEW = 8
"""Largest number of levels that are combined first; then all levels are combined."""


def tail_bounds(weights: Floats, flip_prob: float, levels: Floats) -> Floats:
    """Upper bounds of Pr[Σ w_j Bernoulli(α) < level] at each level, (K,): how likely a user is to submit a 1 with a
    probability below the level.

    w_j is the probability that she fetches from user j, whose noisy label counts as Bernoulli(α); labels of 1 only make
    the sum larger. For equal w_j it is a binomial tail, else Chernoff's bound. SciPy's incomplete beta function was
    measured to be accurate to 5e-13, relative; 1e-11 is charged. As much is charged for Chernoff's bound, whose
    exponent is a sum of logarithms that is accurate to 1e-13, relative.

    Args:
        weights: w_j, sorted, positive; if there are none, the bounds are 1. flip_prob: α in (0, 1/2]. levels: (K,),
        positive.
    """
    if weights.size == 0:
        return np.ones(len(levels))
    if np.ptp(weights) <= 1e-12 * weights[0]:
        return _even(float(weights[0]), weights.size, flip_prob, levels)
    strengths = _STRENGTHS / weights[-1]
    exponents = np.outer(levels, strengths) + _factors(weights, strengths, flip_prob)
    return _chernoff(exponents.min(axis=1))


def _even(weight: float, count: int, flip_prob: float, levels: Floats) -> Floats:
    """Upper bounds of Pr[w · Bin(count, α) < level] at each level, (K,), w = `weight`.

    It is how likely a user, who fetches from each of `count` others with probability w, is to submit a 1 with a
    probability below the level, where their noisy labels are 1 with probability α.
    """
    fewer = np.ceil(levels / weight * (1.0 + 1e-12))
    inside = np.minimum(fewer, count)
    # 1 - I_α, not I_(1-α): the rounding of 1-α may be large beside α
    exact = scipy.special.betaincc(inside, count - inside + 1.0, flip_prob) * (1.0 + 1e-11)
    return np.where(fewer > count, 1.0, exact + SUBNORMAL)


def _factors(weights: Floats, strengths: Floats, flip_prob: float) -> Floats:
    """Σ_j ln E exp(-s · w_j · Bernoulli(α)) over all weights w_j, for each of S positive parameters s in `strengths`,
    (S,).

    It is the logarithm of the moment generating function in Chernoff's bound of Pr[Σ_j w_j Bernoulli(α) < level]; the
    bound tries all these s.
    """
    values, counts = np.unique(weights, return_counts=True)
    return np.asarray(np.log1p(flip_prob * np.expm1(-np.outer(strengths, values))) @ counts)


def _chernoff(exponents: Floats) -> Floats:
    """e^exponent, at most 1 and rounded up, for each exponent."""
    return np.asarray(np.exp(np.minimum(0.0, exponents * (1.0 - 1e-12))) * (1.0 + 1e-11) + SUBNORMAL)


@dataclass(frozen=True, eq=False)
class Tails:
    """Bounds of the probability that a user's p_i is below a level, for rows of a table, each without one entry.

    p_i is the sum of the entries of row i for users, other than the target, whose noisy bit is 1.

    Args:
        row: returns the entries of a user's row for users with hidden bits, in any order.
        flip_prob: α in (0, 1/2]. levels: (K,), positive.
        without: how many of the largest remaining entries are left out as well, since their bits may be known.
    """

    row: Callable[[int], Floats]
    flip_prob: float
    levels: Floats
    without: int = 0

    def lacking(self, users: Ints, entries: Floats) -> Floats:
        """Bounds of the probability that the submission of user i is a 1 with a probability p_i below a level, (F, K),
        for F users and K levels.

        p_i is the sum of i's fetch probabilities for the users besides the target whose noisy label is 1. The target's
        noisy label is left out of i's row.

        Args:
            users: (F,), the users i. entries: (F,), the probability that i fetches from the target, which must be
            an entry of her row for a hidden noisy label.
        """
        bounds = np.zeros((len(entries), len(self.levels)))
        uneven: list[int] = []
        for index, (user, entry) in enumerate(zip(users.tolist(), entries.tolist(), strict=True)):
            even = self._even_bounds(user, entry)
            if even is None:
                uneven.append(index)
            else:
                bounds[index] = even
        if uneven:
            # The row's factors minus those of the entry; off by at most 1e-12 times the row's factors.
            strengths, factors = np.stack([self._moments(user) for user in users[uneven].tolist()], axis=1)
            own = np.log1p(self.flip_prob * np.expm1(-strengths * entries[uneven][:, None]))
            factors = factors - own + 1e-12 * np.abs(factors)
            for index, level in enumerate(self.levels):
                bounds[uneven, index] = _chernoff((level * strengths + factors).min(axis=1))
        return bounds

    def worst(self, users: Ints, count: int) -> Floats:
        """Bounds of the probability that a user's probability of submitting a 1 is below each of K levels, as (count,
        K) with equal rows.

        They hold for each of the users, and whichever entry of her row, the target's, is left out.

        Args:
            users: the users. count: how many copies of the bounds are returned.
        """
        bounds = self.lacking(users, np.array([self.row(user).max(initial=0.0) for user in users.tolist()]))
        return np.broadcast_to(bounds.max(axis=0, initial=0.0), (count, len(self.levels)))

    def _even_bounds(self, user: int, entry: float) -> Floats | None:
        """Bounds, (K,), of the probability that a user's probability of submitting a 1 is below each level, with one
        entry of her fetch probabilities left out.

        Args:
            entry: the entry for the target. As many of the largest others as `without` says are left out as well.

        Returns:
            None if `without` is 0 and the other entries differ: then these bounds, for equal entries, do not apply.
        """
        if self.without:
            hiding = self._hiding(user)
            hiding = np.delete(hiding, np.searchsorted(hiding, entry))
            return self._bounds_of(hiding[: max(0, hiding.size - self.without)].tobytes())
        size, ends = self._ends(user)
        if size < 2:
            return np.ones(len(self.levels))
        least = ends[1] if entry == ends[0] else ends[0]
        largest = ends[-2] if entry == ends[-1] else ends[-1]
        return None if largest - least > 1e-12 * least else self._bounds_of_equal(least, size - 1)

    @remembered
    def _bounds_of(self, weights: bytes) -> Floats:
        """`tail_bounds` of sorted weights, given by the bytes of their array."""
        return tail_bounds(np.frombuffer(weights), self.flip_prob, self.levels)

    @remembered
    def _bounds_of_equal(self, weight: float, count: int) -> Floats:
        """`tail_bounds` of `count` equal weights."""
        return _even(weight, count, self.flip_prob, self.levels)

    def _hiding(self, user: int) -> Floats:
        """The entries of a user's row for users with hidden bits, ascending."""
        return np.sort(self.row(user))

    @remembered
    def _ends(self, user: int) -> tuple[int, list[float]]:
        """How many entries of a user's row are for hidden bits, and the two least and the two largest, ascending."""
        hiding = self._hiding(user)
        return hiding.size, [*hiding[:2].tolist(), *hiding[-2:].tolist()]

    @remembered
    def _moments(self, user: int) -> Floats:
        """(2, S): the S positive parameters that Chernoff's bound tries for a user's row of fetch probabilities, and
        the row's logarithm of the moment generating function at each (`_factors`).
        """
        hiding = self._hiding(user)
        strengths = _STRENGTHS / hiding[-1]
        return np.stack([strengths, _factors(hiding, strengths, self.flip_prob)])


@dataclass(frozen=True, eq=False)
class TargetLevels:
    """The bounds of `Levels` for one target, each level computed when it is first needed.

    Her fetchers come in groups. The users of a group have equal rows, so that all or none of them are stray. A larger
    weight gives a pair with a larger curve, so weights may be rounded up.

    Args:
        weights, rates, counts: (G,), each group's w, its users' rate, and how many users it has.
        flip_prob: α in [0, 1/2].
        tails: (G, K), at each level of `SHARES` the bound of `Tails` for the groups' rows without the target; None if α
            is below `LEAST_FLIP`.
        copies: (G,), how many such groups there are, each with a row of its own.
    """

    weights: Floats
    rates: Floats
    counts: Floats
    flip_prob: float
    tails: Floats | None
    copies: Floats

    def __post_init__(self) -> None:
        if np.unique(self.weights).size > MOST_LINES:
            ends = (float(self.weights.min()), float(self.weights.max()))
            grid = np.union1d(np.geomspace(*ends, _GRID), np.quantile(self.weights, np.linspace(0.0, 1.0, _GRID)))
            above = np.minimum(np.searchsorted(grid, self.weights), grid.size - 1)
            object.__setattr__(self, "weights", np.maximum(grid[above], self.weights))

    @cached_property
    def _exposures(self) -> Floats:
        """For each of G groups of users with equal rows of fetch probabilities, the probability that some user of the
        group submits the target's noisy label, (G,); rounded up.
        """
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
        """The bound of what is seen of the target's noisy label that combines some levels; no less than that of all
        levels.

        A level is a threshold τ. Fetchers whose probability of submitting a 1 is not between τ and 1-τ-w count as
        showing the target's noisy label if they fetched it, w the probability that they do.

        Args:
            levels: indices in `SHARES`, the levels as shares of α.
        """
        return Levels(self._exposure, tuple(bound for level in levels if (bound := self._level(level)) is not None))

    def best(self, ratio: float) -> tuple[int, ...]:
        """Indices in `SHARES` of up to 8 levels that together bound the divergence HS_ratio nearly as well as all,
        chosen greedily.

        A level is a threshold, a share of α, for a fetcher's probability of submitting a 1; each gives a bound of what
        is seen of the target's noisy label. It is empty if no level gives one.
        """
        chosen: tuple[int, ...] = ()
        within = {k: bound.law.divergence(ratio) for k in range(len(SHARES)) if (bound := self._level(k))}
        rest = set(within)
        while rest and len(chosen) < _FEW:
            longer = [(*chosen, level) for level in sorted(rest)]
            chosen = min(longer, key=lambda levels: self.some(levels).combined(np.array([within[k] for k in levels])))
            rest.remove(chosen[-1])
        return chosen

    @remembered
    def _level(self, level: int) -> LevelBound | None:
        """The bound of what is seen of the target's noisy label at one level τ, which is `SHARES[level]` times α; None
        if it would be little better than the probability that anybody submits the label, or if there are no bounds of
        tails.

        Fetchers whose probability of submitting a 1 may not be in [τ, 1-τ-w] are stray, w the probability that they
        fetch from the target: they count as showing her noisy label if they submit it. All others show at most three
        outcomes each, with probabilities (τ, 1-2τ-w, τ+w) or in reverse order.
        """
        if self.tails is None:
            return None
        # A group strays if its p_i < τ or p_i + w > 1-τ; it always strays where [τ, 1-τ-w] is empty.
        threshold, weights, copies = SHARES[level] * self.flip_prob, self.weights, self.copies
        chance = np.minimum(1.0, 2.0 * self.tails[:, level])
        chance[2.0 * threshold + weights >= 1.0] = 1.0
        bounded = chance < 1.0
        # Users of stray groups show the target's bit if they submit it.
        always = any_of(self._exposures[~bounded], copies[~bounded])
        stray = float((copies * chance)[bounded].sum()) * (1.0 + 1e-12)
        leak = always + float((copies * (self._exposures * chance))[bounded].sum()) * (1.0 + 1e-12)
        if not bounded.any() or (leak >= 0.25 * self._exposure and stray >= 1.0) or always >= self._exposure:
            return None
        # The others' three-point pairs, by weight and rate.
        lines, at = np.unique(np.stack([weights, self.rates], axis=1)[bounded], axis=0, return_inverse=True)
        users = np.bincount(at.ravel(), weights=(self.counts * copies)[bounded])
        pairs = [
            Pair.three_point(threshold, weight, rate, int(count))
            for (weight, rate), count in zip(lines.tolist(), users, strict=True)
        ]
        return LevelBound(leak, always, stray, product(pairs))


def any_of(chances: Floats, copies: Floats, draws: int = 1) -> float:
    """Probability that at least one of several independent events happens, rounded up.

    Args:
        chances: (E,), the probability of each event. copies: (E,), how many events have this probability.
        draws: independent trials of each event.
    """
    with np.errstate(divide="ignore"):
        none = draws * float((copies * np.log1p(-np.minimum(chances, 1.0))).sum())  # logarithm of the probability
    return min(1.0, -math.expm1(none) * (1.0 + 1e-12))


@dataclass(frozen=True, eq=False)
class UserBound:
    """The bounds of one user's δ(ε).

    Args:
        flip_prob: α in [0, 1/2].
        met: probability that a member fetched her bit, or 1 if the bit is known: then only the local noise protects.
        ways: functions that each build a bound for the other case, called when first needed; the least bound counts.
        levels: the levels that the last way combines, and of which the first way combines a few.
        precision: largest relative error of ε, which is rounded up.
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
        """Indices in `SHARES` of a few levels τ that together nearly give the least δ(ε); empty if another kind of
        bound is better, or if there are no levels.

        A level τ, a share of α, is a threshold for a fetcher's probability of submitting a 1; each level gives a bound
        of what is seen of the user's noisy label.
        """
        if self.levels is None:
            return ()
        last = amplified_delta(self._built[-1], self.flip_prob, epsilon)
        others = [amplified_delta(its, self.flip_prob, epsilon, last) for its in self._built[1:-1]]
        if min(others, default=last if len(self._built) > 1 else 0.0) < last:
            return ()
        _, ratio = amplified(self.flip_prob, epsilon)
        return self.levels.best(ratio)

    def _bounds(self, epsilon: float, delta: float | None = None) -> Iterator[float]:
        """Yield upper bounds of δ(ε), of which the least counts: that of the noise on her label alone, then one for
        each of `ways`.

        The latter average over whether a coalition member fetched the noisy label.

        Args:
            delta: a δ with which the bounds will be compared; a bound may then be larger, but is on the same side
            of it. None: the bounds themselves.
        """
        direct = local_delta(self.flip_prob, epsilon).upper
        yield direct
        limit = None if delta is None else (delta - self.met * direct) / max(1.0 - self.met, SUBNORMAL)
        for number, way in enumerate(self.ways):
            if number == len(self._built):
                self._built.append(way())
            rest = amplified_delta(self._built[number], self.flip_prob, epsilon, limit)
            both = outward(0.0, (self.met * direct + (1.0 - self.met) * rest) * (1.0 + 1e-12)).upper
            yield both if self.met > 0.0 or rest > 0.0 else 0.0
