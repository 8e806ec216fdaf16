"""Bounds of δ for a coalition with the learner, about a target whom no member of the coalition asked.

Of the n users, c are members of the coalition. N = n-c-1 users are neither members nor the target. The members asked K
of these N users and know their noisy bits. The coalition recognises submissions that carry a member's label. Such
submissions are no evidence of the target's label. What remains is an exchange among n-c sources (users whose noisy bits
submissions may carry) with Bin(n-c, θ(n-c)/n) submissions.
"""

import math
from typing import NamedTuple

import numpy as np

from p2p_sim.privacy.binomial_windows import SUBNORMAL, Floats, SubmissionCounts, binomial_pmf, share_of
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.exchange.direct_sum import DirectViews, OtherUsers
from p2p_sim.privacy.exchange.one_cluster import ClusterExchange
from p2p_sim.privacy.randomized_response import hockey_stick_coefficients, local_epsilon, outward

ENUMERATED = 40
"""Up to this number of non-members, and up to 4 members, all data sets and all that members can know are enumerated."""


def coalition_delta(cluster_size: int, flip_prob: float, sampling_rate: float, members: int, epsilon: float) -> Bracket:
    """A lower and an upper bound of a coalition's δ(ε), the largest over all data sets, if no member asked the target.

    The coalition is the learner and c members of the cluster. In small clusters (up to 40 non-members and 4 members)
    all cases are enumerated: which other users the members asked, and which noisy labels they got. The bounds then
    differ by rounding alone. In large clusters the lower bound ignores what the members got. For the upper bound the
    members are told the noisy labels of c other users, and which submissions carry these labels.

    Args:
        cluster_size: n. flip_prob: α. sampling_rate: θ. members: c. epsilon: ε.
    """
    if enumerable(cluster_size, members):
        return _enumerated(cluster_size, flip_prob, sampling_rate, members, epsilon)
    forgotten, revealed = bracketing_exchanges(cluster_size, flip_prob, sampling_rate, members)
    upper = 1.0 if revealed is None else revealed.delta(epsilon).upper
    return Bracket(forgotten.attained_delta(epsilon), upper)


def enumerable(cluster_size: int, members: int) -> bool:
    """Whether the cluster is small enough to enumerate all that members can know. δ is then exact up to rounding."""
    return cluster_size - members <= ENUMERATED and members <= 4


class CoalitionExchanges(NamedTuple):
    """Two exchanges without a coalition, whose δ are bounds of a coalition's δ in a large cluster.

    forgotten: gives the lower bound; the members forget what they fetched. revealed: gives the upper bound; the members
    know the noisy bits of c others. None: there are fewer than c others.
    """

    forgotten: ClusterExchange
    revealed: ClusterExchange | None


def bracketing_exchanges(cluster_size: int, flip_prob: float, sampling_rate: float, members: int) -> CoalitionExchanges:
    """Two exchanges without colluding users. The two δ bound a coalition's δ if no member asked the target.

    The coalition is the learner with c `members` of a large cluster. Each member asks one user, so that the members
    learn at most c noisy labels. For the lower bound the members forget these labels, and an exchange of n - c users
    remains. For the upper bound the members know the noisy labels of c other users, and an exchange of n - 2c users
    remains. The second exchange is None if n - 2c is below 1.

    Args:
        cluster_size: n. flip_prob: α. sampling_rate: θ. The rates of the two exchanges are rounded down for the lower
        bound and up for the upper bound.
    """
    sources, remaining = cluster_size - members, cluster_size - 2 * members
    forgotten = ClusterExchange(sources, flip_prob, sources, share_of(sampling_rate, sources, cluster_size, up=False))
    if remaining < 1:
        return CoalitionExchanges(forgotten, None)
    rate = share_of(sampling_rate, remaining, cluster_size, up=True)
    return CoalitionExchanges(forgotten, ClusterExchange(remaining, flip_prob, sources, rate))


def unasked_epsilon(cluster_size: int, flip_prob: float, sampling_rate: float, members: int, delta: float) -> float:
    """An upper bound of the coalition's ε at δ over all data sets, if no member asked the target.

    For the bound, the members are told the noisy bits of c others, and which submissions carry these bits. By asking,
    members learn no more than c bits. With fewer than c others, the bound is ε₀, the ε of the noisy label alone.

    Args:
        cluster_size: n. flip_prob: α. sampling_rate: θ. members: c, 0 to n-1. delta: δ in (0, 1).
    """
    revealed = bracketing_exchanges(cluster_size, flip_prob, sampling_rate, members).revealed
    return local_epsilon(flip_prob) if revealed is None else revealed.epsilon(delta).upper


def known_law(others: int, cluster_size: int, members: int) -> Floats:
    """Pr[K = k] for k = 0..min(c, others), given that no member asked the target.

    K is how many different non-members the c `members` asked. others: number of non-members besides the target. Each
    member asks one user, who may be a member.
    """
    law = np.zeros(min(members, others) + 1)
    fetched = np.arange(len(law))
    law[0] = 1.0
    # Each member asks a member, a user whose bit is already known, or a user whose bit is not yet known.
    for _ in range(members):
        repeated = law * ((cluster_size - 1 - others + fetched) / (cluster_size - 1))
        repeated[1:] += (law * ((others - fetched) / (cluster_size - 1)))[:-1]
        law = repeated
    return law


def _enumerated(n: int, alpha: float, theta: float, members: int, epsilon: float) -> Bracket:
    """A lower and an upper bound of the δ(ε) of c `members` and the learner, if no member asked the target.

    The bounds differ by rounding alone. All data sets are enumerated. In each data set, the cases are what the members
    can know: which noisy labels of other users they got. The δ of a data set is the mean over its cases. The largest δ
    is taken.

    Rounding, with u = 2^-53. The probability of a case is a product of four factors. First comes the probability of how
    many users the members asked (off by 4u for each member). Second comes a ratio of whole numbers. The last two are
    probabilities from binomial laws with at most 5 values each. A data set has up to 55 cases, whose terms are summed.
    2e-13 is more than the relative error of this mean.

    Args:
        n: cluster size. alpha: flip probability α. theta: sampling rate θ. members: c, at most 4.
    """
    sources, others = n - members, n - members - 1
    submissions = SubmissionCounts.between(sources, *(share_of(theta, sources, n, up=up) for up in (False, True)))
    coefficients = hockey_stick_coefficients(alpha, epsilon)
    if coefficients.keep == 0.0:
        return Bracket(0.0, 0.0)
    best = [0.0, 0.0]
    for ones in range(others + 1):
        knowledge = _knowledge(n, alpha, members, ones)
        bounds = DirectViews.of(knowledge.worlds, submissions).deltas(coefficients)
        best = [
            max(b, float((knowledge.weights @ np.maximum(v, 0.0)).max())) for b, v in zip(best, bounds, strict=True)
        ]
    return outward(best[0] * (1.0 - 2e-13) - 500.0 * SUBNORMAL, best[1] * (1.0 + 2e-13) + 500.0 * SUBNORMAL)


class Knowledge(NamedTuple):
    """All cases of what members may know of the other users in one data set.

    worlds: for each case, the other users as the members know them. weights: (len(worlds),) probability of each case.
    """

    worlds: list[OtherUsers]
    weights: Floats


def _knowledge(n: int, alpha: float, members: int, ones: int) -> Knowledge:
    """All cases of what c `members` may learn by asking other users, with probabilities, if no member asked the target.

    A case has three numbers. Two are the numbers of users with label 0, and with label 1, whose noisy label the members
    know. The third says how many of the known noisy labels are 1. `worlds` of the result describes each case by an
    `OtherUsers`, and `weights` has the probabilities.

    Args:
        n: cluster size. alpha: α. ones: how many of the n-c-1 users who are neither members nor the target hold label
        1.
    """
    sources, others = n - members, n - members - 1
    worlds, weights = [], []
    # Members know the bits of K = `fetched` others. `label_ones` of these users hold label 1. `known_ones` of these
    # bits are 1.
    for fetched, chance in enumerate(known_law(others, n, members)):
        for label_ones in range(max(0, fetched - (others - ones)), min(fetched, ones) + 1):
            label_zeros = fetched - label_ones
            drawn = math.comb(ones, label_ones) * math.comb(others - ones, label_zeros) / math.comb(others, fetched)
            unflipped = binomial_pmf(0, label_ones, label_ones, alpha)[::-1]
            bits = np.convolve(unflipped, binomial_pmf(0, label_zeros, label_zeros, alpha))
            for known_ones, probability in enumerate(bits):
                worlds.append(OtherUsers(sources, others - ones - label_zeros, ones - label_ones, alpha, known_ones))
                weights.append(chance * drawn * float(probability))
    return Knowledge(worlds, np.array(weights))
