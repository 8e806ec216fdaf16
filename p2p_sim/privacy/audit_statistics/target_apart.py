"""One user's submission beside the others': exchangeable submissions, seen with the target's set apart.

Given how many users submitted and how many of the labels were ones, who submitted which is exchangeable. So the law of
(t, k) says that of (the target's submission, the others' t', the ones k' among these).
"""

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats, binomial_pmf


def split_cells(users: int) -> int:
    """How many cells (s, t', k') there are: cell (s n + t') n + k', s = 0 for silence, else 1 + label."""
    return 3 * users * users


def split_weights(users: int, rate: float) -> Floats:
    """Probabilities (3 n²,) of the target's silence or submission, and of t': no label has a say in them.

    Args:
        users: n, of whom each submits by herself.
        rate: with this probability.
    """
    others = binomial_pmf(0, users - 1, users - 1, rate)
    states = np.array([1.0 - rate, rate, rate])
    return np.asarray(np.repeat(np.multiply.outer(states, others).ravel(), users))


def split(counts: Floats) -> Floats:
    """Probabilities (..., 3 n²) given who submits, from those of k ones among t submissions (..., n + 1, n + 1)."""
    n = counts.shape[-1] - 1
    t, k = np.arange(n)[:, None], np.arange(n)[None, :]
    zero = counts[..., 1:, :-1] * np.maximum(t + 1 - k, 0) / (t + 1)
    one = counts[..., 1:, 1:] * (k + 1) / (t + 1)
    cells = np.stack([counts[..., :-1, :-1], zero, one], axis=-3)
    return np.asarray(cells.reshape(*counts.shape[:-2], split_cells(n)))
