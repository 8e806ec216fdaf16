"""Label mechanisms against one pass of the random generator over as many single-precision numbers as there are classes.

One number a label and class, n K in all, is what noise on one-hot labels needs; the pass is made in blocks, as
the mechanisms work. Memory is what a mechanism holds beyond what it releases.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.table import PASSES, Row
from benchmarks.timing import BLOCK, paired_ratio, peak_bytes, repeated
from p2p_sim.extend import RandomizedResponse, Randomizer, Streams
from p2p_sim.mechanisms.cluster_rr import ClusterResponse
from p2p_sim.mechanisms.noisy_vectors import Alibi, VectorApproximation
from p2p_sim.mechanisms.rr_with_prior import RRWithPrior
from p2p_sim.privacy.randomized_response import local_flip_prob
from p2p_sim.privacy.rivals.alibi import noise_scale_of
from p2p_sim.privacy.rivals.vector_approximation import bit_flip_prob_of

NAME = "label mechanisms"
CLASSES, EPSILON = (2, 10, 100), 1.0


def randomizers(k: int) -> dict[str, Randomizer]:
    """The mechanisms at ε = 1, by name."""
    return {
        "randomized_response": RandomizedResponse(local_flip_prob(EPSILON, k), k),
        "rr_with_prior": RRWithPrior(EPSILON, k),
        "vector_approximation": VectorApproximation(bit_flip_prob_of(EPSILON), k),
        "alibi": Alibi(noise_scale_of(EPSILON), k),
    }


def in_pieces(noise: Randomizer, labels: NDArray[np.uint8], rng: np.random.Generator) -> int:
    """Randomise a shard at a time and keep nothing; the bytes released."""
    return sum(noise.randomize(labels[i : i + BLOCK], rng).nbytes for i in range(0, labels.size, BLOCK))


def one_pass(numbers: int, rng: np.random.Generator) -> None:
    """Draw so many single-precision numbers into one block, again and again."""
    block = np.empty(BLOCK, dtype=np.float32)
    for start in range(0, numbers, BLOCK):
        rng.random(out=block[: min(BLOCK, numbers - start)], dtype=np.float32)


def measured(k: int, n: int, pairs: int) -> Iterator[Row]:
    """Time over one pass, time a label and memory of each mechanism, K classes."""
    rng = Streams(1, 0).generator("flip")
    labels = rng.integers(0, k, n).astype(np.uint8)
    setting = f"{n:,} labels of {k} classes"
    for name, noise in randomizers(k).items():
        run: Callable[[], int] = lambda noise=noise: in_pieces(noise, labels, rng)  # noqa: E731
        ratio = paired_ratio(run, lambda: one_pass(n * k, rng), pairs)
        kept = noise.randomize(labels[:BLOCK], rng).nbytes
        beyond = (peak_bytes(lambda noise=noise: noise.randomize(labels[:BLOCK], rng)) - kept) / 2**20
        yield Row.of(NAME, name, setting, PASSES, ratio, "one float32 a label and class")
        yield Row.of(NAME, name, setting, "ns a label", repeated(run, n / 1e9, pairs))
        yield Row.of(NAME, name, setting, "MiB beyond the release", beyond)


def curator(k: int, n: int, pairs: int) -> Iterator[Row]:
    """The clustering paper's Algorithm 1 on the same labels, in clusters of 1,000."""
    rng = Streams(1, 0).generator("flip")
    labels = rng.integers(0, k, n).astype(np.uint8)
    response = ClusterResponse(0.5, 2.0 / EPSILON, 1.0 / k, 0.0, k)

    def run() -> None:
        for start in range(0, n, BLOCK):
            part = labels[start : start + BLOCK]
            response.draw(part, np.append(np.arange(0, part.size, 1000), part.size), rng, rng)

    setting = f"{n:,} labels of {k} classes"
    ratio = paired_ratio(run, lambda: one_pass(n * k, rng), pairs)
    yield Row.of(NAME, "cluster_rr", setting, PASSES, ratio, "one float32 a label and class")
    yield Row.of(NAME, "cluster_rr", setting, "ns a label", repeated(run, n / 1e9, pairs))


def rows(small: bool = False) -> Iterator[Row]:
    """All mechanisms for several numbers of classes."""
    labels, pairs = (2_000, 2) if small else (1_000_000, 5)
    for k in CLASSES:
        yield from measured(k, labels, pairs)
        yield from curator(k, labels, pairs)


def main() -> None:
    """Print a line a measurement."""
    for row in rows():
        print(row)


if __name__ == "__main__":
    main()
