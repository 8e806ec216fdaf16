"""How many peers k to ask: which k, or mixture of two, tells the learner a cluster's majority best at the same (ε, δ).

The comparison uses public values only: sizes, θ, ε, δ, and how large a majority the learner is to recognise.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from p2p_sim.privacy.bound import plain_arguments
from p2p_sim.privacy.exchange.majority_exchange import Peers, calibrate_majority, peer_weights
from p2p_sim.privacy.exchange.majority_kernel import Kernel, MajorityKernel

NUMBERS = (1, 3, 5, 7, 9)
"""Numbers of peers k that are compared by default."""
PARTS = (0.25, 0.5, 0.75)
"""In a mixture of two k, the shares of users who ask the smaller number, as they are tried."""
_LIKELY = 1e-12
"""Probability, on either side, of the numbers of submissions that are left out of an error."""


@dataclass(frozen=True)
class PeersChoice:
    """One choice of k, with the noise that it needs for (ε, δ) and the error that results.

    peers: (k, probability) pairs. flip_prob: the smallest α of three digits that is certified for (ε, δ).
    error: probability that the submissions' majority is not the cluster's (`missed`).
    """

    peers: tuple[tuple[int, float], ...]
    flip_prob: float
    error: float

    @property
    def requests(self) -> float:
        """Mean number of peers whom a user asks."""
        return sum(k * weight for k, weight in self.peers)


@plain_arguments
def best_peers(
    cluster_size: int,
    *,
    sampling_rate: float,
    epsilon: float,
    delta: float,
    majority: float = 0.6,
    numbers: Iterable[int] = NUMBERS,
) -> list[PeersChoice]:
    """Compares numbers of peers, and mixtures of two of them, at the same (ε, δ) at the learner; the one with the least
    error comes first.

    Args:
        cluster_size: n. sampling_rate: θ. epsilon, delta: the target.
        majority: share of the users of a mixed cluster who hold its commoner label, above 1/2 and at most 1.
        numbers: of peers, odd.
    """
    if not 0.5 < majority <= 1.0:
        raise ValueError(f"majority = {majority}: must be above 0.5 and at most 1")
    choices = []
    for peers in _candidates(tuple(numbers)):
        alpha = calibrate_majority(
            [cluster_size], sampling_rate=sampling_rate, peers=peers, epsilon=epsilon, delta=delta
        )
        weights = peer_weights(peers)
        error = missed(cluster_size, alpha, MajorityKernel(weights), sampling_rate, majority)
        choices.append(PeersChoice(weights, alpha, error))
    return sorted(choices, key=lambda choice: choice.error)


def _candidates(numbers: tuple[int, ...]) -> Iterator[Peers]:
    """Each number of peers alone, then each mixture {k: probability} of two of them with shares from `PARTS`."""
    yield from numbers
    for pair in itertools.combinations(numbers, 2):
        for part in PARTS:
            yield dict(zip(pair, (part, 1.0 - part), strict=True))


def missed(size: int, flip_prob: float, kernel: Kernel, sampling_rate: float, majority: float) -> float:
    """Probability that the majority of submissions is not label 1, which a share `majority` of the users holds.

    Ties, and no submission at all, are decided by a coin. Given N noisy ones each of the Bin(n, θ) submissions is a 1
    with probability g(N/n), g being the `kernel`.
    """
    share, _ = kernel.shares(np.arange(size + 1, dtype=np.float64), size)
    least, most = (int(binom.ppf(part, size, sampling_rate)) for part in (NO_ERROR, 1.0 - NO_ERROR))
    wrong = np.zeros(size + 1)
    for submissions in range(least, most + 1):
        came = binom.pmf(submissions, size, sampling_rate)
        below = binom.cdf(math.ceil(submissions / 2) - 1, submissions, share)
        tied = binom.pmf(submissions / 2, submissions, share) if submissions % 2 == 0 else 0.0
        wrong += came * (below + 0.5 * tied)
    return float(noisy_ones(size, flip_prob, majority) @ wrong)


def noisy_ones(size: int, flip_prob: float, majority: float) -> NDArray[np.float64]:
    """Probabilities (n + 1,) of N, how many noisy labels of a cluster are 1 if a share `majority` holds label 1.

    N = Bin(m, 1-α) + Bin(n-m, α), m = majority · n rounded.
    """
    ones = round(majority * size)
    return np.convolve(
        binom.pmf(np.arange(ones + 1), ones, 1.0 - flip_prob),
        binom.pmf(np.arange(size - ones + 1), size - ones, flip_prob),
    )
