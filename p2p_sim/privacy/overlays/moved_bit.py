"""A bound of δ(ε) for any fetch distribution, in which the others' bits and the submissions hide the target's bit.

The target v is the user whose label is protected. User i submits with probability θ_i. Then she submits the noisy bit
(label after the flip) of user j with probability W_ij. Let p_i = Σ_(j≠v) W_ij b_j for the other users' noisy bits b,
most of which remain hidden. If v's noisy bit is 0, a submission of user i is 1 with probability p_i. If v's bit is 1,
this probability is p_i + W_iv. `docs/theorem.md` proves in five steps that, for every data set,

    δ(ε) <= keep · ( strays(L) + missed + (N+1)/H · Σ_x Pr[X = x] · HS_r( (1-M(x)) Λ_main + S(x) Λ_side  against  1 ) )

for every L > 0 and every M: {0..H} -> [0, 1] with M(H) = 0. HS_r is the hockey-stick divergence; the bound takes the
worse direction and the worst |C|. The steps define the other terms.

1. *Known ones*, `DenseTable.known_ones`. With some probability, the bit of a user with label 1 is 1 for sure; otherwise
   it is Bernoulli(α). Reveal which is the case. Then a data set is given by a set C of users whose bits are known to be
   1. All other bits are Bernoulli(α). Let N be the number of others with hidden bits. It is enough to treat |C| <= N/2:
   if more than N/2 users hold label 1, first swap the labels 0 and 1. This maps p_i to 1 - p_i - W_iv and swaps the
   directions. Bits that the learner knows may be 0 or 1, and widen the bands. The sizes |C| are split into ranges
   c..c'. In each range, bits of users outside C are revealed until H bits remain hidden, whatever |C| is. X of these H
   bits are 1, and each set of X users is equally likely.
2. *A moved bit*, `MovedLaw`. Also *publish* the H hidden bits: the learner sees all H. If v's bit is 1, make a change
   first: with probability M(X), one of the H-X zeros, uniformly chosen, is shown as 1. Let J be the user with this bit.
   Submissions still carry the true bits. If the published bits are forgotten, the learner's real view is left. So
   publishing does not lower the divergence. The number of published ones now hides v's bit. Let Q0 and Q1 be the laws
   of published bits and submissions, if v's bit is 0 and if it is 1. Where x ones are published, the density of Q1
   relative to Q0 is (1-M(x)) Λ_v + S(x) Λ̄. Here Λ̄ is the mean of Λ_J over the users J whose published bit is 1, and
   S(x) = M(x-1) Pr[X = x-1] / Pr[X = x]. Λ_v and Λ_J are likelihood ratios of the submissions. In both denominators a
   submission is 1 with probability p_i, computed from the published bits. In the numerator this probability is
   p_i + W_iv for Λ_v, and p_i + W_iv - W_iJ for Λ_J. By joint convexity J may be revealed. Under Q0, and if no bit was
   moved, J is a uniform draw from the users whose published bit is 1. So given x, J is uniform among the H users under
   both laws. Dynamic programming picks M.
3. *Bands*, `DenseTable.bands`. Given X = x, low <= p_i <= high for all users except the *strays*. Each user is a stray
   with probability at most 2e^-L.
4. *Slots*, `moved_bit_slots.Slots`. For all p_i of a band, the independent variables Λ_main and Λ_side replace Λ_v and
   Λ_J. The law of each is stored on a grid. J is one of H users, but the code averages over all N+1 columns. HS_r given
   J is never negative. So the mean over the H users is at most (N+1)/H times this average.
5. *The flip of the target*, `symmetric_pairs.amplified_delta`: keep = 1-α-αe^ε, r = ((1-α)e^ε - α)/keep.

`MovedBit` puts the steps together. `moved_bit_targets` searches for the best L, and for the worst |C| and direction. In
the code, `up=True` means HS_r(Q1 || Q0) and `up=False` HS_r(Q0 || Q1). M is `move_chances`, S is `moved_density`, and L
is `exponent`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats, bernstein_window, binomial_pmf, tail_mass
from p2p_sim.privacy.overlays.moved_bit_offsets import Offsets
from p2p_sim.privacy.overlays.moved_bit_slots import SlotLaws, Slots
from p2p_sim.privacy.overlays.overlay_table import Ints, remembered
from p2p_sim.privacy.overlays.shifted_pairs import LOG_TAIL

_EVEN = 1e-12
"""Entries of a row that differ by at most this share of the row's sum count as equal."""
_CHANCES = 24
"""Number of values of M(x), besides 0, among which the dynamic program chooses."""
_SIMILAR_RATIOS = 30.0
"""All ratios r for which this number times ln ln r rounds to the same whole number use the same M."""
_WIDTHS = (0.02, 0.04, 0.06, 0.08, 0.12, 0.2)
"""Widths of blocks of x, as shares of the mean of X, for each range of known ones. Later ranges use the last."""
_USUAL = 8.0
"""If ln Pr[X = x] is below its maximum by more than this, blocks are wider, up to half a standard deviation of X."""


@dataclass(frozen=True)
class KnownOnes:
    """Step 1: data sets with `least` to `most` noisy bits known to be 1; H = `hidden` bits stay hidden."""

    least: int
    most: int
    hidden: int


@dataclass(frozen=True, eq=False)
class Bands:
    """Step 3: for each number x of ones among the hidden bits, an interval that holds p_i of all users except the
    strays.

    ones: (K,), the values x, ascending. law: (K,), Pr[X = x], rounded up. low, high: (K,), the intervals' ends.
    """

    ones: Ints
    law: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class DenseTable:
    """Steps 1 and 3: the fetch probabilities of the users who may submit, in one table that serves all targets.

    Args:
        rows: (R, N+1), W_ij for each user i who may submit and each user j whose bit is hidden.
        known_mass: (R,), the probability with which each user i fetches from users whose bits are known.
        rates: (R,), θ_i, the probability that the user's submission is seen. flip_prob: α in (0, 1/2].
        revealed: how many further bits, of any users, may be known: the bits that coalition members fetched.
    """

    rows: Floats
    known_mass: Floats
    rates: Floats
    flip_prob: float
    revealed: int = 0

    @property
    def others(self) -> int:
        """N, the number of users besides the target whose noisy label the learner does not know."""
        return int(self.rows.shape[1]) - 1

    @cached_property
    def offsets(self) -> Offsets:
        """The offsets u_ij = W_ij - m_i, where m_i is the median of row i.

        The proof splits each choice of a peer at random into a main slot and two side slots, and reveals the slot. A
        side slot has probability κ. There the target's noisy label only shifts the probability of a 1: by u_ij/κ in the
        first side slot, and by -u_ij/κ in the second.
        """
        return Offsets(self.rows, self.rates)

    @cached_property
    def known_ones(self) -> list[KnownOnes]:
        """Ascending ranges that together cover |C| = 0..N/2, the numbers of noisy labels that the proof reveals to be
        1.

        All numbers from a range's `least` to its `most` share one bound: further labels are revealed until `hidden`
        labels stay hidden. The `revealed` labels that coalition members fetched may all be 1, so they are added to each
        `most`. The list is empty if no label would stay hidden.
        """
        half, ends = self.others // 2, [0]
        if self.others <= half + self.revealed:
            return []
        while ends[-1] < half:
            ends.append(min(2 * ends[-1] + 1 + self.others // 200, half))
        starts, more = [0, *(end + 1 for end in ends[:-1])], self.revealed
        return [KnownOnes(a, b + more, self.others - b - more) for a, b in zip(starts, ends, strict=True)]

    def strays(self, exponent: float) -> float:
        """What all strays add to the divergence HS_r: 2e^-L Σ_i θ_i max_j W_ij, L = `exponent`; 0 if rows are even.

        Q0 and Q1 are the laws of what is seen if the noisy label of the target v is 0, and if it is 1. A row is even if
        its fetch probabilities are all equal. User i is a stray if p_i lies outside the band, with probability at most
        2e^-L. Her submission is 1 with one of three probabilities: p_i under Q0; under Q1 p_i + W_iv, or
        p_i + W_iv - W_iJ if user J's label 0 is shown as 1. These three values differ by at most max_j W_ij. With
        probability max_j W_ij, a stray's submission counts as showing v's noisy label. Otherwise it shows the same in
        all three cases. HS_r grows by the probability that the label is shown, under the first law of HS_r and without
        a factor r. The bound is the same under both laws. If v's noisy label is 1, each set of x users shown with ones
        is still equally likely. The expected likelihood ratio of their number is at most 1.
        """
        return 0.0 if self._even else 2.0 * math.exp(-exponent) * self.exposure

    @remembered
    def bands(self, known_ones: KnownOnes, exponent: float) -> Bands:
        """For each likely number x of ones among the H hidden noisy labels, a band: an interval for p_i.

        Given X = x, p_i lies outside with probability at most 2e^-L, L = `exponent`, for each user i who may submit.
        p_i sums i's fetch probabilities for all users with noisy label 1: x hidden, |C| revealed, and some that the
        learner knows. So for sure p_i lies between the sum of the x + |C| least entries of i's row and the sum of the
        largest. The x ones are drawn without replacement from the H labels. So, except with probability 2e^-L, p_i is
        also within t (`_deviation`) of the mean. A band covers these intervals for all i and all C, with |C| in the
        range `known_ones`.

        Returns:
            K values x near the mean of X, the probability of each, rounded up, and both ends of each band, (K,) each.
        """
        hidden, alpha = known_ones.hidden, self.flip_prob
        # X ~ Bin(H, α); `MovedBit.missed` charges the tails that are cut off here.
        first, last = bernstein_window(hidden * alpha, hidden * alpha * (1.0 - alpha), hidden, LOG_TAIL)
        ones = np.arange(first, last + 1)
        law = binomial_pmf(first, last, hidden, alpha) * (1.0 + 1e-9)
        sums, size = self._sums, self.rows.shape[1]
        total = sums[:, -1:]
        # For sure: p_i is between the sum of the `least` + x least entries and the sum of the `most` + x largest
        # entries.
        least = sums[:, known_ones.least + ones]
        most = total - sums[:, size - np.minimum(known_ones.most + ones, size)]
        if self._even:
            low, high = least, most
        else:
            # For all but strays: the mean ± t. The mean is least if the known ones have the least entries, the hidden
            # bits the next H, and the revealed zeros the largest. The opposite order gives the largest mean.
            start = sums[:, [known_ones.least]]
            low = start + (sums[:, [known_ones.least + hidden]] - start) * (ones / hidden)
            high = total - sums[:, [hidden + 1]] + (sums[:, [hidden + 1]] - sums[:, [1]]) * (ones / hidden)
            deviation = self._deviation(hidden, ones, exponent)
            low, high = np.maximum(least, low - deviation) * (1.0 - 1e-9), np.minimum(most, high + deviation) + 1e-9
        # All bits that the learner knows may be 1. A band serves all rows at once.
        high = np.minimum(high + self.known_mass[:, None], 1.0)
        return Bands(ones, law, np.maximum(low.min(axis=0), 0.0), high.max(axis=0))

    def _deviation(self, hidden: int, ones: Ints, exponent: float) -> Floats:
        """(R, K): t, the allowed distance of a sum of x entries from its mean, for R rows and K numbers x in `ones`.

        The x entries are drawn without replacement from H = `hidden` entries of the row. On either side, the sum is off
        by more than t with probability at most e^-L, L = `exponent`. Hoeffding's value of t is range · sqrt(x L/2).
        Bernstein's value is a + sqrt(a² + 2 L x variance) with a = range · L/3. The smaller value is taken. The range
        is the largest entry minus the least. Both values are proved for draws with replacement, and hold without
        (Hoeffding 1963). Drawing x ones amounts to drawing H - x zeros, so the smaller number counts. The variance of
        the H entries is at most (N+1)/H times the variance of the row.
        """
        width, variance = self._range, np.asarray(self.rows.var(axis=1))[:, None] * (1.0 + 1e-9)
        drawn = np.minimum(ones, hidden - ones)
        hoeffding = width * np.sqrt(drawn * (exponent / 2.0))
        part = width * (exponent / 3.0)
        bernstein = part + np.sqrt(part**2 + 2.0 * exponent * drawn * variance * (self.rows.shape[1] / hidden))
        return np.asarray(np.minimum(hoeffding, bernstein))

    @cached_property
    def _sums(self) -> Floats:
        """(R, N+2): the sum of the k least entries of each of R rows, for k from 0 to N+1."""
        sums = np.zeros((self.rows.shape[0], self.rows.shape[1] + 1))
        np.cumsum(np.sort(self.rows, axis=1), axis=1, out=sums[:, 1:])
        return sums

    @cached_property
    def _range(self) -> Floats:
        """(R, 1): the largest minus the least entry of each of R rows."""
        return np.asarray(self.rows.max(axis=1) - self.rows.min(axis=1))[:, None]

    @cached_property
    def exposure(self) -> float:
        """Σ_i θ_i max_j W_ij, rounded up: a bound of the expected number of users who submit a given user's noisy
        label.
        """
        return float(self.rates @ self.rows.max(axis=1)) * (1.0 + 1e-9)

    @cached_property
    def _even(self) -> bool:
        """Whether the entries of each row are all equal, up to 1e-12 of their sum.

        Then p_i depends only on how many labels are 1, so p_i surely lies in the interval of `bands`.
        """
        return bool((self._range <= _EVEN * self._sums[:, -1:]).all())


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive values x that share one band: their indices in `Bands.ones`, and the laws of the band's slots."""

    inside: slice
    laws: SlotLaws


@dataclass(frozen=True, eq=False)
class MovedLaw:
    """Step 2: the divergence of the laws Q0 and Q1 of published bits and submissions, if the target's bit is 0 and 1.

    Where x ones are published, Q1 is Q0 times (1-M(x)) Λ_main + S(x) Λ_side. M(x) is the probability that the proof
    moves a bit if x of the hidden bits are 1. S(x) is the density that moved bits add. Any function M with M(H) = 0
    may be chosen, and a different M for each direction and ratio.

    Args:
        moved_share: in [0, 1], approximately the best probability of moving a bit. This number only guides the choice
            of M.
    """

    known_ones: KnownOnes
    bands: Bands
    blocks: list[Block]
    flip_prob: float
    moved_share: float

    @cached_property
    def _moved_weights(self) -> Floats:
        """S(x) / M(x-1) = Pr[X = x-1] / Pr[X = x] = x (1-α) / ((H-x+1) α), for each of the K numbers x in `bands.ones`,
        (K,).

        If the target's noisy label is 1, x ones are published also where X = x-1 and a 0 is shown as 1.
        """
        x = self.bands.ones
        return np.asarray(x * (1.0 - self.flip_prob) / ((self.known_ones.hidden - x + 1.0) * self.flip_prob))

    def divergence(self, move_chances: Floats, ratio: float, up: bool) -> float:
        """An upper bound of how much published bits and submissions show of the target's bit, if nobody strays.
        With side slots, the bound holds only after multiplication by (N+1)/H, in `MovedBit.divergence`.

        The measure is the hockey-stick divergence HS_r(Q1 || Q0) if `up`, else HS_r(Q0 || Q1). Q0 and Q1 are the laws
        if the target's bit is 0 and 1. The result is the mean over x of HS_r given x published ones. Given x, Q1 is Q0
        times the sum of two terms. One is 1-M(x) times the likelihood ratio Λ_main, which counts if no bit was moved.
        The other is the density S(x) of moved bits times the likelihood ratio Λ_side, which counts if one was moved.

        Args:
            move_chances: (K,), M(x), the probability of moving a bit, for each x of `bands.ones`. ratio: r.
        """
        moved_density = np.append(0.0, move_chances[:-1]) * self._moved_weights * (1.0 + (1e-12 if up else -1e-12))
        stay = 1.0 - move_chances
        parts = [b.laws.divergence(stay[b.inside], moved_density[b.inside], ratio, up=up) for b in self.blocks]
        # A divergence is at most the mass of the first law.
        most = stay + moved_density if up else 1.0
        return float(self.bands.law @ np.minimum(np.concatenate(parts), most * (1.0 + 1e-12)))

    def proportional_chances(self) -> Floats:
        """A first choice of the probabilities M(x): z (H-x)/(H (1-α)), at most 1, for each x of `bands.ones`, (K,).

        z is `moved_share`. With this choice each single 0 is shown as 1 equally often, whatever x is.
        """
        x, hidden = self.bands.ones, self.known_ones.hidden
        return np.asarray(np.minimum(self.moved_share * (hidden - x) / (hidden * (1.0 - self.flip_prob)), 1.0))

    def best_chances(self, ratio: float, up: bool) -> Floats:
        """Probabilities M(x) with nearly the least `divergence`, for each x of `bands.ones`, (K,).

        Ratios share one M if 30 ln ln r rounds to the same whole number. The bound is valid for any M.

        Args:
            ratio: r of the divergence HS_r. up: whether Q1 comes first in it.
        """
        power = round(_SIMILAR_RATIOS * math.log(max(math.log(ratio), 1e-9)))
        return self._optimise(math.exp(math.exp(power / _SIMILAR_RATIOS)), up)

    @remembered
    def _optimise(self, ratio: float, up: bool) -> Floats:
        """Probabilities M(x) with approximately the least HS_r, r = `ratio`, for each x of `bands.ones`, (K,).

        Each M(x) is 0 or one of 24 values (`_CHANCES`). Given x published ones, what is seen depends on M(x) and M(x-1)
        only. Let HS_x(m, M) be the divergence for M(x-1) = m and M(x) = M, computed roughly. Let rest_x(m) be the least
        sum of the terms from x on if M(x-1) = m. Dynamic programming uses

            rest_x(m) = min over M(x) of Pr[X = x] HS_x(m, M(x)) + rest_(x+1)(M(x)).

        Args:
            up: whether Q1 comes first in the divergence.
        """
        if self.moved_share == 0.0:
            return np.zeros(self.bands.ones.size)
        chances = np.append(0.0, np.geomspace(min(0.01, self.moved_share / 4.0), 1.0, _CHANCES))
        rest, choice = np.zeros(chances.size), np.zeros((self.bands.ones.size, chances.size), dtype=np.int64)
        # From the last x to the first: find the best M(x) (columns) for each M(x-1) (rows).
        for block in reversed(self.blocks):
            for k in reversed(range(block.inside.start, block.inside.stop)):
                density = (self._moved_weights[k] * chances if k else np.zeros(chances.size))[:, None]
                stay, density = np.broadcast_arrays(1.0 - chances[None, :], density)
                total = self.bands.law[k] * block.laws.divergence(stay, density, ratio, up=up, rough=True) + rest
                if self.bands.ones[k] == self.known_ones.hidden:  # M(H) = 0: no zero is left to be shown as 1
                    total[:, 1:] = np.inf
                choice[k] = total.argmin(axis=1)
                rest = total[np.arange(chances.size), choice[k]]
        # From the first x to the last: take the best M(x) for the M(x-1) already chosen; M is 0 before the first x.
        best, column = np.zeros(self.bands.ones.size), 0
        for k, line in enumerate(choice):
            column = int(line[column])
            best[k] = chances[column]
        return best


@dataclass(frozen=True, eq=False)
class MovedBit:
    """All steps together, for one target or for several that are bounded at once.

    HS_ratio compares the laws of the submissions for the two values of the target's noisy bit. For every data set,
    every L and both directions this divergence is at most table.strays(L) + missed(ratio) + D. D is the largest
    `divergence` over the ranges of known ones.
    """

    table: DenseTable
    slots: Slots

    def divergence(self, ratio: float, known_ones: int, exponent: float, *, up: bool, enough: float = 0.0) -> float:
        """Upper bound of HS_r, r = `ratio`, of Q1 from Q0 if `up`, else of Q0 from Q1, if nobody strays.

        This is (N+1)/H times the mean over X of HS_r given X. The factor is 1 if the proof uses no side slots. M is
        first `proportional_chances`. If this bound exceeds `enough`, `best_chances` is tried too.

        Args:
            known_ones: the index of a range in `table.known_ones`. exponent: L; a user strays with probability at most
            2e^-L. enough: a bound at which no better bound is sought.
        """
        law = self._law(known_ones, exponent)
        factor = (self.table.others + 1.0) / law.known_ones.hidden if self.slots.plan.has_side_slots else 1.0
        bound = factor * law.divergence(law.proportional_chances(), ratio, up)
        return bound if bound <= enough else min(bound, factor * law.divergence(law.best_chances(ratio, up), ratio, up))

    def missed(self, ratio: float) -> float:
        """What `divergence` at r = `ratio` leaves out, in either direction: numbers x of ones outside a window, and
        tiny offsets.

        Let a tail be e^`LOG_TAIL`, a tiny probability. X lies outside the window with probability at most 2 tails. The
        window's last value has a probability of at most 1 tail. Outside the window no 0 is shown as 1. So the number of
        published ones is outside with at most 2 tails under Q0, and 3 under Q1; 8 tails are added to the bound. Tiny
        offsets count as 0. This changes Q1 by `neglected` in total variation, which is multiplied by r where Q1 comes
        second in HS_r.
        """
        return 8.0 * tail_mass(LOG_TAIL) + max(1.0, ratio) * self.table.offsets.neglected

    @remembered
    def _law(self, known_ones: int, exponent: float) -> MovedLaw:
        numbers = self.table.known_ones[known_ones]
        bands = self.table.bands(numbers, exponent)
        blocks = self._blocks(bands, _WIDTHS[min(known_ones, len(_WIDTHS) - 1)])
        return MovedLaw(numbers, bands, list(blocks), self.table.flip_prob, self.slots.plan.moved_share)

    def _blocks(self, bands: Bands, width_share: float) -> Iterator[Block]:
        """Yields blocks of successive numbers x, with their indices in `bands.ones` and the laws for a band that serves
        all x.

        The band of a block contains the bands of its x, which is faster but less sharp. Where ln Pr[X = x] is far below
        its maximum, blocks are longer, up to half a standard deviation of X.

        Args:
            width_share: the usual length of a block, as a share of the mean number of ones.
        """
        mean = float(bands.law @ bands.ones)
        deviation = math.sqrt(mean * (1.0 - self.table.flip_prob))
        width, start = max(1, round(width_share * mean)), 0
        while start < bands.ones.size:
            # For unlikely values a wider band costs little.
            rarity = -math.log(max(float(bands.law[start]), 1e-300) / float(bands.law.max()))
            length = max(width, int(min(width * rarity / _USUAL, 0.5 * deviation)))
            inside = slice(start, min(start + length, bands.ones.size))
            yield Block(inside, self.slots.laws(float(bands.low[inside].min()), float(bands.high[inside].max())))
            start = inside.stop
