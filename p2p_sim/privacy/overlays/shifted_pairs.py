"""Products of pairs (Bernoulli(p), Bernoulli(p + d)) with p known up to a band, as likelihood ratios on one grid.

A user is seen with probability `rate` and then shows 1 with probability p under the first law and p + d under the
second; low <= p <= high. Her pair is a post-processing of three outcomes: 1 with probability (low, low + d), 0 with
probability (1-high, 1-high-d), and a middle that is 1 with probability (p-low)/(high-low) under both. A larger |d| of
the same sign, a larger rate and a wider band give a pair with a larger curve.

Of users with the same pair it counts how many show 1, and how many 0. Each pair of counts has a likelihood ratio, whose
probability is split between the two points kg and (k+1)g of the grid next to its logarithm, so that its totals under
both laws remain. Such a split only spreads the ratio, and raises all divergences (Blackwell).

Rounding: bands narrower than `_SAME` count as one p, others are widened by `_WIDER`, and outcomes that are less likely
than `_RARE` show the law itself. So no probability is off by more than 1e-8 of itself, nor a law, in which at most
`-LOG_TAIL` more users than expected show an unlikely outcome, by more than `SLACK` of itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats, bernstein_window, binomial_columns, tail_mass

LOG_TAIL = -64.0
"""Logarithm of what is left out at each end of a window, and charged."""
SLACK = 1e-6
"""Relative error of a law that is charged."""
_NEAR = 1e-8
"""Relative error of a likelihood ratio that is charged."""
_SAME, _WIDER, _RARE = 1e-13, 1e-7, 1e-5
"""Width of a band below which it counts as one p; by how much others are widened; least probability of an outcome."""
_POINTS = 1200
"""Points of the grid, about."""
_REACH = 20.0
"""Standard deviations of the loss that the grid covers, about."""
_MOST_STEPS = 1e5
"""Steps of the grid, at most, in the largest loss that one user shows: she may be seen as rarely as once in 1e60."""
_NEGLIGIBLE = 1e-30
"""Probability below which grid points at both ends of a product are cut off, and charged."""


@dataclass(frozen=True)
class Shift:
    """`count` users of whom each, seen with probability `rate`, shows 1 with probability p under one law and p +
    `shift` under the other.

    p is unknown in [low, high]; the shift d may be negative.
    """

    rate: float
    low: float
    high: float
    shift: float
    count: int

    @property
    def weight(self) -> float:
        """count · rate · shift² (1/low + 1/(1-high)): about the variance of the users' log likelihood ratios' sum."""
        spread = 1.0 / max(self.low, 1e-3) + 1.0 / max(1.0 - self.high, 1e-3)
        return self.count * self.rate * self.shift**2 * spread

    @property
    def largest_loss(self) -> float:
        """The largest privacy loss that one user's outcome shows, rare outcomes apart."""
        pairs = ((self.low, self.low + self.shift), (1.0 - self.high, 1.0 - self.high - self.shift))
        return max(
            (abs(math.log(second / first)) for first, second in pairs if min(first, second) > _RARE), default=0.0
        )

    @property
    def possible(self) -> bool:
        """Whether p and p + shift are probabilities for every p of the band."""
        return min(self.low, self.low + self.shift) >= 0.0 and max(self.high, self.high + self.shift) <= 1.0 + _SAME


@dataclass(frozen=True, eq=False)
class ShiftLaw:
    """Two laws of an observation, by its likelihood ratio of the second to the first law, on a grid.

    law: probabilities under the first law of the ratios exp((first + 0, 1, ...) · grid). lost: (2,), what each law has
    besides, where the other law has nothing.
    """

    law: Floats
    first: int
    grid: float
    lost: tuple[float, float] = (0.0, 0.0)

    @cached_property
    def ratios(self) -> Floats:
        return np.asarray(np.exp(self.grid * (self.first + np.arange(len(self.law)))))

    def above(self, ratio: Floats) -> Floats:
        """HS_ratio(second || first), rounded up, for ratios of at least 0.

        It is second(E) - ratio · first(E), E where the likelihood ratio exceeds `ratio`, plus `lost[1]`, where the
        first law has nothing.
        """
        lowered = ratio * (1.0 - _NEAR)
        at = np.searchsorted(self.ratios, lowered, side="right")
        first, second = self._upper[:, at]
        gained = second * (1.0 + SLACK) - lowered * first * (1.0 - SLACK)
        return np.asarray(np.maximum(gained, 0.0) + self.lost[1])

    def below(self, ratio: Floats) -> Floats:
        """HS_ratio(first || second), rounded up, for ratios of at least 0.

        first(E) - ratio · second(E), E where the likelihood ratio is below 1/ratio; and what the first law loses.
        """
        lowered = ratio * (1.0 - _NEAR)
        at = np.searchsorted(self.ratios, 1.0 / np.maximum(lowered, 1e-300), side="left")
        first, second = self._lower[:, at]
        gained = first * (1.0 + SLACK) - lowered * second * (1.0 - SLACK)
        return np.asarray(np.maximum(gained, 0.0) + self.lost[0])

    @cached_property
    def _upper(self) -> Floats:
        """(2, K+1) probabilities under both laws from each point of the grid on."""
        return np.stack([_sums(self.law[::-1])[::-1], _sums((self.law * self.ratios)[::-1])[::-1]])

    @cached_property
    def _lower(self) -> Floats:
        """(2, K+1) probabilities under both laws before each point of the grid."""
        return np.stack([_sums(self.law), _sums(self.law * self.ratios)])

    def times(self, factor: "ShiftLaw") -> "ShiftLaw":
        """The law of two independent observations on the same grid; what either has lost adds up."""
        law, first = np.convolve(self.law, factor.law), self.first + factor.first
        ratios = np.exp(self.grid * (first + np.arange(len(law))))
        # Cut off both ends where neither law has more than is negligible; they count as lost.
        used = np.flatnonzero(law * np.maximum(ratios, 1.0) > _NEGLIGIBLE)
        inside = slice(int(used[0]), int(used[-1]) + 1) if used.size else slice(0, 1)
        cut = law.copy()
        cut[inside] = 0.0
        lost = (
            self.lost[0] + factor.lost[0] + float(cut.sum()),
            self.lost[1] + factor.lost[1] + float((cut * ratios).sum()),
        )
        return ShiftLaw(law[inside], first + inside.start, self.grid, lost)


def _sums(values: Floats) -> Floats:
    """Sums of the first 0, 1, ... values, (K+1,)."""
    return np.concatenate([np.zeros(1), np.cumsum(values)])


NOTHING_SEEN = ShiftLaw(np.ones(1), 0, 1.0)
"""The laws are equal."""
LAW_SHOWN = ShiftLaw(np.zeros(1), 0, 1.0, (1.0, 1.0))
"""It is shown which of the laws it is."""


def product(shifts: Sequence[Shift], grid: float | None = None) -> ShiftLaw:
    """The law of all users' independent observations, on a grid that is given or suits them.

    It is `LAW_SHOWN`, an observation that names its law, if some user's pair is not possible.
    """
    shifts = [users for users in shifts if users.count and users.rate > 0.0 and users.shift != 0.0]
    if not shifts:
        return NOTHING_SEEN if grid is None else ShiftLaw(np.ones(1), 0, grid)
    if not all(users.possible for users in shifts):
        return LAW_SHOWN
    step = _grid_of(shifts) if grid is None else grid
    total = ShiftLaw(np.ones(1), 0, step)
    for users in shifts:
        total = total.times(counted(users, step))
    return total


def _grid_of(shifts: Sequence[Shift]) -> float:
    """The width of a grid with about `_POINTS` points in `_REACH` deviations of the loss; a wider one only spreads the
    ratio.
    """
    deviation = math.sqrt(sum(users.weight for users in shifts))
    largest = max(users.largest_loss for users in shifts)
    return max(_REACH * deviation / _POINTS, largest / _MOST_STEPS) or 1.0


class BothLaws(NamedTuple):
    """The probability of one outcome under the first and the second law."""

    first: float
    second: float


class Outcomes(NamedTuple):
    """What one user shows: 1, 0, which law it is, or something alike under both laws (the middle, or nothing)."""

    hit: BothLaws
    zero: BothLaws
    law_itself: BothLaws
    alike: float


def _outcomes(users: Shift) -> Outcomes:
    """The outcomes of one user with their probabilities under both laws; rare ones count as showing which law it is.

    1 has the probabilities rate · (low, low + d), and 0 rate · (1-high, 1-high-d).
    """
    low, high = users.low, users.low
    if users.high - users.low > _SAME:
        low, high = max(users.low - _WIDER, 0.0), users.high
    usual, rare = list[BothLaws](), [0.0, 0.0]
    for first, second in ((low, low + users.shift), (1.0 - high, 1.0 - high - users.shift)):
        if min(first, second) > _RARE:
            usual.append(BothLaws(users.rate * first, users.rate * second))
        else:
            usual.append(BothLaws(0.0, 0.0))
            rare = [rare[0] + users.rate * first, rare[1] + users.rate * max(second, 0.0)]
    return Outcomes(usual[0], usual[1], BothLaws(*rare), 1.0 - users.rate + users.rate * (high - low))


@lru_cache(maxsize=4096)
def counted(users: Shift, grid: float) -> ShiftLaw:
    """Π of the pairs of `count` users: by how many show 1, k, and how many of the others 0, z.

    The loss is k ln(hit.second/hit.first) + z ln(zero.second/zero.first).
    """
    hit, zero, law_itself, alike = _outcomes(users)
    # Under both laws: nobody shows the law itself with probability (1 - law_itself)^count; else all is lost.
    silent = [users.count * math.log1p(-min(chance, 1.0 - 2.0**-53)) for chance in law_itself]
    missed = 8.0 * tail_mass(LOG_TAIL)
    lost = (_lost(silent[0]) + missed, _lost(silent[1]) + missed)
    # k ~ Bin(count, hit), in a window that holds nearly all of it under both laws.
    shares = [_share(part, none + alike) for part, none in zip(hit, zero, strict=True)]
    ones = _window(users.count, *shares)
    odds = np.array([_odds(hit.first, zero.first + alike)])
    law = math.exp(silent[0]) * binomial_columns(int(ones[0]), int(ones[-1]), users.count, odds)
    # z ~ Bin(count - k, zero/(zero + alike)), given k: in rows k, in columns z.
    zeros = np.zeros(1)
    if zero.first > 0.0:
        shares = [_share(part, alike) for part in zero]
        most, fewest = (_window(users.count - int(k), *shares) for k in (ones[0], ones[-1]))
        zeros = np.arange(min(most[0], fewest[0]), max(most[-1], fewest[-1]) + 1.0)
        odds = np.full(ones.size, _odds(zero.first, alike))
        law = law * binomial_columns(int(zeros[0]), int(zeros[-1]), users.count - ones, odds).T
    gains = [math.log(part.second / part.first) if part.first > 0.0 else 0.0 for part in (hit, zero)]
    loss = ones[:, None] * gains[0] + zeros * gains[1]
    return _on_grid(law.ravel(), loss.ravel(), grid, lost)


def _lost(log_silent: float) -> float:
    """1 - e^log_silent, rounded up: the probability that some user shows the law itself."""
    return -math.expm1(log_silent) * (1.0 + 1e-12)


def _share(part: float, rest: float) -> float:
    """part/(part + rest), and 0 where `part` is 0, also if both are."""
    return part / (part + rest) if part > 0.0 else 0.0


def _odds(part: float, rest: float) -> float:
    """part/rest; 0 where `part` is 0, infinite where only `rest` is."""
    if part == 0.0:
        return 0.0
    return part / rest if rest > 0.0 else math.inf


def _window(count: int, first: float, second: float) -> Floats:
    """Consecutive values that hold Bin(count, p) but for a probability of e^`LOG_TAIL`, for p = `first` and
    `second`.
    """
    ends = [bernstein_window(count * p, count * p * (1.0 - p), count, LOG_TAIL) for p in (first, second)]
    return np.arange(min(end[0] for end in ends), max(end[1] for end in ends) + 1, dtype=np.float64)


def _on_grid(law: Floats, loss: Floats, grid: float, lost: tuple[float, float]) -> ShiftLaw:
    """Both laws on a grid of log-ratios: the probability of a ratio e^loss between two points goes to both, so that its
    totals under both laws remain.

    The point above gets (e^(loss - kg) - 1)/(e^g - 1), kg the point below.

    law: probability of each log-ratio `loss` under the first law. grid: g. lost: what each law has where the other has
    nothing.
    """
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
