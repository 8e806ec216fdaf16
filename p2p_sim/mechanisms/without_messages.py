"""What mechanisms share that are drawn in one go: no message of theirs is simulated."""

from abc import abstractmethod
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from p2p_sim.mechanisms.interface import LabelRelease, Mechanism, Outcome, Randomizer, Trust
from p2p_sim.network.network import Network
from p2p_sim.population.population import Population
from p2p_sim.population.shards import Shard, shards
from p2p_sim.streams import Streams


class WithoutMessages(Mechanism):
    """A mechanism that releases labels shard by shard, with random streams of the shard's own."""

    @abstractmethod
    def release_shard(self, shard: Shard, population: Population, streams: Streams) -> LabelRelease:
        """What is released of the users of one shard."""

    def release_on(
        self,
        opened: Network,
        population: Population,
        record: bool = False,
        study: bool = False,
        part: tuple[int, int] | None = None,
    ) -> Outcome:
        """The same on a network that has been opened; `part`: shards first to last - 1 alone."""
        chosen = islice(shards(population.cluster_offsets), *(part or (None,)))
        nobody = Shard(0, 0, 0, np.zeros(1, dtype=np.int64))  # a part without shards has a release of the same kind
        parts = [self.release_shard(shard, population, opened.streams) for shard in list(chosen) or [nobody]]
        user = np.concatenate([one.user for one in parts])
        return Outcome(LabelRelease(user, np.concatenate([one.payload for one in parts]), parts[0].kind))


class LocalMechanism(WithoutMessages):
    """What every user does on her own, under her own name: her randomizer alone protects her."""

    randomizer: Randomizer

    @property
    def trust(self) -> Trust:
        """Nobody."""
        return "nobody"

    def statements(self, sizes: NDArray[np.int64], delta: float) -> dict[str, float | None]:
        """ε₀ of her message."""
        return {"epsilon_local": self.randomizer.local_epsilon}
