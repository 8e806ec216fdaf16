"""What a table of fetch probabilities must be."""

from collections.abc import Mapping

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats


def check_table(
    w: "scipy.sparse.csr_array",
    sampling_rate: float | Floats,
    flags: Mapping[str, NDArray[np.bool_] | None],
    draws: int,
) -> None:
    """Refuse what is no fetch distribution of n users.

    Args:
        w: the table. sampling_rate: one number in (0, 1], or (n,) in [0, 1]. flags: each (n,), or None. draws: R.

    Raises:
        ValueError: one of them is not allowed; one line.
    """
    if w.shape[0] != w.shape[1]:
        raise ValueError(f"weights of shape {w.shape}: must be square")
    if w.nnz and not (np.isfinite(w.data).all() and w.data.min() >= 0.0):
        raise ValueError("weights: must be finite and at least 0")
    rates = np.asarray(sampling_rate, dtype=np.float64)
    if rates.shape not in ((), w.shape[:1]):
        raise ValueError(f"sampling_rate of shape {rates.shape}: must be one number, or one for each user")
    if rates.ndim == 0 and not 0.0 < rates <= 1.0:
        raise ValueError(f"sampling_rate = {sampling_rate}: must lie in (0, 1]")
    if not np.all((rates >= 0.0) & (rates <= 1.0)):
        raise ValueError("sampling_rate: every user's must lie in [0, 1]")
    for key, flag in flags.items():
        if flag is not None and (np.shape(flag) != w.shape[:1] or np.asarray(flag).dtype != np.bool_):
            raise ValueError(f"{key}: must be one bool for each user")
    if draws < 1:
        raise ValueError(f"draws = {draws}: must be at least 1")
    sums = np.asarray(w.sum(axis=1)).ravel()
    if np.any((np.abs(sums - 1.0) > 1e-9) & ((rates > 0.0) | (sums != 0.0))):
        raise ValueError("weights: every row must sum to 1, or be all zero if the user's rate is 0")
