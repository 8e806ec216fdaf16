"""What is used of a user's table: its columns by the key that names them, and its kept rows."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.errors import InputError, shortened
from p2p_sim.population.features import FeatureColumn, Rows, is_text
from p2p_sim.population.table_file import ColumnTable, Values, is_missing

FAR = 1e3
"""How many times as large as the largest number of a column the number of a row that is replaced is."""


@dataclass(frozen=True)
class UsedRows:
    """What is used of a file; kept: (m,) indices of its rows; labels, cluster: (m,); classes: their names in order.

    target: (m,) labels that are numbers; None if they are classes.
    """

    table: ColumnTable
    kept: Rows
    labels: NDArray[np.uint8]
    classes: list[str]
    cluster: NDArray[np.int64] | None
    columns: list[FeatureColumn]
    target: NDArray[np.float64] | None = None


def named_column(table: ColumnTable, name: str, key: str) -> Values:
    """The column that the key `population.{key}` names.

    Raises:
        InputError: the file has no such column.
    """
    if name not in table.columns:
        raise InputError(
            f"population.{key} = {name!r}: {table.path} has {shortened(', '.join(map(repr, table.columns)))}"
            f"{table.otherwise_read()}"
        )
    return table.columns[name]


def plain_column(table: ColumnTable, name: str, key: str) -> Values:
    """The same, of one plain value a row.

    Raises:
        InputError: the file has no such column, or it holds arrays.
    """
    values = named_column(table, name, key)
    if values.ndim != 1 or values.dtype.kind not in "biufUSOMT":
        raise InputError(f"population.{key} = {name!r}: must be one plain value a row in {table.path}")
    return values


def complete_values(table: ColumnTable, name: str, key: str, kept: Rows) -> Values:
    """A column's kept values, numbers or texts.

    Raises:
        InputError: a value is missing, or is neither a number nor a text.
    """
    values = table.columns[name][kept]
    gaps = np.flatnonzero(is_missing(values))
    if gaps.size:
        where, _ = table.cell(name, int(kept[gaps[0]]))
        more = f" ({len(gaps):,} rows without a value)" if len(gaps) > 1 else ""
        raise InputError(
            f"population.{key} = {name!r}: {table.path}: {where}: has no value{more}; population.drop = true "
            "leaves such users out"
        )
    if values.dtype.kind == "O" and not all(isinstance(value, str | int | float) for value in values):
        raise InputError(f"population.{key} = {name!r}: must be one plain value a row in {table.path}")
    return values.astype(str) if values.dtype.kind == "O" else values


def with_another_row(table: ColumnTable, row: int, features: Iterable[str], label: str) -> ColumnTable:
    """The table with one row replaced: numbers far outside of what the columns hold, texts that occur nowhere else, and
    the label of somebody who has another one."""
    columns = dict(table.columns)
    for name in {*features, label}:
        values = columns[name].copy()
        if name == label:
            values[row] = next((v for v in values if v != values[row]), values[row])
        elif is_text(values):
            values = values.astype(object)
            values[row] = "a text of no other row"
        else:
            values = values.astype(np.float64)
            values[row] = FAR * (1.0 + np.nanmax(np.abs(values)))
        columns[name] = values
    return replace(table, columns=columns)
