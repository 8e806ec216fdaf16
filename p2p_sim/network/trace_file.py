"""Reading measured traces: CSV files with a header line and numbers below it."""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError

MOST = 1e9
"""Largest number allowed in a trace; in seconds, this is approximately 32 years."""


@dataclass(frozen=True)
class TraceTable:
    """Columns of numbers that were read from a trace.

    path: the file. line: (m,) number of the line on which each of the m rows ends, from 1. columns: the numbers (m,) of
    each column, from 0 to 1e9, under the column's name.
    """

    path: Path
    line: NDArray[np.int64]
    columns: dict[str, NDArray[np.float64]]

    def take(self, rows: NDArray[np.intp]) -> "TraceTable":
        """A table of the chosen rows (k,), in their order."""
        return TraceTable(self.path, self.line[rows], {name: column[rows] for name, column in self.columns.items()})


def read_trace(path: Path, names: tuple[str, ...], key: str) -> TraceTable:
    """Read the named columns of a CSV file; empty lines are skipped.

    If one column is wanted and the file has a single column, this column may have any name that is not a number.

    Args:
        path: a CSV file in UTF-8.
        names: columns to read.
        key: the scenario key that named the file, for errors.

    Raises:
        InputError: the file is unreadable, or has no such column or no rows; or a cell is no number from 0 to 1e9, and
        the message names the line.
    """
    rows, lines = [], []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            # the first row that is not empty names the columns
            header = [cell.strip() for cell in next((row for row in reader if row), [])]
            where = _positions(header, names, f"{key} = {str(path)!r}")
            for row in reader:
                if row:
                    rows.append(list(_cells(row, where, f"{key} = {str(path)!r}: line {reader.line_num}")))
                    lines.append(reader.line_num)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{key} = {str(path)!r}: cannot be read ({error})") from None
    if not rows:
        raise InputError(f"{key} = {str(path)!r}: has no rows; a header line and at least one row are needed")
    return TraceTable(path, np.array(lines), dict(zip(names, np.array(rows).T.copy(), strict=True)))


def _positions(header: list[str], names: tuple[str, ...], context: str) -> dict[str, int]:
    """The position of each wanted column in the header line, from 0.

    If one column is wanted, a single cell in the header stands for this column, unless the cell is a number.

    Args:
        header: the cells of the header line. names: names of the wanted columns. context: beginning of an error
        message.

    Raises:
        InputError: a name does not occur in the header, or occurs more than once.
    """
    if len(header) == len(names) == 1 and _number(header[0]) is None:
        return {header[0]: 0}
    for name in names:
        if header.count(name) != 1:
            header_names = ", ".join(map(repr, header)) or "nothing"
            raise InputError(f"{context}: must have one column {name!r} in its header line, which has {header_names}")
    return {name: header.index(name) for name in names}


def _cells(row: list[str], where: dict[str, int], context: str) -> Iterator[float]:
    """Yields the numbers in the wanted cells of one row, in the order of `where`.

    Args:
        row: all cells of the row, as texts. where: position of each wanted column, from 0. context: beginning of an
        error message.

    Raises:
        InputError: a cell is missing or is no number from 0 to 1e9.
    """
    for name, i in where.items():
        cell = row[i].strip() if i < len(row) else ""
        number = _number(cell)
        if number is None or not 0.0 <= number <= MOST:
            raise InputError(f"{context}: {name} = {cell!r} must be a number from 0 to 1e9")
        yield number


def _number(cell: str) -> float | None:
    """The finite number in a cell; None: the cell has no such number."""
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in cell else None
