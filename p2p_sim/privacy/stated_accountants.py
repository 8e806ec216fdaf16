"""Accountants that restate another's bounds: under further conditions, and a single statement as a whole curve."""

import math
from dataclasses import dataclass, replace

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import Bracket, PrivacyBound, check_delta, check_epsilon
from p2p_sim.privacy.dominating_law import TAIL
from p2p_sim.privacy.where_bounds_hold import ANY_MESSAGE, ANYWHERE


@dataclass(frozen=True)
class Under(Accountant):
    """An accountant whose bounds hold under further conditions, such as those of public parameters of a message.

    Args:
        model: the accountant of flipped labels. caveats: the further conditions, which are conditions of every bound.
    """

    requires = ANY_MESSAGE

    model: Accountant
    caveats: tuple[str, ...]

    @property
    def pure_epsilon(self) -> float:
        """The pure ε of the model, from which on its δ(ε) is 0."""
        return self.model.pure_epsilon

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of the model's bounds, and the caveats."""
        return (*self.model.conditions, *self.caveats)

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε), those of the model."""
        return self.model.delta(epsilon)

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of ε at δ, those of the model, under its conditions and the caveats."""
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
        """The statement's ε if its δ is 0, else infinite."""
        return self.stated.epsilon_upper if self.stated.delta == 0.0 else math.inf

    @property
    def least_delta(self) -> float:
        """δ of the statement: no finite ε follows from it at a smaller one."""
        return self.stated.delta or TAIL

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of the statement, which hold for all that follows from it."""
        return self.stated.conditions

    def delta(self, epsilon: float) -> Bracket:
        """Upper bound of δ(ε) that follows from the statement; the lower one is 0."""
        check_epsilon(epsilon)
        top, delta = self.stated.epsilon_upper, self.stated.delta
        beyond = -math.expm1(min(epsilon - top, 0.0)) / (1.0 + math.exp(-top))
        return Bracket(0.0, min(1.0, (delta + (1.0 - delta) * beyond) * (1.0 + 2.0**-50)))

    def epsilon(self, delta: float) -> PrivacyBound:
        """Upper bound of ε at δ that follows from the statement; infinite below its δ."""
        check_delta(delta)
        top, more = self.stated.epsilon_upper, (delta - self.stated.delta) / (1.0 - self.stated.delta)
        if more < 0.0:
            return replace(self.stated, epsilon_lower=0.0, epsilon_upper=math.inf, delta=delta)
        share = more * (1.0 + math.exp(-top))
        upper = max(0.0, top + math.log1p(-share)) if share < 1.0 else 0.0
        return replace(self.stated, epsilon_lower=0.0, epsilon_upper=upper, delta=delta)
