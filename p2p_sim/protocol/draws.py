"""The random choices of the label exchange, drawn the same way for every engine (Algorithm 2, lines 5 and 9)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.population.shards import Shard
from p2p_sim.streams import BLOCK, Streams, bernoulli


@dataclass(frozen=True)
class Choices:
    """What the users `start` to `start + len(peer) - 1` of a shard choose; indices count from the shard's first user.

    peer: (m,) int32, the user each one asks, uniform over her cluster, herself included.
    keep: (m,) bool, whether she passes the fetched label on to the learner.
    """

    start: int
    peer: NDArray[np.int32]
    keep: NDArray[np.bool_]


def choices(shard: Shard, streams: Streams, sampling_rate: float) -> Iterator[Choices]:
    """Draw the shard's choices in blocks of 65,536 users, so that a cluster of any size needs little memory."""
    choose, keep = streams.generator("peer", shard.index), streams.generator("keep", shard.index)
    for start in range(0, shard.size, BLOCK):
        stop = min(start + BLOCK, shard.size)
        peer = _uniform_peers(choose, shard.offsets, start, stop)
        yield Choices(start, peer, bernoulli(keep, sampling_rate, stop - start))


def all_choices(shard: Shard, streams: Streams, sampling_rate: float) -> Choices:
    """The whole shard's choices in one piece: the same numbers as `choices`."""
    blocks = list(choices(shard, streams, sampling_rate))
    if len(blocks) == 1:
        return blocks[0]
    return Choices(0, np.concatenate([b.peer for b in blocks]), np.concatenate([b.keep for b in blocks]))


def _uniform_peers(rng: np.random.Generator, offsets: NDArray[np.int64], start: int, stop: int) -> NDArray[np.int32]:
    """For users start..stop-1, a uniform member of the own cluster: floor(u·size) with u a multiple of 2**-53."""
    first = int(np.searchsorted(offsets, start, side="right")) - 1
    last = int(np.searchsorted(offsets, stop, side="left"))
    bounds = offsets[first : last + 1]
    position = rng.random(stop - start)
    if last - first == 1:
        position *= bounds[1] - bounds[0]
        peer = position.astype(np.int32)
        peer += np.int32(bounds[0])
        return peer
    inside = np.clip(bounds, start, stop)
    users = inside[1:] - inside[:-1]
    position *= np.repeat(np.diff(bounds).astype(np.float64), users)
    peer = position.astype(np.int32)
    peer += np.repeat(bounds[:-1].astype(np.int32), users)
    return peer
