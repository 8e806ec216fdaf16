"""A table of fetch probabilities: who fetches from whom, what else the learner knows, and which users share a bound.

A *row* of the table is one user's fetch probabilities. A *fetcher* of a target is a user who may fetch the target's
label. The fetcher's *weight* is the probability that she does. A user's *rate* is the probability that a label she
submits arrives. *Members* are passive users who pool what they see with the learner; they form the coalition. A noisy
label is *hidden* if the learner does not know it and its owner is no member. `members_labels` counts the labels that
members fetched. Sharing bounds only saves time: one bound serves all `alike` targets.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats

Ints = NDArray[np.integer]
Bools = NDArray[np.bool_]
Owner = TypeVar("Owner")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_EXACT, _ROUNDED = 1e-12, 1e-9
"""How far a row's sum may be from 1: `_EXACT` if the entries are exact up to rounding, `_ROUNDED` in any accepted
table."""
MOST_FETCHERS = 64
"""Largest number of kinds of fetchers with which `OverlayTable.kinds` groups targets."""


def remembered(
    method: Callable[Concatenate[Owner, Arguments], Result],
) -> Callable[Concatenate[Owner, Arguments], Result]:
    """A decorator that stores a method's results in the object, and returns the stored result for equal arguments.

    The arguments must be hashable.
    """

    @wraps(method)
    def called(owner: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        results: dict[Any, Result] = vars(owner).setdefault(f"_{method.__name__}_results", {})
        key = (args, *kwargs.items())
        if key not in results:
            results[key] = method(owner, *args, **kwargs)
        return results[key]

    return called


class TargetFetchers(NamedTuple):
    """The users who may fetch a target's label, (F,), and their weights, (F,)."""

    users: Ints
    weights: Floats


@dataclass(frozen=True, eq=False)
class Kinds:
    """Targets grouped by how many fetchers of each kind they have.

    fetcher: (F,), one user of each kind of fetcher. weight: (F,), the common value of all positive entries of her row.
    counts: (K, F), how many fetchers of each kind a target has, for each of K groups of targets.
    """

    fetcher: Ints
    weight: Floats
    counts: Ints


@dataclass(frozen=True, eq=False)
class OverlayTable:
    """An exchange on an overlay: a table of fetch probabilities, and who sees what. One object serves all targets.

    Args:
        rows: (n, n), the fetch probabilities, without stored zeros; row i is for user i.
        flip_prob: α in [0, 1/2].
        rates: (n,), each user's rate: the probability that a label she submits arrives.
        public: (n,), whether the learner knows each user's noisy label.
        members: (n,), whether each user is a member of the coalition.
        draws: how many labels each member fetched, drawn independently.
    """

    rows: "scipy.sparse.csr_array"
    flip_prob: float
    rates: Floats
    public: Bools
    members: Bools
    draws: int = 1

    @cached_property
    def columns(self) -> "scipy.sparse.csc_array":
        """The fetch probabilities stored by columns: column j holds who may fetch from user j."""
        return scipy.sparse.csc_array(self.rows)

    @cached_property
    def revealed(self) -> Bools:
        """Whether the learner knows a user's noisy label, or the user is a member, (n,)."""
        return self.public | self.members

    @cached_property
    def used(self) -> Bools:
        """Whether somebody sees labels that a user fetched, (n,): she may submit to the learner, or she is a member."""
        return (self.rates > 0.0) | self.members

    @cached_property
    def members_labels(self) -> int:
        """The largest number of labels that all members together can have fetched.

        The bounds do not know whose labels these are. So they take the worst choice of this many known noisy labels.
        """
        return self.draws * int((np.diff(self.rows.indptr)[self.members] > 0).sum())

    def fetchers(self, target: int) -> TargetFetchers:
        """The users who may fetch a target's label, (F,), and their weights, (F,): the probabilities of fetching it.

        Users who never submit are included.
        """
        part = slice(self.columns.indptr[target], self.columns.indptr[target + 1])
        return TargetFetchers(self.columns.indices[part], self.columns.data[part])

    def hidden_weights(self, user: int) -> Floats:
        """The positive probabilities with which a user fetches from users whose noisy labels are hidden, in any order.

        A user's noisy label is hidden unless she is `revealed`.
        """
        part = slice(self.rows.indptr[user], self.rows.indptr[user + 1])
        return np.asarray(self.rows.data[part][~self.revealed[self.rows.indices[part]]])

    @cached_property
    def _equal_rows(self) -> Ints:
        """For each user, the first user with the same row, (n,)."""
        return same_rows(self.rows.indptr, self.rows.indices, self.rows.data)

    @cached_property
    def same(self) -> Ints:
        """For each user, the number of one user who is equal for the bounds, (n,).

        Both have the same row. If somebody sees labels that the first user fetched, both also have the same rate, and
        both or neither are members.
        """
        leader = self._equal_rows.copy()
        # only users with equal rows must be split further, by rate and membership
        shared = np.flatnonzero(self.used & (np.bincount(leader, minlength=len(leader))[leader] > 1))
        lines = np.stack([leader[shared], self.rates[shared], self.members[shared]], axis=1)
        _, first, line = np.unique(lines, axis=0, return_index=True, return_inverse=True)
        leader[shared] = shared[first][line.ravel()]
        return leader

    @cached_property
    def shape(self) -> Ints:
        """For each user, the first user whose row has the same entries for hidden noisy labels, in any order, (n,).

        These entries decide how well the hidden labels hide a submission. Their order does not matter, so such users
        can share bounds.
        """
        hides = ~self.revealed[self.rows.indices]
        data = self.rows.data[hides]
        row = np.repeat(np.arange(len(self.members)), np.diff(self.rows.indptr))[hides]
        start = np.concatenate([[0], np.cumsum(hides)])[self.rows.indptr]
        falls = (data[1:] < data[:-1]) & (row[1:] == row[:-1])  # sorting takes long, and rows are often sorted
        return same_rows(start, data[np.lexsort((data, row))] if falls.any() else data)

    def alike(self, near: int) -> Ints:
        """For each user as a target, the number of one user with the same privacy bound, (n,); -1 for members.

        All users with known noisy labels share one bound. For two other targets, consider the fetchers whose fetched
        labels somebody sees. Fetchers with the same row, rate and membership form a group. The targets share a bound if
        their groups match in size, rate, membership, weight and `shape`.

        There is one exception. The bound of `sparse_neighbourhood`, for targets with few fetchers, depends also on whom
        else the fetchers may ask. So a target with few fetchers shares her bound with nobody, unless all users whose
        fetched labels are seen have the same row.

        Args:
            near: the largest number of fetchers at which `sparse_neighbourhood` is used.
        """
        leader = np.where(self.members, -1, np.arange(len(self.members)))
        public = self.public & ~self.members  # one bound for all of them: only the noise on a label protects its owner
        leader[public] = np.flatnonzero(public)[:1]
        one_row = np.unique(self._equal_rows[self.used]).size <= 1
        grouped = ~self.revealed & (one_row | (self.num_fetchers > near))
        first_targets: dict[bytes, int] = {}
        for target in np.flatnonzero(grouped).tolist():
            leader[target] = first_targets.setdefault(self._key(target), target)
        return leader

    @cached_property
    def num_fetchers(self) -> Ints:
        """How many users may fetch each label and submit it, (n,)."""
        return self._num_among(self.rates > 0.0)

    def _num_among(self, fetchers: Bools) -> Ints:
        """For each user, how many of the given `fetchers` may fetch her label, (n,)."""
        return np.bincount(self.rows.indices[np.repeat(fetchers, np.diff(self.rows.indptr))], minlength=len(fetchers))

    def _key(self, target: int) -> bytes:
        """A key of a target. Targets with equal keys share a privacy bound, see `alike`.

        Fetchers whose fetched labels somebody sees form groups, as in `same`. The key lists for each group, in a fixed
        order: the `shape`, the weight, the rate, the membership, and the number of fetchers.
        """
        users, weights = self.fetchers(target)
        users, weights = users[self.used[users]], weights[self.used[users]]
        _, first, counts = np.unique(self.same[users], return_index=True, return_counts=True)
        kinds = users[first]
        lines = np.stack([self.shape[kinds], weights[first], self.rates[kinds], self.members[kinds], counts], axis=1)
        return np.sort(lines.view("f8,f8,f8,f8,f8"), axis=0).tobytes()

    def kinds(self, users: Ints) -> Kinds | None:
        """The given users as targets, grouped by how many fetchers of each kind they have.

        Groups with a larger sum of weights come first. Only fetchers whose fetched labels somebody sees are counted.
        Each fetcher must fetch from all her peers with the same probability. Two fetchers are of one kind if they agree
        in four things: this probability, the number of peers with hidden noisy labels, the rate, and the membership of
        the coalition.

        Returns:
            For each of F kinds one user and her fetch probability, (F,) each. For each of K groups the number of a
            target's fetchers of each kind, (K, F). None if some fetcher's positive probabilities differ, or if there
            are more than `MOST_FETCHERS` (64) kinds.
        """
        # Rows of users whose fetched labels somebody sees; each must have equal entries.
        lengths = np.diff(self.rows.indptr)
        seen = self.used & (lengths > 0)
        rows = np.flatnonzero(seen)
        weight = self.rows.data[self.rows.indptr[rows]]
        if not np.array_equal(np.repeat(weight, lengths[rows]), self.rows.data[np.repeat(seen, lengths)]):
            return None
        # Fetchers are of one kind if their rows have one shape, entry and rate, and both or neither are members.
        lines = np.stack([self.shape[rows], self.members[rows], self.rates[rows], weight], axis=1)
        _, first, line = np.unique(lines, axis=0, return_index=True, return_inverse=True)
        if first.size > MOST_FETCHERS:
            return None
        if not first.size:
            return Kinds(first, np.zeros(0), np.zeros((1, 0), dtype=np.int64))
        kind = np.full(len(self.members), -1)
        kind[rows] = line.ravel()
        # Targets are of one group if they have equally many fetchers of each kind.
        counts = np.stack([self._num_among(kind == k)[users] for k in range(first.size)], axis=1)
        distinct: Ints = np.unique(counts, axis=0)
        return Kinds(rows[first], weight[first], distinct[np.argsort(-(distinct @ weight[first]), kind="stable")])

    def envelope(self, users: Ints) -> Floats:
        """The weights, descending, of a hypothetical target whose bound holds for all the given users.

        Sort each given user's weights, of fetchers who may submit, the largest first. At each position k, the result is
        the largest k-th weight of any given user. Larger weights show more of the label, so the bound holds for all.
        """
        most = np.zeros(int(self.num_fetchers[users].max(initial=0)))
        for user in users.tolist():
            fetchers, weights = self.fetchers(user)
            weights = np.sort(weights[self.rates[fetchers] > 0.0])[::-1]
            np.maximum(most[: weights.size], weights, out=most[: weights.size])
        return most


def same_rows(start: Ints, *columns: NDArray[np.generic]) -> Ints:
    """For each of n rows, the number of the first row with the same entries in the same order, (n,).

    Args:
        start: (n+1,), row i has the entries start[i] to start[i+1] - 1. columns: one or more arrays, (E,) each. An
        entry has one value in each array.
    """
    # Each row is a slice of the bytes of all entries. Rows of different lengths have different bytes.
    entries = np.rec.fromarrays(columns)
    content, size = entries.tobytes(), entries.dtype.itemsize
    first_rows: dict[bytes, int] = {}
    rows = enumerate(itertools.pairwise((start.astype(np.int64) * size).tolist()))
    return np.array([first_rows.setdefault(content[first:last], row) for row, (first, last) in rows], dtype=np.int64)


def canonical_rows(weights: "Floats | scipy.sparse.sparray") -> "scipy.sparse.csr_array":
    """The table stored by rows (CSR), with duplicate entries added up, and without stored zeros.

    A row is divided by its sum if the sum differs from 1 by more than `_EXACT` (1e-12) and at most `_ROUNDED` (1e-9).
    """
    rows: scipy.sparse.csr_array = scipy.sparse.csr_array(weights)  # type: ignore[arg-type]
    if not rows.has_canonical_format or not rows.data.all():
        rows = rows.copy()
        rows.sum_duplicates()
        rows.eliminate_zeros()
    sums = np.asarray(rows.sum(axis=1)).ravel()
    off = np.abs(sums - 1.0)
    rounded = (off > _EXACT) & (off <= _ROUNDED)
    if rounded.any():
        rows = rows.copy()
        rows.data /= np.repeat(np.where(rounded, sums, 1.0), np.diff(rows.indptr))
    return rows


def check_table(
    w: "scipy.sparse.csr_array",
    sampling_rate: float | Floats,
    flags: Mapping[str, Bools | None],
    draws: int,
) -> None:
    """Raise a ValueError unless the table is a fetch distribution and the other arguments fit it.

    Each row must sum to 1 up to 1e-9. The row of a user whose rate is 0 may also be empty. The bounds take the entries
    as exact.

    Args:
        w: (n, n), the fetch probabilities. sampling_rate: one number in (0, 1], or (n,) in [0, 1].
        flags: under a name for the error message, one bool for each user, (n,), or None.
        draws: how many labels each member of the coalition fetched, at least 1.
    """
    if w.shape[0] != w.shape[1]:
        raise ValueError(f"weights of shape {w.shape}: must be square")
    if not np.all(np.isfinite(w.data) & (w.data >= 0.0)):
        raise ValueError("weights: must be finite and at least 0")
    rates = _checked_rates(sampling_rate, w.shape[0])
    for key, flag in flags.items():
        if flag is not None and (np.shape(flag), np.asarray(flag).dtype) != (w.shape[:1], np.dtype(np.bool_)):
            raise ValueError(f"{key}: must be one bool for each user")
    if draws < 1:
        raise ValueError(f"draws = {draws}: must be at least 1")
    # Users who never submit may have an empty row.
    sums = np.asarray(w.sum(axis=1)).ravel()
    if np.any((np.abs(sums - 1.0) > _ROUNDED) & ((rates > 0.0) | (sums != 0.0))):
        raise ValueError("weights: every row must sum to 1, or be all zero if the user's rate is 0")


def _checked_rates(sampling_rate: float | Floats, users: int) -> Floats:
    """The sampling rate as an array, () or (n,).

    A ValueError is raised unless it is one number in (0, 1], or n numbers in [0, 1].
    """
    rates = np.asarray(sampling_rate, dtype=np.float64)
    if rates.shape not in ((), (users,)):
        raise ValueError(f"sampling_rate of shape {rates.shape}: must be one number, or one for each user")
    if rates.ndim == 0 and not 0.0 < rates <= 1.0:
        raise ValueError(f"sampling_rate = {sampling_rate}: must lie in (0, 1]")
    if not np.all((rates >= 0.0) & (rates <= 1.0)):
        raise ValueError("sampling_rate: every user's must lie in [0, 1]")
    return rates
