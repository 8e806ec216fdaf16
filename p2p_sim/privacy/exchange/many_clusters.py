"""Upper bounds of δ that hold for many clusters at once, from the smallest cluster.

The smallest cluster has S users. Consider a larger cluster, of n users. Reveal to the learner the noisy bits of all but
S users, and which submissions carry these bits. What remains is the exchange of the smallest cluster with another
number of submissions, t ~ Bin(n, θS/n). Here θ is the probability that a user submits. Let δ_t be the largest δ over
data sets for t submissions from S users. Then δ is at most Σ_t Pr[t] δ_t. One table of δ_t serves all θ and sizes.

Where the table is too large, clusters of similar sizes form a group. δ_t does not decrease in t, as dropping a
submission is post-processing. Take the exchange of the group's smallest cluster with t ~ Bin(n, θ), where n and θ are
the largest in the group. This exchange has at least the δ of each cluster.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from p2p_sim.privacy.binomial_windows import UNIT, Floats, SubmissionCounts, share_of
from p2p_sim.privacy.exchange.direct_sum import DirectViews, OtherUsers
from p2p_sim.privacy.exchange.one_cluster import ClusterExchange
from p2p_sim.privacy.randomized_response import hockey_stick_coefficients, local_epsilon, outward

_LARGEST = 64
"""Largest number of users of the smallest cluster for which a table of δ_t is made."""
_MOST = 256
"""Largest t of a table of δ_t."""
_STEP = 32
"""The largest t of a table is rounded up to a multiple of this number, so that cached tables are reused."""
_TAIL = -36.0
"""Values of t may be left out on each side up to a total probability of exp(this). The upper sums include what is left
out."""


def deltas(settings: Sequence[ClusterExchange], epsilons: Sequence[float]) -> list[float] | None:
    """For each ε a certified δ that holds in each of the given clusters, from a table of δ by number of submissions.

    The table is for the smallest cluster. In a larger cluster, the learner is told all noisy labels except as many as
    the smallest cluster has users. What is left is the smallest cluster with another law of the number of submissions.
    None: the table would be too large, α is 0, or the clusters differ in α.

    Args:
        settings: for each cluster its number of users, α, and the law of the number of submissions; at least one
            cluster.
        epsilons: at least 0.
    """
    sources, flip_prob = min(s.sources for s in settings), settings[0].flip_prob
    if sources > _LARGEST or flip_prob == 0.0 or {s.flip_prob for s in settings} != {flip_prob}:
        return None
    # for each cluster the law of t, the number of submissions from `sources` users whose bits stay hidden. The rate of
    # this law is rounded up
    laws = [
        SubmissionCounts.of(
            s.trials, share_of(s.rate, sources, s.sources, up=True), sources, log_tail=_TAIL, log_delta=_TAIL
        )
        for s in settings
    ]
    most = _STEP * math.ceil(max(law.counts[-1] for law in laws) / _STEP)
    if most > _MOST:
        return None
    weights, lost = np.zeros((len(laws), most + 1)), np.array([law.lost for law in laws])
    for row, law in zip(weights, laws, strict=True):
        row[list(law.counts)] = law.upper

    def largest(epsilon: float) -> float:
        """Upper bound of δ(ε) that holds in all clusters given to `deltas`: the largest of the clusters' sums Σ_t Pr[t]
        δ_t(ε).

        Pr[t] and δ_t(ε) are both rounded up.
        """
        sums = weights @ deltas_by_count(sources, flip_prob, most, epsilon)
        return outward(0.0, float((sums * (1.0 + (most + 4) * UNIT) + lost).max())).upper

    return [largest(epsilon) if epsilon < local_epsilon(flip_prob) else 0.0 for epsilon in epsilons]


def satisfied(settings: Sequence[ClusterExchange], epsilon: float, delta: float) -> bool:
    """Whether (ε, δ) is certified for all these clusters. False may mean that (ε, δ) holds but could not be certified.

    Args:
        settings: the clusters, of any sizes. epsilon, delta: ε at least 0, δ in (0, 1).
    """
    order = sorted(set(settings), key=lambda setting: (setting.sources, setting.trials))
    if any(setting.flip_prob != order[0].flip_prob for setting in order):
        return False
    start, width = 0, 1
    while start < len(order):
        group = order[start : start + width]
        trials, rate = max(setting.trials for setting in group), max(setting.rate for setting in group)
        if replace(group[0], trials=trials, rate=rate).satisfies(epsilon, delta):
            start, width = start + len(group), 2 * width
        elif width == 1:
            return False
        else:
            width //= 2
    return True


@lru_cache(maxsize=4096)
def deltas_by_count(sources: int, flip_prob: float, most: int, epsilon: float) -> Floats:
    """Upper bounds (most + 1,) of δ(ε) given t = 0..most submissions, over all data sets and both directions.

    Args:
        sources: number of users; each submission carries the noisy label of one of these users. most: largest t.
        flip_prob: α.
    """
    views = _views(sources, flip_prob, most)
    starts = np.searchsorted(views.lower, np.arange(most))
    [upper] = views.deltas(hockey_stick_coefficients(flip_prob, epsilon), (True,), starts)
    return np.append(0.0, upper.max(axis=(1, 2)))


@lru_cache(maxsize=8)
def _views(sources: int, flip_prob: float, most: int) -> DirectViews:
    """Tables of the probabilities of k ones among t submissions, for t = 1..most: rows sorted by t, a column for each
    data set.

    A data set is given by a number m: how many users besides the target hold label 1. As labels may be swapped, m goes
    up to half the number of other users. In `DirectViews` the fields `upper` and `lower` are weights of the rows. Here
    `upper` is 1, as no average over t is taken. `lower` is t - 1, so that a search finds the first row of each t.

    Args:
        sources: number of users, including the target, whose label is protected. flip_prob: α.
    """
    worlds = [OtherUsers(sources, sources - 1 - ones, ones, flip_prob) for ones in range((sources - 1) // 2 + 1)]
    index = np.arange(most, dtype=np.float64)
    views = DirectViews.of(worlds, SubmissionCounts(tuple(range(1, most + 1)), index, index, 0.0))
    order = np.argsort(views.upper, kind="stable")
    return replace(views, a=views.a[order], b=views.b[order], lower=views.upper[order], upper=np.ones(len(order)))
