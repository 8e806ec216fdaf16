"""Event engine against SimPy's bare event loop: protocol events per second, and bytes a user.

The ceiling for any simulation with one SimPy event per message is a process that does nothing but `yield timeout`.
Each user has four protocol events: start, request, reply, submission (θ = 1).
"""

import numpy as np
import simpy

from benchmarks.timing import paired_ratio, peak_bytes, spread
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network.config import NetworkConfig
from p2p_sim.network.latency import Lognormal
from p2p_sim.population.population import Population
from p2p_sim.streams import Streams

USERS, EVENTS = 100_000, 400_000
MEDIAN_S = 0.05


def bare_loop() -> None:
    """As many timeouts as the exchange has protocol events."""

    def ticker(environment: simpy.Environment):
        for _ in range(EVENTS):
            yield environment.timeout(1.0)

    environment = simpy.Environment()
    environment.process(ticker(environment))
    environment.run()


def main() -> None:
    """Print one line a setting."""
    print(f"event engine, {USERS:,} users, {EVENTS:,} protocol events, transcript off")
    print("events per second over SimPy's bare timeout loop: median (range) of 5 interleaved pairs")
    mechanism = LabelExchangeMechanism(RandomizedResponse(0.1), 1.0, "events")
    for cluster_size in (100, USERS):
        labels = np.zeros(USERS, dtype=np.uint8)
        users = Population(np.zeros((USERS, 1)), labels, np.arange(0, USERS + 1, cluster_size), 2)
        for window in (0.0, 20 * MEDIAN_S):
            network = NetworkConfig(latency=Lognormal(median_s=MEDIAN_S), start_window_s=window)

            def exchange(users=users, network=network):
                outcome = mechanism.release(users, network, Streams(1, 0))
                assert outcome.traffic.protocol_events == EVENTS

            ratio = paired_ratio(bare_loop, exchange)
            memory = peak_bytes(exchange) / USERS
            start = "at once" if window == 0 else "over 20 median latencies"
            print(f"  clusters of {cluster_size:>7,}, starts {start:<25} {spread(ratio)}   {memory:5.0f} bytes a user")


if __name__ == "__main__":
    main()
