"""A protocol as a mechanism: users exchange noisy labels as it prescribes, and ε₀ of the noise protects every label.

*Proof.* A user's randomizer is run once and is ε₀-private for her label. Processes, faults and adversaries get noisy
labels, public features and coins that depend on no label. So whatever anybody sees, the learner, a peer, a coalition
or an eavesdropper, with all times, is a function of all users' noisy labels and of randomness independent of labels:
post-processing. If one user's label changes, the probabilities of one noisy label change, by a factor of at most e^ε₀.
A noisy label that is sent again reveals nothing new; r independent draws would cost r ε₀. ∎

A protocol may declare how the learner's view depends on noisy labels (`Protocol.symmetric`, `Protocol.law`). It then
has a smaller ε at the learner if nothing fails and everybody follows the protocol: `DeclaredProtocol`. The declaration
is a condition of that bound, and `audit` tests it. Against everybody else ε₀ is stated.

Accuracy and heterogeneity in the results are computed from true labels and belong to nobody's view.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
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
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import PrivacyBound, worst_bound
from p2p_sim.privacy.conditions import PROTOCOL_CONDITIONS, Condition
from p2p_sim.privacy.rivals.declared_protocols import DeclaredProtocol, SubmissionLaw
from p2p_sim.privacy.where_bounds_hold import Situation
from p2p_sim.privacy.worst_of_several import WorstOf, epsilons

BASIS = "pure: post-processing of noisy labels"


class ProtocolConfig(FlippedLabelsConfig):
    """Base of the configurations of a protocol; a subclass defines `kind`, keys of its own, and `protocol`."""

    sends: ClassVar[bool] = True
    conditions: ClassVar[tuple[str, ...]] = PROTOCOL_CONDITIONS
    target_epsilon: float | None = Field(default=None, gt=0, le=100)
    """ε₀ of a noisy label, above 0, at most 100; chooses α."""

    @abstractmethod
    def protocol(self) -> Protocol:
        """The protocol that users follow, with its parameters fixed."""

    def check_surroundings(
        self, clusters: ClustersConfig, network: NetworkConfig, adversaries: AdversariesConfig
    ) -> None:
        """Accepts every network and all adversaries, since ε₀ of the noisy labels holds in all of them."""

    def deployed(self, setup: Setup) -> "ProtocolMechanism":
        protocol: Any = self.protocol()
        wanted = f"must give a Protocol, not {type(protocol).__name__}"
        method = method_of(maker_of(self), self, "protocol")
        require(method, isinstance(protocol, Protocol), wanted)
        require(method, not (wrong := misfit(type(protocol), Protocol)), f"{type(protocol).__name__}.{wrong}")
        law = protocol.law()
        declared = method_of(maker_of(protocol), protocol, "law")
        require(declared, law is None or isinstance(law, SubmissionLaw), "must give a SubmissionLaw, or None")
        require(declared, law is None or not law.fault(), f"{law and law.fault()}")
        return self.mechanism_of(protocol)(self.flips(setup), protocol, setup.adversaries)

    def mechanism_of(self, protocol: Protocol) -> "type[ProtocolMechanism]":
        """The class of mechanism that runs this protocol and accounts for it."""
        return ProtocolMechanism


@dataclass(frozen=True)
class ProtocolMechanism(Deployment):
    """A protocol among users who flip their labels once; ε₀ protects each label from every observer."""

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
        """The learner's bound at δ for each cluster size if nothing fails: ε₀, or less if the protocol declares it."""
        if not self.declares:
            return [self.noise_alone("learner", delta)] * len(sizes)
        return epsilons([self.declared(int(n)) for n in sizes], delta)

    @property
    def declares(self) -> bool:
        """Whether the protocol declares how the learner's view depends on noisy labels."""
        return self.protocol.symmetric or self.protocol.law() is not None

    def declared(self, size: int) -> DeclaredProtocol:
        """Accountant of the learner under the protocol's declaration, for a cluster of `size` users."""
        noise = self.randomizer
        return DeclaredProtocol(size, noise.flip_prob, noise.num_classes, self.protocol.law())

    def applies(self, situation: Situation) -> Condition | None:
        """The first condition of the protocol's declaration that fails; None if all hold or nothing is declared."""
        return self.declared(2).applies(situation) if self.declares else None

    def noise_alone(self, observer: str, delta: float) -> PrivacyBound:
        """The bound ε₀ of the noise, restated for an observer at δ; it holds in every situation."""
        epsilon = self.randomizer.local_epsilon
        return PrivacyBound(
            0.0, epsilon, delta, observer, adjacency="label", basis=BASIS, conditions=PROTOCOL_CONDITIONS
        )

    def local_epsilon(self, sizes: NDArray[np.int64]) -> float:
        return self.randomizer.local_epsilon

    def account(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation, delta: float
    ) -> Accounted:
        """The privacy figures of a run: ε₀ for every observer, and possibly less for the learner."""
        sizes, where = np.unique(cluster_sizes, return_inverse=True)
        bounds = [self.noise_alone("learner", delta)] * len(sizes)
        if self.applies(situation) is None:
            bounds = self.privacy(sizes, delta)
        statements = {
            "epsilon_upper": worst_bound(bounds),
            "epsilon_times_upper": self.noise_alone("learner-times", delta),
            "epsilon_coalition_upper": self.noise_alone("coalition", delta),
            "epsilon_local": self.noise_alone("eavesdropper", delta),
        }
        return Accounted(tuple(bounds[i] for i in where), dict(statements))

    def accountant_of(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation
    ) -> Accountant | None:
        if not self.declares or self.applies(situation) is not None:
            return None
        return WorstOf(tuple(self.declared(n) for n in np.unique(cluster_sizes).tolist()))

    def local_advantage(self, num_classes: int) -> float | None:
        return self.randomizer.advantage(num_classes)

    def without_adversaries(self) -> "ProtocolMechanism | None":
        if self.adversaries == NOBODY:
            return None
        return replace(self, adversaries=NOBODY)
