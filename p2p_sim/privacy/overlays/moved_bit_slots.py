"""Step 4 of `moved_bit` (proof: `docs/theorem.md`): main and side slots of users' choices.

Given X = x, user i's submission is Bernoulli(p_i) under Q0. Under Q1 it is Bernoulli(p_i + W_iv) if no bit was moved,
and Bernoulli(p_i + W_iv - W_iJ) if J's bit was moved. Let m_i be the median of row i and u_ij = W_ij - m_i the
*offsets*; then W_iv - W_iJ = u_iv - u_iJ. Split each choice of user i at random between three *slots*, and reveal the
slot: the first and the second *side slot*, with probability κ each, and the *main slot*. In each slot her submission is
1 with probability p_i under Q0, and shifted under Q1:

    slot     seen with      shift if nothing was moved      shift if J's bit was moved
    main     θ_i (1-2κ)     W_iv/(1-2κ)                     0
    first    θ_i κ          0                               u_iv/κ
    second   θ_i κ          0                               -u_iJ/κ

Without the slots, these are the laws of the submissions. A choice falls in one slot alone. Let the three slots be seen
independently instead, with probabilities θ_i (1-2κ)/(1-2θ_i κ), θ_i κ and θ_i κ/(1-θ_i κ). From them keep the first
side slot if it is seen, else the second, else the main slot: then each slot is kept as often as in the table. So
independent slots show no less.

Each slot of all users together is a product of pairs (Bernoulli(p), Bernoulli(p + shift)) with p in a band: see
`shifted_pairs.product`. With M and S of `moved_bit`, the likelihood ratio of Q1 to Q0 is

    (1-M) Λ_main + S Λ_side,   Λ_side = Λ_first Λ_second,

of independent variables.

A user has *wide* side slots, with a κ of `WIDE`, if her offset to v or to J ranks among the largest in size; else she
has narrow ones, with κ of `SlotPlan`. As many ranks count as any column has offsets above `SlotPlan.limit`. For a given
u, a narrow side slot shows no less than a wide one, which is seen more often with a smaller shift. So a bound may count
a side slot as either, but has to charge every main slot of a user with wide side slots. `Offsets` holds what all
targets share, and `Slots` the slots of a target.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.overlays.moved_bit_offsets import WIDE, Offsets, SlotPlan
from p2p_sim.privacy.overlays.overlay_table import Ints, remembered
from p2p_sim.privacy.overlays.shifted_pairs import LAW_SHOWN, NOTHING_SEEN, Shift, ShiftLaw, product

WIDER = (0.25, 0.45)
"""κ that are tried where, with κ of the plan, some shifted p of a band would leave [0, 1]."""
_LADDER = (1.2, 1.5)
"""Speed only: low and 1 - high of side slots' bands are lowered to powers of these, so that few bands differ."""
_WEIGHTS = 8
"""Largest number of distinct values of the weights W_iv; where there are more, they are rounded up to so many."""
_LEAST, _MOST = 1e-200, 1e100
"""Ratios at which a law's divergence is read are kept in this range; a smaller ratio only raises the divergence."""


@dataclass(frozen=True, eq=False)
class SlotLaws:
    """The laws of Λ_main and Λ_side under Q0; they bound every p_i of one band."""

    main: ShiftLaw
    side: ShiftLaw

    @cached_property
    def rough(self) -> tuple[Floats, Floats]:
        """Speed only: probabilities of three likelihood ratios, and the ratios, to choose M by; they bound nothing.

        Losses mean - √3 σ, mean, mean + √3 σ with probabilities 1/6, 4/6, 1/6 have the moments of a Gaussian up to the
        fifth, and the side law's mean and variance σ². The ratios are scaled to the mean 1.
        """
        law, losses = self.side.law, np.log(self.side.ratios)
        mean = float(law @ losses)
        deviation = math.sqrt(max(float(law @ (losses - mean) ** 2), 0.0))
        if deviation == 0.0:
            return np.ones(1), self.side.ratios[:1]
        ratios = np.exp(math.sqrt(3.0) * deviation * np.array([-1.0, 0.0, 1.0]))
        probabilities = np.array([1.0, 4.0, 1.0]) / 6.0
        return probabilities, ratios / float(probabilities @ ratios)

    def divergence(self, stay: Floats, moved: Floats, ratio: float, *, up: bool, rough: bool = False) -> Floats:
        """HS_ratio(Q1 || Q0) if up, else HS_ratio(Q0 || Q1), where Q1 is Q0 times stay · Λ_main + moved · Λ_side.

        Args:
            stay, moved: 1-M and S, of one shape, that of the result. rough: whether `rough` replaces the side law.
        """
        probabilities, ratios = self.rough if rough else (self.side.law, self.side.ratios)
        if up:
            return self._above(stay, moved, ratio, probabilities=probabilities, ratios=ratios)
        return self._below(stay, moved, ratio, probabilities=probabilities, ratios=ratios)

    def _above(self, stay: Floats, moved: Floats, ratio: float, *, probabilities: Floats, ratios: Floats) -> Floats:
        """E_side E_main [ stay · Λ_main + moved · Λ_side - ratio ]^+, and a charge for a lost side law."""
        # Given Λ_side, with rest = ratio - moved · Λ_side: stay · HS_(rest/stay)(main); stay - rest where rest <= 0.
        rest = ratio - moved[..., None] * ratios * (1.0 + 1e-8)
        safe = np.maximum(stay[..., None], _LEAST)
        main = stay[..., None] * self.main.above(np.clip(rest, 0.0, _MOST) / safe)
        inside = np.where(rest > 0.0, main, stay[..., None] - rest)
        # Where the side law shows that no bit was moved, Q1 is Q0 times stay · Λ_main.
        unmoved = (stay[..., None] * self.main.above(min(ratio, _MOST) / safe))[..., 0]
        return np.asarray(inside @ probabilities + self.side.lost[0] * unmoved + moved * self.side.lost[1])

    def _below(self, stay: Floats, moved: Floats, ratio: float, *, probabilities: Floats, ratios: Floats) -> Floats:
        """E_side E_main [ 1 - ratio · moved · Λ_side - ratio · stay · Λ_main ]^+, and a charge for a lost side law."""
        # Given Λ_side, with rest = 1 - ratio · moved · Λ_side: rest · HS_(ratio · stay/rest)(main); 0 where rest <= 0.
        rest = 1.0 - ratio * moved[..., None] * ratios * (1.0 - 1e-8)
        threshold = np.minimum(ratio * stay, _MOST)
        main = self.main.below(threshold[..., None] / np.maximum(rest, _LEAST))
        inside = np.where(rest > 0.0, rest * main, 0.0)
        # Another bound leaves out what was moved, which only makes Q1 larger.
        return np.minimum(inside @ probabilities + self.side.lost[0], self.main.below(threshold))


@dataclass(frozen=True, eq=False)
class Slots:
    """Main and side slots for one target, or for several that are bounded at once by the largest weights and offsets.

    Args:
        weights, rates: (F,), W_iv and θ_i of the users who may fetch from the target, or upper bounds of them.
        columns: the targets' columns in the table.
    """

    offsets: Offsets
    plan: SlotPlan
    weights: Floats
    rates: Floats
    columns: Ints

    def laws(self, low: float, high: float) -> SlotLaws:
        """Λ_main and Λ_side for p_i in [low, high]: by the plan, else by wider side slots, or else by `_shown`."""
        plan = self.plan
        if not plan.has_side_slots:
            return SlotLaws(self._main(low, high, plan.kappa, plan.wide), NOTHING_SEEN)
        wide = WIDE[-1] if plan.wide_users else 0.0
        for candidate in (plan, *(replace(plan, kappa=more if plan.kappa else 0.0, wide=wide) for more in WIDER)):
            main_low, side_high = self._room(candidate, low, high)
            side = self._side(candidate, low, side_high) if main_low >= 0.0 else None
            if side is not None:
                return SlotLaws(self._main(main_low, high, candidate.kappa, candidate.wide), side)
        return self._shown(low, high)

    def _side(self, plan: SlotPlan, low: float, high: float) -> ShiftLaw | None:
        """The law of Λ_side = Λ_first Λ_second, averaged over J, for p in [low, high]; None if some p + shift > 1."""
        low, high = _lowered(low, _LADDER[0]), 1.0 - _lowered(1.0 - high, _LADDER[1])
        first, second = self._first(plan, low, high), self.offsets.average(plan, low, high)
        return first.times(second) if first.law.any() and second.law.any() else None

    @remembered
    def _first(self, plan: SlotPlan, low: float, high: float) -> ShiftLaw:
        """The law of Λ_first for p in [low, high]."""
        counts = self.offsets.bins(plan.limit).counts[:, :, self.columns].max(axis=2)
        return self.offsets.slot(plan, counts, sign=1.0, low=low, high=high)

    def _room(self, plan: SlotPlan, low: float, high: float) -> tuple[float, float]:
        """The low end of the main slots' band, negative if there is no room, and the high end of the side slots' band.

        With them (1-2κ) p_main + κ (p_first + p_second) = p can hold for every p in [low, high].

        Below: a side slot has p, or u/κ if that is more, the least with room for a shift by -u/κ; the main slot has the
        rest. Above: the main slot has p, or 1 - W_iv/(1-2κ) if that is less, the largest with room for its shift; the
        side slots have the rest.
        """
        entries, weight = self.offsets.entries, float(self.weights.max()) * (1.0 + 1e-9)
        # The largest shift downward of the first slots, by u_iv < 0, and of the second ones, by -u_iJ < 0.
        falls = (max(0.0, -float(entries[:, self.columns].min())), max(0.0, float(entries.max())))
        slots = [(plan.kappa, plan.limit)] if plan.kappa else []
        slots += [(plan.wide, self.offsets.largest)] if plan.wide_users else []
        main_low, side_high = low, high
        for place, (kappa, _) in enumerate(slots, start=1):
            # A wide slot may be charged as a narrow one, and then needs as much room.
            least = [max(low, *(min(fall, most) / share for share, most in slots[:place])) for fall in falls]
            if max(least) > low:
                main_low = min(main_low, (low - kappa * sum(least) * (1.0 + 1e-9)) / (1.0 - 2.0 * kappa))
            rest = max(0.0, high - 1.0 + weight / (1.0 - 2.0 * kappa)) * (1.0 + 1e-9)
            side_high = max(side_high, high + rest * (1.0 - 2.0 * kappa) / (2.0 * kappa))
        return main_low, min(side_high, 1.0)

    def _shown(self, low: float, high: float) -> SlotLaws:
        """The laws where no side slot has room: one slot, with κ_i = |W_iv - W_iJ|, shows whether the law is Q0 or Q1.

        Some user's such slot is seen with probability at most Σ_i θ_i (|u_iv| + |u_iJ|). A further part of the choices,
        shifted under neither law, makes the main slot's share equal for all users, or for all with a large offset.
        """
        sums = self.offsets.rates @ np.abs(self.offsets.entries)
        chance = min(1.0, float(sums[self.columns].max() + sums.mean()) * (1.0 + 1e-9))
        few, many = self.plan.limit, self.offsets.largest
        # The main slot's p is (p - κ)/(1-κ) to p/(1-κ), κ <= 2 many, and has to leave room for W_iv/(1-κ).
        if high + float(self.weights.max()) > 1.0 - 2.0 * many:
            return SlotLaws(LAW_SHOWN, LAW_SHOWN)
        side = ShiftLaw(np.array([1.0 - chance]), 0, 1.0, (chance, chance))
        return SlotLaws(self._main(max(0.0, low - 2.0 * many), high / (1.0 - 2.0 * many), few, many), side)

    def _main(self, low: float, high: float, kappa: float, wide: float) -> ShiftLaw:
        """The law of Λ_main, the product of the pairs (p, p + W_iv/(1-2κ)), p in [low, high].

        Each is seen with probability θ_i (1-2κ)/(1-2θ_i κ). Larger shifts d may be charged. Then p <= 1-d is enough:
        the pair of p = 1-d gives that of any larger p as a post-processing.
        """
        shifts = self._shifts(1.0 - 2.0 * kappa, 1.0 - 2.0 * wide)
        ends = [1.0 - shift.shift for shift in shifts]
        bands = zip(shifts, ends, strict=True)
        return product([replace(shift, low=min(low, end), high=min(high, end)) for shift, end in bands])

    @remembered
    def _shifts(self, share: float, narrow: float) -> list[Shift]:
        """The pairs of the main slots of the target's fetchers, each with the band [0, 1].

        1-2κ is `share` for users with narrow side slots, and `narrow` for those with wide ones. Weights are rounded up
        to `_WEIGHTS` values. Who has wide side slots is not known: the largest weight is charged for each such user,
        and the largest weights again for the other users.
        """
        order = np.argsort(self.weights, kind="stable")
        weights, rates = self.weights[order], self.rates[order]
        wide = min(self.plan.wide_users, weights.size)
        shifts = []
        if wide:
            seen = _seen_alone(float(rates.max()), narrow)
            shifts.append(Shift(seen, 0.0, 1.0, float(weights[-1]) / narrow, wide))
        if np.ptp(rates) == 0.0:  # users charged above stand for those of the least weights
            weights, rates = weights[wide:], rates[wide:]
        if weights.size and np.unique(weights).size > _WEIGHTS:
            ends = np.quantile(weights, np.arange(1, _WEIGHTS + 1) / _WEIGHTS)
            ends[-1] = weights[-1]
            weights = ends[np.searchsorted(ends, weights)]
        lines, counts = np.unique(np.stack([weights, rates]), axis=1, return_counts=True)
        for weight, rate, count in zip(*lines.tolist(), counts.tolist(), strict=True):
            shifts.append(Shift(_seen_alone(rate, share), 0.0, 1.0, weight / share, count))
        return shifts


def _seen_alone(rate: float, share: float) -> float:
    """The probability θs/(1 - θ(1-s)) of seeing an independent main slot, rounded up; θ = `rate`, s = `share`.

    The slot is kept only if neither side slot is seen, which has probability 1 - θ(1-s). So it is kept with θs.
    """
    return min(1.0, rate * share / (1.0 - rate * (1.0 - share)) * (1.0 + 1e-12))


def _lowered(value: float, ratio: float) -> float:
    """The largest power of `ratio` that is at most `value`; 0 for very small values."""
    return ratio ** math.floor(math.log(value) / math.log(ratio)) if value > 1e-6 else 0.0
