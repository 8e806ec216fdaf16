"""The interface of a mechanism with fixed parameters, which runs and states its ε."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError, Streams, maker_of, method_of
from p2p_sim.exchange import NOBODY, AdversariesConfig, EngineName
from p2p_sim.mechanisms.noise_law import Evidence, NoiseLaw, ValueLaw, of_hard
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome
from p2p_sim.mechanisms.plug_in_results import check_bounds, check_local_epsilon
from p2p_sim.network import Network, NetworkConfig
from p2p_sim.population import Population
from p2p_sim.privacy import (
    LOCAL_CONDITIONS,
    Accountant,
    Condition,
    LossLaw,
    OnePoint,
    PrivacyBound,
    Situation,
    Stated,
    coarse_law,
    worst_bound,
)

Trust = Literal["nobody", "shuffler", "curator", "organisation"]
"""The party that a user must trust, besides herself, for the learner's ε to hold."""
STATEMENTS = ("epsilon_local", "epsilon_paper", "epsilon_paper_lemma9", "epsilon_paper_theorem3")
"""Results columns with an ε other than the learner's certified ε: ε₀ of a user's own message, and values that papers
print.
"""


@dataclass(frozen=True, eq=False)
class Setup:
    """The facts about a scenario from which a mechanism fixes its parameters.

    sizes: (C,) number of users in each cluster. num_classes: K. delta: δ of the scenario. engine, adversaries: keys of
    the scenario, for mechanisms that send messages. values: the public grid (K,) of numbers that labels stand for; a
    label is an index into it. None: labels are not numbers.
    """

    sizes: NDArray[np.int64]
    num_classes: int
    delta: float
    engine: EngineName = "events"
    adversaries: AdversariesConfig = NOBODY
    values: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Accounted:
    """The privacy bounds of one run.

    learner: the learner's bound for each cluster, in the population's order. A run may be computed in shards (groups of
    whole clusters); then only clusters that may have the largest or smallest ε have a bound. statements: bounds for the
    whole run, including the learner's, and the ε that papers print. The key is the results column of the ε. A bound may
    be about some of the users only, as "epsilon_others_upper". facts: further results columns about the network of this
    run.
    """

    learner: tuple[PrivacyBound, ...]
    statements: dict[str, PrivacyBound | Stated]
    facts: dict[str, float | int | None] = field(default_factory=dict)


class Deployment(ABC):
    """A mechanism with parameters fixed for a given population.

    trust: the party that users must trust for the learner's ε to hold.
    """

    trust: ClassVar[Trust]

    @property
    @abstractmethod
    def parameters(self) -> dict[str, float]:
        """The mechanism's fixed parameters, such as flip_prob, by the names of their result columns."""

    def nodes(self, population: Population) -> Population:
        """The participants between whom messages travel, as a population. By default they are the users."""
        return population

    def run(
        self,
        population: Population,
        network: NetworkConfig,
        streams: Streams,
        record: bool = False,
        places: tuple[Path, ...] = (),
    ) -> Outcome:
        """Opens the network, makes the population's labels private and returns the outcome of the run.

        Args:
            population: the users. network: the network over which messages travel; unused by a mechanism without
            messages. streams: the replicate's random streams. record: whether to keep a transcript of the messages.
            places: directories in which files that the network names are looked for.
        """
        return self.release_on(Network.open(network, self.nodes(population), streams, places), population, record)

    @abstractmethod
    def release_on(
        self, opened: Network, population: Population, record: bool = False, part: tuple[int, int] | None = None
    ) -> Outcome:
        """Runs the mechanism: makes the users' labels private, and returns what is released, with counts of the
        messages sent.

        Args:
            opened: the network of this run: its settings, who may ask whom, and the random numbers. population: the
            users, stored cluster by cluster and divided into shards, groups of whole clusters. record: whether to keep
            a transcript of all messages. part: (first, end) runs only shards first..end-1; None: all shards.
        """

    @abstractmethod
    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        """The learner's bound of ε at δ for each cluster size, if no message fails and everybody follows the protocol.

        Args:
            sizes: distinct cluster sizes, ascending. delta: δ.
        """

    def local_epsilon(self, sizes: NDArray[np.int64]) -> float | None:
        """ε₀, the ε of a user's own message against anybody who reads it. The largest value over cluster sizes; None if
        users send no messages.

        Args:
            sizes: (C,) number of users of each cluster.
        """
        return None

    @property
    def local_conditions(self) -> tuple[str, ...]:
        """The conditions, as sentences, under which ε₀ protects a user's label against a reader of her message."""
        return LOCAL_CONDITIONS

    def local_advantage(self, num_classes: int) -> float | None:
        """Upper bound of how much a user's message raises the probability that an observer guesses her label right.
        Beforehand, all K labels are equally likely to the observer. None: users send no messages, or the bound is
        computed from ε₀, the ε of her message.

        Args:
            num_classes: K.
        """
        return None

    def applies(self, situation: Situation) -> Condition | None:
        """The first condition of the learner's bounds that does not hold in a situation; None if all hold. By default
        there are no conditions.

        Args:
            situation: how labels reach the learner and who observes, such as network faults and users who break the
            protocol.
        """
        return None

    def papers(self, situation: Situation, sizes: NDArray[np.int64], delta: float) -> dict[str, Stated]:
        """The ε that papers' formulas give at δ, or the reason why a formula does not apply, by results column. By
        default there are no such columns.

        Args:
            situation: how labels reached the learner, and who observes. sizes: distinct cluster sizes, ascending.
            delta: δ.
        """
        return {}

    def account(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation, delta: float
    ) -> Accounted:
        """The privacy bounds of a finished run at δ. For each cluster, the result has the learner's bound of ε. For all
        users, it has bounds by results column. By default, all follow from the mechanism's parameters and the cluster
        sizes alone.

        Args:
            outcome: the result of the run. cluster_sizes: (C,) users of each cluster, in the population's order.
            situation: network faults, users who break the protocol, and who observes. delta: δ.

        Raises:
            InputError: no bound is known in this situation.
        """
        if (fails := self.applies(situation)) is not None:
            raise InputError(f"mechanism: no ε can be stated here: {fails}")
        sizes, where = np.unique(cluster_sizes, return_inverse=True)
        bounds = self.privacy(sizes, delta)
        if (offer := maker_of(self)) is not None:
            check_bounds(method_of(offer, self, "privacy"), bounds, len(sizes), delta)
        return Accounted(tuple(bounds[i] for i in where), self.stated(worst_bound(bounds), sizes, situation))

    def accountant_of(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation
    ) -> Accountant | None:
        """An accountant, which bounds δ at every ε, for what the learner learns about any user of a run. None if a
        bound is known at only one (ε, δ).

        Args:
            outcome: the result of the run. cluster_sizes: (C,) users of each cluster, in the population's order.
            situation: how labels reached the learner, and who observes.
        """
        return None

    def learner_law(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation, learner: PrivacyBound
    ) -> LossLaw:
        """A distribution of the privacy loss that dominates the learner's loss about every user of the run. What the
        learner sees has a probability under each label of a user. The loss is the log-ratio of two such probabilities.
        Upper bounds of δ at any ε, and of guessing a label, follow from the distribution.

        The distribution is computed from an accountant, which bounds δ at every ε. Without an accountant it is computed
        from the single stated (ε, δ). If this ε is infinite, the loss is infinite with probability 1: the learner may
        learn the label.

        Args:
            outcome: the result of the run. cluster_sizes: (C,) users of each cluster, in the population's order.
            situation: how labels reached the learner, and who observes. learner: the stated bound of the learner, for
            the worst cluster.
        """
        model = self.accountant_of(outcome, cluster_sizes, situation)
        if model is None and math.isfinite(learner.epsilon_upper):
            model = OnePoint(learner)
        return LossLaw.of([0.0], [1.0]) if model is None else coarse_law(model, learner)

    def network_advantages(self, outcome: Outcome, num_classes: int) -> dict[str, float]:
        """Bounds of the guessing advantage of further observers, by results column. An example of such an observer is
        the learner together with a coalition of users. By default there are none.

        A guessing advantage is what the run adds to an observer's probability to guess a user's label right.

        Args:
            outcome: the result of the run. num_classes: K.
        """
        return {}

    def stated(
        self, learner: PrivacyBound, sizes: NDArray[np.int64], situation: Situation
    ) -> dict[str, PrivacyBound | Stated]:
        """The bounds for all users, by results column. "epsilon_upper" is the learner's bound. "epsilon_local" is ε₀,
        the ε of a user's own message against anybody who reads it, if users send messages. Further columns have the ε
        that papers print, or why their formulas do not apply.

        Args:
            learner: the learner's worst bound over clusters. sizes: distinct cluster sizes, ascending. situation: how
            labels reached the learner, and who observes.
        """
        delta, statements = learner.delta, dict[str, PrivacyBound | Stated](epsilon_upper=learner)
        if (local := self.local_epsilon(sizes)) is not None:
            if (offer := maker_of(self)) is not None:
                check_local_epsilon(method_of(offer, self, "local_epsilon"), local)
            statements["epsilon_local"] = PrivacyBound(
                0.0,
                local,
                delta,
                "eavesdropper",
                adjacency="label",
                basis="pure: a user's own message",
                conditions=self.local_conditions,
            )
        return statements | self.papers(situation, sizes, delta)

    def without_adversaries(self) -> "Deployment | None":
        """A copy of this mechanism in which all users follow the protocol; None if all users already follow it."""
        return None

    def noise_law(self, outcome: Outcome) -> NoiseLaw | None:
        """The public probabilities of released hard labels (classes) given true labels; None if they are not known."""
        return None

    def value_law(self, outcome: Outcome) -> ValueLaw | None:
        """The public probabilities of released numbers given true labels; None if the run released no numbers."""
        return None

    def evidence(self, outcome: Outcome, cluster_offsets: NDArray[np.int64]) -> Evidence | None:
        """Scores of the K classes for each released label, for estimates of a predictor's accuracy without true labels.
        The mean of a score over the noise is 1 for the true class and 0 for the others. By default, scores come from
        the public noise matrix of hard labels (classes). If this matrix has no inverse and labels are released under
        their owners' names, lower and upper scores enclose these means. None if no matrix or no scores are known.

        Args:
            outcome: the result of the run, with the released labels. cluster_offsets: (C+1,); cluster c holds users
            cluster_offsets[c]..cluster_offsets[c+1]-1.
        """
        release = outcome.release
        law = self.noise_law(outcome) if isinstance(release, LabelRelease) and release.kind == "hard" else None
        return None if law is None else of_hard(outcome.labels, law)

    @property
    def remaining_flip_prob(self) -> float | None:
        """The probability that noise changes a released label, if there are two classes. If the release undoes the
        noise on average (debiasing), the value is 0 for any number of classes. None, the default: it is unknown.
        """
        return None
