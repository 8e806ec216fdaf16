"""The seams every mechanism shares: what it takes, what it releases, what it says of privacy."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from analysis.privacy.bound import PrivacyBound
from analysis.privacy.conditions import LOCAL_CONDITIONS, Condition
from analysis.privacy.domain import Situation, Stated
from analysis.utility import summary
from p2p_sim.config import Config
from p2p_sim.errors import InputError
from p2p_sim.network.config import NetworkConfig
from p2p_sim.network.network import Network
from p2p_sim.network.overlay import Overlay
from p2p_sim.population.population import Population
from p2p_sim.protocol.realised import RealisedShard
from p2p_sim.protocol.roles import NOBODY, AdversariesConfig
from p2p_sim.protocol.traffic import Traffic
from p2p_sim.protocol.transcript import Transcript
from p2p_sim.streams import Streams

EngineName = Literal["events", "vectorised"]
PayloadKind = Literal["hard", "bits", "soft", "signed"]
ReleaseKind = Literal["hard", "bits", "soft", "signed", "model"]
"""What a release is made of: labels with such payloads, or a model."""
Trust = Literal["nobody", "shuffler", "curator"]
"""Who besides herself a user must trust for the learner's figure to protect her."""
PARAMETERS = (*summary.PARAMETERS, "sampling_rate")
"""Every parameter of a mechanism that a row may hold."""
STATEMENTS = ("epsilon_local", "epsilon_paper", "epsilon_paper_lemma9", "epsilon_paper_theorem3")
"""Every ε that may be stated beside the learner's: of a user's own message alone, and what the papers print."""


class Predictor(Protocol):
    """What has been learned."""

    def probabilities(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        """Predicted class probabilities (n, K) of the features (n, d)."""
        ...


class Randomizer(Protocol):
    """A local randomizer: turns each true label into a payload that may leave its owner."""

    @property
    def local_epsilon(self) -> float:
        """ε of one payload on its own (label adjacency)."""
        ...

    @property
    def total_variation(self) -> float:
        """Largest total variation between the payload's laws under two labels: its δ at ε = 0."""
        ...

    @property
    def payload_bits(self) -> int:
        """Size of one payload, bits."""
        ...

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.generic]:
        """Payloads (n, ...) of the labels (n,), each drawn independently."""
        ...


@dataclass(frozen=True)
class LabelRelease:
    """The noisy data set that reaches a learner: labels for some users, never a true one.

    user: (m,) int32, ascending; whose (public) features the label goes with.
    payload: (m, ...) the label: a class (hard), K bits, K probabilities (soft) or K signed weights.
    """

    user: NDArray[np.int32]
    payload: NDArray[np.generic]
    kind: PayloadKind = "hard"

    def __len__(self) -> int:
        return len(self.user)


@dataclass(frozen=True)
class ModelRelease:
    """What a mechanism that learns by itself gives away: a predictor, and no labels."""

    predictor: Predictor


Release = LabelRelease | ModelRelease


@dataclass(frozen=True)
class Outcome:
    """What one run of a mechanism leaves behind; all but the release exists where messages were simulated.

    traffic: counts. transcript: every delivered message, if it was recorded.
    arrival_s: (m,) when each label of the release reached the learner, seconds, and realised: what is known of the run
    besides labels, if they were asked for. overlay: None where everybody may ask anybody.
    """

    release: Release
    traffic: Traffic | None = None
    transcript: Transcript | None = None
    arrival_s: NDArray[np.float64] | None = None
    realised: tuple[RealisedShard, ...] | None = None
    overlay: Overlay | None = None

    @property
    def labels(self) -> LabelRelease:
        """The release, where it is one of labels.

        Raises:
            InputError: the mechanism releases a model.
        """
        if isinstance(self.release, ModelRelease):
            raise InputError("mechanism: releases a model and no labels")
        return self.release

    @staticmethod
    def join(parts: "Sequence[Outcome]", overlay: Overlay | None = None) -> "Outcome":
        """The outcome of a run from those of its parts, in the order of the shards; transcripts are left out."""
        release = LabelRelease(
            np.concatenate([part.labels.user for part in parts]),
            np.concatenate([part.labels.payload for part in parts]),
            parts[0].labels.kind,
        )
        counts = [part.traffic for part in parts if part.traffic is not None]
        times = [part.arrival_s for part in parts if part.arrival_s is not None]
        facts = [part.realised for part in parts if part.realised is not None]
        return Outcome(
            release,
            sum(counts, Traffic()) if counts else None,
            None,
            np.concatenate(times) if times else None,
            tuple(shard for fact in facts for shard in fact) if facts else None,
            overlay,
        )


class MechanismBase(Config):
    """The base of what a scenario says of a mechanism.

    described: how a report calls it, in "Labels are privatised by ..."; empty: by its kind.
    conditions: under which its figures for the learner hold, as a report lists them.
    """

    kind: str
    described: ClassVar[str] = ""
    conditions: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def releases(self) -> ReleaseKind:
        """What a learner gets."""

    @property
    def asks_oracle(self) -> bool:
        """Whether a parameter follows from what nobody is told: no such choice is private."""
        return False

    def informed(self, heterogeneity: Callable[[], float]) -> Self:
        """The same with what an oracle says; `heterogeneity` gives φ of the population."""
        return self

    def check(self, num_classes: int) -> None:
        """Refuse parameters that do not fit K classes."""

    @abstractmethod
    def build(
        self,
        sizes: NDArray[np.int64],
        num_classes: int,
        delta: float,
        engine: EngineName,
        adversaries: AdversariesConfig = NOBODY,
    ) -> "Mechanism":
        """The mechanism, calibrated where a target ε is given.

        Args:
            sizes: of the clusters. num_classes: K. delta: δ of the scenario.
            engine, adversaries: of the scenario, for mechanisms that send messages.
        """


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

    def release(
        self,
        population: Population,
        network: NetworkConfig,
        streams: Streams,
        record: bool = False,
        study: bool = False,
        places: tuple[Path, ...] = (),
    ) -> Outcome:
        """Privatise the population's labels.

        Args:
            population: who holds them.
            network: over which messages travel; it carries nothing where a mechanism sends none.
            streams: the replicate's random streams.
            record: keep the transcript.
            study: note what is known of the run besides labels.
            places: directories in which the network's files are looked for.
        """
        return self.release_on(Network.open(network, population, streams, places), population, record, study)

    @abstractmethod
    def release_on(
        self,
        opened: Network,
        population: Population,
        record: bool = False,
        study: bool = False,
        part: tuple[int, int] | None = None,
    ) -> Outcome:
        """The same on a network that has been opened for this population; `part`: shards first to last - 1 alone."""

    @abstractmethod
    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        """What the learner can tell about a label, for each cluster size (distinct, ascending), at the given δ."""

    @abstractmethod
    def statements(self, sizes: NDArray[np.int64], delta: float) -> dict[str, float | None]:
        """Other figures by name, each one of `STATEMENTS`, the worst over the cluster sizes; None where none holds."""

    def applies(self, situation: Situation) -> Condition | None:
        """The first condition that fails of what `privacy` takes for granted; None where it is about this situation."""
        return None

    def papers(self, situation: Situation, sizes: NDArray[np.int64], delta: float) -> dict[str, Stated]:
        """What the papers state in a situation, by the names of `STATEMENTS`, or why they do not apply."""
        printed = (name for name in STATEMENTS if name.startswith("epsilon_paper"))
        figures = self.statements(sizes, delta)
        return {name: Stated(figures[name]) for name in printed if name in figures}

    @property
    def local_conditions(self) -> tuple[str, ...]:
        """Under which `epsilon_local` of `statements` holds, for whoever sees a user's own message."""
        return LOCAL_CONDITIONS
