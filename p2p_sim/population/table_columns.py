"""What is used of a user's table: its columns by the key that names them, its labels, and its rows."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.errors import InputError, shortened
from p2p_sim.population.features import FeatureColumn, Rows, is_text, quoted
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


Classes = tuple[str | int | float, ...]


def numbers_of(label: str, table: ColumnTable, values: Values) -> NDArray[np.float64]:
    """Labels (m,) that are finite numbers.

    Raises:
        InputError: they are texts, or one is infinite.
    """
    if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise InputError(f"population.label = {label!r}: label_range needs finite numbers in {table.path}")
    return values.astype(np.float64)


def stated_places(asked: tuple[str, Classes], table: ColumnTable, kept: Rows, values: Values) -> NDArray[np.uint8]:
    """Number of each kept row's class in the stated order.

    Args:
        asked: column of the label, and all classes in their order. table: the file. kept, values: (m,) indices of its
            rows that are used, and their labels.

    Raises:
        InputError: classes are texts where labels are numbers, or the reverse, or a label is not among them.
    """
    label, classes = asked
    words = values.dtype.kind in "US"
    for stated in classes:
        if isinstance(stated, str) != words:
            kind, example = ("text", quoted(str(stated))) if words else ("numbers", "[0, 1]")
            raise InputError(
                f"population.classes: {stated!r}: column {label!r} of {table.path} holds {kind}; write it as "
                f"in {example}"
            )
    place = {stated if words else float(stated): k for k, stated in enumerate(classes)}
    numbers = [place.get(str(value) if words else float(value), -1) for value in values.tolist()]
    unknown = np.flatnonzero(np.array(numbers) < 0)
    if unknown.size:
        where, text = table.cell(label, int(kept[unknown[0]]))
        shown = shortened(", ".join(map(name_of, classes)))
        raise InputError(
            f"{table.path}: {where}: {shortened(text.strip())!r} is not among population.classes ({shown}); add it "
            "there, or to population.missing with drop = true"
        )
    return np.array(numbers, dtype=np.uint8)


def numbered_classes(
    asked: tuple[str, Classes | None], table: ColumnTable, kept: Rows
) -> tuple[NDArray[np.uint8], list[str]]:
    """Number of each kept row's class (m,), and the classes' names: as stated, else those that occur, sorted.

    Args:
        asked: column of the label, and all classes in their order, if they are stated. table: the file.
        kept: (m,) indices of its rows that are used.
    """
    label, classes = asked
    values = complete_values(table, label, "label", kept)
    if classes is not None:
        return stated_places((label, classes), table, kept, values), [name_of(value) for value in classes]
    found, labels = np.unique(values, return_inverse=True)
    if not 2 <= len(found) <= 256:
        kind = "; a label is a class, so divide its numbers into a few ranges first" if len(found) > 256 else ""
        kind += ", or give population.label_range" if kind and values.dtype.kind in "biuf" else ""
        raise InputError(
            f"population.label = {label!r}: {len(found)} distinct values in {table.path}; 2 to 256 are allowed{kind}"
        )
    return labels.astype(np.uint8), [name_of(value) for value in found.tolist()]


def name_of(value: object) -> str:
    """A class as messages show it."""
    return f"{value:g}" if isinstance(value, float) else str(value)
