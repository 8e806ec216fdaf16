"""Results as pages read them: lines of a file that grows, several directories as one, cells for people."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from p2p_sim.base.errors import InputError
from p2p_sim.base.notebook_view import bound_text
from p2p_sim.base.toml import value_at
from p2p_sim.explorer.directories import ReadableDirectory
from p2p_sim.figures.column_labels import value
from p2p_sim.measures.point_means import POINT, is_privacy
from p2p_sim.results.results_directory import Results

RESULTS = "results"
"""The column that says, of several directories, from which one a point is."""
MOST_PLACES, MOST_NAMED = 100, 3
"""Results directories that are shown at a time, and those that a heading names."""
Reading = Callable[[ReadableDirectory], Results]


def gathered(directories: Sequence[ReadableDirectory], read_at: Reading) -> Results:
    """One or several results directories as one; several have the column `results`.

    Raises:
        InputError: none is named, or one cannot be read.
    """
    if not directories:
        raise InputError("results: choose at least one results directory")
    if len(directories) > MOST_PLACES:
        many = f"{len(directories):,} directories are chosen"
        raise InputError(f"results: {many}, at most {MOST_PLACES} are shown at a time")
    read = [read_at(directory) for directory in directories]
    if len(read) == 1:
        return read[0]
    # every key that any of them sweeps has a column in all
    axes = list(dict.fromkeys(chain.from_iterable(results.axes for results in read)))
    keys = list(dict.fromkeys(chain.from_iterable(axes)))
    parts = [_part(directory, results, keys) for directory, results in zip(directories, read, strict=True)]
    rows = pd.concat(parts, ignore_index=True)
    for key in keys:
        rows[key] = _of_one_kind(rows, key)
    named = ", ".join(directory.name for directory in directories[:MOST_NAMED])
    name = named if len(directories) <= MOST_NAMED else f"{len(directories)} runs"
    return replace(read[0], name=name, rows=rows, axes=((RESULTS,), *axes), plots=())


def _part(directory: ReadableDirectory, results: Results, keys: Sequence[str]) -> pd.DataFrame:
    """The rows of one of several directories, with all keys, and with points whose names are of this directory."""
    part = results.rows.copy()
    for key in keys:
        if key not in part:
            part[key] = pd.Series([_held(results.scenario, key)] * len(part), part.index)
    part[RESULTS], part[POINT] = directory.name, directory.key + ":" + part[POINT].astype(str)
    return part.dropna(axis="columns", how="all")  # an empty column has no type of its own


def _of_one_kind(rows: pd.DataFrame, key: str) -> pd.Series:
    """A column whose cells can be compared: if numbers and texts are mixed, or cells are missing, all become texts."""
    cells = rows[key] if key in rows else pd.Series([None] * len(rows), rows.index)
    if cells.dtype != object or cells.map(lambda cell: isinstance(cell, str)).all():
        return cells
    return pd.Series([cell if isinstance(cell, str) else value(cell) for cell in cells], cells.index)


def _held(scenario: Mapping[str, Any], key: str) -> object:
    """The value that a key has in a scenario which was not swept along it: of a table its kind; None if it has none."""
    node = value_at(scenario, key)
    if isinstance(node, Mapping):
        return str(node.get("kind", ""))
    return node if isinstance(node, str | int | float) else None


@dataclass
class Tail:
    """Reads the lines that were added to a file; one that was written anew is read from its beginning.

    first: whether the line that was read last is the first of the file.
    """

    inode: int = -1
    offset: int = 0
    first: bool = False

    def added(self, path: Path) -> Iterator[bytes]:
        """Whole lines that were added since the last call; none if there is no such file."""
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


def shown_cell(column: str, cell: object) -> str:
    """A cell as people read it; bounds on privacy are rounded to the side on which they hold."""
    plain = cell.item() if isinstance(cell, np.generic) else cell
    if isinstance(plain, float) and is_privacy(column) and column != "delta" and not np.isnan(plain):
        return bound_text(plain, "lower" not in column)
    return value(plain)
