"""The seams every mechanism shares: what it takes, what it releases, what it says of privacy."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.configuration import Config
from p2p_sim.base.errors import InputError
from p2p_sim.base.plugins import maker_of, method_of
from p2p_sim.base.streams import Streams
from p2p_sim.exchange.adversaries import NOBODY, AdversariesConfig
from p2p_sim.exchange.engines import EngineName
from p2p_sim.measures import summary
from p2p_sim.mechanisms.evidence import Evidence, of_hard
from p2p_sim.mechanisms.noise_law import NoiseLaw, ValueLaw
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome, ReleaseKind
from p2p_sim.mechanisms.plug_in_bounds import check_bounds
from p2p_sim.network.network_config import Network, NetworkConfig
from p2p_sim.population.clustering import ClustersConfig
from p2p_sim.population.population import Population
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import Adjacency, PrivacyBound, worst_bound
from p2p_sim.privacy.conditions import LOCAL_CONDITIONS, Condition
from p2p_sim.privacy.loss_law import LossLaw
from p2p_sim.privacy.where_bounds_hold import Situation, Stated
from p2p_sim.privacy.worst_of_several import OnePoint, coarse_law

Trust = Literal["nobody", "shuffler", "curator", "organisation"]
"""The party that a user must trust, besides herself, for the learner's ε to hold."""
PARAMETERS = (*summary.PARAMETERS, "sampling_rate")
"""Every parameter of a mechanism that a row may hold."""
STATEMENTS = ("epsilon_local", "epsilon_paper", "epsilon_paper_lemma9", "epsilon_paper_theorem3")
"""Every ε that may be stated beside the learner's: of a user's own message alone, and what the papers print."""


@dataclass(frozen=True)
class Setup:
    """What a mechanism is built for.

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


class MechanismBase(Config):
    """The base of all configurations of a mechanism.

    described: its name in a report, after "Labels are privatised by"; empty: its kind.
    conditions: the conditions of its bounds for the learner, as a report lists them.
    adjacency: what differs between the data sets of its bounds: one user's label, or a whole row ("example").
    sends: whether users send each other messages over the network.
    by_shard: whether `Mechanism.release_on` takes users who are drawn shard by shard (`People`), if nobody lies.
    """

    kind: str
    sends: ClassVar[bool] = False
    by_shard: ClassVar[bool] = False
    described: ClassVar[str] = ""
    conditions: ClassVar[tuple[str, ...]] = ()
    adjacency: ClassVar[Adjacency] = "label"

    @property
    @abstractmethod
    def releases(self) -> ReleaseKind:
        """The kind of release that the learner gets."""

    @property
    def asks_oracle(self) -> bool:
        """Whether a parameter follows from a quantity that nobody is told: such a choice is not private."""
        return False

    def with_oracle_values(self, heterogeneity: Callable[[], float]) -> Self:
        """The same configuration with the oracle's values; `heterogeneity` gives φ of the population."""
        return self

    def beside(self, learner: Config) -> Self:
        """The same configuration, with values that follow the scenario's learner where they are not given."""
        return self

    def check(self, num_classes: int) -> None:
        """Refuse parameters that do not fit K classes."""

    def check_surroundings(
        self, clusters: ClustersConfig, network: NetworkConfig, adversaries: AdversariesConfig
    ) -> None:
        """Refuse keys without a meaning here: by default all faults of the network, as no messages are simulated."""
        if not network.ideal or adversaries != NOBODY:
            beyond = (*network.faults, "adversaries")[0]
            raise InputError(f"mechanism.kind = {self.kind!r}: no messages of it are simulated; leave out {beyond}")

    def built(self, setup: Setup) -> "Mechanism":
        """The mechanism, calibrated if a target ε is given."""
        return self.build(setup.sizes, setup.num_classes, setup.delta, setup.engine, setup.adversaries)

    @abstractmethod
    def build(
        self,
        sizes: NDArray[np.int64],
        num_classes: int,
        delta: float,
        engine: EngineName,
        adversaries: AdversariesConfig = NOBODY,
    ) -> "Mechanism":
        """The mechanism from the parts of a `Setup`; a plug-in defines this method."""


class OwnMechanism(MechanismBase):
    """The base of the simulator's own mechanisms, which take a `Setup` whole."""

    @abstractmethod
    def built(self, setup: Setup) -> "Mechanism":
        """The mechanism, calibrated if a target ε is given."""

    def build(
        self,
        sizes: NDArray[np.int64],
        num_classes: int,
        delta: float,
        engine: EngineName = "events",
        adversaries: AdversariesConfig = NOBODY,
    ) -> "Mechanism":
        """The mechanism from the parts of a `Setup`."""
        return self.built(Setup(sizes, num_classes, delta, engine, adversaries))


class Mechanism(ABC):
    """A way to privatise labels, its parameters fixed."""

    @property
    @abstractmethod
    def trust(self) -> Trust:
        """Who must be trusted."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, float]:
        """Values by name, each one of `PARAMETERS`."""

    def nodes(self, population: Population) -> Population:
        """Who sends messages over the network: every user."""
        return population

    def release(
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
        """The same on a network that has been opened for this population; `part`: shards first to last - 1 alone."""

    @abstractmethod
    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        """The learner's ε at the given δ, one bound for each cluster size (distinct, ascending)."""

    @abstractmethod
    def statements(self, sizes: NDArray[np.int64], delta: float) -> dict[str, float | None]:
        """Other bounds by name, each one of `STATEMENTS`, the worst over the cluster sizes; None if no bound holds."""

    def applies(self, situation: Situation) -> Condition | None:
        """The first condition of `privacy` that fails; None if `privacy` is about this situation."""
        return None

    def papers(self, situation: Situation, sizes: NDArray[np.int64], delta: float) -> dict[str, Stated]:
        """The papers' bounds in a situation, by the names of `STATEMENTS`, or why they do not apply."""
        printed = (name for name in STATEMENTS if name.startswith("epsilon_paper"))
        figures = self.statements(sizes, delta)
        return {name: Stated(figures[name]) for name in printed if name in figures}

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
        """A law of the learner's privacy loss that holds for every user; from the statement alone if need be.

        Args:
            outcome, cluster_sizes, situation: as in `account`. learner: what it states of the learner.
        """
        model = self.accountant_of(outcome, cluster_sizes, situation)
        if model is None and math.isfinite(learner.epsilon_upper):
            model = OnePoint(learner)
        return LossLaw.of([0.0], [1.0]) if model is None else coarse_law(model, learner)

    def local_advantage(self, num_classes: int) -> float | None:
        """At most the advantage of whoever sees a user's own message, if all labels are equally likely to them.

        None if users send no messages of their own, or if it follows from `epsilon_local` alone.
        """
        return None

    def network_advantages(self, outcome: Outcome, num_classes: int) -> dict[str, float]:
        """The same for other observers of a network as it turned out, by the column of a row."""
        return {}

    def stated(
        self, learner: PrivacyBound, sizes: NDArray[np.int64], situation: Situation
    ) -> dict[str, PrivacyBound | Stated]:
        """The learner's statement, the ε₀ of a user's own message, and the papers' bounds."""
        delta, found = learner.delta, dict[str, PrivacyBound | Stated](epsilon_upper=learner)
        local = self.statements(sizes, delta).get("epsilon_local")
        if local is not None:
            basis, conditions = "pure: a user's own message", self.local_conditions
            found["epsilon_local"] = PrivacyBound(0.0, local, delta, "eavesdropper", "label", basis, conditions)
        return found | self.papers(situation, sizes, delta)

    def without_adversaries(self) -> "Mechanism | None":
        """The same mechanism if every user follows the protocol; None if every user already does."""
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
        """The flip probability that infinitely many released labels have (two classes); None if it is not known."""
        return None

    @property
    def local_conditions(self) -> tuple[str, ...]:
        """Conditions of `epsilon_local` in `statements`, against an observer who sees a user's own message."""
        return LOCAL_CONDITIONS
