"""The random choices of the label exchange, drawn the same way for every engine (Algorithm 2, lines 5 and 9)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.streams import BLOCK, Streams, bernoulli
from p2p_sim.exchange.peers import Peers
from p2p_sim.network.overlay import Overlay
from p2p_sim.population.shards import Shard


@dataclass(frozen=True)
class Choices:
    """What the users `start` to `start + len(peer) - 1` of a shard choose; indices count from the shard's first user.

    peer: (m,) int32, the user each one asks first, or -1 if she has no neighbour.
    keep: (m,) bool, whether she passes the fetched label on to the learner.
    """

    start: int
    peer: NDArray[np.int32]
    keep: NDArray[np.bool_]


def choices(
    shard: Shard, streams: Streams, sampling_rate: float, overlay: Overlay | None = None, hops: int = 1
) -> Iterator[Choices]:
    """Draw the shard's choices in blocks of 65,536 users, so that a cluster of any size needs little memory."""
    peers, keep = Peers(shard, streams, overlay, hops), streams.generator("keep", shard.index)
    rng = streams.generator("peer", shard.index)
    for start in range(0, shard.size, BLOCK):
        stop = min(start + BLOCK, shard.size)
        peer = peers.first(rng, start, stop)
        yield Choices(start, peer, bernoulli(keep, sampling_rate, stop - start))


def all_choices(
    shard: Shard, streams: Streams, sampling_rate: float, overlay: Overlay | None = None, hops: int = 1
) -> Choices:
    """The whole shard's choices in one piece: the same numbers as `choices`."""
    blocks = list(choices(shard, streams, sampling_rate, overlay, hops))
    if len(blocks) == 1:
        return blocks[0]
    return Choices(0, np.concatenate([b.peer for b in blocks]), np.concatenate([b.keep for b in blocks]))
