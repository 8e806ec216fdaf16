"""Protocols as mechanisms: users exchange noisy labels as a protocol prescribes; the noise protects each label with ε₀.

*Proof.* A user's randomizer is run once and is ε₀-private for her label. Users' programs, faults and adversaries get
only noisy labels, public features, and randomness that depends on no label. So everything that an observer sees, times
included, is a function of all users' noisy labels and of such randomness: it is post-processing. If one user's label
changes, the probabilities of her noisy label change by a factor of at most e^ε₀. A noisy label that is sent again
reveals nothing new. But r independent draws would cost r ε₀. ∎

A protocol may declare one of two properties. `Protocol.symmetric`: the law of what the learner sees does not change if
noisy labels are permuted. `Protocol.law`: a submission is 1 with a probability that depends on the share of ones among
noisy labels. Then the learner's ε is smaller if nothing fails and everybody follows the protocol (`DeclaredProtocol`).
The smaller ε holds only if the declaration is true. The command `audit` tests the declaration. For every other
observer, ε₀ is stated.

The accuracy and the heterogeneity in the results are computed from true labels; no observer sees these values.

**Gossip averaging** is a protocol without amplification. The first number that a user sends may be her noisy label, so
ε against a peer can be ε₀. Later numbers are unrounded averages of noisy labels. All noisy labels can often be computed
from these averages.
"""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base import InputError, maker_of, method_of, misfit, require
from p2p_sim.exchange import NOBODY, AdversariesConfig, Exchange, Me, Protocol, Request
from p2p_sim.mechanisms.deployment import Accounted, Deployment, Setup, Trust
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome
from p2p_sim.mechanisms.randomized_response import FlippedLabelsConfig, RandomizedResponse
from p2p_sim.network import Network, NetworkConfig
from p2p_sim.population import ClustersConfig, People
from p2p_sim.privacy import (
    PROTOCOL_CONDITIONS,
    Accountant,
    Condition,
    PrivacyBound,
    Situation,
    WorstOf,
    epsilons,
    first_failure,
    worst_bound,
)
from p2p_sim.privacy.rivals import DeclaredProtocol, SubmissionLaw

BASIS = "pure: post-processing of noisy labels"


@dataclass(frozen=True)
class ProtocolMechanism(Deployment):
    """A protocol among users who flip their labels once; the noise protects each label from all observers, with ε₀."""

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
        sent = Exchange(self.randomizer, 1.0, "processes", self.adversaries, self.protocol).run(
            population, opened, record, part
        )
        return Outcome(
            LabelRelease(sent.user, sent.payload),
            sent.traffic,
            sent.transcript,
            sent.arrival_s,
            realised=sent.realised,
            overlay=opened.overlay,
        )

    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        """The learner's bound of ε at δ for each cluster size, if nothing fails and everybody follows the protocol. The
        bound is ε₀, the ε of one noisy label, unless the protocol declares a property. The bound is then smaller, and
        holds only if the declaration is true.

        Args:
            sizes: distinct cluster sizes, ascending. delta: δ.
        """
        if not self.declares:
            return [self.noise_alone("learner", delta)] * len(sizes)
        return epsilons([self.declared(int(n)) for n in sizes], delta)

    @property
    def declares(self) -> bool:
        """Whether the protocol declares a property: symmetry in the users, or a law of what users submit."""
        return self.protocol.symmetric or self.protocol.law() is not None

    def declared(self, size: int) -> DeclaredProtocol:
        """The learner's accountant in a cluster of `size` users, for a protocol that declares symmetry or a law of
        submissions. The bounds hold only if the declaration is true, nothing fails and everybody follows the protocol.
        """
        return DeclaredProtocol(size, self.randomizer.flip_prob, self.randomizer.num_classes, self.protocol.law())

    def applies(self, situation: Situation) -> Condition | None:
        """The first condition of the learner's smaller ε that fails in a situation; None if all conditions hold. A
        protocol without a declaration has no smaller ε. The result is then None, because ε₀ always holds.

        Args:
            situation: network faults, users who break the protocol, number of classes and rounds, and who observes.
        """
        return first_failure(self.declared(2).requires, situation) if self.declares else None

    def noise_alone(self, observer: str, delta: float) -> PrivacyBound:
        """The bound ε₀ of one noisy label, for every observer, in every situation and at every δ.

        Args:
            observer: name of the observer to state in the bound: "learner", "learner-times", "coalition", "peer" or
            "eavesdropper". delta: δ to state in the bound.
        """
        return PrivacyBound(
            0.0,
            self.randomizer.local_epsilon,
            delta,
            observer,
            "label",
            basis=BASIS,
            conditions=PROTOCOL_CONDITIONS,
        )

    def local_epsilon(self, sizes: NDArray[np.int64]) -> float:
        return self.randomizer.local_epsilon

    def account(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation, delta: float
    ) -> Accounted:
        """The privacy bounds of a finished run at δ: the learner's bound for each cluster, and a bound for each results
        column. Against coalitions, eavesdroppers and a learner who sees times, the bound is ε₀, the ε of one noisy
        label. The learner's bound is smaller if the protocol declares a property and all conditions hold.
        Otherwise the learner's bound is ε₀, too.

        Args:
            outcome: the result of the run; it is not used. cluster_sizes: (C,) users of each cluster. situation:
            network faults, users who break the protocol, and who observes. delta: δ.
        """
        sizes, where = np.unique(cluster_sizes, return_inverse=True)
        holds = self.applies(situation) is None
        bounds = self.privacy(sizes, delta) if holds else [self.noise_alone("learner", delta)] * len(sizes)
        return Accounted(
            tuple(bounds[i] for i in where),
            {
                "epsilon_upper": worst_bound(bounds),
                "epsilon_times_upper": self.noise_alone("learner-times", delta),
                "epsilon_coalition_upper": self.noise_alone("coalition", delta),
                "epsilon_local": self.noise_alone("eavesdropper", delta),
            },
        )

    def accountant_of(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation
    ) -> Accountant | None:
        if not self.declares or self.applies(situation) is not None:
            return None
        return WorstOf(tuple(self.declared(n) for n in np.unique(cluster_sizes).tolist()))

    def local_advantage(self, num_classes: int) -> float | None:
        return self.randomizer.advantage(num_classes)

    def without_adversaries(self) -> "ProtocolMechanism | None":
        return None if self.adversaries == NOBODY else replace(self, adversaries=NOBODY)


class ProtocolConfig(FlippedLabelsConfig):
    """Base of the configurations of a protocol. A subclass defines `kind`, its own keys, and the method `protocol`.

    mechanism: the class that runs the protocol and states its ε.
    """

    sends: ClassVar[bool] = True
    conditions: ClassVar[tuple[str, ...]] = PROTOCOL_CONDITIONS
    mechanism: ClassVar[type[ProtocolMechanism]] = ProtocolMechanism
    target_epsilon: float | None = Field(default=None, gt=0, le=100)
    """ε₀ of a noisy label, above 0 and at most 100: the least α for this ε₀ is chosen."""

    @abstractmethod
    def protocol(self) -> Protocol:
        """The protocol that users follow, made from the keys of this configuration."""

    def check_surroundings(
        self, clusters: ClustersConfig, network: NetworkConfig, adversaries: AdversariesConfig
    ) -> None:
        """Accept all networks, faults and adversaries: ε₀, the ε of one noisy label, holds in every situation."""

    def deployed(self, setup: Setup) -> ProtocolMechanism:
        protocol: Any = self.protocol()
        name, method = type(protocol).__name__, method_of(maker_of(self), self, "protocol")
        require(method, isinstance(protocol, Protocol), f"must give a Protocol, not {name}")
        require(method, not (wrong := misfit(type(protocol), Protocol)), f"{name}.{wrong}")
        law = protocol.law()
        declared = method_of(maker_of(protocol), protocol, "law")
        require(declared, law is None or isinstance(law, SubmissionLaw), "must give a SubmissionLaw, or None")
        require(declared, law is None or not law.fault(), f"{law and law.fault()}")
        return self.mechanism(self.flips(setup), protocol, setup.adversaries)


@dataclass
class GossipAveraging(Protocol):
    """A protocol in which each user repeatedly sends her average to a random peer. The peer then takes the mean of both
    averages.

    rounds: how many numbers each user sends. every_s: seconds between two numbers. averages: the current average of
    each user, by user number. If a user is not listed, her average is her noisy label.
    """

    rounds: int
    every_s: float
    averages: dict[int, float] = field(default_factory=dict)

    def user(self, me: Me) -> Any:
        for _ in range(self.rounds):
            if (peer := me.random_peer()) is not None:
                me.send(peer, self.average(me))
            yield me.wait(self.every_s)

    def answer(self, me: Me, request: Request) -> int | None:
        if request.payload is not None:
            self.averages[me.number] = 0.5 * (self.average(me) + request.payload)
        return None

    def average(self, me: Me) -> float:
        """The current average of one user; her first average is her noisy label, 0 or 1.

        Args:
            me: the user, with her number and noisy label.
        """
        return self.averages.get(me.number, float(me.noisy_label))


class GossipAveragingConfig(ProtocolConfig):
    """Users average their noisy labels among themselves; nothing is submitted to a learner."""

    kind: Literal["gossip_averaging"] = "gossip_averaging"
    described: ClassVar[str] = "gossip averaging among users, without a learner"
    rounds: int = Field(default=10, ge=1, le=1000)
    """How many numbers each user sends, 1 to 1,000."""
    every_s: float = Field(default=0.5, gt=0, le=1e9)
    """Time between two numbers that a user sends, seconds, above 0 and at most 1e9."""

    def check(self, num_classes: int) -> None:
        super().check(num_classes)
        if num_classes != 2:
            raise InputError(f"mechanism.kind = 'gossip_averaging': averages labels of two classes, not {num_classes}")

    def protocol(self) -> GossipAveraging:
        return GossipAveraging(self.rounds, self.every_s)
