"""Many protocol events in one process with flat memory: `python -m tests.validation.soak --events 1e8`.

Replicates of two networks with loss, retries and churn take turns, three on the one, whose overlay is complete, and one
on the other. After each block the memory that the process holds
(its resident set) is noted; a line through the blocks after the warm-up must rise by less than a bound.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network.availability import Always, OnOff
from p2p_sim.network.latency import Exponential, Lognormal
from p2p_sim.network.network_config import NetworkConfig, OnTimeout
from p2p_sim.network.overlay import RegularOverlay
from p2p_sim.population.population import Population

PAGE = 4096
WARM_UP = 0.25
"""Share of the blocks in which pools of memory may still fill."""
BOUND = 2.0**20 / 1e7
"""Largest rise allowed, bytes an event: 1 MiB in ten million events."""
MECHANISM = LabelExchangeMechanism(RandomizedResponse(0.1), 1.0, "events")
_COMMON = {"start_window_s": 1.0, "loss": 0.05, "duplication": 0.01, "request_timeout_s": 0.5}
NETWORKS = (
    NetworkConfig(
        **_COMMON,
        latency=Lognormal(median_s=0.05),
        on_timeout=OnTimeout(retry="redraw", attempts=4),
        availability=OnOff(mean_on_s=20.0, mean_off_s=2.0, late_share=0.1, join_window_s=1.0),
    ),
    NetworkConfig(
        **_COMMON,
        latency=Exponential(mean_s=0.05),
        on_timeout=OnTimeout(retry="same_peer", attempts=3, backoff=2.0),
        overlay=RegularOverlay(degree=10),
        availability=Always(leave_share=0.2, leave_mean_s=2.0),
    ),
)


@dataclass(frozen=True)
class Slope:
    """How fast memory grows, bytes an event: least squares with its 95% interval (Student's t, blocks independent)."""

    estimate: float
    low: float
    high: float
    bound: float

    @property
    def flat(self) -> bool:
        """Whether the whole interval lies below the bound."""
        return self.high < self.bound


def slope(events: "np.ndarray", rss: "np.ndarray", bound: float = BOUND) -> Slope:
    """The line through the blocks after the warm-up; at least three of them.

    Args:
        events: (B,) protocol events up to the end of each block. rss: (B,) bytes held then.
        bound: bytes an event.
    """
    from scipy.stats import linregress, t

    first = int(len(events) * WARM_UP)
    line = linregress(events[first:], rss[first:])
    error = line.stderr if np.ptp(rss[first:]) > 0 else 0.0  # of a constant it is not a number
    half = float(t.isf(0.025, len(events) - first - 2) * error)
    return Slope(float(line.slope), float(line.slope) - half, float(line.slope) + half, bound)


def resident_bytes() -> int:
    """The resident set of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def people(users: int, cluster_size: int = 100) -> Population:
    """Users without features, in clusters of one size."""
    offsets = np.append(np.arange(0, users, cluster_size), users)
    return Population(np.zeros((users, 0)), np.zeros(users, dtype=np.uint8), offsets, 2)


def soak(
    events: int, blocks: int, users: int, keep: Callable[[int], object] = lambda events: None, say: bool = False
) -> pd.DataFrame:
    """Run replicates until so many protocol events have happened; one line a block: events, rss_bytes, wall_s.

    Args:
        events, blocks: in all. users: of one replicate, about five events each.
        keep: called with the events so far after every four replicates; a planted leak holds on to something.
        say: print each block.
    """
    population, done, turn, begin, lines = people(users), 0, 0, time.perf_counter(), []
    for block in range(1, blocks + 1):
        while done < events * block / blocks:
            for index, network in enumerate((NETWORKS[0],) * 3 + (NETWORKS[1],)):
                outcome = MECHANISM.run(population, network, Streams(index + 1, turn))
                assert outcome.traffic is not None
                done += outcome.traffic.protocol_events
            keep(done)
            turn += 1
        lines.append({"events": done, "rss_bytes": resident_bytes(), "wall_s": round(time.perf_counter() - begin, 2)})
        if say:
            print(
                f"  {done:13,d} events  {lines[-1]['rss_bytes'] / 2**20:7.1f} MiB  {lines[-1]['wall_s']:8.1f} s",
                flush=True,
            )
    return pd.DataFrame(lines)


def draw(table: pd.DataFrame, path: Path) -> None:
    """Memory against events."""
    from p2p_sim.figures.style import COLOURS, GREY, new_figure, save

    figure = new_figure(6.4, 3.2)
    axes = figure.subplots()
    axes.plot(table["events"] / 1e6, table["rss_bytes"] / 2**20, color=COLOURS[0], marker="o", markersize=3.5)
    axes.axvline(table["events"].iloc[int(len(table) * WARM_UP)] / 1e6, color=GREY, linestyle=":")
    axes.set_ylim(0, 1.25 * table["rss_bytes"].max() / 2**20)
    axes.set_xlabel("protocol events, millions (left of the dotted line: warm-up)")
    axes.set_ylabel("resident memory, MiB")
    save(figure, path)


def main() -> None:
    """Print each block and the verdict; exit status 1 if memory grows."""
    parser = argparse.ArgumentParser(description="Protocol events through the event engine with flat memory.")
    parser.add_argument("--events", type=float, default=1e8)
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--users", type=int, default=50_000)
    parser.add_argument("--out", type=Path, help="a directory for blocks.csv, summary.json and memory.png")
    given = parser.parse_args()
    print(f"{given.events:,.0f} protocol events in {given.blocks} blocks, {given.users:,} users a replicate")
    table = soak(int(given.events), given.blocks, given.users, say=True)
    found = slope(table["events"].to_numpy(float), table["rss_bytes"].to_numpy(float))
    low, mid, high, most = (1e7 * v / 2**20 for v in (found.low, found.estimate, found.high, found.bound))
    interval, verdict = f"95% interval {low:.3f} to {high:.3f}, bound {most:g}", "flat" if found.flat else "it grows"
    print(f"memory rises by {mid:.3f} MiB in ten million events ({interval}): {verdict}")
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        table.to_csv(given.out / "blocks.csv", index=False)
        summary = {
            "events": int(table["events"].iloc[-1]),
            "blocks": given.blocks,
            "users": given.users,
            "seconds": float(table["wall_s"].iloc[-1]),
            "largest_rss_mib": round(float(table["rss_bytes"].max()) / 2**20, 1),
            **{f"slope_{name}_bytes_an_event": value for name, value in asdict(found).items()},
            "slope_mib_in_1e7_events": [round(v, 4) for v in (low, mid, high)],
            "flat": found.flat,
            "python": platform.python_version(),
            "numpy": np.__version__,
        }
        (given.out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
        draw(table, given.out / "memory.png")
    sys.exit(0 if found.flat else 1)


if __name__ == "__main__":
    main()
