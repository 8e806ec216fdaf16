"""A session: tasks whose rows are written to one results directory. If a session is stopped, an error states how many
replicates are kept.

A run, a sweep and a search take the same steps: they give advice, open the directory, write a manifest, run tasks, and
sort the rows.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from p2p_sim.base import InputError, RunFailed
from p2p_sim.replicate import Replicate, Row
from p2p_sim.replicate.advice import advice
from p2p_sim.results import Store, open_store
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps.tasks import Batch, Done, Executor, Perform, Task


class Interrupted(KeyboardInterrupt):
    """Raised on Ctrl-C; its text is one line that states what is kept."""


def warn(scenario: Scenario, data_dir: Path | None, *, replaceable: bool = False) -> None:
    """Warn of settings in a scenario that are probably mistakes: a Python warning for each, which says how to avoid the
    mistake.

    Args:
        scenario: the scenario. data_dir: where data files are. replaceable: whether an InputError about an invalid
        value is ignored; this is for the base scenario of a sweep, since the sweep's points may replace the value.
    """
    try:
        lines = advice(Replicate(scenario, data_dir=data_dir))
    except InputError:
        if not replaceable:
            raise
        return
    for line in lines:
        warnings.warn(line, stacklevel=3)


@dataclass
class Session:
    """Work in an open results directory; use `open_session` to get one.

    store: the directory's rows. executor: runs the tasks. finished, wanted: how many replicates are finished, and how
    many there should be; an error states both if the work is stopped. first_error: the text of the error of the first
    replicate that could not be run; empty if there is none.
    """

    store: Store
    executor: Executor
    finished: int = 0
    wanted: int = 0
    first_error: str = ""

    def run(
        self,
        batches: Iterator[Batch],
        work: Perform,
        *,
        columns: Callable[[Task], Mapping[str, Any]],
        noted: Callable[[Sequence[Done]], None],
        stop: bool = False,
    ) -> Done | None:
        """Runs tasks, each of which is one replicate, and writes their rows and failures into the results directory as
        soon as they come; returns the failure that ended the work, or None.

        Args:
            batches: groups of tasks; a worker gets a whole group at once. work: runs a batch and returns a result for
            each task, a row or an error. columns: gives, for a task, the columns that its row has besides those of its
            replicate, such as the values of swept keys. noted: called with results after their rows and failures are on
            disk; the rows then include the added columns. stop: whether the first failure ends the work and is
            returned. It is then not written, and the results of other tasks that still run are dropped.
        """
        for results in self.executor.run(batches, work):
            # rows are written first, so that a failure in the same batch loses none of them
            rows = [replace(each, row={**each.row, **columns(each.task)}) for each in results if each.row is not None]
            self.store.append(
                [each.row for each in rows], [each.wall_s for each in rows], [each.terms for each in rows]
            )
            failures = [each for each in results if each.row is None]
            if failures and stop:
                return failures[0]
            for failure in failures:
                self.fail(
                    {
                        "point": failure.task.point,
                        "replicate": failure.task.replicate,
                        "error": failure.error,
                        **columns(failure.task),
                    }
                )
            noted([*rows, *failures])
        return None

    def fail(self, record: Row) -> None:
        """Record a replicate that could not be run, on disk.

        Args:
            record: the replicate's point, its index ("replicate"), the error, and values of swept keys.
        """
        self.first_error = self.first_error or str(record["error"])
        self.store.fail(record)


@contextmanager
def open_session(
    directory: Path, identity: str, executor: Executor, *, check: Callable[[Row], None], wanted: int
) -> Iterator[Session]:
    """A context manager that gives a session in a results directory. No other process can write to the directory
    meanwhile.

    Args:
        directory: of the results. identity: hash of the run, sweep or search; results already in the directory must
        have the same hash. executor: runs the tasks. check: raises an InputError for a row on disk that belongs to
        other work. wanted: number of replicates that there should be, for an error's text.

    Raises:
        RunFailed, Interrupted: the work failed or was interrupted; the error says how many replicates are kept.
    """
    with open_store(directory, identity, check) as store:
        session = Session(store, executor, wanted=wanted)
        try:
            yield session
        except RunFailed as error:
            raise RunFailed(f"{error}; {progress_text(session.finished, session.wanted)}") from None
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; {progress_text(session.finished, session.wanted)}") from None


def progress_text(finished: int, wanted: int) -> str:
    """A clause that states how many of the wanted replicates are on disk.

    >>> progress_text(3, 20), progress_text(0, 20)
    ('3 of 20 replicates are finished and kept: run the same again to go on', 'none of 20 replicates is finished')
    """
    if not finished:
        return f"none of {wanted:,} replicates is finished"
    return f"{finished:,} of {wanted:,} replicates are finished and kept: run the same again to go on"
