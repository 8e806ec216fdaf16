"""Vectorised engine against one pass of the random generator over as many numbers.

The engine draws a flip, a peer and a subsampling bit for each label; one `Generator.random` pass is the ceiling for
anything that needs one double a label.
"""

import numpy as np

from benchmarks.timing import paired_ratio, peak_bytes, spread
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network.config import NetworkConfig
from p2p_sim.population.population import Population
from p2p_sim.streams import Streams

LABELS = 10_000_000


def main() -> None:
    """Print one line a setting."""
    print(f"vectorised engine, {LABELS:,} labels: time over one Generator.random pass, median (range) of 5 pairs")
    rng = Streams(1, 0).generator("flip")
    labels = rng.integers(0, 2, LABELS).astype(np.uint8)
    for cluster_size in (50, 1000, LABELS):
        users = Population(np.zeros((LABELS, 0)), labels, np.arange(0, LABELS + 1, cluster_size), 2)
        for sampling_rate in (0.5, 1.0):
            mechanism = LabelExchangeMechanism(RandomizedResponse(0.1), sampling_rate, "vectorised")
            kept = []

            def exchange(users=users, mechanism=mechanism, kept=kept):
                release = mechanism.release(users, NetworkConfig(), Streams(1, 0)).release
                kept[:] = [release.user.nbytes + release.payload.nbytes]

            ratio = paired_ratio(exchange, lambda: rng.random(LABELS))
            temporary = (peak_bytes(exchange) - kept[0]) / LABELS
            print(
                f"  clusters of {cluster_size:>10,}, θ = {sampling_rate}: {spread(ratio)}   "
                f"{temporary:4.1f} bytes a label beyond the release"
            )


if __name__ == "__main__":
    main()
