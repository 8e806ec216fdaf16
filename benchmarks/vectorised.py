"""Vectorised engine, by NumPy and compiled, against one pass of the random generator over as many numbers.

The engine draws a flip, a peer and a subsampling bit for each label; one `Generator.random` pass is the ceiling for
anything in NumPy that needs one double a label. Both ways give the same release; the largest has 10⁸ labels.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import numpy as np

from benchmarks.table import PASSES, Row
from benchmarks.timing import BLOCK, paired_ratio, peak_bytes, repeated
from p2p_sim.extend import Population, RandomizedResponse, Streams
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.network.config import NetworkConfig
from p2p_sim.protocol.vectorised import COMPILED

NAME, ONE_PASS = "vectorised engine", "one Generator.random pass"


@contextmanager
def compiled(wanted: bool) -> Iterator[None]:
    """Ask for compiled code, or for NumPy, for a while."""
    before = os.environ.get(COMPILED)
    os.environ[COMPILED] = str(int(wanted))
    try:
        yield
    finally:
        os.environ.pop(COMPILED)
        if before is not None:
            os.environ[COMPILED] = before


def ways() -> dict[str, bool]:
    """NumPy, and numba where it is installed."""
    if find_spec("numba") is None:
        print("numba is missing, so it is left out: pip install -e '.[fast]'")
        return {"NumPy": False}
    return {"NumPy": False, "compiled": True}


def exchange(labels: int, cluster_size: int, sampling_rate: float, wanted: bool) -> Callable[[], int]:
    """A run that returns the bytes of its release."""
    truth = np.random.default_rng(1).integers(0, 2, labels, dtype=np.uint8)
    offsets = np.append(np.arange(0, labels, cluster_size), labels)
    users = Population(np.zeros((labels, 0)), truth, offsets, 2)
    mechanism = LabelExchangeMechanism(RandomizedResponse(0.1), sampling_rate, "vectorised")

    def run() -> int:
        with compiled(wanted):
            release = mechanism.release(users, NetworkConfig(), Streams(1, 0)).labels
        return release.user.nbytes + release.payload.nbytes

    return run


def one_pass(labels: int) -> None:
    """Draw so many doubles into one block, again and again."""
    rng, block = np.random.default_rng(1), np.empty(BLOCK)
    for start in range(0, labels, BLOCK):
        rng.random(out=block[: min(BLOCK, labels - start)])


def words(small: bool) -> Iterator[Row]:
    """The generator alone: 64-bit words, of which a label needs one and a half (at θ = 1 one and a quarter)."""
    if find_spec("numba") is None:
        return
    from p2p_sim.protocol.pcg64 import entropy, fill, seeded

    passes = 2 if small else 100
    state, block = seeded(entropy(Streams(1, 0), "flip"), 0, np.empty(4, np.uint64)), np.empty(BLOCK, np.uint64)
    ratio = paired_ratio(lambda: [fill(state, block) for _ in range(passes)], lambda: one_pass(passes * BLOCK))
    yield Row.of(NAME, "compiled, the generator alone", "64-bit words, the same bits", PASSES, ratio, ONE_PASS)


def ratios(small: bool) -> Iterator[Row]:
    """Time over one pass, and memory beyond the release."""
    labels = 20_000 if small else 10_000_000
    for cluster_size in (50, 1000, labels):
        for sampling_rate in (0.5, 1.0):
            for name, wanted in ways().items():
                run = exchange(labels, cluster_size, sampling_rate, wanted)
                setting = f"{labels:,} labels, clusters of {cluster_size:,}, θ = {sampling_rate:g}"
                yield Row.of(NAME, name, setting, PASSES, paired_ratio(run, lambda: one_pass(labels)), ONE_PASS)
                beyond = (peak_bytes(run) - run()) / labels
                yield Row.of(NAME, name, setting, "bytes a label beyond the release", beyond)


def scaling(small: bool) -> Iterator[Row]:
    """Processor time a label as labels grow, clusters of 1,000."""
    sizes = (1_000, 10_000) if small else (10**4, 10**5, 10**6, 10**7, 10**8)
    for labels in sizes:
        loops = max(1, 200_000 // labels)  # so that the clock's resolution is nothing
        for name, wanted in ways().items():
            run = exchange(labels, 1000, 0.5, wanted)
            spread = repeated(lambda run=run, k=loops: [run() for _ in range(k)], labels * loops / 1e9, 5)
            yield Row.of("vectorised scaling", "time", f"{name}, θ = 0.5", "ns a label", spread, "", labels)
        spread = repeated(lambda n=labels, k=loops: [one_pass(n) for _ in range(k)], labels * loops / 1e9, 5)
        yield Row.of("vectorised scaling", "time", ONE_PASS, "ns a label", spread, "", labels)


def rows(small: bool = False) -> Iterator[Row]:
    """All measurements."""
    yield from words(small)
    yield from ratios(small)
    yield from scaling(small)


def main() -> None:
    """Print a line a measurement."""
    for row in rows():
        print(row)


if __name__ == "__main__":
    main()
