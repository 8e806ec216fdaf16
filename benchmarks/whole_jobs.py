"""Whole jobs, from the start of the interpreter to rows on disk, and where their time goes.

Each runs in a process of its own, on one worker and one numerical thread, and keeps no figure of ε unless the row says
so. `--against` runs an older commit alternately with today's code.
"""

import os
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.job import PARTS
from benchmarks.processes import ROOT, Job, JobError, Measured, checkout_of, measured
from benchmarks.table import FASTER, Row
from benchmarks.timing import spread_of

NAME = "whole jobs"
ALL, PEAK, SHARE_OF_JOB = "the whole job", "peak memory", "% of the job"
SECONDS, MEGABYTES = "CPU s", "MB"
BEFORE, KEPT = ", before", ", ε kept from the first time"
ROUNDS, LONG_S = 3, 30.0
"""A job that took longer than this is not repeated."""
SCENARIOS = ROOT / "scenarios"
FLIPS = [0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4]
RATES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0]


def shipped(file: str, **changes: Any) -> dict[str, Any]:
    """The tree of a shipped scenario; `changes` replace keys of its tables, or replicates."""
    tree = tomllib.loads((SCENARIOS / file).read_text(encoding="utf-8"))
    for key, value in changes.items():
        tree[key] = {**tree[key], **value} if isinstance(value, dict) else value
    return tree


def synthetic(users: int, cluster_size: int, **others: Any) -> dict[str, Any]:
    """A scenario of the synthetic law in clusters of one size, on average."""
    return {
        "name": "job",
        "replicates": 1,
        "population": {"kind": "synthetic", "users": users, "num_clusters": users // cluster_size},
        "mechanism": {"kind": "label_exchange", "flip_prob": 0.1, "sampling_rate": 0.5},
        "privacy": {"delta": 1e-6},
        **others,
    }


def on_overlay(users: int, cluster_size: int, overlay: dict[str, Any]) -> Job:
    """Messages over an overlay, of which one in a hundred gets lost."""
    network = {"overlay": overlay, "loss": 0.01, "request_timeout_s": 0.5}
    return Job(synthetic(users, cluster_size, network=network))


def jobs(small: bool) -> Iterator[tuple[str, Job]]:
    """The six jobs by name; the small ones are for tests."""
    count = 1 if small else 20
    yield f"quickstart, {count} replicate{'s' if count > 1 else ''}", Job(shipped("quickstart.toml", replicates=count))
    yield sweep_of_digits(small)
    users = 2000 if small else 1_000_000
    tree = shipped("network/million.toml", population={"users": users, "num_clusters": users // 1000})
    yield f"{users:,} users, messages, 1% loss and retries", Job(tree)
    users = 2000 if small else 30_000_000
    tree = synthetic(users, 1000, engine="vectorised")
    yield f"{users:,} users, vectorised", Job(tree)
    if small or "P2P_SIM_DATA" not in os.environ:
        print("Adult is left out: " + ("it has no small size" if small else "P2P_SIM_DATA names no data"))
    else:
        yield "Adult, 2 replicates", Job(shipped("adult.toml", replicates=2))
    users = 2000 if small else 100_000
    overlay = {"kind": "regular", "degree": 10}
    yield f"{users:,} users, regular overlay of degree 10", on_overlay(users, 1000, overlay)


def sweep_of_digits(small: bool) -> tuple[str, Job]:
    """The sweep of noise and sampling rate on digits, one replicate a point."""
    axes = {"mechanism.flip_prob": FLIPS, "mechanism.sampling_rate": RATES}
    axes = {key: values[: 2 if small else None] for key, values in axes.items()}
    points = len(axes["mechanism.flip_prob"]) * len(axes["mechanism.sampling_rate"])
    tree = shipped("quickstart.toml", replicates=1) | {"engine": "vectorised"}
    return f"digits, sweep of {points} points", Job(tree, axes=axes)


def rounds_of(first: Measured, small: bool) -> int:
    """How often a job is run in all."""
    return 1 if small or first.total > LONG_S else ROUNDS


def rows_of(name: str, found: list[Measured], label: str = "") -> Iterator[Row]:
    """Seconds and peak memory of a job, the seconds and shares of its parts."""
    yield Row.of(NAME, name, f"{ALL}{label}", SECONDS, spread_of([m.total for m in found]))
    for part in PARTS:
        yield Row.of(NAME, name, f"{part}{label}", SECONDS, spread_of([m.seconds[part] for m in found]))
        shares = [100.0 * m.seconds[part] / sum(m.seconds.values()) for m in found]
        yield Row.of(NAME, name, f"{part}{label}", SHARE_OF_JOB, spread_of(shares))
    yield Row.of(NAME, name, f"{PEAK}{label}", MEGABYTES, spread_of([m.peak_bytes / 1e6 for m in found]))


def ratios(name: str, before: list[Measured], now: list[Measured], commit: str) -> Iterator[Row]:
    """An older commit's time over today's, pair by pair."""
    pairs = list(zip(before, now, strict=True))
    wanted = {
        ALL: [old.total / new.total for old, new in pairs],
        "without start-up": [old.without_start / new.without_start for old, new in pairs],
        "accounting": [old.seconds["accounting"] / max(new.seconds["accounting"], 1e-9) for old, new in pairs],
    }
    for setting, values in wanted.items():
        if min(values) > 0.0:
            yield Row.of(NAME, name, setting, FASTER, spread_of(values), f"before: {commit}")


def job_rows(name: str, job: Job, small: bool, before: Path | None, commit: str) -> Iterator[Row]:
    """All rows of a job, and of the older code where that can run it."""
    now, older = list[Measured](), list[Measured]()
    while not now or len(now) < rounds_of(now[0], small):
        if before is not None:
            try:
                older.append(measured(job, before))
            except JobError as fault:
                print(f"{name}: {commit} cannot run it: {fault}")
                before = None
        now.append(measured(job))
    yield from rows_of(name, now)
    if before is not None:
        yield from rows_of(name, older, BEFORE)
        yield from ratios(name, older, now, commit)


def kept_rows(small: bool) -> Iterator[Row]:
    """The sweep again in a fresh directory: what it takes where every ε has been computed before."""
    name, job = sweep_of_digits(small)
    pairs = list[tuple[Measured, Measured]]()
    for _ in range(1 if small else ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            pairs.append((measured(job, cache=folder), measured(job, cache=folder)))
    yield from rows_of(name, [again for _, again in pairs], KEPT)
    saved = [first.seconds["accounting"] / again.seconds["accounting"] for first, again in pairs]
    yield Row.of(NAME, name, f"accounting{KEPT}", FASTER, spread_of(saved), "nothing kept")


def rows(small: bool = False, against: str | None = None) -> Iterator[Row]:
    """All measurements; `against`: a commit or a checkout whose code runs alternately with today's."""
    with checkout_of(against) if against else nullcontext() as before:
        commit = "" if against is None else Path(against).name if Path(against).is_dir() else against
        for name, job in jobs(small):
            yield from job_rows(name, job, small, before, commit)
    yield from kept_rows(small)


def main() -> None:
    """Print a line a measurement."""
    for row in rows():
        print(row)


if __name__ == "__main__":
    main()
