"""Runs the event engine among 10⁸ users, to test the predictions of `analysis.internet_scale`.

The event engine simulates single messages. Here it simulates one shard (a part of the clusters) at a time, and keeps
only counts. The predictions are fitted to runs with at most a hundredth of these users. Start the run as `python -m
analysis.internet_scale.beyond`; it takes 3 CPU minutes.
"""

import time
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.internet_scale.growth import NETWORKS, SHARES, arrivals, peak_mib
from analysis.study import Frame, command
from p2p_sim.exchange import Traffic

NAME, USERS, REPLICATE = "internet-scale", 10**8, 900_000
PARTS = 25
"""The number of tasks into which the shards are split; the result of each task is kept on disk.

Each task takes every 25th shard. `arrivals` frees memory after every 16th shard. 25 and 16 have no common factor. So
every task has such shards."""
BIN_S, BINS = 1e-3, 100_000
"""Width of a time bin in seconds, and number of bins. Arrivals are counted in bins. The last bin also counts all later
arrivals."""


class SomeShards(NamedTuple):
    """The results of some shards.

    traffic: counts of messages. last_s: time of the last arrival, seconds. bins: (BINS,) number of arrivals in each bin
    of time. shards: number of shards. cpu_s: CPU time, seconds. peak_mib: the most memory that the process has held,
    MiB.
    """

    traffic: Traffic
    last_s: float
    bins: NDArray[np.int64]
    shards: int
    cpu_s: float
    peak_mib: float


def main(frame: Frame, users: int = USERS) -> list[Path]:
    """Runs the exchange, message by message, on two simulated networks. One network has no losses; the other has losses
    and repeated requests. Writes beyond.csv with bytes, arrivals and quantiles of arrival times. Writes
    beyond-timings.csv with CPU time and memory. Returns both files.

    Args:
        frame: runs the study and writes its files. users: number of users, a multiple of 1,000.
    """
    rows, timings = [], []
    for network in NETWORKS:
        parts = frame.each(_share, product([network], [users], range(PARTS)))
        total = sum((part.traffic for part in parts), Traffic())
        arrived = np.cumsum(np.sum([part.bins for part in parts], axis=0))
        quantiles = np.searchsorted(arrived, np.array(SHARES) * arrived[-1])  # indices of bins
        figures = {
            "bytes_per_user": total.bytes_sent / users,
            "learner_bytes_per_user": total.learner_bytes / users,
            "arrived": arrived[-1] / users,
            **{
                f"p{100 * share:g}_s": (index + 0.5) * BIN_S
                for share, index in zip(SHARES, quantiles.tolist(), strict=True)
            },
            "last_s": max(part.last_s for part in parts),
        }
        rows += [{"setting": network, "n": users, "quantity": key, "value": value} for key, value in figures.items()]
        timings.append(
            {
                "setting": network,
                "n": users,
                "shards": sum(part.shards for part in parts),
                "cpu_s": sum(part.cpu_s for part in parts),
                "peak_mib": max(part.peak_mib for part in parts),
            }
        )
    return [frame.table("beyond.csv", rows, "%.8g"), frame.table("beyond-timings.csv", timings, "%.8g")]


def _share(task: tuple[str, int, int]) -> SomeShards:
    """Runs every 25th shard (a part of the clusters) on a network, and returns the results of these shards. task: the
    network's name, the number of users, and the number of the first shard, 0 to 24.
    """
    network, users, first = task
    begin = time.process_time()
    traffic, last, number = Traffic(), 0.0, 0
    bins = np.zeros(BINS, dtype=np.int64)
    for counts, times in arrivals(network, users, REPLICATE, first, PARTS):
        traffic += counts
        last = max(last, float(times.max()))
        bins += np.bincount(np.minimum((times / BIN_S).astype(np.int64), BINS - 1), minlength=BINS)
        number += 1
    return SomeShards(traffic, last, bins, shards=number, cpu_s=time.process_time() - begin, peak_mib=peak_mib())


if __name__ == "__main__":
    command(NAME, main)
