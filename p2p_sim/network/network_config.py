"""The configuration of the network between users, and the network of one replicate."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.base import FAULTS, Config, Extended, InputError, PlugIns, Streams, defaults, differing
from p2p_sim.network.availability import (
    Always,
    Availability,
    AvailabilityConfig,
    AvailabilityLaw,
    AvailabilityTrace,
    OnOff,
)
from p2p_sim.network.faults import Duplication, Faults, Loss, NetworkFault, Reordering
from p2p_sim.network.latency import LatencyConfig, LatencyLaw, LatencyTrace, Lognormal
from p2p_sim.network.overlay import CompleteOverlay, FileOverlay, GeometricOverlay, Overlay, OverlayConfig, OverlayInput
from p2p_sim.population import People, Shard, find_named

HARMLESS = frozenset(
    f"network.{key}"
    for key in (
        *("latency.kind", "latency.value_s", "latency.mean_s", "latency.median_s", "latency.sigma", "latency.path"),
        *("duplication", "reordering", "bandwidth_bps", "header_bytes", "start_window_s"),
    )
)
"""Keys that change only when or how often a message arrives; they do not count as faults.

They change neither whether a message arrives nor whose label a user gets. If nothing expires, the set of submissions
does not change when a message is late, overtaken or delivered twice. Every other key counts as a fault if its value
differs from the default."""

CALIBRATED = frozenset(
    f"network.{key}"
    for key in (
        *("loss", "distance_s", "learner_bandwidth_bps", "request_timeout_s", "on_timeout"),
        *("deadline_s", "batch_submission"),
    )
)
"""Faults under which calibrated noise still keeps ε within the target ε.

With these faults some submissions do not arrive. Every submission that arrives is the label of a uniformly random
member of the cluster. There is one exception: if users submit their own label when a request fails, ε may exceed the
target."""


class UniformPeers(Config):
    """A user asks a random neighbour. On the complete overlay she asks a random user of her cluster, even herself."""

    kind: Literal["uniform"] = "uniform"


class RandomWalk(Config):
    """The request walks from neighbour to neighbour. The last user of the walk answers the user who asks."""

    kind: Literal["random_walk"] = "random_walk"
    length: int = Field(default=5, ge=1, le=64)
    """Steps of the walk, 1 to 64; each step is a message with a travel time of its own."""


class GossipView(Config):
    """Each user holds a changing sample of her cluster, called her view, and asks a random member of this view.

    Every entry of a view is a uniform draw from the cluster. Entries are replaced one after another, each once per
    `refresh_s`. So a user sees at most `view_size` users of her cluster at a time.
    """

    kind: Literal["gossip"] = "gossip"
    view_size: int = Field(default=8, ge=1, le=1000)
    """v: entries of a view, 1 to 1,000."""
    refresh_s: float = Field(default=10.0, gt=0, le=1e9)
    """Time after which an entry is replaced, seconds, above 0 and at most 1e9."""


PeersConfig = Annotated[UniformPeers | RandomWalk | GossipView, Field(discriminator="kind")]

FaultConfig = Annotated[NetworkFault, PlugIns(FAULTS, NetworkFault)]
"""A fault in a scenario's list `network.in_transit`, of a kind that a plug-in offers."""


ALWAYS = Always()
"""Nobody is ever offline."""


class OnTimeout(Config):
    """What a user does if no reply comes in time."""

    retry: Literal["never", "same_peer", "redraw"] = "never"
    """"never"; "same_peer": ask the same peer again; "redraw": ask a newly drawn peer."""
    attempts: int = Field(default=1, ge=1, le=10)
    """Number of requests after which a user gives up, including the first request; 1 to 10."""
    backoff: float = Field(default=2.0, ge=1, le=100)
    """Factor by which the time to wait for a reply grows with each further request, 1 to 100."""
    fallback: Literal["skip", "own_label"] = "skip"
    """What follows the last request. "skip": the user submits nothing. "own_label": she submits her own noisy label,
    which only its noise protects (ε₀)."""

    @model_validator(mode="after")
    def _attempts(self) -> "OnTimeout":
        if (self.retry == "never") != (self.attempts == 1):
            fitting = "1" if self.retry == "never" else "2 to 10"
            raise ValueError(f"attempts = {self.attempts}: must be {fitting} with retry = {self.retry!r}")
        return self


GIVE_UP = OnTimeout()
"""A user submits nothing if no reply comes in time."""


class NetworkConfig(Extended):
    """Who may ask whom, how messages travel, who is online, and what users do when a fetch fails."""

    later: ClassVar[tuple[str, ...]] = ("in_transit",)
    overlay: OverlayConfig = CompleteOverlay()
    """Who may ask whom within a cluster; kind = "complete", "regular", "small_world", "scale_free", "geometric" or
    "file"."""
    peers: PeersConfig = UniformPeers()
    """How a peer is chosen; kind = "uniform", "random_walk" or "gossip"."""
    latency: LatencyConfig = Lognormal()
    """Travel time of one message: kind = "constant", "exponential", "lognormal" or "trace"."""
    distance_s: float = Field(default=0.0, ge=0, le=1e9)
    """Travel time added to a message between two users at distance 1 on a geometric overlay, seconds, 0 to 1e9."""
    loss: float = Field(default=0.0, ge=0, lt=1)
    """Probability that a message is lost, 0 to below 1."""
    duplication: float = Field(default=0.0, ge=0, le=1)
    """Probability that a message is delivered twice, 0 to 1. Of a walk, only the first step can be delivered twice.
    Travel time and loss of the copy are independent."""
    reordering: float = Field(default=0.0, ge=0, le=1)
    """Probability that a message is held back by one more travel time, 0 to 1; later messages may then overtake it."""
    in_transit: tuple[FaultConfig, ...] = ()
    """Further faults of messages in transit, which plug-ins define; the faults act one after another. With any such
    fault, ε accounts only for the noise on a user's own label."""
    bandwidth_bps: float | None = Field(default=None, ge=1, le=1e15)
    """Rate of a user's link, in bits a second, 1 to 1e15; a lower rate makes sending a message take longer. Absent: no
    limit."""
    learner_bandwidth_bps: float | None = Field(default=None, ge=1, le=1e15)
    """Rate of the learner's link, in bits a second, 1 to 1e15; absent: no limit. All clusters share this link, and
    submissions queue for it."""
    header_bytes: int = Field(default=64, ge=1, le=65_536)
    """Bytes of a message besides its payload, 1 to 65,536."""
    availability: AvailabilityConfig = ALWAYS
    """When users are online; kind = "always", "on_off" or "trace". A message to a user who is offline is dropped."""
    start_window_s: float = Field(default=0.0, ge=0, le=1e9)
    """Users begin at independent uniform times in [0, start_window_s], seconds, 0 to 1e9; 0: all at once."""
    request_timeout_s: float | None = Field(default=None, gt=0, le=1e9)
    """Time, in seconds, after which a request without a reply expires; absent: no limit. Later replies are dropped."""
    on_timeout: OnTimeout = GIVE_UP
    """What a user does when her request has expired."""
    deadline_s: float | None = Field(default=None, gt=0, le=1e9)
    """Time, in seconds, after which the learner ignores submissions; absent: no limit. The learner still observes late
    submissions, so ε accounts for late submissions too."""
    batch_submission: bool = False
    """Whether all users submit at the time `deadline_s`, so that arrival times reveal nothing. The learner accepts
    everything that is sent at this time."""

    @model_validator(mode="after")
    def _fits(self) -> "NetworkConfig":
        if self.request_timeout_s is None and self.on_timeout != GIVE_UP:
            raise ValueError("on_timeout needs request_timeout_s")
        if self.batch_submission and self.deadline_s is None:
            raise ValueError("batch_submission needs deadline_s")
        if self.distance_s and not isinstance(self.overlay, GeometricOverlay):
            raise ValueError(f"distance_s = {self.distance_s:g} needs overlay.kind = 'geometric'")
        complete = isinstance(self.overlay, CompleteOverlay)
        if isinstance(self.peers, RandomWalk) and complete:
            raise ValueError("peers.kind = 'random_walk' needs an overlay; on the complete one, take 'uniform'")
        if isinstance(self.peers, GossipView) and not complete:
            raise ValueError("peers.kind = 'gossip' needs overlay.kind = 'complete': the views are the overlay")
        return self

    def transit(self) -> Faults:
        """All faults of messages in transit."""
        faults: list[tuple[str, NetworkFault]] = []  # pairs (prefix for the names of the fault's random numbers, fault)
        if self.loss:
            faults.append(("", Loss(share=self.loss)))
        if self.duplication:
            faults.append(("", Duplication(share=self.duplication)))
        if self.reordering:
            faults.append(("", Reordering(share=self.reordering)))
        kinds = [fault.kind for fault in self.in_transit]
        for i, fault in enumerate(self.in_transit):
            faults.append((f"in-transit-{fault.kind}-{kinds[:i].count(fault.kind)}-", fault))
        return Faults(faults)

    @property
    def hops(self) -> int:
        """Number of messages that carry a request from the user who asks to the user who answers."""
        return self.peers.length if isinstance(self.peers, RandomWalk) else 1

    @property
    def batch_time_s(self) -> float | None:
        """The time, in seconds, at which all users submit at once; None: users submit as soon as they have a label."""
        return self.deadline_s if self.batch_submission else None

    @property
    def faults(self) -> tuple[str, ...]:
        """The keys that count as faults, such as "network.loss": their values differ from the defaults.

        Some keys never count, because they change only when or how often a message arrives. These are latency,
        duplication, reordering, bandwidth of users' links, header size and start window. Without faults, everybody gets
        the label of a uniform random member of her cluster, and all submissions arrive.
        """
        keys = differing("network", self.model_dump(), defaults(type(self)))
        return tuple(dict.fromkeys(".".join(key.split(".")[:2]) for key in keys if key not in HARMLESS))

    @property
    def uncalibrated(self) -> set[str]:
        """The keys of faults under which calibrated noise may be too weak for the target ε.

        Calibration assumes that every submission is the label of a uniformly random member of the cluster. Three kinds
        of faults break this assumption: users may submit their own label when a request fails; users cannot ask every
        member of the cluster at every time; or a plug-in defines the fault.
        """
        own_label = {"network.on_timeout.fallback"} if self.on_timeout.fallback == "own_label" else set()
        return set(self.faults) - CALIBRATED | own_label

    @property
    def ideal(self) -> bool:
        """Whether `faults` is empty: nothing can fail, and everybody may be asked."""
        return not self.faults

    def timeout_s(self, attempt: int) -> float:
        """How long request number `attempt` (from 0) of a user waits for a reply, in seconds.

        The time is `request_timeout_s` · `on_timeout.backoff`^`attempt`; infinite if `request_timeout_s` is absent.
        """
        if self.request_timeout_s is None:
            return float("inf")
        return self.request_timeout_s * self.on_timeout.backoff**attempt

    @property
    def by_shard(self) -> bool:
        """Whether each shard (a group of whole clusters) can be simulated alone, and counts decide the shard's privacy.

        These are counts in the shard's clusters, such as numbers of users and of submissions. Three conditions must
        hold. First, the learner's link has no limit; otherwise the submissions of all clusters queue for it. Second,
        everybody is always online. Third, everybody may ask all users of her cluster.
        """
        return (
            self.learner_bandwidth_bps is None
            and self.availability == ALWAYS
            and isinstance(self.overlay, CompleteOverlay)
        )

    def check_splittable(self) -> None:
        """Raise InputError if the key `learner_bandwidth_bps` is set: all clusters then share the learner's link.

        With a shared link, no part of the population can be simulated alone.
        """
        if self.learner_bandwidth_bps is not None:
            raise InputError(
                f"network.learner_bandwidth_bps = {self.learner_bandwidth_bps:g}: all clusters share this link; "
                "a run with it cannot be split"
            )

    def files(self, places: tuple[Path, ...]) -> list[Path]:
        """The paths of all files that describe the network: overlay, travel times and online periods.

        Args:
            places: directories in which the files are looked for, in this order; the working directory comes last.
        """
        parts = {"overlay": self.overlay, "latency": self.latency, "availability": self.availability}
        return [
            find_named(part.path, places, f"network.{key}.path")
            for key, part in parts.items()
            if isinstance(part, FileOverlay | LatencyTrace | AvailabilityTrace)
        ]


@dataclass(frozen=True)
class Network:
    """The network of one replicate.

    latency, availability: the laws of travel times and of online periods. overlay: the graph of who may ask whom; None:
    every user may ask every user of her cluster. streams: the replicate's random streams.
    """

    config: NetworkConfig
    latency: LatencyLaw
    availability: AvailabilityLaw
    overlay: Overlay | None
    streams: Streams

    @staticmethod
    def open(config: NetworkConfig, population: People, streams: Streams, places: tuple[Path, ...] = ()) -> "Network":
        """The network of one replicate: files are read, and the graph of who may ask whom (the overlay) is drawn.

        Args:
            config: the network's configuration. population: the users. The overlay's edges depend on the clusters of
            users, and on the rows that users have in the data. streams: the replicate's random streams. places:
            directories in which files are looked for, in this order; the working directory comes last.

        Raises:
            InputError: a file is missing or damaged, or the overlay cannot be built.
        """
        overlay, latency, availability = None, config.latency, config.availability
        if not isinstance(config.overlay, CompleteOverlay):
            overlay = config.overlay.build(
                OverlayInput(population.cluster_offsets, streams, places, population.row, population.source_rows)
            )
        return Network(
            config,
            latency.load(places) if isinstance(latency, LatencyTrace) else latency,
            availability.load(places) if isinstance(availability, AvailabilityTrace) else availability,
            overlay,
            streams,
        )

    def shard_overlay(self, shard: Shard) -> Overlay | None:
        """The overlay (graph of who may ask whom) of a shard (a group of whole clusters), with users numbered from 0.

        None: everybody may ask everybody in her cluster.
        """
        return None if self.overlay is None else self.overlay.shard(shard.start, shard.stop)

    def degrees(self, shard: Shard) -> NDArray[np.int64]:
        """How many peers each user of a shard may ask, (m,)."""
        if self.overlay is not None:
            return np.diff(self.overlay.indptr[shard.start : shard.stop + 1])
        sizes = np.diff(shard.offsets)
        return np.repeat(sizes, sizes)

    def shard_availability(self, shard: Shard) -> Availability | None:
        """The periods in which a shard's users are online; None: all users are always online."""
        if self.config.availability == ALWAYS:
            return None
        return self.availability.draw(shard, self.streams, self.horizon_s)

    @property
    def horizon_s(self) -> float:
        """The time, in seconds, until which users switch on and off; hardly any message is sent later."""
        c = self.config
        waits = sum(c.timeout_s(attempt) for attempt in range(c.on_timeout.attempts)) if c.request_timeout_s else 0.0
        pauses = (
            10.0 * (c.availability.mean_on_s + c.availability.mean_off_s) if isinstance(c.availability, OnOff) else 0.0
        )
        slow = 2.0 * c.distance_s + (16.0 * c.header_bytes / c.bandwidth_bps if c.bandwidth_bps else 0.0)
        travel = (20.0 * self.latency.mean + slow) * (c.hops + 2)
        return max(c.start_window_s + waits + travel + pauses, c.deadline_s or 0.0)
