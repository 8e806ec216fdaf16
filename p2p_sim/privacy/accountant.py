"""The one question behind every ε: what does an observer learn of a label, at most."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.bound import Bracket, PlainNumbers, PrivacyBound, check_delta
from p2p_sim.privacy.conditions import Condition
from p2p_sim.privacy.dominating_law import TAIL
from p2p_sim.privacy.randomized_response import crossing
from p2p_sim.privacy.where_bounds_hold import UNLISTED, Requirement, Situation, first_failure

_PRECISION = 1e-9
"""To which bisection finds ε, relative."""
_SLACK = 1.002
"""By which the worst accountant's δ is raised, so that others need not be looked at closely."""


class Accountant(PlainNumbers, ABC):
    """Privacy of one user's label against one observer: δ at a given ε, and ε at a given δ.

    A new observer or mechanism is one class with `delta` and `conditions`, and `epsilon` where it is known better than
    by bisection; the rest follows from these. Numbers of NumPy are taken as numbers of Python.

    requires: conditions on the situation that a bound is asked about, in the order in which they are checked.
    """

    requires: ClassVar[tuple[Requirement, ...]] = UNLISTED

    @abstractmethod
    def delta(self, epsilon: float) -> Bracket:
        """δ(ε): no δ below the lower end holds; the upper end is certified.

        Args:
            epsilon: ε, at least 0.
        """

    def epsilon(self, delta: float) -> PrivacyBound:
        """ε(δ) as a statement, with its conditions; by default the learner's, by bisection of either end of δ(ε).

        Args:
            delta: δ in (0, 1).
        """
        check_delta(delta)
        lower, _ = crossing(lambda epsilon: self.delta(epsilon).lower > delta, self.pure_epsilon, _PRECISION)
        _, upper = crossing(lambda epsilon: self.delta(epsilon).upper > delta, self.pure_epsilon, _PRECISION)
        return PrivacyBound(
            min(lower, upper),
            upper,
            delta,
            observer="learner",
            adjacency="label",
            basis=self.basis,
            conditions=self.conditions,
        )

    @property
    def basis(self) -> str:
        """How the bounds are computed."""
        return "bisection of δ(ε)"

    def certified_delta(self, epsilon: float) -> float:
        """Certified δ(ε), the upper end of `delta`, for which some accountants take longer.

        Args:
            epsilon: ε, at least 0.
        """
        return self.delta(epsilon).upper

    @property
    @abstractmethod
    def conditions(self) -> tuple[str, ...]:
        """The conditions under which the bounds hold."""

    @property
    def cacheable(self) -> bool:
        """Whether equal accountants compare as equal, so that computed bounds may be used again."""
        return True

    @property
    def pure_epsilon(self) -> float:
        """An ε from which on δ is 0; infinite if none is known."""
        return math.inf

    @property
    def least_delta(self) -> float:
        """The smallest δ at which `epsilon` is asked for when the whole curve is looked at."""
        return TAIL

    def profile(self, epsilons: Sequence[float]) -> list[Bracket]:
        """δ(ε) at each of the given ε."""
        return [self.delta(epsilon) for epsilon in epsilons]

    def largest_deltas(self, others: Sequence["Accountant"], epsilons: Sequence[float]) -> list[float]:
        """Certified δ at each ε that holds for this accountant, which is expected to be the worst, and for the others.

        All are `kept`. The others are held against a δ that is raised by 0.2%.
        """
        found = [bracket.upper for bracket in self.profile(epsilons)]
        for place, epsilon in enumerate(epsilons if others else ()):
            raised = min(1.0, found[place] * _SLACK)
            if 0.0 < raised < 1.0 and self.all_satisfy(others, epsilon, raised):
                found[place] = raised
            elif epsilon == 0.0:
                found[place] = self.largest_at_zero(others, found[place])
            else:
                found[place] = raised
                for one in others:
                    delta = found[place]
                    if not 0.0 < delta < 1.0 or not one.satisfies(epsilon, delta):
                        found[place] = max(delta, one.delta(epsilon).upper)
        return found

    def largest_at_zero(self, others: Sequence["Accountant"], delta: float) -> float:
        """The largest of this δ(0) and of the others' certified δ(0).

        It is no faster here to hold them against the largest so far, and other runs ask for the same.
        """
        return max(delta, *(_at_zero(one) for one in others))

    def all_satisfy(self, others: Sequence["Accountant"], epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) is certified for all the others at once; False where nothing is faster than one by one."""
        return False

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


@lru_cache(maxsize=65_536)
def _at_zero(model: Accountant) -> float:
    """Certified δ(0) of an accountant whose computed bounds may be used again."""
    return model.delta(0.0).upper
