"""One user's submission beside the others': exchangeable submissions, seen with the target's set apart.

Given how many users submitted and how many of the labels were ones, who submitted which is exchangeable. So the law of
(t, k) says that of (the target's submission, the others' t', the ones k' among these).
"""

import numpy as np

from p2p_sim.analysis.privacy.statement.windows import Floats, binomial_pmf

NONE, ZERO, ONE = 0, 1, 2
"""What the target submitted."""


def split_cells(users: int) -> int:
    """How many cells (state, t', k') there are: cell (state · n + t') n + k'."""
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


def split_name(cell: int, users: int) -> str:
    """A cell in words.

    >>> split_name((ONE * 5 + 4) * 5 + 3, users=5)
    'the target submits a one, and others 3 ones among 4'
    """
    rest, ones = divmod(cell, users)
    state, kept = divmod(rest, users)
    return f"the target submits {('nothing', 'a zero', 'a one')[state]}, and others {ones} ones among {kept}"
