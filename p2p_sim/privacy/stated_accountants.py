"""Two accountants (objects that bound ε and δ): `Under` adds conditions to another accountant, `OnePoint` knows a
single statement, ε at δ."""

import math
from dataclasses import dataclass, replace

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import Bracket, PrivacyBound, check_delta, check_epsilon
from p2p_sim.privacy.dominating_law import TAIL
from p2p_sim.privacy.where_bounds_hold import ANY_MESSAGE, ANYWHERE


@dataclass(frozen=True)
class Under(Accountant):
    """Another accountant's bounds under further conditions, for example that a message's parameters are public.

    Args:
        model: the other accountant. caveats: the further conditions.
    """

    requires = ANY_MESSAGE

    model: Accountant
    caveats: tuple[str, ...]

    @property
    def pure_epsilon(self) -> float:
        """The other accountant's pure ε, the ε at δ = 0."""
        return self.model.pure_epsilon

    @property
    def conditions(self) -> tuple[str, ...]:
        """All conditions under which the bounds hold: the other accountant's conditions, then `caveats`."""
        return (*self.model.conditions, *self.caveats)

    def delta(self, epsilon: float) -> Bracket:
        """The other accountant's bounds of δ(ε), which hold under all of `conditions`."""
        return self.model.delta(epsilon)

    def epsilon(self, delta: float) -> PrivacyBound:
        """The other accountant's statement of ε at δ, with all of `conditions`."""
        return replace(self.model.epsilon(delta), conditions=self.conditions)


@dataclass(frozen=True)
class OnePoint(Accountant):
    """The accountant of the worst mechanism for which a single statement, ε at δ, is true.

    With probability δ, this mechanism reveals the label. Otherwise, it applies randomised response at ε. So for ε' up
    to ε, δ(ε') = δ + (1-δ)(1 - e^(ε'-ε))/(1 + e^-ε) (Theorem 3.4 of Kairouz, Oh and Viswanath 2015).
    """

    requires = ANYWHERE

    stated: PrivacyBound

    def __post_init__(self) -> None:
        if not (0.0 <= self.stated.epsilon_upper < math.inf and 0.0 <= self.stated.delta < 1.0):
            raise ValueError(f"epsilon = {self.stated.epsilon_upper}: must be at least 0 and finite, with δ in [0, 1)")

    @property
    def pure_epsilon(self) -> float:
        """The pure ε: the statement's ε if the statement has δ = 0, otherwise infinite."""
        return self.stated.epsilon_upper if self.stated.delta == 0.0 else math.inf

    @property
    def least_delta(self) -> float:
        """The smallest δ at which ε may be asked for: the statement's δ, or 1e-18 if the statement has δ = 0."""
        return self.stated.delta or TAIL

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of the statement."""
        return self.stated.conditions

    def delta(self, epsilon: float) -> Bracket:
        """The upper bound of δ(t), t = `epsilon`, that follows from the statement (ε, δ); the lower bound is 0.

        For t up to ε the upper bound is δ + (1-δ)(1 - e^(t-ε))/(1 + e^-ε), rounded up. For larger t it is δ.
        """
        check_epsilon(epsilon)
        top, delta = self.stated.epsilon_upper, self.stated.delta
        beyond = -math.expm1(min(epsilon - top, 0.0)) / (1.0 + math.exp(-top))
        return Bracket(0.0, min(1.0, (delta + (1.0 - delta) * beyond) * (1.0 + 2.0**-50)))

    def epsilon(self, delta: float) -> PrivacyBound:
        """The upper bound of ε at δ by inversion of `delta`; infinite if δ is below the statement's δ."""
        check_delta(delta)
        top, more = self.stated.epsilon_upper, (delta - self.stated.delta) / (1.0 - self.stated.delta)
        # δ(ε') = δ has the solution ε' = ε + ln(1 - share), which is rounded up, but to ε at most
        share = more * (1.0 + math.exp(-top)) * (1.0 - 2.0**-50)
        raised = top * (1.0 + 2.0**-50) + math.log1p(-share) * (1.0 - 2.0**-50) if share < 1.0 else 0.0
        return replace(
            self.stated,
            epsilon_lower=0.0,
            epsilon_upper=min(top, max(0.0, raised)) if more >= 0.0 else math.inf,
            delta=delta,
        )
