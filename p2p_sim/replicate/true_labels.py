"""The users' labels in one replicate of an exchange: for pictures of what happened, never for an observer."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.protocol_mechanism import ProtocolMechanism
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import Completed


@dataclass(frozen=True, eq=False)
class Labels:
    """What users held and what their computers made of it.

    true: (n,) labels, 0..K-1. noisy: (n,) drawn once; -1 where messages carry something else. num_classes: K.
    flip_prob: α; None: labels are not flipped. exact: the law of what the learner sees is known exactly, as there are
    two classes, α > 0, everybody follows the protocol, and nothing fails.
    """

    true: NDArray[np.int64]
    noisy: NDArray[np.int64]
    num_classes: int
    flip_prob: float | None
    exact: bool

    @staticmethod
    def of(case: Replicate, done: Completed, mechanism: LabelExchangeMechanism | ProtocolMechanism) -> "Labels":
        """The labels of an exchange that has run; the noise is drawn again from the replicate's own streams."""
        people, noise = done.population, mechanism.randomizer
        true = np.concatenate([people.labels_of(shard) for shard in people.shards])
        noisy = np.full(true.size, -1)
        if noise.releases == "hard":
            for shard in people.shards:
                rng = case.streams.generator("flip", shard.index)
                noisy[shard.start : shard.stop] = noise.randomize(people.labels_of(shard), rng)
        situation = case.scenario.situation(people.num_classes)
        exchanged = isinstance(mechanism, LabelExchangeMechanism)
        ideal = exchanged and mechanism.applies(situation) is None and not situation.oracle
        return Labels(
            true.astype(np.int64),
            noisy,
            people.num_classes,
            noise.parameters.get("flip_prob"),
            ideal and bool(noise.binary_flip_prob),
        )
