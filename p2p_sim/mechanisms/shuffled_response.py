"""Randomised response through a trusted shuffler: the learner sees a cluster's noisy labels, not whose they are."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.evidence import Evidence
from p2p_sim.mechanisms.mechanism import Setup
from p2p_sim.mechanisms.noise_law import NoiseLaw
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome, ReleaseKind
from p2p_sim.mechanisms.randomized_response import FlippedLabelsConfig, RandomizedResponse, check_flip_prob
from p2p_sim.mechanisms.without_messages import WithoutMessages
from p2p_sim.population.population import Population
from p2p_sim.population.shards import Shard
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.exchange.calibration import smallest_flip_prob
from p2p_sim.privacy.rivals.shuffled_labels import SHUFFLER_CONDITIONS, ShuffledResponse
from p2p_sim.privacy.where_bounds_hold import Situation
from p2p_sim.privacy.worst_of_several import WorstOf, epsilons


class ShuffledResponseConfig(FlippedLabelsConfig):
    """Every user flips her label; a trusted shuffler passes each cluster's noisy labels on in random order.

    The label exchange does the same without a shuffler, but draws with replacement.
    """

    kind: Literal["shuffled_response"] = "shuffled_response"
    described: ClassVar[str] = "randomised response through a trusted shuffler"
    conditions: ClassVar[tuple[str, ...]] = SHUFFLER_CONDITIONS
    releases: ClassVar[ReleaseKind] = "hard"

    def built(self, setup: Setup) -> "ShuffledRandomizedResponse":
        alpha, target = self.flip_prob, self.target_epsilon
        if alpha is None:
            assert target is not None

            def certified(flip_prob: float, size: int) -> bool:
                return ShuffledResponse(size, flip_prob, setup.num_classes).satisfies(target, setup.delta)

            alpha = smallest_flip_prob(certified, setup.sizes.tolist(), setup.num_classes, target)
        noise = RandomizedResponse(check_flip_prob(alpha, setup.num_classes), setup.num_classes)
        return ShuffledRandomizedResponse(noise)


@dataclass(frozen=True)
class ShuffledRandomizedResponse(WithoutMessages):
    """Randomised response, shuffled within clusters."""

    trust = "shuffler"

    randomizer: RandomizedResponse

    @property
    def parameters(self) -> dict[str, float]:
        """α."""
        return self.randomizer.parameters

    def release_shard(self, shard: Shard, population: Population, streams: Streams) -> LabelRelease:
        """The noisy labels of each cluster in random order."""
        truth = population.labels[shard.start : shard.stop]
        noisy = self.randomizer.randomize(truth, streams.generator("flip", shard.index))
        sizes = np.diff(shard.offsets)
        place = streams.generator("shuffle", shard.index).random(shard.size)
        order = np.lexsort((place, np.repeat(np.arange(len(sizes)), sizes)))
        return LabelRelease.of(shard, noisy[order])

    def noise_law(self, outcome: Outcome) -> NoiseLaw:
        """A label of some user of the cluster, flipped."""
        return NoiseLaw.common(self.randomizer.transition, "cluster")

    def evidence(self, outcome: Outcome, cluster_offsets: NDArray[np.int64]) -> Evidence | None:
        """That of a user of the cluster, each of them once."""
        found = super().evidence(outcome, cluster_offsets)
        return None if found is None else replace(found, repeated=False)

    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        alpha, classes = self.randomizer.flip_prob, self.randomizer.num_classes
        return epsilons([ShuffledResponse(int(n), alpha, classes) for n in sizes], delta)

    def accountant_of(self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation) -> Accountant:
        alpha, classes = self.randomizer.flip_prob, self.randomizer.num_classes
        return WorstOf(tuple(ShuffledResponse(n, alpha, classes) for n in np.unique(cluster_sizes).tolist()))

    def local_advantage(self, num_classes: int) -> float | None:
        return self.randomizer.advantage(num_classes)

    def statements(self, sizes: NDArray[np.int64], delta: float) -> dict[str, float | None]:
        """ε₀, which is what the shuffler learns."""
        return {"epsilon_local": self.randomizer.local_epsilon}
