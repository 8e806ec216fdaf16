"""Algorithm 2 of Esfandiari et al., "Label differential privacy via clustering": the label exchange, user by user.

Users who ask several peers pass on the commonest of these peers' noisy labels.

The function `label_exchange` is the definition of the exchange. The module `engines` draws all submissions at once from
the same law; the modules `processes` and `batched_exchange` send the messages over a network. Tests compare all of
these with this function.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np


def label_exchange(
    labels: Sequence[int],
    clusters: Sequence[Sequence[int]],
    *,
    flip_prob: float,
    sampling_rate: float,
    num_classes: int,
    rng: np.random.Generator,
    peers: int = 1,
) -> dict[int, int]:
    """The labels that the learner gets, by user. Each user changes her label with probability α, asks k random users of
    her cluster for their noisy labels, and with probability θ passes the commonest of them on to the learner.

    Args:
        labels: the true label of each user, 0 to K-1. clusters: the users of each cluster. flip_prob: α.
        sampling_rate: θ. num_classes: K. rng: draws all random numbers. peers: k, how many users each user asks; 1 in
        the paper.

    >>> rng = np.random.default_rng(1)
    >>> label_exchange([0, 1, 1], [[0, 1], [2]], flip_prob=0.0, sampling_rate=1.0, num_classes=2, rng=rng)
    {0: 1, 1: 1, 2: 1}
    """
    # each user flips her label with probability α: to one of the K-1 others, all equally likely
    noisy = []
    for label in labels:
        flips = rng.random() < flip_prob
        noisy.append((label + rng.integers(1, num_classes) * flips) % num_classes)
    released = {}
    for cluster in clusters:
        for user in cluster:
            # she fetches the noisy labels of k random users of her cluster, perhaps her own, perhaps one twice
            fetched = [int(noisy[cluster[int(rng.integers(len(cluster)))]]) for _ in range(peers)]
            # with probability θ she passes on the commonest label; of several equally common labels she passes on the
            # one fetched first, which is a random one
            if rng.random() < sampling_rate:
                released[user] = Counter(fetched).most_common(1)[0][0]
    return released
