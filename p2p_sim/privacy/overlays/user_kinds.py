"""Users' places in a fetch distribution: which of them have the same bound, and of which kinds they are."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.overlays.equal_rows import one_row, same_rows, sorted_rows

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
MOST_FETCHERS = 64
"""Most kinds of fetchers for which kinds of places are told apart."""
_BLOCK = 2**24


@dataclass(frozen=True, eq=False)
class Kinds:
    """Kinds of places: by how many fetchers of each kind a target has.

    fetcher, weight: (F,) a user of each kind of fetcher, and the entries of her row, which are all equal.
    counts: (K, F) how many fetchers of each kind a target has, most first.
    """

    fetcher: Ints
    weight: Floats
    counts: Ints


@dataclass(frozen=True, eq=False)
class UserKinds:
    """The places of a table's users.

    Args:
        rows, columns: (n, n) the table twice, without explicit zeros. rates: (n,) probabilities that labels arrive.
        members: (n,) who are pooled with the learner. revealed: (n,) whose bits are known, members among them.
    """

    rows: "scipy.sparse.csr_array"
    columns: "scipy.sparse.csc_array"
    rates: Floats
    members: Bools
    revealed: Bools

    @cached_property
    def same(self) -> Ints:
        """For each user whose fetches are seen one with the same row and rate, members apart, (n,)."""
        found = same_rows(self.rows.indptr, self.rows.indices, self.rows.data)
        shared = np.flatnonzero(self._used & (np.bincount(found, minlength=len(found))[found] > 1))
        lines = np.stack([found[shared], self.rates[shared], self.members[shared]], axis=1)
        _, first, line = np.unique(lines, axis=0, return_index=True, return_inverse=True)
        found[shared] = shared[first][line.ravel()]
        return found

    @cached_property
    def shape(self) -> Ints:
        """For each user one whose entries that hide somebody are the same but for order, (n,)."""
        start, data = self.rows.indptr, self.rows.data
        if self.revealed.any():
            hides = ~self.revealed[self.rows.indices]
            start = np.concatenate([[0], np.cumsum(hides)])[start]
            data = data[hides]
        return same_rows(start, sorted_rows(start, data))

    @cached_property
    def _used(self) -> Bools:
        return (self.rates > 0.0) | self.members

    def alike(self, known: Bools, near: int) -> Ints:
        """For each user one with the same bound, (n,), -1 for members.

        Three-point pairs depend on the fetchers' rows and weights alone; so does a neighbourhood if all have one row.

        Args:
            known: (n,) whose bit the learner knows. near: most fetchers of a target whose neighbourhood is looked at.
        """
        found = np.where(self.members, -1, np.arange(len(self.members)))
        known = known & ~self.members
        found[known] = np.flatnonzero(known)[:1]
        lone = one_row(self.rows.indptr, (self.rows.indices, self.rows.data), self._used)
        grouped = ~self.members & ~known & (lone | (self.fetchers > near))
        keys: dict[bytes, int] = {}
        for target in np.flatnonzero(grouped).tolist():
            found[target] = keys.setdefault(self._key(target), target)
        return found

    @cached_property
    def fetchers(self) -> Ints:
        """How many users may fetch each label and submit it, (n,)."""
        if (self.rates[np.diff(self.rows.indptr) > 0] > 0.0).all():
            return np.diff(self.columns.indptr)
        fetched = (self.rates[self.columns.indices] > 0.0).astype(np.int32)
        sums = np.concatenate([[0], np.cumsum(fetched)])
        return np.asarray(np.diff(sums[self.columns.indptr]))

    def _key(self, target: int) -> bytes:
        """Equal for targets whose fetchers have the same rows and weights but for order."""
        part = slice(self.columns.indptr[target], self.columns.indptr[target + 1])
        users, weights = self.columns.indices[part], self.columns.data[part]
        users, weights = users[self._used[users]], weights[self._used[users]]
        _, first, counts = np.unique(self.same[users], return_index=True, return_counts=True)
        kinds, one = users[first], weights[first]
        lines = np.stack([self.shape[kinds], one, self.rates[kinds], self.members[kinds], counts], axis=1)
        return np.sort(lines.view("f8,f8,f8,f8,f8"), axis=0).tobytes()

    def kinds(self, users: Ints) -> Kinds | None:
        """The kinds of places of some users; None if rows have different entries, or are of many kinds."""
        rows = np.flatnonzero(self._used & (np.diff(self.rows.indptr) > 0))
        weight = self.rows.data[self.rows.indptr[rows]]
        if not np.array_equal(np.repeat(weight, np.diff(self.rows.indptr)[rows]), self._entries(rows)):
            return None
        shape = self.shape[rows]
        order = np.lexsort((weight, self.rates[rows], self.members[rows], shape))
        columns = [part[order] for part in (shape, weight, self.rates[rows], self.members[rows])]
        fresh = np.any([part[1:] != part[:-1] for part in columns], axis=0)
        first = np.flatnonzero(np.concatenate([[rows.size > 0], fresh]))
        if first.size > MOST_FETCHERS:
            return None
        kind = np.full(len(self.members), -1)
        kind[rows[order]] = np.cumsum(np.concatenate([[0], fresh]))
        if not first.size:
            return Kinds(first, np.zeros(0), np.zeros((1, 0), dtype=np.int64))
        counts = np.stack([self._asked(kind == k)[users] for k in range(first.size)], axis=1)
        found: Ints = np.unique(counts, axis=0)
        lead = order[first]
        worst_first = np.argsort(-(found @ weight[lead]), kind="stable")
        return Kinds(rows[lead], weight[lead], found[worst_first])

    def envelope(self, users: Ints) -> Floats:
        """Weights of fetchers that nobody's exceed: the largest of some users' k-th largest, for each k."""
        most = np.zeros(int(self.fetchers[users].max(initial=0)))
        for user in users.tolist():
            part = slice(self.columns.indptr[user], self.columns.indptr[user + 1])
            weights = np.sort(self.columns.data[part][self.rates[self.columns.indices[part]] > 0.0])[::-1]
            np.maximum(most[: weights.size], weights, out=most[: weights.size])
        return most

    def _entries(self, rows: Ints) -> Floats:
        """The entries of some rows, row after row."""
        if rows.size == np.count_nonzero(np.diff(self.rows.indptr)):
            return self.rows.data
        keep = np.zeros(len(self.members), dtype=np.bool_)
        keep[rows] = True
        return np.asarray(self.rows.data[np.repeat(keep, np.diff(self.rows.indptr))])

    def _asked(self, fetchers: Bools) -> Ints:
        """How many of some users have an entry for each user, (n,)."""
        total = np.zeros(len(fetchers), dtype=np.int64)
        entries = np.repeat(fetchers, np.diff(self.rows.indptr))
        for start in range(0, entries.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            total += np.bincount(self.rows.indices[part][entries[part]], minlength=total.size)
        return total
