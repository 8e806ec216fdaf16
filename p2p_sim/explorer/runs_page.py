"""The table of runs: settings, progress and figures (such as accuracy and ε) of each results directory.

A directory is read if it is new or one of its files has changed. Only lines added to the file of rows are read.
"""

import hashlib
import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from p2p_sim.base import InputError
from p2p_sim.explorer.directories import ReadableDirectories, ReadableDirectory, promised_rows
from p2p_sim.explorer.page_results import Tail, row_in, shown_cell
from p2p_sim.figures import readable, short, value
from p2p_sim.results import FAILURES, MANIFEST, ROWS, TABLE, TAKEN, Results, read_manifest, read_results

MEASURED = ("error_rate", "nonprivate_error_rate", "excess_risk")
"""Columns of result rows; all figures of the table except ε are computed from these columns' means."""
FIGURES = ("accuracy", "epsilon_upper", "excess_risk", "nonprivate_accuracy")
ABOUT = {
    "epsilon_upper": "ε against the learner, upper bound: the largest over all rows, each at its own δ",
    "accuracy": "accuracy, mean over all rows",
    "excess_risk": "excess risk, mean over all rows",
    "nonprivate_accuracy": "accuracy without privacy, mean over all rows",
}
"""The meaning of each figure, in words."""
MOST_KEYS, MOST_READ = 60, 500_000
"""Largest number of scenario keys that are offered as columns, and largest number of result rows in memory."""
Stamp = tuple[tuple[int, int, int], ...]
Cell = tuple[str, float | str]
"""A text to show, and the number or text by which the browser sorts."""


@dataclass
class _ListedRun:
    """The line of one directory in the table.

    stamp: the state of the directory's files when they were read. fault: why the files could not be read, else empty.
    settings: the scenario's values by key. total: number of rows that the finished sweep will have. failed: number of
    failed replicates. count: number of rows that were read. sums: for each column of MEASURED, the sum over these rows.
    worst: the largest ε in these rows. lines: reads the lines that are added to the file of rows.
    """

    stamp: Stamp = ()
    fault: str = ""
    settings: dict[str, Cell] = field(default_factory=dict)
    total: int = 0
    failed: int = 0
    count: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    worst: float = -math.inf
    lines: Tail = field(default_factory=Tail)

    def read(self, path: Path) -> None:
        """Update this line from the directory's manifest, file of failures and added rows.

        Raises:
            InputError: the directory cannot be read, or is damaged.
        """
        manifest = read_manifest(path)
        self.settings = _settings(manifest)
        self.total = promised_rows(manifest).total
        self.failed = sum(1 for _ in Tail().added(path / FAILURES))
        rows = _lines(self.lines, path / ROWS) if (path / ROWS).exists() else _table(path / TABLE)
        for first, row in rows:
            if first:
                self.count, self.sums, self.worst = 0, {}, -math.inf
            self._add(row, path)

    def _add(self, row: Mapping[str, Any], path: Path) -> None:
        """Count one result row: add the columns in MEASURED to the sums (NaN if missing), and keep the largest ε. A row
        without ε counts as ε = ∞. `path` is the directory, for error messages.
        """
        self.count += 1
        try:
            for name in MEASURED:
                figure = row.get(name)
                self.sums[name] = self.sums.get(name, 0.0) + (math.nan if figure is None else float(figure))
            epsilon = row.get("epsilon_upper")
            self.worst = max(self.worst, math.inf if epsilon is None else float(epsilon))
        except (TypeError, ValueError):
            raise InputError(f"{path / ROWS}: a figure is no number") from None

    def figures(self) -> dict[str, Cell]:
        """The figures of the directory's line in the table, by name: a text to show, and a number to sort by.

        Accuracy and excess risk are means over the directory's rows; ε is the largest. Unknown figures are left out.
        The result is empty if the directory has no rows or is damaged.
        """
        if not self.count or self.fault:
            return {}
        means = {name: total / self.count for name, total in self.sums.items()}
        figures = {
            "accuracy": 1.0 - means["error_rate"],
            "nonprivate_accuracy": 1.0 - means["nonprivate_error_rate"],
            "excess_risk": means["excess_risk"],
            "epsilon_upper": self.worst,
        }
        finite = {name: figure for name, figure in figures.items() if not math.isnan(figure)}
        return {name: (shown_cell(name, figure), min(figure, 1e300)) for name, figure in finite.items()}


class RunsTable:
    """The table of all results directories that may be read. The results used last stay in memory."""

    def __init__(self, directories: ReadableDirectories) -> None:
        self._directories = directories
        self._runs: dict[Path, _ListedRun] = {}
        self._results: OrderedDict[Path, tuple[Stamp, Results]] = OrderedDict()

    def results(self, directory: ReadableDirectory) -> Results:
        """The results in a directory, read again if the directory's files have changed. The results used last stay
        in memory. Results used earlier stay, too, while there are at most 500,000 rows in all.

        Raises:
            InputError: the results cannot be read.
        """
        stamp = _stamp(directory.path)
        held = self._results.pop(directory.path, None)
        if held is None or held[0] != stamp:
            held = stamp, read_results(directory.path)
        self._results[directory.path] = held
        while len(self._results) > 1 and sum(len(results.rows) for _, results in self._results.values()) > MOST_READ:
            self._results.popitem(last=False)
        return held[1]

    def table(self, since: str = "") -> dict[str, Any]:
        """The table of all runs that the explorer may read. If nothing has changed, only the version of the table is
        returned.

        Args:
            since: the version of the table that the browser already shows; empty: it shows none.

        Returns:
            version: a hash that changes whenever a directory's files or state change. If it equals `since`, there is no
            other entry. columns: key, name and meaning of each column. Figures such as accuracy and ε come first, then
            at most 60 scenario keys with values that differ between runs. figures: how many of the columns are figures.
            runs: one line for each directory, with its cells. left_out: the names of studies that come with p2p-sim
            but cannot be shown in the explorer, by the reason, in words.
        """
        runs = [(directory, self._of(directory)) for directory in self._directories.all()]
        marks = repr([(directory.key, run.stamp, directory.state, directory.reason) for directory, run in runs])
        version = hashlib.sha256(marks.encode()).hexdigest()[:16]
        if version == since:
            return {"version": version}
        return {"version": version} | _lay_out(runs) | {"left_out": self._directories.left_out}

    def _of(self, directory: ReadableDirectory) -> _ListedRun:
        """The line of a results directory in the table of runs. The directory's files are read if one file has changed
        since the last call. No file is read if the list of directories calls the directory damaged. Reading could then
        block forever, for example on a pipe.
        """
        run, stamp = self._runs.setdefault(directory.path, _ListedRun()), _stamp(directory.path)
        if directory.state == "damaged":
            return _ListedRun(stamp, directory.reason)
        if run.stamp != stamp:
            try:
                run.read(directory.path)
                run.fault = ""
            except InputError as error:
                run.fault, run.lines = str(error), Tail()
            except OSError as error:
                run.fault, run.lines = f"{directory.path}: cannot be read ({error.strerror})", Tail()
            run.stamp = stamp
        return run


def _lay_out(runs: Sequence[tuple[ReadableDirectory, _ListedRun]]) -> dict[str, Any]:
    """The table's "columns", how many of them are "figures", and "runs" with one line for each directory. Figures come
    first, then scenario keys with values that differ between runs.
    """
    # scenario keys in order of appearance
    cells: dict[str, set[Cell]] = {}
    for _, run in runs:
        for key, cell in run.settings.items():
            cells.setdefault(key, set()).add(cell)
    keys = [key for key, several in cells.items() if len(several) > 1 and key not in TAKEN][:MOST_KEYS]
    lines = [_line(directory, run, keys) for directory, run in runs]
    used = [name for name in FIGURES if any(name in line["cells"] for line in lines)]
    columns = [
        {"key": name, "name": short(name), "about": ABOUT.get(name) or readable(name, pd.DataFrame())}
        for name in (*used, *keys)
    ]
    return {"columns": columns, "figures": len(used), "runs": lines}


def _line(directory: ReadableDirectory, run: _ListedRun, keys: Iterable[str]) -> dict[str, Any]:
    """A directory's line of the table for the browser. "cells" has the figures and the scenario's values of `keys`.
    "done" and "total" count rows, and "failed" counts failed replicates. "why" says what is wrong or unfinished. The
    entries key, name, published and state describe the directory.
    """
    return {
        "key": directory.key,
        "name": directory.name,
        "published": directory.published,
        "state": "damaged" if run.fault else directory.state,
        "cells": {**run.figures(), **{key: run.settings[key] for key in keys if key in run.settings}},
        "done": run.count,
        "total": max(run.total, run.count),
        "failed": run.failed,
        "why": run.fault or directory.reason,
    }


def _stamp(path: Path) -> Stamp:
    """The state of a results directory's files (manifest, rows, table, failures). For each file it has inode, size in
    bytes, and time of the last change in ns. An absent file has three zeros. Equal stamps are taken to mean that no
    file has changed.
    """
    states = []
    for name in (MANIFEST, ROWS, TABLE, FAILURES):
        try:
            status = (path / name).stat()
        except OSError:
            states.append((0, 0, 0))
        else:
            states.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(states)


def _settings(manifest: Mapping[str, Any]) -> dict[str, Cell]:
    """The values of a manifest's scenario by dotted key, such as mechanism.flip_prob, as cells of the table. The
    manifest lists swept keys as its axes. The cell of a swept key has the range of its values. If a value is no number,
    the cell has the number of values.

    Raises:
        InputError: the manifest's axes are damaged.
    """
    scenario = manifest.get("scenario")
    settings = _leaves(scenario if isinstance(scenario, Mapping) else {}, "")
    try:
        for axis in manifest.get("axes") or []:
            for position, key in enumerate(axis["keys"]):
                values = [step[position] for step in axis["values"]]
                settings[key] = f"{len(values)} values", f"{len(values)} values"
                if values and all(isinstance(step, int | float) and not isinstance(step, bool) for step in values):
                    low, high = min(values), max(values)
                    settings[key] = (f"{value(low)} to {value(high)}" if low < high else value(low)), float(low)
    except (KeyError, IndexError, TypeError):
        raise InputError(f"{MANIFEST}: is not a manifest") from None
    return settings


def _leaves(node: Mapping[str, Any], path: str) -> dict[str, Cell]:
    """The numbers and texts in a nested mapping, by dotted key, without lists. `path`, empty or with a dot
    at its end, is written before each key.
    """
    leaves: dict[str, Cell] = {}
    for name, part in node.items():
        key = f"{path}{name}"
        if isinstance(part, Mapping):
            leaves |= _leaves(part, f"{key}.")
        elif isinstance(part, bool | str):
            leaves[key] = (str(part).lower() if isinstance(part, bool) else part[:80],) * 2
        elif isinstance(part, int | float):
            leaves[key] = value(part), float(part)
    return leaves


def _lines(lines: Tail, path: Path) -> Iterator[tuple[bool, Mapping[str, Any]]]:
    """Yield the rows that were added to a file of rows since `lines` last read it. A mark says whether a row is the
    first row of the file.

    Args:
        lines: a reader that remembers how far it has read the file. path: the file, with one row of JSON per line.

    Raises:
        InputError: a line is not a row.
    """
    for line in lines.added(path):
        row = row_in(line)
        if row is None:
            raise InputError(f"{path}: damaged (a line is no row)")
        yield lines.first, row


def _table(path: Path) -> Iterator[tuple[bool, Mapping[str, Any]]]:
    """Yield the rows of a Parquet table, each with a mark whether it is the first. Only the columns for figures are
    read.
    """
    from pyarrow import ArrowInvalid, parquet

    if not path.exists():
        return
    try:
        present = set(parquet.read_schema(path).names)
        table = parquet.read_table(path, columns=[name for name in (*MEASURED, "epsilon_upper") if name in present])
    except (OSError, ArrowInvalid) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    for position, row in enumerate(table.to_pylist()):
        yield position == 0, row
