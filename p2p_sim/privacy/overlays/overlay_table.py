"""A table of fetch probabilities with what is known beside it, and what such a table must be."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class TargetFetchers(NamedTuple):
    """Who may fetch a target's label. users: (F,). weights: (F,), the probability with which each of them does."""

    users: NDArray[np.int32]
    weights: Floats


@dataclass(frozen=True, eq=False)
class OverlayTable:
    """An exchange on an overlay as a table of fetch probabilities, with who sees what; it serves all targets.

    Args:
        rows: (n, n), the fetch probabilities W, without explicit zeros; user i's are row i.
        flip_prob: α in [0, 1/2].
        rates: (n,), probability that a user's label arrives.
        public: (n,), users whose noisy bit the learner knows.
        members: (n,), passive users pooled with the learner.
        draws: labels that each member got, drawn independently.
    """

    rows: "scipy.sparse.csr_array"
    flip_prob: float
    rates: Floats
    public: Bools
    members: Bools
    draws: int = 1

    @cached_property
    def columns(self) -> "scipy.sparse.csc_array":
        """W by columns."""
        return scipy.sparse.csc_array(self.rows)

    @cached_property
    def revealed(self) -> Bools:
        """Users whose noisy bits are known, members among them, (n,)."""
        return self.public | self.members

    @cached_property
    def used(self) -> Bools:
        """Users whose fetches are seen by somebody, (n,)."""
        return (self.rates > 0.0) | self.members

    @cached_property
    def members_labels(self) -> int:
        """How many labels the members got at most."""
        return self.draws * int((np.diff(self.rows.indptr)[self.members] > 0).sum())

    def fetchers(self, target: int) -> TargetFetchers:
        """The users who may fetch a target's label, and with which probability."""
        part = slice(self.columns.indptr[target], self.columns.indptr[target + 1])
        return TargetFetchers(self.columns.indices[part], self.columns.data[part])

    def hiding(self, user: int) -> Floats:
        """The probabilities with which a user fetches from those whose noisy bits are hidden, in any order."""
        part = slice(self.rows.indptr[user], self.rows.indptr[user + 1])
        return np.asarray(self.rows.data[part][~self.revealed[self.rows.indices[part]]])


def canonical_rows(weights: "NDArray[np.float64] | scipy.sparse.sparray") -> "scipy.sparse.csr_array":
    """The table by rows, each entry once and none of them 0."""
    rows: scipy.sparse.csr_array = scipy.sparse.csr_array(weights)  # type: ignore[arg-type]
    if not rows.has_canonical_format or not rows.data.all():
        rows = rows.copy()
        rows.sum_duplicates()
        rows.eliminate_zeros()
    return rows


def check_table(
    w: "scipy.sparse.csr_array",
    sampling_rate: float | Floats,
    flags: Mapping[str, NDArray[np.bool_] | None],
    draws: int,
) -> None:
    """Refuse a table that is no fetch distribution of n users, or what comes with it.

    Args:
        w: the table. sampling_rate: one number in (0, 1], or (n,) in [0, 1]. flags: each (n,), or None. draws: R.

    Raises:
        ValueError: one of them is not allowed; one line.
    """
    if w.shape[0] != w.shape[1]:
        raise ValueError(f"weights of shape {w.shape}: must be square")
    if w.nnz and not (np.isfinite(w.data).all() and w.data.min() >= 0.0):
        raise ValueError("weights: must be finite and at least 0")
    rates = _checked_rates(sampling_rate, w.shape[0])
    for key, flag in flags.items():
        if flag is not None and (np.shape(flag), np.asarray(flag).dtype) != (w.shape[:1], np.dtype(np.bool_)):
            raise ValueError(f"{key}: must be one bool for each user")
    if draws < 1:
        raise ValueError(f"draws = {draws}: must be at least 1")
    # Users who never submit need no fetch law.
    sums = np.asarray(w.sum(axis=1)).ravel()
    if np.any((np.abs(sums - 1.0) > 1e-9) & ((rates > 0.0) | (sums != 0.0))):
        raise ValueError("weights: every row must sum to 1, or be all zero if the user's rate is 0")


def _checked_rates(sampling_rate: float | Floats, users: int) -> Floats:
    """θ as an array, () or (n,); refused unless it is one number in (0, 1] or n of them in [0, 1]."""
    rates = np.asarray(sampling_rate, dtype=np.float64)
    if rates.shape not in ((), (users,)):
        raise ValueError(f"sampling_rate of shape {rates.shape}: must be one number, or one for each user")
    if rates.ndim == 0 and not 0.0 < rates <= 1.0:
        raise ValueError(f"sampling_rate = {sampling_rate}: must lie in (0, 1]")
    if not np.all((rates >= 0.0) & (rates <= 1.0)):
        raise ValueError("sampling_rate: every user's must lie in [0, 1]")
    return rates
