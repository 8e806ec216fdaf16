"""A session: tasks that are run in one results directory. What finishes is kept, and whatever stops it says how much.

Every driver goes the same way: advice, an open directory, a manifest, tasks, and rows in their order at the end.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from p2p_sim.base.errors import RunFailed
from p2p_sim.replicate.advice import advice
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.results.rows import Row, Store, open_store
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps.tasks import Batch, Done, Executor, Perform, Task


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with one line that says what is kept."""


def warn(scenario: Scenario, data_dir: Path | None) -> None:
    """Warn of what is likely not meant by a scenario."""
    for line in advice(Replicate(scenario, data_dir=data_dir)):
        warnings.warn(line, stacklevel=3)


@dataclass
class Session:
    """Work in an open results directory; use `open_session` to get one.

    store: its rows. executor: who runs tasks. done, wanted: how far it is, as whatever stops it says.
    first_error: of replicates that could not be run.
    """

    store: Store
    executor: Executor
    done: int = 0
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
        """Run tasks and write down what comes back, rows and failures.

        Args:
            work: what runs a batch of tasks.
            columns: what the row of a task has besides its replicate's own.
            noted: called with results that are on disk, their rows complete.
            stop: whether the first failure ends it and is returned; what is under way beside it is dropped.
        """
        for results in self.executor.run(batches, work):
            good = [replace(d, row={**d.row, **columns(d.task)}) for d in results if d.row is not None]
            bad = [done for done in results if done.row is None]
            if good:
                self.store.append([done.row for done in good], [d.wall_s for d in good], [d.terms for d in good])
            if bad and stop:
                return bad[0]
            for done in bad:
                fault = {"point": done.task.point, "replicate": done.task.replicate, "error": done.error}
                self.fail({**fault, **columns(done.task)})
            noted([*good, *bad])
        return None

    def fail(self, record: Row) -> None:
        """Note a replicate that could not be run, and why."""
        self.first_error = self.first_error or str(record["error"])
        self.store.fail(record)


@contextmanager
def open_session(
    directory: Path, identity: str, executor: Executor, *, check: Callable[[Row], None], wanted: int
) -> Iterator[Session]:
    """Open a results directory for work, alone.

    Args:
        directory, identity, check: as for `open_store`. executor, wanted: see `Session`.

    Raises:
        RunFailed, Interrupted: in place of a RunFailed, of a KeyboardInterrupt: they say how many replicates are kept.
    """
    with open_store(directory, identity, check) as store:
        session = Session(store, executor, wanted=wanted)
        try:
            yield session
        except RunFailed as error:
            raise RunFailed(f"{error}; {kept(session.done, session.wanted)}") from None
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; {kept(session.done, session.wanted)}") from None


def kept(done: int, wanted: int) -> str:
    """How many replicates are on disk.

    >>> kept(3, 20), kept(0, 20)
    ('3 of 20 replicates are finished and kept: run the same again to go on', 'none of 20 replicates is finished')
    """
    if not done:
        return f"none of {wanted:,} replicates is finished"
    return f"{done:,} of {wanted:,} replicates are finished and kept: run the same again to go on"
