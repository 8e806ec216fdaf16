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
"""Every ε that may be stated beside the learner's: of a user's own message alone, and what the papers print."""


@dataclass(frozen=True, eq=False)
class Setup:
    """What a mechanism's parameters are fixed for.

    sizes: of the clusters. num_classes: K. delta: δ of the scenario.
    engine, adversaries: of the scenario, for mechanisms that send messages.
    values: (K,) the public grid, if labels are places in one.
    """

    sizes: NDArray[np.int64]
    num_classes: int
    delta: float
    engine: EngineName = "events"
    adversaries: AdversariesConfig = NOBODY
    values: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Accounted:
    """What is known of the privacy of one run.

    learner: a bound for each cluster, in the population's order; of a run of which only sums are kept, for the clusters
    with the largest and the smallest figures.
    statements: by the column of a row that holds ε; of all users, whichever her cluster. The learner's is there too.
    facts: other columns, about the network as it turned out.
    """

    learner: tuple[PrivacyBound, ...]
    statements: dict[str, PrivacyBound | Stated]
    facts: dict[str, float | int | None] = field(default_factory=dict)


class Deployment(ABC):
    """A way to privatise labels, its parameters fixed for some users.

    trust: who must be trusted.
    """

    trust: ClassVar[Trust]

    @property
    @abstractmethod
    def parameters(self) -> dict[str, float]:
        """Values by the column of a row, each one of the `columns` of the mechanism's configuration."""

    def nodes(self, population: Population) -> Population:
        """The population of those who send messages over the network: every user."""
        return population

    def run(
        self,
        population: Population,
        network: NetworkConfig,
        streams: Streams,
        record: bool = False,
        places: tuple[Path, ...] = (),
    ) -> Outcome:
        """Privatise the population's labels.

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
        """Privatise labels on a network that is open for these users.

        record: keep the transcript. part: run shards first to last - 1 alone.
        """

    @abstractmethod
    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        """The learner's ε at the given δ if nothing fails, one bound for each cluster size (distinct, ascending)."""

    def local_epsilon(self, sizes: NDArray[np.int64]) -> float | None:
        """ε₀ of a user's own message, the worst over the cluster sizes; None if she sends none."""
        return None

    @property
    def local_conditions(self) -> tuple[str, ...]:
        """Conditions of `local_epsilon`."""
        return LOCAL_CONDITIONS

    def local_advantage(self, num_classes: int) -> float | None:
        """Upper bound of the advantage of an observer who sees a user's own message, if all labels are equally likely.

        None if users send no messages of their own, or if it follows from `local_epsilon` alone.
        """
        return None

    def applies(self, situation: Situation) -> Condition | None:
        """The first condition of `privacy` that fails; None if `privacy` is about this situation."""
        return None

    def papers(self, situation: Situation, sizes: NDArray[np.int64], delta: float) -> dict[str, Stated]:
        """The papers' bounds in a situation, by the names of `STATEMENTS`, or why they do not apply."""
        return {}

    def account(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation, delta: float
    ) -> Accounted:
        """The privacy of a run.

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
        """The accountant behind the learner's figure in `account`; None where only statements at one δ are known.

        Args:
            outcome, cluster_sizes, situation: as in `account`.
        """
        return None

    def learner_law(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation, learner: PrivacyBound
    ) -> LossLaw:
        """A law of the learner's privacy loss that holds for every user; made from the statement alone where no
        accountant is known.

        Args:
            outcome, cluster_sizes, situation: as in `account`. learner: the statement about the learner.
        """
        model = self.accountant_of(outcome, cluster_sizes, situation)
        if model is None and math.isfinite(learner.epsilon_upper):
            model = OnePoint(learner)
        return LossLaw.of([0.0], [1.0]) if model is None else coarse_law(model, learner)

    def network_advantages(self, outcome: Outcome, num_classes: int) -> dict[str, float]:
        """Upper bounds of other observers' advantage on a network as it turned out, by the column of a row; empty by
        default.
        """
        return {}

    def stated(
        self, learner: PrivacyBound, sizes: NDArray[np.int64], situation: Situation
    ) -> dict[str, PrivacyBound | Stated]:
        """Statements by the column of a row: the learner's, ε₀ of a user's own message, and the papers' bounds."""
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
        """This mechanism if every user follows the protocol; None if every user already does."""
        return None

    def noise_law(self, outcome: Outcome) -> NoiseLaw | None:
        """The public law of the hard labels that a run has released; None if there is none, or none is known."""
        return None

    def value_law(self, outcome: Outcome) -> ValueLaw | None:
        """The public law of the numbers that a run has released; None if it has released none."""
        return None

    def evidence(self, outcome: Outcome, cluster_offsets: NDArray[np.int64]) -> Evidence | None:
        """What the released labels say of true ones on average; None if that is not known. By default from `noise_law`.

        Args:
            outcome: result of the run. cluster_offsets: (C+1,); cluster c holds users offsets[c]..offsets[c+1]-1.
        """
        release = outcome.release
        law = self.noise_law(outcome) if isinstance(release, LabelRelease) and release.kind == "hard" else None
        return None if law is None else of_hard(outcome.labels, law)

    @property
    def remaining_flip_prob(self) -> float | None:
        """α of the released labels after whatever was undone on average (two classes); None if it is not known."""
        return None
