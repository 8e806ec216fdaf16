"""What ε and δ of the label exchange are: the largest over data sets of a sum over views, for tiny clusters.

This is the exchange of Algorithm 2, in which nothing is lost and nobody falls back on her own label. The learner of one
cluster sees which label each user submitted, or none. For labels y of the n users let P_y be the law of what she sees.
The exchange is (ε, δ)-private for labels if, for all y and y' that differ in one user's label and all sets S, P_y(S) <=
e^ε P_y'(S) + δ. So the smallest δ at an ε is

    δ(ε) = max over y, y' of  Σ_views max(0, P_y(view) - e^ε P_y'(view)).

Given the numbers of noisy labels J = (J_1, ..., J_K), each submission is a draw from J/n, whoever made it. So the
numbers R of released labels of each class are all that tells y from y', and

    P_y(R) = Σ_t Bin(t; n, θ) Σ_J Pr[J | y] Multinomial(R; t, J/n).

Faster accountants (`exchange/`) are held against this sum; where a case is small enough it is computed.
"""

import math
from functools import lru_cache

import numpy as np

from p2p_sim.privacy.binomial_windows import SUBNORMAL, UNIT, Floats
from p2p_sim.privacy.bound import Bracket

Counts = tuple[int, ...]


def delta_by_summation(n: int, num_classes: int, flip_prob: float, sampling_rate: float, epsilon: float) -> Bracket:
    """δ(ε) of the learner in a cluster of n users with K classes, α and θ; both ends include all rounding.

    Rounding, with u = 2⁻⁵³ (`UNIT`). Every term is a product of non-negative numbers: of n chances of flips, each of
    which with its sum of K terms adds (K + 4)u; of at most n shares, whose powers add 2u each; of whole numbers. The
    sum over N noisy counts adds (N+1)u, and e^ε 2u (an ulp, measured): that is `slack`, with K + 13 in reserve. The
    probability of t adds 4nu, sums over views and t their number. Underflow adds at most the smallest positive number
    for each operation, times 1 + e^ε; if t = 0 nothing is seen.
    """
    grow, best = math.exp(epsilon), [0.0, 0.0]
    # Bin(t; n, θ), and Multinomial(R; t, J/n) for each t: (noisy counts J, released counts R)
    mass = [math.comb(n, t) * sampling_rate**t * (1.0 - sampling_rate) ** (n - t) for t in range(n + 1)]
    tables = [_releases(n, num_classes, t) for t in range(n + 1)]
    counts, views = len(tables[-1]), sum(table.shape[1] for table in tables)
    slack, sums = (n * (num_classes + 6) + counts + num_classes + 16) * UNIT, (4 * n + views + 8) * UNIT
    tiny = (n * num_classes + counts) * counts * SUBNORMAL * (1.0 + grow)
    underflow = views * SUBNORMAL + tiny * sum(
        w * table.shape[1] for w, table in zip(mass[1:], tables[1:], strict=True)
    )
    # every data set of the others; by symmetry the target's label changes from class 0 to class 1
    for others in compositions(n - 1, num_classes):
        law = _noisy(n, num_classes, flip_prob, (others[0] + 1, *others[1:]))
        changed = _noisy(n, num_classes, flip_prob, (others[0], others[1] + 1, *others[2:]))
        total = [0.0, 0.0]
        for weight, table in zip(mass[1:], tables[1:], strict=True):
            p, q = law @ table, grow * (changed @ table)
            # Σ_R max(0, P(R) - e^ε Q(R)), rounded down and up
            for end, sign in enumerate((-slack, slack)):
                total[end] += weight * float(np.maximum((1.0 + sign) * p - (1.0 - sign) * q, 0.0).sum())
        best = [max(pair) for pair in zip(best, total, strict=True)]
    return Bracket(max(0.0, best[0] * (1.0 - sums) - underflow), best[1] * (1.0 + sums) + underflow)


@lru_cache(maxsize=64)
def compositions(total: int, parts: int) -> tuple[Counts, ...]:
    """All tuples of `parts` non-negative integers with this sum, such as class counts of `total` users."""
    if parts == 1:
        return ((total,),)
    return tuple((first, *rest) for first in range(total + 1) for rest in compositions(total - first, parts - 1))


@lru_cache(maxsize=256)
def _releases(n: int, num_classes: int, t: int) -> Floats:
    """Pr[R | J], a table (noisy counts J, released counts R): Multinomial(R; t, J/n) for t submissions of n users."""
    noisy = np.array(compositions(n, num_classes), dtype=np.float64)
    released = np.array(compositions(t, num_classes), dtype=np.float64)
    ways = [float(math.factorial(t) // math.prod(map(math.factorial, r))) for r in compositions(t, num_classes)]
    return np.asarray(np.array(ways) * np.prod((noisy / n)[:, None, :] ** released[None, :, :], axis=2))


@lru_cache(maxsize=4096)
def _noisy(n: int, num_classes: int, flip_prob: float, labels: Counts) -> Floats:
    """Pr[J | y], the law of the noisy class counts J if `labels` counts the true classes; J as in `compositions`."""
    shape = (n + 1,) * (num_classes - 1)
    law = np.zeros(shape)
    law[(0,) * (num_classes - 1)] = 1.0
    for true, count in enumerate(labels):
        for _ in range(count):
            law = _add_user(law, true, flip_prob, num_classes)
    return np.array([law[counts[:-1]] for counts in compositions(n, num_classes)])


def _add_user(law: Floats, true: int, flip_prob: float, num_classes: int) -> Floats:
    """The law of the noisy class counts with one more user, of class `true`; axes: all classes but the last."""
    out = np.zeros_like(law)
    for noisy in range(num_classes):
        chance = 1.0 - flip_prob if noisy == true else flip_prob / (num_classes - 1)
        moved = law
        if noisy < num_classes - 1:
            moved = np.roll(law, 1, axis=noisy)
            edge: list[int | slice] = [slice(None)] * law.ndim
            edge[noisy] = 0
            moved[tuple(edge)] = 0.0
        out += chance * moved
    return out
