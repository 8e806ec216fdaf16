"""The base class of all accountants. An accountant bounds how much an observer learns of one user's label."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from p2p_sim.privacy.bound import Bracket, PlainNumbers, PrivacyBound, check_delta
from p2p_sim.privacy.dominating_law import TAIL
from p2p_sim.privacy.randomized_response import crossing, local_epsilon
from p2p_sim.privacy.where_bounds_hold import UNLISTED, Requirements

_PRECISION = 1e-9
"""Relative precision of ε from bisection."""


class Accountant(PlainNumbers, ABC):
    """Privacy of one user's label against one observer: δ at a given ε, and ε at a given δ.

    A subclass for a new observer or mechanism defines `delta` and `conditions`. It also defines `epsilon` if ε is not
    found by bisection. All other methods follow from these. NumPy's numbers are converted to Python's.

    requires: requirements on the situation in which a bound is used, in the order in which they are checked.
    """

    requires: ClassVar[Requirements] = UNLISTED

    @abstractmethod
    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε). No δ below the lower bound holds. The upper bound is certified to hold.

        Args:
            epsilon: ε, at least 0.
        """

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of ε at δ with their conditions. By default they hold against the learner, and come from bisection of
        `delta`.

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
        """How `epsilon` computes bounds, in words for reports. A subclass's own `epsilon` may name another way in the
        bound.
        """
        return "bisection of δ(ε)"

    @property
    @abstractmethod
    def conditions(self) -> tuple[str, ...]:
        """The conditions under which the bounds hold, each a `Condition`, or plain text in a plug-in."""

    @property
    def pure_epsilon(self) -> float:
        """An ε at which δ(ε) = 0 (pure differential privacy), as small as known; infinite: none is known."""
        return math.inf

    @property
    def least_delta(self) -> float:
        """The smallest δ at which ε is computed if the whole curve δ(ε) is needed, by default 1e-18.

        The whole curve is needed, for example, for the privacy of several releases together. Privacy losses above the ε
        at this δ then count as infinite, that is, as a failure of all privacy. Such losses have approximately the
        probability δ. A subclass gives a larger value if it cannot compute ε at so small a δ.
        """
        return TAIL

    def profile(self, epsilons: Sequence[float]) -> list[Bracket]:
        """Bounds of δ(ε) for each given ε. A subclass may compute all of these together, which is faster."""
        return [self.delta(epsilon) for epsilon in epsilons]

    def certified_delta(self, epsilon: float) -> float:
        """The upper bound of δ(ε). A subclass may compute this bound alone, which is faster than `delta`."""
        return self.delta(epsilon).upper

    def satisfies(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) is certified to hold. An (ε, δ) that is not certified may hold, too."""
        check_delta(delta)
        return self.certified_delta(epsilon) <= delta


class FlippedLabels(Accountant):
    """Base of accountants for binary labels. Each label is flipped once with probability α before an observer sees
    anything of it.
    """

    flip_prob: float
    """α in [0, 1/2]."""

    @property
    def pure_epsilon(self) -> float:
        """ε₀ of the noisy label: no observer learns more than the noisy label itself reveals."""
        return local_epsilon(self.flip_prob)
