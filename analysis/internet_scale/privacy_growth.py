"""Privacy at δ = 1e-12 among 10⁹ users: what clusters must be like, and what coalitions find out."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

from p2p_sim.measures.extrapolation import fewest_of_any, most_of, most_of_any
from p2p_sim.privacy import LabelExchange, Peer, local_epsilon
from p2p_sim.privacy.exchange.coalition import unasked_epsilon

USERS, DELTA = 10**9, 1e-12
CLUSTERS = (100, 300, 1_000, 3_000, 10_000, 100_000, 1_000_000)
RATES, FLIP_PROB = (1.0, 0.1), 0.1
COLLUDING = (0.001, 0.01, 0.1)
NOISES = ((0.1, 1.0), (0.1, 0.1), (0.25, 1.0))
TARGETS = (1.0, 0.5, 0.1)
UNEVEN = 0.01
"""The chance that some cluster is smaller than stated."""
LARGEST = 1_000_000


@dataclass(frozen=True)
class GrowthFigure:
    """A number of the study; `at` is what it was computed for: a cluster size, a share of users, or ε."""

    part: str
    setting: str
    quantity: str
    at: float
    basis: str
    value: float
    low: float = math.nan
    high: float = math.nan
    replicates: int = 0


def figures(delta: float) -> list[GrowthFigure]:
    """Every number about privacy at a δ."""
    return [*_learner(delta), *_coalitions(delta), *_cluster_sizes(delta)]


def _learner(delta: float) -> Iterator[GrowthFigure]:
    for rate in RATES:
        for size in CLUSTERS:
            bound = LabelExchange(size, FLIP_PROB, rate).epsilon(delta)
            upper, lower = bound.epsilon_upper, bound.epsilon_lower
            yield GrowthFigure("learner", f"θ = {rate:g}", "epsilon", size, bound.basis, upper, lower, upper)


def _cluster_sizes(delta: float) -> Iterator[GrowthFigure]:
    for (alpha, rate), target in product(NOISES, TARGETS):
        figure = partial(GrowthFigure, "cluster sizes", f"α = {alpha:g}, θ = {rate:g}")
        size = _smallest(alpha, rate, target, delta)
        yield figure("smallest_cluster", target, "certified, by bisection", size)
        yield figure("mean_of_random_sizes", target, "union bound", _mean_size(size))


def _coalitions(delta: float) -> Iterator[GrowthFigure]:
    single = Peer(1000, FLIP_PROB).delta(2.0)  # a coalition of one learns no less
    yield GrowthFigure("coalition", "one member", "delta", 2.0, "lower bound in a cluster of 1,000", single.lower)
    yield GrowthFigure("coalition", "asked the target", "epsilon", math.nan, "ε₀", local_epsilon(FLIP_PROB))
    for share in COLLUDING:
        figure = partial(GrowthFigure, "coalition", f"{100 * share:g}% of all users")
        for size in CLUSTERS:
            clusters = USERS / size
            most = most_of_any(clusters, size, share, delta)
            yield figure("members_worst_cluster", size, "exact", most_of(clusters, size, share, 0.5))
            yield figure("members_no_cluster_has_more", size, "union bound", most)
            epsilon = unasked_epsilon(size, FLIP_PROB, 1.0, most, delta)
            yield figure("epsilon_unasked", size, "upper bound", epsilon)
            asked = -math.expm1((size - 1) * math.log1p(-share / size))  # E[1 - (1-1/s)^c], c ~ Bin(s-1, share)
            yield figure("users_asked", size, "expected", USERS * (1.0 - share) * asked)


def _smallest(flip_prob: float, rate: float, epsilon: float, delta: float) -> int:
    """The smallest cluster for which (ε, δ) is certified, if no smaller one is once one is not."""

    def certified(size: int) -> bool:
        return LabelExchange(size, flip_prob, rate).satisfies(epsilon, delta)

    low, high = 1, 2
    while not certified(high):
        low, high = high, min(2 * high, LARGEST)
    return _first(certified, low, high)


def _mean_size(smallest: int) -> int:
    """Mean size at which no cluster is too small, but for 1%, if each user falls into any cluster alike."""

    def enough(mean: int) -> bool:
        clusters = USERS // mean
        return fewest_of_any(clusters, USERS, 1.0 / clusters, UNEVEN) >= smallest

    return _first(enough, smallest, 16 * smallest + 1000)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first number above `low` at which something holds, by bisection; it does not at `low`, and does at `high`."""
    return bisect_left(range(high), True, low + 1, high, key=holds)
