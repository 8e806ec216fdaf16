"""Accountants for networks with faults: the noise alone, nothing seen, another accountant's upper end."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from p2p_sim.exchange.randomizer import Message
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import REALISED, Bracket, PrivacyBound
from p2p_sim.privacy.conditions import LOCAL_CONDITIONS, REALISED_CONDITIONS
from p2p_sim.privacy.where_bounds_hold import ANYWHERE

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NoiseAlone(Accountant):
    """Nothing but the noise on each label is certain, for a reason."""

    requires = ANYWHERE

    noise: Message
    reason: str

    @property
    def pure_epsilon(self) -> float:
        """ε₀ of the noisy label."""
        return self.noise.local_epsilon

    def delta(self, epsilon: float) -> Bracket:
        """At most that of the message itself."""
        return self.noise.alone(epsilon)

    def epsilon(self, delta: float) -> PrivacyBound:
        """ε₀, whatever δ."""
        basis, upper = f"noise alone: {self.reason}", self.noise.local_epsilon
        return PrivacyBound(0.0, upper, delta, "learner", "label", basis, self.conditions)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions under which the bounds hold."""
        return (*LOCAL_CONDITIONS, *self.noise.caveats)


@dataclass(frozen=True)
class NothingSeen(Accountant):
    """Nobody's label was passed on."""

    requires = ANYWHERE

    @property
    def pure_epsilon(self) -> float:
        """0."""
        return 0.0

    def delta(self, epsilon: float) -> Bracket:
        """0."""
        return Bracket(0.0, 0.0)

    def epsilon(self, delta: float) -> PrivacyBound:
        """0."""
        basis = "nobody's label was passed on"
        return PrivacyBound(0.0, 0.0, delta, "learner", "label", basis, self.conditions, REALISED)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions under which the bounds hold."""
        return REALISED_CONDITIONS


@dataclass(frozen=True)
class GivenNetwork(Accountant):
    """An accountant's upper figures for the network as it turned out: its lower end would be another network's.

    model: the accountant. said: under which conditions its figures hold for the realised network.
    """

    requires = ANYWHERE

    model: Accountant
    said: tuple[str, ...]

    @property
    def cacheable(self) -> bool:
        """As the accountant's."""
        return self.model.cacheable

    @property
    def pure_epsilon(self) -> float:
        """As the accountant's."""
        return self.model.pure_epsilon

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions under which the bounds hold."""
        return self.said

    def delta(self, epsilon: float) -> Bracket:
        """At most the accountant's."""
        return Bracket(0.0, self.model.delta(epsilon).upper)

    def epsilon(self, delta: float) -> PrivacyBound:
        """At most the accountant's."""
        return self._given(self.model.epsilon(delta))

    def epsilon_among(self, delta: float, users: NDArray[np.bool_]) -> PrivacyBound:
        """At most the accountant's."""
        return self._given(self.model.epsilon_among(delta, users))

    def epsilon_and_sample(self, delta: float, users: NDArray[np.bool_]) -> tuple[PrivacyBound, PrivacyBound | None]:
        """At most the accountant's."""
        bound, sample = self.model.epsilon_and_sample(delta, users)
        return self._given(bound), None if sample is None else self._given(sample, sample.conditions[-1:])

    def each_epsilon(self, delta: float, users: NDArray[np.bool_]) -> Floats:
        """The accountant's."""
        return self.model.each_epsilon(delta, users)

    def user_delta(self, user: int, epsilon: float) -> float:
        """The accountant's."""
        return self.model.user_delta(user, epsilon)

    def profile(self, epsilons: Sequence[float]) -> list[Bracket]:
        """At most the accountant's."""
        return [Bracket(0.0, bracket.upper) for bracket in self.model.profile(epsilons)]

    def _given(self, bound: PrivacyBound, more: tuple[str, ...] = ()) -> PrivacyBound:
        return replace(bound, epsilon_lower=0.0, conditions=(*self.said, *more), conditional_on=REALISED)
