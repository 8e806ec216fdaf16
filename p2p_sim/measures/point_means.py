"""One line for each point from its rows: means with intervals; privacy columns are never averaged."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from p2p_sim.measures.group_gaps import with_losses

LOW, HIGH = "_low", "_high"
"""Endings of the columns that hold the two ends of a mean's 95% interval."""
POINT, REPLICATE = "scenario", "replicate"
_NOT_MEASURED = (POINT, REPLICATE, "model_version")


def is_privacy(name: str) -> bool:
    """Whether a column is about privacy: its largest value over replicates is reported, never a mean."""
    return name.startswith(("epsilon", "advantage")) or name in ("delta", "coalition_meets")


def derived(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with accuracies, and with the paired loss and ratio against the same learner without privacy.

    A gap in a column of numbers, or in one that has no value at all, is NaN.
    """
    table = rows.copy()
    for name in table.columns[table.dtypes == "object"]:
        if table[name].map(lambda cell: cell is None or type(cell) in (int, float)).all():
            table[name] = table[name].astype(float)
    if "error_rate" in table:
        table["accuracy"] = 1.0 - table["error_rate"]
    if "nonprivate_error_rate" in table:
        table["nonprivate_accuracy"] = 1.0 - table["nonprivate_error_rate"]
    if "majority_error_rate" in table:
        table["majority_accuracy"] = 1.0 - table["majority_error_rate"]
    if {"error_rate", "nonprivate_error_rate"} <= set(table):
        table["excess_error_rate"] = table["error_rate"] - table["nonprivate_error_rate"]
        table["relative_accuracy"] = table["accuracy"] / table["nonprivate_accuracy"]
    return with_losses(table)


def with_derived(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the keys that a frame of rows has as columns; None where there is no value."""
    [whole] = derived(pd.DataFrame([row])).to_dict("records")
    return row | {str(key): None if pd.isna(value) else value for key, value in whole.items() if key not in row}


def points(rows: pd.DataFrame, axes: Sequence[str] = ()) -> pd.DataFrame:
    """One line for each point: its axis values, its replicates, means with 95% t-intervals, the largest ε.

    A measured column `c` becomes `c` (the mean), `c_low` and `c_high`; NaN ends where there is a single replicate, and
    NaN throughout where the column does not apply to all of the point's replicates. A privacy column is the largest
    over the replicates and has no interval. Text is kept if it is the same in all rows of a point.

    Args:
        rows: one line a point ("scenario") and replicate.
        axes: columns that are fixed within a point; they are taken over as they are.

    >>> rows = pd.DataFrame({"scenario": ["a", "a"], "replicate": [0, 1], "x": [1.0, 3.0], "epsilon_upper": [0.5, 0.7]})
    >>> points(rows)[["replicates", "x", "epsilon_upper"]].values.tolist()
    [[2.0, 2.0, 0.7]]
    """
    table = tidy(rows, axes)
    groups: Any = table.groupby(POINT, sort=False)
    size: pd.Series = groups.size()
    fixed = table.drop_duplicates(POINT).set_index(POINT)
    out = pd.DataFrame({**{axis: fixed[axis] for axis in axes}, "replicates": size}, index=size.index)
    made = {"replicates", *(str(name) + end for name in table for end in (LOW, HIGH))}
    rest = [str(name) for name in table if name not in (*axes, *_NOT_MEASURED) and name not in made]
    measured = [name for name in rest if table[name].dtype.kind in "fiu"]
    privacy = [name for name in measured if is_privacy(name)]
    means = [name for name in measured if not is_privacy(name)]
    text = [name for name in rest if name not in measured]
    same = groups[text].nunique(dropna=False) if text else pd.DataFrame()
    kept = fixed[[name for name in text if same[name].max() == 1]]
    worst: pd.DataFrame = groups[privacy].max().where(groups[privacy].count().eq(size, axis=0))
    parts: list[pd.DataFrame] = [out, kept, worst, _intervals(groups, means, size)]
    return pd.concat(parts, axis="columns").copy().reset_index()


def _intervals(groups: Any, names: list[str], size: pd.Series) -> pd.DataFrame:
    """Means of columns and the ends of their 95% t-intervals, side by side."""
    from scipy.special import stdtrit

    values = groups[names]
    mean: pd.DataFrame = values.mean().where(values.count().eq(size, axis=0)).astype(float)
    half = values.std(ddof=1).mul(stdtrit(np.maximum(size - 1, 1), 0.975) / np.sqrt(size), axis=0)
    low, high = (mean - half).add_suffix(LOW), (mean + half).add_suffix(HIGH)
    for name in names:
        if name.endswith("auc"):  # which cannot lie elsewhere
            low[name + LOW], high[name + HIGH] = low[name + LOW].clip(lower=0.0), high[name + HIGH].clip(upper=1.0)
    order = [name + ending for name in names for ending in ("", LOW, HIGH)]
    found: pd.DataFrame = pd.concat([mean, low, high], axis="columns")[order]
    return found


def tidy(rows: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """The rows with derived columns; infinite values become gaps, except privacy."""
    table = derived(rows)
    for name in table.columns.difference([*axes, *_NOT_MEASURED]):
        if table[name].isna().all():
            table[name] = np.nan
        if table[name].dtype.kind == "f" and not is_privacy(name):
            table[name] = table[name].where(np.isfinite(table[name]))
    return table


def by_replicate(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """A measured column as a matrix, points by replicates, for the replicates that every point has.

    Args:
        rows: one line a point ("scenario") and replicate.
        column: a column of numbers; rows without one count as missing.
    """
    table = derived(rows).pivot(index=POINT, columns=REPLICATE, values=column)
    return table.reindex(rows[POINT].drop_duplicates()).astype(float).dropna(axis=1)
