"""Runs a sweep or a single scenario: missing replicates are handed out, and their rows are kept."""

import itertools
import statistics
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd
from cachetools import LRUCache

from p2p_sim.base import InputError, RunFailed, count, count_of, optional_path
from p2p_sim.measures import derived
from p2p_sim.privacy import Terms, merged
from p2p_sim.replicate import Row, default_directory, scenario_of
from p2p_sim.results import FAILURES, ROWS, read_terms, write_manifest
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps.local_workers import LocalProcesses
from p2p_sim.sweeps.plan import SweepPlan, make_plan
from p2p_sim.sweeps.session import Session, open_session, warn
from p2p_sim.sweeps.sweep_file import axes_of, plots_of
from p2p_sim.sweeps.tasks import Batch, Done, Executor, Perform, Serial, Task, perform

BATCH_S = 0.5
"""Short tasks are handed out in batches, each of approximately this number of seconds."""
LARGEST_BATCH = 64
LOADING_S = 10.0
"""A worker's first replicate also loads libraries. A time up to this number of seconds is then not counted."""
LONGEST_ERROR = 300
"""Largest number of characters of an error that are shown."""


@dataclass
class Progress:
    """The progress of a sweep.

    points, replicates: numbers for the whole sweep. finished: replicates on disk. failed: replicates that could not be
    run. task_s: mean time of a replicate in seconds; None if unknown. workers: number of replicates at a time.
    """

    points: int
    replicates: int
    finished: int
    failed: int = 0
    task_s: float | None = None
    workers: int = 1

    @property
    def remaining_s(self) -> float | None:
        """Estimated time in seconds until the end of the sweep; None if `task_s` is unknown."""
        if self.task_s is None:
            return None
        return self.task_s * max(self.replicates - self.finished - self.failed, 0) / self.workers


Report = Callable[[Progress], None]


@dataclass(frozen=True, repr=False)
class SweepResult:
    """A finished sweep or run.

    directory: the results directory. rows: the rows that this call asked for. failed: number of replicates that could
    not be run. more: number of further rows on disk, with other values or of further replicates.
    """

    directory: Path
    rows: pd.DataFrame
    failed: int
    more: int = 0

    def __repr__(self) -> str:
        """The directory and the numbers of points, rows and failures, in one line."""
        counts = (
            f"{count(self.rows['scenario'].nunique(), 'point')}, {count(len(self.rows), 'row')}, {self.failed:,} failed"
        )
        return f"SweepResult({str(self.directory)!r}, {counts}, {self.more:,} more on disk)"

    @property
    def tidy(self) -> pd.DataFrame:
        """The rows with computed columns, such as accuracy from error_rate. The frame's `attrs["directory"]` is the
        results directory.
        """
        rows = derived(self.rows)
        rows.attrs["directory"] = str(self.directory)
        return rows

    @cached_property
    def terms(self) -> Terms:
        """What the rows' privacy statements say besides numbers, merged over the rows. Each column of ε has the
        observer, the bases (how ε was computed), the conditions, and the plug-in, if any, behind these claims.
        """
        terms = read_terms(self.directory)
        return merged([terms[name] for name in dict.fromkeys(self.rows.get("statement", ())) if name in terms])


@dataclass
class _Driver:
    """The missing replicates of a plan, in batches, and the progress.

    cold: number of expected results whose time includes loading libraries. points: for the latest points, the task of
    replicate 0. times: times of the latest replicates in seconds.
    """

    plan: SweepPlan
    session: Session
    progress: Progress
    report: Report | None
    cold: int
    points: LRUCache[str, Task] = field(default_factory=lambda: LRUCache(1000))
    times: deque[float] = field(default_factory=lambda: deque(maxlen=50))

    def tasks(self) -> Iterator[Task]:
        """Yields a task for each missing replicate: first replicate 0 of every point, then replicate 1, and so on.
        Tasks of the latest points are kept, because making their JSON text is slow.
        """
        for replicate, (identity, point) in itertools.product(
            range(self.plan.replicates), self.plan.identified.items()
        ):
            if self.session.store.has(identity, replicate):
                continue
            if identity not in self.points:
                self.points[identity] = Task.of(self.plan.scenario(point), identity, 0, self.plan.data_dir)
            yield replace(self.points[identity], replicate=replicate)

    def batches(self) -> Iterator[Batch]:
        """Yields the tasks in batches. The size aims at half a second a batch, by the times of earlier tasks. The tasks
        of a run (a plan without axes) come one by one.
        """
        tasks = self.tasks()
        while batch := tuple(itertools.islice(tasks, self.batch_size)):
            yield batch

    @property
    def batch_size(self) -> int:
        """The number of tasks in the next batch."""
        if not self.times or not self.plan.axes:
            return 1
        return int(min(max(BATCH_S / max(statistics.fmean(self.times), 1e-4), 1), LARGEST_BATCH))

    def note(self, results: Sequence[Done]) -> None:
        """Count new results, note their times, and report the progress."""
        failed = sum(result.row is None for result in results)
        self.progress.failed += failed
        self.progress.finished += len(results) - failed
        self.session.finished = self.progress.finished
        for result in results:
            self.cold -= 1
            if self.cold < 0 or result.wall_s > LOADING_S:
                self.times.append(result.wall_s)
        if self.times:
            self.progress.task_s = statistics.fmean(self.times)
        if self.report:
            self.report(self.progress)


def run_sweep(
    plan: SweepPlan,
    out: Path | None = None,
    executor: Executor | None = None,
    report: Report | None = None,
    work: Perform = perform,
    *,
    finish: Callable[[Path, pd.DataFrame], None] = lambda directory, rows: None,
) -> SweepResult:
    """Run the replicates of a plan that are not on disk, and return all rows of the plan. A stopped call can be
    repeated, and then goes on.

    A sweep writes down failed replicates and goes on. A run (a plan without axes) ends with the first failure.

    Args:
        plan: the points and replicates. out: results directory; default results/<name>-<hash8> below the current
        directory. executor: runs the tasks; default: this process, one after another. report: called with the progress,
        at the start and after every batch. work: takes a batch of tasks and returns a result for each task, a row or an
        error; default: computes one task after another. finish: called at the end with the directory and the rows,
        before other processes may write there; default: does nothing.

    Raises:
        RunFailed, Interrupted: the work was stopped. The message says how many replicates are kept.
        Exception: in a run, the error of the first replicate that failed. Other unfinished replicates are lost.
    """
    executor = executor or Serial()
    warn(plan.base, plan.data_dir, replaceable=bool(plan.axes))
    identity = plan.sweep_identity
    directory, total = out or default_directory(plan.name, identity), plan.size * plan.replicates
    check = partial(_check_row, plan, directory / ROWS)
    with open_session(directory, identity, executor, check=check, wanted=total) as session:
        # count the replicates on disk, and write the manifest, perhaps with more values or replicates than before
        store, points = session.store, plan.identified
        session.finished = sum(store.has(*key) for key in itertools.product(points, range(plan.replicates)))
        progress = Progress(len(points), total, session.finished, workers=executor.workers)
        write_manifest(
            directory,
            plan.base,
            name=plan.name,
            identity=identity,
            replicates=max(plan.replicates, store.replicates),
            packages=plan.packages,
            extra=_described(plan),
        )
        if report:
            report(progress)
        # run what is missing
        driver = _Driver(plan, session, progress, report, executor.workers)
        failure = session.run(
            driver.batches(),
            work,
            columns=lambda task: points[task.point].columns,
            noted=driver.note,
            stop=not plan.axes,
        )
        if failure is not None:
            raise failure.fault or RunFailed(f"replicate {failure.task.replicate} {failure.error}")
        if not progress.finished:
            error = session.first_error[:LONGEST_ERROR]
            raise InputError(f"{directory}: no replicate could be run; the first of {FAILURES} says: {error}")
        # sort the rows: first the points of the plan, in the order of the axes; then further points
        order = {point: index for index, point in enumerate(points)}
        rows = store.finish(
            lambda row: (order.get(row["scenario"], len(order)), row["scenario"]),
            lambda row: plan.asks_for(row["scenario"], row["replicate"]),
        )
        finish(directory, rows)
    return SweepResult(directory, rows, progress.failed, store.size - len(rows))


def _check_row(plan: SweepPlan, path: Path, row: Row) -> None:
    """Raise an InputError if a row in the file `path` belongs to another sweep or run."""
    if missing := [key for key in plan.keys if key not in row]:
        raise InputError(f"{path}: a row without {missing[0]} is of another sweep")
    if not plan.axes and row["scenario"] not in plan.identified:
        raise InputError(
            f"{path}: replicate {row['replicate']} is of another scenario or of other data "
            f"(hash {str(row['scenario'])[:8]}, not {plan.sweep_identity[:8]})"
        )


def _described(plan: SweepPlan) -> dict[str, Any]:
    """Entries that a sweep adds to the manifest (the file that states what was run): kind, axes and figures. A plan
    without axes, a run of one scenario, adds no entries.
    """
    if not plan.axes:
        return {}
    axes = [
        {"keys": list(axis.names), "values": [list(step) for step in steps], "labels": axis.labels}
        for axis, steps in zip(plan.axes, plan.steps, strict=True)
    ]
    return {"kind": "sweep", "axes": axes, "plots": [plot.model_dump() for plot in plan.plots]}


def sweep(
    base: Scenario | str | Path,
    axes: Mapping[str, Sequence[Any]],
    replicates: int | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    data_dir: str | Path | None = None,
    plots: Sequence[Mapping[str, Any]] = (),
) -> pd.DataFrame:
    """Run a base scenario with all combinations of some values, and return the rows. A repeated call resumes.

    Rows on disk with other values or of further replicates are kept, and `load_results` returns these rows too. A
    script needs no `if __name__ == "__main__"`, because workers do not import the caller's main module.

    Args:
        base: the scenario, the path of its file, or the name of a shipped one.
        axes: lists of values by dotted key, such as {"mechanism.flip_prob": [0.1, 0.2]}.
        replicates: number of replicates of each point; None: the base scenario's number.
        out: results directory; default results/<name>-<hash8> below the current directory.
        workers: number of worker processes on this machine; 1: this process alone.
        data_dir: where data files are; default: the environment variable P2P_SIM_DATA.
        plots: the figures that `p2p-sim plot` draws, such as {"x": "epsilon_upper", "y": "error_rate"}.

    Returns:
        A frame with a row for each replicate; its `attrs["directory"]` is the results directory.

    Raises:
        InputError: an argument has a wrong type, or a point cannot be run. The message is one line.
    """
    scenario, directory, data = scenario_of(base), optional_path("out", out), optional_path("data_dir", data_dir)
    wanted = scenario.replicates if replicates is None else count_of("replicates", replicates, 1)
    plan = make_plan(scenario.name, scenario, axes_of(axes), wanted, plots=plots_of(plots), data_dir=data)
    executor = LocalProcesses(workers) if count_of("workers", workers, 1) > 1 else Serial()
    return run_sweep(plan, directory, executor).tidy
