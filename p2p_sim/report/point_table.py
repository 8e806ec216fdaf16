"""The report's tables of points (combinations of swept values) and of groups of users."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from p2p_sim.figures import loss_text, readable, short
from p2p_sim.measures import ACCURACY, HIGH, LOSS, LOW, REFERENCE_ACCURACY, SHARE, groups_of
from p2p_sim.report.columns import decimals, number, plain, with_interval
from p2p_sim.report.privacy_statement import rounded_up

MOST_COLUMNS, MOST_LINES, MOST_AXES = 12, 400, 5


class Figure(NamedTuple):
    """A column of numbers that the table of points may show.

    column: its name in the rows. heading: the column's head, in words. worst: whether the column has values of ε. Then
    the largest value over replicates is shown, otherwise the mean.
    """

    column: str
    heading: str
    worst: bool


FIGURES = (
    Figure("accuracy", "accuracy", False),
    Figure("excess_risk", "excess risk", False),
    Figure("half_l1", "half-L1 distance", False),
    Figure("epsilon_upper", "ε, learner", True),
    Figure("epsilon_local", "ε₀, noise alone", True),
    Figure("nonprivate_accuracy", "accuracy without privacy", False),
    Figure("majority_accuracy", "accuracy of the majority class", False),
    Figure("nonprivate_excess_risk", "excess risk without privacy", False),
    Figure("constant_excess_risk", "excess risk of the best constant", False),
    Figure("nonprivate_half_l1", "half-L1 distance without noise", False),
    Figure("cells", "histogram cells released", False),
    Figure("effective_sampling_rate", "labels that arrive, share", False),
)
"""Columns of the table in order of importance. Excess risk replaces accuracy if known at all points."""
MORE = (
    Figure("epsilon_coalition_upper", "ε, coalition", True),
    Figure("epsilon_times_upper", "ε, arrival times", True),
    Figure("epsilon_paper", "ε, Theorem 1", True),
    Figure("epsilon_paper_lemma9", "ε, Lemma 9", True),
    Figure("auc", "AUC", False),
    Figure("nonprivate_auc", "AUC without privacy", False),
)
"""Columns after `FIGURES`. Each is shown if it has values and the table has fewer than twelve columns."""


class TableCell(NamedTuple):
    """A cell.

    text: what is shown. interval: shown in smaller type after the text. order: a number in full or a text, by which the
    table is sorted; empty values come last. rest: the values of the other swept keys, which the first cell of a line
    shows on a narrow screen.
    """

    text: str
    interval: str = ""
    order: str = ""
    rest: str = ""


class TableColumn(NamedTuple):
    """The head of a column.

    heading: the head in words, with the unit. keys: the scenario's keys that the column shows, or the column's name in
    the rows. number: whether the cells are numbers. axis: whether the column shows swept keys.
    """

    heading: str
    keys: str
    number: bool
    axis: bool = False


class FilledColumn(NamedTuple):
    """A column with its cells, one for each line."""

    head: TableColumn
    cells: list[TableCell]


def _table(columns: Sequence[FilledColumn], left_out: int) -> dict[str, Any]:
    """A table as the page's template takes it: the heads of columns, lines with a cell for each column, and `left_out`.

    Args:
        columns: heads with their cells, equally many in each column. left_out: number of lines that are not shown.
    """
    lines = list(zip(*(column.cells for column in columns), strict=True))
    return {"columns": tuple(column.head for column in columns), "lines": lines, "left_out": left_out}


def points_table(points: pd.DataFrame, keys: Sequence[str]) -> dict[str, Any]:
    """The table of points as the page's template takes it: at most 400 points and twelve columns, swept keys first.

    points: one line for each point, with numbers of replicates and of failures. keys: the swept keys.
    """
    failed = bool((points["failures"] > 0).any())
    displayed = points.head(MOST_LINES)
    columns = axis_columns(displayed, keys)
    for name, heading, worst in figures(points, MOST_COLUMNS - min(len(keys), MOST_AXES + 1) - 1 - failed):
        unit = f" ({loss_text(points)})" if name.endswith("excess_risk") else ""
        columns.append(FilledColumn(TableColumn(heading + unit, name, True), figure_cells(displayed, name, worst)))
    counts = [("replicates", TableColumn("replicates", "replicates", True))]
    counts += [("failures", TableColumn("failed", "failed replicates", True))] * failed
    columns += [FilledColumn(head, plain_cells(displayed[name].tolist())) for name, head in counts]
    return _table(columns, len(points) - len(displayed))


def figures(points: pd.DataFrame, most: int) -> list[Figure]:
    """The columns of the table of points, in order of importance: the first `most` that have a value at some point.

    If excess risk is known at all points, accuracies are left out. Otherwise, excess risks are left out.

    Args:
        points: one line for each point. most: largest number of columns.
    """
    skipped = ("excess_risk", "nonprivate_excess_risk", "constant_excess_risk")
    if points["excess_risk"].notna().all():
        skipped = ("accuracy", "nonprivate_accuracy", "majority_accuracy")
    columns = [name for name in points if name not in skipped and points[name].notna().any()]
    return [figure for figure in (*FIGURES, *MORE) if figure.column in columns][:most]


def ranges(points: pd.DataFrame) -> list[tuple[str, ...]]:
    """For each column that `figures` chooses, at most twelve: heading, least, median and largest value, as texts."""
    lines = []
    for name, heading, worst in figures(points, MOST_COLUMNS):
        values, show = points[name].dropna().astype(float), rounded_up if worst else number
        lines.append((heading, *(show(float(v)) for v in (values.min(), values.median(), values.max()))))
    return lines


def axis_columns(points: pd.DataFrame, keys: Sequence[str]) -> list[FilledColumn]:
    """The table's columns for the swept keys: one for each of the first five, and one for all others together.

    For narrow screens, `rest` in the first column holds the values of all other keys, such as "θ = 0.5; n = 400".

    Args:
        points: the data frame, a row for each point. keys: its columns that hold swept keys.
    """
    columns = []
    for key in keys[:MOST_AXES]:
        values = points[key].tolist()
        number = all(is_number(value) for value in values if not is_missing(value))
        head = TableColumn(plain(readable(key, points)), plain(key), number, axis=True)
        columns.append(FilledColumn(head, plain_cells(values)))
    # keys beyond the first five share a column
    lines = points[list(keys)].to_dict("records")
    if beyond := keys[MOST_AXES:]:
        texts = ["; ".join(f"{key} = {plain(line[key], 20)}" for key in beyond) for line in lines]
        head = TableColumn("others", plain(", ".join(beyond)), False, axis=True)
        columns.append(FilledColumn(head, plain_cells(texts)))
    if len(keys) > 1:
        rest = ["; ".join(f"{short(key)} = {plain(line[key], 20)}" for key in keys[1:]) for line in lines]
        cells = [cell._replace(rest=text) for cell, text in zip(columns[0].cells, rest, strict=True)]
        columns[0] = columns[0]._replace(cells=cells)
    return columns


def figure_cells(points: pd.DataFrame, name: str, worst: bool) -> list[TableCell]:
    """The cells of a column: each ε rounded up if `worst`; else means and intervals with equally many decimals."""
    values = points[name].astype(float).tolist()
    if worst:
        return [TableCell(rounded_up(v), order=_order(v)) for v in values]
    low, high = points[f"{name}{LOW}"].astype(float), points[f"{name}{HIGH}"].astype(float)
    places = decimals((high - low) / 2)
    ends = zip(values, low.tolist(), high.tolist(), strict=True)
    return [TableCell(*with_interval(*triple, places), order=_order(triple[0])) for triple in ends]


def plain_cells(values: Sequence[Any]) -> list[TableCell]:
    """Cells that hold values as they are, sorted as numbers or as texts."""
    orders = ("" if is_missing(v) else _order(v) if is_number(v) else plain(v) for v in values)
    return [TableCell(plain(value), order=order) for value, order in zip(values, orders, strict=True)]


def _order(value: float) -> str:
    """A number in full, in the form that the page's script reads, such as "0.25" or "-Infinity"; empty for NaN."""
    if math.isnan(value):
        return ""
    return repr(value) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def is_number(value: Any) -> bool:
    """Whether a value is a number; True and False do not count as numbers."""
    return not isinstance(value, bool | str) and isinstance(value, int | float)


def is_missing(value: Any) -> bool:
    """Whether a value is None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


GROUP_FIGURES = (
    (SHARE, "share of the rows"),
    (REFERENCE_ACCURACY, "accuracy without privacy"),
    (ACCURACY, "accuracy"),
    (LOSS, "loss of accuracy"),
)


def groups_table(points: pd.DataFrame, keys: Sequence[str]) -> dict[str, Any]:
    """The table of groups as the page's template takes it: at most 400 lines.

    If no groups were measured, the table has neither columns nor lines.

    A line for a point and a group has the group's share of rows, and accuracies with and without privacy. A group has
    held-out rows of one class, of clusters of similar size, or with one value of a public column.

    points: one line for each point. keys: the swept keys.
    """
    # in each group's part, columns are named by the measure alone, so that groups can be stacked
    parts: list[pd.DataFrame] = []
    for group in groups_of(points):
        names = {group.column(figure) + end: figure + end for figure, _ in GROUP_FIGURES for end in ("", LOW, HIGH)}
        part = points.reindex(columns=[*keys, *names]).rename(columns=names)
        part = part[part[ACCURACY].notna()]
        parts.append(part.assign(group=str(group), _place=part.index, _order=len(parts)))
    if not sum(map(len, parts)):
        return {"columns": [], "lines": [], "left_out": 0}
    # by point, then by group
    table = pd.concat(parts).sort_values(["_place", "_order"], kind="stable").reset_index(drop=True)
    displayed = table.head(MOST_LINES)
    columns = axis_columns(displayed, keys)
    group_head = TableColumn("group", "learner.groups", False)
    columns.append(FilledColumn(group_head, plain_cells(displayed["group"].tolist())))
    columns += [
        FilledColumn(TableColumn(heading, figure, True), figure_cells(displayed, figure, worst=False))
        for figure, heading in GROUP_FIGURES
    ]
    return _table(columns, len(table) - len(displayed))
