"""What is seen of a cluster of three users whose second one looks on: the exact law, by going through everything.

Seen are whom she fetches from, and who submits what, in order of arrival.
"""

import itertools
import math
from collections import defaultdict

Observed = tuple[int, tuple[tuple[int, int], ...]]
"""Whom the second user fetches from, and (user, label) of each submission in order of arrival."""
USERS = range(3)


def observed_law(labels: tuple[int, ...], alpha: float, theta: float) -> dict[Observed, float]:
    """Probability of everything that can be seen; all orders of arrival are equally likely."""
    law: dict[Observed, float] = defaultdict(float)
    for flips, peers, keep in itertools.product(
        itertools.product((0, 1), repeat=3), itertools.product(USERS, repeat=3), itertools.product((0, 1), repeat=3)
    ):
        sent = [(i, labels[peers[i]] ^ flips[peers[i]]) for i in USERS if keep[i]]
        chance = math.prod(alpha if flip else 1.0 - alpha for flip in flips) / 27.0
        chance *= math.prod(theta if submits else 1.0 - theta for submits in keep) / math.factorial(len(sent))
        for order in itertools.permutations(sent):
            law[peers[1], order] += chance
    return law
