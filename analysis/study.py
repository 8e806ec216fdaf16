"""The frame of every study: where it runs, what it keeps as it goes, and the tables that it leaves."""

import argparse
import inspect
import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import joblib
import pandas as pd
from threadpoolctl import threadpool_limits

from p2p_sim import load_results
from p2p_sim.base import InputError, RunFailed, progress_shown, write_whole
from p2p_sim.figures import Curve
from p2p_sim.measures import HIGH, LOW, mean_interval, points
from p2p_sim.sweeps import Axis, LocalProcesses, Serial, SweepPlan, load_sweep
from p2p_sim.sweeps.run_sweep import run_sweep

ROOT = Path(__file__).parent.parent
SWEEPS = ROOT / "scenarios" / "sweeps"
PUBLISHED = ROOT / "results" / "published"
TABLE, MANIFEST = "rows.parquet", "manifest.json"
Task = TypeVar("Task")
Result = TypeVar("Result")


class Swept(NamedTuple):
    """A sweep that was run: its plan, and its rows, one line a replicate."""

    plan: SweepPlan
    rows: pd.DataFrame

    @property
    def points(self) -> pd.DataFrame:
        """A line a point: means over its replicates, and the largest ε."""
        return points(self.rows, self.plan.keys)


@dataclass(frozen=True)
class Frame:
    """Where and how one run of a study works; every study is a function of it.

    Attributes:
        out: where figures, tables, rows and manifests go.
        work: where sweeps and tasks are kept as they finish; the same study goes on there where it stopped.
        data_dir: where data files are. workers: local processes. small: reduced, for the tests.
    """

    out: Path
    work: Path
    data_dir: Path | None = None
    workers: int = 2
    small: bool = False

    def sweep(self, file: str, reduced: Sequence[str] = (), keep: bool = True) -> pd.DataFrame:
        """Run a sweep, or what is missing of it, and return a line a point; for the arguments, see `swept`."""
        return self.swept(file, reduced, keep).points

    def swept(self, file: str, reduced: Sequence[str] = (), keep: bool = True) -> Swept:
        """Run a sweep, or what is missing of it, and return its plan and its rows.

        Args:
            file: below scenarios/sweeps. reduced: changes to the base scenario where the study is small: axes of data
                sets are then left out, others thinned. keep: whether its rows and its manifest go to `out`.

        Raises:
            RunFailed: a replicate failed.
        """
        plan = load_sweep(SWEEPS / file, reduced if self.small else (), self.data_dir)
        if self.small and reduced:
            plan = replace(plan, axes=tuple(_thin(axis) for axis in plan.axes if "population.kind" not in axis.names))
        return Swept(plan, self.planned(plan, Path(file).stem, keep))

    def planned(self, plan: SweepPlan, name: str, keep: bool = True) -> pd.DataFrame:
        """Run a sweep that is no file, or what is missing of it, and return its rows.

        Args:
            plan: what to run. name: of its folder, here and in `out`. keep: whether rows and manifest go to `out`.

        Raises:
            RunFailed: a replicate failed.
        """
        work = self.work / name
        executor = LocalProcesses(self.workers) if self.workers > 1 else Serial()
        with progress_shown(plan.name, "replicates", plan.size * plan.replicates, estimate=False) as show:
            finished = run_sweep(
                plan, work, executor, lambda state: show(state.finished + state.failed, state.replicates)
            )
        if finished.failed:
            raise RunFailed(f"{work}: {finished.failed} replicates failed; see failures.jsonl")
        if keep:
            (self.out / work.name).mkdir(parents=True, exist_ok=True)
            for name in (TABLE, MANIFEST):
                shutil.copyfile(work / name, self.out / work.name / name)
        return load_results(work)

    def each(self, function: Callable[[Task], Result], tasks: Iterable[Task], alone: bool = False) -> list[Result]:
        """The results of a function for every task, in their order; a task whose result is on disk is not computed
        again.

        A result is filed under the function with what is bound to it, the text of its module, and the task. Changes
        elsewhere are not noticed: remove `work` to begin anew.

        Args:
            function: of a module, or a partial of one. tasks: plain values. alone: one at a time, in this process.
        """
        folder, tasks = self.work / "tasks", list(tasks)
        folder.mkdir(parents=True, exist_ok=True)
        module = Path(inspect.getfile(getattr(function, "func", function)))
        version = joblib.hash((function, module.read_text(encoding="utf-8")))
        files = [folder / f"{joblib.hash((version, task))}.pickle" for task in tasks]
        missing = {path: task for path, task in zip(files, tasks, strict=True) if not path.is_file()}
        # each result is written as soon as it is there, so that a stopped study loses only what is under way
        if alone or self.workers == 1:
            with threadpool_limits(1):
                for path, task in missing.items():
                    write_whole(path, pickle.dumps(function(task)))
        elif missing:
            with ProcessPoolExecutor(self.workers, initializer=partial(threadpool_limits, 1)) as pool:
                running = {pool.submit(function, task): path for path, task in missing.items()}
                for future in as_completed(running):
                    write_whole(running[future], pickle.dumps(future.result()))
        return [pickle.loads(path.read_bytes()) for path in files]

    def table(self, name: str, rows: pd.DataFrame | Iterable[dict[str, Any]], form: str = "%.6g") -> Path:
        """Write rows as a CSV table; return its path."""
        self.out.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(rows).to_csv(self.out / name, index=False, float_format=form)
        return self.out / name

    def points(
        self, panels: Mapping[str, pd.DataFrame], columns: Sequence[str], measures: Sequence[str],
        name: str = "table.csv",
    ) -> Path:  # fmt: skip
        """Write all points: panel, columns, replicates, and each measure with the ends of its 95% interval."""
        wanted = [*columns, "replicates", *(measure + end for measure in measures for end in ("", LOW, HIGH))]
        parts = [table.reindex(columns=wanted).assign(panel=panel) for panel, table in panels.items()]
        return self.table(name, pd.concat(parts, ignore_index=True)[["panel", *wanted]])

    def rows(self, rows: pd.DataFrame, /, **manifest: object) -> None:
        """Write all rows of a study that is no sweep, and its manifest."""
        self.out.mkdir(parents=True, exist_ok=True)
        rows.to_parquet(self.out / TABLE, index=False)
        (self.out / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def means(rows: pd.DataFrame, keys: Sequence[str], value: str, worst: Sequence[str]) -> pd.DataFrame:
    """A line a point: replicates, the mean of a column with its 95% t-interval, and the largest of other columns."""
    lines = []
    for point, part in rows.groupby(list(keys), dropna=False, sort=False):
        mean = mean_interval(part[value])
        line = dict(zip(keys, point, strict=True)) | {"replicates": mean.replicates, value: mean.value}
        line |= {value + LOW: mean.low, value + HIGH: mean.high}
        lines.append(line | {name: part[name].max() for name in worst})
    return pd.DataFrame(lines)


def command(name: str, study: Callable[..., list[Path]]) -> None:
    """Run a study from the command line; what goes wrong is one line.

    Args:
        name: of the study. study: its function of a frame, and of a number of replicates if that can be chosen.
    """
    parser = argparse.ArgumentParser(
        description=f"Runs the published study {name}, or what is missing of it.", allow_abbrev=False
    )
    for option, kind, usual, help_text in (
        ("--data-dir", Path, os.environ.get("P2P_SIM_DATA"), "where the data files are"),
        ("--work", Path, ROOT / "results" / name, "where sweeps and tasks run and resume"),
        ("--out", Path, PUBLISHED / name, "where figures, tables and rows go"),
        ("--workers", int, 2, "local processes"),
    ):
        parser.add_argument(option, type=kind, default=usual, help=help_text)
    replicates = inspect.signature(study).parameters.get("replicates")  # only some studies let them be chosen
    if replicates:
        parser.add_argument("--replicates", type=int, default=replicates.default, help="repetitions of each point")
    options = vars(parser.parse_args())
    more = {"replicates": options.pop("replicates")} if replicates else {}
    try:
        for path in study(Frame(**options), **more):
            print(path)
    except (InputError, RunFailed) as error:
        raise SystemExit(f"{name}: {error}") from None


def _thin(axis: Axis) -> Axis:
    """An axis with fewer values, for a small study: two values of a numeric one, all values of one whose values are
    named.

    The two are not its ends if there are more than three values; of a logarithmic axis they are the first and twice the
    first.
    """
    if axis.log is not None:
        return axis.model_copy(update={"log": (axis.log[0], 2.0 * axis.log[0], 2)})
    values = axis.values or ()
    skip = len(values) // 4
    return (
        axis
        if axis.labels or len(values) < 3
        else axis.model_copy(update={"values": (values[skip], values[-1 - skip])})
    )


def curves(table: pd.DataFrame, x: str, y: str, group: str, dashed: Sequence[str] = ()) -> list[Curve]:
    """A line for each value of a text column, in the order of the table; those named are dashed."""
    parts = {label: table[table[group] == label] for label in table[group].unique()}
    return [Curve.of(label, part, x, y, label in dashed) for label, part in parts.items()]
