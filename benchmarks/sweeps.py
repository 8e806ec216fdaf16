"""Executors of sweeps: 400 points of 50 ms, four a batch, on two workers, as a share of the ideal speed-up.

A point is a busy loop of 50 ms of processor time, so that sharing a core counts as slow; ideally two workers take half
of 400 times 50 ms. The clock starts when 40 points are done, so that workers are started and have imported everything.
Two bare processes that loop through 200 points each say what the machine allows at that moment.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.table import SHARE, Row
from benchmarks.timing import spread_of
from p2p_sim.sweeps.local_workers import LocalProcesses
from p2p_sim.sweeps.tasks import Batch, Done, Executor, Task

NAME = "sweeps"
POINTS, WARM, BATCH, WORKERS, ROUNDS = 400, 40, 4, 2, 3
POINT_S = 0.05


def loop(points: int) -> None:
    """Busy for 50 ms of processor time a point."""
    for _ in range(points):
        end = time.process_time() + POINT_S
        while time.process_time() < end:
            pass


def perform(batch: Batch) -> list[Done]:
    """Loop instead of running scenarios."""
    loop(len(batch))
    return [Done(task, {"scenario": task.point}, None, POINT_S * len(batch)) for task in batch]


def batches(points: int) -> Iterator[Batch]:
    """So many points after those that warm up, four a batch."""
    for first in range(0, WARM + points, BATCH):
        yield tuple(Task(f"{i:016x}", 0, "{}", ".") for i in range(first, first + BATCH))


def executor_seconds(executor: Executor, points: int) -> float:
    """Seconds for the points after the first 40."""
    done, begin = 0, 0.0
    for results in executor.run(batches(points), perform):
        done += len(results)
        if done == WARM:
            begin = time.perf_counter()
    return time.perf_counter() - begin


def _bare(barrier, points: int) -> None:
    loop(WARM // WORKERS)
    barrier.wait()
    loop(points // WORKERS)
    barrier.wait()


def bare_seconds(points: int) -> float:
    """Seconds for the points in processes that need nobody."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(WORKERS + 1)
    processes = [context.Process(target=_bare, args=(barrier, points)) for _ in range(WORKERS)]
    for process in processes:
        process.start()
    barrier.wait()
    begin = time.perf_counter()
    barrier.wait()
    wall = time.perf_counter() - begin
    for process in processes:
        process.join()
    return wall


@contextmanager
def loopback() -> Iterator[str]:
    """A scheduler and two workers on loopback, by the commands of docs/many-machines.md; the scheduler file."""
    from p2p_sim.sweeps.dask_workers import DaskWorkers  # here, so that bare processes start sooner

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        common = ["--scheduler-file", str(file), "--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"]
        common.append("--no-dashboard")
        workers = ["--nthreads", "1", "--nworkers", str(WORKERS), "--local-directory", folder]
        alone = ["--idle-timeout", "60 minutes"], ["--death-timeout", "60"]  # should this process be killed
        commands = ["scheduler", "--port", "0", *alone[0], *common], ["worker", *workers, *alone[1], *common]
        started = [
            subprocess.Popen([sys.executable, "-m", "dask", *c], stderr=subprocess.DEVNULL, start_new_session=True)
            for c in commands
        ]
        try:
            while not file.exists():
                time.sleep(0.1)
            executor = DaskWorkers(str(file), connect_s=30)
            while executor.workers < WORKERS:
                time.sleep(0.1)
            executor.close()
            yield str(file)
        finally:
            for process in started:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def shares(executors: dict[str, Executor], points: int, rounds: int) -> Iterator[Row]:
    """Shares of the ideal speed-up, by the wall clock, and of what bare processes reach beside them."""
    found: dict[str, list[tuple[float, float]]] = {}
    ideal_s = points * POINT_S / WORKERS
    for _ in range(rounds):
        bare = bare_seconds(points)
        found.setdefault("two bare processes", []).append((ideal_s / bare, 1.0))
        for name, executor in executors.items():
            wall = executor_seconds(executor, points)
            found.setdefault(name, []).append((ideal_s / wall, bare / wall))
    setting = f"{points} points of {1e3 * POINT_S:.0f} ms on {WORKERS} workers"
    for name, pairs in found.items():
        ideal, machine = (spread_of(list(values)) for values in zip(*pairs, strict=True))
        yield Row.of(NAME, name, setting, SHARE, ideal, "ideal speed-up")
        if name in executors:
            yield Row.of(NAME, f"{name} over bare processes", setting, SHARE, machine, "bare processes")


def rows(small: bool = False) -> Iterator[Row]:
    """Two local processes, and two Dask workers unless this is a small run."""
    local = {"two local processes": LocalProcesses(WORKERS)}
    if small:
        yield from shares(local, 4 * BATCH, 1)
        return
    from p2p_sim.sweeps.dask_workers import DaskWorkers

    with loopback() as file:
        yield from shares({**local, "two Dask workers": DaskWorkers(file)}, POINTS, ROUNDS)


def main() -> None:
    """Print a line a measurement."""
    for row in rows():
        print(row)


if __name__ == "__main__":
    main()
