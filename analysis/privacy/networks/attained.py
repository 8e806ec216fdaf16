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
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.analysis.privacy.networks.similar_world import UNITS, Needed, SimilarWorld, Submitters, worth_of
from p2p_sim.analysis.privacy.statement.local import local_epsilon
from p2p_sim.analysis.privacy.statement.sampled import ERROR, mean_at_least
from p2p_sim.analysis.privacy.statement.windows import Floats

_TRIED = (1.1, 1.06, 1.03, 1.01, 1.0, 0.99, 0.98, 0.97, 0.96, 0.94, 0.92, 0.89, 0.85, 0.8, 0.7, 0.5)
"""Shares of the reference's ε that are tried on the sample."""
_PLANNED = (0.98, 1.03, 1.08)
"""Shares for which event and tilt are chosen; the later ones only for up to `FEW` submitters, where they are cheap and
the reference says less."""
FEW = 128
_PILOT = 1_000
_MOST_DRAWS, _LEAST_DRAWS = 2**16, 2**12
_WORK = 2.0e9
"""Additions in a sample, about."""
_CELLS = 4_000_000
"""Bits that are drawn together, about."""
_ROUNDING = 1e-10
"""Charged for rounding of all sums of non-negative terms, relative; they have at most some 10^4 steps of a few u."""
Draws = tuple[NDArray[np.int64], Floats, Floats]
"""y, A(b) and B(b) of each draw."""


def attained_epsilon(view: Submitters, needed: Needed) -> float:
    """An ε below which δ(ε) exceeds what is needed; 0 if none is found. Wrong with probability `ERROR` at most.

    Args:
        view: the target's submitters. needed: δ that must be exceeded, by ε.
    """
    view = view.strongest()
    if not view.own.size or view.flip_prob == 0.5:
        return 0.0
    worlds = [SimilarWorld(view, upper) for upper in (True, False)]
    guesses = [world.epsilon(needed) for world in worlds]
    world, guess = max(zip(worlds, guesses, strict=True), key=lambda its: its[1])
    most = local_epsilon(view.flip_prob)
    plans = [share * guess for share in _PLANNED if share * guess < most] if guess > 0.0 else []
    plans = plans if view.own.size <= FEW else plans[:1]
    return max((_Sample(world, plan, ERROR / len(plans)).epsilon(guess, needed) for plan in plans), default=0.0)


@dataclass(frozen=True, eq=False)
class _Sample:
    """Samples of b for the event and the tilt that are chosen at one ε."""

    world: SimilarWorld
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
            mean = y * self.world.unit * (1.0 + 1e-8)
            tail = np.where(s >= mean + 1.0, scipy.stats.binom.sf(s - 1, users, np.minimum(mean / users, 1.0)), 1.0)
        else:
            mean = (y * self.world.unit + float(view.rates @ view.own)) * (1.0 - 1e-8)
            tail = np.where(s <= mean - 1.0, scipy.stats.binom.cdf(s, users, np.minimum(mean / users, 1.0)), 1.0)
        with np.errstate(divide="ignore"):
            log_tail = np.log(tail)
        kinds, counts = np.unique(units, return_counts=True)

        def at(tilt: float) -> tuple[float, float, float]:
            psi = float(counts @ np.log1p(view.flip_prob * np.expm1(tilt * kinds)))
            return tilt, psi, math.exp(min(700.0, psi + float((log_tail - tilt * y).max())))

        sign = 1.0 if upper else -1.0
        found = min((at(sign * tilt / UNITS) for tilt in np.geomspace(1e-3, 12.0, 80)), key=lambda its: its[2])
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
        keep, lose = worth_of(self.world.view, epsilon, self.world.upper)
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
        tail = (
            scipy.stats.binom.sf(self.event - 1, users, chances)
            if self.world.upper
            else scipy.stats.binom.cdf(self.event, users, chances)
        )
        return np.asarray(tail)


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
