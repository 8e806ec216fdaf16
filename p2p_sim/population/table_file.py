"""A table in a CSV, Parquet or NPZ file: its columns, and the line of each cell for messages."""

import csv
import gzip
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.errors import InputError, shortened

if TYPE_CHECKING:
    import pandas as pd

Values = NDArray[np.generic]
SEPARATORS = (",", ";", "\t", "|")
"""Those that are recognised."""


class Layout(NamedTuple):
    """How a CSV file is to be read.

    header: whether the first line names the columns; None: it must look like names. separator: between two cells.
    missing: texts that stand for a missing value, besides an empty cell and the usual NA and NaN.
    """

    header: bool | None = None
    separator: str = ","
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """The columns of a file, each with one value (n,) or several (n, k) a row; without a header: "1", "2", ..."""

    path: Path
    layout: Layout
    columns: dict[str, Values]

    @property
    def is_csv(self) -> bool:
        """Whether the file has lines."""
        return self.path.suffix in (".csv", ".gz")

    @property
    def rows(self) -> int:
        """Rows of the longest column."""
        return max((len(values) for values in self.columns.values() if values.ndim), default=0)

    def otherwise_read(self) -> str:
        """What might read the file better, as the end of a message; nothing where it seems to be read well."""
        if not self.is_csv:
            return ""
        with opened(self.path) as file:
            first = next(file, "")
        better = max(SEPARATORS, key=first.count)
        if len(self.columns) == 1 and first.count(better) and better != self.layout.separator:
            return f"; population.separator = {json.dumps(better)} would make {first.count(better) + 1} columns of it"
        if self.layout.header is not False and any(map(is_number, self.columns)):
            return '; if line 1 is data, population.header = false calls the columns "1", "2", and so on'
        return ""

    def cell(self, name: str, row: int) -> tuple[str, str]:
        """Where a cell is, "column 'age', line 88", and its text in the file. Rows of other files count from 0."""
        values = self.columns[name]
        if self.is_csv:
            try:
                with opened(self.path) as file:
                    found = next((f for i, f in enumerate(self._lines(file)) if i == row), None)
            except (OSError, EOFError, csv.Error):
                found = None
            place = list(self.columns).index(name)
            if found is not None:
                return f"column {name!r}, line {found[0]}", found[1][place] if place < len(found[1]) else ""
        return f"column {name!r}, row {row}", str(values[row]) if values.ndim == 1 else ""

    def _lines(self, file: TextIO) -> Iterator[tuple[int, list[str]]]:
        """The rows below the header, each with the number of its first line."""
        lines = records(file, self.layout.separator)
        if self.layout.header is not False:
            next(lines, None)
        return lines


def read_table(path: Path, layout: Layout) -> Table:
    """The columns of a file.

    Raises:
        InputError: it cannot be read, or its first line is taken for names and looks like data.
    """
    if path.suffix not in (".npz", ".csv", ".gz", ".parquet"):
        raise InputError(f"population.path = {str(path)!r}: must end in .csv, .csv.gz, .parquet or .npz")
    try:
        if path.suffix == ".npz":
            columns = _read_npz(path)
        else:
            frame = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path, layout)
            columns = {str(name): frame[name].to_numpy() for name in frame.columns}
    except InputError:
        raise
    except Exception as error:  # the readers of a damaged file raise whatever they meet first
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"population.path = {str(path)!r}: cannot be read ({first})") from None
    if path.suffix == ".parquet" and layout.missing:
        columns = {name: _with_gaps(values, layout.missing) for name, values in columns.items()}
    return Table(path, layout, columns)


def _with_gaps(values: Values, missing: tuple[str, ...]) -> Values:
    """A column of texts with NaN for those that stand for a missing value."""
    if values.dtype.kind != "O":
        return values
    found: Values = np.array([np.nan if v in missing else v for v in values], dtype=object)
    return found


def _read_npz(path: Path) -> dict[str, Values]:
    with np.load(path, allow_pickle=False) as file:
        columns = {name: np.asarray(file[name]) for name in file.files}
    for name, values in columns.items():
        if values.dtype.kind == "U":
            characters = np.frombuffer(values.tobytes(), np.dtype(np.uint32).newbyteorder(values.dtype.byteorder))
            if (characters > sys.maxunicode).any():
                raise ValueError(f"{name!r} holds what is no character")
    return columns


def _read_parquet(path: Path) -> "pd.DataFrame":
    import pandas as pd

    return pd.read_parquet(path)


def _read_csv(path: Path, layout: Layout) -> "pd.DataFrame":
    import pandas as pd

    if layout.header is not False:
        with opened(path) as file:
            lines = records(file, layout.separator)
            (_, first), (line, second) = next(lines, (0, [])), next(lines, (0, []))
        if len(second) > len(first):  # pandas would take the first column for names of rows
            raise InputError(
                f"{path}, line {line}: {len(second)} cells, but line 1 has {len(first)} names; every column needs one"
            )
        if layout.header is None and looks_like_data(first, layout.missing):
            shown = shortened(layout.separator.join(first[:5]))
            raise InputError(
                f"{path}, line 1: {shown!r} looks like data, not like names of columns; state population.header = "
                'false (columns are then called "1", "2", and so on), or header = true if these are the names'
            )
    frame = pd.read_csv(
        path, sep=layout.separator, header=None if layout.header is False else 0, na_values=list(layout.missing),
        skipinitialspace=True, engine="c",
    )  # fmt: skip
    if layout.header is False:
        frame.columns = pd.Index([str(place) for place in range(1, frame.shape[1] + 1)])
    return frame


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """The text of a CSV file; bytes that are no text are replaced."""
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
            yield file
    else:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            yield file


def records(file: TextIO, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The records of a CSV file that are not blank, each with the number of its first line, from 1."""
    reader, line = csv.reader(file, delimiter=separator, skipinitialspace=True), 1
    for record in reader:
        if len(record) > 1 or (record and record[0].strip()):
            yield line, record
        line = reader.line_num + 1


def is_number(text: str) -> bool:
    """Whether a cell is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def looks_like_data(first: list[str], missing: tuple[str, ...] = ()) -> bool:
    """Whether a first line holds numbers alone, and no run 0, 1, 2 or 1, 2, 3 that numbers the columns.

    >>> looks_like_data(["6", "148", ".5"]), looks_like_data(["0", "1", "2"]), looks_like_data(["age", "2019"])
    (True, False, False)
    """
    given = [cell.strip() for cell in first if cell.strip() and cell.strip() not in missing]
    numbered = [[str(place) for place in range(start, start + len(first))] for start in (0, 1)]
    return bool(given) and all(map(is_number, given)) and first not in numbered
