"""Exact δ(ε) of the K-ary exchange in a tiny cluster, by enumerating noisy counts and released counts."""

import math
from functools import lru_cache

import numpy as np

from p2p_sim.privacy.binomial_windows import SUBNORMAL, UNIT, Floats
from p2p_sim.privacy.bound import Bracket

Counts = tuple[int, ...]


@lru_cache(maxsize=64)
def compositions(total: int, parts: int) -> tuple[Counts, ...]:
    """All ways to write `total` as an ordered sum of `parts` non-negative integers."""
    if parts == 1:
        return ((total,),)
    return tuple((first, *rest) for first in range(total + 1) for rest in compositions(total - first, parts - 1))


def bracket(n: int, num_classes: int, flip_prob: float, sampling_rate: float, epsilon: float) -> Bracket:
    """Largest hockey-stick divergence of the learner's view over all neighbouring data sets, with its rounding.

    Given noisy counts J the t released labels are independent with law J/n, so the counts of released classes are
    sufficient, t ~ Bin(n, θ). By symmetry the target's label changes from class 0 to class 1.

    Every term is a product of non-negative numbers: of n chances of flips, each of which with its sum of K terms adds
    (K + 4)u; of at most n shares, whose powers add 2u each; of whole numbers. The sum over N noisy counts adds (N+1)u,
    and e^ε 2u (an ulp, measured): that is `slack`. The probability of t adds 4nu, sums over views and t their number.
    Underflow adds at most the smallest positive number for each operation, times 1 + e^ε; if t = 0 nothing is seen.
    """
    grow, best = math.exp(epsilon), [0.0, 0.0]
    mass = [math.comb(n, t) * sampling_rate**t * (1.0 - sampling_rate) ** (n - t) for t in range(n + 1)]
    tables = [_releases(n, num_classes, t) for t in range(n + 1)]
    noisy, views = len(tables[-1]), sum(table.shape[1] for table in tables)
    slack, sums = (n * (num_classes + 6) + noisy + num_classes + 16) * UNIT, (4 * n + views + 8) * UNIT
    tiny = (n * num_classes + noisy) * noisy * SUBNORMAL * (1.0 + grow)
    doubt = views * SUBNORMAL + tiny * sum(w * table.shape[1] for w, table in zip(mass[1:], tables[1:], strict=True))
    for others in compositions(n - 1, num_classes):
        zero = _noisy(n, num_classes, flip_prob, (others[0] + 1, *others[1:]))
        one = _noisy(n, num_classes, flip_prob, (others[0], others[1] + 1, *others[2:]))
        total = [0.0, 0.0]
        for weight, table in zip(mass[1:], tables[1:], strict=True):
            p, q = zero @ table, grow * (one @ table)
            for place, sign in enumerate((-slack, slack)):
                total[place] += weight * float(np.maximum((1.0 + sign) * p - (1.0 - sign) * q, 0.0).sum())
        best = [max(pair) for pair in zip(best, total, strict=True)]
    return Bracket(max(0.0, best[0] * (1.0 - sums) - doubt), best[1] * (1.0 + sums) + doubt)


@lru_cache(maxsize=256)
def _releases(n: int, num_classes: int, t: int) -> Floats:
    """Pr[released counts | noisy counts] for t released labels: (noisy counts, released counts)."""
    noisy = np.array(compositions(n, num_classes), dtype=np.float64)
    released = np.array(compositions(t, num_classes), dtype=np.float64)
    ways = [float(math.factorial(t) // math.prod(map(math.factorial, r))) for r in compositions(t, num_classes)]
    return np.asarray(np.array(ways) * np.prod((noisy / n)[:, None, :] ** released[None, :, :], axis=2))


@lru_cache(maxsize=4096)
def _noisy(n: int, num_classes: int, flip_prob: float, labels: Counts) -> Floats:
    """Pr[noisy counts] for the given numbers of true labels, in the order of `compositions`."""
    shape = (n + 1,) * (num_classes - 1)
    law = np.zeros(shape)
    law[(0,) * (num_classes - 1)] = 1.0
    for true, count in enumerate(labels):
        for _ in range(count):
            law = _add_user(law, true, flip_prob, num_classes)
    return np.array([law[counts[:-1]] for counts in compositions(n, num_classes)])


def _add_user(law: Floats, true: int, flip_prob: float, num_classes: int) -> Floats:
    """One more user's noisy label; the last class is implied by the others."""
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
