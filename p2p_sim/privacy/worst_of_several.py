"""Accountants made of others: many clusters, further conditions, a single statement, and a coarse law of their loss."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import LARGEST_EPSILON, Bracket, PrivacyBound, check_delta, check_epsilon, worst_bound
from p2p_sim.privacy.dominating_law import TAIL, LossLaw
from p2p_sim.privacy.where_bounds_hold import ANY_MESSAGE, ANYWHERE

EVERY = 16
"""Most models for each of which ε is found."""


def epsilons(models: Sequence[Accountant], delta: float) -> list[PrivacyBound]:
    """ε(δ) of each model, worst first; the largest of them is found, and the last one's.

    Among more than 16 those between are only held against the worst so far, all together where that succeeds, else one
    by one. Their upper end is then the worst one's, and their lower end 0.

    Args:
        models: at least one, ordered so that earlier ones are expected to be worse (smaller clusters).
        delta: δ in (0, 1).
    """
    if len(models) <= EVERY:
        return [model.epsilon(delta) for model in models]
    worst = models[0].epsilon(delta)
    found = [worst]
    all_held = math.isfinite(worst.epsilon_upper) and models[0].all_satisfy(models[1:-1], worst.epsilon_upper, delta)
    for model in models[1:-1]:
        if all_held or model.satisfies(worst.epsilon_upper, delta):
            found.append(replace(worst, epsilon_lower=0.0, basis="no more than in the worst cluster"))
            continue
        worst = model.epsilon(delta)
        found.append(worst)
    return [*found, models[-1].epsilon(delta)]


@dataclass(frozen=True)
class WorstOf(Accountant):
    """Whichever of several accountants is a user's own: at every ε the largest δ.

    models: at least one, about one observer and adjacency.
    """

    requires = ANYWHERE

    models: tuple[Accountant, ...]

    @property
    def cacheable(self) -> bool:
        """Whether computed bounds of all models may be used again."""
        return all(model.cacheable for model in self.models)

    @property
    def pure_epsilon(self) -> float:
        """The largest of the models' pure ε."""
        return max(model.pure_epsilon for model in self.models)

    @property
    def least_delta(self) -> float:
        """The largest of the models' least δ."""
        return max(model.least_delta for model in self.models)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Those of all."""
        return tuple(dict.fromkeys(condition for model in self.models for condition in model.conditions))

    def delta(self, epsilon: float) -> Bracket:
        """The largest δ(ε)."""
        return self.profile([epsilon])[0]

    def profile(self, epsilons: Sequence[float]) -> list[Bracket]:
        """The largest δ at each of the given ε."""
        each = zip(*(model.profile(epsilons) for model in self.models), strict=True)
        return [Bracket(max(b.lower for b in found), max(b.upper for b in found)) for found in each]

    def epsilon(self, delta: float) -> PrivacyBound:
        """The largest ε(δ), under all conditions."""
        return worst_bound([model.epsilon(delta) for model in self.models])


@dataclass(frozen=True)
class Under(Accountant):
    """An accountant of a message that is a flipped label once public parameters are fixed, under further conditions.

    Args:
        model: of flipped labels. caveats: conditions of the public parameters, which are conditions of every bound.
    """

    requires = ANY_MESSAGE

    model: Accountant
    caveats: tuple[str, ...]

    @property
    def pure_epsilon(self) -> float:
        """The model's."""
        return self.model.pure_epsilon

    @property
    def conditions(self) -> tuple[str, ...]:
        """The model's, and the further ones."""
        return (*self.model.conditions, *self.caveats)

    def delta(self, epsilon: float) -> Bracket:
        """The model's δ(ε)."""
        return self.model.delta(epsilon)

    def epsilon(self, delta: float) -> PrivacyBound:
        """The model's ε(δ), under all conditions."""
        return replace(self.model.epsilon(delta), conditions=self.conditions)


@dataclass(frozen=True)
class OnePoint(Accountant):
    """What follows from a single statement, ε at δ: the worst mechanism of which it is true.

    With probability δ everything is given away, else the label is flipped as randomised response does at ε:
    δ(ε') = δ + (1-δ)(1 - e^(ε'-ε))/(1 + e^-ε) up to ε (Kairouz, Oh and Viswanath 2015, Theorem 3.4's pair).
    """

    requires = ANYWHERE

    stated: PrivacyBound

    def __post_init__(self) -> None:
        if not (0.0 <= self.stated.epsilon_upper < math.inf and 0.0 <= self.stated.delta < 1.0):
            raise ValueError(f"epsilon = {self.stated.epsilon_upper}: must be at least 0 and finite, with δ in [0, 1)")

    @property
    def pure_epsilon(self) -> float:
        """ε if δ is 0."""
        return self.stated.epsilon_upper if self.stated.delta == 0.0 else math.inf

    @property
    def least_delta(self) -> float:
        """δ of the statement: nothing holds at a smaller one."""
        return self.stated.delta or TAIL

    @property
    def conditions(self) -> tuple[str, ...]:
        """Those of the statement."""
        return self.stated.conditions

    def delta(self, epsilon: float) -> Bracket:
        """δ(ε), at most."""
        check_epsilon(epsilon)
        top, delta = self.stated.epsilon_upper, self.stated.delta
        beyond = -math.expm1(min(epsilon - top, 0.0)) / (1.0 + math.exp(-top))
        return Bracket(0.0, min(1.0, (delta + (1.0 - delta) * beyond) * (1.0 + 2.0**-50)))

    def epsilon(self, delta: float) -> PrivacyBound:
        """ε(δ), at most; infinite below the statement's δ."""
        check_delta(delta)
        top, more = self.stated.epsilon_upper, (delta - self.stated.delta) / (1.0 - self.stated.delta)
        if more < 0.0:
            return replace(self.stated, epsilon_lower=0.0, epsilon_upper=math.inf, delta=delta)
        share = more * (1.0 + math.exp(-top))
        found = max(0.0, top + math.log1p(-share)) if share < 1.0 else 0.0
        return replace(self.stated, epsilon_lower=0.0, epsilon_upper=found, delta=delta)


def coarse_law(model: Accountant, stated: PrivacyBound) -> LossLaw:
    """A law that dominates the accountant's: from δ at three ε, the stated (ε, δ), and the ε from which on δ is 0.

    It is quick enough for every row, and certified at every ε: δ is convex in e^ε, so that it lies below the lines
    between these points. Of many models the first is looked at, and the others are only held against it. Where the
    place of a user in the network matters, δ is slow to compute, and the statement alone is used.

    Args:
        model: whose δ it is. stated: an ε at a δ that it certifies.
    """
    models = list(model.models) if isinstance(model, WorstOf) else [model]
    if stated.epsilon_upper > LARGEST_EPSILON:  # infinite, or e^ε is
        return LossLaw.of([0.0], [1.0])
    pure = min(model.pure_epsilon, stated.epsilon_upper if stated.delta == 0.0 else math.inf)
    top = min(stated.epsilon_upper, pure)
    points = {top: 0.0 if top >= pure else stated.delta}
    asked = _below(top)
    if all(one.cacheable for one in models):
        points |= dict(zip(asked, models[0].largest_deltas(models[1:], asked), strict=True)) if asked else {}
    else:
        points |= {epsilon: OnePoint(stated).delta(epsilon).upper for epsilon in asked}
    if pure <= LARGEST_EPSILON:
        points[pure] = 0.0
    grid = sorted(points)
    return LossLaw.of(grid, [points[epsilon] for epsilon in grid], pure)


def _below(top: float) -> list[float]:
    """Up to three smaller ε: 0 and two powers of 2, so that runs that resemble one another ask for the same."""
    if top <= 0.0:
        return []
    middle = math.ldexp(0.5, math.frexp(0.7 * top)[1])  # the largest power of 2 that is at most .7 top
    return [0.0, middle / 2.0, middle]
