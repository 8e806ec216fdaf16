"""What the learner sees of one target, and a similar world in which only one sum of the others' bits counts."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.analysis.privacy.statement.local import local_epsilon
from p2p_sim.analysis.privacy.statement.windows import Floats

UNITS = 64
"""Units h in the largest C_j."""
_CELLS = 4_000_000
"""Values that are computed together, about."""
_NOTHING = 1e-30
"""Probabilities of y that are left out at the upper end."""
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


@dataclass(frozen=True, eq=False)
class SimilarWorld:
    """The similar world in which only y counts, and the events {k >= s} (upper) or {k <= s}."""

    view: Submitters
    upper: bool

    @cached_property
    def unit(self) -> float:
        """h."""
        return float(self.view.columns.max(initial=0.0)) / UNITS or 1.0

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
            step[::units] = scipy.stats.binom.pmf(np.arange(count + 1), count, self.view.flip_prob)
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
            found += self.law[part] @ scipy.stats.binom.pmf(count, users, chances[:size][part][:, None])
        return np.cumsum(found[::-1])[::-1] if self.upper else np.cumsum(found)

    def event(self, epsilon: float) -> tuple[int, float]:
        """The s with the largest worth at ε, and what it is worth in this world."""
        keep, lose = worth_of(self.view, epsilon, self.upper)
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


def worth_of(view: Submitters, epsilon: float, upper: bool) -> tuple[float, float]:
    """keep, rounded down, and lose, rounded up: for events that ones make likelier (upper), else unlikelier."""
    grow, hit, miss = math.exp(epsilon), view.true_prob, view.flip_prob
    hit, miss = (hit, miss) if upper else (1.0 - miss, 1.0 - hit)
    return hit - miss * grow - 1e-13, grow * (1.0 - miss) * (1.0 + 1e-14) - (1.0 - hit) + 1e-13
