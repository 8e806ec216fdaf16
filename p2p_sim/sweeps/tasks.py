"""The unit of work: one replicate of one point, run anywhere, never raising."""

import json
import pickle
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from p2p_sim.base.errors import InputError, RunFailed
from p2p_sim.base.plugins import plug_in_failure, plug_in_fault
from p2p_sim.privacy.statement_record import Terms

if TYPE_CHECKING:
    from p2p_sim.replicate.replicate import Replicate
    from p2p_sim.scenario import Scenario


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

    @property
    def case(self) -> "Replicate":
        """The replicate.

        Raises:
            RunFailed: it uses plug-ins whose code is not the same here.
        """
        from p2p_sim.replicate.replicate import Replicate

        scenario = _scenario(self.scenario, self.folder)
        case = Replicate(scenario, self.replicate, None if self.data_dir is None else Path(self.data_dir))
        if scenario.packages and not case.identity.startswith(self.point):
            _scenario.cache_clear()  # it may hold classes of a module that was loaded again
            named = ", ".join(f"plug-in {name} {version}" for name, version in scenario.packages.items())
            raise RunFailed(
                f"{named}: a worker has other code (hash {case.identity[:8]} of the scenario, not {self.point[:8]}), "
                "since it was edited meanwhile or differs on that machine; run the command again"
            )
        return case


@lru_cache(maxsize=1)
def _scenario(text: str, folder: str) -> "Scenario":
    from p2p_sim.scenario import Scenario

    return Scenario.from_tree(json.loads(text), Path(folder))


@dataclass(frozen=True)
class Done:
    """Result of a task: a row (of a part of a replicate: an outcome) or an error.

    wall_s: seconds. terms: what is said of the row's figures besides the numbers. fault: what was raised, if anything.
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
    return [done(task, _result) for task in batch]


def done(task: Task, compute: Callable[[Task], tuple[Any, Terms | None]]) -> Done:
    """What a function gives for a task, its row and the terms, or its error in one line."""
    begin = time.perf_counter()
    try:
        row, terms = compute(task)
    except Exception as fault:
        return failed(task, fault, time.perf_counter() - begin)
    return Done(task, row, None, time.perf_counter() - begin, terms)


def failed(task: Task, fault: BaseException, wall_s: float) -> Done:
    """The result of a task that raised something."""
    return Done(task, None, one_line(fault, 1000), wall_s, fault=fault)


def sent(result: Done) -> Done:
    """A result as another process can take it: a fault whose traceback says something has it as a note.

    A plug-in's fault is named here, since the traceback, which tells whose it is, stays behind.
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
    """What went wrong, in one line; in a plug-in, where."""
    if not isinstance(fault, InputError) and (named := plug_in_fault(fault)) is not None:
        return named[:longest]
    return " ".join(f"{type(fault).__name__}: {fault}".split())[:longest]


def _result(task: Task) -> tuple[Any, Terms]:
    from p2p_sim.replicate.streamed import row_alone

    return row_alone(task.case)


class Serial:
    """Runs everything here, one batch after another."""

    workers = 1

    def run(self, batches: Iterator[Batch], perform: Perform) -> Iterator[list[Done]]:
        """Results in the order of the batches."""
        for batch in batches:
            yield perform(batch)
