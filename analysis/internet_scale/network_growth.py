"""The exchange over two networks: run by the event engine, and its exact law."""

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from p2p_sim.base.streams import Streams
from p2p_sim.exchange.batched_exchange import ShardExchange
from p2p_sim.exchange.traffic import Traffic
from p2p_sim.measures.extrapolation import GridLaw
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network.latency import Lognormal, departures
from p2p_sim.network.network_config import Network, NetworkConfig, OnTimeout
from p2p_sim.population.population import Population, shards

Floats = NDArray[np.float64]
SEED, CLUSTER = 2022, 1000
LATENCY = Lognormal(median_s=0.05, sigma=1.0)
NETWORKS = {
    "plain": NetworkConfig(latency=LATENCY),
    "retries": NetworkConfig(
        latency=LATENCY, start_window_s=1.0, loss=0.01, request_timeout_s=1.0,
        on_timeout=OnTimeout(retry="redraw", attempts=3),
    ),
}  # fmt: skip
"""Everybody at once and nothing lost; and 1% loss, with up to three requests that wait 1, 2 and 4 seconds."""
LINK_BPS = (1.0, 10.0, 100.0)
"""Rates of the learner's link, bits a second for each user: 1, 10 and 100 Gbit/s for 10⁹ users."""
SHARES = (0.5, 0.99, 0.999)
COLLECT_EVERY = 16
"""Shards after which the memory of finished ones is freed."""
REQUEST, LABEL = 64, 65
"""Bytes of a message without and with a label."""


def arrivals(
    network: str, users: int, replicate: int, first: int = 0, every: int = 1
) -> Iterator[tuple[Traffic, Floats]]:
    """Run the exchange shard by shard, nothing kept: what each counted, and when its submissions arrived.

    Args:
        network: one of `NETWORKS`. users: n, a multiple of the cluster size. replicate: of the random streams.
        first, every: of the shards, only number first, first + every, ...
    """
    streams = Streams(SEED, replicate)
    offsets = np.arange(0, users + 1, CLUSTER)
    nobody = Population(np.zeros((0, 0)), np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64), 2)
    opened = Network.open(NETWORKS[network], nobody, streams)
    noise = RandomizedResponse(0.1)
    for shard in shards(offsets):
        if shard.index % every != first:
            continue
        noisy = noise.randomize(np.zeros(shard.size, dtype=np.uint8), streams.generator("flip", shard.index))
        exchange = ShardExchange(shard, noisy, opened, streams, sampling_rate=1.0, payload_bytes=LABEL - REQUEST)
        traffic = exchange.run()
        times = exchange.arrival[np.isfinite(exchange.arrival)]
        del exchange
        if shard.index % COLLECT_EVERY == COLLECT_EVERY - 1:
            gc.collect()  # an engine and its processes refer to each other
        yield traffic, times


def run(task: tuple[str, int, int]) -> dict[str, float | str]:
    """One replicate of the exchange over a network among n users, as a row; `cpu_s` is the processor's time."""
    network, users, replicate = task
    begin = time.process_time()
    traffic, parts = Traffic(), []
    for counts, times in arrivals(network, users, replicate):
        traffic += counts
        parts.append(times)
    spent = time.process_time() - begin
    times = np.concatenate(parts)
    return {
        "network": network,
        "users": users,
        "replicate": replicate,
        "bytes_per_user": traffic.bytes_sent / users,
        "learner_bytes_per_user": traffic.learner_bytes / users,
        "arrived": len(times) / users,
        "last_s": float(times.max()),
        "cpu_s": spent,
        **{f"p{100 * share:g}_s": float(np.quantile(times, share)) for share in SHARES},
        **{f"served_{r:g}_s": float(departures(times, 8.0 * LABEL / (r * users)).max()) for r in LINK_BPS},
    }


@dataclass(frozen=True)
class UserLaw:
    """What is known of a user exactly: the expected bytes that she sends, and when her submission arrives."""

    bytes_per_user: float
    arrival: GridLaw


def law(network: str, up: bool, step_s: float = 0.004, cells: int = 20_000) -> UserLaw:
    """The law of the exchange with all travel and start times rounded up, or down, to a grid.

    A rounded-up network is never earlier: a user whose reply misses its time-out by rounding would have submitted
    before the request that she then sends again could be answered. So the two laws enclose the arrival time's.
    """
    config = NETWORKS[network]
    kept = 1.0 - config.loss
    leg = GridLaw.of(_lognormal, step_s, cells, up)
    there_and_back = leg.after(leg).weighted(kept**2)
    if config.request_timeout_s is None:
        return UserLaw((REQUEST + 2 * LABEL), there_and_back.after(leg))
    asked, waited, sent = 1.0, 0.0, 0.0
    answered = GridLaw(step_s, np.zeros(cells))
    for attempt in range(config.on_timeout.attempts):
        limit = config.timeout_s(attempt)
        in_time = there_and_back.until(limit).weighted(asked)
        answered = answered.joined(in_time.later(waited))
        sent += asked * (REQUEST + kept * LABEL)
        asked -= in_time.total
        waited += limit
    window = config.start_window_s
    start = GridLaw.of(lambda t: np.minimum(t / window, 1.0), step_s, cells, up)
    return UserLaw(sent + answered.total * LABEL, answered.after(leg).weighted(kept).after(start))


def _lognormal(times: Floats) -> Floats:
    """Distribution function of the latency at times (m,), seconds."""
    with np.errstate(divide="ignore"):
        return np.asarray(ndtr(np.log(times / LATENCY.median_s) / LATENCY.sigma))
