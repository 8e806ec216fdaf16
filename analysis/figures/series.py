"""What a figure of points shows: its view of the table, its lines, their places, and its caption. Nothing is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from p2p_sim.analysis.figures.labels import pairs, value
from p2p_sim.analysis.privacy.statement.shown import count
from p2p_sim.analysis.utility.points import is_privacy

REFERENCES = {
    "error_rate": "nonprivate_error_rate",
    "accuracy": "nonprivate_accuracy",
    "excess_risk": "nonprivate_excess_risk",
    "squared_error": "nonprivate_squared_error",
    "auc": "nonprivate_auc",
    "half_l1": "nonprivate_half_l1",
    "cells": "nonprivate_cells",
}
"""What the same learner reaches without privacy."""
BASELINES = {
    "error_rate": "majority_error_rate",
    "accuracy": "majority_accuracy",
    "excess_risk": "constant_excess_risk",
    "squared_error": "constant_squared_error",
}
"""What is reached without features: by always saying the majority class, or the best constant."""


@dataclass(frozen=True)
class View:
    """Which columns of a table of points a figure shows.

    x, y: along the axes; y is a number. group: columns whose values together make a line; facet: one panel a value.
    along: where x is no axis of the sweep, the axis that runs along a line, written next to the marks.
    log_x, log_y: None decides by the values: positive, and over more than a decade.
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
    """One line: its label, its place among the groups (which fixes colour and marker), its points."""

    label: str
    index: int
    points: pd.DataFrame


def is_number(column: pd.Series) -> bool:
    """Whether a column holds numbers, gaps allowed."""
    return column.dtype.kind in "fiu"


def series(table: pd.DataFrame, group: Sequence[str], order: pd.DataFrame | None = None) -> list[Series]:
    """The lines of a table, one a combination of the group's values; `order` fixes their places for several panels."""
    if not group:
        return [Series("", 0, table)]
    keys = [
        tuple(row) for row in (table if order is None else order)[[*group]].drop_duplicates().to_numpy(dtype=object)
    ]
    mine = [tuple(row) for row in table[[*group]].to_numpy(dtype=object)]
    found = [(key, table[[key == other for other in mine]]) for key in keys]
    return [Series(pairs(group, key), i, part) for i, (key, part) in enumerate(found) if len(part)]


def wants_log(values: pd.Series, chosen: bool | None) -> bool:
    """Whether an axis is logarithmic: as chosen, else for positive values over more than a decade."""
    if not is_number(values):
        return False
    finite = values[np.isfinite(values)]
    if chosen is not None:
        return chosen and bool((finite > 0).any())
    return bool(len(finite) and finite.min() > 0 and finite.max() > 10 * finite.min())


def drawable(table: pd.DataFrame, view: View) -> tuple[pd.DataFrame, Sequence[str] | None]:
    """The points that can be drawn, with a column "at" along x; and the names of x's values if they are text."""
    shown = table[np.isfinite(table[view.y])]
    if is_number(table[view.x]):
        shown = shown[np.isfinite(shown[view.x])]
        shown = shown.assign(at=shown[view.x].astype(float))
        along = view.along if view.along and is_number(shown[view.along]) else None if view.along else "at"
        return (shown.sort_values(along, kind="stable") if along else shown), None
    names = [value(v) for v in table[view.x].unique()]
    return shown.assign(at=[float(names.index(value(v))) for v in shown[view.x]]), names


def apart(lines: list[Series], places: Sequence[str] | None) -> list[Series]:
    """Groups side by side over each text of a text axis."""
    if places is None or not lines:
        return lines
    most = max(line.index for line in lines)
    gap = 0.6 / (most + 1)
    return [
        replace(line, points=line.points.assign(at=line.points["at"] + gap * (line.index - most / 2))) for line in lines
    ]


def reference_text(y: str) -> str:
    """How a legend calls a column of `REFERENCES`."""
    return "the same cells without noise" if y in ("half_l1", "cells") else "the same learner without privacy"


def replicates_text(table: pd.DataFrame) -> str:
    """How many replicates the points have."""
    low, high = int(table["replicates"].min()), int(table["replicates"].max())
    return f"{low:,} to " * (low < high) + f"{count(high, 'replicate')} per point"


def caption(table: pd.DataFrame, shown: pd.DataFrame, view: View, note: str) -> str:
    """How many replicates, what the intervals are, how ε is taken, what is not drawn."""
    parts = [note, replicates_text(table)]
    if not is_privacy(view.y):
        parts.append(
            "95% confidence intervals of means"
            if table["replicates"].min() > 1
            else "no intervals from a single replicate"
        )
    if is_privacy(view.y) or is_privacy(view.x):
        parts.append("ε is the worst over replicates")
    if missing := len(table) - len(shown):
        parts.append(f"{missing} of {len(table)} points not drawn: not finite")
    return "; ".join(part for part in parts if part)
