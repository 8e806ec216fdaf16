"""Event engine against SimPy's bare event loop: protocol events per second, bytes a user, growth with the users.

The ceiling for any simulation with one SimPy event per message is a process that does nothing but `yield timeout`.
Protocol events are starts, messages delivered and requests that expire: four a user without faults (θ = 1).
"""

from collections.abc import Callable

import numpy as np
import simpy

from benchmarks.timing import paired_ratio, peak_bytes, seconds, spread
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network.config import NetworkConfig, OnTimeout
from p2p_sim.network.latency import Lognormal
from p2p_sim.network.overlay import RegularOverlay
from p2p_sim.population.population import Population
from p2p_sim.streams import Streams

MEDIAN_S = 0.05
MECHANISM = LabelExchangeMechanism(RandomizedResponse(0.1), 1.0, "events")


def bare_loop(events: int) -> None:
    """As many timeouts as the exchange has protocol events."""

    def ticker(environment: simpy.Environment):
        for _ in range(events):
            yield environment.timeout(1.0)

    environment = simpy.Environment()
    environment.process(ticker(environment))
    environment.run()


def population(users: int, cluster_size: int) -> Population:
    """Users without features, in clusters of one size."""
    offsets = np.append(np.arange(0, users, cluster_size), users)
    return Population(np.zeros((users, 0)), np.zeros(users, dtype=np.uint8), offsets, 2)


def exchange(users: Population, network: NetworkConfig) -> Callable[[], int]:
    """A run that returns its protocol events."""

    def run() -> int:
        outcome = MECHANISM.release(users, network, Streams(1, 0))
        assert outcome.traffic is not None
        return outcome.traffic.protocol_events

    return run


def lossy(window_s: float, **changes: object) -> NetworkConfig:
    """Log-normal latency and 1% loss; who gets no reply within ten medians asks somebody else, twice at most."""
    settings = {
        "latency": Lognormal(median_s=MEDIAN_S),
        "start_window_s": window_s,
        "loss": 0.01,
        "request_timeout_s": 10 * MEDIAN_S,
        "on_timeout": OnTimeout(retry="redraw", attempts=3),
    }
    return NetworkConfig(**{**settings, **changes})


def line(name: str, users: Population, network: NetworkConfig) -> None:
    """Ratio and memory of one setting."""
    run = exchange(users, network)
    events = run()
    per_event = paired_ratio(lambda: bare_loop(events), run)
    memory = peak_bytes(run) / users.num_users
    print(f"  {name:<62} {spread(per_event)}   {memory:5.0f} bytes a user")


def growth(network: NetworkConfig) -> None:
    """Time over n log n from 10⁴ to 10⁶ users in one cluster, relative to 10⁴: the smallest of five runs each."""
    print("time over n log n, one cluster, relative to 10,000 users")
    base = None
    for users in (10_000, 31_623, 100_000, 316_228, 1_000_000):
        run = exchange(population(users, users), network)
        scaled = min(seconds(run) for _ in range(5)) / (users * np.log(users))
        base = base or scaled
        print(f"  n = {users:9,d}: {scaled / base:.2f}")


def main() -> None:
    """Print one line a setting."""
    print("protocol events per second over SimPy's bare timeout loop: median (range) of 5 interleaved pairs")
    for users, cluster_size in ((100_000, 100), (100_000, 100_000), (1_000_000, 100), (1_000_000, 1_000_000)):
        people = population(users, cluster_size)
        for window, start in ((0.0, "at once"), (20 * MEDIAN_S, "over 20 medians")):
            clean = NetworkConfig(latency=Lognormal(median_s=MEDIAN_S), start_window_s=window)
            name = f"{users:,} users, clusters of {cluster_size:,}, starts {start}"
            line(name, people, clean)
            line("  with 1% loss, time-outs and up to 3 attempts", people, lossy(window))
    people = population(100_000, 1000)
    network = lossy(1.0, overlay=RegularOverlay(degree=10))
    line("100,000 users, 1% loss, regular overlay of degree 10 (built too)", people, network)
    growth(lossy(1.0))


if __name__ == "__main__":
    main()
