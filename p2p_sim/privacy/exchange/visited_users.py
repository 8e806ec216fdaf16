"""How many users of a cluster have their noisy label submitted by somebody: V, in blocks that are charged upward.

t ~ Bin(n, θ) submissions carry the noisy label of an independent, uniform user each. V counts the users whose label
comes at least once. What a learner can find out grows with V (see `blanket`), so a block of values of V is charged at
its last, and any law that lies above V in the stochastic order serves.
"""

import math
from functools import lru_cache

import numpy as np
import scipy

from p2p_sim.privacy.binomial_windows import SUBNORMAL, UNIT, Floats, some

EXACT = 4096
"""Most users for whom the law of V is computed one submitter after another."""
LOG_TAIL = -60.0
Blocks = tuple[tuple[int, float], ...]
"""(V, probability) with V ascending."""


@lru_cache(maxsize=64)
def visited(users: int, sampling_rate: float, blocks: int, sources: int, trials: int | None = None) -> Blocks:
    """A law above that of V, as blocks.

    Args:
        users: of whom V counts those with a submitted label; at most `sources`.
        sampling_rate: θ in (0, 1]. blocks: most blocks about the mean.
        sources: users of whom each submission takes one's label.
        trials: users who submit with probability θ each; None: as many as sources.
    """
    trials = sources if trials is None else trials
    hit = sampling_rate / sources

    def tail(v: int) -> float:
        if users == sources and max(users, trials) <= EXACT:
            return float(_upper_tails(users, sampling_rate, trials)[v])
        return _bounded_tail(v, users, sampling_rate, hit, trials)

    low, high = _bulk(users, hit, trials)
    between = np.linspace(low, high, min(blocks, high - low + 1)).round().astype(int).tolist()
    tops = [*dict.fromkeys([*between, users])]
    above = np.array([1.0, *(tail(top + 1) for top in tops[:-1]), 0.0])
    above = np.minimum.accumulate(above)
    weights = above[:-1] - above[1:] + 2.0 * UNIT * above[:-1]
    return tuple((int(top), float(weight)) for top, weight in zip(tops, weights, strict=True) if weight > 0.0)


def _bulk(users: int, hit: float, trials: int) -> tuple[int, int]:
    """Where the blocks are: the probability of more is charged apart."""
    mean = users * some(hit, trials)
    reach = math.sqrt(2.0 * mean * -LOG_TAIL) + -LOG_TAIL / 3.0
    return max(0, math.floor(mean - reach)), min(users, math.ceil(mean + reach))


@lru_cache(maxsize=16)
def _upper_tails(users: int, rate: float, trials: int) -> Floats:
    """Pr[V >= v] for v = 0..n+1, rounded up. One submitter after another meets a new user's label or none.

    All terms are positive and each step is off by less than 6u; the sums of the tails add (n+1)u, underflow at most
    the smallest positive number a step and value.
    """
    steps = max(users, trials) + 1
    law, v = np.zeros(users + 1), np.arange(users + 1)
    law[0] = 1.0
    new, old = rate * ((users - v) / users), (1.0 - rate) + rate * (v / users)
    for _ in range(trials):
        moved = law[:-1] * new[:-1]
        law *= old
        law[1:] += moved
    sums = np.append(np.cumsum(law[::-1])[::-1], 0.0)
    return np.asarray(sums * (1.0 + 8.0 * steps * UNIT) + float(steps) ** 2 * SUBNORMAL)


def _bounded_tail(v: int, users: int, rate: float, hit: float, trials: int) -> float:
    """Upper bound of Pr[V >= v]: no more are visited than submissions are made, and by Chernoff's bound.

    Whether one user's label is submitted and whether another one's is are negatively associated (Dubhashi and Ranjan
    1998), so E e^(sV) <= (1 - q + q e^s)^users for s >= 0, q the probability of one: any s gives a bound.
    """
    q, x = some(hit, trials) * (1.0 + 2.0**-47), v / users
    if v > trials:
        return 0.0
    submitted = float(scipy.special.betainc(float(v), trials - v + 1.0, rate)) if v >= 1 else 1.0
    by_submissions = submitted * (1.0 + 1e-11) + 1e-300
    if x <= q:
        return min(1.0, by_submissions)
    s = math.log(x / q) + (math.log1p(-q) - math.log1p(-x) if x < 1.0 else 40.0)
    exponent = users * math.log1p(q * math.expm1(s)) - s * v
    return min(1.0, by_submissions, math.exp(min(0.0, exponent + 1e-12 * (1.0 + s * v))))
