"""The label exchange as one vectorised draw: the law of Algorithm 2 on a network without faults."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.streams import Streams
from p2p_sim.exchange.draws import choices
from p2p_sim.network.overlay import Overlay
from p2p_sim.population.shards import Shard


def exchange_shard(
    shard: Shard,
    payload: NDArray[np.generic],
    sampling_rate: float,
    streams: Streams,
    overlay: Overlay | None = None,
    hops: int = 1,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.generic]]]:
    """One shard's submissions in pieces: who submits (index in the population, ascending), and what she fetched.

    Args:
        shard: the users.
        payload: (shard.size, ...) what each user of the shard answers when asked.
        sampling_rate: θ in [0, 1].
        streams: the replicate's random streams.
        overlay: the shard's; None: complete. hops: steps of the walk to the one who answers.
    """
    for block in choices(shard, streams, sampling_rate, overlay, hops):
        submitter = np.flatnonzero(block.keep if overlay is None else block.keep & (block.peer >= 0))
        fetched = np.take(payload, block.peer[submitter], axis=0, mode="clip")
        submitter += shard.start + block.start
        yield submitter, fetched
