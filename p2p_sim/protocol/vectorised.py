"""The label exchange as one vectorised draw: the law of Algorithm 2 on a network without faults."""

import numpy as np
from numpy.typing import NDArray

from p2p_sim.population.shards import Shard
from p2p_sim.protocol.draws import choices
from p2p_sim.streams import Streams


def exchange_shard(
    shard: Shard,
    payload: NDArray[np.generic],
    sampling_rate: float,
    streams: Streams,
    user_out: NDArray[np.int32],
    payload_out: NDArray[np.generic],
) -> int:
    """Write one shard's submissions to the front of the two output arrays and return how many there are.

    Args:
        shard: the users.
        payload: (shard.size, ...) what each user of the shard answers when asked.
        sampling_rate: θ in [0, 1].
        streams: the replicate's random streams.
        user_out: receives the submitters' indices in the population, ascending.
        payload_out: receives the payload each of them fetched.
    """
    written = 0
    for block in choices(shard, streams, sampling_rate):
        submitter = np.flatnonzero(block.keep)
        count = submitter.size
        out = slice(written, written + count)
        np.add(submitter, shard.start + block.start, out=user_out[out], casting="unsafe")
        np.take(payload, block.peer[submitter], axis=0, out=payload_out[out], mode="clip")
        written += count
    return written
