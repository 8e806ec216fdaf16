"""Users' places in a fetch distribution: which of them have the same bound, and of which kinds they are.

Speed only: a bound is worked out once for all targets whose fetchers' rows and weights are the same. Rows are grouped
by a hash first, and compared entry by entry then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.overlays.overlay_table import Bools, Ints, OverlayTable

MOST_FETCHERS = 64
"""Most kinds of fetchers for which kinds of places are told apart."""
_ROW_BLOCK = 2**24
"""Entries that are counted in one go, which bounds the memory."""
_BLOCK = 2**20
"""Entries of rows that are compared in one go, about."""


@dataclass(frozen=True, eq=False)
class Kinds:
    """Users as targets, by how many fetchers of each kind they have.

    fetcher, weight: (F,) a user of each kind of fetcher, and the entries of her row, which are all equal. counts: (K,
    F) how many fetchers of each kind a target has, most first.
    """

    fetcher: Ints
    weight: Floats
    counts: Ints


@dataclass(frozen=True, eq=False)
class UserKinds:
    """Which users of a table are alike: as fetchers, by their rows, and as targets, by their fetchers."""

    table: OverlayTable

    @cached_property
    def same(self) -> Ints:
        """For each user whose fetches are seen, the number of one user with the same row and rate, (n,); members are
        not compared.
        """
        table = self.table
        leader = same_rows(table.rows.indptr, table.rows.indices, table.rows.data)
        shared = np.flatnonzero(table.used & (np.bincount(leader, minlength=len(leader))[leader] > 1))
        lines = np.stack([leader[shared], table.rates[shared], table.members[shared]], axis=1)
        _, first, line = np.unique(lines, axis=0, return_index=True, return_inverse=True)
        leader[shared] = shared[first][line.ravel()]
        return leader

    @cached_property
    def shape(self) -> Ints:
        """For each user, the number of one user whose entries that hide somebody are the same but for order, (n,)."""
        table = self.table
        start, data = table.rows.indptr, table.rows.data
        if table.revealed.any():
            hides = ~table.revealed[table.rows.indices]
            start = np.concatenate([[0], np.cumsum(hides)])[start]
            data = data[hides]
        return same_rows(start, sorted_rows(start, data))

    def alike(self, near: int) -> Ints:
        """For each user as a target, the number of one user with the same bound, (n,); -1 for members.

        Three-point pairs depend on the fetchers' rows and weights alone; so does a neighbourhood if all have one row.

        Args:
            near: most fetchers of a target whose neighbourhood is looked at.
        """
        table = self.table
        leader = np.where(table.members, -1, np.arange(len(table.members)))
        public = table.public & ~table.members  # only the noise on their own label protects them
        leader[public] = np.flatnonzero(public)[:1]
        lone = one_row(table.rows.indptr, (table.rows.indices, table.rows.data), table.used)
        grouped = ~table.revealed & (lone | (self.fetchers > near))
        keys: dict[bytes, int] = {}
        for target in np.flatnonzero(grouped).tolist():
            leader[target] = keys.setdefault(self._key(target), target)
        return leader

    @cached_property
    def fetchers(self) -> Ints:
        """How many users may fetch each label and submit it, (n,)."""
        table = self.table
        if (table.rates[np.diff(table.rows.indptr) > 0] > 0.0).all():
            return np.diff(table.columns.indptr)
        fetched = (table.rates[table.columns.indices] > 0.0).astype(np.int32)
        sums = np.concatenate([[0], np.cumsum(fetched)])
        return np.asarray(np.diff(sums[table.columns.indptr]))

    def _key(self, target: int) -> bytes:
        """A key that is equal for targets whose fetchers have the same rows and weights but for order."""
        table = self.table
        users, weights = table.fetchers(target)
        users, weights = users[table.used[users]], weights[table.used[users]]
        _, first, counts = np.unique(self.same[users], return_index=True, return_counts=True)
        kinds = users[first]
        lines = np.stack([self.shape[kinds], weights[first], table.rates[kinds], table.members[kinds], counts], axis=1)
        return np.sort(lines.view("f8,f8,f8,f8,f8"), axis=0).tobytes()

    def kinds(self, users: Ints) -> Kinds | None:
        """Some users as targets, by how many fetchers of each kind they have; None if rows have different entries, or
        are of many kinds.
        """
        table = self.table
        # Rows that somebody sees; each must have equal entries.
        rows = np.flatnonzero(table.used & (np.diff(table.rows.indptr) > 0))
        weight = table.rows.data[table.rows.indptr[rows]]
        if not np.array_equal(np.repeat(weight, np.diff(table.rows.indptr)[rows]), self._entries(rows)):
            return None
        # Fetchers are of one kind if their rows have one shape, entry, rate and side.
        shape = self.shape[rows]
        order = np.lexsort((weight, table.rates[rows], table.members[rows], shape))
        columns = [part[order] for part in (shape, weight, table.rates[rows], table.members[rows])]
        fresh = np.any([part[1:] != part[:-1] for part in columns], axis=0)
        first = np.flatnonzero(np.concatenate([[rows.size > 0], fresh]))
        if first.size > MOST_FETCHERS:
            return None
        kind = np.full(len(table.members), -1)
        kind[rows[order]] = np.cumsum(np.concatenate([[0], fresh]))
        if not first.size:
            return Kinds(first, np.zeros(0), np.zeros((1, 0), dtype=np.int64))
        # Targets are of one kind if they have as many fetchers of each kind.
        counts = np.stack([self._entry_counts(kind == k)[users] for k in range(first.size)], axis=1)
        distinct: Ints = np.unique(counts, axis=0)
        lead = order[first]
        worst_first = np.argsort(-(distinct @ weight[lead]), kind="stable")
        return Kinds(rows[lead], weight[lead], distinct[worst_first])

    def envelope(self, users: Ints) -> Floats:
        """Weights of fetchers that no target's exceed: for each k the largest of some targets' k-th largest weight,
        descending.
        """
        table = self.table
        most = np.zeros(int(self.fetchers[users].max(initial=0)))
        for user in users.tolist():
            fetchers, weights = table.fetchers(user)
            weights = np.sort(weights[table.rates[fetchers] > 0.0])[::-1]
            np.maximum(most[: weights.size], weights, out=most[: weights.size])
        return most

    def _entries(self, rows: Ints) -> Floats:
        """The entries of some rows of the table, row after row."""
        table = self.table
        if rows.size == np.count_nonzero(np.diff(table.rows.indptr)):
            return table.rows.data
        keep = np.zeros(len(table.members), dtype=np.bool_)
        keep[rows] = True
        return np.asarray(table.rows.data[np.repeat(keep, np.diff(table.rows.indptr))])

    def _entry_counts(self, fetchers: Bools) -> Ints:
        """For each user, how many of some fetchers may fetch her label, (n,)."""
        table = self.table
        total = np.zeros(len(fetchers), dtype=np.int64)
        entries = np.repeat(fetchers, np.diff(table.rows.indptr))
        for start in range(0, entries.size, _ROW_BLOCK):
            part = slice(start, start + _ROW_BLOCK)
            total += np.bincount(table.rows.indices[part][entries[part]], minlength=total.size)
        return total


def same_rows(start: NDArray[np.integer], *columns: NDArray[np.generic]) -> Ints:
    """For each row the first one of the same length with the same entries in the same order, (n,).

    Args:
        start: (n+1,), row i has the entries start[i] to start[i+1] - 1. columns: each (E,), of 4 or 8 bytes an entry.
    """
    begin: Ints = start.astype(np.int64, copy=False)
    lengths = np.diff(begin)
    key = np.zeros(len(lengths), dtype=np.uint64)
    for rows in _blocks(begin):
        key[rows] = _hashes(begin[rows.start : rows.stop + 1], [bits(column) for column in columns])
    _, leader, group = np.unique(key, return_index=True, return_inverse=True)
    leaders: Ints = leader[group]
    follows = np.flatnonzero(leaders != np.arange(len(leaders)))
    if _equal(begin, columns, follows, leaders[follows]):
        return leaders
    # Two different rows have one hash, which hardly ever happens: compare all rows by their bytes.
    first_rows: dict[tuple[bytes, ...], int] = {}
    for row, (first, last) in enumerate(zip(start[:-1].tolist(), start[1:].tolist(), strict=True)):
        leaders[row] = first_rows.setdefault(tuple(column[first:last].tobytes() for column in columns), row)
    return leaders


def sorted_rows(start: NDArray[np.integer], data: Floats) -> Floats:
    """The entries of each row in ascending order, row after row; the same array if they are in order."""
    if data.size < 2:
        return data
    falls = data[1:] < data[:-1]
    ends = start[1:-1]
    falls[ends[(ends > 0) & (ends < data.size)] - 1] = False
    if not falls.any():
        return data
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))
    return np.asarray(data[np.lexsort((data, row))])


def one_row(start: NDArray[np.integer], columns: Sequence[NDArray[np.generic]], used: NDArray[np.bool_]) -> bool:
    """Whether all rows that are `used` are equal, in their entries and their order."""
    rows = np.flatnonzero(used)
    return _equal(start.astype(np.int64, copy=False), columns, rows[1:], np.full(max(rows.size - 1, 0), rows[:1]))


def bits(column: NDArray[np.generic]) -> NDArray[np.unsignedinteger]:
    """The bytes of each entry as an unsigned whole number."""
    return column.view(f"u{column.dtype.itemsize}")


def _blocks(start: Ints) -> list[slice]:
    """Slices of consecutive rows with about `_BLOCK` entries together."""
    cuts = np.searchsorted(start, np.arange(0, int(start[-1]) + _BLOCK, _BLOCK))
    cuts = np.unique(np.clip(np.append(cuts, len(start) - 1), 0, len(start) - 1))
    return [slice(first, last) for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)]


def _hashes(start: Ints, columns: Sequence[NDArray[np.unsignedinteger]]) -> NDArray[np.uint64]:
    """A hash of each row, (rows,): equal for equal rows."""
    part, lengths = slice(start[0], start[-1]), np.diff(start)
    mixed = (np.arange(part.start, part.stop) - np.repeat(start[:-1], lengths)).astype(np.uint64)
    for column in columns:
        mixed = _mix(mixed) + column[part]
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(_mix(mixed), dtype=np.uint64)])
    ends = start - start[0]
    return np.asarray(sums[ends[1:]] - sums[ends[:-1]] + _mix(lengths.astype(np.uint64)))


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Words with their bits scrambled, by the finaliser of SplitMix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))


def _equal(start: Ints, columns: Sequence[NDArray[np.generic]], rows: Ints, others: Ints) -> bool:
    """For each pair of a row and another one whether the two are equal."""
    lengths = start[rows + 1] - start[rows]
    if not np.array_equal(lengths, start[others + 1] - start[others]):
        return False
    ends = np.concatenate([[0], np.cumsum(lengths)])
    for block in _blocks(ends):
        within = np.arange(ends[block.start], ends[block.stop]) - np.repeat(ends[block], lengths[block])
        entries = within + np.repeat(start[rows[block]], lengths[block])
        twins = within + np.repeat(start[others[block]], lengths[block])
        if any(not np.array_equal(bits(column)[entries], bits(column)[twins]) for column in columns):
            return False
    return True
