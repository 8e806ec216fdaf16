"""How many peers to ask: which number, or mixture of two, passes a cluster's majority on most often at the same ε.

All that is compared is public: sizes, θ, ε, δ, and how large a majority one wants to see.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.privacy.bound import plain_arguments
from p2p_sim.privacy.exchange.majority_exchange import Peers, calibrate_majority, peer_weights
from p2p_sim.privacy.exchange.majority_kernel import Kernel, MajorityKernel

NUMBERS = (1, 3, 5, 7, 9)
"""Numbers of peers that are compared by default."""
PARTS = (0.25, 0.5, 0.75)
"""Parts of a mixture of two numbers that ask the smaller one."""
NO_ERROR = 1e-12
"""Numbers of submissions less likely than this, together, are left out of an error, which then counts as none."""


@dataclass(frozen=True)
class PeersChoice:
    """One way to ask peers, the noise that it needs, and how well it serves.

    peers: (k, probability) for each number of peers that a user may ask. flip_prob: the least α of three digits that
    keeps to the target ε. error: the probability of `missed`.
    """

    peers: tuple[tuple[int, float], ...]
    flip_prob: float
    error: float

    @property
    def requests(self) -> float:
        """How many peers a user asks, on average."""
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
    yield from numbers
    for pair in itertools.combinations(numbers, 2):
        for part in PARTS:
            yield dict(zip(pair, (part, 1.0 - part), strict=True))


def missed(size: int, flip_prob: float, kernel: Kernel, sampling_rate: float, majority: float) -> float:
    """Probability that most submissions of a cluster of `size` users are not its commoner label, a tie counting one
    half.

    Given N noisy ones each submission is a one with probability g(N/n); there are Bin(n, θ) submissions. majority: the
    share of users who hold the commoner label.
    """
    share, _ = kernel.shares(np.arange(size + 1, dtype=np.float64), size)
    least, most = (int(scipy.stats.binom.ppf(part, size, sampling_rate)) for part in (NO_ERROR, 1.0 - NO_ERROR))
    wrong = np.zeros(size + 1)
    for submissions in range(least, most + 1):
        came = scipy.stats.binom.pmf(submissions, size, sampling_rate)
        below = scipy.stats.binom.cdf(math.ceil(submissions / 2) - 1, submissions, share)
        tied = scipy.stats.binom.pmf(submissions / 2, submissions, share) if submissions % 2 == 0 else 0.0
        wrong += came * (below + 0.5 * tied)
    return float(noisy_ones(size, flip_prob, majority) @ wrong)


def noisy_ones(size: int, flip_prob: float, majority: float) -> NDArray[np.float64]:
    """The law of how many of a cluster's n noisy labels are ones if a share `majority` of its users hold label 1,
    (n+1,).

    With m such users it is Bin(m, 1-α) + Bin(n-m, α).
    """
    ones = round(majority * size)
    return np.convolve(
        scipy.stats.binom.pmf(np.arange(ones + 1), ones, 1.0 - flip_prob),
        scipy.stats.binom.pmf(np.arange(size - ones + 1), size - ones, flip_prob),
    )
