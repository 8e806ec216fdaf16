"""The target's bit hidden by the others' bits and by the submissions together: the theorem for any fetch law.

`docs/theorem.md` has the proof, in five steps. User i submits with probability θ_i, and then the noisy bit of user j
with probability W_ij. v is the target, p_i = Σ_(j≠v) W_ij b_j for the others' noisy bits b. The result: for every data
set, every L and every choice of M, the worst |C| and the worse direction of

    δ(ε) <= c · ( strays(L) + missed + Σ_x Pr[X = x] · HS_r( (1-M(x)) Λ_main + S(x) Λ_side  against  1 ) ).

1. *Known ones*, `DenseTable.known_ones`. A bit of a user with label 1 is 1 for sure with some probability, else
   Bernoulli(α): which, is revealed. So a data set is a set C of ones among the hidden users, at most half of them,
   while the other bits are all Bernoulli(α). |C| lies in a range, and of the others so many are revealed that H bits
   are left hidden. X of these are ones, and which, is uniform among all sets of X, whatever X is.
2. *A moved bit*, `MovedLaw`. Q0 is the law of the others' bits and the submissions if v's bit is 0. Q1, if it is 1,
   sets one more hidden bit, J, to one with probability M(X). Whichever M is, the bound holds; it is chosen by dynamic
   programming. S(x) is the density of what was moved, from x-1 ones to x.
3. *Bands*, `DenseTable.bands`. Given X = x, p_i lies in a band [low, high], but for users who stray.
4. *Slots*, `moved_bit_slots.Slots`. Λ_main and Λ_side, the likelihood ratios of Q1 to Q0 of the submissions, given X
   and a band, if nothing was moved and if a bit was. Each is a law on a grid. J is averaged over all N+1 columns in
   place of the H hidden others, which costs a factor (N+1)/H.
5. *The flip of the target*, `symmetric_pairs.amplified_delta`: c = 1-α-αe^ε, r = ((1-α)e^ε - α)/c.

`MovedBit` puts the steps together. `moved_bit_targets` searches for the best L, and for the worst |C| and direction.
In the code `up` is HS_r(Q1 | Q0), else HS_r(Q0 | Q1); `move_chances` is M, `stay` 1-M, and `moved` S.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats, bernstein_window, binomial_pmf, tail_mass
from p2p_sim.privacy.overlays.moved_bit_offsets import Offsets
from p2p_sim.privacy.overlays.moved_bit_slots import SlotLaws, Slots
from p2p_sim.privacy.overlays.shifted_pairs import LOG_TAIL

_EVEN = 1e-12
"""Entries of a row that differ by less, as a share of their sum, count as equal."""
_CHANCES = 24
"""Values of M(x), besides 0, among which the dynamic program chooses."""
_SIMILAR_RATIOS = 30.0
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
    """Steps 1 and 3: the rows of a table of fetch probabilities, which all targets have in common.

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
        """u_ij = W_ij less the median of row i, which the side slots are shifted by."""
        return Offsets(self.rows, self.rates)

    @cached_property
    def known_ones(self) -> list[KnownOnes]:
        """Step 1: ranges c <= |C| <= c' that together hold 0 to N/2; each leaves H = N - c' bits hidden."""
        half, ends = self.others // 2, [0]
        if self.others <= half + self.revealed:
            return []
        while ends[-1] < half:
            ends.append(min(2 * ends[-1] + 1 + self.others // 200, half))
        starts, more = [0, *(end + 1 for end in ends[:-1])], self.revealed
        return [KnownOnes(a, b + more, self.others - b - more) for a, b in zip(starts, ends, strict=True)]

    def strays(self, log_stray: float) -> float:
        """Step 3: all strays together cost 2e^-L Σ_i θ_i max_j W_ij, -L = log_stray; 0 where all rows are even."""
        return 0.0 if self._even else 2.0 * math.exp(log_stray) * self.exposure

    def bands(self, known_ones: KnownOnes, log_stray: float) -> Bands:
        """Step 3: bands with Pr[p_i outside | X = x] <= 2e^-L for every user i and every x, -L = log_stray."""
        if (known_ones, log_stray) not in self._bands:
            self._bands[known_ones, log_stray] = self._make_bands(known_ones, log_stray)
        return self._bands[known_ones, log_stray]

    def _make_bands(self, known_ones: KnownOnes, log_stray: float) -> Bands:
        """max(least sum, mean - t) <= p_i <= min(largest sum, mean + t), over all rows i and all places of C."""
        hidden, alpha = known_ones.hidden, self.flip_prob
        # X ~ Bin(H, α), but for tails that `MovedBit.missed` charges.
        first, last = bernstein_window(hidden * alpha, hidden * alpha * (1.0 - alpha), hidden, LOG_TAIL)
        ones = np.arange(first, last + 1)
        law = binomial_pmf(first, last, hidden, alpha) * (1.0 + 1e-9)
        sums, size = self._sums, self.rows.shape[1]
        total = sums[:, -1:]
        # For certain p_i sums c + x of the least, or c' + x of the largest, entries.
        least = sums[:, known_ones.least + ones]
        most = total - sums[:, size - np.minimum(known_ones.most + ones, size)]
        if self._even:
            low, high = least, most
        else:
            # The mean ± t: known ones at the least entries, known zeros at the largest, or the other way round.
            start = sums[:, [known_ones.least]]
            low = start + (sums[:, [known_ones.least + hidden]] - start) * (ones / hidden)
            high = total - sums[:, [hidden + 1]] + (sums[:, [hidden + 1]] - sums[:, [1]]) * (ones / hidden)
            deviation = self._deviation(hidden, ones, -log_stray)
            low, high = np.maximum(least, low - deviation) * (1.0 - 1e-9), np.minimum(most, high + deviation) + 1e-9
        # Known bits may all be ones. One band for all rows.
        high = np.minimum(high + self.known_mass[:, None], 1.0)
        return Bands(ones, law, np.maximum(low.min(axis=0), 0.0), high.max(axis=0))

    def _deviation(self, hidden: int, ones: NDArray[np.int64], exponent: float) -> Floats:
        """t: by how much x entries drawn without replacement deviate from their mean, but with probability e^-L.

        Hoeffding's t is the range times sqrt(x L/2), Bernstein's a + sqrt(a² + 2 L x variance), a = range · L/3. Both
        hold for draws with replacement, whose moment generating functions are no smaller (Hoeffding 1963). The zeros
        may be drawn in place of the ones: H - x for x. The variance of some of the entries is at most that of all,
        times how many more these are.

        Returns:
            (R, K), by rows and by `ones`. exponent: L.
        """
        width, variance = self._range, np.asarray(self.rows.var(axis=1))[:, None] * (1.0 + 1e-9)
        drawn = np.minimum(ones, hidden - ones)
        hoeffding = width * np.sqrt(drawn * (exponent / 2.0))
        part = width * (exponent / 3.0)
        bernstein = part + np.sqrt(part**2 + 2.0 * exponent * drawn * variance * (self.rows.shape[1] / hidden))
        return np.asarray(np.minimum(hoeffding, bernstein))

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
    def exposure(self) -> float:
        """Σ_i θ_i max_j W_ij, rounded up: at most so many users show the target's bit or that of one other user."""
        return float(self.rates @ self.rows.max(axis=1)) * (1.0 + 1e-9)

    @cached_property
    def _even(self) -> bool:
        """Whether all entries of each row are equal, so that nobody can stray."""
        return bool((self._range <= _EVEN * self._sums[:, -1:]).all())


@dataclass(frozen=True, eq=False)
class Block:
    """Values x that share one band, by their indices, and the laws of its slots."""

    inside: slice
    laws: SlotLaws


@dataclass(frozen=True, eq=False)
class MovedLaw:
    """Step 2, Q1 against Q0: for b with x ones Q1 has the density Pr[b] ( (1-M(x)) Λ_main + S(x) Λ_side ).

    M may be any function of x in each direction. moved_share: what share of the shift is best moved, about.
    """

    known_ones: KnownOnes
    bands: Bands
    blocks: list[Block]
    flip_prob: float
    moved_share: float
    _best: dict[tuple[int, bool], Floats] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def _moved_weights(self) -> Floats:
        """S(x) / M(x-1) = x (1-α) / ((H-x+1) α): Pr[X = x-1] / Pr[X = x], times how many bits could be set."""
        x = self.bands.ones
        return np.asarray(x * (1.0 - self.flip_prob) / ((self.known_ones.hidden - x + 1.0) * self.flip_prob))

    def divergence(self, move_chances: Floats, ratio: float, up: bool) -> float:
        """Σ_x Pr[X = x] HS_ratio given x, of Q1 from Q0 if up, else of Q0 from Q1. move_chances: (K,) M(x)."""
        moved = np.append(0.0, move_chances[:-1]) * self._moved_weights * (1.0 + (1e-12 if up else -1e-12))
        stay = 1.0 - move_chances
        parts = [block.laws.divergence(stay[block.inside], moved[block.inside], ratio, up=up) for block in self.blocks]
        # A divergence is at most the mass of the first law.
        most = stay + moved if up else 1.0
        return float(self.bands.law @ np.minimum(np.concatenate(parts), most * (1.0 + 1e-12)))

    def proportional_chances(self) -> Floats:
        """M(x) = z (H-x) / (H (1-α)), z the share that is moved: each bit is set with one probability."""
        x, hidden = self.bands.ones, self.known_ones.hidden
        return np.asarray(np.minimum(self.moved_share * (hidden - x) / (hidden * (1.0 - self.flip_prob)), 1.0))

    def best_chances(self, ratio: float, up: bool) -> Floats:
        """The M(x) of least divergence among a few values, for a ratio near this one."""
        power = round(_SIMILAR_RATIOS * math.log(max(math.log(ratio), 1e-9)))
        if (power, up) not in self._best:
            self._best[power, up] = self._optimise(math.exp(math.exp(power / _SIMILAR_RATIOS)), up)
        return self._best[power, up]

    def _optimise(self, ratio: float, up: bool) -> Floats:
        """Dynamic programming: rest_x(M(x-1)) = min over M(x) of Pr[X = x] HS_x(M(x-1), M(x)) + rest_(x+1)(M(x))."""
        if self.moved_share == 0.0:
            return np.zeros(self.bands.ones.size)
        chances = np.append(0.0, np.geomspace(min(0.01, self.moved_share / 4.0), 1.0, _CHANCES))
        rest, choice = np.zeros(chances.size), np.zeros((self.bands.ones.size, chances.size), dtype=np.int64)
        # From the last x to the first: for each M(x-1), in rows, the best M(x), in columns.
        for block in reversed(self.blocks):
            for k in reversed(range(block.inside.start, block.inside.stop)):
                moved = (self._moved_weights[k] * chances if k else np.zeros(chances.size))[:, None]
                stay, moved = np.broadcast_arrays(1.0 - chances[None, :], moved)
                total = self.bands.law[k] * block.laws.divergence(stay, moved, ratio, up=up, rough=True) + rest
                if self.bands.ones[k] == self.known_ones.hidden:  # M(H) = 0: no zero is left to be set
                    total[:, 1:] = np.inf
                choice[k] = total.argmin(axis=1)
                rest = total[np.arange(chances.size), choice[k]]
        # From the first x to the last: the choices that follow from M = 0 before it.
        best, column = np.zeros(self.bands.ones.size), 0
        for k, line in enumerate(choice):
            column = int(line[column])
            best[k] = chances[column]
        return best


@dataclass(frozen=True, eq=False)
class MovedBit:
    """All steps together, for one target, or for several bounded at once, whichever data set it is and for any L:

    HS_ratio <= table.strays(-L) + missed + the largest `divergence` over the known ones, in both directions.
    """

    table: DenseTable
    slots: Slots
    _laws: dict[tuple[int, float], MovedLaw] = field(default_factory=dict, init=False, repr=False)

    def divergence(self, ratio: float, known_ones: int, log_stray: float, *, up: bool, enough: float = 0.0) -> float:
        """(N+1)/H · min over M of Σ_x Pr[X = x] HS_ratio given x: between Q1 and Q0 if nobody strays.

        J is one of H users, and the law of the second slots is averaged over all N+1 columns; hence the factor, which
        is 1 where there are no side slots. M is the best one only if M in proportion to the zeros gives more than
        `enough`. known_ones: an index into `table.known_ones`. log_stray: -L.
        """
        law = self._law(known_ones, log_stray)
        factor = 1.0 if self.slots.plan.grid == 1.0 else (self.table.others + 1.0) / law.known_ones.hidden
        bound = factor * law.divergence(law.proportional_chances(), ratio, up)
        return bound if bound <= enough else min(bound, factor * law.divergence(law.best_chances(ratio, up), ratio, up))

    @property
    def missed(self) -> float:
        """Probability of the values x that are left out, under either law."""
        return 8.0 * tail_mass(LOG_TAIL)

    def _law(self, known_ones: int, log_stray: float) -> MovedLaw:
        if (known_ones, log_stray) not in self._laws:
            numbers = self.table.known_ones[known_ones]
            bands = self.table.bands(numbers, log_stray)
            blocks = list(self._blocks(bands, _WIDTHS[min(known_ones, len(_WIDTHS) - 1)]))
            law = MovedLaw(numbers, bands, blocks, self.table.flip_prob, self.slots.plan.moved_share)
            self._laws[known_ones, log_stray] = law
        return self._laws[known_ones, log_stray]

    def _blocks(self, bands: Bands, width_share: float) -> Iterator[Block]:
        """Speed only: runs of values x, each with the band from the least low to the largest high end of theirs."""
        mean = float(bands.law @ bands.ones)
        deviation = math.sqrt(mean * (1.0 - self.table.flip_prob))
        width, start = max(1, round(width_share * mean)), 0
        while start < bands.ones.size:
            # Unlikely values cost little, so that their bands may be wider.
            rarity = -math.log(max(float(bands.law[start]), 1e-300) / float(bands.law.max()))
            wide = max(width, int(min(width * rarity / _USUAL, 0.5 * deviation)))
            inside = slice(start, min(start + wide, bands.ones.size))
            yield Block(inside, self.slots.laws(float(bands.low[inside].min()), float(bands.high[inside].max())))
            start = inside.stop
