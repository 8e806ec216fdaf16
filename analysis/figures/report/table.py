"""The table of points: which columns, and every cell as text and as a number to sort by."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from p2p_sim.analysis.figures.report.statement import rounded_up
from p2p_sim.analysis.figures.report.text import decimals, number, plain, with_interval
from p2p_sim.analysis.utility.points import HIGH, LOW

MOST_COLUMNS, MOST_LINES, MOST_AXES = 12, 400, 5
FIGURES = (
    ("epsilon_upper", "ε, learner", True),
    ("epsilon_local", "ε₀, noise alone", True),
    ("accuracy", "accuracy", False),
    ("nonprivate_accuracy", "accuracy without privacy", False),
    ("majority_accuracy", "accuracy of the majority class", False),
    ("excess_risk", "excess risk", False),
    ("nonprivate_excess_risk", "excess risk without privacy", False),
    ("constant_excess_risk", "excess risk of the best constant", False),
    ("half_l1", "half-L1 distance", False),
    ("nonprivate_half_l1", "half-L1 distance without noise", False),
    ("cells", "cells released", False),
    ("effective_sampling_rate", "labels that arrive, share", False),
)
"""Column, heading, whether it is an ε at its worst; excess risk replaces accuracy where it is known."""
MORE = (
    ("epsilon_coalition_upper", "ε, coalition", True),
    ("epsilon_times_upper", "ε, arrival times", True),
    ("epsilon_paper", "ε, Theorem 1", True),
    ("epsilon_paper_lemma9", "ε, Lemma 9", True),
    ("auc", "AUC", False),
    ("nonprivate_auc", "AUC without privacy", False),
)
"""Shown where they are known and there is room."""


class Cell(NamedTuple):
    """text: as shown; interval: in smaller type; order: what to sort by, a number in full or the text; empty last."""

    text: str
    interval: str = ""
    order: str = ""


def points_table(points: pd.DataFrame, keys: Sequence[str]) -> dict[str, Any]:
    """The first points of `with_failures`, at most 400, in at most twelve columns, axes first.

    columns: heading, and whether cells are numbers. lines: of cells. left_out: how many points are not shown.
    """
    chosen = figures(points, MOST_COLUMNS - min(len(keys), MOST_AXES + 1) - 1 - _failed(points))
    shown = points.head(MOST_LINES)
    found = [
        (heading, all(is_number(value) for value in values if not is_missing(value)), plain_cells(values))
        for heading, values in axis_columns(shown, keys)
    ]
    found.append(("replicates", True, plain_cells(shown["replicates"].tolist())))
    found += [(heading, True, figure_cells(shown, name, worst)) for name, heading, worst in chosen]
    if _failed(points):
        found.append(("failed", True, plain_cells(shown["failures"].tolist())))
    *columns, filled = zip(*found, strict=True)
    lines = list(zip(*filled, strict=True))
    return {"columns": list(zip(*columns, strict=True)), "lines": lines, "left_out": len(points) - len(shown)}


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


def axis_columns(points: pd.DataFrame, keys: Sequence[str]) -> list[tuple[str, list[Any]]]:
    """The swept keys, one column each; those beyond five share one."""
    found = [(plain(key), points[key].tolist()) for key in keys[:MOST_AXES]]
    rest = keys[MOST_AXES:]
    if rest:
        together = points[list(rest)].to_dict("records")
        found.append(("others", ["; ".join(f"{key} = {plain(line[key], 20)}" for key in rest) for line in together]))
    return found


def figure_cells(points: pd.DataFrame, name: str, worst: bool) -> list[Cell]:
    values = points[name].astype(float).tolist()
    if worst:
        return [Cell(rounded_up(v), order=_order(v)) for v in values]
    low, high = points[f"{name}{LOW}"].astype(float), points[f"{name}{HIGH}"].astype(float)
    places = decimals((high - low) / 2)
    ends = zip(values, low.tolist(), high.tolist(), strict=True)
    return [Cell(*with_interval(*triple, places), order=_order(triple[0])) for triple in ends]


def plain_cells(values: Sequence[Any]) -> list[Cell]:
    orders = ("" if is_missing(v) else _order(v) if is_number(v) else plain(v) for v in values)
    return [Cell(plain(value), order=order) for value, order in zip(values, orders, strict=True)]


def _order(value: float) -> str:
    """A number in full, as a script reads it."""
    if math.isnan(value):
        return ""
    return repr(value) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def is_number(value: Any) -> bool:
    return not isinstance(value, bool | str) and isinstance(value, int | float)


def is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
