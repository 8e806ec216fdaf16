"""A session runs tasks and writes their rows to one results directory. A run, a sweep and a search use sessions.

If a session is stopped, an error states how many replicates are kept.
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
    """Raised on Ctrl-C. The message is one line about the replicates that are kept."""


def warn(scenario: Scenario, data_dir: Path | None, *, replaceable: bool = False) -> None:
    """Give a Python warning for each setting of a scenario that is probably a mistake. The warning suggests a remedy.

    Args:
        scenario: the scenario. data_dir: where data files are. replaceable: whether an invalid value gives no
        warnings, instead of an InputError. The points of a sweep may replace such a value.
    """
    try:
        for line in advice(Replicate(scenario, data_dir=data_dir)):
            warnings.warn(line, stacklevel=3)
    except InputError:
        if not replaceable:
            raise


@dataclass
class Session:
    """Work in an open results directory. Use `open_session` to get a session.

    store: the directory's rows. executor: runs the tasks. finished, wanted: numbers of finished and wanted replicates,
    for errors. first_error: the error of the first replicate that could not be run, or an empty text.
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
        """Run tasks, each for one replicate. Write rows and failures to disk as soon as results come. Return the
        failure that ended the work, or None.

        Args:
            batches: groups of tasks; a worker gets a whole group. work: runs a batch and returns a result for each
            task, a row or an error. columns: gives additional columns for the row of a task, such as the values of
            swept keys. noted: called with results after they are on disk, with the additional columns. stop: whether
            the first failure ends the work. This failure is returned but not written, and unfinished tasks are lost.
        """
        for results in self.executor.run(batches, work):
            # rows are written first, so that a failure in the same batch loses no row
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
        """Write down a replicate that could not be run.

        Args:
            record: the point, the replicate's index ("replicate"), the error, and values of swept keys.
        """
        self.first_error = self.first_error or str(record["error"])
        self.store.fail(record)


@contextmanager
def open_session(
    directory: Path, identity: str, executor: Executor, *, check: Callable[[Row], None], wanted: int
) -> Iterator[Session]:
    """Open a session in a results directory. Meanwhile no other process can write to the directory.

    Args:
        directory: the results directory. identity: hash of the run, sweep or search; results on disk must have the same
        hash. executor: runs the tasks. check: raises an InputError for a row of other work. wanted: number of wanted
        replicates, for errors.

    Raises:
        RunFailed, Interrupted: the work failed or was interrupted. The message says how many replicates are kept.
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
