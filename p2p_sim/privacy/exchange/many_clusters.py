"""Upper bounds of δ that hold for many clusters at once, from the smallest of them.

Let all users be revealed but as many as the smallest cluster has, with their noisy bits and with which submissions were
fetched from them. What is left of a larger cluster is the exchange of the smallest one with another number of
submissions, t ~ Bin(n, θS/n). δ is therefore at most Σ_t Pr[t] δ_t, where δ_t is that of t
submissions from S sources, over all data sets. No table but that of the δ_t is needed, whatever θ and the sizes are.

Where that table is too large, clusters of similar sizes are taken together: δ_t does not decrease in t, and t is at
most what Bin(n, θ) draws for the largest n among them (each of its submissions is left with probability S/n or more).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from p2p_sim.privacy.binomial_windows import UNIT, Floats, SubmissionCounts, share_of
from p2p_sim.privacy.exchange.direct_sum import DirectViews, OtherUsers
from p2p_sim.privacy.exchange.one_cluster import ClusterExchange
from p2p_sim.privacy.randomized_response import hockey_stick_coefficients, local_epsilon, outward

_LARGEST = 64
"""Most sources of which a table is made."""
_MOST = 256
"""Most submissions that are tabulated."""
_STEP = 32
"""The numbers of submissions are rounded up to multiples of this, so that tables are found again."""
_TAIL = -36.0
"""Logarithm of the probability of submissions that is left out, and charged."""


def deltas(settings: Sequence[ClusterExchange], epsilons: Sequence[float]) -> list[float] | None:
    """Certified δ at each ε that holds for all of these clusters; None where they are too large or too unlike.

    Args:
        settings: at least one, of one α. epsilons: at least 0.
    """
    sources, flip_prob = min(s.sources for s in settings), settings[0].flip_prob
    if sources > _LARGEST or flip_prob == 0.0 or {s.flip_prob for s in settings} != {flip_prob}:
        return None
    laws = _submission_laws(settings, sources)
    if laws is None:
        return None
    most = laws.weights.shape[1] - 1

    def largest(epsilon: float) -> float:
        """Σ_t Pr[t] δ_t of the worst cluster, with the rounding of its sum and what is left out of the law of t."""
        sums = laws.weights @ deltas_by_count(sources, flip_prob, most, epsilon)
        return outward(0.0, float((sums * (1.0 + (most + 4) * UNIT) + laws.lost).max())).upper

    return [largest(epsilon) if epsilon < local_epsilon(flip_prob) else 0.0 for epsilon in epsilons]


def satisfied(settings: Sequence[ClusterExchange], epsilon: float, delta: float) -> bool:
    """Whether (ε, δ) is certified for all of these clusters; False may mean that it could not be.

    Args:
        settings: of any sizes. epsilon, delta: ε at least 0, δ in (0, 1).
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


class SubmissionLaws(NamedTuple):
    """For each of several clusters Pr[t] for t = 0..most, (clusters, most + 1), and the probability left out
    (clusters,); both rounded up.
    """

    weights: Floats
    lost: Floats


def _submission_laws(settings: Sequence[ClusterExchange], sources: int) -> SubmissionLaws | None:
    """For each cluster the law of the number of submissions that remain if all its users but `sources` are revealed.

    None where there may be too many for a table of δ_t.
    """
    laws = [
        SubmissionCounts.of(
            s.trials, share_of(s.rate, sources, s.sources, up=True), sources, log_tail=_TAIL, log_delta=_TAIL
        )
        for s in settings
    ]
    most = _STEP * math.ceil(max(law.counts[-1] for law in laws) / _STEP)
    if most > _MOST:
        return None
    weights = np.zeros((len(laws), most + 1))
    for row, law in zip(weights, laws, strict=True):
        row[list(law.counts)] = law.upper
    return SubmissionLaws(weights, np.array([law.lost for law in laws]))


@lru_cache(maxsize=4096)
def deltas_by_count(sources: int, flip_prob: float, most: int, epsilon: float) -> Floats:
    """δ(ε) given t submissions, for t = 0..most, (most + 1,): the largest over all data sets and both directions."""
    views = _views(sources, flip_prob, most)
    starts = np.searchsorted(views.lower, np.arange(most))
    [upper] = views.deltas(hockey_stick_coefficients(flip_prob, epsilon), (True,), starts)
    return np.append(0.0, upper.max(axis=(1, 2)))


@lru_cache(maxsize=8)
def _views(sources: int, flip_prob: float, most: int) -> DirectViews:
    """The learner's views of t = 1..most submissions, their rows sorted by t, in one table.

    The weights are t - 1 in the lower sum and one in the upper. A column for each number m of others with label 1 up to
    half of them; the rest are mirror images.
    """
    worlds = [OtherUsers(sources, sources - 1 - ones, ones, flip_prob) for ones in range((sources - 1) // 2 + 1)]
    index = np.arange(most, dtype=np.float64)
    views = DirectViews.of(worlds, SubmissionCounts(tuple(range(1, most + 1)), index, index, 0.0))
    order = np.argsort(views.upper, kind="stable")
    return replace(views, a=views.a[order], b=views.b[order], lower=views.upper[order], upper=np.ones(len(order)))
