"""Views of all data sets of a small cluster, kept for every θ, δ and ε that is asked about."""

import math
from collections.abc import Sequence
from dataclasses import replace
from threading import Lock

import numpy as np
from cachetools import LRUCache, cached

from p2p_sim.analysis.privacy.exchange.direct import DirectViews
from p2p_sim.analysis.privacy.exchange.submissions import Submissions
from p2p_sim.analysis.privacy.exchange.unknown_bits import World

LARGEST = 64
"""Most sources."""
MOST = 128
"""Most submissions."""
_KEPT = 64 * 2**20
"""Bytes that are kept."""


@cached(LRUCache(_KEPT, lambda views: 2 * views.a.nbytes), lock=Lock())
def table(sources: int, flip_prob: float, counts: tuple[int, ...]) -> DirectViews:
    """A column for each number m of others with label 1 up to half of them; the rest are mirror images.

    Args:
        sources, flip_prob: S and α of the cluster. counts: numbers of submissions t; the weight of a row is the place
            of its t among those above 0.
    """
    worlds = [World(sources, sources - 1 - ones, ones, flip_prob) for ones in range((sources - 1) // 2 + 1)]
    some = [t for t in counts if t > 0]
    place = np.arange(len(some), dtype=np.float64)
    return DirectViews.of(worlds, Submissions(tuple(some), place, place, 0.0), -math.inf)


def weighted(sources: int, flip_prob: float, submissions: Submissions, ones: Sequence[int]) -> DirectViews:
    """The views of the data sets `ones`, consecutive and at most half, with the weights of a law of submissions."""
    all_of_them = table(sources, flip_prob, submissions.counts)
    place, columns = all_of_them.upper.astype(np.int64), slice(ones[0], ones[-1] + 1)
    seen = np.array(submissions.counts) > 0
    return replace(
        all_of_them,
        a=all_of_them.a[:, columns],
        b=all_of_them.b[:, columns],
        lower=submissions.lower[seen][place],
        upper=submissions.upper[seen][place],
        lost=all_of_them.lost + submissions.lost,
    )
