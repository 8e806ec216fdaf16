"""δ(ε) of the learner, or of members pooled with her, for a fetch distribution: every flip, choice and view."""

import itertools
import math
from collections import defaultdict

import numpy as np

from tests.reference.enumeration import NOTHING, flip_law, views


def delta(weights: np.ndarray, alpha: float, rates, epsilon: float, known: tuple[int, ...] = (), targets=None) -> float:
    """Largest hockey-stick divergence over all ordered pairs of neighbouring label vectors.

    rates: θ, or one for each user. known: users with fixed bits that the learner knows, not targets; all are tried.
    targets: users whose label may differ, all by default.
    """
    n = len(weights)
    table = np.zeros((2**n, 3**n))
    everything = np.array(views(n))
    bits = list(itertools.product((0, 1), repeat=n))
    rates = np.broadcast_to(np.asarray(rates, dtype=float), n)
    for row, noisy in enumerate(bits):
        p = weights @ np.array(noisy)
        chances = np.stack([rates * (1 - p), rates * p, 1 - rates], axis=1)
        table[row] = np.prod(chances[np.arange(n), everything], axis=1)
    assert NOTHING == 2
    worst, grow = 0.0, math.exp(epsilon)
    for fixed in itertools.product((0, 1), repeat=len(known)):
        # a user with a fixed bit is one whose label is that bit and who never flips
        agree = np.array([all(z[k] == f for k, f in zip(known, fixed, strict=True)) for z in bits])
        laws = {}
        for y in bits:
            law = flip_law(y, alpha) * agree
            laws[y] = (law / law.sum()) @ table
        for labels, law in laws.items():
            for target in set(range(n) if targets is None else targets) - set(known):
                other = laws[tuple(1 - y if i == target else y for i, y in enumerate(labels))]
                worst = max(worst, float(np.maximum(law - grow * other, 0.0).sum()))
    return worst


def delta_all_submit(weights: np.ndarray, alpha: float, epsilon: float, labels, target: int) -> float:
    """The same at rate 1, for up to ten users, one label vector and its neighbour in `target`; the larger direction."""
    n = len(weights)
    noisy = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    p = noisy @ weights.T
    table = np.ones((2**n, 2**n))
    for i in range(n):
        table *= np.where(noisy[:, i] == 1, p[:, [i]], 1 - p[:, [i]])  # rows: noisy bits; columns: released ones
    laws = []
    for bit in (0, 1):
        true = np.array(labels)
        true[target] = bit
        laws.append(np.prod(np.where(noisy == true, 1 - alpha, alpha), axis=1) @ table)
    grow = math.exp(epsilon)
    return max(float(np.maximum(a - grow * b, 0.0).sum()) for a, b in (laws, laws[::-1]))


def member_delta(
    weights: np.ndarray,
    alpha: float,
    submits,
    members: tuple[int, ...],
    epsilon: float,
    known: tuple[int, ...] = (),
    idle: tuple[int, ...] = (),
    targets=None,
    draws: int = 1,
) -> float:
    """δ(ε) of members pooled with the learner; `submits`: whose labels arrive (bool). Targets are not members.

    They see all submissions, their own noisy bits, whom they asked and what they got, and who asked them. `idle` users
    ask nobody and submit nothing. Members ask `draws` times, and submit the last label.
    """
    n = len(weights)
    bits = list(itertools.product((0, 1), repeat=n))
    choices = [[-1] if i in idle else np.flatnonzero(row) for i, row in enumerate(weights)]
    more = [choices[c] for c in members] * (draws - 1)
    given = []
    for noisy in bits:
        seen: dict[tuple, float] = defaultdict(float)
        for peers in itertools.product(*choices, *more):
            peers, extra = peers[:n], peers[n:]
            before = tuple((p, noisy[p]) for p in extra)
            chance = math.prod(weights[members[i % len(members)], p] for i, p in enumerate(extra))
            inside = tuple((noisy[c], peers[c], noisy[peers[c]]) for c in members)
            asked = tuple(p if p in members else -1 for p in peers)
            released = tuple(noisy[p] if s else 2 for p, s in zip(peers, submits, strict=True))
            plain = tuple(noisy[k] for k in known)
            chance *= math.prod(weights[i, p] for i, p in enumerate(peers) if p >= 0)
            seen[released, inside, before, asked, plain] += chance
        given.append(seen)
    laws = {}
    for labels in bits:
        law: dict[tuple, float] = defaultdict(float)
        for chance, seen in zip(flip_law(labels, alpha), given, strict=True):
            for view, probability in seen.items():
                law[view] += chance * probability
        laws[labels] = law
    worst, grow = 0.0, math.exp(epsilon)
    for labels, law in laws.items():
        for target in set(range(n) if targets is None else targets) - set(members) - set(known):
            other = laws[tuple(1 - y if i == target else y for i, y in enumerate(labels))]
            worst = max(worst, sum(max(p - grow * other[view], 0.0) for view, p in law.items()))
    return worst
