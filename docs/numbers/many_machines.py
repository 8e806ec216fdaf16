"""docs/many-machines.md: settings of the executors and of Dask, as they are."""

from collections.abc import Iterator

from docs.numbers.page import Page, Source
from p2p_sim.sweep.local import LocalProcesses


def attempts() -> Iterator[str]:
    """How often a replicate may kill its worker."""
    yield f"`killed its worker {LocalProcesses(1).attempts} times`"


def dask() -> Iterator[str]:
    """Dask's own settings."""
    import dask
    import distributed  # noqa: F401  # brings its settings along

    yield f"Dask restarts a worker that needs {dask.config.get('distributed.worker.memory.terminate'):.0%} of this"
    yield f"({dask.config.get('distributed.scheduler.allowed-failures') + 1} with Dask: its setting"


PAGE = Page(
    "docs/many-machines.md",
    (
        Source(
            "p2p-sim sweep SWEEP.toml --workers 2",
            "test_executors.py::test_a_task_that_kills_its_worker_is_given_up_and_no_other",
            attempts,
        ),
        Source(
            "p2p-sim sweep SWEEP.toml --dask sched.json",
            "test_dask.py::test_a_task_that_kills_its_dask_worker_is_given_up_and_no_other",
            dask,
        ),
    ),
)
