"""A lower end for one target of any fetch distribution: what one data set and one event of the learner's view attain.

All others hold label 0. Some submitters are looked at, and k of them submit a one. Forgetting the rest is
post-processing, so for any event {k >= s} or {k <= s} with probability A if the target's noisy bit is 0, B if it is 1,

    δ(ε) >= keep · B - lose · A        or        δ(ε) >= keep · A - lose · B,

keep = 1-α-αe^ε, lose = e^ε(1-α)-α. Given the others' bits b, user i submits a one with probability rate_i p_i or
rate_i (p_i + w_i), independently, so that A(b) and B(b) are exact sums. The mean over b is estimated.

*Reference.* Let C_j = Σ_i rate_i W_ij and y = Σ_j n_j b_j, where n_j is C_j in units h, rounded. In a similar world F,
the worth keep·B(b) - lose·A(b), depends on y alone: F0(y), by binomial laws of mean p. The law of y is a convolution,
so E F0 is computed, and only F - F0 is estimated, which is small.

*Sampling.* Bits are drawn with odds tilted by e^(τ n_j); then b has weight g = exp(ψ - τ y), with
ψ = Σ_j ln(1-α+αe^(τ n_j)), and V = g (F - F0) has the mean E F - E F0. V is split into V+ - V-.
- V+ is cut at a value from a pilot sample, which only lowers it. Its mean has the empirical Bernstein bound of Maurer
  and Pontil (2009, Theorem 4).
- V- >= 0 is at most M. So E V-² <= M u with u = E V-, and Pr[mean <= u - t] <= exp(-N t²/(2Mu)), since
  e^(-x) <= 1 - x + x²/2 for x >= 0. M: -F <= (lose - keep) A(b), for B(b) >= A(b) as w_i >= 0. A sum of m independent
  bits with mean mp reaches s >= mp + 1 at most as often as Bin(m, p) does (Hoeffding 1956, Theorem 4), and p <= hy/m as
  n_j is rounded up. So g A(b) is at most the largest exp(ψ - τ y) Pr[Bin(m, hy/m) >= s] over y, with 1 for the
  probability where s < hy + 1. For {k <= s} all is mirrored, with B for A, and n_j is rounded down.

The figure is wrong with a probability of at most `ERROR` over the sample, which is drawn from a fixed seed: the same
each time. Event, tilt and cut are chosen before the sample is drawn; several ε are tried on it, each at its part of
`ERROR`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from p2p_sim.analysis.privacy.statement.local import local_epsilon
from p2p_sim.analysis.privacy.statement.windows import Floats

ERROR = 1e-9
"""Probability that a lower end is above the truth, over the draw of its sample."""
_TRIED = (1.1, 1.06, 1.03, 1.01, 1.0, 0.99, 0.98, 0.97, 0.96, 0.94, 0.92, 0.89, 0.85, 0.8, 0.7, 0.5)
"""Shares of the reference's ε that are tried on the sample."""
_PLANNED = (0.98, 1.03, 1.08)
"""Shares for which event and tilt are chosen; the later ones only for up to `FEW` submitters, where they are cheap and
the reference says less."""
FEW = 128
_UNITS = 64
"""Units h in the largest C_j."""
_PILOT = 1_000
_MOST_DRAWS, _LEAST_DRAWS = 2**16, 2**12
_WORK = 2.0e9
"""Additions in a sample, about."""
_CELLS = 4_000_000
"""Bits that are drawn together, about."""
_NOTHING = 1e-30
"""Probabilities of y that are left out at the upper end."""
_ROUNDING = 1e-10
"""Charged for rounding of all sums of non-negative terms, relative; they have at most some 10^4 steps of a few u."""
Draws = tuple[NDArray[np.int64], Floats, Floats]
"""y, A(b) and B(b) of each draw."""
Needed = Callable[[float], float]
"""δ that must be exceeded at an ε; it does not fall with ε."""


@dataclass(frozen=True, eq=False)
class Submitters:
    """What the learner's view of one target is made of, as far as it is looked at.

    Args:
        weights: (m, s), probability that each submitter fetches from each of the others with unknown bits; the rest of
            a row's mass is on the target, or on users whose bits count as known zeros.
        own: (m,), above 0, the probability that she fetches from the target. rates: (m,), that her label arrives.
        flip_prob: α in (0, 1/2), with which the others' bits are ones.
        true_prob: with which the target's bit is a one if her label is 1; it is one with probability α if it is 0. 1-α
            for two classes; smaller for more, where a bit says whether a noisy label is of one of the classes.
    """

    weights: Floats
    own: Floats
    rates: Floats
    flip_prob: float
    true_prob: float

    @cached_property
    def columns(self) -> Floats:
        """C_j, (s,)."""
        return self.rates @ self.weights

    def strongest(self) -> "Submitters":
        """Those whose count of ones tells most, by its mean and variance; the ones with the largest weights first."""
        seen, alpha = self.rates * self.own, self.flip_prob
        order = np.argsort(-self.own, kind="stable")
        sizes = np.unique(np.geomspace(1, len(order), 40).astype(int))
        shared, gain, noise = np.zeros(self.weights.shape[1]), [], []
        for first, last in zip([0, *sizes[:-1]], sizes, strict=True):
            part = order[first:last]
            shared = shared + self.rates[part] @ self.weights[part]
            mean = self.rates[order[:last]] * alpha * self.weights[order[:last]].sum(axis=1)
            gain.append(seen[order[:last]].sum())
            noise.append((mean * (1.0 - mean)).sum() + alpha * (1.0 - alpha) * float(shared @ shared))
        best = order[: sizes[int(np.argmax(np.array(gain) ** 2 / np.maximum(noise, 1e-300)))]]
        weights = self.weights[best]
        kept = weights[:, weights.any(axis=0)]
        return replace(self, weights=kept, own=self.own[best], rates=self.rates[best])


def attained_epsilon(view: Submitters, needed: Needed) -> float:
    """An ε below which δ(ε) exceeds what is needed; 0 if none is found. Wrong with probability `ERROR` at most.

    Args:
        view: the target's submitters. needed: δ that must be exceeded, by ε.
    """
    view = view.strongest()
    if not view.own.size or view.flip_prob == 0.5:
        return 0.0
    worlds = [_Reference(view, upper) for upper in (True, False)]
    guesses = [world.epsilon(needed) for world in worlds]
    world, guess = max(zip(worlds, guesses, strict=True), key=lambda its: its[1])
    most = local_epsilon(view.flip_prob)
    plans = [share * guess for share in _PLANNED if share * guess < most] if guess > 0.0 else []
    plans = plans if view.own.size <= FEW else plans[:1]
    return max((_Sample(world, plan, ERROR / len(plans)).epsilon(guess, needed) for plan in plans), default=0.0)


@dataclass(frozen=True, eq=False)
class _Reference:
    """The similar world in which only y counts, and the events {k >= s} (upper) or {k <= s}."""

    view: Submitters
    upper: bool

    @cached_property
    def unit(self) -> float:
        """h."""
        return float(self.view.columns.max(initial=0.0)) / _UNITS or 1.0

    @cached_property
    def units(self) -> NDArray[np.int64]:
        """n_j, (s,); rounded up for {k >= s}, else down."""
        exact = self.view.columns / self.unit
        found: NDArray[np.int64] = (np.ceil(exact) if self.upper else np.floor(exact)).astype(np.int64)
        return found

    @cached_property
    def law(self) -> Floats:
        """Probabilities of y = 0, 1, ...; at most 1e-20 is left out."""
        law = np.ones(1)
        for units, count in zip(*np.unique(self.units[self.units > 0], return_counts=True), strict=True):
            step = np.zeros(units * count + 1)
            step[::units] = binom.pmf(np.arange(count + 1), count, self.view.flip_prob)
            places = np.flatnonzero(step > _NOTHING)
            new = np.zeros(len(law) + int(places[-1]))
            for place in places.tolist():
                new[place : place + len(law)] += law * step[place]
            law = new[: int(np.flatnonzero(new > _NOTHING)[-1]) + 1]
        return law

    @cached_property
    def chances(self) -> tuple[Floats, Floats]:
        """p by y with the target's bit 0 and 1, of y = 0, ..., Σ n_j: the mean over b is kept."""
        users, total = len(self.view.own), int(self.units.sum())
        unit = float(self.view.columns.sum()) / max(total, 1)
        p = np.arange(total + 1) * unit / users
        return np.minimum(p, 1.0), np.minimum(p + float(self.view.rates @ self.view.own) / users, 1.0)

    @cached_property
    def tails(self) -> tuple[Floats, Floats]:
        """Probabilities of the events s = 0, ..., m with the target's bit 0 and 1, in this world."""
        return self._mixed(self.chances[0]), self._mixed(self.chances[1])

    def _mixed(self, chances: Floats) -> Floats:
        users, size = len(self.view.own), len(self.law)
        count, found = np.arange(users + 1), np.zeros(users + 1)
        for part in np.array_split(np.flatnonzero(self.law > 1e-22), 1 + size * users // _CELLS):
            found += self.law[part] @ binom.pmf(count, users, chances[:size][part][:, None])
        return np.cumsum(found[::-1])[::-1] if self.upper else np.cumsum(found)

    def event(self, epsilon: float) -> tuple[int, float]:
        """The s with the largest worth at ε, and what it is worth in this world."""
        keep, lose = _worth(self.view, epsilon, self.upper)
        zero, one = self.tails
        worths = keep * one - lose * zero if self.upper else keep * zero - lose * one
        best = int(worths.argmax())
        return best, float(worths[best])

    def epsilon(self, needed: Needed) -> float:
        """The ε up to which this world has more than is needed, to 1e-5."""
        low, high = 0.0, local_epsilon(self.view.flip_prob)
        if self.event(low)[1] <= needed(low):
            return 0.0
        while high - low > 1e-5 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.event(middle)[1] > needed(middle) else (low, middle)
        return low


@dataclass(frozen=True, eq=False)
class _Sample:
    """Samples of b for the event and the tilt that are chosen at one ε."""

    world: _Reference
    planned: float
    error: float

    @cached_property
    def event(self) -> int:
        """s."""
        return self.world.event(self.planned)[0]

    @cached_property
    def _most(self) -> tuple[float, float, float]:
        """τ, ψ and the largest g A(b) (or g B(b)), for the τ for which that is smallest."""
        view, units = self.world.view, self.world.units
        users, y = len(view.own), np.arange(int(units.sum()) + 1)
        upper, s = self.world.upper, self.event
        if upper:
            mean = y * self.world.unit * (1.0 + 1e-12)
            tail = np.where(s >= mean + 1.0, binom.sf(s - 1, users, np.minimum(mean / users, 1.0)), 1.0)
        else:
            mean = (y * self.world.unit + float(view.rates @ view.own)) * (1.0 - 1e-12)
            tail = np.where(s <= mean - 1.0, binom.cdf(s, users, np.minimum(mean / users, 1.0)), 1.0)
        with np.errstate(divide="ignore"):
            log_tail = np.log(tail)
        kinds, counts = np.unique(units, return_counts=True)

        def at(tilt: float) -> tuple[float, float, float]:
            psi = float(counts @ np.log1p(view.flip_prob * np.expm1(tilt * kinds)))
            return tilt, psi, math.exp(min(700.0, psi + float((log_tail - tilt * y).max())))

        sign = 1.0 if upper else -1.0
        found = min((at(sign * tilt / _UNITS) for tilt in np.geomspace(1e-3, 12.0, 80)), key=lambda its: its[2])
        return min((at(found[0] * share) for share in np.linspace(0.9, 1.1, 21)), key=lambda its: its[2])

    def _draw(self, count: int, rng: np.random.Generator) -> Draws:
        """y, A(b) and B(b) of some draws."""
        view, units = self.world.view, self.world.units
        odds = view.flip_prob * np.exp(self._most[0] * units)
        chance = odds / (1.0 - view.flip_prob + odds)
        found = []
        for size in _parts(count, max(1, _CELLS // max(view.weights.shape))):
            bits = (rng.random((size, len(units))) < chance).astype(np.float64)
            p = bits @ view.weights.T
            zero, one = view.rates * np.minimum(p, 1.0), view.rates * np.minimum(p + view.own, 1.0)
            found.append(((bits @ units).astype(np.int64), self._tail(zero), self._tail(one)))
        y, zero, one = (np.concatenate(its) for its in zip(*found, strict=True))
        return y, zero, one

    def _tail(self, chances: Floats) -> Floats:
        """Probability of the event for each line of chances (N, m)."""
        if self.world.upper:
            return _at_least(chances, self.event)
        return _at_least(1.0 - chances, chances.shape[1] - self.event)

    def epsilon(self, guess: float, needed: Needed) -> float:
        """The largest of the ε tried at which more than is needed is certified; 0 if there is none."""
        rng = np.random.default_rng(20)
        users = len(self.world.view.own)
        steps = self.event if self.world.upper else users - self.event
        draws = int(min(_MOST_DRAWS, max(_LEAST_DRAWS, _WORK / (users * (steps + len(self.world.units) / 8.0 + 8.0)))))
        pilot, sample = self._draw(_PILOT, rng), self._draw(draws, rng)
        for epsilon in (guess * share for share in _TRIED):
            if self._delta(epsilon, pilot, sample) > needed(epsilon):
                return epsilon
        return 0.0

    def _delta(self, epsilon: float, pilot: Draws, sample: Draws) -> float:
        """A lower bound of δ(ε)."""
        tilt, psi, most = self._most
        keep, lose = _worth(self.world.view, epsilon, self.world.upper)
        if keep <= 0.0:
            return 0.0
        zero, one = (self._binomial(chances) for chances in self.world.chances)
        gain, loss = (one, zero) if self.world.upper else (zero, one)
        reference = keep * gain - lose * loss
        doubt = _ROUNDING * (keep * gain + lose * loss)
        weight = np.exp(np.minimum(psi - tilt * np.arange(len(reference)), 700.0))
        law = self.world.law
        mean = float(law @ (reference - doubt)[: len(law)]) - 1e-20 * lose

        def values(draws: Draws) -> Floats:
            y, a, b = draws
            gained, lost = (b, a) if self.world.upper else (a, b)
            worth = keep * gained * (1.0 - _ROUNDING) - lose * lost * (1.0 + _ROUNDING)
            return np.asarray(weight[y] * (worth - (reference + doubt)[y]))

        # less than -V is worth: gained >= lost, and lost times its weight is at most `most`
        largest = (lose * (1.0 + 1e-9) - keep * (1.0 - 1e-9)) * most
        largest += float((weight * np.maximum(reference + doubt, 0.0)).max())
        cut = max(1.5 * float(values(pilot).max()), 1e-3 * largest)
        return mean + mean_at_least(values(sample), cut, largest * (1.0 + 1e-9), self.error / len(_TRIED))

    def _binomial(self, chances: Floats) -> Floats:
        users = len(self.world.view.own)
        tail = binom.sf(self.event - 1, users, chances) if self.world.upper else binom.cdf(self.event, users, chances)
        return np.asarray(tail)


def mean_at_least(values: Floats, cut: float, most: float, error: float) -> float:
    """A lower bound of the mean of independent values, at most `error` of the time above it.

    Args:
        values: (N,), none below -most. cut: above 0, chosen before; larger values count as this. error: in (0, 1).
    """
    count, confidence = len(values), math.log(4.0 / error)
    above, below = np.clip(values, 0.0, cut), np.maximum(-values, 0.0)
    gain = float(above.mean()) - math.sqrt(2.0 * float(above.var(ddof=1)) * confidence / count)
    gain -= 7.0 * confidence * cut / (3.0 * (count - 1))
    reach = math.sqrt(2.0 * most * confidence / count)
    return max(gain, 0.0) - ((reach + math.sqrt(reach * reach + 4.0 * float(below.mean()))) / 2.0) ** 2


def _worth(view: Submitters, epsilon: float, upper: bool) -> tuple[float, float]:
    """keep, rounded down, and lose, rounded up: for events that ones make likelier (upper), else unlikelier."""
    grow, hit, miss = math.exp(epsilon), view.true_prob, view.flip_prob
    hit, miss = (hit, miss) if upper else (1.0 - miss, 1.0 - hit)
    return hit - miss * grow - 1e-13, grow * (1.0 - miss) * (1.0 + 1e-14) - (1.0 - hit) + 1e-13


def _at_least(chances: Floats, successes: int) -> Floats:
    """Probability of at least so many successes, for each line of independent trials (N, m)."""
    lines, trials = chances.shape
    law = np.zeros((successes + 1, lines))
    law[successes] = 1.0
    for trial in range(trials):
        first = max(0, successes - trial - 1)
        last = min(successes, trials - trial)
        moved = law[first + 1 : last + 1] * chances[:, trial]
        law[first + 1 : last + 1] -= moved
        law[first:last] += moved
    return np.asarray(law[0])


def _parts(count: int, most: int) -> list[int]:
    return [min(most, count - first) for first in range(0, count, most)]
