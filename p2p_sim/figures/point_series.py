"""The content of a figure of points: columns, lines, panels, references and caption. This module draws nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from p2p_sim.base import count
from p2p_sim.figures.column_labels import pairs, short, value
from p2p_sim.measures import is_privacy

REFERENCES = {
    "error_rate": "nonprivate_error_rate",
    "accuracy": "nonprivate_accuracy",
    "excess_risk": "nonprivate_excess_risk",
    "squared_error": "nonprivate_squared_error",
    "auc": "nonprivate_auc",
    "half_l1": "nonprivate_half_l1",
    "cells": "nonprivate_cells",
}
"""For a measured column, the column with the same learner's value without privacy: the reference."""
BASELINES = {
    "error_rate": "majority_error_rate",
    "accuracy": "majority_accuracy",
    "excess_risk": "constant_excess_risk",
    "squared_error": "constant_squared_error",
}
"""For a measured column, the column with the value of a prediction without features: the baseline. Such a prediction is
always the majority class or the best constant."""


@dataclass(frozen=True)
class View:
    """The columns of a table of points that a figure shows.

    x, y: columns along the axes; y holds numbers. group: columns; each combination of values makes a line. facet: a
    column; each value makes a panel. along: a swept key whose values are written at the marks of a line; given if x is
    not a swept key. log_x, log_y: whether the axis is logarithmic. None: it is logarithmic if all values lie above 0
    and spread over more than a decade.
    """

    x: str
    y: str
    group: tuple[str, ...] = ()
    facet: str | None = None
    along: str | None = None
    log_x: bool | None = None
    log_y: bool | None = None


@dataclass(frozen=True)
class Series:
    """One line. label: its text in the legend. index: decides colour and marker. points: one row for each point."""

    label: str
    index: int
    points: pd.DataFrame


def is_number(column: pd.Series) -> bool:
    """Whether a column is of a numeric type; cells may be missing (NaN)."""
    return column.dtype.kind in "fiu"


def series(table: pd.DataFrame, group: Sequence[str], order: pd.DataFrame | None = None) -> list[Series]:
    """The lines of a figure, one for each combination of the values of the columns `group`. Without group columns there
    is one line without a label.

    Args:
        table: one row for each point; a combination without a point has no line. group: names of columns. order: a
        table with all combinations; None: `table`. A line's index is the position of its combination in `order`. So a
        line looks the same in all panels.
    """
    if not group:
        return [Series("", 0, table)]
    order = table if order is None else order
    keys = [tuple(row) for row in order[[*group]].drop_duplicates().to_numpy(dtype=object)]
    mine = [tuple(row) for row in table[[*group]].to_numpy(dtype=object)]
    parts = [(key, table[[key == row for row in mine]]) for key in keys]
    return [Series(pairs(group, key), i, part) for i, (key, part) in enumerate(parts) if len(part)]


def wants_log(values: pd.Series, chosen: bool | None) -> bool:
    """Whether the axis for some values is logarithmic. Text never has a logarithmic axis.

    Args:
        values: numbers or texts. chosen: True: the axis is logarithmic if any value is above 0. False: it is not. None:
        it is logarithmic if all values lie above 0 and spread over more than a decade.
    """
    if not is_number(values):
        return False
    finite = values[np.isfinite(values)]
    if chosen is not None:
        return chosen and bool((finite > 0).any())
    return bool(len(finite) and finite.min() > 0 and finite.max() > 10 * finite.min())


def drawable(table: pd.DataFrame, view: View) -> tuple[pd.DataFrame, Sequence[str] | None]:
    """The points that can be drawn, and the texts along x (None: x is a number). The new column "at" has the coordinate
    along x. A point is left out if y is not finite, or if x is a number that is not finite.

    A number is its own coordinate. A text has the coordinate 0, 1, ... of its first occurrence in the table. If x is a
    number, a line joins the points in the order of the returned rows. This is the order of x or, if given, of the swept
    key `view.along`. If that key is a text, the rows keep the table's order.

    Args:
        table: one row for each point. view: the figure's columns, of which only x, y and along matter.
    """
    points = table[np.isfinite(table[view.y])]
    if is_number(table[view.x]):
        points = points[np.isfinite(points[view.x])]
        points = points.assign(at=points[view.x].astype(float))
        along = view.along if view.along and is_number(points[view.along]) else None if view.along else "at"
        return (points.sort_values(along, kind="stable") if along else points), None
    names = [value(v) for v in table[view.x].unique()]
    return points.assign(at=[float(names.index(value(v))) for v in points[view.x]]), names


class Facet(NamedTuple):
    """The points of one panel, and its heading. The heading is empty if no column makes panels."""

    heading: str
    points: pd.DataFrame


def facets_of(table: pd.DataFrame, drawn: pd.DataFrame, view: View) -> list[Facet]:
    """The panels of a figure: one panel for each value of the column `view.facet`. Without such a column, there is one
    panel with all points and an empty heading.

    Args:
        table: all points, whose values give the panels. drawn: the points that can be drawn. view: the figure's
        columns.
    """
    if view.facet is None:
        return [Facet("", drawn)]
    values = table[view.facet].unique()
    return [Facet(f"{short(view.facet)} = {value(cell)}", drawn[drawn[view.facet] == cell]) for cell in values]


def apart(lines: list[Series], places: Sequence[str] | None) -> list[Series]:
    """The lines, with the points of each line moved sideways by a different amount. So points of different lines at the
    same text along x stand side by side. The given lines are not changed.

    Args:
        lines: the lines; their points have the coordinate along x in the column "at". places: the texts along x; None:
        x is a number, and no point is moved.
    """
    if places is None or not lines:
        return lines
    most = max(line.index for line in lines)
    gap = 0.6 / (most + 1)
    return [
        replace(line, points=line.points.assign(at=line.points["at"] + gap * (line.index - most / 2))) for line in lines
    ]


def reference_text(y: str) -> str:
    """The legend's text for the grey reference line of a figure, which shows the same measure without privacy. The
    columns "half_l1" and "cells" describe a released density (a histogram of the users' features), not a learner.

    Args:
        y: the column along the vertical axis.
    """
    return "the same cells without noise" if y in ("half_l1", "cells") else "the same learner without privacy"


def baseline_text(y: str) -> str:
    """The legend's text for the baseline of a figure, a prediction without features. For an excess risk or a squared
    error, the baseline is the best constant, else the majority class.

    Args:
        y: the column along the vertical axis.
    """
    return "the best constant" if y in ("excess_risk", "squared_error") else "always saying the majority class"


class ReferenceLines(NamedTuple):
    """The learner without privacy in one panel: one level for all x, or lines if points differ.

    column: the table's column with this learner's values. level: one row of the table, with the level and its interval;
    None: there are lines. lines: the lines; empty if there is a level.
    """

    column: str
    level: pd.Series | None
    lines: list[Series]


def reference_of(part: pd.DataFrame, view: View) -> ReferenceLines | None:
    """The learner without privacy in one panel. Equal values at all points give one level. Other values give one line.
    They give a line for each group if groups differ at the same x, or if `view.along` is given. None: y has no such
    reference, or the reference was not measured at every point.

    Args:
        part: points of the panel, one row each, with their coordinate along x in the column "at". view: the figure's
        columns.
    """
    column = REFERENCES.get(view.y)
    if column is None or column not in part or part.empty or not np.isfinite(part[column]).all():
        return None
    # values that differ only by rounding give one level
    if np.ptp(part[column]) <= 1e-9 * abs(part[column]).max():
        return ReferenceLines(column, part.iloc[0], [])
    # one line for all groups if they agree at each x, else one line for each group
    lines, unique = series(part, view.group), part.drop_duplicates(["at", column])
    if view.along is None and len(unique) == unique["at"].nunique():
        lines = [Series("", 0, unique.sort_values("at"))]
    return ReferenceLines(column, None, lines)


def baseline_of(part: pd.DataFrame, view: View) -> float | pd.Series | None:
    """The value of a prediction without features, such as the majority class, in one panel. The result is one number if
    the values differ between points by at most a fiftieth of the largest. Otherwise it is the mean at each coordinate
    along x, with these coordinates as index. None if y has no baseline, or if the baseline is not known at every point.

    Args:
        part: points of the panel, one row each, with their coordinate along x in the column "at". view: the figure's
        columns.
    """
    column = BASELINES.get(view.y)
    if column is None or column not in part or part.empty:
        return None
    values = part[column]
    if not is_number(values) or not np.isfinite(values).all():
        return None
    if np.ptp(values) <= 0.02 * abs(values).max():  # one line: a fiftieth is hardly visible
        return float(values.mean())
    means: pd.Series = part.groupby("at")[column].mean()
    return means


def replicates_text(table: pd.DataFrame) -> str:
    """How many replicates the points of a table have, such as "3 to 5 replicates per point"."""
    return f"{count_range(table['replicates'], 'replicate')} per point"


def count_range(counts: pd.Series, noun: str) -> str:
    """The smallest and the largest of some counts as text, with the noun that is counted.

    >>> count_range(pd.Series([2, 2]), "replicate"), count_range(pd.Series([1, 3]), "replicate")
    ('2 replicates', '1 to 3 replicates')
    """
    low, high = int(counts.min()), int(counts.max())
    return f"{low:,} to " * (low < high) + count(high, noun)


def caption(table: pd.DataFrame, drawn: pd.DataFrame, view: View, note: str) -> str:
    """A figure's caption: the note, the number of replicates, what the intervals are, and how many points are not
    drawn. For an ε, the caption says that ε is the largest over replicates.

    Args:
        table: all points, one row each. drawn: the points that can be drawn. view: the figure's columns. note: text
        with the parameters that are held fixed.
    """
    parts = [note, replicates_text(table)]
    if not is_privacy(view.y):
        single = table["replicates"].min() <= 1
        parts.append("no intervals from a single replicate" if single else "95% confidence intervals of means")
    if is_privacy(view.y) or is_privacy(view.x):
        parts.append("ε is the worst over replicates")
    if missing := len(table) - len(drawn):
        parts.append(f"{missing} of {len(table)} points not drawn: not finite")
    return "; ".join(part for part in parts if part)
