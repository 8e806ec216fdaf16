"""Step 4 of the theorem for any fetch law (`docs/theorem.md`): main and side slots of users' choices.

Given X = x, user i's submission is Bernoulli(p_i) under Q0. Under Q1 it is Bernoulli(p_i + W_iv) if nothing was moved,
and Bernoulli(p_i + W_iv - W_iJ) if J's bit was. Let m_i be the median of row i and u_ij = W_ij - m_i, the *offsets*;
then W_iv - W_iJ = u_iv - u_iJ. With probability κ each a choice of user i falls in the first or in the second *side
slot*, and shows which, else in the *main slot*; each slot shows 1 with her p_i, and is shifted under Q1:

    slot     seen with      shift if nothing was moved      shift if J's bit was moved
    main     θ_i (1-2κ)     W_iv/(1-2κ)                     0
    first    θ_i κ          0                               u_iv/κ
    second   θ_i κ          0                               -u_iJ/κ

To forget the slots gives the laws of the submissions. A choice falls in one slot alone. Let the three slots be seen
independently instead, with probabilities θ_i (1-2κ)/(1-2θ_i κ), θ_i κ and θ_i κ/(1-θ_i κ): keep the first one if it is
seen, else the second, else the main one, and each is kept as often as above. So that view shows no less.

Each slot of all users is a product of pairs (Bernoulli(p), Bernoulli(p + shift)) with p in a band,
`shifted_pairs.product`. With M and S of `moved_bit`, the likelihood ratio of Q1 to Q0 is

    (1-M) Λ_main + S Λ_side,   Λ_side = Λ_first Λ_second,

of independent variables. Users with an offset above a limit have slots of `WIDE` each, whatever κ is. `Offsets` has
what all targets share, `Slots` the slots of a target; both take larger pairs where that is cheaper.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.overlays.moved_bit_offsets import WIDE, Ints, Offsets, SlotPlan
from p2p_sim.privacy.overlays.shifted_pairs import NOTHING_SEEN, Shift, ShiftLaw, product

WIDER = (0.25, 0.45)
"""κ that are tried where a smaller one does not fit a band."""
_LADDER = (1.2, 1.5)
"""For side slots, the low and the high end of a band are widened to ladders with these ratios."""
_WEIGHTS = 8
"""Different weights of fetchers that are kept apart."""
_LEAST, _MOST = 1e-200, 1e100
"""Ratios of laws are formed from numbers in this range: a smaller ratio only raises a bound."""


class SideRatios(NamedTuple):
    """Probabilities under Q0 of values of Λ_side, and these likelihood ratios."""

    probabilities: Floats
    ratios: Floats


@dataclass(frozen=True, eq=False)
class SlotLaws:
    """Λ_main and Λ_side for all values p_i of one band, as laws under Q0."""

    main: ShiftLaw
    side: ShiftLaw

    @cached_property
    def rough(self) -> SideRatios:
        """Three ratios with the mean and variance of the side law's loss, which only choose M: they bound nothing.

        Losses mean - √3 σ, mean, mean + √3 σ with probabilities 1/6, 4/6, 1/6 have the moments of a Gaussian up to the
        fifth. The ratios are scaled to the mean 1.
        """
        law, losses = self.side.law, np.log(self.side.ratios)
        mean = float(law @ losses)
        deviation = math.sqrt(max(float(law @ (losses - mean) ** 2), 0.0))
        if deviation == 0.0:
            return SideRatios(np.ones(1), self.side.ratios[:1])
        ratios = np.exp(math.sqrt(3.0) * deviation * np.array([-1.0, 0.0, 1.0]))
        probabilities = np.array([1.0, 4.0, 1.0]) / 6.0
        return SideRatios(probabilities, ratios / float(probabilities @ ratios))

    def divergence(self, stay: Floats, moved: Floats, ratio: float, *, up: bool, rough: bool = False) -> Floats:
        """HS_ratio(Q1 || Q0) if up, else HS_ratio(Q0 || Q1), where Q1 = stay · Λ_main + moved · Λ_side.

        Args:
            stay, moved: 1-M and S, of one shape. rough: of the side law only `rough` counts.
        """
        side = self.rough if rough else SideRatios(self.side.law, self.side.ratios)
        return (self._above if up else self._below)(stay, moved, ratio, side)

    def _above(self, stay: Floats, moved: Floats, ratio: float, side: SideRatios) -> Floats:
        """E_side E_main [ stay · Λ_main + moved · Λ_side - ratio ]^+, and what the side law shows."""
        # Given Λ_side, with rest = ratio - moved · Λ_side: stay · HS_(rest/stay)(main); stay - rest where rest <= 0.
        rest = ratio - moved[..., None] * side.ratios * (1.0 + 1e-8)
        safe = np.maximum(stay[..., None], _LEAST)
        main = stay[..., None] * self.main.above(np.clip(rest, 0.0, _MOST) / safe)
        inside = np.where(rest > 0.0, main, stay[..., None] - rest)
        # The side law shows that nothing was moved: what stays is as likely there as under Q0.
        unmoved = (stay[..., None] * self.main.above(min(ratio, _MOST) / safe))[..., 0]
        return np.asarray(inside @ side.probabilities + self.side.lost[0] * unmoved + moved * self.side.lost[1])

    def _below(self, stay: Floats, moved: Floats, ratio: float, side: SideRatios) -> Floats:
        """E_side E_main [ 1 - ratio · moved · Λ_side - ratio · stay · Λ_main ]^+, and what the side law shows."""
        # Given Λ_side, with rest = 1 - ratio · moved · Λ_side: rest · HS_(ratio · stay/rest)(main); 0 where rest <= 0.
        rest = 1.0 - ratio * moved[..., None] * side.ratios * (1.0 - 1e-8)
        threshold = np.minimum(ratio * stay, _MOST)
        main = self.main.below(threshold[..., None] / np.maximum(rest, _LEAST))
        inside = np.where(rest > 0.0, rest * main, 0.0)
        # Another bound leaves out what was moved, which only makes Q1 larger.
        return np.minimum(inside @ side.probabilities + self.side.lost[0], self.main.below(threshold))


@dataclass(frozen=True, eq=False)
class Slots:
    """The slots for one target, or for several bounded at once: larger weights and offsets have larger curves.

    Args:
        weights, rates: (F,) of the target's fetchers, or larger ones. columns: the targets among the table's columns.
    """

    offsets: Offsets
    plan: SlotPlan
    weights: Floats
    rates: Floats
    columns: Ints
    _first: dict[tuple[float, ...], ShiftLaw] = field(default_factory=dict, init=False, repr=False)
    _main_shifts: dict[tuple[float, float], list[Shift]] = field(default_factory=dict, init=False, repr=False)

    def laws(self, low: float, high: float) -> SlotLaws:
        """Λ_main and Λ_side for p_i in [low, high]; where that has no room for the side slots, these are wider, or show
        all that they may."""
        # The plan, else wider side slots.
        plan, wide = self.plan, WIDE[-1] if self.plan.wide_users else 0.0
        for candidate in (plan, *(replace(plan, kappa=more if plan.kappa else 0.0, wide=wide) for more in WIDER)):
            side, least = self._side(candidate, low, high), self._room(candidate, low)
            if side is not None and least >= 0.0:
                return SlotLaws(self._main(least, high, candidate.kappa, candidate.wide), side)
        # Else κ_i = |u_i|: her side slots show which law it is, with probability at most Σ_i θ_i (|u_iv| + |u_iJ|).
        sums = self.offsets.rates @ np.abs(self.offsets.entries)
        apart = 1.0 - float(self.offsets.rates.max()) * min(self.offsets.largest, 1.0)  # as if seen independently
        chance = float(sums[self.columns].max() + sums.mean()) * (1.0 + 1e-9)
        chance = chance / apart if chance < apart else 1.0
        side = ShiftLaw(np.array([1.0 - chance]), 0, 1.0, (chance, chance))
        few, many = min(plan.limit, 0.25), min(self.offsets.largest, 0.25)
        low, high = max(0.0, low - 2.0 * many), min(1.0, high / (1.0 - 2.0 * many))
        return SlotLaws(self._main(low, high, few, many), side)

    def _side(self, plan: SlotPlan, low: float, high: float) -> ShiftLaw | None:
        """Λ_side = Λ_first Λ_second, averaged over J; None where p is not in [low, high] with room for the shifts."""
        if not self.offsets.sizes.size or plan.moved_share == 0.0:
            return NOTHING_SEEN
        low, high = _lowered(low, _LADDER[0]), 1.0 - _lowered(1.0 - high, _LADDER[1])
        key = (plan.kappa, plan.wide, low, high)
        if key not in self._first:
            counts = self.offsets.bins(plan.limit).counts[:, :, self.columns].max(axis=2)
            self._first[key] = self.offsets.slot(plan, counts, sign=1.0, low=low, high=high)
        first, second = self._first[key], self.offsets.average(plan, low, high)
        return first.times(second) if first.law.any() and second.law.any() else None

    def _room(self, plan: SlotPlan, low: float) -> float:
        """The least p of main slots, (low - κ (p_first + p_second)) / (1 - 2κ); negative where there is no room.

        p is at least `low` over all slots. A side slot has the same p, or u/κ, the least with room for a shift -u/κ,
        which leaves less for the main slot.
        """
        least, entries = low, self.offsets.entries
        falls = (max(0.0, -float(entries[:, self.columns].min())), max(0.0, float(entries.max())))
        largest = self.offsets.largest if plan.wide_users else 0.0
        for kappa, most in ((plan.kappa, plan.limit), (plan.wide, largest)):
            needed = [max(kappa * low, min(fall, most) * (1.0 + 1e-9)) for fall in falls]
            if max(needed) > kappa * low:
                least = min(least, (low - sum(needed)) / (1.0 - 2.0 * kappa))
        return least

    def _main(self, low: float, high: float, kappa: float, wide: float) -> ShiftLaw:
        """Λ_main = Π_i of the pairs (p, p + W_iv/(1-2κ)), each seen with θ_i (1-2κ)/(1-2θ_i κ), p in [low, high]."""
        if (kappa, wide) not in self._main_shifts:
            self._main_shifts[kappa, wide] = self._shifts(1.0 - 2.0 * kappa, 1.0 - 2.0 * wide)
        shifts = self._main_shifts[kappa, wide]
        return product([replace(shift, low=low, high=min(high, 1.0 - shift.shift)) for shift in shifts])

    def _shifts(self, share: float, narrow: float) -> list[Shift]:
        """The main slots of the target's fetchers, 1-2κ = `share`, or `narrow` for as many as have wide side slots.

        Who has these is not known: the fetchers with the largest weights are charged for them. Their p need no band
        yet. Weights are rounded up to `_WEIGHTS` values.
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
    """θ s/(1 - θ(1-s)), rounded up: how often a slot must be seen independently to be kept with θ s."""
    return min(1.0, rate * share / (1.0 - rate * (1.0 - share)) * (1.0 + 1e-12))


def _lowered(value: float, ratio: float) -> float:
    """The value, or the next smaller one of a ladder."""
    return ratio ** math.floor(math.log(value) / math.log(ratio)) if value > 1e-6 else 0.0
