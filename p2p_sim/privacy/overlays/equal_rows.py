"""Which rows of a table are equal, in arrays: rows are grouped by a hash first, and compared entry by entry then."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats

Ints = NDArray[np.int64]
BLOCK = 2**20
"""Entries that are looked at in one go, about."""


def same_rows(start: NDArray[np.integer], *columns: NDArray[np.generic]) -> Ints:
    """For each row the first one of the same length with the same entries in the same order, (n,).

    Args:
        start: (n+1,), row i has the entries start[i] to start[i+1] - 1. columns: each (E,), of 4 or 8 bytes an entry.
    """
    begin: Ints = start.astype(np.int64, copy=False)
    lengths = np.diff(begin)
    key = np.zeros(len(lengths), dtype=np.uint64)
    for first, last in _blocks(begin):
        key[first:last] = _hashes(begin[first : last + 1], [bits(column) for column in columns])
    _, leader, group = np.unique(key, return_index=True, return_inverse=True)
    found: Ints = leader[group]
    follows = np.flatnonzero(found != np.arange(len(found)))
    if _equal(begin, columns, follows, found[follows]):
        return found
    rows: dict[tuple[bytes, ...], int] = {}
    for row, (first, last) in enumerate(zip(start[:-1].tolist(), start[1:].tolist(), strict=True)):
        found[row] = rows.setdefault(tuple(column[first:last].tobytes() for column in columns), row)
    return found


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
    """Whether all used rows are equal."""
    rows = np.flatnonzero(used)
    return _equal(start.astype(np.int64, copy=False), columns, rows[1:], np.full(max(rows.size - 1, 0), rows[:1]))


def bits(column: NDArray[np.generic]) -> NDArray[np.unsignedinteger]:
    """The same bytes as whole numbers."""
    return column.view(f"u{column.dtype.itemsize}")


def _blocks(start: Ints) -> list[tuple[int, int]]:
    """Runs of rows with about `BLOCK` entries each."""
    cuts = np.searchsorted(start, np.arange(0, int(start[-1]) + BLOCK, BLOCK))
    cuts = np.unique(np.clip(np.append(cuts, len(start) - 1), 0, len(start) - 1))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def _hashes(start: Ints, columns: Sequence[NDArray[np.unsignedinteger]]) -> NDArray[np.uint64]:
    """A hash of each row: equal for equal rows."""
    part, lengths = slice(start[0], start[-1]), np.diff(start)
    mixed = (np.arange(part.start, part.stop) - np.repeat(start[:-1], lengths)).astype(np.uint64)
    for column in columns:
        mixed = _mix(mixed) + column[part]
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(_mix(mixed), dtype=np.uint64)])
    place = start - start[0]
    return np.asarray(sums[place[1:]] - sums[place[:-1]] + _mix(lengths.astype(np.uint64)))


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scrambled words: the finaliser of SplitMix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))


def _equal(start: Ints, columns: Sequence[NDArray[np.generic]], rows: Ints, others: Ints) -> bool:
    """Whether each of some rows equals the other one of its pair."""
    lengths = start[rows + 1] - start[rows]
    if not np.array_equal(lengths, start[others + 1] - start[others]):
        return False
    ends = np.concatenate([[0], np.cumsum(lengths)])
    for first, last in _blocks(ends):
        within = np.arange(ends[first], ends[last]) - np.repeat(ends[first:last], lengths[first:last])
        one = within + np.repeat(start[rows[first:last]], lengths[first:last])
        other = within + np.repeat(start[others[first:last]], lengths[first:last])
        if any(not np.array_equal(bits(column)[one], bits(column)[other]) for column in columns):
            return False
    return True
