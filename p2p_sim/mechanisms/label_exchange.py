"""The peer-to-peer label exchange (Algorithm 2 of the clustering paper) as a mechanism."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from analysis.privacy.bound import PrivacyBound
from analysis.privacy.calibration import calibrate_flip_prob
from analysis.privacy.kary import KaryExchange
from analysis.privacy.label_exchange import LabelExchange
from p2p_sim.config import Config
from p2p_sim.mechanisms.growing import Growing
from p2p_sim.mechanisms.interface import LabelRelease, Outcome
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network.config import NetworkConfig
from p2p_sim.population.population import Population
from p2p_sim.population.shards import shards
from p2p_sim.protocol.label_exchange import ShardExchange, Traffic
from p2p_sim.protocol.transcript import Messages, Transcript
from p2p_sim.protocol.vectorised import exchange_shard
from p2p_sim.streams import Streams

EngineName = Literal["events", "vectorised"]


class LabelExchangeConfig(Config):
    """Flip the label, fetch a random peer's noisy label, submit it with some probability."""

    kind: Literal["label_exchange"] = "label_exchange"
    flip_prob: float | None = Field(default=None, ge=0, le=0.5)
    """α: probability that a noisy label differs from the true one, 0 to 1/2. Give this or `target_epsilon`."""
    target_epsilon: float | None = Field(default=None, gt=0, le=100)
    """ε: choose the smallest α that keeps every cluster's certified ε at the scenario's δ at or below this.
    Above 0, at most 100."""
    sampling_rate: float = Field(default=1.0, ge=1e-9, le=1)
    """θ: probability that a user passes the label she fetched on to the learner, 1e-9 to 1."""

    @model_validator(mode="after")
    def _one_noise(self) -> "LabelExchangeConfig":
        if (self.flip_prob is None) == (self.target_epsilon is None):
            raise ValueError("give either flip_prob or target_epsilon")
        return self

    def build(
        self, sizes: NDArray[np.int64], num_classes: int, delta: float, engine: EngineName, may_drop: bool = False
    ) -> "LabelExchangeMechanism":
        """The mechanism for clusters of these sizes, its flip probability calibrated where a target is given."""
        flip_prob = self.flip_prob
        if flip_prob is None:
            assert self.target_epsilon is not None
            flip_prob = calibrate_flip_prob(sizes, num_classes, self.sampling_rate, self.target_epsilon, delta)
        noise = RandomizedResponse(flip_prob, num_classes)
        return LabelExchangeMechanism(noise, self.sampling_rate, engine, may_drop)


@dataclass(frozen=True)
class LabelExchangeMechanism:
    """The exchange with its parameters fixed.

    Args:
        randomizer: the local noise (α, K).
        sampling_rate: θ.
        engine: "events" (messages over the network) or "vectorised" (one draw from the same law).
        may_drop: late replies are dropped, so that fewer labels than θ promises may arrive.
    """

    randomizer: RandomizedResponse
    sampling_rate: float
    engine: EngineName = "events"
    may_drop: bool = False

    def release(
        self, population: Population, network: NetworkConfig, streams: Streams, record: bool = False
    ) -> Outcome:
        """Run the exchange shard by shard; without a request timeout both engines release the same bytes."""
        expected = int(self.sampling_rate * population.num_users + 4 * population.num_users**0.5)
        users, labels = Growing(np.dtype(np.int32), expected), Growing(np.dtype(np.uint8), expected)
        traffic = Traffic()
        log: list[Messages] = []
        for shard in shards(population.cluster_offsets):
            truth = population.labels[shard.start : shard.stop]
            payload = self.randomizer.randomize(truth, streams.generator("flip", shard.index))
            if self.engine == "vectorised":
                pieces = exchange_shard(shard, payload, self.sampling_rate, streams)
            else:
                exchange = ShardExchange(shard, payload, self.sampling_rate, network, streams, record)
                traffic += exchange.run()
                pieces = iter([exchange.submissions()])
                if record:
                    log.append(exchange.messages())
            for submitter, fetched in pieces:
                users.append(submitter)
                labels.append(fetched)
        release = LabelRelease(users.values(), labels.values(), "hard")
        if self.engine == "vectorised":
            return Outcome(release)
        return Outcome(release, traffic, Transcript(Messages.join(log)) if record else None)

    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        """The learner's ε at δ for each cluster size: a bracket (two classes), a certified upper bound otherwise.

        Late replies are dropped whatever the labels, which only lowers the sampling rate: the upper bound at θ holds,
        the lower one does not.
        """
        alpha, classes = self.randomizer.flip_prob, self.randomizer.num_classes
        theta = self.sampling_rate
        if classes > 2:
            bounds = [KaryExchange(int(n), alpha, theta, classes).epsilon(delta) for n in sizes]
        else:
            bounds = [LabelExchange(int(n), alpha, theta).epsilon(delta) for n in sizes]
        if not self.may_drop:
            return bounds
        basis = "upper bound, as if no reply were late"
        return [replace(bound, epsilon_lower=0.0, basis=basis) for bound in bounds]
