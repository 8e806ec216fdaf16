"""δ(ε) of the label exchange in tiny clusters, computed from its definition: a sum over views.

The exchange is Algorithm 2 of the clustering paper (Esfandiari et al.). Nothing is lost, so that no user submits her
own label for want of a reply. A *view* is what the learner sees of one cluster. For each user it says which label she
submitted, or that she submitted none. For labels y of the n users let P_y be the law (distribution) of the view. The
exchange is (ε, δ)-private for labels if

    P_y(S) <= e^ε P_y'(S) + δ

for all sets S of views, and for all y and y' that differ in one user's label. So the smallest δ at an ε is

    δ(ε) = max over y, y' of  Σ_views max(0, P_y(view) - e^ε P_y'(view)).

Let J = (J_1, ..., J_K) be the numbers of noisy labels of each of K classes. Given J, each submission is a draw from the
distribution J/n, whichever user submits it. Let R = (R_1, ..., R_K) be the numbers of submitted labels of each class.
Only R can distinguish y from y'. Let t = Σ_k R_k be the number of submissions. A user submits with probability θ. Then

    P_y(R) = Bin(t; n, θ) Σ_J Pr[J | y] Multinomial(R; t, J/n).

Tests and audits compare the faster accountants in `exchange/` with this sum.
"""

import math
from functools import lru_cache

import numpy as np

from p2p_sim.privacy.binomial_windows import SUBNORMAL, UNIT, Floats
from p2p_sim.privacy.bound import Bracket

Counts = tuple[int, ...]


def delta_by_summation(n: int, num_classes: int, flip_prob: float, sampling_rate: float, epsilon: float) -> Bracket:
    """A lower and an upper bound of the learner's δ(ε) in a cluster of n users. The bounds differ only by rounding.

    Args:
        n: number of users, which must be small. num_classes: K. flip_prob: α. sampling_rate: θ. epsilon: ε, at least 0.

    Rounding, with u = 2⁻⁵³. P and Q are the probabilities of a view under the two labels of the target. The number
    `slack` in the code covers all relative errors of P and Q in a term max(0, P - e^ε Q). Every summand of P and Q is a
    product of non-negative factors: n probabilities of flips, powers of at most n shares, and whole numbers. A
    probability of a flip adds (K + 4)u, together with its sum of K terms. A power adds 2u. The sum over the N possible
    values of J adds (N+1)u. The factor e^ε adds 2u (one unit in the last place, as measured). `slack` has (K + 13)u in
    reserve. The number `sums` covers the probability of t, which adds 4nu. It also covers sums over views and t, which
    add u for each term. Underflow adds at most (1 + e^ε) times the smallest positive number for each operation. t = 0
    is left out: then nothing is seen.
    """
    grow, best = math.exp(epsilon), [0.0, 0.0]
    # for each t: Bin(t; n, θ), and the table of Multinomial(R; t, J/n) with a row for each J and a column for each R
    mass = [math.comb(n, t) * sampling_rate**t * (1.0 - sampling_rate) ** (n - t) for t in range(n + 1)]
    tables = [_releases(n, num_classes, t) for t in range(n + 1)]
    counts, views = len(tables[-1]), sum(table.shape[1] for table in tables)
    slack, sums = (n * (num_classes + 6) + counts + num_classes + 16) * UNIT, (4 * n + views + 8) * UNIT
    tiny = (n * num_classes + counts) * counts * SUBNORMAL * (1.0 + grow)
    underflow = views * SUBNORMAL + tiny * sum(
        w * table.shape[1] for w, table in zip(mass[1:], tables[1:], strict=True)
    )
    # All labels of the other users. Without loss of generality, the target's label changes from class 0 to class 1.
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
    """All tuples of `parts` non-negative integers of sum `total`, such as class counts of `total` users."""
    if parts == 1:
        return ((total,),)
    return tuple((first, *rest) for first in range(total + 1) for rest in compositions(total - first, parts - 1))


@lru_cache(maxsize=256)
def _releases(n: int, num_classes: int, t: int) -> Floats:
    """A table of Multinomial(R; t, J/n): probabilities of class counts R of t submitted labels, given class counts J of
    n noisy labels.

    Class counts J = (J_1, ..., J_K) are the numbers of labels in each of K classes. The table has a row for each J and
    a column for each R. Both are in the order of `compositions`.
    """
    noisy = np.array(compositions(n, num_classes), dtype=np.float64)
    released = np.array(compositions(t, num_classes), dtype=np.float64)
    ways = [float(math.factorial(t) // math.prod(map(math.factorial, r))) for r in compositions(t, num_classes)]
    return np.asarray(np.array(ways) * np.prod((noisy / n)[:, None, :] ** released[None, :, :], axis=2))


@lru_cache(maxsize=4096)
def _noisy(n: int, num_classes: int, flip_prob: float, labels: Counts) -> Floats:
    """The law of the class counts J of noisy labels, given the class counts `labels` of true labels. Entries are in the
    order of `compositions`. The code adds user by user to an array with an axis for each class except the last.
    """
    law = np.zeros((n + 1,) * (num_classes - 1))
    law[(0,) * (num_classes - 1)] = 1.0
    for true, count in enumerate(labels):
        chances = [1.0 - flip_prob if noisy == true else flip_prob / (num_classes - 1) for noisy in range(num_classes)]
        for _ in range(count):
            # Add one user. Her noisy label moves the law by one along the axis of its class. The last class has no
            # axis. Nothing is rolled over the end of an axis, since fewer than n users were added before.
            moved = [np.roll(law, 1, axis=noisy) for noisy in range(num_classes - 1)]
            law = np.asarray(sum(chance * each for chance, each in zip(chances, [*moved, law], strict=True)))
    return np.array([law[counts[:-1]] for counts in compositions(n, num_classes)])
