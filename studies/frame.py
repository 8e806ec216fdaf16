"""What the published studies share: run sweeps, collect their points, write a table."""

import argparse
import inspect
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis.figures.curves import Curve
from analysis.utility.points import HIGH, LOW, points
from p2p_sim.errors import InputError, RunFailed
from p2p_sim.printing.sweep import progress
from p2p_sim.results import read_results
from p2p_sim.store import MANIFEST, TABLE
from p2p_sim.sweeps.drive import run_sweep
from p2p_sim.sweeps.file import Axis
from p2p_sim.sweeps.local import LocalProcesses
from p2p_sim.sweeps.plan import load_sweep
from p2p_sim.sweeps.work import Serial

ROOT = Path(__file__).parent.parent
SWEEPS = ROOT / "scenarios" / "sweeps"
PUBLISHED = ROOT / "results" / "published"


def command(name: str, study: Callable[..., list[Path]]) -> None:
    """Run a study from the command line with the options that it takes; what goes wrong is one line.

    Args:
        name: of the study. study: its function; of its parameters those below become options.
    """
    options: dict[str, tuple[type, object, str]] = {
        "data_dir": (Path, os.environ.get("P2P_SIM_DATA"), "where the data files are"),
        "work": (Path, ROOT / "results" / name, "where sweeps run and resume"),
        "out": (Path, PUBLISHED / name, "where figures, tables and rows go"),
        "replicates": (int, None, "repetitions of each point"),
        "workers": (int, None, "local processes"),
    }
    parser = argparse.ArgumentParser(
        description=f"Runs the published study {name}, or what is missing of it.", allow_abbrev=False
    )
    taken = inspect.signature(study).parameters
    for option, (type_, usual, says) in options.items():
        if option in taken:
            own = taken[option].default
            default = usual if own is inspect.Parameter.empty else own
            parser.add_argument(f"--{option.replace('_', '-')}", type=type_, default=default, help=says)
    try:
        for path in study(**vars(parser.parse_args())):
            print(path)
    except (InputError, RunFailed) as error:
        raise SystemExit(f"{name}: {error}") from None


def run_panel(
    sweep: Path, work: Path, data_dir: Path | None, workers: int, reduced: Sequence[str] = ()
) -> pd.DataFrame:
    """Run a sweep into a directory, or what is missing of it, and return a line a point.

    Args:
        sweep: its file. work: where it runs. data_dir: where data files are. workers: local processes.
        reduced: changes to the base scenario, for a test: axes of data sets are then left out, others thinned.

    Raises:
        RunFailed: a replicate failed.
    """
    plan = load_sweep(sweep, reduced, data_dir)
    if reduced:
        plan = replace(plan, axes=tuple(_thin(axis) for axis in plan.axes if "population.kind" not in axis.names))
    executor = LocalProcesses(workers) if workers > 1 else Serial()
    with progress(plan.name) as report:
        finished = run_sweep(plan, work, executor, report)
    if finished.failed:
        raise RunFailed(f"{work}: {finished.failed} replicates failed; see failures.jsonl")
    results = read_results(work)
    return points(results.rows, results.keys)


def _thin(axis: Axis) -> Axis:
    """Two values of a numeric axis, not its ends if there are more than three; all of one whose values are named.

    Of a logarithmic one, which may be of sizes, the first and twice the first.
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


def keep(work: Path, out: Path) -> None:
    """Copy what is published of a sweep: its rows as one table, and the manifest."""
    out.mkdir(parents=True, exist_ok=True)
    for name in (TABLE, MANIFEST):
        shutil.copyfile(work / name, out / name)


def curves(table: pd.DataFrame, x: str, y: str, group: str, dashed: Sequence[str] = ()) -> list[Curve]:
    """A line for each value of a text column, in the order of the table; those named are dashed."""
    found = []
    for label in table[group].unique():
        part = table[table[group] == label].sort_values(x)
        low, high = (part[y + end].tolist() for end in (LOW, HIGH))
        found.append(Curve(str(label), part[x].tolist(), part[y].tolist(), low, high, dashed=label in dashed))
    return found


def write_table(tables: dict[str, pd.DataFrame], columns: Sequence[str], measures: Sequence[str], out: Path) -> None:
    """All points as table.csv: panel, columns, replicates, and each measure with the ends of its 95% interval."""
    wanted = [*columns, "replicates", *(measure + end for measure in measures for end in ("", LOW, HIGH))]
    parts = [table.reindex(columns=wanted).assign(panel=panel) for panel, table in tables.items()]
    whole = pd.concat(parts, ignore_index=True)[["panel", *wanted]]
    whole.to_csv(out / "table.csv", index=False, float_format="%.6g")


def tabulate(
    sweeps: Sequence[str], columns: Sequence[str], measures: Sequence[str], out: Path, work: Path,
    data_dir: Path | None, workers: int, reduced: Sequence[str] = (),
) -> Path:  # fmt: skip
    """Run sweeps, keep their rows, and write the points of all as one table.

    Args:
        sweeps: files below scenarios/sweeps; a panel is named like its file. columns, measures: see `write_table`.
        out: where table, rows and manifests go. work, data_dir, workers, reduced: see `run_panel`.
    """
    tables = {}
    for path in map(Path, sweeps):
        tables[path.stem] = run_panel(SWEEPS / path, work / path.stem, data_dir, workers, reduced)
        keep(work / path.stem, out / path.stem)
    write_table(tables, columns, measures, out)
    return out / "table.csv"
