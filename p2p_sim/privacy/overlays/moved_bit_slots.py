"""Step 4 of `moved_bit` (proof: `docs/theorem.md`): main and side slots of users' choices. The letters are those of
`moved_bit`.

Given X = x, user i's submission is Bernoulli(p_i) under Q0. Under Q1 it is Bernoulli(p_i + W_iv) if no bit was moved,
and Bernoulli(p_i + W_iv - W_iJ) if J's bit was moved. Let m_i be the median of row i of W, and let u_ij = W_ij - m_i be
the *offsets*; then W_iv - W_iJ = u_iv - u_iJ. Split each choice of user i at random between three *slots*, and reveal
the slot: the first and the second *side slot*, with probability κ each, and the *main slot*. Under Q0 her submission is
1 with probability p_i in every slot (or with probabilities that depend on the slot and have mean p_i, see
`_slot_bands`). Q1 shifts it:

    slot     seen with      shift if nothing was moved      shift if J's bit was moved
    main     θ_i (1-2κ)     W_iv/(1-2κ)                     0
    first    θ_i κ          0                               u_iv/κ
    second   θ_i κ          0                               -u_iJ/κ

If the slots are forgotten, the table gives the laws of the submissions. A choice falls in exactly one slot. Let the
three slots be seen independently instead, with probabilities θ_i (1-2κ)/(1-2θ_i κ), θ_i κ and θ_i κ/(1-θ_i κ). Keep the
first side slot if it is seen, else the second, else the main slot: then each slot is kept as often as the table above
says. So independent slots show no less.

Each slot of all users together is a product of pairs (Bernoulli(p), Bernoulli(p + shift)) with p in a band: see
`shifted_pairs.product`. With M and S of `moved_bit`, the likelihood ratio of Q1 to Q0 is

    (1-M) Λ_main + S Λ_side,   Λ_side = Λ_first Λ_second,

where Λ_main, Λ_first and Λ_second are independent. If a pair is a post-processing of another pair, the other pair may
replace it, in any slot and for any M and S: post-processing this slot alone, independently of the others, gives Q0 and
Q1 back.

Users whose offset to v or to J exceeds `SlotPlan.limit` in size have *wide* side slots, with a κ of `WIDE`. All other
users have narrow side slots, with the smaller `SlotPlan.kappa`. Let a be the largest number of offsets above the limit
in one column, and b the largest number of offsets below minus the limit in one column. Then at most a + b users have a
large offset to v, and at most a + b to J: at most 2(a+b) users have wide slots. Which users these are depends on J. The
proof may also give wide slots to users with a smaller offset: where one law stands for several columns and charges k
large offsets, the k users with the largest offsets of each of these columns have wide slots, and k is at most a for
positive and b for negative offsets. Main slots of wide users show more: 2(a+b) such main slots are charged. For a given
u, a wide side slot is seen more often but with a smaller shift, and shows no more than a narrow one. So a side slot
with a small offset is charged as narrow, whether or not its user's other offset is large.

`Offsets` has what all targets share, and `Slots` the slots of one target.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.overlays.moved_bit_offsets import WIDE, Offsets, SlotPlan
from p2p_sim.privacy.overlays.overlay_table import Ints, remembered
from p2p_sim.privacy.overlays.shifted_pairs import LAW_SHOWN, NOTHING_SEEN, Shift, ShiftLaw, product

LARGER_KAPPAS = (0.25, 0.45)
"""Values of κ that are tried where some shifted p of a band would leave [0, 1] with the plan's κ."""
_LADDER = (1.2, 1.5)
"""For speed: low and 1 - high of side slots' bands are lowered to powers of these numbers, so that equal bands recur.
"""
_WEIGHTS = 8
"""Largest number of distinct values of the weights W_iv; if there are more, they are rounded up to this many values."""
_LEAST, _MOST = 1e-200, 1e100
"""A ratio's divisor is at least `_LEAST`, and a ratio at most `_MOST`: a smaller ratio only raises a divergence."""


@dataclass(frozen=True, eq=False)
class SlotLaws:
    """The laws under Q0 of the likelihood ratios Λ_main of all main slots and Λ_side of all side slots.

    They bound what is seen if every user's probability p_i of submitting a 1 lies in one band.
    """

    main: ShiftLaw
    side: ShiftLaw

    @cached_property
    def rough(self) -> tuple[Floats, Floats]:
        """A law of three likelihood ratios, (probabilities, ratios), that stands for the side law where speed counts
        and no bound is needed: in the choice of M, the probability with which the proof shows one user's label 0 as 1.

        The side law is that of the likelihood ratio of what all users show in side slots, parts of their choices that
        shift little. Let its logarithm, the loss, have mean m and variance σ². Losses m - √3 σ, m, m + √3 σ with
        probabilities 1/6, 4/6, 1/6 have the first five moments of a Gaussian with this mean and variance. The three
        ratios are then scaled to the mean 1, so that m drops out.
        """
        law, losses = self.side.law, np.log(self.side.ratios)
        mean = float(law @ losses)
        deviation = math.sqrt(max(float(law @ (losses - mean) ** 2), 0.0))
        if deviation == 0.0:
            return np.ones(1), self.side.ratios[:1]
        ratios = np.exp(math.sqrt(3.0) * deviation * np.array([-1.0, 0.0, 1.0]))
        probabilities = np.array([1.0, 4.0, 1.0]) / 6.0
        return probabilities, ratios / float(probabilities @ ratios)

    def divergence(self, stay: Floats, moved_density: Floats, ratio: float, *, up: bool, rough: bool = False) -> Floats:
        """The hockey-stick divergence HS_r of Q1 from Q0 if `up`, else of Q0 from Q1, where Q1 is
        Q0 · ((1-M) Λ_main + S Λ_side).

        The proof shows the others' noisy labels and the submissions. Q0 and Q1 are the laws of what it shows, given the
        number of labels shown as 1: Q0 if the target's noisy label is 0, Q1 if it is 1. If it is 1, the proof may show
        one 0 as 1: M is the probability of this, and S the density that it adds. Λ_main and Λ_side are the independent
        likelihood ratios of what users show in main and side slots, into which the proof splits their choices. The
        result is an upper bound unless `rough`. The side law's probabilities have errors of some 1e-11, by rounding
        alone. To allow for them, side ratios are moved by 1e-8 in the direction that raises the result; the main law
        allows for its own errors.

        Args:
            stay, moved_density: 1-M and S, two arrays of one shape, with one entry for each case; the result has this
            shape. ratio: r. rough: whether three ratios replace the side law, for speed.
        """
        probabilities, ratios = self.rough if rough else (self.side.law, self.side.ratios)
        if up:
            # E_side E_main [ stay · Λ_main + S · Λ_side - ratio ]^+, and a charge for a lost side law.
            # Given Λ_side, with rest = ratio - S · Λ_side: stay · HS_(rest/stay)(main); stay - rest where rest <= 0.
            rest = ratio - moved_density[..., None] * ratios * (1.0 + 1e-8)
            safe = np.maximum(stay[..., None], _LEAST)
            main = stay[..., None] * self.main.above(np.clip(rest, 0.0, _MOST) / safe)
            inside = np.where(rest > 0.0, main, stay[..., None] - rest)
            # Where the side slots show that no bit was moved, Q1 is Q0 times stay · Λ_main.
            unmoved = (stay[..., None] * self.main.above(min(ratio, _MOST) / safe))[..., 0]
            return np.asarray(inside @ probabilities + self.side.lost[0] * unmoved + moved_density * self.side.lost[1])
        # E_side E_main [ 1 - ratio · S · Λ_side - ratio · stay · Λ_main ]^+, and a charge for a lost side law.
        # Given Λ_side, with rest = 1 - ratio · S · Λ_side: rest · HS_(ratio · stay/rest)(main); 0 where rest <= 0.
        rest = 1.0 - ratio * moved_density[..., None] * ratios * (1.0 - 1e-8)
        threshold = np.minimum(ratio * stay, _MOST)
        main = self.main.below(threshold[..., None] / np.maximum(rest, _LEAST))
        inside = np.where(rest > 0.0, rest * main, 0.0)
        # Another bound leaves the term S · Λ_side out of Q1: with a smaller Q1, HS_ratio(Q0 || Q1) is no smaller.
        return np.minimum(inside @ probabilities + self.side.lost[0], self.main.below(threshold))


@dataclass(frozen=True, eq=False)
class Slots:
    """Main and side slots for one target, or for several that are bounded at once by the largest weights and offsets.

    Args:
        offsets: the offsets of all columns. plan: how choices are split into slots.
        weights, rates: (F,), W_iv and θ_i of the users who may fetch from the target, or upper bounds of both.
        columns: the targets' columns in the table.
    """

    offsets: Offsets
    plan: SlotPlan
    weights: Floats
    rates: Floats
    columns: Ints

    def laws(self, low: float, high: float) -> SlotLaws:
        """The laws of the likelihood ratios of what all users show in main and in side slots, where every user's
        probability of submitting a 1 is in [low, high] if the target's noisy label is 0.

        The proof splits each choice of a peer at random into a main slot and two side slots of probability κ each,
        which take up the differences of a user's fetch probabilities. κ is that of `plan` if all shifted probabilities
        then stay in [0, 1], else a larger κ. If no κ fits, the bound is weaker: side slots count as showing the
        target's noisy label.
        """
        plan = self.plan
        if not plan.has_side_slots:
            return SlotLaws(self._main(low, high, kappa=plan.kappa, wide=plan.wide), NOTHING_SEEN)
        wide = WIDE[-1] if plan.wide_users else 0.0
        for candidate in (
            plan,
            *(replace(plan, kappa=more if plan.kappa else 0.0, wide=wide) for more in LARGER_KAPPAS),
        ):
            main_low, side_high = self._slot_bands(candidate, low, high)
            side = self._side(candidate, low, side_high) if main_low >= 0.0 else None
            if side is not None:
                return SlotLaws(self._main(main_low, high, kappa=candidate.kappa, wide=candidate.wide), side)
        return self._shown(low, high)

    def _side(self, plan: SlotPlan, low: float, high: float) -> ShiftLaw | None:
        """The law of the likelihood ratio of what all users show in first and second side slots together, where p is in
        [low, high]; None if some shifted p exceeds 1.

        p is a user's probability of submitting a 1 if the target's noisy label is 0. Side slots are two parts of her
        choice of a peer, in which p shifts if the target's noisy label is 1. The law is averaged over the user J whose
        label 0 the proof may show as 1. The interval is widened somewhat, so that few distinct ones occur and laws are
        reused.
        """
        low, high = _lowered(low, _LADDER[0]), 1.0 - _lowered(1.0 - high, _LADDER[1])
        first, second = self._first(plan, low, high), self.offsets.average(plan, low, high)
        return first.times(second) if first.law.any() and second.law.any() else None

    @remembered
    def _first(self, plan: SlotPlan, low: float, high: float) -> ShiftLaw:
        """The law of the likelihood ratio of what all users show in their first side slots, for p in [low, high].

        A first side slot is a part, of probability κ, of a user's choice of a peer. If the target's noisy label is 1,
        her probability p of submitting a 1 there shifts by u/κ, with u her fetch probability for the target minus the
        median of her row. For several targets, the largest number of offsets of each size counts.
        """
        counts = self.offsets.bins(plan.limit).counts[:, :, self.columns].max(axis=2)
        return self.offsets.slot(plan, counts, sign=1.0, low=low, high=high)

    def _slot_bands(self, plan: SlotPlan, low: float, high: float) -> tuple[float, float]:
        """The lowest p of the main slots and the highest p of the side slots, where each user's p_i is in [low, high].
        The first is negative if the plan does not fit.

        p_i is user i's probability of submitting a 1 if the target v's noisy label is 0. Her choice of a peer is split
        at random into a main slot and two side slots of probability κ, with probabilities p_main, p_first and p_second
        of a 1 in place of p_i. Only their mean must be kept: (1-2κ) p_main + κ (p_first + p_second) = p_i. If v's noisy
        label is 1, main slots shift by W_iv/(1-2κ), where W_iv is her fetch probability for v, and side slots by ±u/κ,
        where u is a fetch probability minus the median of her row. p_main, p_first and p_second differ so that all
        shifted probabilities stay in [0, 1].

        At the lower end, a side slot with a shift of -u/κ must have a probability of at least u/κ. It has p_i, or u/κ
        if that is more; the main slot has the remainder, at most p_i. At the upper end, the main slot must have at most
        1 - W_iv/(1-2κ). It has p_i, or that value if it is less; the side slots have the remainder, at least p_i. So
        the main slots' highest and the side slots' lowest p are `high` and `low`.
        """
        entries, weight = self.offsets.entries, float(self.weights.max()) * (1.0 + 1e-9)
        # κ times the largest downward shift of the first slots, by u_iv < 0, and of the second slots, by -u_iJ < 0.
        falls = (max(0.0, -float(entries[:, self.columns].min())), max(0.0, float(entries.max())))
        slots = [(plan.kappa, plan.limit)] if plan.kappa else []
        slots += [(plan.wide, self.offsets.largest)] if plan.wide_users else []
        main_low, side_high = low, high
        for number, (kappa, _) in enumerate(slots, start=1):
            # A wide side slot may be charged as a narrow one. Then its p must suffice for both.
            least = [max(low, *(min(fall, most) / share for share, most in slots[:number])) for fall in falls]
            if max(least) > low:
                main_low = min(main_low, (low - kappa * sum(least) * (1.0 + 1e-9)) / (1.0 - 2.0 * kappa))
            rest = max(0.0, high - 1.0 + weight / (1.0 - 2.0 * kappa)) * (1.0 + 1e-9)
            side_high = max(side_high, high + rest * (1.0 - 2.0 * kappa) / (2.0 * kappa))
        return main_low, min(side_high, 1.0)

    def _shown(self, low: float, high: float) -> SlotLaws:
        """The laws of what users show in main and side slots where no probability κ of side slots fits: a side slot
        then counts as showing the target v's noisy label.

        Slots are parts into which the proof splits a user's choice of a peer. Here user i has one side slot, of
        probability κ_i = |W_iv - W_iJ|, with W_iv and W_iJ her fetch probabilities for v and for the user J whose label
        0 the proof may show as 1. The probability that some side slot is seen is at most Σ_i θ_i (|u_iv| + |u_iJ|),
        where θ_i is the probability that i's submission is seen and u the fetch probability minus the median of her
        row. A third slot, without a shift, is added. It makes the main slots' probabilities take two values only:
        1 - 2 · `plan.limit` for users with small offsets u, and 1 - 2 · (the largest |u|) for users with large ones. If
        even in main slots a probability of a 1 may exceed 1, everything counts as shown.

        Args:
            low, high: ends of the interval of each user's probability of submitting a 1 if v's noisy label is 0.
        """
        sums = self.offsets.rates @ np.abs(self.offsets.entries)
        chance = min(1.0, float(sums[self.columns].max() + sums.mean()) * (1.0 + 1e-9))
        largest = self.offsets.largest
        # The main slot's p is (p - κ)/(1-κ) to p/(1-κ), κ <= 2 · largest; and p + W_iv/(1-κ) may not exceed 1.
        if high + float(self.weights.max()) > 1.0 - 2.0 * largest:
            return SlotLaws(LAW_SHOWN, LAW_SHOWN)
        side = ShiftLaw(np.array([1.0 - chance]), 0, 1.0, (chance, chance))
        main_low, main_high = max(0.0, low - 2.0 * largest), high / (1.0 - 2.0 * largest)
        return SlotLaws(self._main(main_low, main_high, kappa=self.plan.limit, wide=largest), side)

    def _main(self, low: float, high: float, kappa: float, wide: float) -> ShiftLaw:
        """The law of the likelihood ratio of what all users show in main slots, for the target's noisy label 1 against
        0.

        A main slot is the part, of probability 1-2κ, of a user's choice of a peer that is in neither side slot. In it
        user i, who fetches from the target with probability W_iv, shows 1 with probability p in [low, high] if the
        target's noisy label is 0, and p + W_iv/(1-2κ) if it is 1. It is seen with probability θ_i (1-2κ)/(1-2θ_i κ),
        where θ_i is the probability that her submission is seen. The code may take a larger shift d, rounded up. Then
        it is enough to take p up to 1-d: the laws for p = 1-d give those of any larger p by post-processing.

        Args:
            kappa, wide: κ of users with narrow and with wide side slots; the latter have a large difference between
            some fetch probability and the median of their row.
        """
        shifts = self._shifts(1.0 - 2.0 * kappa, 1.0 - 2.0 * wide)
        return product(
            [replace(each, low=min(low, 1.0 - each.shift), high=min(high, 1.0 - each.shift)) for each in shifts]
        )

    @remembered
    def _shifts(self, narrow_share: float, wide_share: float) -> list[Shift]:
        """Groups of users who may fetch from the target, each with the shift of the probability p of a 1 in main slots,
        the probability that such a slot is seen, and the number of users, which may be 0. p is in [0, 1].

        A main slot is the part, of probability 1-2κ, of a user's choice of a peer that is in neither side slot. In it
        she shows 1 with probability p or, if the target's noisy label is 1, p + W/(1-2κ), where W is her fetch
        probability for the target. If there are more than `_WEIGHTS` (8) values of W, they are rounded up to 8 values.
        Up to `plan.wide_users` users have wide side slots, with a larger κ, but which ones is not known. So a first
        group has that many users with the largest W, and the other users count with the largest W again.

        Args:
            narrow_share: 1-2κ of users with narrow side slots. wide_share: 1-2κ of users with wide ones.
        """
        order = np.argsort(self.weights, kind="stable")
        weights, rates = self.weights[order], self.rates[order]
        wide = min(self.plan.wide_users, weights.size)
        shifts = [Shift(_seen_alone(float(rates.max()), wide_share), 0.0, 1.0, float(weights[-1]) / wide_share, wide)]
        if np.ptp(rates) == 0.0:  # with equal rates, the other users have at most the F - wide largest weights
            weights, rates = weights[wide:], rates[wide:]
        if weights.size and np.unique(weights).size > _WEIGHTS:
            ends = np.quantile(weights, np.arange(1, _WEIGHTS + 1) / _WEIGHTS)
            ends[-1] = weights[-1]
            weights = ends[np.searchsorted(ends, weights)]
        lines, counts = np.unique(np.stack([weights, rates]), axis=1, return_counts=True)
        others = zip(*lines.tolist(), counts.tolist(), strict=True)
        return shifts + [
            Shift(_seen_alone(r, narrow_share), 0.0, 1.0, w / narrow_share, count) for w, r, count in others
        ]


def _seen_alone(rate: float, share: float) -> float:
    """The probability θs/(1 - θ(1-s)) of seeing a main slot if a user's three slots are seen independently of each
    other, rounded up; θ = `rate`, s = `share`.

    A user's submission is seen with probability θ, and her choice falls in the main slot with probability s, otherwise
    in one of two side slots. The proof lets each slot be seen or not, independently of the others, and uses the main
    slot only if neither side slot is seen, which has probability 1 - θ(1-s). So it is used with probability θs, as in
    the exchange.
    """
    return min(1.0, rate * share / (1.0 - rate * (1.0 - share)) * (1.0 + 1e-12))


def _lowered(value: float, ratio: float) -> float:
    """The largest power of `ratio` that is at most `value`; 0 for values up to 1e-6.

    It rounds the ends of intervals to few values, so that results for equal intervals are computed once.
    """
    return ratio ** math.floor(math.log(value) / math.log(ratio)) if value > 1e-6 else 0.0
