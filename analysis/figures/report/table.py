"""The table of points: which columns, and every cell as text and as a number to sort by."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.figures.report.statement import rounded_up
from analysis.figures.report.text import decimals, number, plain, with_interval
from analysis.utility.points import HIGH, LOW

MOST_COLUMNS, MOST_LINES, MOST_AXES = 12, 400, 5
FIGURES = (
    ("epsilon_upper", "ε, learner", True),
    ("epsilon_local", "ε₀, noise alone", True),
    ("accuracy", "accuracy", False),
    ("nonprivate_accuracy", "accuracy without privacy", False),
    ("excess_risk", "excess risk", False),
    ("nonprivate_excess_risk", "excess risk without privacy", False),
    ("effective_sampling_rate", "labels that arrive, share", False),
)
"""Column, heading, whether it is an ε at its worst; excess risk replaces accuracy where it is known."""
MORE = (
    ("epsilon_coalition_upper", "ε, coalition", True),
    ("epsilon_times_upper", "ε, arrival times", True),
    ("epsilon_paper", "ε, Theorem 1", True),
    ("epsilon_paper_lemma9", "ε, Lemma 9", True),
)
"""Shown where they are known and there is room."""


@dataclass(frozen=True)
class Column:
    """A column of the table: its heading, and whether its cells are numbers."""

    heading: str
    numeric: bool


@dataclass(frozen=True)
class Cell:
    """text: as shown; interval: in smaller type; order: what to sort by, a number in full or the text; empty last."""

    text: str
    interval: str = ""
    order: str = ""


@dataclass(frozen=True)
class Table:
    """Columns and lines of cells; `left_out`: points that are not shown."""

    columns: tuple[Column, ...]
    lines: tuple[tuple[Cell, ...], ...]
    left_out: int


@dataclass(frozen=True)
class Range:
    """A figure over all points."""

    heading: str
    least: str
    median: str
    most: str


def points_table(points: pd.DataFrame, keys: Sequence[str]) -> Table:
    """The first points of `with_failures`, at most 400, in at most twelve columns: axes first."""
    chosen = figures(points, MOST_COLUMNS - min(len(keys), MOST_AXES + 1) - 1 - _failed(points))
    columns, filled = [], []
    shown = points.head(MOST_LINES)
    for heading, values in _axes(shown, keys):
        columns.append(Column(heading, all(_is_number(value) for value in values if not _missing(value))))
        filled.append([_plain_cell(value) for value in values])
    columns.append(Column("replicates", True))
    filled.append([_plain_cell(int(value)) for value in shown["replicates"]])
    for name, heading, worst in chosen:
        columns.append(Column(heading, True))
        filled.append(_figure_cells(shown, name, worst))
    if _failed(points):
        columns.append(Column("failed", True))
        filled.append([_plain_cell(int(value)) for value in shown["failures"]])
    return Table(tuple(columns), tuple(zip(*filled, strict=True)), len(points) - len(shown))


def figures(points: pd.DataFrame, most: int) -> list[tuple[str, str, bool]]:
    """The most telling figures that some point has, at most so many."""
    risk = points["excess_risk"].notna().all()
    skipped = ("accuracy", "nonprivate_accuracy") if risk else ("excess_risk", "nonprivate_excess_risk")
    main = [entry for entry in FIGURES if entry[0] not in skipped]
    return [entry for entry in (*main, *MORE) if points[entry[0]].notna().any()][:most]


def ranges(points: pd.DataFrame) -> list[Range]:
    """Least, median and largest of the figures over all points."""
    found = []
    for name, heading, worst in figures(points, MOST_COLUMNS):
        values, show = points[name].dropna().astype(float), rounded_up if worst else number
        found.append(Range(heading, *(show(float(v)) for v in (values.min(), values.median(), values.max()))))
    return found


def _failed(points: pd.DataFrame) -> bool:
    return bool((points["failures"] > 0).any())


def _axes(points: pd.DataFrame, keys: Sequence[str]) -> list[tuple[str, list[Any]]]:
    """The swept keys, one column each; those beyond five share one."""
    found = [(plain(key), points[key].tolist()) for key in keys[:MOST_AXES]]
    rest = keys[MOST_AXES:]
    if rest:
        together = points[list(rest)].to_dict("records")
        found.append(("others", ["; ".join(f"{key} = {plain(line[key], 20)}" for key in rest) for line in together]))
    return found


def _figure_cells(points: pd.DataFrame, name: str, worst: bool) -> list[Cell]:
    values = points[name].astype(float).tolist()
    if worst:
        return [Cell(rounded_up(v), order=_order(v)) for v in values]
    low, high = points[f"{name}{LOW}"].astype(float), points[f"{name}{HIGH}"].astype(float)
    places = decimals((high - low) / 2)
    ends = zip(values, low.tolist(), high.tolist(), strict=True)
    return [Cell(*with_interval(*triple, places), order=_order(triple[0])) for triple in ends]


def _plain_cell(value: Any) -> Cell:
    if _missing(value):
        return Cell("–")
    return Cell(plain(value), order=_order(value) if _is_number(value) else plain(value))


def _order(value: float) -> str:
    """A number in full, as a script reads it."""
    if math.isnan(value):
        return ""
    return repr(value) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool | str) and isinstance(value, int | float)


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
