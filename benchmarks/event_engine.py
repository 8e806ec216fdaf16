"""Event engine against SimPy's bare event loop.

The ceiling for any simulation with one SimPy event per message is a process that does nothing but `yield timeout`.
Protocol events are starts, messages delivered and requests that expire: four a user without faults (θ = 1).
"""

from collections.abc import Callable, Iterator

import numpy as np
import simpy

from benchmarks.peers import SIGMA
from benchmarks.table import FASTER, Row
from benchmarks.timing import paired_ratio, peak_bytes, repeated
from p2p_sim.extend import Population, RandomizedResponse, Streams
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.network.latency import Lognormal
from p2p_sim.network.network_config import NetworkConfig, OnTimeout
from p2p_sim.network.overlay import RegularOverlay

NAME = "event engine"
MEDIAN_S, LOOPS = 0.05, 200_000
FLIP_PROB, SAMPLING_RATE = 0.1, 1.0
MECHANISM = LabelExchangeMechanism(RandomizedResponse(FLIP_PROB), SAMPLING_RATE, "events")


def bare_loop(events: int) -> None:
    """As many timeouts as asked for."""

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


def exchange(
    users: Population, network: NetworkConfig, mechanism: LabelExchangeMechanism = MECHANISM
) -> Callable[[], int]:
    """A run that returns its protocol events."""

    def run() -> int:
        outcome = mechanism.run(users, network, Streams(1, 0))
        assert outcome.traffic is not None
        return outcome.traffic.protocol_events

    return run


def clean(window_s: float) -> NetworkConfig:
    """Log-normal latency, and nothing that fails."""
    return NetworkConfig(latency=Lognormal(median_s=MEDIAN_S, sigma=SIGMA), start_window_s=window_s)


def lossy(window_s: float, **changes: object) -> NetworkConfig:
    """Log-normal latency and 1% loss; who gets no reply within ten medians asks somebody else, twice at most."""
    settings = {
        "latency": Lognormal(median_s=MEDIAN_S, sigma=SIGMA),
        "start_window_s": window_s,
        "loss": 0.01,
        "request_timeout_s": 10 * MEDIAN_S,
        "on_timeout": OnTimeout(retry="redraw", attempts=3),
    }
    return NetworkConfig(**{**settings, **changes})


def against_loop(setting: str, users: Population, network: NetworkConfig, small: bool) -> Iterator[Row]:
    """Protocol events per second over the timeouts per second of the bare loop, and memory."""
    run = exchange(users, network)
    events, loops = run(), 2_000 if small else LOOPS
    low, median, high = (v * events / loops for v in paired_ratio(lambda: bare_loop(loops), run))
    yield Row.of(NAME, "SimPy, bare timeout loop", setting, FASTER, (low, median, high), "one SimPy event a message")
    yield Row.of(NAME, "peak memory", setting, "bytes a user", peak_bytes(run) / users.num_users)


def scaling(small: bool) -> Iterator[Row]:
    """Processor time a protocol event, and memory, as users grow; the bare loop beside them."""
    most, loops = (3_000, 2_000) if small else (1_000_000, LOOPS)
    for users in (n for n in (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000) if n <= most):
        for name, size in (("clusters of 100", 100), ("one cluster", users)):
            run = exchange(population(users, size), lossy(1.0))
            events, setting = run(), f"{name}, 1% loss, time-outs"
            times = 3 if users > 200_000 else 5
            yield Row.of("event scaling", "time", setting, "ns an event", repeated(run, events / 1e9, times), "", users)
            yield Row.of("event scaling", "memory", setting, "bytes a user", peak_bytes(run) / users, "", users)
        loop = repeated(lambda: bare_loop(loops), loops / 1e9, 3)
        yield Row.of("event scaling", "time", "SimPy, bare timeout loop", "ns an event", loop, "", users)


def rows(small: bool = False) -> Iterator[Row]:
    """All measurements."""
    for users in (1_000,) if small else (100_000, 1_000_000):
        for size in (100, users):
            for window, start in ((0.0, "at once"), (20 * MEDIAN_S, "over 20 medians")):
                setting = f"{users:,} users, clusters of {size:,}, starts {start}"
                yield from against_loop(setting, population(users, size), clean(window), small)
                yield from against_loop(f"{setting}, faults", population(users, size), lossy(window), small)
    people = population(1_000 if small else 100_000, 1000)
    network = lossy(1.0, overlay=RegularOverlay(degree=10))
    setting = f"{people.num_users:,} users, faults, regular overlay of degree 10 (built too)"
    yield from against_loop(setting, people, network, small)
    yield from scaling(small)


def main() -> None:
    """Print a line a measurement."""
    for row in rows():
        print(row)


if __name__ == "__main__":
    main()
