"""The full view of a coalition pooled with the learner, by going through every flip, choice and subsample."""

import functools
import itertools
import math
from collections import defaultdict

import numpy as np


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


def majority_deltas(
    n: int, members: int, alpha: float, theta: float, *, peers: int, epsilons: list[float], classes: int = 2
) -> list[float]:
    """δ at each ε of a coalition among users who submit the plurality of so many peers' noisy labels; the full view.

    Users' parts of the view are independent given all noisy labels. A member's part: her noisy label, whom she asked
    and what she got, and what she submitted. That of another: which members she asked, and what she submitted.
    """
    noisy = list(itertools.product(range(classes), repeat=n))

    def part(user: int, labels: tuple[int, ...], asked: tuple[int, ...]) -> tuple:
        if user < members:
            return labels[user], tuple(sorted((peer, labels[peer]) for peer in asked))
        return tuple(sorted(peer for peer in asked if peer < members))

    def user_law(user: int) -> np.ndarray:
        """Pr[part | noisy labels], (classes**n, parts)."""
        rows = []
        for labels in noisy:
            row: dict[tuple, float] = defaultdict(float)
            for asked in itertools.product(range(n), repeat=peers):
                counts = np.bincount([labels[peer] for peer in asked], minlength=classes)
                commonest = np.flatnonzero(counts == counts.max()).tolist()  # ties by a coin
                for submitted in commonest:
                    row[submitted, part(user, labels, asked)] += theta / len(commonest) / n**peers
                row[None, part(user, labels, asked)] += (1.0 - theta) / n**peers
            rows.append({seen: chance for seen, chance in row.items() if chance > 0.0})
        parts = sorted({seen for row in rows for seen in row}, key=str)
        return np.array([[row.get(seen, 0.0) for seen in parts] for row in rows])

    inside = [user_law(user) for user in range(members)]
    rest = functools.reduce(_times, [user_law(members)] * (n - members))
    error = alpha / (classes - 1)
    flips = np.array(
        [[math.prod(error if a != b else 1 - alpha for a, b in zip(y, z, strict=True)) for z in noisy] for y in noisy]
    )
    # pairs of label vectors that differ in one user outside the coalition
    differ = [[sum(a != b for a, b in zip(y, z, strict=True)) == 1 and y[:members] == z[:members] for z in noisy]
              for y in noisy]  # fmt: skip
    pairs = np.argwhere(differ)
    totals = np.zeros((len(epsilons), len(pairs)))
    for columns in itertools.product(*(law.T for law in inside)):
        laws = flips @ (math.prod(columns)[:, None] * rest)
        for row, epsilon in zip(totals, epsilons, strict=True):
            row += [np.maximum(laws[y] - math.exp(epsilon) * laws[z], 0.0).sum() for y, z in pairs]
    return totals.max(axis=1).tolist()


def _times(law: np.ndarray, more: np.ndarray) -> np.ndarray:
    return (law[:, :, None] * more[:, None, :]).reshape(len(law), -1)
