"""Main and side slots of users' choices: step 4 of `moved_bit`. The proof is in `docs/theorem.md`.

User i fetches from user j with probability W_ij. Her submission is seen with probability θ_i. The proof shows the
learner the hidden noisy labels and the submissions. Q0 and Q1 are the laws of what it shows if the target v's noisy
label is 0 and 1. Under Q1 the label 0 of one user J may be shown as 1: J's bit is then *moved*.

Let X be the number of ones shown. Given X = x, user i's submission is 1 with probability p_i under Q0. Under Q1 the
probability is p_i + W_iv if no bit was moved. It is p_i + W_iv - W_iJ if J's bit was moved. Let m_i be the median of
row i of W. The *offsets* are u_ij = W_ij - m_i, so W_iv - W_iJ = u_iv - u_iJ. Split each choice of user i at random
between three *slots*, and reveal the slot. The first and the second *side slot* have probability κ each. The *main
slot* has the rest. Under Q0 her submission is 1 with probability p_i in every slot. (`_slot_bands` may choose a
different probability for each slot, with mean p_i.) Q1 shifts this probability:

    slot     seen with      shift if nothing was moved      shift if J's bit was moved
    main     θ_i (1-2κ)     W_iv/(1-2κ)                     0
    first    θ_i κ          0                               u_iv/κ
    second   θ_i κ          0                               -u_iJ/κ

If the slots are forgotten, the table gives the laws of the submissions. A choice falls in exactly one slot. Now let the
three slots be seen independently: the main slot with probability θ_i (1-2κ)/(1-2θ_i κ), the first with θ_i κ, the
second with θ_i κ/(1-θ_i κ). Keep only one seen slot, in the order first, second, main. Then each slot is kept as often
as the table says. So independent slots show no less.

Each slot of all users together is a product of pairs (Bernoulli(p), Bernoulli(p + shift)). Here p lies in a band, an
interval for all p_i (see `shifted_pairs.product`). Let M be the probability of moving a bit, and S the density that
moved bits add; both depend on x. The likelihood ratio of Q1 to Q0 is

    (1-M) Λ_main + S Λ_side,   Λ_side = Λ_first Λ_second.

Λ_main, Λ_first and Λ_second are the likelihood ratios of the three slots; they are independent. A pair may be replaced
by another pair, if the first is a post-processing of the second. This holds in any slot and for any M and S:
post-processing this slot alone, independently of the others, gives Q0 and Q1 back.

*Wide slots.* An offset is large if its size exceeds `SlotPlan.limit`. Users with a large offset for v or J have *wide*
side slots, with a κ of `WIDE`. All other users have narrow side slots, with the smaller `SlotPlan.kappa`. Let a be the
largest number of positive large offsets in one column, and b the largest number of negative ones. At most a + b users
have a large offset for v, and at most a + b for J. So at most 2(a+b) users have wide slots. Which users these are
depends on J.

Users with a smaller offset may get wide slots too. This happens where one law stands for several columns and charges k
large offsets. In each of these columns, the k users with the largest offsets then have wide slots. For positive offsets
k is at most a; for negative offsets k is at most b.

Main slots of wide users show more, so 2(a+b) such main slots are charged. For a given u, a wide side slot is seen more
often but with a smaller shift. It shows no more than a narrow side slot. So a side slot with a small offset is charged
as narrow, even if its user's other offset is large.

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
"""Values of κ that are tried if some shifted p would leave [0, 1] with the plan's κ."""
_LADDER = (1.2, 1.5)
"""`low` and 1 - `high` of side slots' bands are lowered to powers of these numbers. So equal bands recur, which saves
time."""
_WEIGHTS = 8
"""Largest number of distinct weights W_iv. If there are more, they are rounded up to this many values."""
_LEAST, _MOST = 1e-200, 1e100
"""A divisor is at least `_LEAST`. A ratio is at most `_MOST`: a smaller ratio only raises a divergence."""


@dataclass(frozen=True, eq=False)
class SlotLaws:
    """The laws under Q0 of the likelihood ratios Λ_main of all main slots and Λ_side of all side slots.

    The laws bound what is seen if every user's p_i lies in one band.
    """

    main: ShiftLaw
    side: ShiftLaw

    @cached_property
    def rough(self) -> tuple[Floats, Floats]:
        """Three likelihood ratios in place of the side law, for speed: (probabilities, ratios).

        They serve only to choose M, where no bound is needed. The loss is the logarithm of the ratio. Let m be its mean
        and σ² its variance under the side law. The losses m - √3 σ, m, m + √3 σ with probabilities 1/6, 4/6, 1/6 have a
        Gaussian's first five moments. The three ratios are then scaled to the mean 1, so that m drops out.
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
        """The hockey-stick divergence HS_r of Q1 from Q0 if `up` is True; otherwise of Q0 from Q1.

        Given the number of ones shown, Q1 is Q0 · ((1-M) Λ_main + S Λ_side). The result is an upper bound unless
        `rough` is True. The side law's probabilities have rounding errors of some 1e-11. To allow for these errors,
        side ratios are moved by 1e-8 in the direction that raises the result. The main law allows for its own errors.

        Args:
            stay, moved_density: 1-M and S, arrays of one shape; the result has this shape. ratio: r. rough: whether
            three ratios replace the side law, for speed.
        """
        probabilities, ratios = self.rough if rough else (self.side.law, self.side.ratios)
        if up:
            # The result is E_side E_main [ stay · Λ_main + S · Λ_side - ratio ]^+ plus a charge for a lost side law.
            # Let rest = ratio - S · Λ_side. The inner mean is stay - rest if rest <= 0, otherwise stay ·
            # HS_(rest/stay)(main).
            rest = ratio - moved_density[..., None] * ratios * (1.0 + 1e-8)
            safe = np.maximum(stay[..., None], _LEAST)
            main = stay[..., None] * self.main.above(np.clip(rest, 0.0, _MOST) / safe)
            inside = np.where(rest > 0.0, main, stay[..., None] - rest)
            # Where the side slots show that no bit was moved, Q1 is Q0 times stay · Λ_main.
            unmoved = (stay[..., None] * self.main.above(min(ratio, _MOST) / safe))[..., 0]
            return np.asarray(inside @ probabilities + self.side.lost[0] * unmoved + moved_density * self.side.lost[1])
        # The result is E_side E_main [ 1 - ratio · S · Λ_side - ratio · stay · Λ_main ]^+, plus a charge as above.
        # Let rest = 1 - ratio · S · Λ_side. The inner mean is 0 if rest <= 0, otherwise rest · HS_(ratio ·
        # stay/rest)(main).
        rest = 1.0 - ratio * moved_density[..., None] * ratios * (1.0 - 1e-8)
        threshold = np.minimum(ratio * stay, _MOST)
        main = self.main.below(threshold[..., None] / np.maximum(rest, _LEAST))
        inside = np.where(rest > 0.0, rest * main, 0.0)
        # Another bound leaves S · Λ_side out of Q1. A smaller Q1 does not lower HS_ratio(Q0 || Q1).
        return np.minimum(inside @ probabilities + self.side.lost[0], self.main.below(threshold))


@dataclass(frozen=True, eq=False)
class Slots:
    """Main and side slots for one target, or for several targets with the largest of their weights and offsets.

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
        """The laws of Λ_main and Λ_side if every user's p_i lies in [low, high].

        The plan's κ is used if all shifted probabilities stay in [0, 1]. Otherwise a larger κ is used. If no κ fits,
        the bound is weaker: side slots count as showing the target's noisy label.
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
        """The law of Λ_side for side slots with p in [low, high]; None if some shifted probability exceeds 1.

        The law is averaged over the user J whose label 0 may be shown as 1. The interval is widened somewhat, so that
        few distinct intervals occur and laws are reused.
        """
        low, high = _lowered(low, _LADDER[0]), 1.0 - _lowered(1.0 - high, _LADDER[1])
        first, second = self._first(plan, low, high), self.offsets.average(plan, low, high)
        return first.times(second) if first.law.any() and second.law.any() else None

    @remembered
    def _first(self, plan: SlotPlan, low: float, high: float) -> ShiftLaw:
        """The law of Λ_first for first side slots with p in [low, high].

        For several targets, the largest number of offsets of each size counts.
        """
        counts = self.offsets.bins(plan.limit).counts[:, :, self.columns].max(axis=2)
        return self.offsets.slot(plan, counts, sign=1.0, low=low, high=high)

    def _slot_bands(self, plan: SlotPlan, low: float, high: float) -> tuple[float, float]:
        """The lowest p of the main slots and the highest p of the side slots, if every p_i lies in [low, high].

        The lowest p is negative if the plan does not fit. Under Q0 user i's slots have probabilities p_main, p_first
        and p_second of a 1. Their mean must be p_i: (1-2κ) p_main + κ (p_first + p_second) = p_i. All shifted
        probabilities must stay in [0, 1].

        At the lower end, a side slot with a shift of -u/κ needs a probability of at least u/κ. It gets the larger of
        p_i and u/κ. The main slot gets the remainder, at most p_i. At the upper end, the main slot needs a probability
        of at most 1 - W_iv/(1-2κ). It gets the smaller of p_i and this value. The side slots get the remainder, at
        least p_i. So the main slots' highest p is `high`, and the side slots' lowest p is `low`.
        """
        entries, weight = self.offsets.entries, float(self.weights.max()) * (1.0 + 1e-9)
        # κ times the largest downward shift: first of the first slots (u_iv < 0), then of the second slots (u_iJ > 0).
        falls = (max(0.0, -float(entries[:, self.columns].min())), max(0.0, float(entries.max())))
        slots = [(plan.kappa, plan.limit)] if plan.kappa else []
        slots += [(plan.wide, self.offsets.largest)] if plan.wide_users else []
        main_low, side_high = low, high
        for number, (kappa, _) in enumerate(slots, start=1):
            # A wide side slot may be charged as a narrow one. Then its p must suffice for both widths.
            least = [max(low, *(min(fall, most) / share for share, most in slots[:number])) for fall in falls]
            if max(least) > low:
                main_low = min(main_low, (low - kappa * sum(least) * (1.0 + 1e-9)) / (1.0 - 2.0 * kappa))
            rest = max(0.0, high - 1.0 + weight / (1.0 - 2.0 * kappa)) * (1.0 + 1e-9)
            side_high = max(side_high, high + rest * (1.0 - 2.0 * kappa) / (2.0 * kappa))
        return main_low, min(side_high, 1.0)

    def _shown(self, low: float, high: float) -> SlotLaws:
        """The laws of Λ_main and Λ_side if no κ fits: a side slot then counts as showing the target v's noisy label.

        Here user i has one side slot, of probability κ_i = |W_iv - W_iJ|. Some side slot is seen with probability at
        most Σ_i θ_i (|u_iv| + |u_iJ|). A third slot, without a shift, is added. So main slots have only two
        probabilities. One is 1 - 2 · `plan.limit`, for users with small offsets. The other is 1 - 2 · (the largest
        |u|), for users with large offsets. If the probability of a 1 in a main slot may exceed 1, everything counts as
        shown.
        """
        sums = self.offsets.rates @ np.abs(self.offsets.entries)
        chance = min(1.0, float(sums[self.columns].max() + sums.mean()) * (1.0 + 1e-9))
        largest = self.offsets.largest
        # The main slot's p lies between (p - κ)/(1-κ) and p/(1-κ), with κ <= 2 · largest. Its sum with W_iv/(1-κ) may
        # not exceed 1.
        if high + float(self.weights.max()) > 1.0 - 2.0 * largest:
            return SlotLaws(LAW_SHOWN, LAW_SHOWN)
        side = ShiftLaw(np.array([1.0 - chance]), 0, 1.0, (chance, chance))
        main_low, main_high = max(0.0, low - 2.0 * largest), high / (1.0 - 2.0 * largest)
        return SlotLaws(self._main(main_low, main_high, kappa=self.plan.limit, wide=largest), side)

    def _main(self, low: float, high: float, kappa: float, wide: float) -> ShiftLaw:
        """The law of Λ_main.

        User i shows 1 in her main slot with probability p in [low, high] under Q0, and p + W_iv/(1-2κ) under Q1. The
        slot is seen with probability θ_i (1-2κ)/(1-2θ_i κ). The shift may be rounded up to some d. Then it is enough to
        take p up to 1-d: post-processing the laws for p = 1-d gives the laws for any larger p.

        Args:
            kappa, wide: κ of users with narrow and with wide side slots.
        """
        shifts = self._shifts(1.0 - 2.0 * kappa, 1.0 - 2.0 * wide)
        return product(
            [replace(each, low=min(low, 1.0 - each.shift), high=min(high, 1.0 - each.shift)) for each in shifts]
        )

    @remembered
    def _shifts(self, narrow_share: float, wide_share: float) -> list[Shift]:
        """Groups of users who may fetch from the target, with the shifts of their main slots, for p in [0, 1].

        A group has one shift W_iv/(1-2κ), one probability that the slot is seen, and a number of users, perhaps 0. More
        than `_WEIGHTS` (8) values of W_iv are rounded up to 8 values. It is not known which users have wide side slots.
        So each of the `plan.wide_users` users of the first group has the largest W_iv and θ_i. If all θ_i are equal,
        the other users count with the largest W_iv again. Otherwise all users count again.

        Args:
            narrow_share, wide_share: 1-2κ of users with narrow and with wide side slots.
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
    """The probability θs/(1 - θ(1-s)) of seeing a main slot if slots are seen independently, rounded up.

    θ = `rate` is the probability that the user's submission is seen. s = `share` is the probability of the main slot.
    The proof uses the main slot only if neither side slot is seen, which has probability 1 - θ(1-s). So the main slot
    is used with probability θs, as in the exchange.
    """
    return min(1.0, rate * share / (1.0 - rate * (1.0 - share)) * (1.0 + 1e-12))


def _lowered(value: float, ratio: float) -> float:
    """The largest power of `ratio` that is at most `value`; 0 for values up to 1e-6.

    Few distinct results occur, so that equal intervals recur and are computed once.
    """
    return ratio ** math.floor(math.log(value) / math.log(ratio)) if value > 1e-6 else 0.0
