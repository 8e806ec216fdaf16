"""Small networks with every kind of fault, opened for one shard."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from hypothesis import strategies as st

from p2p_sim.base.streams import Streams
from p2p_sim.exchange.adversaries import NOBODY, AdversariesConfig, CoalitionConfig, FreeRiders, Liars, Roles, Sybil
from p2p_sim.exchange.batched_exchange import ShardExchange
from p2p_sim.exchange.message_timing import MessageTiming
from p2p_sim.exchange.peers import ONE_PEER, Asking
from p2p_sim.exchange.processes import ProcessExchange
from p2p_sim.exchange.protocol import LabelExchangeProtocol
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network.availability import Always, OnOff
from p2p_sim.network.latency import Constant, Exponential, Lognormal
from p2p_sim.network.network_config import GossipView, Network, NetworkConfig, OnTimeout, RandomWalk, UniformPeers
from p2p_sim.network.overlay import (
    CompleteOverlay,
    GeometricOverlay,
    RegularOverlay,
    ScaleFreeOverlay,
    SmallWorldOverlay,
)
from p2p_sim.population.population import Population, Shard

LEADING = 3
"""Users of a cluster before the shard, so that its first user is not number 0."""


@dataclass(frozen=True)
class Case:
    """One shard on its network."""

    config: NetworkConfig
    sizes: tuple[int, ...]
    theta: float = 1.0
    seed: int = 1
    adversaries: AdversariesConfig = NOBODY
    num_classes: int = 2
    asking: Asking = ONE_PEER

    @cached_property
    def shard(self) -> Shard:
        offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        return Shard(0, LEADING, LEADING + int(offsets[-1]), offsets)

    @cached_property
    def streams(self) -> Streams:
        return Streams(self.seed, 0)

    @cached_property
    def network(self) -> Network:
        offsets = np.concatenate([[0], LEADING + self.shard.offsets])
        labels = np.zeros(offsets[-1], np.uint8)
        return Network.open(self.config, Population(np.zeros((labels.size, 1)), labels, offsets, 2), self.streams)

    @cached_property
    def roles(self) -> Roles:
        row = np.arange(self.shard.start, self.shard.stop, dtype=np.int32)
        return Roles.draw(self.adversaries, self.shard, self.network.degrees(self.shard), row, self.streams)

    @cached_property
    def payload(self) -> np.ndarray:
        """What users answer: noisy labels of nothing, and lies."""
        noise = RandomizedResponse(0.5, self.num_classes)
        noisy = noise.randomize(np.zeros(self.shard.size, np.uint8), self.streams.generator("flip"))
        return self.roles.lie(noisy, self.num_classes)

    @cached_property
    def probe_every_s(self) -> float:
        return self.adversaries.sybil.probe_every_s or 1.0

    def journey(self) -> MessageTiming:
        return MessageTiming(self.shard, self.network, self.streams, self.roles, sampling_rate=self.theta)

    def exchange(self, record: bool = True, window: int = 8192, kind: type[ShardExchange] = ShardExchange):
        """The exchange, not yet run."""
        made = kind(
            self.shard,
            self.payload,
            self.network,
            self.streams,
            sampling_rate=self.theta,
            roles=self.roles,
            record=record,
            probe_every_s=self.probe_every_s,
            num_classes=self.num_classes,
            asking=self.asking,
        )
        made.engine._target = window
        return made

    def processes(self, record: bool = True) -> ProcessExchange:
        """The same with a process for each user, not yet run."""
        return ProcessExchange(
            LabelExchangeProtocol(self.theta, self.asking), self.shard, self.payload, self.network, self.streams,
            roles=self.roles, record=record, probe_every_s=self.probe_every_s, num_classes=self.num_classes,
        )  # fmt: skip

    def lived(self) -> ProcessExchange:
        """The same, run to its end."""
        exchange = self.processes()
        exchange.run()
        return exchange


latencies = st.one_of(
    st.builds(Constant, value_s=st.sampled_from([0.0, 0.1])),
    st.builds(Exponential, mean_s=st.sampled_from([0.05, 1.0])),
    st.builds(Lognormal, median_s=st.sampled_from([0.05, 0.5]), sigma=st.sampled_from([0.0, 1.0])),
)
late = {"late_share": 0.4, "join_window_s": 3.0}
leaving = {"leave_share": 0.4, "leave_mean_s": 2.0}
availabilities = st.sampled_from(
    [
        Always(),
        Always(),
        Always(**late, **leaving),
        OnOff(mean_on_s=1.0, mean_off_s=0.4),
        OnOff(mean_on_s=0.3, mean_off_s=0.3, **late),
        OnOff(mean_on_s=2.0, mean_off_s=0.2, law="weibull", shape=0.6, **leaving),
    ]
)
overlays = st.sampled_from(
    [
        CompleteOverlay(),
        CompleteOverlay(),
        RegularOverlay(degree=2),
        SmallWorldOverlay(degree=2, rewire_prob=0.3),
        ScaleFreeOverlay(attachments=1),
        GeometricOverlay(mean_degree=2.0),
        GeometricOverlay(radius=0.3),
    ]
)


@st.composite
def networks(draw) -> NetworkConfig:
    """Any mixture of faults."""
    overlay, timeout = draw(overlays), draw(st.sampled_from([None, 0.15, 0.2, 1.0]))
    gossip = st.builds(GossipView, view_size=st.integers(1, 4), refresh_s=st.sampled_from([0.3, 2.0]))
    walk = st.builds(RandomWalk, length=st.integers(1, 4))
    deadline = draw(st.sampled_from([None, None, 0.5, 3.0]))
    rule = OnTimeout()
    if timeout is not None:
        retry = draw(st.sampled_from(["never", "same_peer", "redraw"]))
        rule = OnTimeout(
            retry=retry,
            attempts=1 if retry == "never" else draw(st.integers(2, 4)),
            backoff=draw(st.sampled_from([1.0, 1.7])),
            fallback=draw(st.sampled_from(["skip", "own_label"])),
        )
    return NetworkConfig(
        overlay=overlay,
        peers=draw(st.one_of(st.just(UniformPeers()), gossip if isinstance(overlay, CompleteOverlay) else walk)),
        latency=draw(latencies),
        distance_s=draw(st.sampled_from([0.0, 0.3])) if isinstance(overlay, GeometricOverlay) else 0.0,
        loss=draw(st.sampled_from([0.0, 0.0, 0.1, 0.5])),
        duplication=draw(st.sampled_from([0.0, 0.0, 0.3, 1.0])),
        reordering=draw(st.sampled_from([0.0, 0.5])),
        bandwidth_bps=draw(st.sampled_from([None, 1e4])),
        availability=draw(availabilities),
        start_window_s=draw(st.sampled_from([0.0, 1e-3, 1.0, 20.0])),
        request_timeout_s=timeout,
        on_timeout=rule,
        deadline_s=deadline,
        batch_submission=deadline is not None and draw(st.booleans()),
    )


adversaries = st.one_of(
    st.just(NOBODY),
    st.builds(
        AdversariesConfig,
        coalition=st.sampled_from(
            [CoalitionConfig(), CoalitionConfig(share=0.3), CoalitionConfig(share=0.2, choice="degree")]
        ),
        liars=st.builds(Liars, share=st.sampled_from([0.0, 0.3]), answer=st.sampled_from(["inverted", "zero", "one"])),
        free_riders=st.builds(FreeRiders, share=st.sampled_from([0.0, 0.3])),
        sybil=st.builds(
            Sybil,
            share=st.sampled_from([0.0, 0.3]),
            answer=st.sampled_from(["noisy", "inverted", "one"]),
            probe_every_s=st.sampled_from([None, 0.05, 1.0]),
        ),
    ),
)
cases = st.builds(
    Case,
    config=networks(),
    sizes=st.lists(st.integers(2, 12), min_size=1, max_size=3).map(tuple),
    theta=st.sampled_from([0.5, 1.0]),
    seed=st.integers(0, 2**32),
    adversaries=adversaries,
)
