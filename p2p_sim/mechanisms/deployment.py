"""The interface of a mechanism whose parameters are fixed for the users of a replicate: it runs, and states its ε."""

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
"""Results columns with an ε other than the learner's: ε₀ of a user's own message, and the ε that papers print."""


@dataclass(frozen=True, eq=False)
class Setup:
    """The facts about a scenario from which a mechanism fixes its parameters.

    sizes: (C,) number of users in each cluster. num_classes: K. delta: δ of the scenario.
    engine, adversaries: keys of the scenario, for mechanisms that send messages.
    values: if labels are numbers, the public grid (K,) of these numbers, into which a label is an index; else None.
    """

    sizes: NDArray[np.int64]
    num_classes: int
    delta: float
    engine: EngineName = "events"
    adversaries: AdversariesConfig = NOBODY
    values: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Accounted:
    """The privacy figures of one run.

    learner: the learner's bound for each cluster, in the population's order. A run shard by shard has bounds only for
    clusters that may have the largest or smallest ε.
    statements: bounds for all users, by the results column of their ε; the learner's bound is included.
    facts: further results columns about the realised network.
    """

    learner: tuple[PrivacyBound, ...]
    statements: dict[str, PrivacyBound | Stated]
    facts: dict[str, float | int | None] = field(default_factory=dict)


class Deployment(ABC):
    """A mechanism whose parameters are fixed for a given population; it can run, and state its privacy.

    trust: the party that users must trust for the learner's ε to hold.
    """

    trust: ClassVar[Trust]

    @property
    @abstractmethod
    def parameters(self) -> dict[str, float]:
        """The fixed parameters, by results column; the columns are the `columns` of the configuration."""

    def nodes(self, population: Population) -> Population:
        """The participants of the network, as a population of their own; by default the users of `population`."""
        return population

    def run(
        self,
        population: Population,
        network: NetworkConfig,
        streams: Streams,
        record: bool = False,
        places: tuple[Path, ...] = (),
    ) -> Outcome:
        """Opens the network, privatises the population's labels and returns the outcome of the run.

        Args:
            population: the users.
            network: the network over which messages travel; unused by a mechanism without messages.
            streams: the replicate's random streams.
            record: whether to keep a transcript of the messages.
            places: directories that hold the network's files.
        """
        return self.release_on(Network.open(network, self.nodes(population), streams, places), population, record)

    @abstractmethod
    def release_on(
        self, opened: Network, population: Population, record: bool = False, part: tuple[int, int] | None = None
    ) -> Outcome:
        """Make the users' labels private, and return what is released and how many messages were sent.

        Args:
            opened: the network, with the overlay and the random streams of the run. population: the users, stored
                cluster by cluster and divided into shards of whole clusters.
            record: whether to keep a transcript of all messages.
            part: (first, end) runs shards first..end-1 only; None: all shards.
        """

    @abstractmethod
    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        """The learner's bound of ε at δ for each cluster size, if no message fails and nobody breaks the protocol.

        Args:
            sizes: distinct cluster sizes, ascending.
        """

    def local_epsilon(self, sizes: NDArray[np.int64]) -> float | None:
        """ε₀ of a user's own message against its reader, the largest over cluster sizes; None if she sends none."""
        return None

    @property
    def local_conditions(self) -> tuple[str, ...]:
        """Conditions of `local_epsilon`, as sentences."""
        return LOCAL_CONDITIONS

    def local_advantage(self, num_classes: int) -> float | None:
        """Upper bound of what a user's message adds to an observer's probability to guess her label right.

        The prior is uniform. None if users send no messages, or if the bound follows from `local_epsilon`.
        """
        return None

    def applies(self, situation: Situation) -> Condition | None:
        """The first condition of the bounds of `privacy` that a situation violates; None if all hold.

        Args:
            situation: how labels reached the learner, and who observes.
        """
        return None

    def papers(self, situation: Situation, sizes: NDArray[np.int64], delta: float) -> dict[str, Stated]:
        """The ε that each paper's formula gives at δ, or why the formula does not apply, by results column.

        Args:
            situation: how labels reached the learner, and who observes. sizes: distinct cluster sizes, ascending.
        """
        return {}

    def account(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation, delta: float
    ) -> Accounted:
        """The privacy figures of a finished run at δ, for the learner and for other observers.

        Args:
            cluster_sizes: (C,), in the population's order. situation: how labels reached the learner, and who observes.

        Raises:
            InputError: no bound is known in this situation.
        """
        if (fails := self.applies(situation)) is not None:
            raise InputError(f"mechanism: states no figure here: {fails}")
        sizes, where = np.unique(cluster_sizes, return_inverse=True)
        bounds = self.privacy(sizes, delta)
        if (offer := maker_of(self)) is not None:
            check_bounds(method_of(offer, self, "privacy"), bounds, len(sizes), delta)
        return Accounted(tuple(bounds[i] for i in where), self.stated(worst_bound(bounds), sizes, situation))

    def accountant_of(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation
    ) -> Accountant | None:
        """An accountant of what the learner learns about any user of a run; None if only one (ε, δ) is known.

        Args:
            cluster_sizes: (C,), in the population's order. situation: how labels reached the learner, and who observes.
        """
        return None

    def learner_law(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation, learner: PrivacyBound
    ) -> LossLaw:
        """A distribution of the learner's privacy loss that dominates the loss about every user of the run.

        The distribution follows from the accountant of the run, or from the stated bound if there is no accountant.

        Args:
            cluster_sizes: (C,), in the population's order. situation: how labels reached the learner, and who observes.
            learner: the stated bound of the learner.
        """
        model = self.accountant_of(outcome, cluster_sizes, situation)
        if model is None and math.isfinite(learner.epsilon_upper):
            model = OnePoint(learner)
        return LossLaw.of([0.0], [1.0]) if model is None else coarse_law(model, learner)

    def network_advantages(self, outcome: Outcome, num_classes: int) -> dict[str, float]:
        """Bounds of guessing advantages against observers other than the learner, by results column; by default none.

        A guessing advantage is what the run adds to an observer's probability to guess a user's label right.
        """
        return {}

    def stated(
        self, learner: PrivacyBound, sizes: NDArray[np.int64], situation: Situation
    ) -> dict[str, PrivacyBound | Stated]:
        """Bounds for all users by results column: the learner's, ε₀ of a message, and those that papers print.

        Args:
            learner: the worst bound of the learner. sizes: distinct cluster sizes, ascending.
            situation: how labels reached the learner, and who observes.
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
        """A copy of this mechanism in which all users follow the protocol; None if all of them do so here."""
        return None

    def noise_law(self, outcome: Outcome) -> NoiseLaw | None:
        """Public probabilities of the released hard labels given true labels; None if they are not known."""
        return None

    def value_law(self, outcome: Outcome) -> ValueLaw | None:
        """Public probabilities of the released numbers given true labels; None if the run released no numbers."""
        return None

    def evidence(self, outcome: Outcome, cluster_offsets: NDArray[np.int64]) -> Evidence | None:
        """Class scores of each released label, to estimate accuracy without true labels; None if none are known.

        By default the scores come from `noise_law`.

        Args:
            cluster_offsets: (C+1,); cluster c holds users offsets[c]..offsets[c+1]-1.
        """
        release = outcome.release
        law = self.noise_law(outcome) if isinstance(release, LabelRelease) and release.kind == "hard" else None
        return None if law is None else of_hard(outcome.labels, law)

    @property
    def remaining_flip_prob(self) -> float | None:
        """Flip probability of released labels after any debiasing (two classes); None if unknown."""
        return None
