"""10⁸ users through the event engine, a hundred times what fits saw: `python -m analysis.internet_scale.beyond`.

It takes 3 CPU minutes, runs shard by shard, keeps nothing but counts, and answers what `analysis.internet_scale`
predicts.
"""

import resource
import time
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from analysis.internet_scale.growth import NETWORKS, SHARES, arrivals
from analysis.study import Frame, command
from p2p_sim.exchange.traffic import Traffic

NAME, USERS, REPLICATE = "internet-scale", 10**8, 900_000
PARTS = 25
"""Each is some shards, and kept when it is finished; an odd number, so that memory is freed in all of them."""
BIN_S, BINS = 1e-3, 100_000
"""Arrival times are counted in bins of a millisecond, the last for whatever comes after 100 s."""


def main(frame: Frame, users: int = USERS) -> list[Path]:
    """Run both networks among n users, a multiple of 1,000; write beyond.csv, and the processor's time apart."""
    rows, timings = [], []
    for network in NETWORKS:
        parts = frame.each(_share, product([network], [users], range(PARTS)))
        traffic, last, bins, shards, cpu_s, peak = zip(*parts, strict=True)
        total, arrived = sum(traffic, Traffic()), np.cumsum(np.sum(bins, axis=0))
        places = np.searchsorted(arrived, np.array(SHARES) * arrived[-1])  # the middle of a bin stands for it
        found = {
            "bytes_per_user": total.bytes_sent / users,
            "learner_bytes_per_user": total.learner_bytes / users,
            "arrived": arrived[-1] / users,
            **{
                f"p{100 * share:g}_s": (place + 0.5) * BIN_S
                for share, place in zip(SHARES, places.tolist(), strict=True)
            },
            "last_s": max(last),
        }
        rows += [{"setting": network, "n": users, "quantity": key, "value": value} for key, value in found.items()]
        spent = {"shards": sum(shards), "cpu_s": sum(cpu_s), "peak_mib": max(peak)}
        timings.append({"setting": network, "n": users, **spent})
    return [frame.table("beyond.csv", rows, "%.8g"), frame.table("beyond-timings.csv", timings, "%.8g")]


def _share(task: tuple[str, int, int]) -> tuple[Traffic, float, NDArray[np.int64], int, float, float]:
    """Of one of the parts of the shards: traffic, last arrival, arrivals by bin, shards, processor time and memory."""
    network, users, first = task
    begin = time.process_time()
    traffic, last, number = Traffic(), 0.0, 0
    bins = np.zeros(BINS, dtype=np.int64)
    for counts, times in arrivals(network, users, REPLICATE, first, PARTS):
        traffic += counts
        last = max(last, float(times.max()))
        place = np.minimum((times / BIN_S).astype(np.int64), BINS - 1)
        bins += np.bincount(place, minlength=BINS)
        number += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # of the process, its libraries included
    return traffic, last, bins, number, time.process_time() - begin, peak


if __name__ == "__main__":
    command(NAME, main)
