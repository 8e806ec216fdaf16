"""The target's bit hidden by the others' bits and by the submissions together: the theorem for any fetch law.

User i submits with probability θ_i, and then the noisy bit of user j with probability W_ij. The target is v. Given the
others' noisy bits b, let p_i = Σ_(j≠v) W_ij b_j: a submission of user i is 1 with probability p_i if v's noisy bit is 0
(the law Q0), and p_i + W_iv if it is 1 (the law Q1). `docs/theorem.md` proves in five steps that for every data set

    δ(ε) <= c · ( strays(L) + missed + Σ_x Pr[X = x] · HS_r( (1-M(x)) Λ_main + S(x) Λ_side  against  1 ) )

for every L and every function M, with c and r of step 5, in the worse direction and for the worst |C| of step 1.

1. *Known ones*, `DenseTable.known_ones`. A bit of a user with label 1 is 1 for sure with some probability, else
   Bernoulli(α). Reveal which of the two. So a data set is a set C of users whose bits are known to be 1, at most half
   of the hidden users, and all other bits are Bernoulli(α). |C| lies in a range; so many of the others are revealed
   that H bits remain hidden, whatever |C| is. X of these H bits are 1, and each set of X users is equally likely.
2. *A moved bit*, `MovedLaw`. If v's bit is 1, one more hidden bit, that of a user J, is set to 1 with probability M(X).
   This makes the number of ones hide v's bit. Every M gives a bound, and dynamic programming picks one. S(x) is the
   density of the data in which the bit was moved: from x-1 ones to x.
3. *Bands*, `DenseTable.bands`. Given X = x, low <= p_i <= high for all users but the *strays*.
4. *Slots*, `moved_bit_slots.Slots`. Λ_main and Λ_side are the likelihood ratios of the submissions under Q1 to those
   under Q0, given X and a band: Λ_main if no bit was moved, Λ_side if one was. Each has its law on a grid. J is one of
   H users, but is averaged over all N+1 columns, which multiplies the bound by (N+1)/H at most.
5. *The flip of the target*, `symmetric_pairs.amplified_delta`: c = 1-α-αe^ε, r = ((1-α)e^ε - α)/c.

`MovedBit` puts the steps together. `moved_bit_targets` searches for the best L, and for the worst |C| and direction.
In the code `up` means HS_r(Q1 | Q0), else it is HS_r(Q0 | Q1); `move_chances` is M, `stay` 1-M, and `moved` S.
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
    """Step 1: all data sets in which `least` to `most` bits are known to be 1. H = `hidden` bits remain hidden."""

    least: int
    most: int
    hidden: int


@dataclass(frozen=True, eq=False)
class Bands:
    """Step 3: for each number x of ones among the hidden bits, an interval that holds p_i of every user but the strays.

    ones: (K,) the values x, ascending. law: (K,) Pr[X = x], rounded up. low, high: (K,) the intervals' ends.
    """

    ones: NDArray[np.int64]
    law: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class DenseTable:
    """Steps 1 and 3: the fetch probabilities of those who submit. All targets have them in common.

    Args:
        rows: (R, N+1) W_ij: for each user who may submit, the probabilities of fetching each user whose bit is hidden.
        known_mass: (R,) the rest of each row: the probability of fetching from a user whose bit is known.
        rates: (R,) θ_i, the probability that the user's submission is seen. flip_prob: α in (0, 1/2].
        revealed: how many of the hidden bits may be revealed besides, whichever these are.
    """

    rows: Floats
    known_mass: Floats
    rates: Floats
    flip_prob: float
    revealed: int = 0
    _bands: dict[tuple[KnownOnes, float], Bands] = field(default_factory=dict, init=False, repr=False)

    @property
    def others(self) -> int:
        """N: how many users with a hidden bit there are besides a target."""
        return int(self.rows.shape[1]) - 1

    @cached_property
    def offsets(self) -> Offsets:
        """u_ij = W_ij less the median of row i: what the side slots of step 4 are shifted by."""
        return Offsets(self.rows, self.rates)

    @cached_property
    def known_ones(self) -> list[KnownOnes]:
        """Step 1: ranges c to c' of |C| that cover 0 to N/2, ascending. Each leaves H = N - c' bits hidden."""
        half, ends = self.others // 2, [0]
        if self.others <= half + self.revealed:
            return []
        while ends[-1] < half:
            ends.append(min(2 * ends[-1] + 1 + self.others // 200, half))
        starts, more = [0, *(end + 1 for end in ends[:-1])], self.revealed
        return [KnownOnes(a, b + more, self.others - b - more) for a, b in zip(starts, ends, strict=True)]

    def strays(self, log_stray: float) -> float:
        """Step 3: what all strays together add to a divergence, 2e^-L Σ_i θ_i max_j W_ij, for -L = `log_stray`.

        It is 0 where the entries of each row are equal, since then p_i is known and nobody strays.
        """
        return 0.0 if self._even else 2.0 * math.exp(log_stray) * self.exposure

    def bands(self, known_ones: KnownOnes, log_stray: float) -> Bands:
        """Step 3: bands with Pr[p_i outside | X = x] <= 2e^-L for every user i and every x, for -L = `log_stray`."""
        if (known_ones, log_stray) not in self._bands:
            self._bands[known_ones, log_stray] = self._make_bands(known_ones, log_stray)
        return self._bands[known_ones, log_stray]

    def _make_bands(self, known_ones: KnownOnes, log_stray: float) -> Bands:
        """The bands: max(least sum, mean - t) to min(largest sum, mean + t), the widest over all rows and all sets C.

        p_i is a sum of x + |C| entries of row i. The sums are those of the least and of the largest so many entries,
        and hold for sure; the mean and t (`_deviation`) are those of x entries drawn without replacement.
        """
        hidden, alpha = known_ones.hidden, self.flip_prob
        # X ~ Bin(H, α), but for tails that `MovedBit.missed` charges.
        first, last = bernstein_window(hidden * alpha, hidden * alpha * (1.0 - alpha), hidden, LOG_TAIL)
        ones = np.arange(first, last + 1)
        law = binomial_pmf(first, last, hidden, alpha) * (1.0 + 1e-9)
        sums, size = self._sums, self.rows.shape[1]
        total = sums[:, -1:]
        # For sure: p_i is at least the sum of the c + x least entries, and at most that of the c' + x largest ones.
        least = sums[:, known_ones.least + ones]
        most = total - sums[:, size - np.minimum(known_ones.most + ones, size)]
        if self._even:
            low, high = least, most
        else:
            # But for strays: the mean ± t. The mean is least if the known ones have the c least entries and the hidden
            # bits the next H, so that revealed zeros have the largest; and it is largest the other way round.
            start = sums[:, [known_ones.least]]
            low = start + (sums[:, [known_ones.least + hidden]] - start) * (ones / hidden)
            high = total - sums[:, [hidden + 1]] + (sums[:, [hidden + 1]] - sums[:, [1]]) * (ones / hidden)
            deviation = self._deviation(hidden, ones, -log_stray)
            low, high = np.maximum(least, low - deviation) * (1.0 - 1e-9), np.minimum(most, high + deviation) + 1e-9
        # Known bits may all be ones. One band for all rows.
        high = np.minimum(high + self.known_mass[:, None], 1.0)
        return Bands(ones, law, np.maximum(low.min(axis=0), 0.0), high.max(axis=0))

    def _deviation(self, hidden: int, ones: NDArray[np.int64], exponent: float) -> Floats:
        """t: the sum of x entries drawn without replacement exceeds its mean by more with probability e^-L at most.

        It is the smaller one of Hoeffding's t, range · sqrt(x L/2), and Bernstein's, a + sqrt(a² + 2 L x variance) with
        a = range · L/3. Both are proved for draws with replacement, and hold without (Hoeffding 1963). To draw x ones
        is to draw H - x zeros, so that the smaller number counts. The H entries are a part of the row's N+1, and their
        variance is at most (N+1)/H times that of the row.

        Args:
            exponent: L.

        Returns:
            (R, K), for each row and each x of `ones`.
        """
        width, variance = self._range, np.asarray(self.rows.var(axis=1))[:, None] * (1.0 + 1e-9)
        drawn = np.minimum(ones, hidden - ones)
        hoeffding = width * np.sqrt(drawn * (exponent / 2.0))
        part = width * (exponent / 3.0)
        bernstein = part + np.sqrt(part**2 + 2.0 * exponent * drawn * variance * (self.rows.shape[1] / hidden))
        return np.asarray(np.minimum(hoeffding, bernstein))

    @cached_property
    def _sums(self) -> Floats:
        """[i, k]: the sum of the k least entries of row i, for k from 0 to N+1; (R, N+2)."""
        sums = np.zeros((self.rows.shape[0], self.rows.shape[1] + 1))
        np.cumsum(np.sort(self.rows, axis=1), axis=1, out=sums[:, 1:])
        return sums

    @cached_property
    def _range(self) -> Floats:
        """The largest entry of each row less its least one, (R, 1)."""
        return np.asarray(self.rows.max(axis=1) - self.rows.min(axis=1))[:, None]

    @cached_property
    def exposure(self) -> float:
        """Σ_i θ_i max_j W_ij, rounded up: a bound on the expected number of users who submit one given user's bit."""
        return float(self.rates @ self.rows.max(axis=1)) * (1.0 + 1e-9)

    @cached_property
    def _even(self) -> bool:
        """Whether all entries of each row are equal, so that nobody can stray."""
        return bool((self._range <= _EVEN * self._sums[:, -1:]).all())


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive values x that share one band: their indices in `Bands.ones`, and the laws of the band's slots."""

    inside: slice
    laws: SlotLaws


@dataclass(frozen=True, eq=False)
class MovedLaw:
    """Step 2: the divergence of Q1 and Q0. At bits b with x ones, Q1 is Q0 times (1-M(x)) Λ_main + S(x) Λ_side.

    M may be any function of x, and another one in each direction. moved_share: which share of v's effect on the
    submissions is best turned into a moved bit, about, in [0, 1]; it only guides the choice of M.
    """

    known_ones: KnownOnes
    bands: Bands
    blocks: list[Block]
    flip_prob: float
    moved_share: float
    _best: dict[tuple[int, bool], Floats] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def _moved_weights(self) -> Floats:
        """S(x) / M(x-1) = Pr[X = x-1] / Pr[X = x] = x (1-α) / ((H-x+1) α), for each x of `bands.ones`, (K,)."""
        x = self.bands.ones
        return np.asarray(x * (1.0 - self.flip_prob) / ((self.known_ones.hidden - x + 1.0) * self.flip_prob))

    def divergence(self, move_chances: Floats, ratio: float, up: bool) -> float:
        """Σ_x Pr[X = x] · HS_ratio given X = x, rounded up: of Q1 from Q0 if `up`, else of Q0 from Q1.

        move_chances: (K,) M(x) for each x of `bands.ones`.
        """
        moved = np.append(0.0, move_chances[:-1]) * self._moved_weights * (1.0 + (1e-12 if up else -1e-12))
        stay = 1.0 - move_chances
        parts = [block.laws.divergence(stay[block.inside], moved[block.inside], ratio, up=up) for block in self.blocks]
        # A divergence is at most the mass of the first law.
        most = stay + moved if up else 1.0
        return float(self.bands.law @ np.minimum(np.concatenate(parts), most * (1.0 + 1e-12)))

    def proportional_chances(self) -> Floats:
        """M(x) = z (H-x) / (H (1-α)), z = `moved_share`, (K,): each hidden 0 is set to 1 with the same probability."""
        x, hidden = self.bands.ones, self.known_ones.hidden
        return np.asarray(np.minimum(self.moved_share * (hidden - x) / (hidden * (1.0 - self.flip_prob)), 1.0))

    def best_chances(self, ratio: float, up: bool) -> Floats:
        """M(x) for each x, (K,): about the ones of least divergence at this ratio, found once for similar ratios."""
        power = round(_SIMILAR_RATIOS * math.log(max(math.log(ratio), 1e-9)))
        if (power, up) not in self._best:
            self._best[power, up] = self._optimise(math.exp(math.exp(power / _SIMILAR_RATIOS)), up)
        return self._best[power, up]

    def _optimise(self, ratio: float, up: bool) -> Floats:
        """The M(x), (K,), among some `_CHANCES` values that minimise the divergence, by dynamic programming over x.

        rest_x(m) is the least sum of the terms from x on if M(x-1) = m. Since S(x) depends on M(x-1),
        rest_x(m) = min over M(x) of Pr[X = x] HS_x(m, M(x)) + rest_(x+1)(M(x)).
        """
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
    """All steps together, for one target or for several that are bounded at once.

    For every data set, every L and both directions, the hockey-stick divergence HS_ratio of the submissions' laws for
    the two values of a target's noisy bit is at most table.strays(-L) + missed(ratio) + the largest `divergence` over
    the ranges of known ones.
    """

    table: DenseTable
    slots: Slots
    _laws: dict[tuple[int, float], MovedLaw] = field(default_factory=dict, init=False, repr=False)

    def divergence(self, ratio: float, known_ones: int, log_stray: float, *, up: bool, enough: float = 0.0) -> float:
        """Upper bound of HS_ratio between Q1 and Q0 if nobody strays: (N+1)/H · Σ_x Pr[X = x] · HS_ratio given X = x.

        J is one of H users, while the law of the second side slots is averaged over all N+1 columns: hence the factor,
        which is 1 without side slots. `proportional_chances` is tried for M first, and `best_chances` only if that
        gives more than `enough`.

        Args:
            known_ones: which range of `table.known_ones`, by its index. log_stray: -L.
        """
        law = self._law(known_ones, log_stray)
        factor = (self.table.others + 1.0) / law.known_ones.hidden if self.slots.plan.has_side_slots else 1.0
        bound = factor * law.divergence(law.proportional_chances(), ratio, up)
        return bound if bound <= enough else min(bound, factor * law.divergence(law.best_chances(ratio, up), ratio, up))

    def missed(self, ratio: float) -> float:
        """What values x outside the window and offsets that count as 0 add to a divergence in either direction."""
        return 8.0 * tail_mass(LOG_TAIL) + max(1.0, ratio) * self.table.offsets.neglected

    def _law(self, known_ones: int, log_stray: float) -> MovedLaw:
        if (known_ones, log_stray) not in self._laws:
            numbers = self.table.known_ones[known_ones]
            bands = self.table.bands(numbers, log_stray)
            blocks = list(self._blocks(bands, _WIDTHS[min(known_ones, len(_WIDTHS) - 1)]))
            law = MovedLaw(numbers, bands, blocks, self.table.flip_prob, self.slots.plan.moved_share)
            self._laws[known_ones, log_stray] = law
        return self._laws[known_ones, log_stray]

    def _blocks(self, bands: Bands, width_share: float) -> Iterator[Block]:
        """Speed only: runs of values x that share one band, which holds those of all its x, and its slots.

        width_share: the run's length as a share of the mean of X.
        """
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
