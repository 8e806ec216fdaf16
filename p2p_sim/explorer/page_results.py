"""Results for the explorer's pages: new lines of a file, joined results of several directories, and cells as texts."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from p2p_sim.base import InputError, bound_text, value_at
from p2p_sim.explorer.directories import ReadableDirectory
from p2p_sim.figures import value
from p2p_sim.measures import POINT, is_privacy
from p2p_sim.results import Results

RESULTS = "results"
"""The column with the name of a point's directory, if several directories are shown."""
MOST_PLACES, MOST_NAMED = 100, 3
"""Largest number of results directories that are shown at a time, and largest number that a heading names."""
Reading = Callable[[ReadableDirectory], Results]


def gathered(directories: Sequence[ReadableDirectory], read_at: Reading) -> Results:
    """The results of one or several directories as one `Results` object, with one row for each scenario and replicate.

    The results of a single directory are returned unchanged. The rows of several directories stand below each other. A
    new column `results` then holds the directory's name and counts as a swept key. Every key that some directory sweeps
    is a column.

    Args:
        directories: the results directories. read_at: a function that reads a directory and returns its results.

    Raises:
        InputError: no directory is given, more than 100 are given, or a directory cannot be read.
    """
    if not directories:
        raise InputError("results: choose at least one results directory")
    if len(directories) > MOST_PLACES:
        raise InputError(
            f"results: {len(directories):,} directories are chosen, at most {MOST_PLACES} are shown at a time"
        )
    read = [read_at(directory) for directory in directories]
    if len(read) == 1:
        return read[0]
    # every key that some of the results sweep becomes a column
    axes = list(dict.fromkeys(chain.from_iterable(results.axes for results in read)))
    keys = list(dict.fromkeys(chain.from_iterable(axes)))
    parts = [_part(directory, results, keys) for directory, results in zip(directories, read, strict=True)]
    rows = pd.concat(parts, ignore_index=True)
    for key in keys:
        # cells must be comparable: if a column mixes types, all its cells become texts
        cells = rows[key] if key in rows else pd.Series([None] * len(rows), rows.index)
        if cells.dtype == object and not cells.map(lambda cell: isinstance(cell, str)).all():
            cells = pd.Series([cell if isinstance(cell, str) else value(cell) for cell in cells], cells.index)
        rows[key] = cells
    few = len(directories) <= MOST_NAMED
    name = ", ".join(directory.name for directory in directories) if few else f"{len(directories)} runs"
    return replace(read[0], name=name, rows=rows, axes=((RESULTS,), *axes), plots=())


def _part(directory: ReadableDirectory, results: Results, keys: Sequence[str]) -> pd.DataFrame:
    """One directory's rows, ready to be put below the rows of other directories. The column `results` gets the
    directory's name. The column `scenario` names a row's combination of swept values. The directory's key and a colon
    are put before this name. Columns without any value are left out.

    Args:
        directory: the directory. results: its results. keys: the keys that any of the directories sweeps; each becomes
        a column. A key that this directory does not sweep gets the value in the base scenario. If this value is a table
        of settings, the column holds the table's kind. If the scenario lacks the key, the column holds None.
    """
    part = results.rows.copy()
    for key in keys:
        if key not in part:
            # the value in the scenario, or the kind of a table of settings; None if the scenario lacks the key
            node = value_at(results.scenario, key)
            if isinstance(node, Mapping):
                node = str(node.get("kind", ""))
            held = node if isinstance(node, str | int | float) else None
            part[key] = pd.Series([held] * len(part), part.index)
    part[RESULTS], part[POINT] = directory.name, directory.key + ":" + part[POINT].astype(str)
    return part.dropna(axis="columns", how="all")  # an empty column has no type of its own


@dataclass
class Tail:
    """A reader of the lines that are added to a file. A file that was written anew is read from its beginning.

    inode: the file's inode. offset: number of bytes that have been read. first: whether the last line read is the first
    line.
    """

    inode: int = -1
    offset: int = 0
    first: bool = False

    def added(self, path: Path) -> Iterator[bytes]:
        """Yields the lines added since the last call, without an incomplete last line; none if the file is missing."""
        if not path.exists():
            return
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_ino != self.inode or status.st_size < self.offset:
                self.inode, self.offset = status.st_ino, 0
            file.seek(self.offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self.first = self.offset == 0
                self.offset += len(line)
                yield line


def row_in(line: bytes) -> dict[str, Any] | None:
    """The row of results in a line of JSON, as cells by column; None if the line is damaged."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def shown_cell(column: str, cell: object) -> str:
    """A cell of the column `column` as text, as `column_labels.value` writes it. A float of a privacy column other
    than δ has at most four significant digits: lower bounds are rounded down, all others up.
    """
    plain = cell.item() if isinstance(cell, np.generic) else cell
    if isinstance(plain, float) and is_privacy(column) and column != "delta" and not np.isnan(plain):
        return bound_text(plain, "lower" not in column)
    return value(plain)
