"""Selects the parts of a table that a scenario uses: columns by name, rows without missing values, and labels."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError, shortened
from p2p_sim.population.features import FeatureColumn, Rows, is_text, quoted
from p2p_sim.population.table_file import ColumnTable, Values, is_missing

FAR = 1e3
"""The factor c of `with_another_row`: a new number is c (1 + m), with m the largest absolute value in the column."""


@dataclass(frozen=True)
class UsedRows:
    """The m rows of a table that become users or are held out.

    indices: (m,) positions of the rows in the file, from 0. labels: (m,) index of each row's class, or of its value in
    the public grid, 0..K-1. classes: names of the K classes or grid values, in order. cluster: (m,) cluster of each
    row, numbered from 0; None: the scenario names no cluster column. columns: the columns of the features. target: (m,)
    numeric labels before rounding; None: labels are classes.
    """

    table: ColumnTable
    indices: Rows
    labels: NDArray[np.uint8]
    classes: list[str]
    cluster: NDArray[np.int64] | None
    columns: list[FeatureColumn]
    target: NDArray[np.float64] | None = None


def named_column(table: ColumnTable, name: str, key: str) -> Values:
    """The values of the column that the key `population.{key}` names.

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
    """The values of the column that the key `population.{key}` names, one plain value in each row.

    Raises:
        InputError: the file has no such column, or the column has arrays.
    """
    values = named_column(table, name, key)
    if values.ndim != 1 or values.dtype.kind not in "biufUSOMT":
        raise InputError(f"population.{key} = {name!r}: must be one plain value a row in {table.path}")
    return values


def complete_rows(table: ColumnTable, drop: bool | tuple[str, ...], used: list[str]) -> Rows:
    """Indices of the rows that have a value in each of the columns that `drop` selects.

    drop: names of columns; true: the columns in `used`; false: no column, so all rows remain.
    """
    gap = np.zeros(table.rows, dtype=np.bool_)
    for name in drop if isinstance(drop, tuple) else used if drop else ():
        values = named_column(table, name, "drop")
        if values.ndim and len(values) == len(gap):
            gap |= is_missing(values)
    if gap.all():
        raise InputError(
            f"population.drop: every row of {table.path} has a missing value; list the columns that must be there"
        )
    return np.flatnonzero(~gap)


def complete_values(table: ColumnTable, name: str, key: str, used_rows: Rows) -> Values:
    """The values (m,) of a column in the used rows, numbers or texts. No value is missing.

    Args:
        key: the key of [population] that names the column. used_rows: (m,) indices of the rows.

    Raises:
        InputError: a value is missing, or is neither a number nor a text.
    """
    values = table.columns[name][used_rows]
    gaps = np.flatnonzero(is_missing(values))
    if gaps.size:
        where = table.cell(name, int(used_rows[gaps[0]])).where
        more = f" ({len(gaps):,} rows without a value)" if len(gaps) > 1 else ""
        raise InputError(
            f"population.{key} = {name!r}: {table.path}: {where}: has no value{more}; population.drop = true "
            "leaves such users out"
        )
    if values.dtype.kind == "O" and not all(isinstance(value, str | int | float) for value in values):
        raise InputError(f"population.{key} = {name!r}: must be one plain value a row in {table.path}")
    return values.astype(str) if values.dtype.kind == "O" else values


def with_another_row(table: ColumnTable, row: int, features: Iterable[str], label: str) -> ColumnTable:
    """The table with one row replaced. A test uses this table to see whether other rows' features change.

    New numbers lie far outside their columns' ranges. New texts occur in no other row. The new label differs from the
    old label if any other label occurs.

    Args:
        row: index of the replaced row. features, label: names of the columns that change.
    """
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


Classes = tuple[str | int | float, ...]


def numbers_of(label: str, table: ColumnTable, values: Values) -> NDArray[np.float64]:
    """The `values` of a label column as finite numbers (m,); `label` and `table` are for messages.

    Raises:
        InputError: the values are texts, or a value is not finite.
    """
    if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise InputError(f"population.label = {label!r}: label_range needs finite numbers in {table.path}")
    return values.astype(np.float64)


def stated_numbers(
    table: ColumnTable, used_rows: Rows, values: Values, *, label: str, classes: Classes
) -> NDArray[np.uint8]:
    """The class (m,) of each used row, 0..K-1, numbered in the order in which the scenario states the classes.

    Args:
        used_rows: (m,) indices of the used rows. values: (m,) labels of these rows.
        label: name of the label column. classes: all classes in order.

    Raises:
        InputError: a class is a text but labels are numbers, or the reverse; or a label is not among the classes.
    """
    # texts are not compared with numbers: 1 is not "1"
    words = values.dtype.kind in "US"
    for stated in classes:
        if isinstance(stated, str) != words:
            kind, example = ("text", quoted(str(stated))) if words else ("numbers", "[0, 1]")
            raise InputError(
                f"population.classes: {stated!r}: column {label!r} of {table.path} holds {kind}; write it as "
                f"in {example}"
            )
    number_of = {stated if words else float(stated): k for k, stated in enumerate(classes)}
    numbers = [number_of.get(str(value) if words else float(value), -1) for value in values.tolist()]
    unknown = np.flatnonzero(np.array(numbers) < 0)
    if unknown.size:
        cell = table.cell(label, int(used_rows[unknown[0]]))
        listed = shortened(", ".join(map(name_of, classes)))
        raise InputError(
            f"{table.path}: {cell.where}: {shortened(cell.text.strip())!r} is not among population.classes ({listed}); "
            "add it there, or to population.missing with drop = true"
        )
    return np.array(numbers, dtype=np.uint8)


class NumberedClasses(NamedTuple):
    """Names of the K classes in order, and the class (m,) of each used row, 0..K-1."""

    names: list[str]
    labels: NDArray[np.uint8]


def numbered_classes(table: ColumnTable, used_rows: Rows, *, label: str, stated: Classes | None) -> NumberedClasses:
    """The names of a table's K classes in order, and the class (m,) of each used row, 0..K-1.

    Args:
        used_rows: (m,) indices of the table's rows that are used.
        label: name of the label column. stated: all classes in order; None: the labels that occur, ascending.

    Raises:
        InputError: a label is missing or is not a stated class; or no class is stated, and not 2 to 256 labels occur.
    """
    values = complete_values(table, label, "label", used_rows)
    if stated is not None:
        numbers = stated_numbers(table, used_rows, values, label=label, classes=stated)
        return NumberedClasses([name_of(value) for value in stated], numbers)
    occurring, labels = np.unique(values, return_inverse=True)
    if not 2 <= len(occurring) <= 256:
        kind = "; a label is a class, so divide its numbers into a few ranges first" if len(occurring) > 256 else ""
        kind += ", or give population.label_range" if kind and values.dtype.kind in "biuf" else ""
        raise InputError(
            f"population.label = {label!r}: {len(occurring)} distinct values in {table.path}; 2 to 256 are "
            f"allowed{kind}"
        )
    return NumberedClasses([name_of(value) for value in occurring.tolist()], labels.astype(np.uint8))


def name_of(value: object) -> str:
    """The name of a class in messages and pictures. A float has at most six significant digits."""
    return f"{value:g}" if isinstance(value, float) else str(value)
