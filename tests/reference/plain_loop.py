"""Algorithm 2 as printed, one user after the other, with draws of its own."""

import numpy as np


def exchange(labels, clusters, alpha: float, theta: float, rng: np.random.Generator) -> dict[int, int]:
    """Released labels by user; `clusters` lists the users of each cluster."""
    noisy = [int(y) ^ int(rng.random() < alpha) for y in labels]
    released = {}
    for members in clusters:
        for user in members:
            peer = members[int(rng.integers(len(members)))]
            if rng.random() < theta:
                released[user] = noisy[peer]
    return released
