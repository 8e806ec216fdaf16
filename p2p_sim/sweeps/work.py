"""The unit of work: one replicate of one point, run anywhere, never raising."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from analysis.privacy.statement.record import Terms

if TYPE_CHECKING:
    from p2p_sim.replicate.run import Result


@dataclass(frozen=True)
class Task:
    """One replicate of one point, as plain values that travel to any process.

    point: first 16 digits of the scenario's identity; replicate: its index.
    scenario: the scenario in JSON; folder, data_dir: where the files it names are looked for.
    """

    point: str
    replicate: int
    scenario: str
    folder: str
    data_dir: str | None = None


@dataclass(frozen=True)
class Done:
    """Result of a task: a row (of a part of a replicate: an outcome) or an error.

    wall_s: seconds. terms: what is said of the row's figures besides the numbers.
    """

    task: Task
    row: Any
    error: str | None
    wall_s: float
    terms: Terms | None = None


Batch = tuple[Task, ...]
Perform = Callable[[Batch], list[Done]]


class Executor(Protocol):
    """Runs batches of tasks somewhere."""

    def run(self, batches: Iterator[Batch], perform: Perform) -> Iterator[list[Done]]:
        """Results of all batches, in any order; every task comes back exactly once, whatever happens to workers.

        Batches are drawn only as workers become free, so that their sizes can follow what tasks were seen to cost.
        """
        ...

    @property
    def workers(self) -> int:
        """How many tasks run at a time."""
        ...


def perform(batch: Batch) -> list[Done]:
    """Run tasks one after another; an error becomes one line."""
    return [_one(task) for task in batch]


def _one(task: Task) -> Done:
    begin = time.perf_counter()
    try:
        result = _result(task)
    except Exception as fault:
        return Done(task, None, fault_line(fault), time.perf_counter() - begin)
    return Done(task, result.row, None, time.perf_counter() - begin, result.terms)


def fault_line(fault: BaseException) -> str:
    """An error in one line."""
    return " ".join(f"{type(fault).__name__}: {fault}".split())[:1000]


def _result(task: Task) -> "Result":
    import json

    from p2p_sim.replicate.run import run
    from p2p_sim.scenario import Scenario

    scenario = Scenario.from_tree(json.loads(task.scenario), Path(task.folder))
    return run(scenario, task.replicate, None if task.data_dir is None else Path(task.data_dir))


class Serial:
    """Runs everything here, one batch after another."""

    workers = 1

    def run(self, batches: Iterator[Batch], perform: Perform) -> Iterator[list[Done]]:
        """Results in the order of the batches."""
        for batch in batches:
            yield perform(batch)
