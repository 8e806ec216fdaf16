"""The one question behind every ε: what does an observer learn of a label, at most."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from p2p_sim.privacy.bound import Bracket, PlainNumbers, PrivacyBound, check_delta
from p2p_sim.privacy.conditions import Condition
from p2p_sim.privacy.dominating_law import TAIL
from p2p_sim.privacy.randomized_response import crossing
from p2p_sim.privacy.where_bounds_hold import UNLISTED, Requirement, Situation, first_failure

_PRECISION = 1e-9
"""To which bisection finds ε, relative."""


class Accountant(PlainNumbers, ABC):
    """Privacy of one user's label against one observer: δ at a given ε, and ε at a given δ.

    A new observer or mechanism is one class with `delta` and `conditions`, and `epsilon` where it is known better than
    by bisection; the rest follows from these. Numbers of NumPy are taken as numbers of Python.

    requires: conditions on the situation that a bound is asked about, in the order in which they are checked.
    """

    requires: ClassVar[tuple[Requirement, ...]] = UNLISTED

    @abstractmethod
    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε): no δ below the lower one holds; the upper one is certified to hold.

        Args:
            epsilon: ε, at least 0.
        """

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of ε at δ as a statement with its conditions; by default the learner's, by bisection of `delta`.

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
        """In words, how the bounds are computed, for reports."""
        return "bisection of δ(ε)"

    @property
    @abstractmethod
    def conditions(self) -> tuple[str, ...]:
        """The conditions under which the bounds hold, each a `Condition`."""

    @property
    def pure_epsilon(self) -> float:
        """An ε from which on δ(ε) is 0 (pure differential privacy); infinite if none is known."""
        return math.inf

    @property
    def least_delta(self) -> float:
        """The smallest δ at which `epsilon` is called by computations that use the whole curve δ(ε)."""
        return TAIL

    def profile(self, epsilons: Sequence[float]) -> list[Bracket]:
        """Bounds of δ(ε) for each given ε; some accountants compute many faster than one by one."""
        return [self.delta(epsilon) for epsilon in epsilons]

    def satisfies(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) is certified; False may mean that (ε, δ) holds but could not be certified."""
        check_delta(delta)
        return self.delta(epsilon).upper <= delta

    def applies(self, situation: Situation) -> Condition | None:
        """The first condition of the bounds that fails in a situation; None if they hold there."""
        return first_failure(self.requires, situation)
