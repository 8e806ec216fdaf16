"""The full view of a coalition pooled with the learner, by going through every flip, choice and subsample."""

import itertools
import math
from collections import defaultdict


def view_laws(n: int, members: int, alpha: float, theta: float) -> dict[tuple[int, ...], dict[tuple, float]]:
    """Pr[view] for every label vector; users 0..members-1 form the coalition.

    The view: all submissions; of each member her noisy bit, whom she asked, what she got, and who asked her.
    """
    given: dict[tuple[int, ...], dict[tuple, float]] = {}
    keeps = [(k, math.prod(theta if x else 1 - theta for x in k)) for k in itertools.product((0, 1), repeat=n)]
    for noisy in itertools.product((0, 1), repeat=n):
        views: dict[tuple, float] = defaultdict(float)
        for peers in itertools.product(range(n), repeat=n):
            inside = tuple((noisy[c], peers[c], noisy[peers[c]]) for c in range(members))
            asked = tuple(p if p < members else -1 for p in peers)
            for keep, probability in keeps:
                released = tuple(noisy[p] if k else 2 for p, k in zip(peers, keep, strict=True))
                views[released, inside, asked] += probability / n**n
        given[noisy] = views
    laws = {}
    for labels in itertools.product((0, 1), repeat=n):
        law: dict[tuple, float] = defaultdict(float)
        for noisy, views in given.items():
            weight = math.prod(alpha if a != b else 1 - alpha for a, b in zip(labels, noisy, strict=True))
            for view, probability in views.items():
                law[view] += weight * probability
        laws[labels] = law
    return laws


def delta(laws: dict, n: int, members: int, epsilon: float) -> float:
    """Largest hockey-stick divergence over label vectors that differ in one user outside the coalition."""
    worst, grow = 0.0, math.exp(epsilon)
    for labels, law in laws.items():
        for target in range(members, n):
            other = laws[tuple(1 - y if i == target else y for i, y in enumerate(labels))]
            worst = max(worst, sum(max(p - grow * other[view], 0.0) for view, p in law.items()))
    return worst
