"""The one question behind every ε: what does an observer learn of a label, at most."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from analysis.privacy.statement.bound import Bracket, PrivacyBound
from analysis.privacy.statement.checks import check_delta
from analysis.privacy.statement.conditions import Condition
from analysis.privacy.statement.domain import UNLISTED, Requirement, Situation, first_failure


class Accountant(ABC):
    """Privacy of one user's label against one observer: δ at a given ε, and ε at a given δ.

    A new observer or mechanism is one class with `delta`, `epsilon` and `conditions`; all else follows from these.

    requires: of the situation that the figures are asked about, in this order.
    """

    requires: ClassVar[tuple[Requirement, ...]] = UNLISTED

    @abstractmethod
    def delta(self, epsilon: float) -> Bracket:
        """δ(ε): no smaller δ holds than the lower end; the upper end is certified.

        Args:
            epsilon: ε, at least 0.
        """

    @abstractmethod
    def epsilon(self, delta: float) -> PrivacyBound:
        """ε(δ) as a statement, with its conditions.

        Args:
            delta: δ in (0, 1).
        """

    @property
    @abstractmethod
    def conditions(self) -> tuple[str, ...]:
        """Under which the figures hold."""

    @property
    def kept(self) -> bool:
        """Whether equal accountants are known as equal, so that figures may be kept for the next one."""
        return True

    def satisfies(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) is certified; False may mean that it holds but could not be shown."""
        check_delta(delta)
        return self.delta(epsilon).upper <= delta

    def applies(self, situation: Situation) -> Condition | None:
        """The first condition that fails in a situation; None where the figures are about it."""
        return first_failure(self.requires, situation)

    def epsilon_among(self, delta: float, users: NDArray[np.bool_]) -> PrivacyBound:
        """ε(δ) of the worst placed of some users (n,); the same for all unless a place in the network matters."""
        return self.epsilon(delta)

    def each_epsilon(self, delta: float, users: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Certified ε(δ) of every user (n,), of which those in `users` need to be right."""
        return np.full(len(users), self.epsilon_among(delta, users).epsilon_upper)

    def user_delta(self, user: int, epsilon: float) -> float:
        """Certified δ(ε) of one user."""
        return self.delta(epsilon).upper
