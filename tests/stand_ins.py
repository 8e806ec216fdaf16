"""Stand-ins for the work of a sweep, some of which kill their worker; they run in other processes."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from p2p_sim.sweeps.tasks import Batch, Done, Executor, Task

POISON = 7
"""The replicate that kills its worker."""


def tasks(count: int, folder: str = "") -> list[Task]:
    """Tasks without a scenario."""
    return [Task("0" * 16, replicate, "{}", folder) for replicate in range(count)]


def batches(many: list[Task], size: int = 4) -> Iterator[Batch]:
    """The tasks in order, `size` at a time."""
    for start in range(0, len(many), size):
        yield tuple(many[start : start + size])


def square(batch: Batch) -> list[Done]:
    """A row for each task; every fifth has none."""
    return [_done(task) for task in batch]


def slow_square(batch: Batch) -> list[Done]:
    """The same, after 50 ms for each task."""
    time.sleep(0.05 * len(batch))
    return square(batch)


def poisoned(batch: Batch) -> list[Done]:
    """One task ends its worker each time."""
    if any(task.replicate == POISON for task in batch):
        os._exit(9)
    return slow_square(batch)


def killed(batch: Batch) -> list[Done]:
    """One task has its worker killed each time."""
    if any(task.replicate == POISON for task in batch):
        os.kill(os.getpid(), signal.SIGKILL)
    return slow_square(batch)


def remembered(batch: Batch) -> list[Done]:
    """Leave the process id in the folder of the tasks, then take 50 ms each."""
    (Path(batch[0].folder) / str(os.getpid())).touch()
    return slow_square(batch)


def endless(batch: Batch) -> list[Done]:
    """Leave the process id in the folder of the tasks, then never end."""
    (Path(batch[0].folder) / str(os.getpid())).touch()
    while True:
        time.sleep(0.1)


def _done(task: Task) -> Done:
    if task.replicate % 5 == 4:
        return Done(task, None, "ValueError: planted", 0.0)
    return Done(task, {"replicate": task.replicate, "square": task.replicate**2}, None, 0.0)


def collect(executor: Executor, many: list[Task], work: Callable[[Batch], list[Done]], size: int = 4) -> list[Done]:
    """All results, in the order of the tasks; fails if one is missing or comes twice."""
    found = [done for some in executor.run(batches(many, size), work) for done in some]
    came = sorted(found, key=lambda done: done.task.replicate)
    assert [done.task for done in came] == many
    return came


def alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(true: Callable[[], bool], most_s: float = 15.0) -> bool:
    """Whether it became true in time."""
    end = time.monotonic() + most_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def pids(folder: Path) -> list[int]:
    """Processes that left their id."""
    return [int(path.name) for path in folder.iterdir()]


if __name__ == "__main__":
    from p2p_sim.sweeps.local_workers import LocalProcesses
    from tests import stand_ins  # workers do not know the main module

    collect(LocalProcesses(2, imports="tests.stand_ins"), tasks(8, sys.argv[1]), stand_ins.endless, 1)
