"""Label mechanisms against one pass of the random generator over as many single-precision numbers as there are classes.

One number a label and class, n K in all, is what noise on one-hot labels needs; the pass is made in blocks, as
the mechanisms work. Memory is what a mechanism holds beyond what it releases.
"""

import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from analysis.privacy.alibi import noise_scale_of
from analysis.privacy.local import local_flip_prob
from analysis.privacy.vector import bit_flip_prob_of
from benchmarks.timing import paired_ratio, peak_bytes, seconds, spread
from p2p_sim.mechanisms.alibi import Alibi
from p2p_sim.mechanisms.interface import Randomizer
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.mechanisms.rr_with_prior import RRWithPrior
from p2p_sim.mechanisms.vector import VectorApproximation
from p2p_sim.streams import BLOCK, Streams

CLASSES, EPSILON = (10, 30, 100), 1.0


def randomizers(k: int) -> dict[str, Randomizer]:
    """The mechanisms at ε = 1, by name."""
    return {
        "randomised response": RandomizedResponse(local_flip_prob(EPSILON, k), k),
        "RRWithPrior": RRWithPrior(EPSILON, k),
        "vector approximation": VectorApproximation(bit_flip_prob_of(EPSILON), k),
        "ALIBI": Alibi(noise_scale_of(EPSILON), k),
    }


def in_pieces(noise: Randomizer, labels: NDArray[np.uint8], rng: np.random.Generator) -> int:
    """Randomise a shard at a time and keep nothing; the bytes released."""
    return sum(noise.randomize(labels[i : i + BLOCK], rng).nbytes for i in range(0, labels.size, BLOCK))


def one_pass(numbers: int, rng: np.random.Generator) -> None:
    """Draw so many single-precision numbers into one block, again and again."""
    block = np.empty(BLOCK, dtype=np.float32)
    for start in range(0, numbers, BLOCK):
        rng.random(out=block[: min(BLOCK, numbers - start)], dtype=np.float32)


def report(k: int, n: int, pairs: int) -> None:
    """One line a mechanism."""
    rng = Streams(1, 0).generator("flip")
    labels = rng.integers(0, k, n).astype(np.uint8)
    print(f"{n:,} labels of {k} classes: time over one pass, median (range) of {pairs} pairs")
    for name, noise in randomizers(k).items():
        run: Callable[[], int] = lambda noise=noise: in_pieces(noise, labels, rng)  # noqa: E731
        ratio = paired_ratio(run, lambda: one_pass(n * k, rng), pairs)
        kept = noise.randomize(labels[:BLOCK], rng).nbytes
        beyond = (peak_bytes(lambda noise=noise: noise.randomize(labels[:BLOCK], rng)) - kept) / 2**20
        print(f"  {name:22} {spread(ratio)}   {1e9 * seconds(run) / n:7.1f} ns a label   {beyond:4.1f} MiB beyond")


def main(labels: int = 1_000_000, pairs: int = 5) -> None:
    """All mechanisms for several numbers of classes."""
    for k in CLASSES:
        report(k, labels, pairs)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
