"""Tasks and their queue. A task is one replicate of one point; a point is one combination of the swept values.

Any process can run a task. No task raises an error.
"""

import json
import pickle
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from p2p_sim.base import InputError, RunFailed, plug_in_failure, plug_in_fault
from p2p_sim.privacy import Terms

if TYPE_CHECKING:
    from p2p_sim.replicate import Replicate
    from p2p_sim.scenario import Scenario


@dataclass(frozen=True)
class Task:
    """One replicate of one point, as plain values that can be sent to any process.

    point: first 16 digits of the scenario's hash. replicate: the replicate's index.
    scenario: the scenario in JSON. folder, data_dir: the directories in which the scenario's files are looked for.
    """

    point: str
    replicate: int
    scenario: str
    folder: str
    data_dir: str | None = None

    @staticmethod
    def of(scenario: "Scenario", point: str, replicate: int, data_dir: Path | None) -> "Task":
        """The task of one replicate of a scenario.

        Args:
            point: first 16 digits of the scenario's hash. replicate: the index. data_dir: where data files are.
        """
        return Task(
            point,
            replicate,
            scenario=scenario.model_dump_json(),
            folder=str(scenario.folder),
            data_dir=None if data_dir is None else str(data_dir),
        )

    @property
    def case(self) -> "Replicate":
        """The replicate that the task runs.

        Raises:
            RunFailed: the code of a plug-in differs in this process.
        """
        from p2p_sim.replicate import Replicate

        scenario = _scenario(self.scenario, self.folder)
        case = Replicate(scenario, self.replicate, None if self.data_dir is None else Path(self.data_dir))
        if scenario.packages and not case.identity.startswith(self.point):
            _scenario.cache_clear()  # the cache may have old classes of a plug-in that was loaded again
            named = ", ".join(f"plug-in {name} {version}" for name, version in scenario.packages.items())
            raise RunFailed(
                f"{named}: a worker has other code (hash {case.identity[:8]} of the scenario, not {self.point[:8]}), "
                "because the code was edited or differs on that machine; run the command again"
            )
        return case


@lru_cache(maxsize=1)
def _scenario(text: str, folder: str) -> "Scenario":
    """The scenario in a JSON text, with files in `folder`. A cache keeps the last scenario."""
    from p2p_sim.scenario import Scenario

    return Scenario.from_tree(json.loads(text), Path(folder))


@dataclass(frozen=True)
class Done:
    """The result of a task: a row or an error. A `ShardsTask` has an Outcome in place of a row.

    error: one line. wall_s: time in seconds. terms: the conditions of the row's ε. fault: the exception, if any, behind
    the error.
    """

    task: Task
    row: Any
    error: str | None
    wall_s: float
    terms: Terms | None = None
    fault: BaseException | None = None


Batch = tuple[Task, ...]
Perform = Callable[[Batch], list[Done]]


class Executor(Protocol):
    """Runs batches of tasks somewhere."""

    def run(self, batches: Iterator[Batch], perform: Perform) -> Iterator[list[Done]]:
        """Yields the results of all batches, in any order. Every task has exactly one result, even if workers die.

        Batches are taken only as workers become free. So batch sizes can follow the times of earlier tasks.
        """
        ...

    @property
    def workers(self) -> int:
        """The number of tasks at a time."""
        ...


def perform(batch: Batch) -> list[Done]:
    """Run tasks one after another. The result of a task is a row or an error in one line."""
    from p2p_sim.replicate import row_alone

    return [attempt(task, lambda task: row_alone(task.case)) for task in batch]


def attempt(task: Task, compute: Callable[[Task], tuple[Any, Terms | None]]) -> Done:
    """The result of a task: the row that `compute` returns, or the error that `compute` raises. Exceptions are caught,
    so that a task cannot end the worker.

    Args:
        task: the task. compute: takes the task and returns the row, and the conditions of the row's ε or None.
    """
    begin = time.perf_counter()
    try:
        row, terms = compute(task)
    except Exception as fault:
        return failed(task, fault, time.perf_counter() - begin)
    return Done(task, row, None, time.perf_counter() - begin, terms)


def failed(task: Task, fault: BaseException, wall_s: float) -> Done:
    """The result of a task that raised `fault` after `wall_s` seconds. The error is one line."""
    return Done(task, None, one_line(fault, 1000), wall_s, fault=fault)


def sent(result: Done) -> Done:
    """The result in a form that can be sent to another process. The traceback of an exception becomes a note.

    A result without an exception stays unchanged. If a plug-in raised the exception, the message names the plug-in.
    """
    fault = result.fault
    if fault is None:
        return result
    if (text := plug_in_failure(fault)) is not None:
        fault = RunFailed(text)
    elif not isinstance(fault, InputError | RunFailed | OSError | MemoryError):
        fault.add_note("".join(["in a worker process:\n", *traceback.format_exception(fault)]))
    try:
        pickle.loads(pickle.dumps(fault))
    except Exception:
        fault = RunFailed(str(result.error))
    return replace(result, fault=fault)


def one_line(fault: BaseException, longest: int = 300) -> str:
    """An exception in one line of at most `longest` characters. An exception of a plug-in names the plug-in."""
    if not isinstance(fault, InputError) and (named := plug_in_fault(fault)) is not None:
        return named[:longest]
    return " ".join(f"{type(fault).__name__}: {fault}".split())[:longest]


class Serial:
    """Runs all tasks in this process, one batch after another."""

    workers = 1

    def run(self, batches: Iterator[Batch], perform: Perform) -> Iterator[list[Done]]:
        """Yields the results of each batch, in the order of the batches."""
        for batch in batches:
            yield perform(batch)


class TaskQueue:
    """Batches that wait for a worker, and batches whose worker died.

    If a worker dies, any task of its batch may be the cause. So the tasks of the batch are sent again one by one. A
    task fails after `attempts` deaths of workers that had only this task.
    """

    def __init__(self, batches: Iterator[Batch], attempts: int) -> None:
        self._batches, self._attempts = batches, attempts
        self._drawn: deque[Batch] = deque()
        self._suspects: deque[Batch] = deque()
        self._deaths: Counter[Task] = Counter()
        self._ended = False

    @property
    def over(self) -> bool:
        """Whether all work is handed out: no new batch is left, and no task waits to run again."""
        return self._ended and not self._drawn and not self._suspects

    def draw(self, most: int) -> int:
        """Take up to `most` batches from the iterator into the queue, and return the length of the queue."""
        self._drawn.extend(islice(self._batches, most))
        self._ended = len(self._drawn) < most
        return len(self._drawn)

    def suspect(self) -> Batch | None:
        """Take the next task whose worker died, as a batch of one task. None if there is no such task."""
        return self._suspects.popleft() if self._suspects else None

    def fresh(self) -> Batch | None:
        """Take the next batch that no worker has begun. None if there is no such batch."""
        if self._drawn:
            return self._drawn.popleft()
        batch = None if self._ended else next(self._batches, None)
        self._ended = batch is None
        return batch

    def back(self, batch: Batch) -> None:
        """Take back a batch that no worker began."""
        self._drawn.appendleft(batch)

    def lost(self, batch: Batch, alone: bool, wall_s: float, error: str) -> list[Done]:
        """Take back a batch whose worker died, and queue the batch's tasks one by one. A task that ran alone fails
        after `attempts` deaths. Return the failed result, if any, in a list.

        Args:
            batch: the batch of the dead worker. alone: whether the worker had no other work. wall_s: seconds since the
            batch was sent. error: the reason for a failed task, in one line.
        """
        if alone and len(batch) == 1:
            self._deaths[batch[0]] += 1
            if self._deaths[batch[0]] >= self._attempts:
                return [Done(batch[0], None, error, wall_s)]
        self._suspects.extend((task,) for task in batch)
        return []
