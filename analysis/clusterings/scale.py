"""What clusterings cost with many users: processor seconds and memory."""

import time
import tracemalloc
from typing import Any

import numpy as np

from p2p_sim.base.streams import Streams
from p2p_sim.base.threads import one_thread
from p2p_sim.population.clustering import BalancedClusters, KMeansClusters
from p2p_sim.population.population import Examples

CLUSTERS, FEATURES, BLOBS = 100, 20, 30
KINDS: dict[str, KMeansClusters | BalancedClusters] = {
    "k-means": KMeansClusters(count=CLUSTERS),
    "mini-batch k-means": KMeansClusters(count=CLUSTERS, minibatch=True),
    "balanced": BalancedClusters(count=CLUSTERS),
}


def cost(task: tuple[str, int]) -> dict[str, Any]:
    """One clustering of so many users in blobs of very unequal size: CPU seconds, and the peak of NumPy's memory."""
    label, users = task
    rng = np.random.default_rng(1)
    of = np.minimum(rng.geometric(0.2, users) - 1, BLOBS - 1)
    features = (4.0 * rng.normal(size=(BLOBS, FEATURES))[of] + rng.normal(size=(users, FEATURES))).astype(np.float32)
    people = Examples(features, np.zeros(users, dtype=np.uint8))
    few = Examples(features[:CLUSTERS], people.labels[:CLUSTERS])
    with one_thread():
        KINDS[label].assign(few, Streams(1, 0))  # what is loaded at first use
        begin = time.process_time()
        sizes = np.bincount(KINDS[label].assign(people, Streams(1, 0)))
        seconds = time.process_time() - begin
        tracemalloc.start()
        KINDS[label].assign(people, Streams(1, 0))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return {
        "clusters": label, "num_users": users, "count": CLUSTERS, "features": FEATURES, "cpu_s": seconds,
        "peak_mib": peak / 2**20, "min_cluster_size": int(sizes.min()), "max_cluster_size": int(sizes.max()),
    }  # fmt: skip
