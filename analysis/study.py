"""What all studies share: a frame (for sweeps, tasks, tables and figures), means with intervals, and a command line."""

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
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import joblib
import pandas as pd
from threadpoolctl import threadpool_limits

from p2p_sim import Scenario, load_results, load_scenario
from p2p_sim.base import InputError, RunFailed, progress_shown, write_whole
from p2p_sim.figures import Curve
from p2p_sim.measures import HIGH, LOW, Mean, mean_interval, points
from p2p_sim.sweeps import Axis, LocalProcesses, Serial, SweepPlan, load_sweep
from p2p_sim.sweeps.run_sweep import run_sweep

ROOT = Path(__file__).parent.parent
SWEEPS = ROOT / "scenarios" / "sweeps"
PUBLISHED = ROOT / "results" / "published"
TABLE, MANIFEST = "rows.parquet", "manifest.json"
EPSILON = "mechanism.target_epsilon"
"""The axis of a sweep over the ε for which a mechanism chooses its noise."""
Task = TypeVar("Task")
Result = TypeVar("Result")
Content = TypeVar("Content")
More = ParamSpec("More")


class Swept(NamedTuple):
    """The plan of a sweep that was run, and a row for each replicate of each point (combination of swept values)."""

    plan: SweepPlan
    rows: pd.DataFrame

    @property
    def points(self) -> pd.DataFrame:
        """One row for each point: means over its replicates with 95% intervals, and the largest ε."""
        return points(self.rows, self.plan.keys)


@dataclass(frozen=True)
class Frame:
    """Where and how a study runs. Every study is a function that takes a frame. The frame runs the study's work and
    writes the study's files.

    Attributes:
        out: folder of figures, tables, rows and manifests.
        work: folder of finished replicates and tasks, from which a study that was stopped goes on.
        data_dir: folder of data files. workers: number of local processes.
        small: whether the study is reduced, as in tests.
    """

    out: Path
    work: Path
    data_dir: Path | None = None
    workers: int = 2
    small: bool = False

    def swept(self, file: str, reduced: Sequence[str] = (), keep: bool = True) -> Swept:
        """Runs the missing replicates of a sweep that a file describes. Returns the sweep's plan and all rows.

        Args:
            file: path below scenarios/sweeps.
            reduced: settings that make the base scenario small, such as "replicates=2". Only a reduced study uses these
            settings. A reduced study with such settings also leaves out axes over data sets, and takes fewer values of
            other axes.
            keep: whether the table of rows and the manifest are copied to the output folder, into a folder of the
            sweep's name.

        Raises:
            RunFailed: a replicate failed.
        """
        plan = load_sweep(SWEEPS / file, reduced if self.small else (), self.data_dir)
        if self.small and reduced:
            plan = replace(plan, axes=tuple(_thin(axis) for axis in plan.axes if "population.kind" not in axis.names))
        return Swept(plan, self.planned(plan, Path(file).stem, keep))

    def planned(self, plan: SweepPlan, name: str, keep: bool = True) -> pd.DataFrame:
        """Runs the missing replicates of a planned sweep. Returns all rows of the sweep.

        Args:
            plan: the sweep. name: the name of the sweep's folder in `work` and in `out`.
            keep: whether rows and manifest are copied to `out`.

        Raises:
            RunFailed: a replicate failed.
        """
        work = self.work / name
        executor = LocalProcesses(self.workers) if self.workers > 1 else Serial()
        with progress_shown(plan.name, "replicates", plan.size * plan.replicates, estimate=False) as show:
            finished = run_sweep(plan, work, executor, lambda at: show(at.finished + at.failed, at.replicates))
        if finished.failed:
            raise RunFailed(f"{work}: {finished.failed} replicates failed; see failures.jsonl")
        if keep:
            (self.out / name).mkdir(parents=True, exist_ok=True)
            for file in (TABLE, MANIFEST):
                shutil.copyfile(work / file, self.out / name / file)
        return load_results(work)

    def each(self, function: Callable[[Task], Result], tasks: Iterable[Task], alone: bool = False) -> list[Result]:
        """The results of a function for all tasks, in the order of the tasks. Results on disk are not computed again.
        The name of a result's file is a hash of three things: the function with its fixed arguments, the text of the
        function's module, and the task. If one of these changes, the result is computed again. A change of another
        module has no such effect. Remove the folder `work` to compute everything again.

        Args:
            function: a function of a module, or a `functools.partial` of one. tasks: values that can be hashed and
            pickled. alone: whether tasks run one after another in this process, as for measurements of time.
        """
        folder, tasks = self.work / "tasks", list(tasks)
        folder.mkdir(parents=True, exist_ok=True)
        module = Path(inspect.getfile(getattr(function, "func", function)))  # a partial has its function as `func`
        version = joblib.hash((function, module.read_text(encoding="utf-8")))
        files = [folder / f"{joblib.hash((version, task))}.pickle" for task in tasks]
        missing = {path: task for path, task in zip(files, tasks, strict=True) if not path.is_file()}
        # each result is written at once, so that a stopped study loses only the tasks under way
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

    def path(self, name: str) -> Path:
        """The path of a file in `out`. The folder is created if it does not exist."""
        self.out.mkdir(parents=True, exist_ok=True)
        return self.out / name

    def table(self, name: str, rows: pd.DataFrame | Iterable[dict[str, Any]], form: str = "%.6g") -> Path:
        """Writes rows as a CSV file in `out`. Returns the file's path.

        Args:
            name: the file's name. rows: the table's rows. form: the format of numbers, in printf's style.
        """
        path = self.path(name)
        pd.DataFrame(rows).to_csv(path, index=False, float_format=form)
        return path

    def points(
        self, panels: Mapping[str, pd.DataFrame], columns: Sequence[str], measures: Sequence[str],
        name: str = "table.csv",
    ) -> Path:  # fmt: skip
        """Writes the points of all panels as one CSV file in the output folder, with a row for each point. Returns the
        file's path. The columns are the panel's name, `columns`, the number of replicates, and three columns for each
        measure m. Column m has the mean; m_low and m_high have the ends of the mean's 95% interval.

        Args:
            panels: for each panel's name, a table with a row for each point. A wanted column that the table lacks is
            left empty.
            columns: names of columns to be copied. measures: names of columns of means. name: the file's name.
        """
        wanted = [*columns, "replicates", *(measure + end for measure in measures for end in ("", LOW, HIGH))]
        parts = [table.reindex(columns=wanted).assign(panel=panel) for panel, table in panels.items()]
        return self.table(name, pd.concat(parts, ignore_index=True)[["panel", *wanted]])

    def figure(
        self, draw: Callable[Concatenate[Content, Path, More], None], content: Content, name: str,
        *args: More.args, **options: More.kwargs,
    ) -> Path:  # fmt: skip
        """Draws a figure in the output folder by draw(content, path, *args, **options). Returns the figure's path.

        Args:
            draw: function that draws. content: what the figure shows, such as a list of panels. name: the name of the
            figure's file. args, options: further arguments of `draw`.
        """
        path = self.path(name)
        draw(content, path, *args, **options)
        return path

    def rows(self, rows: pd.DataFrame, /, **manifest: object) -> None:
        """Writes two files in the output folder: rows.parquet with a study's rows, and manifest.json, which says how
        the rows were made. For a study that runs tasks instead of a sweep.

        Args:
            rows: the study's rows. manifest: keys and values of the manifest, such as the name, the seed and settings.
            The values have types that JSON can hold.
        """
        rows.to_parquet(self.path(TABLE), index=False)
        self.path(MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def comparison_base(study: str, panel: str, changes: Mapping[str, Any]) -> Scenario:
    """The scenario of scenarios/comparison.toml with the changes of a panel. The scenario's name joins the names of the
    study and the panel.

    changes: for each key of the scenario that changes, its new value or table.
    """
    base = load_scenario(ROOT / "scenarios" / "comparison.toml")
    return base.replace(name=f"{study}-{panel}".replace(" ", "-"), **changes)


def with_ends(name: str, mean: Mean) -> dict[str, float]:
    """A mean as columns of a table: `name` has the value, name_low and name_high have the ends of the interval."""
    return {name: mean.value, name + LOW: mean.low, name + HIGH: mean.high}


def joint_confidence(intervals: int) -> float:
    """The confidence level of each interval, 1 - 0.05/intervals. All hold together with at least 95% (Bonferroni)."""
    return 1.0 - (1.0 - 0.95) / intervals


def means(
    rows: pd.DataFrame, keys: Sequence[str], values: str | Sequence[str], worst: Sequence[str] = ()
) -> pd.DataFrame:
    """One row for each point, with the number of replicates (column replicates). For each column c of `values`, column
    c has the mean over replicates. Columns c_low and c_high have the ends of the mean's 95% t-interval. For each column
    of `worst`, the row has the largest value.

    Args:
        rows: one for each point and replicate. keys: columns that name a point, at least two. values: names of the
        columns to average, or a single name. worst: names of the columns with largest values.
    """
    lines, columns = [], [values] if isinstance(values, str) else values
    for point, part in rows.groupby(list(keys), dropna=False, sort=False):
        line = dict(zip(keys, point, strict=True)) | {"replicates": len(part)}
        for column in columns:
            line |= with_ends(column, mean_interval(part[column]))
        lines.append(line | {name: part[name].max() for name in worst})
    return pd.DataFrame(lines)


def fewest(tables: Mapping[str, pd.DataFrame], column: str = "replicates") -> int:
    """The smallest value of a column of counts in several tables."""
    return int(min(table[column].min() for table in tables.values()))


def command(name: str, study: Callable[..., list[Path]]) -> None:
    """Runs a study from the command line, and prints the written files. An expected error is printed in one line.

    Args:
        name: the study's name. study: the study's function, which takes a frame. If the function has a parameter
        `replicates`, the command line has the option --replicates.
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
    replicates = inspect.signature(study).parameters.get("replicates")
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
    """An axis for a reduced study, with two values. An axis with labels or with fewer than three values keeps all.

    Each of the two values lies a quarter of the list's length, rounded down, from one end. On a logarithmic axis the
    values are the first value and twice the first value.
    """
    if axis.log is not None:
        return axis.model_copy(update={"log": (axis.log[0], 2.0 * axis.log[0], 2)})
    values = axis.values or ()
    if axis.labels or len(values) < 3:
        return axis
    skip = len(values) // 4
    return axis.model_copy(update={"values": (values[skip], values[-1 - skip])})


def curves(table: pd.DataFrame, x: str, y: str, group: str, dashed: Sequence[str] = ()) -> list[Curve]:
    """Curves for a figure, one for each value of a column of groups, in the order of the table. A curve has its points
    in ascending order of x. The curve shows a band if the table has the ends of 95% intervals. The columns with these
    ends have the name of y followed by _low or _high.

    Args:
        table: a row for each point. x, y, group: names of the columns of coordinates and of groups; the group is the
        curve's label. dashed: labels of the curves that are dashed.
    """
    return [
        Curve.of(label, part, x, y, label in dashed) for label, part in table.groupby(group, sort=False, observed=True)
    ]
