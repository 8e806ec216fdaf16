"""The table of runs: what each results directory ran, how far it is, its figures.

A directory is read when it is new and when one of its files has changed; of a file of rows only the lines that were
added.
"""

import hashlib
import json
import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from p2p_sim.base.errors import InputError
from p2p_sim.explorer.directories import Place, ReadableDirectories, promised_rows
from p2p_sim.explorer.page_results import Tail, shown_cell
from p2p_sim.figures.column_labels import readable, short, value
from p2p_sim.results.results_directory import TAKEN, Results, read_results
from p2p_sim.results.rows import FAILURES, MANIFEST, ROWS, TABLE, read_manifest

MEASURED = ("error_rate", "nonprivate_error_rate", "excess_risk")
"""Columns of rows whose means stand in the table."""
FIGURES = ("accuracy", "epsilon_upper", "excess_risk", "nonprivate_accuracy")
ABOUT = {
    "epsilon_upper": "ε against the learner, upper bound: the largest over all rows, each at its own δ",
    "accuracy": "accuracy, mean over all rows",
    "excess_risk": "excess risk, mean over all rows",
    "nonprivate_accuracy": "accuracy without privacy, mean over all rows",
}
"""What the figures are."""
MOST_KEYS, MOST_READ = 60, 500_000
"""Keys of scenarios that are offered as columns; rows of results that are kept."""
Stamp = tuple[tuple[int, int, int], ...]
Cell = tuple[str, float | str]
"""What is shown, and what it is sorted and compared by."""


@dataclass
class _ListedRun:
    """What was read of a directory. fault: why it could not be read, or nothing."""

    stamp: Stamp = ()
    fault: str = ""
    settings: dict[str, Cell] = field(default_factory=dict)
    total: int = 0
    failed: int = 0
    done: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    worst: float = -math.inf
    lines: Tail = field(default_factory=Tail)

    def read(self, path: Path) -> None:
        """Read what has changed.

        Raises:
            InputError: the directory cannot be read, or is damaged.
        """
        manifest = read_manifest(path)
        self.settings = dict(_settings(manifest))
        points, replicates = promised_rows(manifest)
        self.total = points * replicates
        self.failed = sum(1 for _ in Tail().added(path / FAILURES))
        rows = _lines(self.lines, path / ROWS) if (path / ROWS).exists() else _table(path / TABLE)
        for first, row in rows:
            if first:
                self.done, self.sums, self.worst = 0, {}, -math.inf
            self._add(row, path)

    def _add(self, row: Mapping[str, Any], path: Path) -> None:
        """Add a row to the sums, from which means follow; ε is the largest, and infinite where none is stated."""
        self.done += 1
        try:
            for name in MEASURED:
                figure = row.get(name)
                self.sums[name] = self.sums.get(name, 0.0) + (math.nan if figure is None else float(figure))
            epsilon = row.get("epsilon_upper")
            self.worst = max(self.worst, math.inf if epsilon is None else float(epsilon))
        except (TypeError, ValueError):
            raise InputError(f"{path / ROWS}: a figure is no number") from None

    def figures(self) -> dict[str, Cell]:
        """Means over all rows, and the largest ε."""
        if not self.done or self.fault:
            return {}
        means = {name: total / self.done for name, total in self.sums.items()}
        found = {
            "accuracy": 1.0 - means["error_rate"],
            "nonprivate_accuracy": 1.0 - means["nonprivate_error_rate"],
            "excess_risk": means["excess_risk"],
            "epsilon_upper": self.worst,
        }
        known = {name: figure for name, figure in found.items() if not math.isnan(figure)}
        return {name: (shown_cell(name, figure), min(figure, 1e300)) for name, figure in known.items()}


class RunsTable:
    """All results directories that may be read, with what was read of them."""

    def __init__(self, places: ReadableDirectories) -> None:
        self._places = places
        self._runs: dict[Path, _ListedRun] = {}
        self._results: OrderedDict[Path, tuple[Stamp, Results]] = OrderedDict()

    @cached_property
    def _left_out(self) -> dict[str, list[str]]:
        return self._places.left_out()

    def results(self, place: Place) -> Results:
        """The results in a directory; those that were asked for last are kept.

        Raises:
            InputError: they cannot be read.
        """
        stamp = _stamp(place.path)
        held = self._results.pop(place.path, None)
        if held is None or held[0] != stamp:
            held = stamp, read_results(place.path)
        self._results[place.path] = held
        while len(self._results) > 1 and sum(len(one.rows) for _, one in self._results.values()) > MOST_READ:
            self._results.popitem(last=False)
        return held[1]

    def table(self, since: str = "") -> dict[str, Any]:
        """All runs with their cells by column, and which columns there are: first the figures, then keys of scenarios.

        version: of the table; if it is the one that is asked for, nothing else is there. left_out: published studies
        that are not offered, by the reason.

        Args:
            since: the version that the browser has.
        """
        runs = [(place, self._of(place)) for place in self._places.all()]
        marks = repr([(place.key, run.stamp, place.state, place.reason) for place, run in runs])
        version = hashlib.sha256(marks.encode()).hexdigest()[:16]
        if version == since:
            return {"version": version}
        keys = _varying(run.settings for _, run in runs)
        lines = [_line(place, run, keys) for place, run in runs]
        used = [name for name in FIGURES if any(name in line["cells"] for line in lines)]
        columns = [
            {"key": name, "name": short(name), "about": ABOUT.get(name) or readable(name, pd.DataFrame())}
            for name in (*used, *keys)
        ]
        return {"version": version, "columns": columns, "figures": len(used), "runs": lines, "left_out": self._left_out}

    def _of(self, place: Place) -> _ListedRun:
        """A directory as it is now; it is read if it has changed and is not damaged: to read a pipe would never end."""
        run, stamp = self._runs.setdefault(place.path, _ListedRun()), _stamp(place.path)
        if place.state == "damaged":
            return _ListedRun(stamp, place.reason)
        if run.stamp != stamp:
            try:
                run.read(place.path)
                run.fault = ""
            except InputError as error:
                run.fault, run.lines = str(error), Tail()
            except OSError as error:
                run.fault, run.lines = f"{place.path}: cannot be read ({error.strerror})", Tail()
            run.stamp = stamp
        return run


def _line(place: Place, run: _ListedRun, keys: Iterable[str]) -> dict[str, Any]:
    """A line of the table; `why` says what is amiss."""
    state = "damaged" if run.fault else place.state
    cells = {**run.figures(), **{key: run.settings[key] for key in keys if key in run.settings}}
    line = {"key": place.key, "name": place.name, "published": place.published, "state": state, "cells": cells}
    why = run.fault or place.reason
    return {**line, "done": run.done, "total": max(run.total, run.done), "failed": run.failed, "why": why}


def _stamp(path: Path) -> Stamp:
    """What changes when a directory does: of each of its files inode, size and time of change."""
    found = []
    for name in (MANIFEST, ROWS, TABLE, FAILURES):
        try:
            status = (path / name).stat()
        except OSError:
            found.append((0, 0, 0))
        else:
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)


def _settings(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Cell]]:
    """The keys of a scenario with their values; of a swept key, its range or how many values it has.

    Raises:
        InputError: the manifest does not say what was swept.
    """
    scenario = manifest.get("scenario")
    yield from _leaves(scenario if isinstance(scenario, Mapping) else {}, "")
    try:
        for axis in manifest.get("axes") or []:
            for place, key in enumerate(axis["keys"]):
                yield key, _swept([step[place] for step in axis["values"]])
    except (KeyError, IndexError, TypeError):
        raise InputError(f"{MANIFEST}: is not a manifest") from None


def _swept(values: list[Any]) -> Cell:
    if values and all(isinstance(one, int | float) and not isinstance(one, bool) for one in values):
        low, high = min(values), max(values)
        return (f"{value(low)} to {value(high)}" if low < high else value(low)), float(low)
    return f"{len(values)} values", f"{len(values)} values"


def _leaves(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, Cell]]:
    """Numbers and texts of a tree with their dotted keys."""
    for name, part in node.items():
        key = f"{path}{name}"
        if isinstance(part, Mapping):
            yield from _leaves(part, f"{key}.")
        elif isinstance(part, bool | str):
            yield key, (str(part).lower() if isinstance(part, bool) else part[:80],) * 2
        elif isinstance(part, int | float):
            yield key, (value(part), float(part))


def _varying(settings: Iterable[Mapping[str, Cell]]) -> list[str]:
    """Keys that have several values among the runs, in their order, but those that have columns of their own."""
    first: dict[str, Cell] = {}
    found: dict[str, None] = {}
    for one in settings:
        for key, cell in one.items():
            if first.setdefault(key, cell) != cell and key not in TAKEN:
                found[key] = None
    return [key for key in first if key in found][:MOST_KEYS]


def _lines(lines: Tail, path: Path) -> Iterator[tuple[bool, Mapping[str, Any]]]:
    """Rows that were added, each with whether it is the first of its file."""
    for line in lines.added(path):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise InputError(f"{path}: damaged (a line is no row)")
        yield lines.first, row


def _table(path: Path) -> Iterator[tuple[bool, Mapping[str, Any]]]:
    """Rows of a table without a file of lines, each with whether it is the first."""
    from pyarrow import ArrowInvalid, parquet

    if not path.exists():
        return
    try:
        there = set(parquet.read_schema(path).names)
        table = parquet.read_table(path, columns=[name for name in (*MEASURED, "epsilon_upper") if name in there])
    except (OSError, ArrowInvalid) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    for place, row in enumerate(table.to_pylist()):
        yield place == 0, row
