"""Noisy labels alone, any number of classes: an ε below which none holds for Algorithm 1, from an explicit data set.

The learner looks at the noisy labels of users whose label is neither a nor b, or at all if every label is resampled. D
is how many more of these are a than are b. The target holds a in the first world and b in the second. The event E is "D
is at least s", and, if labels are kept, "the target's noisy label is a" as well or not. Then δ(ε) >= P(E) - e^ε P'(E).

Both probabilities are estimated at once, from one sample of the noise and of D, drawn so that E is likely, with weights
that make up for it: the noise of a and b from Laplace laws with different slopes to either side, and the labels with
odds of a times e^t and of b times e^-t. With q̃' of the second world, w the weight of the noise and U users looked at,
each draw counts w Z e^-tD in the second world, Z = (1 + q̃'(a)(e^t - 1) - q̃'(b)(1 - e^-t))^U. On E this is at most
w Z e^-ts, which is bounded for noise that is not extreme; extreme noise of the second world is charged in full. (For
λ < 1, λq̃ stands for q̃.) A class's q̃ rises with its own noisy share and falls with every other, so that bounds of w Z on
rectangles of noise follow from their corners. The mean of the weighted differences has the bound of `mean_at_least`.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy

from p2p_sim.analysis.privacy.others.noisy_distribution import released_distribution
from p2p_sim.analysis.privacy.statement.sampled import ERROR, mean_at_least
from p2p_sim.analysis.privacy.statement.windows import Floats

_STEPS = (0.0, 1.0, 2.0, 4.0)
"""Holders of a and of b that are tried, in units of σ above nτ."""
_EVENTS = (0.0, 1.0, 1.8, 2.5, 3.3, 4.1, 4.9, 5.7, 6.6)
"""Thresholds s that are tried, in standard deviations of D; 0 for any D."""
_TRIED = (1.06, 1.03, 1.01, 1.0, 0.99, 0.98, 0.97, 0.96, 0.94, 0.92, 0.89, 0.85, 0.8, 0.7, 0.5)
"""Shares of the pilot's ε that are tried on the sample."""
_PILOT, _DRAWS = 2**13, 2**20
_TOGETHER = 2**20
"""Entries drawn together, about."""
_LEFT_OUT = 0.004
"""Share of δ that noise too extreme to be looked at may have."""
_STEEPEST = 0.8
"""Largest change of the slope of a Laplace law, relative."""
_EDGES, _PIECES = 301, 16
_ROUNDING = 1e-9
_TINY = 1e-300


def attained_classes(n: int, classes: int, lam: float, scale: float, threshold: float, delta: float) -> float:
    """An ε below which none holds at δ, wrong with a probability of `ERROR` at most over a sample with a fixed seed.

    Args:
        n: users. classes: K, at least 3. lam: λ in (0, 1]. scale: σ in [0, ∞). threshold: τ in [0, 1/K).
        delta: δ in (0, 1).
    """
    rng = np.random.default_rng(22)
    found: tuple[float, _Event | None] = (0.0, None)
    for shares in _data_sets(n, classes, scale, threshold):
        for own in dict.fromkeys((lam < 1.0, False)):
            for deviations in _EVENTS:
                event = _Event.of(shares, lam, scale, threshold, delta, own, deviations)
                guess = event.guess(rng) if event is not None else 0.0
                if guess > found[0]:
                    found = guess, event
    return found[1].epsilon(found[0], rng) if found[1] is not None else 0.0


def _data_sets(n: int, classes: int, scale: float, threshold: float) -> list[tuple[int, ...]]:
    """Counts of the others: as many hold a as b; the rest hold one class, or all classes have their share of τ."""
    found = []
    for steps in _STEPS:
        held = min(math.ceil(n * threshold + steps * scale), (n - 1) // 2)
        rest = n - 1 - 2 * held
        even = min(held, rest // (classes - 2))
        found.append((held, held, rest, *[0] * (classes - 3)))
        found.append((held, held, rest - even * (classes - 3), *[even] * (classes - 3)))
    return list(dict.fromkeys(found))


@dataclass(frozen=True, eq=False)
class _Event:
    """One data set and event, and how they are sampled.

    counts: (K,) of the others, a and b first. own: whether the target's noisy label is looked at. least: s.
    tilt: t. slopes: of the noise of a and of b, times its scale. reach: how far the noisy shares of the other classes
    may lie below and above what they are, together. farthest: largest noise of a and of b that is looked at.
    """

    counts: tuple[int, ...]
    lam: float
    scale: float
    threshold: float
    delta: float
    own: bool
    least: int
    tilt: float
    slopes: tuple[float, float]
    reach: tuple[float, float]
    farthest: float

    @staticmethod
    def of(
        counts: tuple[int, ...], lam: float, scale: float, threshold: float, delta: float, own: bool, deviations: float
    ) -> "_Event | None":
        n = sum(counts) + 1
        users = n if lam == 1.0 else n - 1 - counts[0] - counts[1]
        if users < 1 or counts[0] < n * threshold:
            return None
        per_share, share = users * lam, max(counts[0] / n, threshold)
        variance = 2.0 * per_share * share + 4.0 * (per_share * scale / n) ** 2
        tilt = deviations / math.sqrt(variance)
        if scale > 0.0:
            tilt = min(tilt, math.log1p(n / (per_share * scale)))
        width = scale / n
        up, down = (min(_STEEPEST, rise * per_share * width) for rise in (math.expm1(tilt), -math.expm1(-tilt)))
        least = math.ceil(-per_share / n + deviations * math.sqrt(variance)) if deviations else -users
        if least > users:
            return None
        above = sum(its > n * threshold for its in counts[2:])
        spare = _LEFT_OUT / 6.0 * delta
        below, over, farthest = (_reach(many, spare) * width for many in (above, len(counts) - 2, 1))
        shape = (counts, lam, scale, threshold, delta, own, least, tilt)
        return _Event(*shape, (up, down), (below, over), farthest)

    @property
    def size(self) -> int:
        return sum(self.counts) + 1

    @cached_property
    def users(self) -> int:
        """U."""
        return self.size if self.lam == 1.0 else self.size - 1 - self.counts[0] - self.counts[1]

    @cached_property
    def _shares(self) -> tuple[Floats, Floats]:
        """Of all classes in either world."""
        others = np.array(self.counts, dtype=np.float64)
        ones = np.eye(len(others))
        return (others + ones[0]) / self.size, (others + ones[1]) / self.size

    @cached_property
    def _noises(self) -> "tuple[_Tilted, _Tilted]":
        """Of a, and of b with its sign turned."""
        width = self.scale / self.size
        farthest = (self._shares[1][0] - self.threshold, min(10.0 * width, 1.0 - self._shares[1][1]))
        return _Tilted(width, self.slopes[0], -farthest[0]), _Tilted(width, self.slopes[1], -farthest[1])

    def _sample(self, count: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Weighted chances of the event in either world, for each draw; the difference of which is to be averaged."""
        up, down = self._noises
        noise = (
            rng.laplace(scale=self.scale / self.size, size=(count, len(self.counts)))
            if self.scale
            else (np.zeros((count, len(self.counts))))
        )
        noise[:, 0], noise[:, 1] = up.draw(count, rng), -down.draw(count, rng)
        log_weight = up.log_weight(noise[:, 0]) + down.log_weight(-noise[:, 1])
        one, two = (released_distribution(shares, noise, self.threshold) for shares in self._shares)
        others = np.clip(self._shares[1] + noise, self.threshold, 1.0)[:, 2:].sum(axis=1)
        low, high = self._others
        p, r = self.lam * two[:, :2], self.lam * one[:, :2]
        gain, loss = math.expm1(self.tilt), math.expm1(-self.tilt)
        total = 1.0 + p[:, 0] * gain + p[:, 1] * loss
        many = rng.binomial(self.users, np.minimum(p[:, 0] * (gain + 1.0) / total, 1.0))
        left = np.maximum(total - p[:, 0] * (gain + 1.0), _TINY)
        few = rng.binomial(self.users - many, np.minimum(p[:, 1] * (loss + 1.0) / left, 1.0))
        excess = many - few
        seen = (excess >= self.least) & (others >= low) & (others <= high)
        seen &= np.abs(noise[:, :2]).max(axis=1) <= self.farthest
        log_weight += self.users * np.log(total) - self.tilt * excess
        rest = np.log1p(-r.sum(axis=1)) - np.log1p(-p.sum(axis=1))
        odds = r / np.maximum(p, _TINY)
        ratio = scipy.special.xlogy(many, odds[:, 0]) + scipy.special.xlogy(few, odds[:, 1])
        ratio += (self.users - many - few) * rest
        weight = np.where(seen, np.exp(np.where(seen, log_weight, 0.0)), 0.0)
        first, second = weight * np.exp(np.where(seen, ratio, 0.0)), weight
        if self.own:
            first, second = first * (r[:, 0] + 1.0 - self.lam), second * p[:, 0]
        return first, second

    def _sampled(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Of all draws, a part at a time."""
        part = max(1, _TOGETHER // len(self.counts))
        parts = [self._sample(min(part, _DRAWS - start), rng) for start in range(0, _DRAWS, part)]
        return np.concatenate([one for one, _ in parts]), np.concatenate([two for _, two in parts])

    @cached_property
    def _others(self) -> tuple[float, float]:
        """Ends of what the noisy shares of the other classes add up to."""
        shares = np.clip(self._shares[1][2:], self.threshold, 1.0).sum()
        return float(shares) - self.reach[0], float(shares) + self.reach[1]

    def guess(self, rng: np.random.Generator) -> float:
        """ε at which the event has δ, by a small sample."""
        first, second = (float(its.mean()) for its in self._sample(_PILOT, rng))
        return math.log((first - self.delta) / second) if first > self.delta + second > self.delta else 0.0

    def epsilon(self, guess: float, rng: np.random.Generator) -> float:
        """The largest of the ε tried at which more than δ is certified; 0 if there is none."""
        pilot, sample = self._sample(_PILOT, rng), self._sampled(rng)
        for epsilon in (guess * share for share in _TRIED):
            grow = math.exp(epsilon)
            values = [
                first * (1.0 - _ROUNDING) - grow * second * (1.0 + _ROUNDING) for first, second in (pilot, sample)
            ]
            most = grow * self._most * (1.0 + 1e-6)
            cut = max(1.5 * float(values[0].max()), 1e-3 * most)
            found = mean_at_least(values[1], cut, most, ERROR / len(_TRIED))
            if found - grow * _LEFT_OUT * self.delta > self.delta:
                return epsilon
        return 0.0

    @cached_property
    def _most(self) -> float:
        """The largest weight of the event in the second world, for noise that is looked at."""
        up, down = self._noises
        shares, tau = self._shares[1], self.threshold
        ends = np.linspace(-self.farthest, self.farthest, _EDGES)
        weight = up.log_weight(ends[:-1])[:, None] + down.log_weight(-ends[1:])[None, :]
        q_a = np.clip(shares[0] + ends[1:], tau, 1.0)[:, None]
        q_b = np.clip(shares[1] + ends[:-1], tau, 1.0)[None, :]
        lowest, highest = self._others
        pieces = np.linspace(lowest, highest, _PIECES + 1)
        rise, fall, worst, label = math.expm1(self.tilt), math.expm1(-self.tilt), -math.inf, 0.0
        for low, high in pairwise(pieces.tolist()):
            most = _settled(q_a, q_a + q_b + low, len(shares), tau)
            least = _settled(q_b, q_a + q_b + high, len(shares), tau)
            chance = self.lam * (most * rise + least * fall)
            worst = max(worst, float((weight + self.users * np.log1p(chance)).max()))
            label = max(label, self.lam * float(most.max()))
        return (label if self.own else 1.0) * math.exp(worst - self.tilt * self.least)


def _settled(share: Floats, total: Floats, classes: int, threshold: float) -> Floats:
    """q̃ of a class with this clipped share, where all add up to `total`."""
    free = 1.0 - classes * threshold
    above = threshold + (share - threshold) * free / np.maximum(total - classes * threshold, free)
    below = 1.0 - (1.0 - share) * (classes - 1.0) / (classes - np.minimum(total, 1.0))
    return np.asarray(np.where(total >= 1.0, above, below))


def _reach(count: int, chance: float) -> float:
    """A sum of so many positive parts of Laplace noise of scale one is larger with this probability at most."""
    if not count:
        return 0.0
    slopes = np.linspace(0.01, 0.99, 99)
    return float(((count * np.log(0.5 + 0.5 / (1.0 - slopes)) - math.log(chance)) / slopes).min())


@dataclass(frozen=True)
class _Tilted:
    """Laplace noise of a scale `width`, its density times e^(slope z / width) for z above `lowest`, constant below."""

    width: float
    slope: float
    lowest: float

    @cached_property
    def _masses(self) -> Floats:
        """Below `lowest`, from there to 0, above 0; relative to the density at 0, in units of the width."""
        reach = -self.lowest / self.width
        below = math.exp(-reach * (1.0 + self.slope))
        return np.array(
            [below, -math.expm1(-reach * (1.0 + self.slope)) / (1.0 + self.slope), 1.0 / (1.0 - self.slope)]
        )

    def log_weight(self, noise: Floats) -> Floats:
        """Logarithm of the Laplace density over this one."""
        if self.width == 0.0:
            return np.zeros(len(noise))
        return math.log(self._masses.sum() / 2.0) - self.slope * np.maximum(noise, self.lowest) / self.width

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        if self.width == 0.0:
            return np.zeros(count)
        piece = rng.choice(3, size=count, p=self._masses / self._masses.sum())
        steep, reach = 1.0 + self.slope, -self.lowest / self.width
        inner = np.log1p(rng.random(count) * math.expm1(-reach * steep)) / steep  # from -reach to 0
        tail = rng.exponential(size=count)
        values = np.where(piece == 0, -reach - tail, np.where(piece == 1, inner, tail / (1.0 - self.slope)))
        return np.asarray(values * self.width)
