"""The one question behind every ε: what does an observer learn of a label, at most."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from p2p_sim.analysis.privacy.statement.bound import Bracket, PrivacyBound
from p2p_sim.analysis.privacy.statement.checks import check_delta
from p2p_sim.analysis.privacy.statement.conditions import Condition
from p2p_sim.analysis.privacy.statement.domain import UNLISTED, Requirement, Situation, first_failure


class Accountant(ABC):
    """Privacy of one user's label against one observer: δ at a given ε, and ε at a given δ.

    A new observer or mechanism is one class with `delta`, `epsilon` and `conditions`; the rest follows from these.

    requires: conditions on the situation that a bound is asked about, in the order in which they are checked.
    """

    requires: ClassVar[tuple[Requirement, ...]] = UNLISTED

    @abstractmethod
    def delta(self, epsilon: float) -> Bracket:
        """δ(ε): no δ below the lower end holds; the upper end is certified.

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
        """The conditions under which the bounds hold."""

    @property
    def kept(self) -> bool:
        """Whether equal accountants compare as equal, so that computed bounds may be used again."""
        return True

    def satisfies(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) is certified; False may mean that (ε, δ) holds but could not be certified."""
        check_delta(delta)
        return self.delta(epsilon).upper <= delta

    def applies(self, situation: Situation) -> Condition | None:
        """The first condition that fails in a situation; None if the bounds are about this situation."""
        return first_failure(self.requires, situation)

    def epsilon_among(self, delta: float, users: NDArray[np.bool_]) -> PrivacyBound:
        """The largest ε(δ) among some users (n,); all users have the same unless their place in the network matters."""
        return self.epsilon(delta)

    def epsilon_and_sample(self, delta: float, users: NDArray[np.bool_]) -> tuple[PrivacyBound, PrivacyBound | None]:
        """`epsilon_among`, and the largest ε(δ) of a sample of these users if not each of them was looked at."""
        return self.epsilon_among(delta, users), None

    def each_epsilon(self, delta: float, users: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Certified ε(δ) of every user (n,); only the values of users in `users` need to be computed."""
        return np.full(len(users), self.epsilon_among(delta, users).epsilon_upper)

    def user_delta(self, user: int, epsilon: float) -> float:
        """Certified δ(ε) of one user."""
        return self.delta(epsilon).upper
