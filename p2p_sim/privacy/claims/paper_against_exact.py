"""Tables of the learner's ε: bound of the clustering paper (Esfandiari et al.), exact, Gaussian limit, a shuffler."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from p2p_sim.privacy import LabelExchange, lemma9_epsilon, local_epsilon, sufficient_flip_prob
from p2p_sim.privacy.exchange import OtherUsers
from p2p_sim.privacy.randomized_response import bisect

SIZES = (30, 100, 300, 1000, 2000, 10_000, 100_000, 1_000_000)
RATES = (1.0, 0.1)
FLIP_PROB = 0.1


@dataclass(frozen=True)
class BoundsRow:
    """Several bounds of the learner's ε at one cluster size and δ, for comparison.

    cluster_size, flip_prob, sampling_rate, delta: n, α, θ, δ.
    epsilon_paper: the bound of the clustering paper's Lemma 9. None: the lemma does not apply.
    epsilon_lower, epsilon_upper: the accountant's lower and upper bound.
    epsilon_closed_form: the bound of an explicit formula, see `closed_form_epsilon`.
    epsilon_gaussian: the ε of the Gaussian limit for large n.
    epsilon_shuffled_lower: ε of all users' noisy labels, shuffled, if all users but one hold the same label.
    """

    cluster_size: int
    flip_prob: float
    sampling_rate: float
    delta: float
    epsilon_paper: float | None
    epsilon_lower: float
    epsilon_upper: float
    epsilon_closed_form: float
    epsilon_gaussian: float
    epsilon_shuffled_lower: float


def bounds_table(
    sizes: Sequence[int] = SIZES, rates: Sequence[float] = RATES, flip_prob: float = FLIP_PROB
) -> list[BoundsRow]:
    """A table of bounds of the learner's ε at δ = 1/n², with a row for each sampling rate and cluster size n.

    The rows of the first rate come first, in the order of `sizes`. `BoundsRow` explains the bounds. The defaults take
    about 10 s.

    Args:
        sizes: cluster sizes n. rates: sampling rates θ. flip_prob: α, by default 0.1.
    """
    rows = []
    for rate, n in itertools.product(rates, sizes):
        delta = 1.0 / n**2  # the δ of the clustering paper's Theorem 3
        exact = LabelExchange(n, flip_prob, rate).epsilon(delta)
        rows.append(
            BoundsRow(
                cluster_size=n,
                flip_prob=flip_prob,
                sampling_rate=rate,
                delta=delta,
                epsilon_paper=lemma9_epsilon(n, flip_prob, rate, delta),
                epsilon_lower=exact.epsilon_lower,
                epsilon_upper=exact.epsilon_upper,
                epsilon_closed_form=closed_form_epsilon(n, flip_prob, rate, delta),
                epsilon_gaussian=gaussian_epsilon(limit_mu(n, flip_prob, rate), delta),
                epsilon_shuffled_lower=shuffled_epsilon(n, flip_prob, delta),
            )
        )
    return rows


def closed_form_epsilon(cluster_size: int, flip_prob: float, sampling_rate: float, delta: float) -> float:
    """The least ε that a theorem proves for the exchange with flip probability α, but at most ε₀.

    The theorem is this project's correction of the clustering paper's Theorem 3. For each (ε, δ) it gives a sufficient
    α (`sufficient_flip_prob`). ε₀ is the ε of the noisy label alone.

    Args:
        cluster_size: number of users. flip_prob: α. sampling_rate: θ, the probability to submit.
    """
    return bisect(
        lambda epsilon: sufficient_flip_prob(cluster_size, sampling_rate, epsilon, delta) > flip_prob,
        0.0,
        local_epsilon(flip_prob),
        1e-6,
    ).below


def limit_mu(cluster_size: int, flip_prob: float, sampling_rate: float) -> float:
    """The μ of the exchange's Gaussian limit for large n: μ = (1-2α) √(θ / ((1+θ) n α(1-α))). n is the cluster size, α
    the flip probability and θ the sampling rate.
    """
    variance = cluster_size * flip_prob * (1.0 - flip_prob) * (1.0 + sampling_rate) / sampling_rate
    return (1.0 - 2.0 * flip_prob) / math.sqrt(variance)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """ε of μ-GDP at δ: the root ε of Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2) = δ. The result is 0 if there is no positive
    root. Source: Dong, Roth and Su, Corollary 2.13.
    """

    def excess(epsilon: float) -> float:
        first, second = log_ndtr(-epsilon / mu + mu / 2.0), epsilon + log_ndtr(-epsilon / mu - mu / 2.0)
        return float(np.exp(first) * -np.expm1(second - first)) / delta - 1.0

    if excess(0.0) <= 0.0:
        return 0.0
    high = mu * (mu + math.sqrt(-2.0 * math.log(delta)) + 1.0)
    return float(brentq(excess, 0.0, high, xtol=1e-12, rtol=1e-10))


def shuffled_epsilon(cluster_size: int, flip_prob: float, delta: float) -> float:
    """ε at δ of all n noisy labels, shuffled, if all users but the target hold label 0.

    The result is a lower bound of the largest ε over all data sets. X ~ Bin(n-1, α) is the number of noisy ones of the
    other users. The number of all noisy ones is X or X + 1. Of two directions, the target's label 0 against 1 and 1
    against 0, the one with the larger ε counts.
    """
    others = OtherUsers(cluster_size, cluster_size - 1, 0, flip_prob).noisy_ones(math.log(delta) - 20.0).probabilities
    # Laws (distributions) of the number of noisy ones. `same` and `more` hold if the target's noisy label is 0, or 1.
    # `first` and `second` hold if her true label is 0, or 1.
    same, more = np.append(others, 0.0), np.insert(others, 0, 0.0)
    first, second = (1.0 - flip_prob) * same + flip_prob * more, flip_prob * same + (1.0 - flip_prob) * more

    def above(epsilon: float) -> bool:
        growth = math.exp(epsilon)
        forth, back = np.maximum(first - growth * second, 0.0).sum(), np.maximum(second - growth * first, 0.0).sum()
        return bool(max(forth, back) > delta)

    return bisect(above, 0.0, local_epsilon(flip_prob), 1e-9).above
