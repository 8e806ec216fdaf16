"""The tables of points and of groups: which columns, and every cell as text and as a number to sort by."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from p2p_sim.figures.column_labels import loss_text, readable, short
from p2p_sim.measures.group_gaps import ACCURACY, LOSS, REFERENCE_ACCURACY, SHARE, groups_of
from p2p_sim.measures.point_means import HIGH, LOW
from p2p_sim.report.columns import decimals, number, plain, with_interval
from p2p_sim.report.privacy_statement import rounded_up

MOST_COLUMNS, MOST_LINES, MOST_AXES = 12, 400, 5
FIGURES = (
    ("accuracy", "accuracy", False),
    ("excess_risk", "excess risk", False),
    ("half_l1", "half-L1 distance", False),
    ("epsilon_upper", "ε, learner", True),
    ("epsilon_local", "ε₀, noise alone", True),
    ("nonprivate_accuracy", "accuracy without privacy", False),
    ("majority_accuracy", "accuracy of the majority class", False),
    ("nonprivate_excess_risk", "excess risk without privacy", False),
    ("constant_excess_risk", "excess risk of the best constant", False),
    ("nonprivate_half_l1", "half-L1 distance without noise", False),
    ("cells", "cells released", False),
    ("effective_sampling_rate", "labels that arrive, share", False),
)
"""Column, heading, whether it is an ε at its worst; what is learned first; excess risk replaces accuracy if known."""
MORE = (
    ("epsilon_coalition_upper", "ε, coalition", True),
    ("epsilon_times_upper", "ε, arrival times", True),
    ("epsilon_paper", "ε, Theorem 1", True),
    ("epsilon_paper_lemma9", "ε, Lemma 9", True),
    ("auc", "AUC", False),
    ("nonprivate_auc", "AUC without privacy", False),
)
"""Shown where they are known and there is room."""


class TableCell(NamedTuple):
    """text: as shown; interval: in smaller type; order: what to sort by, a number in full or the text; empty last.

    rest: the values of the other axes, which the first cell of a line shows where there is no room for their columns.
    """

    text: str
    interval: str = ""
    order: str = ""
    rest: str = ""


class TableColumn(NamedTuple):
    """heading: in words, with the unit; keys: of the scenario, or the name in the rows; axis: a swept key."""

    heading: str
    keys: str
    number: bool
    axis: bool = False


def points_table(points: pd.DataFrame, keys: Sequence[str]) -> dict[str, Any]:
    """The first points of `with_failures`, at most 400, in at most twelve columns, axes first.

    columns: of `TableColumn`. lines: of cells. left_out: how many points are not shown.
    """
    chosen = figures(points, MOST_COLUMNS - min(len(keys), MOST_AXES + 1) - 1 - _failed(points))
    shown = points.head(MOST_LINES)
    found = axis_columns(shown, keys)
    for name, heading, worst in chosen:
        unit = f" ({loss_text(points)})" if name.endswith("excess_risk") else ""
        found.append((TableColumn(heading + unit, name, True), figure_cells(shown, name, worst)))
    found.append((TableColumn("replicates", "replicates", True), plain_cells(shown["replicates"].tolist())))
    if _failed(points):
        found.append((TableColumn("failed", "failed replicates", True), plain_cells(shown["failures"].tolist())))
    columns, filled = zip(*found, strict=True)
    return {"columns": columns, "lines": list(zip(*filled, strict=True)), "left_out": len(points) - len(shown)}


def figures(points: pd.DataFrame, most: int) -> list[tuple[str, str, bool]]:
    """The most telling figures that some point has, at most so many."""
    risk = points["excess_risk"].notna().all()
    accuracy = ("accuracy", "nonprivate_accuracy", "majority_accuracy")
    skipped = accuracy if risk else ("excess_risk", "nonprivate_excess_risk", "constant_excess_risk")
    main = [entry for entry in FIGURES if entry[0] not in skipped]
    return [entry for entry in (*main, *MORE) if entry[0] in points and points[entry[0]].notna().any()][:most]


def ranges(points: pd.DataFrame) -> list[tuple[str, ...]]:
    """Heading, least, median and largest of the figures over all points."""
    found = []
    for name, heading, worst in figures(points, MOST_COLUMNS):
        values, show = points[name].dropna().astype(float), rounded_up if worst else number
        found.append((heading, *(show(float(v)) for v in (values.min(), values.median(), values.max()))))
    return found


def _failed(points: pd.DataFrame) -> bool:
    return bool((points["failures"] > 0).any())


def axis_columns(points: pd.DataFrame, keys: Sequence[str]) -> list[tuple[TableColumn, list[TableCell]]]:
    """The swept keys, one column each; those beyond five share one. The first has the values of the others too."""
    found = []
    for key in keys[:MOST_AXES]:
        values = points[key].tolist()
        number = all(is_number(value) for value in values if not is_missing(value))
        found.append((TableColumn(plain(readable(key, points)), plain(key), number, axis=True), plain_cells(values)))
    lines = points[list(keys)].to_dict("records")
    if beyond := keys[MOST_AXES:]:
        texts = ["; ".join(f"{key} = {plain(line[key], 20)}" for key in beyond) for line in lines]
        found.append((TableColumn("others", plain(", ".join(beyond)), False, axis=True), plain_cells(texts)))
    if len(keys) > 1:
        rest = ["; ".join(f"{short(key)} = {plain(line[key], 20)}" for key in keys[1:]) for line in lines]
        column, cells = found[0]
        found[0] = column, [cell._replace(rest=text) for cell, text in zip(cells, rest, strict=True)]
    return found


def figure_cells(points: pd.DataFrame, name: str, worst: bool) -> list[TableCell]:
    values = points[name].astype(float).tolist()
    if worst:
        return [TableCell(rounded_up(v), order=_order(v)) for v in values]
    low, high = points[f"{name}{LOW}"].astype(float), points[f"{name}{HIGH}"].astype(float)
    places = decimals((high - low) / 2)
    ends = zip(values, low.tolist(), high.tolist(), strict=True)
    return [TableCell(*with_interval(*triple, places), order=_order(triple[0])) for triple in ends]


def plain_cells(values: Sequence[Any]) -> list[TableCell]:
    orders = ("" if is_missing(v) else _order(v) if is_number(v) else plain(v) for v in values)
    return [TableCell(plain(value), order=order) for value, order in zip(values, orders, strict=True)]


def _order(value: float) -> str:
    """A number in full, as a script reads it."""
    if math.isnan(value):
        return ""
    return repr(value) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def is_number(value: Any) -> bool:
    return not isinstance(value, bool | str) and isinstance(value, int | float)


def is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


GROUP_FIGURES = (
    (SHARE, "share of the rows"),
    (REFERENCE_ACCURACY, "accuracy without privacy"),
    (ACCURACY, "accuracy"),
    (LOSS, "loss of accuracy"),
)


def groups_table(points: pd.DataFrame, keys: Sequence[str]) -> dict[str, Any]:
    """The first lines, at most 400, of a table with a line for each point and each group that was measured there.

    columns: of `TableColumn`. lines: of cells, none where no groups were asked for. left_out:
    how many lines are not shown.
    """
    parts: list[pd.DataFrame] = []
    for group in groups_of(points):
        names = {group.column(figure) + end: figure + end for figure, _ in GROUP_FIGURES for end in ("", LOW, HIGH)}
        part = points.reindex(columns=[*keys, *names]).rename(columns=names)
        part = part[part[ACCURACY].notna()]
        parts.append(part.assign(group=str(group), _place=part.index, _order=len(parts)))
    if not parts or not sum(map(len, parts)):
        return {"columns": [], "lines": [], "left_out": 0}
    table = pd.concat(parts).sort_values(["_place", "_order"], kind="stable").reset_index(drop=True)
    shown = table.head(MOST_LINES)
    found = axis_columns(shown, keys)
    found.append((TableColumn("group", "learner.groups", False), plain_cells(shown["group"].tolist())))
    found += [
        (TableColumn(heading, figure, True), figure_cells(shown, figure, False)) for figure, heading in GROUP_FIGURES
    ]
    columns, filled = zip(*found, strict=True)
    return {"columns": columns, "lines": list(zip(*filled, strict=True)), "left_out": len(table) - len(shown)}
