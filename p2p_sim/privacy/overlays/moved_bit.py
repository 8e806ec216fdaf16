"""The target's bit hidden by the others' bits and by the submissions together: the theorem for any fetch law.

`docs/theorem.md` has the proof, in five steps. User i submits with probability θ_i, and then the noisy bit of user j
with probability W_ij. v is the target, p_i = Σ_(j≠v) W_ij b_j for the others' noisy bits b.

1. *Known ones*, `DenseTable.known_ones`. A bit of a user with label 1 is 1 for sure with some probability, else
   Bernoulli(α): which, is revealed. So a data set is a set C of ones among the hidden users, at most half of them,
   while the other bits are all Bernoulli(α). |C| lies in a range, and of the others so many are revealed that H bits
   are left hidden. X of these are ones, and which, is uniform among all sets of X, whatever X is.
2. *A moved bit*, `MovedLaw`. Under the view in which v's bit is one, set one more bit, J, to one with probability M(X).
   Whichever M is, the bound holds; it is chosen by dynamic programming.
3. *Bands*, `DenseTable.bands`. Given X = x, p_i lies in a band, but for users who stray.
4. *Slots*, `moved_bit_slots`: the law of the submissions, given X and a band, as two laws on grids.
5. *The flip of the target*, `symmetric_pairs.amplified_delta`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats, bernstein_window, binomial_pmf, tail_mass
from p2p_sim.privacy.overlays.moved_bit_slots import Offsets, SlotLaws, Slots
from p2p_sim.privacy.overlays.shifted_pairs import LOG_TAIL

_EVEN = 1e-12
"""Entries of a row that differ by less, as a share of their sum, count as equal."""
_TRIED = 24
"""Values of M(x), besides 0, that are tried."""
_ALIKE = 30.0
"""M is chosen for ratios r with ln ln r rounded to one in so many."""
_WIDTHS = (0.02, 0.04, 0.06, 0.08, 0.12, 0.2)
"""Widths of blocks of x, as shares of its mean, for the fewest known ones; the others have more slack."""
_USUAL = 8.0
"""Blocks are wider, up to half a deviation, where the logarithm of the probability is below the largest by more."""


@dataclass(frozen=True)
class KnownOnes:
    """Data sets with `least` to `most` known ones, of which H = `hidden` bits of others are left."""

    least: int
    most: int
    hidden: int


@dataclass(frozen=True, eq=False)
class Bands:
    """low, high: (K,) with low <= p_i <= high for all users i who do not stray, given X = x.

    ones: (K,) values x. law: (K,) their probabilities.
    """

    ones: NDArray[np.int64]
    law: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class DenseTable:
    """What is common to all targets: users' rows.

    Args:
        rows: (R, N+1), the entries of those whose labels may be seen, for the users whose bits are hidden.
        known_mass: (R,) the rest of their rows: what they fetch from users whose bits are known.
        rates: (R,) θ_i, probabilities that their labels are seen. flip_prob: α in (0, 1/2].
        revealed: so many of the hidden bits may be revealed besides, whichever these are.
    """

    rows: Floats
    known_mass: Floats
    rates: Floats
    flip_prob: float
    revealed: int = 0
    _bands: dict[tuple[KnownOnes, float], Bands] = field(default_factory=dict, init=False, repr=False)

    @property
    def others(self) -> int:
        """N, hidden users besides a target."""
        return int(self.rows.shape[1]) - 1

    @cached_property
    def offsets(self) -> Offsets:
        return Offsets(self.rows, self.rates)

    # Step 1: |C| from c to c' leaves H = N - c' hidden.

    @cached_property
    def known_ones(self) -> list[KnownOnes]:
        """Ranges that together hold every number of known ones, 0 to N/2."""
        half, ends = self.others // 2, [0]
        if self.others <= half + self.revealed:
            return []
        while ends[-1] < half:
            ends.append(min(2 * ends[-1] + 1 + self.others // 200, half))
        starts, more = [0, *(end + 1 for end in ends[:-1])], self.revealed
        return [KnownOnes(a, b + more, self.others - b - more) for a, b in zip(starts, ends, strict=True)]

    # Step 3: Pr[p_i outside | X = x] <= 2e^-L, and all strays together cost 2e^-L Σ_i θ_i max_j W_ij.

    def strays(self, log_stray: float) -> float:
        """2e^-L Σ_i θ_i max_j W_ij, log_stray = -L; 0 where all rows are even, and nobody can stray."""
        return 0.0 if self._even else 2.0 * math.exp(log_stray) * self._exposed

    def bands(self, known_ones: KnownOnes, log_stray: float) -> Bands:
        """Bands which one user leaves with probability at most 2 exp(log_stray)."""
        if (known_ones, log_stray) not in self._bands:
            self._bands[known_ones, log_stray] = self._make_bands(known_ones, log_stray)
        return self._bands[known_ones, log_stray]

    def _make_bands(self, known_ones: KnownOnes, log_stray: float) -> Bands:
        hidden, alpha = known_ones.hidden, self.flip_prob
        first, last = bernstein_window(hidden * alpha, hidden * alpha * (1.0 - alpha), hidden, LOG_TAIL)
        ones = np.arange(first, last + 1)
        sums, size = self._sums, self.rows.shape[1]
        total = sums[:, -1:]
        # For certain: c + x of the least, or c' + x of the largest, entries.
        least = sums[:, known_ones.least + ones]
        most = total - sums[:, size - np.minimum(known_ones.most + ones, size)]
        if self._even:
            low, high = least, most
        else:
            # The mean ± t: known ones at the least entries, known zeros at the largest, or the other way round.
            start = sums[:, [known_ones.least]]
            low = start + (sums[:, [known_ones.least + hidden]] - start) * (ones / hidden)
            high = total - sums[:, [hidden + 1]] + (sums[:, [hidden + 1]] - sums[:, [1]]) * (ones / hidden)
            reach = self._reach(hidden, ones, -log_stray)
            low, high = np.maximum(least, low - reach) * (1.0 - 1e-9), np.minimum(most, high + reach) + 1e-9
        high = np.minimum(high + self.known_mass[:, None], 1.0)
        law = binomial_pmf(first, last, hidden, alpha) * (1.0 + 1e-9)
        return Bands(ones, law, np.maximum(low.min(axis=0), 0.0), high.max(axis=0))

    def _reach(self, hidden: int, ones: NDArray[np.int64], budget: float) -> Floats:
        """t: how far x entries drawn without replacement stray from their mean, but with probability exp(-budget).

        Hoeffding (1963): moment generating functions are at most those of draws with replacement, for which his own and
        Bernstein's inequality hold. The zeros may be drawn in place of the ones. The variance of some of the entries is
        at most that of all, times how many more these are.
        """
        width, variance = self._range, self._variance
        drawn = np.minimum(ones, hidden - ones)
        even = width * np.sqrt(drawn * (budget / 2.0))
        part = width * (budget / 3.0)
        rare = part + np.sqrt(part**2 + 2.0 * budget * drawn * variance * (self.rows.shape[1] / hidden))
        return np.asarray(np.minimum(even, rare))

    @cached_property
    def _sums(self) -> Floats:
        """Sums of the k least entries of each row, (R, N+2)."""
        sums = np.zeros((self.rows.shape[0], self.rows.shape[1] + 1))
        np.cumsum(np.sort(self.rows, axis=1), axis=1, out=sums[:, 1:])
        return sums

    @cached_property
    def _range(self) -> Floats:
        """The largest less the least entry of each row, (R, 1)."""
        return np.asarray(self.rows.max(axis=1) - self.rows.min(axis=1))[:, None]

    @cached_property
    def _variance(self) -> Floats:
        """Of the entries of each row, (R, 1)."""
        return np.asarray(self.rows.var(axis=1))[:, None] * (1.0 + 1e-9)

    @cached_property
    def _exposed(self) -> float:
        """Expected number of users who show the target's bit or that of one other user, at most."""
        return float(self.rates @ self.rows.max(axis=1)) * (1.0 + 1e-9)

    @cached_property
    def _even(self) -> bool:
        return bool((self._range <= _EVEN * self._sums[:, -1:]).all())


@dataclass(frozen=True, eq=False)
class Block:
    """Values x that are given one band, by their places, and the laws of its slots."""

    inside: slice
    laws: SlotLaws


@dataclass(frozen=True, eq=False)
class MovedLaw:
    """Step 2, Q1 against Q0: for b with x ones Q1 has the density Pr[b] ( (1-M(x)) Λ_main + S(x) Λ_side ).

    M may be any function of x in each direction. moved: what share of the shift is best moved.
    """

    known_ones: KnownOnes
    bands: Bands
    blocks: list[Block]
    flip_prob: float
    moved: float
    _best: dict[tuple[int, bool], Floats] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def _lifted(self) -> Floats:
        """S(x) / M(x-1) = x (1-α) / ((H-x+1) α): Pr[X = x-1] / Pr[X = x], times how many bits could be set."""
        x = self.bands.ones
        return np.asarray(x * (1.0 - self.flip_prob) / ((self.known_ones.hidden - x + 1.0) * self.flip_prob))

    def divergence(self, chance: Floats, ratio: float, up: bool) -> float:
        """Σ_x Pr[X = x] HS_ratio given x, with M(x) = `chance`, of Q1 from Q0 if up, else of Q0 from Q1."""
        came = np.append(0.0, chance[:-1]) * self._lifted * (1.0 + (1e-12 if up else -1e-12))
        stay = 1.0 - chance
        parts = [each.laws.divergence(stay[each.inside], came[each.inside], ratio, up=up) for each in self.blocks]
        most = stay + came if up else 1.0
        return float(self.bands.law @ np.minimum(np.concatenate(parts), most * (1.0 + 1e-12)))

    def even(self) -> Floats:
        """M(x) = z (H-x) / (H (1-α)), by which each bit is set with one probability."""
        x, hidden = self.bands.ones, self.known_ones.hidden
        return np.asarray(np.minimum(self.moved * (hidden - x) / (hidden * (1.0 - self.flip_prob)), 1.0))

    def best(self, ratio: float, up: bool) -> Floats:
        """The best M(x) of a few values, for a ratio near this one."""
        power = round(_ALIKE * math.log(max(math.log(ratio), 1e-9)))
        if (power, up) not in self._best:
            self._best[power, up] = self._program(math.exp(math.exp(power / _ALIKE)), up)
        return self._best[power, up]

    def _program(self, ratio: float, up: bool) -> Floats:
        """Dynamic programming: the least rest_x(M(x-1)) = min over M(x) of Pr[X = x] HS_x + rest_(x+1)(M(x))."""
        if self.moved == 0.0:
            return np.zeros(self.bands.ones.size)
        tried = np.append(0.0, np.geomspace(min(0.01, self.moved / 4.0), 1.0, _TRIED))
        rest, choice = np.zeros(tried.size), np.zeros((self.bands.ones.size, tried.size), dtype=np.int64)
        # From the last x to the first: for each M(x-1), in rows, the best M(x), in columns.
        for block in reversed(self.blocks):
            for k in reversed(range(block.inside.start, block.inside.stop)):
                came = (self._lifted[k] * tried if k else np.zeros(tried.size))[:, None]
                stay, came = np.broadcast_arrays(1.0 - tried[None, :], came)
                total = self.bands.law[k] * block.laws.divergence(stay, came, ratio, up=up, rough=True) + rest
                if self.bands.ones[k] == self.known_ones.hidden:  # no zero is left
                    total[:, 1:] = np.inf
                choice[k] = total.argmin(axis=1)
                rest = total[np.arange(tried.size), choice[k]]
        # From the first x to the last: the choices that follow from M = 0 before it.
        chance, at = np.zeros(self.bands.ones.size), 0
        for k, line in enumerate(choice):
            at = int(line[at])
            chance[k] = tried[at]
        return chance


@dataclass(frozen=True, eq=False)
class MovedBit:
    """The theorem's bound for one target, or for several together, whichever data set it is and for any L:

    HS_ratio <= strays + missed + the largest `divergence` over the known ones, in both directions.
    """

    table: DenseTable
    slots: Slots
    _laws: dict[tuple[int, float], MovedLaw] = field(default_factory=dict, init=False, repr=False)

    def divergence(self, ratio: float, known_ones: int, log_stray: float, *, up: bool, enough: float = 0.0) -> float:
        """HS_ratio between Q1 and Q0 if nobody strays, for known ones given by their place.

        The mean over J of the second slots' law is at most (N+1)/H times that over all columns. M is the best one only
        if M in proportion to the zeros gives more than `enough`.
        """
        law = self._law(known_ones, log_stray)
        share = 1.0 if self.slots.plan.grid == 1.0 else (self.table.others + 1.0) / law.known_ones.hidden
        value = share * law.divergence(law.even(), ratio, up)
        return value if value <= enough else min(value, share * law.divergence(law.best(ratio, up), ratio, up))

    @property
    def missed(self) -> float:
        """Probability of the values x that are left out, under either law."""
        return 8.0 * tail_mass(LOG_TAIL)

    def _law(self, known_ones: int, log_stray: float) -> MovedLaw:
        if (known_ones, log_stray) not in self._laws:
            numbers = self.table.known_ones[known_ones]
            bands = self.table.bands(numbers, log_stray)
            blocks = list(self._blocks(bands, _WIDTHS[min(known_ones, len(_WIDTHS) - 1)]))
            law = MovedLaw(numbers, bands, blocks, self.table.flip_prob, self.slots.plan.moved)
            self._laws[known_ones, log_stray] = law
        return self._laws[known_ones, log_stray]

    def _blocks(self, bands: Bands, share: float) -> Iterator[Block]:
        """Runs of values x, each with the band that holds all of theirs."""
        mean = float(bands.law @ bands.ones)
        deviation = math.sqrt(mean * (1.0 - self.table.flip_prob))
        width, start = max(1, round(share * mean)), 0
        while start < bands.ones.size:
            rare = -math.log(max(float(bands.law[start]), 1e-300) / float(bands.law.max()))
            wide = max(width, int(min(width * rare / _USUAL, 0.5 * deviation)))
            inside = slice(start, min(start + wide, bands.ones.size))
            yield Block(inside, self.slots.laws(float(bands.low[inside].min()), float(bands.high[inside].max())))
            start = inside.stop
