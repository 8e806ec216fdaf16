"""Compares how many peers a user should ask, such that submissions show the label of a cluster's majority most often.

The choices are single numbers and mixtures of two numbers. All choices satisfy the same (ε, δ). The comparison uses
public values only: cluster size, θ, ε, δ and the share of the majority.
"""

import itertools
import math
from collections.abc import Iterable
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
"""Shares of users who ask the smaller number of peers, in mixtures of two numbers."""
NO_ERROR = 1e-12
"""An error up to this value counts as none. Sums leave out extreme numbers of submissions, up to this probability per
end.
"""


@dataclass(frozen=True)
class PeersChoice:
    """One choice of the number of peers that a user asks, with the noise that it needs and the error of the
    submissions.

    peers: (k, probability) for each number k of peers that a user may ask. flip_prob: the smallest α of three digits
    that meets the target (ε, δ). error: the probability that the commoner label among the submissions is not the
    majority's label (`missed`).
    """

    peers: tuple[tuple[int, float], ...]
    flip_prob: float
    error: float

    @property
    def requests(self) -> float:
        """The expected number of peers that a user asks."""
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
    """Compares how many peers a user should ask. The choice with the smallest error comes first.

    The choices are single numbers of peers and mixtures of two numbers. Each choice gets the smallest flip probability
    α (to three digits) with which the exchange is (ε, δ)-private against the learner. The error is the probability that
    the commoner label among a cluster's submissions is then the wrong one.

    Args:
        cluster_size: n. sampling_rate: θ. epsilon, delta: the target against the learner. majority: share of a
        cluster's users who hold its commoner label, above 1/2 and at most 1. numbers: numbers of peers to compare, each
        odd; default: 1, 3, 5, 7 and 9. In the mixtures 1/4, 1/2 or 3/4 of the users ask the smaller number.
    """
    if not 0.5 < majority <= 1.0:
        raise ValueError(f"majority = {majority}: must be above 0.5 and at most 1")
    single, choices = tuple(numbers), []
    pairs = itertools.product(itertools.combinations(single, 2), PARTS)
    mixtures: list[Peers] = [{few: part, many: 1.0 - part} for (few, many), part in pairs]
    for peers in [*single, *mixtures]:
        alpha = calibrate_majority(
            [cluster_size], sampling_rate=sampling_rate, peers=peers, epsilon=epsilon, delta=delta
        )
        weights = peer_weights(peers)
        error = missed(cluster_size, alpha, MajorityKernel(weights), sampling_rate, majority)
        choices.append(PeersChoice(weights, alpha, error))
    return sorted(choices, key=lambda choice: choice.error)


def missed(size: int, flip_prob: float, kernel: Kernel, sampling_rate: float, majority: float) -> float:
    """Probability that the commoner label among a cluster's submissions is not the label of the majority of its users.

    A tie counts half. The label of the majority is 1.

    Args:
        size: n, users of the cluster. flip_prob: α, the probability of a flip. kernel: the rule by which a user makes
        her submission from peers' noisy labels. For each number of ones among the n noisy labels it gives the
        probability of submitting a 1. sampling_rate: θ, the probability to submit. majority: share of users with the
        commoner label.
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
    """The law (distribution), (n+1,), of the number of ones among a cluster's n = `size` noisy labels.

    m = round(majority · n) users hold label 1. So the number of ones is distributed as Bin(m, 1-α) + Bin(n-m, α), where
    α = `flip_prob`.
    """
    ones = round(majority * size)
    return np.convolve(
        scipy.stats.binom.pmf(np.arange(ones + 1), ones, 1.0 - flip_prob),
        scipy.stats.binom.pmf(np.arange(size - ones + 1), size - ones, flip_prob),
    )
