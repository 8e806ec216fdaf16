"""Tasks, each for one replicate of one point of a sweep, and their queue.

A point is one combination of the swept values. Any process can run a task; no task raises an error.
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
    """One replicate of one point, as plain values that travel to any process.

    point: first 16 digits of the scenario's identity. replicate: the replicate's index.
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
            point: first 16 digits of the scenario's identity. replicate: the index. data_dir: where data files are.
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
            RunFailed: the scenario uses plug-ins whose code differs in this process.
        """
        from p2p_sim.replicate import Replicate

        scenario = _scenario(self.scenario, self.folder)
        case = Replicate(scenario, self.replicate, None if self.data_dir is None else Path(self.data_dir))
        if scenario.packages and not case.identity.startswith(self.point):
            _scenario.cache_clear()  # the cache may have classes of a module that was loaded again
            named = ", ".join(f"plug-in {name} {version}" for name, version in scenario.packages.items())
            raise RunFailed(
                f"{named}: a worker has other code (hash {case.identity[:8]} of the scenario, not {self.point[:8]}), "
                "since it was edited meanwhile or differs on that machine; run the command again"
            )
        return case


@lru_cache(maxsize=1)
def _scenario(text: str, folder: str) -> "Scenario":
    """The scenario in a JSON text, whose files are looked for in `folder`; the last one is kept."""
    from p2p_sim.scenario import Scenario

    return Scenario.from_tree(json.loads(text), Path(folder))


@dataclass(frozen=True)
class Done:
    """The result of a task: a row or an error; a `ShardsTask` has an Outcome in place of a row.

    error: one line. wall_s: seconds. terms: the conditions of the row's privacy bounds. fault: the exception behind
    the error, if there is one.
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
        """Yields results of all batches in any order; every task has exactly one result, whatever happens to workers.

        Batches are drawn only as workers become free, so that their sizes can follow the time that tasks took.
        """
        ...

    @property
    def workers(self) -> int:
        """The number of tasks that run at a time."""
        ...


def perform(batch: Batch) -> list[Done]:
    """The results of tasks, which are run one after another: the row of each or, if it fails, its error in one line."""
    from p2p_sim.replicate import row_alone

    return [attempt(task, lambda task: row_alone(task.case)) for task in batch]


def attempt(task: Task, compute: Callable[[Task], tuple[Any, Terms | None]]) -> Done:
    """The result of a task: the row that `compute` returns and its terms (the conditions of its privacy bounds; None
    if there are none), or the error that `compute` raises, and the seconds taken. Exceptions are caught, so that no
    exception of a task ends its worker.

    Args:
        task: one replicate of one setting. compute: takes the task and returns row and terms.
    """
    begin = time.perf_counter()
    try:
        row, terms = compute(task)
    except Exception as fault:
        return failed(task, fault, time.perf_counter() - begin)
    return Done(task, row, None, time.perf_counter() - begin, terms)


def failed(task: Task, fault: BaseException, wall_s: float) -> Done:
    """The result of a task that raised `fault` after `wall_s` seconds; its error is one line."""
    return Done(task, None, one_line(fault, 1000), wall_s, fault=fault)


def sent(result: Done) -> Done:
    """The result in a form that can be sent to another process: an exception's traceback becomes a note.

    If a plug-in raised the exception, the message names it, since only the traceback, which is lost, shows which one it
    was.
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
    """An exception in one line of at most `longest` characters, which names the plug-in if one raised it."""
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

    If the worker of a batch dies, any task of the batch may be the cause, so its tasks are sent again one by one. If a
    worker dies that had only one task, this task is the cause; after `attempts` such deaths it fails.
    """

    def __init__(self, batches: Iterator[Batch], attempts: int) -> None:
        self._batches, self._attempts = batches, attempts
        self._drawn: deque[Batch] = deque()
        self._suspects: deque[Batch] = deque()
        self._deaths: Counter[Task] = Counter()
        self._ended = False

    @property
    def over(self) -> bool:
        """Whether no work is left to hand out: all batches have been handed out, and no task of a batch whose worker
        died is waiting to be sent again.
        """
        return self._ended and not self._drawn and not self._suspects

    def draw(self, most: int) -> int:
        """Takes up to `most` further batches from the iterator of all batches into the queue of those that wait to be
        handed out, and returns how many wait now.
        """
        self._drawn.extend(islice(self._batches, most))
        self._ended = len(self._drawn) < most
        return len(self._drawn)

    def suspect(self) -> Batch | None:
        """Takes out the next task whose worker died, as a batch of this task alone; None if there is none. The task
        runs alone so that, if its worker dies again, only this task can be the cause.
        """
        return self._suspects.popleft() if self._suspects else None

    def fresh(self) -> Batch | None:
        """Take the next batch that no worker has begun; None if there is none."""
        if self._drawn:
            return self._drawn.popleft()
        batch = None if self._ended else next(self._batches, None)
        self._ended = batch is None
        return batch

    def back(self, batch: Batch) -> None:
        """Take back a batch that no worker began."""
        self._drawn.appendleft(batch)

    def lost(self, batch: Batch, alone: bool, wall_s: float, error: str) -> list[Done]:
        """Takes back a batch of tasks whose worker died. Its tasks are queued to run again one by one. There is one
        exception: a task that ran alone, and whose worker has now died as often as is allowed, fails. Returns a list
        with the result of the failed task, else an empty list.

        Args:
            batch: what the worker had begun. alone: whether only this batch can be the cause, since the worker had
            no other work. wall_s: seconds since the batch was sent. error: the reason for a failed task, in one
            line.
        """
        if alone and len(batch) == 1:
            self._deaths[batch[0]] += 1
            if self._deaths[batch[0]] >= self._attempts:
                return [Done(batch[0], None, error, wall_s)]
        self._suspects.extend((task,) for task in batch)
        return []
