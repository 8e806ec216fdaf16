"""Vectorised engine against one pass of the random generator over as many numbers.

The engine draws a flip, a peer and a subsampling bit for each label; one `Generator.random` pass is the ceiling for
anything in NumPy that needs one double a label. The largest release has 10⁸ labels.
"""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.table import PASSES, Row
from benchmarks.timing import BLOCK, paired_ratio, peak_bytes, repeated
from p2p_sim.extend import Population, RandomizedResponse, Streams
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.network.network_config import NetworkConfig

NAME, ONE_PASS = "vectorised engine", "one Generator.random pass"


def exchange(labels: int, cluster_size: int, sampling_rate: float) -> Callable[[], int]:
    """A run that returns the bytes of its release."""
    truth = np.random.default_rng(1).integers(0, 2, labels, dtype=np.uint8)
    offsets = np.append(np.arange(0, labels, cluster_size), labels)
    users = Population(np.zeros((labels, 0)), truth, offsets, 2)
    mechanism = LabelExchangeMechanism(RandomizedResponse(0.1), sampling_rate, "vectorised")

    def run() -> int:
        release = mechanism.run(users, NetworkConfig(), Streams(1, 0)).labels
        return release.user.nbytes + release.payload.nbytes

    return run


def one_pass(labels: int) -> None:
    """Draw so many doubles into one block, again and again."""
    rng, block = np.random.default_rng(1), np.empty(BLOCK)
    for start in range(0, labels, BLOCK):
        rng.random(out=block[: min(BLOCK, labels - start)])


def ratios(small: bool) -> Iterator[Row]:
    """Time over one pass, and memory beyond the release."""
    labels = 20_000 if small else 10_000_000
    for cluster_size in (50, 1000, labels):
        for sampling_rate in (0.5, 1.0):
            run = exchange(labels, cluster_size, sampling_rate)
            setting = f"{labels:,} labels, clusters of {cluster_size:,}, θ = {sampling_rate:g}"
            yield Row.of(NAME, "NumPy", setting, PASSES, paired_ratio(run, lambda: one_pass(labels)), ONE_PASS)
            beyond = (peak_bytes(run) - run()) / labels
            yield Row.of(NAME, "NumPy", setting, "bytes a label beyond the release", beyond)


def scaling(small: bool) -> Iterator[Row]:
    """Processor time a label as labels grow, clusters of 1,000."""
    sizes = (1_000, 10_000) if small else (10**4, 10**5, 10**6, 10**7, 10**8)
    for labels in sizes:
        loops = max(1, 200_000 // labels)  # so that the clock's resolution is nothing
        run = exchange(labels, 1000, 0.5)
        spread = repeated(lambda run=run, k=loops: [run() for _ in range(k)], labels * loops / 1e9, 5)
        yield Row.of("vectorised scaling", "time", "NumPy, θ = 0.5", "ns a label", spread, "", labels)
        spread = repeated(lambda n=labels, k=loops: [one_pass(n) for _ in range(k)], labels * loops / 1e9, 5)
        yield Row.of("vectorised scaling", "time", ONE_PASS, "ns a label", spread, "", labels)


def rows(small: bool = False) -> Iterator[Row]:
    """All measurements."""
    yield from ratios(small)
    yield from scaling(small)


def main() -> None:
    """Print a line a measurement."""
    for row in rows():
        print(row)


if __name__ == "__main__":
    main()
