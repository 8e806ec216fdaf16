"""The driver of a sweep: hands out what is missing, keeps what comes back, never stops for one failure."""

import contextlib
import itertools
import statistics
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from p2p_sim.base.errors import InputError, count_of, optional_path
from p2p_sim.base.notebook_view import count
from p2p_sim.measures.point_means import derived
from p2p_sim.replicate.advice import advice
from p2p_sim.replicate.replicate import Replicate, scenario_of
from p2p_sim.results.rows import FAILURES, ROWS, Row, Store, open_store, write_manifest
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps.default_directory import default_directory
from p2p_sim.sweeps.interrupts import counted
from p2p_sim.sweeps.plan import Point, SweepPlan, make_plan
from p2p_sim.sweeps.sweep_file import axes_of, plots_of
from p2p_sim.sweeps.tasks import Batch, Done, Executor, Perform, Serial, Task, perform

BATCH_S = 0.5
"""Small tasks are handed out in batches of about this many seconds."""
LARGEST_BATCH = 64
LOADING_S = 10.0
"""The first replicate of a worker also loads libraries; its time counts if it is longer than this."""
LONGEST_ERROR = 300
"""Characters of an error that are shown."""


@dataclass
class Progress:
    """Where a sweep stands.

    points, replicates: of the whole sweep; done: replicates on disk; failed: replicates that could not be run.
    task_s: mean seconds of a replicate, once some are done: of short ones, without the first of each worker, which
    loads libraries. workers: how many run at a time.
    """

    points: int
    replicates: int
    done: int
    failed: int = 0
    task_s: float | None = None
    workers: int = 1

    @property
    def remaining_s(self) -> float | None:
        """Estimated time to the end, seconds."""
        if self.task_s is None:
            return None
        return self.task_s * max(self.replicates - self.done - self.failed, 0) / self.workers


Report = Callable[[Progress], None]


@dataclass(frozen=True, repr=False)
class SweepResult:
    """A finished sweep.

    directory: of the results. rows: of the points and replicates that were asked for. failed: replicates that could
    not be run. more: rows on disk that were not asked for: of other values, or of more replicates.
    """

    directory: Path
    rows: pd.DataFrame
    failed: int
    more: int = 0

    def __repr__(self) -> str:
        """What is where, in one line."""
        counts = (
            f"{count(self.rows['scenario'].nunique(), 'point')}, {count(len(self.rows), 'row')}, {self.failed:,} failed"
        )
        return f"SweepResult({str(self.directory)!r}, {counts}, {self.more:,} more on disk)"


@dataclass
class _Driver:
    plan: SweepPlan
    store: Store
    report: Report | None
    cold: int
    scenarios: dict[str, str] = field(default_factory=dict)
    times: deque[float] = field(default_factory=lambda: deque(maxlen=50))
    first_error: str = ""

    @property
    def points(self) -> dict[str, Point]:
        """Every point under its identity."""
        return self.plan.identified

    @property
    def held(self) -> int:
        """How many of the wanted replicates are on disk."""
        return sum(self.store.has(*key) for key in itertools.product(self.points, range(self.plan.replicates)))

    def tasks(self) -> Iterator[Task]:
        """Missing replicates: everybody's first, everybody's second, and so on."""
        for replicate, identity in itertools.product(range(self.plan.replicates), self.points):
            if not self.store.has(identity, replicate):
                yield self.task(identity, replicate)

    def task(self, identity: str, replicate: int) -> Task:
        """One replicate of one point as plain values."""
        data = None if self.plan.data_dir is None else str(self.plan.data_dir)
        text = self.scenarios.get(identity)
        if text is None:
            if len(self.scenarios) > 1000:
                self.scenarios.clear()
            text = self.plan.scenario(self.points[identity]).model_dump_json()
            self.scenarios[identity] = text
        return Task(identity, replicate, text, str(self.plan.base.folder), data)

    def batches(self, tasks: Iterator[Task]) -> Iterator[Batch]:
        """Tasks in batches whose size follows what tasks were seen to take."""
        while True:
            size = 1
            if self.times:
                size = int(min(max(BATCH_S / max(statistics.fmean(self.times), 1e-4), 1), LARGEST_BATCH))
            batch = tuple(task for _, task in zip(range(size), tasks, strict=False))
            if not batch:
                return
            yield batch

    def keep(self, results: Sequence[Done], progress: Progress) -> None:
        """Write down what came back."""
        good = [done for done in results if done.row is not None]
        rows = [{**(done.row or {}), **self.points[done.task.point].columns} for done in good]
        if rows:
            self.store.append(rows, [done.wall_s for done in good], [done.terms for done in good])
        for done in results:
            if done.row is None:
                columns = dict(self.points[done.task.point].columns)
                fault = {"point": done.task.point, "replicate": done.task.replicate, "error": done.error}
                self.store.fail({**fault, **columns})
                self.first_error = self.first_error or str(done.error)
                progress.failed += 1
        for done in results:
            self.cold -= 1
            if self.cold < 0 or done.wall_s > LOADING_S:
                self.times.append(done.wall_s)
        progress.done += len(rows)
        if self.times:
            progress.task_s = statistics.fmean(self.times)
        if self.report:
            self.report(progress)


def run_sweep(
    plan: SweepPlan,
    out: Path | None = None,
    executor: Executor | None = None,
    report: Report | None = None,
    work: Perform = perform,
) -> SweepResult:
    """Run what is missing of a sweep and return the rows that it asks for; running again goes on.

    Args:
        plan: what to run.
        out: results directory; default results/<name>-<hash8> below the current directory.
        executor: where to run; default: here, one after another.
        report: told where the sweep stands, before the first and after every batch.
        work: what runs a batch of tasks.
    """
    chosen = executor or Serial()
    identity = plan.sweep_identity
    directory = out or default_directory(plan.name, identity)
    with contextlib.suppress(InputError):  # points may replace what does not fit in the base scenario
        for line in advice(Replicate(plan.base, data_dir=plan.data_dir)):
            warnings.warn(line, stacklevel=2)

    def check(row: Row) -> None:
        missing = [key for key in plan.keys if key not in row]
        if missing:
            raise InputError(f"{directory / ROWS}: a row without {missing[0]} is of another sweep")

    with open_store(directory, identity, check) as store, ExitStack() as stop:
        driver = _Driver(plan, store, report, chosen.workers)
        total = len(driver.points) * plan.replicates
        progress = Progress(len(driver.points), total, driver.held, workers=chosen.workers)
        stop.enter_context(counted(lambda: (progress.done, progress.replicates)))
        replicates = max(plan.replicates, store.replicates)
        write_manifest(directory, plan.name, plan.base, identity, replicates, plan.packages, _described(plan))
        if report:
            report(progress)
        for results in chosen.run(driver.batches(driver.tasks()), work):
            driver.keep(results, progress)
        if not driver.held:
            error = driver.first_error[:LONGEST_ERROR]
            raise InputError(f"{directory}: no replicate could be run; the first of {FAILURES} says: {error}")
        order = {point: index for index, point in enumerate(driver.points)}
        rows = store.finish(
            lambda row: (order.get(row["scenario"], len(order)), row["scenario"]),
            lambda row: plan.asks_for(row["scenario"], row["replicate"]),
        )
    return SweepResult(directory, rows, progress.failed, store.size - len(rows))


def _described(plan: SweepPlan) -> dict[str, Any]:
    """The sweep as its manifest says it."""
    axes = [
        {"keys": list(axis.names), "values": [list(step) for step in steps], "labels": axis.labels}
        for axis, steps in zip(plan.axes, plan.steps, strict=True)
    ]
    plots = [plot.model_dump() for plot in plan.plots]
    return {"axes": axes, "plots": plots}


def sweep(
    base: Scenario | str | Path,
    axes: Mapping[str, Sequence[Any]],
    replicates: int | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    data_dir: str | Path | None = None,
    plots: Sequence[Mapping[str, Any]] = (),
) -> pd.DataFrame:
    """Run a base scenario over all combinations of some values and return their rows; running again resumes.

    Rows on disk of other values or of more replicates stay there; `load_results` returns them too. Workers do not
    import the caller's main module, so that a script needs no `if __name__ == "__main__"`.

    Args:
        base: the scenario, the path of its file, or the name of a shipped one.
        axes: dotted keys and their values.
        replicates: of each point; None: the base scenario's.
        out: results directory; default results/<name>-<hash8> below the current directory.
        workers: local processes; 1: this one.
        data_dir: where data files are; default: the environment variable P2P_SIM_DATA.
        plots: what `p2p-sim plot` draws, such as {"x": "epsilon_upper", "y": "error_rate"}.

    Returns:
        A frame, one row a replicate; its `attrs["directory"]` is the results directory.

    Raises:
        InputError: an argument is of a wrong type, or a point cannot be run; one line.
    """
    from p2p_sim.sweeps.local_workers import LocalProcesses

    chosen, place, data = scenario_of(base), optional_path("out", out), optional_path("data_dir", data_dir)
    wanted = chosen.replicates if replicates is None else count_of("replicates", replicates, 1)
    plan = make_plan(chosen.name, chosen, axes_of(axes), wanted, plots_of(plots), data_dir=data)
    executor: Executor = LocalProcesses(workers) if count_of("workers", workers, 1) > 1 else Serial()
    result = run_sweep(plan, place, executor)
    rows = derived(result.rows)
    rows.attrs["directory"] = str(result.directory)
    return rows
