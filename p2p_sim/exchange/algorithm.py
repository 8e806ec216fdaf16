"""Algorithm 2 of Esfandiari et al., "Label differential privacy via clustering": the label exchange, user by user.

A user may ask several peers. She then passes on the commonest of these peers' noisy labels.

The function `label_exchange` is the definition of the exchange. The module `engines` draws all submissions at once from
the same distribution. The modules `processes` and `batched_exchange` send the messages over a network. Tests compare
all these modules with this function.
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
    """The labels that the learner gets, by user. Each user changes her label with probability α, and asks k random
    users of her cluster for their noisy labels. With probability θ she passes the commonest of these labels on to the
    learner.

    Args:
        labels: the true label of each user, 0 to K-1. clusters: the users of each cluster. flip_prob: α. sampling_rate:
        θ. num_classes: K. rng: draws all random numbers. peers: k, how many users each user asks; 1 in the paper.

    >>> rng = np.random.default_rng(1)
    >>> label_exchange([0, 1, 1], [[0, 1], [2]], flip_prob=0.0, sampling_rate=1.0, num_classes=2, rng=rng)
    {0: 1, 1: 1, 2: 1}
    """
    # with probability α, each user changes her label to another class; all K-1 other classes are equally likely
    noisy = []
    for label in labels:
        flips = rng.random() < flip_prob
        noisy.append((label + rng.integers(1, num_classes) * flips) % num_classes)
    released = {}
    for cluster in clusters:
        for user in cluster:
            # she fetches the noisy labels of k random users of her cluster; she may draw herself, or a user twice
            fetched = [int(noisy[cluster[int(rng.integers(len(cluster)))]]) for _ in range(peers)]
            # with probability θ she passes on the commonest label; of equally common labels, the first counts
            if rng.random() < sampling_rate:
                released[user] = Counter(fetched).most_common(1)[0][0]
    return released
