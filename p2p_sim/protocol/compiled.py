"""The vectorised exchange of binary labels in compiled code (numba, extra `[fast]`), the same to the last bit."""

from collections.abc import Iterator

import numpy as np
from numba import njit, uint16, uint32, uint64
from numpy.typing import NDArray

from p2p_sim.base.streams import BLOCK, Streams, threshold_of
from p2p_sim.population.shards import Shard
from p2p_sim.protocol.pcg64 import entropy, fill, seeded, uniform

PIECE = 4096
"""Peers drawn at a time, so that they stay in the cache; changes no number."""


class CompiledExchange:
    """Draws flips, peers and submissions from the streams of `RandomizedResponse`, `choices` and `exchange_shard`.

    Args:
        flip_prob: α in [0, 1]. sampling_rate: θ in [0, 1]. streams: the replicate's.
    """

    def __init__(self, flip_prob: float, sampling_rate: float, streams: Streams) -> None:
        self._flip, self._keep = threshold_of(flip_prob), threshold_of(sampling_rate)
        self._words = tuple(entropy(streams, purpose) for purpose in ("flip", "peer", "keep"))
        self._user, self._fetched = np.empty(BLOCK + 1, np.int32), np.empty(BLOCK + 1, np.uint8)

    def shard(self, shard: Shard, labels: NDArray[np.uint8]) -> Iterator[tuple[NDArray[np.int32], NDArray[np.uint8]]]:
        """One shard's submissions in pieces, each to be used before the next is asked for.

        Args:
            shard: the users. labels: (shard.size,) theirs, 0 or 1.

        Yields:
            Who submits (index in the population, ascending), and what she fetched.
        """
        flips, peers, keeps = (seeded(words, shard.index, np.empty(4, np.uint64)) for words in self._words)
        noisy = _flipped(labels, flips, self._flip)
        for start in range(0, shard.size, BLOCK):
            pieces = self._user, self._fetched
            m = _block(noisy, shard.offsets, shard.start, start, peers, keeps, self._keep, *pieces)
            yield pieces[0][:m], pieces[1][:m]


@njit(cache=True)
def _bernoulli(state, threshold, words, out):
    """`streams.bernoulli` of one block, into `out` (m,) of zeros and ones; `words` is room for (m + 3) // 4 words."""
    leading, rest = threshold
    if leading == 65_536:
        out[:] = 1
        return
    words = words[: (out.size + 3) // 4]
    fill(state, words)
    short, limit, ties = words.view(np.uint16), uint16(leading), 0
    for i in range(out.size):
        out[i] = short[i] < limit
        ties += short[i] == limit
    if ties == 0:
        return
    for i in range(out.size):
        if short[i] == limit:
            out[i] = uniform(state) < rest


@njit(cache=True)
def _members(words, size, base, peer):
    """A uniform member of a cluster of `size` users from `base` on, for each word, as `peers.py` rounds it."""
    scale = size * 2.0**-53  # exact: a power of two
    for i in range(words.size):
        peer[i] = uint32(np.int32(np.float64(np.int64(words[i] >> uint64(11))) * scale)) + base


@njit(cache=True)
def _flipped(labels, state, threshold):
    """Noisy labels (n,)."""
    n, words, noisy = labels.size, np.empty(BLOCK // 4, np.uint64), np.empty(labels.size, np.uint8)
    for start in range(0, n, BLOCK):
        _bernoulli(state, threshold, words, noisy[start : start + BLOCK])
    for i in range(n):
        noisy[i] ^= labels[i]
    return noisy


@njit(cache=True)
def _block(noisy, offsets, shard_start, block, peers, keeps, threshold, user, fetched):
    """The submissions of the shard's users from `block` on, at most 65,536; how many there are."""
    end, count = min(block + BLOCK, noisy.size), 0
    cluster = np.searchsorted(offsets, block, side="right") - 1
    passes = np.empty(end - block, np.uint8)
    _bernoulli(keeps, threshold, np.empty(BLOCK // 4, np.uint64), passes)
    words, peer = np.empty(PIECE, np.uint64), np.empty(PIECE, np.uint32)
    for start in range(block, end, PIECE):
        stop = min(start + PIECE, end)
        fill(peers, words[: stop - start])
        i = start
        while i < stop:
            to = min(stop, offsets[cluster + 1])
            here = slice(i - start, to - start)
            _members(words[here], offsets[cluster + 1] - offsets[cluster], uint32(offsets[cluster]), peer[here])
            cluster += to == offsets[cluster + 1]
            i = to
        count = _submit(noisy, peer, passes[start - block : stop - block], shard_start + start, count, user, fetched)
    return count


@njit(cache=True)
def _submit(noisy, peer, passes, first, count, user, fetched):
    """Append the submissions of users `first` and following, without a branch: what is not passed on is overwritten."""
    m = passes.size
    if passes.sum() == m:
        for i in range(m):
            user[count + i] = first + i
            fetched[count + i] = noisy[peer[i]]
        return count + m
    for i in range(m):
        user[count] = first + i
        fetched[count] = noisy[peer[i]]
        count += passes[i]
    return count
