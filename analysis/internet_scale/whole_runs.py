"""A whole replicate with 10⁹ users: the exchange, ε and the learner.

Run as `python -m analysis.internet_scale.whole_runs`. Users are simulated in shards (groups of whole clusters) and not
kept in memory. The shards are divided into 16 parts. The sums of each finished part are kept on disk. A worker takes
less than 1 GiB; docs/internet-scale.md states how long the study takes.
"""

import time
from itertools import product
from pathlib import Path

from analysis.internet_scale.growth import DELTA, NETWORKS, SEED, SHARES, USERS, peak_mib
from analysis.study import Frame, command
from p2p_sim.mechanisms import Outcome
from p2p_sim.network import NetworkConfig
from p2p_sim.replicate import Replicate, exchange_streamed, measure_streamed, prepare_streamed
from p2p_sim.scenario import Scenario

NAME, CLUSTER, REPLICATE = "internet-scale", 50_000, 900_001
PARTS = 16
SETTINGS = {"one draw": ("vectorised", NetworkConfig()), **{name: ("events", NETWORKS[name]) for name in NETWORKS}}
"""Engine and network of each setting: the vectorised engine, and the event engine over two networks."""
COLUMNS = (
    "epsilon_lower", "epsilon_upper", "min_cluster_size", "max_cluster_size", "num_clusters", "error_rate",
    "excess_risk", "excess_risk_floor", "nonprivate_excess_risk",
)  # fmt: skip


def main(frame: Frame, users: int = USERS) -> list[Path]:
    """Runs the label exchange in three settings: all labels drawn at once, message by message without losses, and
    message by message with losses. Writes whole.csv with ε, cluster sizes and errors. Settings with messages also have
    bytes and arrival times. Writes whole-timings.csv with CPU time and memory. Returns both files.

    Args:
        frame: runs the study and writes its files. users: number of users, a multiple of 50,000.
    """
    rows, timings = [], []
    for setting in SETTINGS:
        sums, spent, peaks = zip(*frame.each(_part, product([setting], [users], range(PARTS))), strict=True)
        # the row of the whole run, from the sums of all parts
        begin, whole = time.process_time(), Outcome.join([part for part in sums if part is not None])
        case = Replicate(scenario(setting, users), REPLICATE)
        row, _ = measure_streamed(case, prepare_streamed(case), [whole])
        figures = {name: row[name] for name in COLUMNS} | {"arrived": row["effective_sampling_rate"]}
        if whole.traffic is not None and whole.arrivals is not None:
            figures["bytes_per_user"] = whole.traffic.bytes_sent / users
            figures["learner_bytes_per_user"] = whole.traffic.learner_bytes / users
            figures |= {f"p{100 * share:g}_s": whole.arrivals.quantile(share) for share in SHARES}
            figures["last_s"] = whole.arrivals.quantile(1.0)
        rows += [{"setting": setting, "n": users, "quantity": key, "value": value} for key, value in figures.items()]
        costs = {"cpu_s": sum(spent), "accounting_s": time.process_time() - begin}
        timings.append({"setting": setting, "n": users, **costs, "peak_mib": max(*peaks, peak_mib())})
    return [frame.table("whole.csv", rows, "%.8g"), frame.table("whole-timings.csv", timings, "%.8g")]


def scenario(setting: str, users: int) -> Scenario:
    """The scenario of a setting: labels of the synthetic law are exchanged in clusters of 50,000 users, with α = 0.1
    and θ = 1.

    setting: "one draw" (all labels drawn at once, no messages), "plain" (messages without losses) or "retries"
    (messages with losses and repeated requests). users: number of users.
    """
    engine, network = SETTINGS[setting]
    return Scenario.from_tree(
        {
            "name": NAME,
            "seed": SEED,
            "engine": engine,
            "population": {"kind": "synthetic", "users": users, "num_clusters": max(1, users // CLUSTER)},
            "mechanism": {"flip_prob": 0.1, "sampling_rate": 1.0},
            "network": network.model_dump(mode="json"),
            "privacy": {"delta": DELTA},
        }
    )


def _part(task: tuple[str, int, int]) -> tuple[Outcome | None, float, float]:
    """Runs one part of the shards. Returns the part's sums (None without shards), the CPU time (s) and the memory
    (MiB).

    task: the setting, the number of users, and the index of the part.
    """
    setting, users, index = task
    begin, ready = time.process_time(), prepare_streamed(Replicate(scenario(setting, users), REPLICATE))
    first, last = (len(ready.people.shards) * cut // PARTS for cut in (index, index + 1))
    sums = exchange_streamed(ready, (first, last)) if last > first else None
    return sums, time.process_time() - begin, peak_mib()


if __name__ == "__main__":
    command(NAME, main)
