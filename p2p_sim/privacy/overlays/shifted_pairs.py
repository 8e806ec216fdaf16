"""Products of pairs (Bernoulli(p), Bernoulli(p + d)) with p known up to a band, as likelihood ratios on one grid.

A user is seen with probability `rate` and then shows 1 with probability p under the first law and p + d under the
second; low <= p <= high. Her pair is a post-processing of three outcomes: 1 with probability (low, low + d), 0 with
probability (1-high, 1-high-d), and a middle that is 1 with probability (p-low)/(high-low) under both. A larger |d| of
the same sign, a larger rate and a wider band give a pair with a larger curve.

Users with one pair are counted: how many show 1, and how many 0. Their likelihood ratios are then put on the grid,
between the points kg and (k+1)g with the same total under both laws, which only spreads the ratio (Blackwell).

Rounding: bands narrower than `_SAME` count as one p, others are widened by `_WIDER`, and outcomes that are less likely
than `_RARE` show the law itself. So no probability is off by more than 1e-8 of itself, nor a law, in which at most
`-LOG_TAIL` more users than expected show an unlikely outcome, by more than `SLACK` of itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from p2p_sim.privacy.binomial_windows import (
    Floats,
    bernstein_window,
    binomial_columns,
    tail_mass,
)

LOG_TAIL = -64.0
"""Logarithm of what is left out at each end of a window, and charged."""
SLACK = 1e-6
"""Relative error of a law that is charged."""
_NEAR = 1e-8
"""Relative error of a likelihood ratio that is charged."""
_SAME, _WIDER, _RARE = 1e-13, 1e-7, 1e-5
_POINTS = 1200
"""Points of the grid, about."""
_REACH = 20.0
"""Standard deviations of the loss that the grid covers, about."""
_MOST_STEPS = 1e5
"""Steps of the grid, at most, in the largest loss that one user shows: she may be seen as rarely as once in 1e60."""
_NEGLIGIBLE = 1e-30


@dataclass(frozen=True)
class Shift:
    """`count` users with one pair: seen with probability `rate`; low <= p <= high; d = `shift` may be negative."""

    rate: float
    low: float
    high: float
    shift: float
    count: int

    @property
    def weight(self) -> float:
        """Variance of the sum of the users' log likelihood ratios, about."""
        spread = 1.0 / max(self.low, 1e-3) + 1.0 / max(1.0 - self.high, 1e-3)
        return self.count * self.rate * self.shift**2 * spread

    @property
    def largest_loss(self) -> float:
        """The largest loss that one user shows, among outcomes that are not rare."""
        pairs = ((self.low, self.low + self.shift), (1.0 - self.high, 1.0 - self.high - self.shift))
        return max(
            (abs(math.log(second / first)) for first, second in pairs if min(first, second) > _RARE), default=0.0
        )

    @property
    def possible(self) -> bool:
        """Whether both laws are laws for every p of the band."""
        return min(self.low, self.low + self.shift) >= 0.0 and max(self.high, self.high + self.shift) <= 1.0 + _SAME


@dataclass(frozen=True, eq=False)
class ShiftLaw:
    """Two laws: probabilities under the first at likelihood ratios exp((first + 0, 1, ...) · grid) of the second.

    lost: (2,) what each law has besides, where the other has nothing.
    """

    law: Floats
    first: int
    grid: float
    lost: tuple[float, float] = (0.0, 0.0)

    @cached_property
    def ratios(self) -> Floats:
        return np.asarray(np.exp(self.grid * (self.first + np.arange(len(self.law)))))

    def above(self, ratio: Floats) -> Floats:
        """HS_ratio(second || first), rounded up, for ratios of at least 0."""
        lowered = ratio * (1.0 - _NEAR)
        at = np.searchsorted(self.ratios, lowered, side="right")
        first, second = self._upper
        gained = second[at] * (1.0 + SLACK) - lowered * first[at] * (1.0 - SLACK)
        return np.asarray(np.maximum(gained, 0.0) + self.lost[1])

    def below(self, ratio: Floats) -> Floats:
        """HS_ratio(first || second), rounded up, for ratios of at least 0."""
        lowered = ratio * (1.0 - _NEAR)
        at = np.searchsorted(self.ratios, 1.0 / np.maximum(lowered, 1e-300), side="left")
        first, second = self._lower
        gained = first[at] * (1.0 + SLACK) - lowered * second[at] * (1.0 - SLACK)
        return np.asarray(np.maximum(gained, 0.0) + self.lost[0])

    @cached_property
    def _upper(self) -> tuple[Floats, Floats]:
        """Both laws' probabilities from a point of the grid on."""
        return self._sums(self.law[::-1])[::-1], self._sums((self.law * self.ratios)[::-1])[::-1]

    @cached_property
    def _lower(self) -> tuple[Floats, Floats]:
        """Both laws' probabilities before a point of the grid."""
        return self._sums(self.law), self._sums(self.law * self.ratios)

    @staticmethod
    def _sums(values: Floats) -> Floats:
        return np.concatenate([np.zeros(1), np.cumsum(values)])

    def times(self, other: "ShiftLaw") -> "ShiftLaw":
        """The product of two, on one grid."""
        law, first = np.convolve(self.law, other.law), self.first + other.first
        ratios = np.exp(self.grid * (first + np.arange(len(law))))
        used = np.flatnonzero(law * np.maximum(ratios, 1.0) > _NEGLIGIBLE)
        inside = slice(int(used[0]), int(used[-1]) + 1) if used.size else slice(0, 1)
        cut = law.copy()
        cut[inside] = 0.0
        lost = (
            self.lost[0] + other.lost[0] + float(cut.sum()),
            self.lost[1] + other.lost[1] + float((cut * ratios).sum()),
        )
        return ShiftLaw(law[inside], first + inside.start, self.grid, lost)


NOTHING_SEEN = ShiftLaw(np.ones(1), 0, 1.0)
"""The laws are equal."""
LAW_SHOWN = ShiftLaw(np.zeros(1), 0, 1.0, (1.0, 1.0))
"""It is shown which of the laws it is."""


def product(shifts: Sequence[Shift], grid: float | None = None) -> ShiftLaw:
    """The product of all users' pairs; `LAW_SHOWN` if some pair is not possible."""
    shifts = [its for its in shifts if its.count and its.rate > 0.0 and its.shift != 0.0]
    if not shifts:
        return NOTHING_SEEN if grid is None else ShiftLaw(np.ones(1), 0, grid)
    if not all(its.possible for its in shifts):
        return LAW_SHOWN
    width = grid
    if width is None:  # a wider grid only spreads the ratio
        spread = math.sqrt(sum(its.weight for its in shifts))
        width = max(_REACH * spread / _POINTS, max(its.largest_loss for its in shifts) / _MOST_STEPS) or 1.0
    total = ShiftLaw(np.ones(1), 0, width)
    for its in shifts:
        total = total.times(counted(its, width))
    return total


@lru_cache(maxsize=4096)
def counted(its: Shift, grid: float) -> ShiftLaw:
    """The product of the pairs of `count` users."""
    low, high = (its.low, its.low) if its.high - its.low <= _SAME else (max(its.low - _WIDER, 0.0), its.high)
    # Under both laws: 1 with (low, low + d), 0 with (1-high, 1-high-d). What is rare counts as showing the law itself.
    usual, rare = [], [0.0, 0.0]
    for first, second in ((low, low + its.shift), (1.0 - high, 1.0 - high - its.shift)):
        likely = min(first, second) > _RARE
        usual.append((its.rate * first, its.rate * second) if likely else (0.0, 0.0))
        if not likely:
            rare = [rare[0] + its.rate * first, rare[1] + its.rate * max(second, 0.0)]
    one, zero = usual
    rest = 1.0 - its.rate + its.rate * (high - low)
    # The logarithm of the probability that nobody shows the law, under both.
    silent = [its.count * math.log1p(-min(chance, 1.0 - 2.0**-53)) for chance in rare]
    missed = 8.0 * tail_mass(LOG_TAIL)
    lost = (_lost(silent[0]) + missed, _lost(silent[1]) + missed)
    # How many users show 1, binomial, and how many of the others 0, given that.
    ones = _window(its.count, *(_share(one[law], zero[law] + rest) for law in (0, 1)))
    odds = np.array([_odds(one[0], zero[0] + rest)])
    law = math.exp(silent[0]) * binomial_columns(int(ones[0]), int(ones[-1]), its.count, odds)
    zeros = np.zeros(1)
    if zero[0] > 0.0:
        ends = [_window(its.count - int(k), *(_share(part, rest) for part in zero)) for k in (ones[0], ones[-1])]
        zeros = np.arange(min(end[0] for end in ends), max(end[-1] for end in ends) + 1.0)
        odds = np.full(ones.size, _odds(zero[0], rest))
        law = law * binomial_columns(int(zeros[0]), int(zeros[-1]), its.count - ones, odds).T
    # The loss is a sum over the users.
    gains = [math.log(second / first) if first > 0.0 else 0.0 for first, second in usual]
    loss = ones[:, None] * gains[0] + zeros * gains[1]
    return _on_grid(law.ravel(), loss.ravel(), grid, lost)


def _lost(log_silent: float) -> float:
    """Probability of the opposite, rounded up."""
    return -math.expm1(log_silent) * (1.0 + 1e-12)


def _share(part: float, rest: float) -> float:
    return part / (part + rest) if part > 0.0 else 0.0


def _odds(part: float, rest: float) -> float:
    if part == 0.0:
        return 0.0
    return part / rest if rest > 0.0 else math.inf


def _window(count: int, first: float, second: float) -> Floats:
    """Numbers of users of whom there are nearly always as many, under both laws."""
    ends = [bernstein_window(count * p, count * p * (1.0 - p), count, LOG_TAIL) for p in (first, second)]
    return np.arange(min(end[0] for end in ends), max(end[1] for end in ends) + 1, dtype=np.float64)


def _on_grid(law: Floats, loss: Floats, grid: float, lost: tuple[float, float]) -> ShiftLaw:
    """Both laws on the grid, where likelihood ratios between two points are split between them."""
    used = law > 0.0
    if not used.any():  # all users show the law itself, but for less than can be represented
        return ShiftLaw(np.zeros(1), 0, grid, lost)
    law, loss = law[used], loss[used]
    below = np.floor(loss / grid + 1e-12).astype(np.int64)
    share = np.clip(np.expm1(loss - below * grid) / math.expm1(grid), 0.0, 1.0)
    first = int(below.min())
    size = int(below.max()) - first + 2
    spread = np.bincount(below - first, law * (1.0 - share), size)
    spread += np.bincount(below - first + 1, law * share, size)
    return ShiftLaw(np.asarray(spread, dtype=np.float64), first, grid, lost)
