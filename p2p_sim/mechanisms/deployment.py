"""What a replicate asks of a mechanism whose parameters are fixed for its users: a run, and its privacy."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.errors import InputError
from p2p_sim.base.plugins import maker_of, method_of
from p2p_sim.base.streams import Streams
from p2p_sim.exchange.adversaries import NOBODY, AdversariesConfig
from p2p_sim.exchange.engines import EngineName
from p2p_sim.mechanisms.evidence import Evidence, of_hard
from p2p_sim.mechanisms.noise_law import NoiseLaw, ValueLaw
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome
from p2p_sim.mechanisms.plug_in_results import check_bounds, check_local_epsilon
from p2p_sim.network.network_config import Network, NetworkConfig
from p2p_sim.population.population import Population
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import PrivacyBound, worst_bound
from p2p_sim.privacy.conditions import LOCAL_CONDITIONS, Condition
from p2p_sim.privacy.dominating_law import LossLaw
from p2p_sim.privacy.stated_accountants import OnePoint
from p2p_sim.privacy.where_bounds_hold import Situation, Stated
from p2p_sim.privacy.worst_of_several import coarse_law

Trust = Literal["nobody", "shuffler", "curator", "organisation"]
"""The party that a user must trust, besides herself, for the learner's ε to hold."""
STATEMENTS = ("epsilon_local", "epsilon_paper", "epsilon_paper_lemma9", "epsilon_paper_theorem3")
"""Results columns of ε besides the learner's: of a user's own message, and as printed in the papers."""


@dataclass(frozen=True, eq=False)
class Setup:
    """What a mechanism's parameters are fixed for: cluster sizes, classes, δ and surroundings of a scenario.

    sizes: (C,) users of each cluster. num_classes: K. delta: δ of the scenario.
    engine, adversaries: of the scenario, for mechanisms that send messages.
    values: (K,) the public grid of numbers, if labels are numbers; a label is then an index into the grid.
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

    learner: a bound for each cluster, in the population's order; for a run that keeps only sums, a bound for each
    cluster that may hold the largest or smallest figure.
    statements: the worst bound over all users, by the results column that holds ε; the learner's is included.
    facts: other results columns, about the realised network.
    """

    learner: tuple[PrivacyBound, ...]
    statements: dict[str, PrivacyBound | Stated]
    facts: dict[str, float | int | None] = field(default_factory=dict)


class Deployment(ABC):
    """A mechanism whose parameters are fixed for a given population, ready to run and to account for.

    trust: the party that users must trust for the learner's ε to hold.
    """

    trust: ClassVar[Trust]

    @property
    @abstractmethod
    def parameters(self) -> dict[str, float]:
        """The fixed parameters by the results column that holds each, one of the `columns` of the configuration."""

    def nodes(self, population: Population) -> Population:
        """The participants that send messages over the network: by default the users of the population."""
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
            record: keep the transcript.
            places: directories in which the network's files are looked for.
        """
        opened = Network.open(network, self.nodes(population), streams, places)
        return self.release_on(opened, population, record)

    @abstractmethod
    def release_on(
        self,
        opened: Network,
        population: Population,
        record: bool = False,
        part: tuple[int, int] | None = None,
    ) -> Outcome:
        """Privatises the users' labels on a network opened for them, and returns the outcome of the run.

        Args:
            record: keep the transcript. part: (first, last) runs shards first..last-1 only; None: all.
        """

    @abstractmethod
    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        """The learner's ε at the given δ if nothing fails, one bound for each cluster size (distinct, ascending)."""

    def local_epsilon(self, sizes: NDArray[np.int64]) -> float | None:
        """ε₀ of a user's own message, the largest over the cluster sizes; None if she sends none."""
        return None

    @property
    def local_conditions(self) -> tuple[str, ...]:
        """Conditions under which `local_epsilon` holds against an observer of a user's own message, as sentences."""
        return LOCAL_CONDITIONS

    def local_advantage(self, num_classes: int) -> float | None:
        """Upper bound of the guessing advantage of an observer of a user's own message; all labels are equally likely.

        The advantage is how much more often the observer guesses the label right than without the message. It is None
        if
        users send no messages, or if the bound follows from `local_epsilon`.
        """
        return None

    def applies(self, situation: Situation) -> Condition | None:
        """The first condition of `privacy` that this situation violates; None if all hold."""
        return None

    def papers(self, situation: Situation, sizes: NDArray[np.int64], delta: float) -> dict[str, Stated]:
        """The bounds that the papers print, at δ, by the names in `STATEMENTS`, or why they do not apply."""
        return {}

    def account(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation, delta: float
    ) -> Accounted:
        """The privacy figures of a finished run at δ, for the learner and for other observers.

        Args:
            outcome: result of the run. cluster_sizes: (C,), in the population's order. situation: how labels reached
                the learner, and the observers. delta: δ.

        Raises:
            InputError: no bound is known in this situation.
        """
        fails = self.applies(situation)
        if fails is not None:
            raise InputError(f"mechanism: states no figure here: {fails}")
        sizes, where = np.unique(cluster_sizes, return_inverse=True)
        bounds = self.privacy(sizes, delta)
        if (offer := maker_of(self)) is not None:
            check_bounds(method_of(offer, self, "privacy"), bounds, len(sizes), delta)
        return Accounted(tuple(bounds[i] for i in where), self.stated(worst_bound(bounds), sizes, situation))

    def accountant_of(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation
    ) -> Accountant | None:
        """The accountant behind the learner's figure in `account`, for all users; None if only one (ε, δ) is known.

        Args:
            outcome: result of the run. cluster_sizes: (C,), in the population's order.
            situation: how labels reached the learner, and the observers.
        """
        return None

    def learner_law(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation, learner: PrivacyBound
    ) -> LossLaw:
        """A distribution of the learner's privacy loss that dominates the loss about every user of the run.

        It comes from the accountant of the run, or from the stated bound if there is no accountant.

        Args:
            outcome: result of the run. cluster_sizes: (C,), in the population's order.
            situation: how labels reached the learner, and the observers.
            learner: the stated bound of the learner.
        """
        model = self.accountant_of(outcome, cluster_sizes, situation)
        if model is None and math.isfinite(learner.epsilon_upper):
            model = OnePoint(learner)
        return LossLaw.of([0.0], [1.0]) if model is None else coarse_law(model, learner)

    def network_advantages(self, outcome: Outcome, num_classes: int) -> dict[str, float]:
        """Guessing advantages of observers other than the learner in the realised network, by results column."""
        return {}

    def stated(
        self, learner: PrivacyBound, sizes: NDArray[np.int64], situation: Situation
    ) -> dict[str, PrivacyBound | Stated]:
        """Statements about all users by results column: the learner's ε, ε₀ of a message, the papers' bounds.

        Args:
            learner: the worst bound of the learner. sizes: the distinct cluster sizes.
        """
        delta, statements = learner.delta, dict[str, PrivacyBound | Stated](epsilon_upper=learner)
        if (local := self.local_epsilon(sizes)) is not None:
            if (offer := maker_of(self)) is not None:
                check_local_epsilon(method_of(offer, self, "local_epsilon"), local)
            basis, conditions = "pure: a user's own message", self.local_conditions
            statements["epsilon_local"] = PrivacyBound(
                0.0, local, delta, "eavesdropper", adjacency="label", basis=basis, conditions=conditions
            )
        return statements | self.papers(situation, sizes, delta)

    def without_adversaries(self) -> "Deployment | None":
        """This mechanism with every user following the protocol; None if every user already does."""
        return None

    def noise_law(self, outcome: Outcome) -> NoiseLaw | None:
        """Public probabilities of the released hard labels given true labels; None if there are none."""
        return None

    def value_law(self, outcome: Outcome) -> ValueLaw | None:
        """Public probabilities of the released numbers given true labels; None if the run released no numbers."""
        return None

    def evidence(self, outcome: Outcome, cluster_offsets: NDArray[np.int64]) -> Evidence | None:
        """Class scores of each released label, to estimate accuracy without true labels; None if none are known.

        By default the scores come from `noise_law`.

        Args:
            outcome: result of the run. cluster_offsets: (C+1,); cluster c holds users offsets[c]..offsets[c+1]-1.
        """
        release = outcome.release
        law = self.noise_law(outcome) if isinstance(release, LabelRelease) and release.kind == "hard" else None
        return None if law is None else of_hard(outcome.labels, law)

    @property
    def remaining_flip_prob(self) -> float | None:
        """Flip probability of the released labels in the limit of infinitely many (two classes); None if unknown."""
        return None
