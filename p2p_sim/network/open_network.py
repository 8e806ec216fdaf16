"""A network that has been opened: its files read, its overlay drawn."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.streams import Streams
from p2p_sim.network.availability import Always, Availability, AvailabilityLaw, OnOff
from p2p_sim.network.latency import LatencyLaw
from p2p_sim.network.network_config import NetworkConfig
from p2p_sim.network.overlay import Overlay, OverlayInput
from p2p_sim.population.population import People
from p2p_sim.population.shards import Shard


@dataclass(frozen=True)
class Network:
    """What a network is for one replicate; streams are for what is drawn shard by shard.

    overlay: None if everybody may ask anybody of her cluster.
    """

    config: NetworkConfig
    latency: LatencyLaw
    availability: AvailabilityLaw
    overlay: Overlay | None
    streams: Streams

    @staticmethod
    def open(config: NetworkConfig, population: People, streams: Streams, places: tuple[Path, ...] = ()) -> "Network":
        """Read the network's files and draw its overlay.

        Raises:
            InputError: a file is missing or damaged.
        """
        overlay = config.overlay.build(
            OverlayInput(population.cluster_offsets, streams, places, population.row, population.source_rows)
        )
        return Network(config, config.latency.load(places), config.availability.load(places), overlay, streams)

    def shard_overlay(self, shard: Shard) -> Overlay | None:
        """The overlay among a shard's users."""
        return None if self.overlay is None else self.overlay.shard(shard.start, shard.stop)

    def degrees(self, shard: Shard) -> NDArray[np.int64]:
        """How many peers each user of a shard may ask, (m,)."""
        if self.overlay is not None:
            return np.diff(self.overlay.indptr[shard.start : shard.stop + 1])
        sizes = np.diff(shard.offsets)
        return np.repeat(sizes, sizes)

    def shard_availability(self, shard: Shard) -> Availability | None:
        """When a shard's users are online; None: always."""
        if self.config.availability == Always():
            return None
        return self.availability.draw(shard, self.streams, self.horizon_s)

    @property
    def horizon_s(self) -> float:
        """Up to when users switch on and off, seconds: hardly anything happens later."""
        c = self.config
        waits = sum(c.timeout_s(attempt) for attempt in range(c.on_timeout.attempts)) if c.request_timeout_s else 0.0
        pauses = (
            10.0 * (c.availability.mean_on_s + c.availability.mean_off_s) if isinstance(c.availability, OnOff) else 0.0
        )
        slow = 2.0 * c.distance_s + (16.0 * c.header_bytes / c.bandwidth_bps if c.bandwidth_bps else 0.0)
        travel = (20.0 * self.latency.mean + slow) * (c.hops + 2)
        return max(c.start_window_s + waits + travel + pauses, c.deadline_s or 0.0)
