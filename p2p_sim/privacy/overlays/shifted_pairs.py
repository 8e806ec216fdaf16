"""Products of pairs of laws (Bernoulli(p), Bernoulli(p + d)), as likelihood ratios on one grid.

A user is seen with probability `rate`. She then shows 1 with probability p under the first law, and p + d under the
second. p lies in an interval [low, high], its *band*. Her pair is a post-processing of three outcomes. The outcome 1
has probabilities (low, low + d). The outcome 0 has probabilities (1-high, 1-high-d). From the third outcome, the
middle, she shows 1 with probability (p-low)/(high-low) under both laws.

The *curve* of a pair is its hockey-stick divergence HS_r as a function of the ratio r. HS_r is the sum of [first law -
r · second law]₊ over the outcomes. The curve grows with |d| (for d of one sign), with the rate, and with the band. A
pair with a smaller curve is a post-processing of a pair with a larger curve (Blackwell). So a product of such larger
pairs bounds the product of the original pairs. It also bounds mixtures of products of original pairs.

For users with equal pairs only two counts matter: how many show 1, and how many 0. Each combination of the two counts
has a likelihood ratio. The logarithm of the ratio lies between two neighbouring points of the grid, j·g and (j+1)·g,
where g is the grid's step. The probability of the combination is split between these two points, such that their sum is
unchanged under both laws. A split only spreads the ratio. So no divergence falls (Blackwell).

Rounding: a band narrower than `_SAME` = 1e-13 counts as a single value p; wider bands are widened by `_WIDER`. So an
outcome's probability q has an error of at most 1e-13. Outcomes of probability at most `_RARE` = 1e-5 count as showing
which of the two laws holds. For all other outcomes the error is at most 1e-8 of q. Let m be how many users of a group
show an outcome of probability q, and E m the mean of m. A law's relative error is then about 1e-13 Σ (m - E m)/q. The
sum is over all outcomes of all groups.
Consider the outcomes with q near 1e-5. The total number of users who show these outcomes is at most about 64 above its
mean. By Bernstein's inequality this holds except with probability e^-64 (-64 is `LOG_TAIL`). Apart from this exception
the error is below `SLACK`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats, bernstein_window, binomial_columns, tail_mass

LOG_TAIL = -64.0
"""Logarithm of the probability that is left out at each end of a window. This probability is added to the bound."""
SLACK = 1e-6
"""Relative error in a law's probabilities for which the bounds allow."""
_NEAR = 1e-8
"""Relative error in a likelihood ratio for which the bounds allow."""
_SAME, _WIDER, _RARE = 1e-13, 1e-7, 1e-5
"""_SAME: a narrower band counts as a single value p. _WIDER: by how much other bands are widened. _RARE: an outcome of
at most this probability counts as showing which of the two laws holds.

To widen a band, only `low` is moved. The end `high` needs no move: `DenseTable.bands` has already raised it by 1e-9, or
its rounding error is below `_SAME`."""
_POINTS = 1200
"""Approximate number of points of the grid."""
_REACH = 20.0
"""Approximate number of standard deviations of the loss that the grid covers."""
_MOST_STEPS = 1e5
"""Largest number of grid steps in one user's largest loss. This loss may be far above the standard deviation."""
_NEGLIGIBLE = 1e-30
"""Ends of a product's grid are cut off where both laws' probabilities are below this. These are added to `lost`."""


@dataclass(frozen=True)
class Shift:
    """The pair of laws of each of `count` users, who is seen with probability `rate` and then shows 1 or 0.

    She shows 1 with probability p under the first law, and p + `shift` under the second. p may have any value in [low,
    high]. The shift may be negative.
    """

    rate: float
    low: float
    high: float
    shift: float
    count: int

    @property
    def weight(self) -> float:
        """Approximate variance of the sum of all users' privacy losses: count · rate · shift² (1/low + 1/(1-high)).

        It sets the step of the grid for losses. low and 1-high count as at least 0.001, so that the result is finite.
        """
        spread = 1.0 / max(self.low, 1e-3) + 1.0 / max(1.0 - self.high, 1e-3)
        return self.count * self.rate * self.shift**2 * spread

    @property
    def largest_loss(self) -> float:
        """The largest absolute privacy loss of a user whose probability of a 1 under the first law is `low` or `high`.

        Only the outcome 1 at `low` and the outcome 0 at `high` matter. Outcomes with a probability of at most 1e-5
        under either law are left out. The result is 0 if no outcome is left.
        """
        pairs = ((self.low, self.low + self.shift), (1.0 - self.high, 1.0 - self.high - self.shift))
        return max(
            (abs(math.log(second / first)) for first, second in pairs if min(first, second) > _RARE), default=0.0
        )

    @property
    def possible(self) -> bool:
        """Whether the probabilities p and p + `shift` of a 1 lie in [0, 1] for every p in [`low`, `high`].

        An excess over 1 of up to 1e-13 is allowed.
        """
        return min(self.low, self.low + self.shift) >= 0.0 and max(self.high, self.high + self.shift) <= 1.0 + _SAME


@dataclass(frozen=True, eq=False)
class ShiftLaw:
    """Two laws of an observation, given by the likelihood ratio of the second law to the first, on a grid.

    law: (K,), the probabilities under the first law of the ratios exp((first + i) · grid), i = 0 to K-1. lost: for each
    law, the probability of outcomes that were left out or are impossible under the other law.
    """

    law: Floats
    first: int
    grid: float
    lost: tuple[float, float] = (0.0, 0.0)

    @cached_property
    def ratios(self) -> Floats:
        """The likelihood ratios of the second law to the first at the points of the grid, (K,), ascending."""
        return np.asarray(np.exp(self.grid * (self.first + np.arange(len(self.law)))))

    def above(self, ratio: Floats) -> Floats:
        """The hockey-stick divergence Σ [second law - ratio · first law]₊, rounded up, for each ratio of at least 0.

        It is P₂(E) - ratio · P₁(E) + lost[1]. E is the event that the likelihood ratio exceeds `ratio`. P₁ and P₂ are
        the probabilities under the two laws. The grid lacks some outcomes, with probability lost[1] under the second
        law. The result has the shape of `ratio`.
        """
        lowered = ratio * (1.0 - _NEAR)
        first, second = self._upper[:, np.searchsorted(self.ratios, lowered, side="right")]
        gained = second * (1.0 + SLACK) - lowered * first * (1.0 - SLACK)
        return np.asarray(np.maximum(gained, 0.0) + self.lost[1])

    def below(self, ratio: Floats) -> Floats:
        """The hockey-stick divergence Σ [first law - ratio · second law]₊, rounded up, for each ratio of at least 0.

        It is P₁(E) - ratio · P₂(E) + lost[0]. E is the event that the likelihood ratio is below 1/ratio. P₁ and P₂ are
        the probabilities under the two laws. The grid lacks some outcomes, with probability lost[0] under the first
        law. The result has the shape of `ratio`.
        """
        lowered = ratio * (1.0 - _NEAR)
        first, second = self._lower[:, np.searchsorted(self.ratios, 1.0 / np.maximum(lowered, 1e-300), side="left")]
        gained = first * (1.0 + SLACK) - lowered * second * (1.0 - SLACK)
        return np.asarray(np.maximum(gained, 0.0) + self.lost[0])

    @cached_property
    def _upper(self) -> Floats:
        """(2, K+1): sums of probabilities, in row 0 under the first law, in row 1 under the second.

        Column i has the sums over the points i, i+1, ..., K-1 of the grid. Column K is 0.
        """
        return np.stack([_sums(self.law[::-1])[::-1], _sums((self.law * self.ratios)[::-1])[::-1]])

    @cached_property
    def _lower(self) -> Floats:
        """(2, K+1): sums of probabilities, in row 0 under the first law, in row 1 under the second.

        Column i has the sums over the first i points of the grid.
        """
        return np.stack([_sums(self.law), _sums(self.law * self.ratios)])

    def times(self, factor: "ShiftLaw") -> "ShiftLaw":
        """The two laws of this observation and an independent one together. Both must have the same step of the grid.

        Likelihood ratios multiply, so their logarithms add up. The probabilities `lost` add up as well. Points of
        negligible probability at the ends of the grid are cut off and added to `lost`.
        """
        law, first = np.convolve(self.law, factor.law), self.first + factor.first
        ratios = np.exp(self.grid * (first + np.arange(len(law))))
        # Cut off both ends where both laws are negligible; what is cut off counts as lost.
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
    """The sums of the first 0, 1, ..., K of K values, (K+1,)."""
    return np.concatenate([np.zeros(1), np.cumsum(values)])


NOTHING_SEEN = ShiftLaw(np.ones(1), 0, 1.0)
"""An observation whose two laws are equal."""
LAW_SHOWN = ShiftLaw(np.zeros(1), 0, 1.0, (1.0, 1.0))
"""An observation that shows which of its two laws holds."""


def product(shifts: Sequence[Shift], grid: float | None = None) -> ShiftLaw:
    """The law of the likelihood ratio of all users' independent observations, on a grid of log-ratios.

    The result bounds the divergence for all values of p in the users' bands.

    Args:
        shifts: groups of users with equal pairs.
        grid: the step of the grid. None means about 1/60 of the standard deviation of the sum of all losses. The step
            is larger if one user's largest loss would otherwise take more than 1e5 steps.

    Returns:
        `LAW_SHOWN`, an observation that reveals which law holds, if some p or p + shift could lie outside [0, 1].
    """
    shifts = [users for users in shifts if users.count and users.rate > 0.0 and users.shift != 0.0]
    if not all(users.possible for users in shifts):
        return LAW_SHOWN
    if grid is None:
        # About `_POINTS` points in `_REACH` deviations of the loss; a coarser grid only spreads the loss.
        deviation = math.sqrt(sum(users.weight for users in shifts))
        largest = max((users.largest_loss for users in shifts), default=0.0)
        grid = max(_REACH * deviation / _POINTS, largest / _MOST_STEPS) or 1.0
    total = ShiftLaw(np.ones(1), 0, grid)
    for users in shifts:
        total = total.times(counted(users, grid))
    return total


class Outcomes(NamedTuple):
    """Probabilities that a user shows 1 (`hit`), 0 (`zero`), or which law holds (`law_itself`): a pair for the two
    laws.

    alike: the probability that she shows none of these three things or is not seen. It is equal under both laws.
    """

    hit: list[float]
    zero: list[float]
    law_itself: list[float]
    alike: float


def _outcomes(users: Shift) -> Outcomes:
    """The probabilities that a single user shows 1, 0, which law holds, or none of these, in this order.

    The first three are pairs of probabilities under the two laws. The last is equal under both laws. Let d =
    `users.shift`. The probabilities under the two laws are rate · (low, low + d) for 1, and rate · (1-high, 1-high-d)
    for 0. Before, low is lowered by 1e-7, to 0 at least. For a band of at most 1e-13, high is set to low instead.
    The outcome 1 counts as showing which law holds if low or low + d is at most 1e-5. The outcome 0 counts as showing
    which law holds if 1-high or 1-high-d is at most 1e-5.
    """
    low, high = users.low, users.low
    if users.high - users.low > _SAME:
        low, high = max(users.low - _WIDER, 0.0), users.high
    usual, rare = list[list[float]](), [0.0, 0.0]
    for first, second in ((low, low + users.shift), (1.0 - high, 1.0 - high - users.shift)):
        if min(first, second) > _RARE:
            usual.append([users.rate * first, users.rate * second])
        else:
            usual.append([0.0, 0.0])
            rare = [rare[0] + users.rate * first, rare[1] + users.rate * max(second, 0.0)]
    return Outcomes(usual[0], usual[1], rare, 1.0 - users.rate + users.rate * (high - low))


@lru_cache(maxsize=4096)
def counted(users: Shift, grid: float) -> ShiftLaw:
    """The two laws of what `users.count` users with equal pairs show together.

    The result has the probabilities, under the first law, of the likelihood ratios of the second law to the first. The
    logarithms of the ratios lie on a grid of step `grid`. Let k users show 1, and z users show 0. The log-ratio is k
    ln(b₁/a₁) + z ln(b₀/a₀). a₁ and b₁ are the probabilities of a 1 under the first and the second law. a₀ and b₀ are
    the probabilities of a 0. Apart from rounding, all approximations only raise divergences. The probability of a
    log-ratio between two points of the grid is split between both points. Rare counts that are left out add to `lost`,
    as does the case that any user shows which law holds.
    """
    hit, zero, law_itself, alike = _outcomes(users)
    # With probability (1 - law_itself)^count nobody shows which law holds. All other outcomes count as lost.
    silent = [users.count * math.log1p(-min(chance, 1.0 - 2.0**-53)) for chance in law_itself]
    missed = 8.0 * tail_mass(LOG_TAIL)
    lost = [-math.expm1(logarithm) * (1.0 + 1e-12) + missed for logarithm in silent]
    # k ~ Bin(count, hit/(hit + zero + alike)), in a window with nearly all of its probability under both laws.
    shares = [_share(part, none + alike) for part, none in zip(hit, zero, strict=True)]
    ones = _window(users.count, *shares)
    odds = np.array([_odds(hit[0], zero[0] + alike)])
    law = math.exp(silent[0]) * binomial_columns(int(ones[0]), int(ones[-1]), users.count, odds)
    # z ~ Bin(count - k, zero/(zero + alike)), given k. Rows are for k, columns for z.
    zeros = np.zeros(1)
    if zero[0] > 0.0:
        shares = [_share(part, alike) for part in zero]
        most, fewest = (_window(users.count - int(k), *shares) for k in (ones[0], ones[-1]))
        zeros = np.arange(min(most[0], fewest[0]), max(most[-1], fewest[-1]) + 1.0)
        odds = np.full(ones.size, _odds(zero[0], alike))
        law = law * binomial_columns(int(zeros[0]), int(zeros[-1]), users.count - ones, odds).T
    gains = [math.log(part[1] / part[0]) if part[0] > 0.0 else 0.0 for part in (hit, zero)]
    loss = ones[:, None] * gains[0] + zeros * gains[1]
    return _on_grid(law.ravel(), loss.ravel(), grid, (lost[0], lost[1]))


def _share(part: float, rest: float) -> float:
    """part/(part + rest); 0 where `part` is 0."""
    return part / (part + rest) if part > 0.0 else 0.0


def _odds(part: float, rest: float) -> float:
    """part/rest; 0 where `part` is 0, infinite where only `rest` is 0."""
    if part == 0.0:
        return 0.0
    return part / rest if rest > 0.0 else math.inf


def _window(count: int, first: float, second: float) -> Floats:
    """Consecutive whole numbers that hold Bin(count, p), except with probability at most e^-64 at each end.

    Args:
        first, second: the two values of p for which this holds.
    """
    ends = [bernstein_window(count * p, count * p * (1.0 - p), count, LOG_TAIL) for p in (first, second)]
    return np.arange(min(end[0] for end in ends), max(end[1] for end in ends) + 1, dtype=np.float64)


def _on_grid(law: Floats, loss: Floats, grid: float, lost: tuple[float, float]) -> ShiftLaw:
    """Two laws of an observation with J outcomes, put on a grid of log-ratios with step g = `grid`.

    An outcome's log-ratio lies between two neighbouring points of the grid, j·g and (j+1)·g. The probability of the
    outcome is split between these two points, such that their sum is unchanged under both laws. The upper point gets
    the share (e^(loss - jg) - 1)/(e^g - 1).

    Args:
        law: (J,), the probability of each outcome under the first law. loss: (J,), its log-ratio of the second law to
        the first. lost: for each law, the probability of outcomes that are not among the J; the result has the same
        `lost`.
    """
    used = law > 0.0
    if not used.any():  # the probability that nobody shows which law holds underflows to 0
        return ShiftLaw(np.zeros(1), 0, grid, lost)
    law, loss = law[used], loss[used]
    below = np.floor(loss / grid + 1e-12).astype(np.int64)
    share = np.clip(np.expm1(loss - below * grid) / math.expm1(grid), 0.0, 1.0)
    first = int(below.min())
    size = int(below.max()) - first + 2
    spread = np.bincount(below - first, law * (1.0 - share), size)
    spread += np.bincount(below - first + 1, law * share, size)
    return ShiftLaw(np.asarray(spread, dtype=np.float64), first, grid, lost)
