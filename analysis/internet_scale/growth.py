"""The exchange over two networks, simulated and by exact laws; and its privacy among 10⁹ users at δ = 1e-12.

The part on privacy computes how large clusters must be, and how much coalitions of users learn.
"""

import gc
import math
import resource
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.stats import lognorm

from p2p_sim.base import Streams
from p2p_sim.exchange import ShardExchange, Traffic
from p2p_sim.measures import GridLaw, fewest_of_any, most_of, most_of_any
from p2p_sim.mechanisms import RandomizedResponse
from p2p_sim.network import Lognormal, Network, NetworkConfig, OnTimeout, departures
from p2p_sim.population import Population, shards
from p2p_sim.privacy import Floats, LabelExchange, Peer, local_epsilon
from p2p_sim.privacy.exchange import unasked_epsilon

SEED, CLUSTER = 2022, 1000
LATENCY = Lognormal(median_s=0.05, sigma=1.0)
NETWORKS = {
    "plain": NetworkConfig(latency=LATENCY),
    "retries": NetworkConfig(
        latency=LATENCY, start_window_s=1.0, loss=0.01, request_timeout_s=1.0,
        on_timeout=OnTimeout(retry="redraw", attempts=3),
    ),
}  # fmt: skip
"""Networks by name. "plain": all users begin at once, and no message is lost. "retries": users begin within a second,
and 1% of messages are lost. There a user makes up to three requests, which expire after 1, 2 and 4 seconds."""
LINK_BPS = (1.0, 10.0, 100.0)
"""Rates of the learner's link, in bits a second for each user. For 10⁹ users they are 1, 10 and 100 Gbit/s."""
SHARES = (0.5, 0.99, 0.999)
"""Quantiles of the arrival time that are reported."""
COLLECT_EVERY = 16
"""After this number of shards (parts of the clusters), the memory of finished shards is freed."""
REQUEST, LABEL = 64, 65
"""Bytes of a message without and with a label."""


def arrivals(
    network: str, users: int, replicate: int, first: int = 0, every: int = 1
) -> Iterator[tuple[Traffic, Floats]]:
    """Runs the exchange shard by shard (a shard is a part of the clusters). Yields for each shard the counts of its
    messages, and the arrival times (m,), in seconds, of the m submissions that arrive.

    Args:
        network: "plain" or "retries", explained at `NETWORKS`. users: number of users, a multiple of the cluster size
        1,000. replicate: number of the replicate. first, every: only the shards first, first + every, ... are run.
    """
    streams = Streams(SEED, replicate)
    nobody = Population(np.zeros((0, 0)), np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64), 2)
    opened = Network.open(NETWORKS[network], nobody, streams)
    noise = RandomizedResponse(0.1)
    for shard in shards(np.arange(0, users + 1, CLUSTER)):
        if shard.index % every != first:
            continue
        noisy = noise.randomize(np.zeros(shard.size, dtype=np.uint8), streams.generator("flip", shard.index))
        exchange = ShardExchange(shard, noisy, opened, streams, sampling_rate=1.0, payload_bytes=LABEL - REQUEST)
        traffic = exchange.run()
        times = exchange.arrival[np.isfinite(exchange.arrival)]
        del exchange
        if shard.index % COLLECT_EVERY == COLLECT_EVERY - 1:
            gc.collect()  # an engine and its processes refer to each other: only the collector frees them
        yield traffic, times


def run(task: tuple[str, int, int]) -> dict[str, float | str]:
    """Runs one replicate and returns its row. The row has bytes, the share of submissions that arrive, and times in
    seconds. The times are the last arrival, quantiles of arrivals, and the end of the run for three rates of the
    learner's link. `cpu_s` is the CPU time.

    Args:
        task: the network, the number of users, and the replicate's number.
    """
    network, users, replicate = task
    begin = time.process_time()
    traffic, parts = Traffic(), []
    for counts, times in arrivals(network, users, replicate):
        traffic += counts
        parts.append(times)
    spent = time.process_time() - begin
    times = np.concatenate(parts)
    # the learner's link has r bits a second for each of n users: a submission takes 8 LABEL/(r n) seconds;
    # the last departure from the link ends the run
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


def peak_mib() -> float:
    """The largest memory that this process has held so far, including its libraries, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@dataclass(frozen=True)
class UserLaw:
    """Exact values for one user: the expected bytes that she sends, and the law of her submission's arrival time."""

    bytes_per_user: float
    arrival: GridLaw


class Laws(NamedTuple):
    """The laws of one user. `early` rounds times down to a grid, and `late` rounds times up."""

    early: UserLaw
    late: UserLaw


def law(network: str, up: bool, step_s: float = 0.004, cells: int = 20_000) -> UserLaw:
    """One user's expected bytes and law of the arrival time, with all travel and start times rounded to a grid.

    Rounding up never makes a submission arrive earlier. This holds even if a rounded reply misses its time-out: the
    user then asks again, and the next reply comes later. So the laws with times rounded up and down enclose the true
    law.

    Args:
        network: one of `NETWORKS`. up: whether times are rounded up, else down.
        step_s, cells: seconds between two times of the grid, and number of times.
    """
    config = NETWORKS[network]
    delivered = 1.0 - config.loss
    # leg: the law of one message's travel time; there_and_back: the law for a delivered request and delivered reply
    leg = GridLaw.of(lognorm(LATENCY.sigma, scale=LATENCY.median_s).cdf, step_s, cells, up)
    there_and_back = leg.after(leg).weighted(delivered**2)
    if config.request_timeout_s is None:
        return UserLaw((REQUEST + 2 * LABEL), there_and_back.after(leg))
    # the probability of the current attempt, the attempt's start, and the expected bytes sent earlier
    attempted, begin_s, sent = 1.0, 0.0, 0.0
    answered = GridLaw(step_s, np.zeros(cells))
    for attempt in range(config.on_timeout.attempts):
        limit = config.timeout_s(attempt)
        in_time = there_and_back.until(limit).weighted(attempted)
        answered = answered.joined(in_time.later(begin_s))
        sent += attempted * (REQUEST + delivered * LABEL)
        attempted -= in_time.total
        begin_s += limit
    # users with an answer submit; all users begin at uniform times within the window
    start = GridLaw.of(lambda t: np.minimum(t / config.start_window_s, 1.0), step_s, cells, up)
    return UserLaw(sent + answered.total * LABEL, answered.after(leg).weighted(delivered).after(start))


USERS, DELTA = 10**9, 1e-12
CLUSTERS = (100, 300, 1_000, 3_000, 10_000, 100_000, 1_000_000)
RATES, FLIP_PROB = (1.0, 0.1), 0.1
COLLUDING = (0.001, 0.01, 0.1)
NOISES = ((0.1, 1.0), (0.1, 0.1), (0.25, 1.0))
TARGETS = (1.0, 0.5, 0.1)
UNEVEN = 0.01
"""Allowed probability that some cluster is smaller than required, if cluster sizes are random."""
LARGEST = 1_000_000
"""The largest cluster size that the search for the smallest sufficient size tries."""


@dataclass(frozen=True)
class GrowthFigure:
    """A number of the study, possibly with bounds or a 95% interval.

    part: the part of the study. setting: the parameters, in words. quantity: name of the number. at: the number of
    users, the cluster size or the ε of the computation. basis: how the number was found, in words. low, high: ends of
    the bounds or interval; NaN without these. replicates: number of replicates of a measurement; 0 for a computed
    number.
    """

    part: str
    setting: str
    quantity: str
    at: float
    basis: str
    value: float
    low: float = math.nan
    high: float = math.nan
    replicates: int = 0


def figures(delta: float) -> list[GrowthFigure]:
    """All values about the privacy of the label exchange among 10⁹ users at a δ. The first values are the learner's ε
    in clusters of several sizes. The next values are for coalitions of the learner with users. The last values are the
    cluster sizes for ε = 1, 0.5 and 0.1. The flip probability α is 0.1; the cluster sizes also use 0.25. The sampling
    rate θ is 1 or 0.1.
    """
    sizes = []
    for (alpha, rate), target in product(NOISES, TARGETS):
        figure = partial(GrowthFigure, "cluster sizes", f"α = {alpha:g}, θ = {rate:g}")
        least = _smallest(alpha, rate, target, delta)

        def fewest(mean: int) -> int:
            """A size that all clusters reach with probability at least 99%. 10⁹ users join clusters independently, and
            all clusters are equally likely. mean: the mean number of users in a cluster.
            """
            return fewest_of_any(USERS // mean, USERS, 1.0 / (USERS // mean), UNEVEN)

        mean = bisect_left(range(16 * least + 1000), least, least + 1, key=fewest)  # the range is large enough
        sizes += [
            figure("smallest_cluster", target, "certified, by bisection", least),
            figure("mean_of_random_sizes", target, "union bound", mean),
        ]
    return [*_learner(delta), *_coalitions(delta), *sizes]


def _learner(delta: float) -> Iterator[GrowthFigure]:
    """Yields bounds of the learner's ε at a δ, with α = 0.1. There is a lower and an upper bound for each cluster size
    in `CLUSTERS` and each sampling rate θ = 1 and 0.1.
    """
    for rate, size in product(RATES, CLUSTERS):
        bound = LabelExchange(size, FLIP_PROB, rate).epsilon(delta)
        upper, lower = bound.epsilon_upper, bound.epsilon_lower
        yield GrowthFigure(
            "learner", f"θ = {rate:g}", "epsilon", at=size, basis=bound.basis, value=upper, low=lower, high=upper
        )


def _coalitions(delta: float) -> Iterator[GrowthFigure]:
    """Yields what a coalition (the learner and colluding users) learns of another user, at a δ.

    For each share of colluding users and each cluster size there are values for a user whom no member of the coalition
    asked. There is also the ε of a user whom a member asked.
    """
    single = Peer(1000, FLIP_PROB).delta(2.0)  # a coalition with this peer learns no less
    yield GrowthFigure(
        "coalition", "one member", "delta", at=2.0, basis="lower bound in a cluster of 1,000", value=single.lower
    )
    yield GrowthFigure(
        "coalition", "asked the target", "epsilon", at=math.nan, basis="ε₀", value=local_epsilon(FLIP_PROB)
    )
    for share in COLLUDING:
        figure = partial(GrowthFigure, "coalition", f"{100 * share:g}% of all users")
        for size in CLUSTERS:
            clusters = USERS / size
            most = most_of_any(clusters, size, share, delta)
            yield figure("members_worst_cluster", size, "exact", most_of(clusters, size, share, 0.5))
            yield figure("members_no_cluster_has_more", size, "union bound", most)
            yield figure("epsilon_unasked", size, "upper bound", unasked_epsilon(size, FLIP_PROB, 1.0, most, delta))
            reached = -math.expm1((size - 1) * math.log1p(-share / size))  # E[1 - (1-1/s)^c], c ~ Bin(s-1, share)
            yield figure("users_asked", size, "expected", USERS * (1.0 - share) * reached)


def _smallest(flip_prob: float, rate: float, epsilon: float, delta: float) -> int:
    """The smallest cluster size with certified (ε, δ). All larger sizes are assumed to be certified, too.

    Raises:
        ValueError: `LARGEST` users are not enough.
    """

    def certified(size: int) -> bool:
        return LabelExchange(size, flip_prob, rate).satisfies(epsilon, delta)

    low, high = 1, 2
    while not certified(high):
        if high == LARGEST:
            raise ValueError(f"epsilon = {epsilon}, delta = {delta}: needs more than {LARGEST:,} users")
        low, high = high, min(2 * high, LARGEST)
    return bisect_left(range(high), True, low + 1, high, key=certified)
