"""Bounds of one user's δ(ε). Some come from three-point pairs (see `Pair.three_point`) at several thresholds τ.

A fetcher is a user who may fetch the target's label. Her weight w is the probability that she does. p_i is the
probability that fetcher i submits a 1 if the target's noisy label is 0. Three-point pairs at a threshold τ, called a
level, bound what fetchers with p_i in [τ, 1-τ-w] show (see `fetch_distribution`). p_i depends on the noisy labels of
users other than the target. It is outside this interval only if one of two sums is below τ. One sum is over i's fetch
probabilities for such users with noisy label 1, the other for those with noisy label 0. `Tails` bounds how likely this
is.
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
"""Values of Chernoff's parameter that are tried. Each is divided by the largest weight (fetch probability)."""
MOST_LINES = 128
"""Largest number of different weights of one target's fetchers that are used unrounded."""
_GRID = 24
"""If there are more than `MOST_LINES` different weights, they are rounded up to about twice this number of values."""
_FEW = 8
"""Largest number of levels that are combined at first. If they are not enough, all levels are combined."""


def tail_bounds(weights: Floats, flip_prob: float, levels: Floats) -> Floats:
    """Upper bounds of Pr[Σ w_j Bernoulli(α) < level] at each level, (K,).

    They bound how likely it is that a user's probability of submitting a 1 is below the level. w_j is the probability
    that she fetches from user j. Each noisy label counts as Bernoulli(α), because users with label 1 only make the sum
    larger.

    For equal w_j the bound is a binomial tail, otherwise Chernoff's bound. Both are enlarged by 1e-11. The measured
    relative error of SciPy's incomplete beta function is up to 5e-13. The exponent of Chernoff's bound is a sum of
    logarithms with a relative error of 1e-13.

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
    """Upper bounds of Pr[w · Bin(count, α) < level] at each level, (K,), with w = `weight`.

    This is `tail_bounds` for a user who fetches from each of `count` others with probability w.
    """
    fewer = np.ceil(levels / weight * (1.0 + 1e-12))
    inside = np.minimum(fewer, count)
    # 1 - I_α, not I_(1-α): the rounding error of 1-α may be large relative to α
    exact = scipy.special.betaincc(inside, count - inside + 1.0, flip_prob) * (1.0 + 1e-11)
    return np.where(fewer > count, 1.0, exact + SUBNORMAL)


def _factors(weights: Floats, strengths: Floats, flip_prob: float) -> Floats:
    """Σ_j ln E exp(-s · w_j · Bernoulli(α)) over all weights w_j, for each of S parameters s > 0 in `strengths`, (S,).

    Chernoff's bound of Pr[Σ_j w_j Bernoulli(α) < level] needs this logarithm of a moment generating function.
    """
    values, counts = np.unique(weights, return_counts=True)
    return np.asarray(np.log1p(flip_prob * np.expm1(-np.outer(strengths, values))) @ counts)


def _chernoff(exponents: Floats) -> Floats:
    """e^exponent, at most 1 and rounded up, for each exponent."""
    return np.asarray(np.exp(np.minimum(0.0, exponents * (1.0 - 1e-12))) * (1.0 + 1e-11) + SUBNORMAL)


@dataclass(frozen=True, eq=False)
class Tails:
    """Bounds of the probability that p_i is below a level, for users i.

    p_i is the sum of i's fetch probabilities for users, other than the target, whose noisy label is 1.

    Args:
        row: a function that returns a user's fetch probabilities for users whose noisy labels the learner does not
        know, in any order.
        flip_prob: α in (0, 1/2]. levels: (K,), positive.
        without: how many of the largest fetch probabilities are left out, besides the one for the target. The learner
            may know these users' noisy labels.
    """

    row: Callable[[int], Floats]
    flip_prob: float
    levels: Floats
    without: int = 0

    def lacking(self, users: Ints, entries: Floats) -> Floats:
        """Bounds of the probability that p_i is below each of the K levels, (F, K), for F users i.

        p_i is the sum of i's fetch probabilities for users, other than the target, with noisy label 1.

        Args:
            users: (F,), the users i. entries: (F,), each user's fetch probability for the target, an entry of her
            `row`.
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
            # Sums over all fetch probabilities of a user, minus the target's term. The error is at most 1e-12 times
            # these sums.
            strengths, factors = np.stack([self._moments(user) for user in users[uneven].tolist()], axis=1)
            own = np.log1p(self.flip_prob * np.expm1(-strengths * entries[uneven][:, None]))
            factors = factors - own + 1e-12 * np.abs(factors)
            for index, level in enumerate(self.levels):
                bounds[uneven, index] = _chernoff((level * strengths + factors).min(axis=1))
        return bounds

    def worst(self, users: Ints, count: int) -> Floats:
        """For each of the K levels, one upper bound of the probability that p_i is below the level.

        The bound holds for each of the users i, whoever the target is. p_i is the sum of i's fetch probabilities for
        users, other than the target, with noisy label 1. The bound leaves out i's largest fetch probability, which may
        be the one for the target. The result for a level is the largest such bound of any of the users.

        Args:
            users: the users i, by number. count: how often the K bounds are repeated.

        Returns:
            (count, K): `count` equal rows, each with the K bounds.
        """
        bounds = self.lacking(users, np.array([self.row(user).max(initial=0.0) for user in users.tolist()]))
        return np.broadcast_to(bounds.max(axis=0, initial=0.0), (count, len(self.levels)))

    def _even_bounds(self, user: int, entry: float) -> Floats | None:
        """The bounds of `lacking` for one user at each of the K levels, (K,), if a quick way is known.

        Args:
            user: her number. entry: her fetch probability for the target, which is left out.

        Returns:
            None if her other fetch probabilities differ, and none of the largest is left out (`without` is 0).
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
        """The bounds of `tail_bounds` at the K levels, (K,), stored for equal arguments.

        Args:
            weights: the bytes of the sorted float64 array of fetch probabilities. Unlike arrays, bytes can be looked up
            among the stored results.
        """
        return tail_bounds(np.frombuffer(weights), self.flip_prob, self.levels)

    @remembered
    def _bounds_of_equal(self, weight: float, count: int) -> Floats:
        """The bounds of `_even` at the K levels, (K,), stored for equal arguments."""
        return _even(weight, count, self.flip_prob, self.levels)

    def _hiding(self, user: int) -> Floats:
        """A user's fetch probabilities for users whose noisy labels the learner does not know, ascending."""
        return np.sort(self.row(user))

    @remembered
    def _ends(self, user: int) -> tuple[int, list[float]]:
        """How many entries a user's `row` has, and a list: the two smallest, ascending, then the two largest,
        ascending.

        The two pairs may overlap. They tell quickly whether all entries but a given one are equal.
        """
        hiding = self._hiding(user)
        return hiding.size, [*hiding[:2].tolist(), *hiding[-2:].tolist()]

    @remembered
    def _moments(self, user: int) -> Floats:
        """What Chernoff's bound needs for a user's row, (2, S): the S parameters s that it tries, and `_factors` for
        each s.
        """
        hiding = self._hiding(user)
        strengths = _STRENGTHS / hiding[-1]
        return np.stack([strengths, _factors(hiding, strengths, self.flip_prob)])


@dataclass(frozen=True, eq=False)
class TargetLevels:
    """The bounds of `Levels` for one target. Each level is computed when it is first needed.

    Her fetchers come in groups. The users of a group have equal rows of fetch probabilities, so all or none of them are
    stray (see `_level`). Weights may be rounded up, because a larger weight gives a pair with larger divergences.

    Args:
        weights, rates, counts: (G,), for each group the weight w and the rate of each user, and the number of users.
            The rate is the probability that her submission arrives.
        flip_prob: α in [0, 1/2].
        tails: (G, K), the bound of `Tails` for each group's row without the target, at each level of `SHARES`. None if
            α is below `LEAST_FLIP`.
        copies: (G,), how many groups like this one there are, each with a row of its own.
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
        """For each of G groups of users who may ask the target: the probability, rounded up, that at least one submits
        the target's noisy label.
        """
        with np.errstate(divide="ignore"):
            unseen = self.counts * np.log1p(-self.rates * np.minimum(self.weights, 1.0))
        return np.asarray(-np.expm1(unseen) * (1.0 + 1e-15) + SUBNORMAL)

    @cached_property
    def _exposure(self) -> float:
        return any_of(self._exposures, self.copies)

    def all(self) -> Levels:
        """The bound, from all levels together, of what is seen of the target's noisy label."""
        return self.some(range(len(SHARES)))

    def some(self, levels: Sequence[int]) -> Levels:
        """The bound, from some levels together, of what is seen of the target's noisy label.

        It is never less than the bound from all levels.

        Args:
            levels: indices of the levels in `SHARES`, a list of shares τ/α.
        """
        return Levels(self._exposure, tuple(bound for level in levels if (bound := self._level(level)) is not None))

    def best(self, ratio: float) -> tuple[int, ...]:
        """Up to 8 levels that together bound the divergence HS_ratio nearly as well as all levels, chosen greedily.

        Returns:
            The indices of the levels in `SHARES`, a list of shares τ/α. The result is empty if no level gives a bound.
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
        """The bound of what is seen of the target's noisy label that follows from one level τ, with index `level` in
        `SHARES`.

        Fetcher i's submission is 1 with probability p_i if the target's noisy label is 0. w is her probability of
        asking the target. She is stray if p_i lies outside [τ, 1-τ-w]. Stray fetchers count as showing the target's
        noisy label if they submit it. All other fetchers show no more than the three-point pair. The result is None if
        the bound would be little better than the probability that anybody submits the label, or if `tails` is None.
        """
        if self.tails is None:
            return None
        # A group is stray if its p_i < τ or p_i + w > 1-τ. It always counts as stray if [τ, 1-τ-w] is empty.
        threshold, weights, copies = SHARES[level] * self.flip_prob, self.weights, self.copies
        chance = np.minimum(1.0, 2.0 * self.tails[:, level])
        chance[2.0 * threshold + weights >= 1.0] = 1.0
        bounded = chance < 1.0
        # Users of stray groups show the target's label if they submit it.
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
    """The probability that at least one of several independent events happens, rounded up.

    Args:
        chances: (E,), probabilities of events. copies: (E,), how many events have each probability.
        draws: how many independent trials each event has.
    """
    with np.errstate(divide="ignore"):
        none = draws * float((copies * np.log1p(-np.minimum(chances, 1.0))).sum())  # logarithm of the probability
    return min(1.0, -math.expm1(none) * (1.0 + 1e-12))


@dataclass(frozen=True, eq=False)
class UserBound:
    """The bounds of one user's δ(ε).

    Args:
        flip_prob: α in [0, 1/2].
        met: probability that a coalition member fetched her noisy label. It is 1 if the label is known or counts as
            known. If a member fetched the label, only its noise protects the user.
        ways: functions that each build a bound for the case that no member fetched her label. Each is called when first
            needed. The least bound counts.
        levels: the bounds at the thresholds τ that the last way combines. If there are several ways, the first one may
            combine only a few of these bounds.
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
        """Whether the pair (ε, δ) is certified."""
        return any(bound <= delta for bound in self._bounds(epsilon, delta))

    def epsilon(self, delta: float) -> float:
        """Certified ε(δ), at most ε₀, the ε of the noise on a label alone."""
        return cross(lambda epsilon: not self.holds(epsilon, delta), self.flip_prob, precision=self.precision)[1]

    def best_levels(self, epsilon: float) -> tuple[int, ...]:
        """A few levels τ that together nearly give the bound of δ(ε) from all levels.

        If there are levels, at least one bound must have been built before; `delta` builds all bounds.

        Returns:
            The indices of the levels in `SHARES`, a list of shares τ/α. The result is empty if there are no levels, or
            if the only bound that was built is positive. It is also empty if a bound between the first and the last is
            smaller than the last.
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
        """Yield 1 + len(`ways`) upper bounds of δ(ε). The least bound counts.

        The first bound takes only the noise on her label into account. Then each function in `ways` gives a bound of
        what the submissions show. It is averaged over two cases: a coalition member fetched the noisy label, or no
        member did. In the first case only the label's noise protects her.

        Args:
            delta: a δ with which the bounds will be compared. A yielded value may then be larger than the bound, but
            exceeds `delta` only if the bound does. None: the bounds themselves.
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
