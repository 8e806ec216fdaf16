"""A protocol as a mechanism: users exchange noisy labels as it says, and ε₀ of the noise protects her from everybody.

*Proof.* A user's randomizer is run once and is ε₀-private for her label (a). Processes, faults and adversaries get
noisy labels, public features and coins that depend on no label (b, c, d). So whatever anybody sees, the learner, a
peer, a coalition or an eavesdropper, with all times, is a function of the noisy labels of all users and of randomness
independent of labels: post-processing. If one user's label changes, one noisy label changes its law, by e^ε₀ at most.
A noisy label that is sent again tells nothing new; r independent draws would cost r ε₀. ∎

Accuracy and heterogeneity in a row are computed from true labels and belong to nobody's view.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base.checked_values import misfit, require
from p2p_sim.base.plugins import maker_of, method_of
from p2p_sim.exchange.adversaries import NOBODY, AdversariesConfig
from p2p_sim.exchange.engines import Exchange
from p2p_sim.exchange.protocol import Protocol
from p2p_sim.mechanisms.deployment import Accounted, Deployment, Setup, Trust
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome
from p2p_sim.mechanisms.randomized_response import FlippedLabelsConfig, RandomizedResponse
from p2p_sim.network.network_config import Network, NetworkConfig
from p2p_sim.population.clustering import ClustersConfig
from p2p_sim.population.population import People
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.conditions import PROTOCOL_CONDITIONS
from p2p_sim.privacy.where_bounds_hold import Situation

BASIS = "pure: post-processing of noisy labels"


class ProtocolConfig(FlippedLabelsConfig):
    """The base of the configurations of a protocol; a subclass defines `kind`, keys of its own, and `protocol`."""

    sends: ClassVar[bool] = True
    conditions: ClassVar[tuple[str, ...]] = PROTOCOL_CONDITIONS
    target_epsilon: float | None = Field(default=None, gt=0, le=100)
    """ε₀ of a noisy label, above 0, at most 100; chooses α."""

    @abstractmethod
    def protocol(self) -> Protocol:
        """What users do."""

    def check_surroundings(
        self, clusters: ClustersConfig, network: NetworkConfig, adversaries: AdversariesConfig
    ) -> None:
        """Everything has a meaning: noisy labels are all that anybody gets."""

    def deployed(self, setup: Setup) -> "ProtocolMechanism":
        protocol: Any = self.protocol()
        wanted = f"must give a Protocol, not {type(protocol).__name__}"
        method = method_of(maker_of(self), self, "protocol")
        require(method, isinstance(protocol, Protocol), wanted)
        require(method, not (wrong := misfit(type(protocol), Protocol)), f"{type(protocol).__name__}.{wrong}")
        return ProtocolMechanism(self.flips(setup), protocol, setup.adversaries)


@dataclass(frozen=True)
class ProtocolMechanism(Deployment):
    """A protocol among users with randomised response as noise; what anybody learns is protected by ε₀."""

    trust: ClassVar[Trust] = "nobody"
    sampling_rate: ClassVar[None] = None
    local_conditions: ClassVar[tuple[str, ...]] = PROTOCOL_CONDITIONS

    randomizer: RandomizedResponse
    protocol: Protocol
    adversaries: AdversariesConfig = NOBODY

    @property
    def parameters(self) -> dict[str, float]:
        return self.randomizer.parameters

    def release_on(
        self, opened: Network, population: People, record: bool = False, part: tuple[int, int] | None = None
    ) -> Outcome:
        exchange = Exchange(self.randomizer, 1.0, "processes", self.adversaries, self.protocol)
        sent = exchange.run(population, opened, record, part)
        release = LabelRelease(sent.user, sent.payload)
        return Outcome(
            release, sent.traffic, sent.transcript, sent.arrival_s, realised=sent.realised, overlay=opened.overlay
        )

    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        """ε₀ against the learner, whatever the cluster."""
        return [self._bound("learner", delta)] * len(sizes)

    def _bound(self, observer: str, delta: float) -> PrivacyBound:
        epsilon = self.randomizer.local_epsilon
        return PrivacyBound(
            0.0, epsilon, delta, observer, adjacency="label", basis=BASIS, conditions=PROTOCOL_CONDITIONS
        )

    def local_epsilon(self, sizes: NDArray[np.int64]) -> float:
        return self.randomizer.local_epsilon

    def account(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation, delta: float
    ) -> Accounted:
        """ε₀ for the learner, for a learner who sees times, for a coalition and for an eavesdropper alike."""
        learner = self._bound("learner", delta)
        statements = {
            "epsilon_upper": learner,
            "epsilon_times_upper": self._bound("learner-times", delta),
            "epsilon_coalition_upper": self._bound("coalition", delta),
            "epsilon_local": self._bound("eavesdropper", delta),
        }
        return Accounted((learner,) * len(cluster_sizes), dict(statements))

    def local_advantage(self, num_classes: int) -> float | None:
        return self.randomizer.advantage(num_classes)

    def without_adversaries(self) -> "ProtocolMechanism | None":
        if self.adversaries == NOBODY:
            return None
        return ProtocolMechanism(self.randomizer, self.protocol)
