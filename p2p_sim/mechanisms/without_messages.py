"""What mechanisms share that are drawn in one go: no message of theirs is simulated."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.exchange.randomizer import Message
from p2p_sim.mechanisms.evidence import Evidence, of_messages
from p2p_sim.mechanisms.mechanism import Mechanism, Trust
from p2p_sim.mechanisms.noise_law import NoiseLaw
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome, PayloadKind, Release
from p2p_sim.network.network_config import Network
from p2p_sim.population.population import Population, Shard
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.conditions import LOCAL_CONDITIONS


class WithoutMessages(Mechanism):
    """A mechanism that releases labels shard by shard; each shard has its own random streams."""

    @abstractmethod
    def release_shard(self, shard: Shard, population: Population, streams: Streams) -> LabelRelease:
        """The release of the users of one shard."""

    def release_on(
        self,
        opened: Network,
        population: Population,
        record: bool = False,
        part: tuple[int, int] | None = None,
    ) -> Outcome:
        chosen = population.shards if part is None else population.shards[slice(*part)]
        nobody = Shard(0, 0, 0, np.zeros(1, dtype=np.int64))  # a part without shards has a release of the same kind
        parts = [self.release_shard(shard, population, opened.streams) for shard in chosen or (nobody,)]
        user = np.concatenate([one.user for one in parts])
        return Outcome(LabelRelease(user, np.concatenate([one.payload for one in parts]), parts[0].kind))


class OfAllUsers(Mechanism):
    """A mechanism that works on all users at once, so that no part of the shards can be run alone."""

    @abstractmethod
    def released(self, population: Population, streams: Streams) -> Release:
        """The release of all users."""

    def release_on(
        self,
        opened: Network,
        population: Population,
        record: bool = False,
        part: tuple[int, int] | None = None,
    ) -> Outcome:
        """The same on a network that has been opened.

        Raises:
            InputError: a part of the shards is asked for.
        """
        if part is not None:
            raise InputError("mechanism: works on all users at once and cannot be split by shards")
        return Outcome(self.released(population, opened.streams))


class LocalMechanism(WithoutMessages):
    """A mechanism in which every user sends her own message with her name: only her randomizer protects her.

    payload_kind: what her randomizer's payloads are. basis, conditions: of the figures for the learner.
    """

    trust: ClassVar[Trust] = "nobody"
    payload_kind: ClassVar[PayloadKind] = "hard"
    basis: ClassVar[str] = "pure: the noisy label"
    conditions: ClassVar[tuple[str, ...]] = LOCAL_CONDITIONS

    randomizer: Message

    @property
    def parameters(self) -> dict[str, float]:
        return self.randomizer.parameters

    def release_shard(self, shard: Shard, population: Population, streams: Streams) -> LabelRelease:
        """What every user's randomizer makes of her label, under her own name."""
        truth = population.labels_of(shard)
        noisy = self.randomizer.randomize(truth, streams.generator("flip", shard.index))
        return LabelRelease.of(shard, noisy, self.payload_kind)

    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        """ε₀, whatever δ and the cluster."""
        lower, upper = self.lower(delta), self.randomizer.local_epsilon
        return [PrivacyBound(lower, upper, delta, "learner", "label", self.basis, self.conditions)] * len(sizes)

    def noise_law(self, outcome: Outcome) -> NoiseLaw | None:
        """That of her randomizer; a mechanism that does more to a label must say so here."""
        transition = getattr(self.randomizer, "transition", None)
        return None if transition is None else NoiseLaw.common(transition)

    def evidence(self, outcome: Outcome, cluster_offsets: NDArray[np.int64]) -> Evidence | None:
        """That of her own label."""
        if outcome.labels.kind == "hard":
            return super().evidence(outcome, cluster_offsets)
        return of_messages(outcome.labels, self.randomizer, "user")

    def lower(self, delta: float) -> float:
        """An ε below which no bound holds at δ; 0 where a mechanism knows none."""
        return 0.0

    def local_advantage(self, num_classes: int) -> float | None:
        return self.randomizer.advantage(num_classes)

    def statements(self, sizes: NDArray[np.int64], delta: float) -> dict[str, float | None]:
        """ε₀ of her message."""
        return {"epsilon_local": self.randomizer.local_epsilon}
