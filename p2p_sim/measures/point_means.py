"""Averages result rows over replicates (except in columns about privacy), and compares two sets of rows.

A point is one scenario of a sweep; a row is one replicate of a point. An axis is a key that a sweep varies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from p2p_sim.measures.group_gaps import ACCURACY, ERROR, LOSS, REFERENCE, REFERENCE_ACCURACY
from p2p_sim.measures.intervals import Mean, mean_interval

Quality = Literal["excess_risk", "accuracy", "half_l1", "cells"]


def quality(rows: pd.DataFrame) -> Quality:
    """The name of the quality measure that all given rows have.

    It is excess risk if this is known, else accuracy. For density estimates it is half the L1 error if this is known,
    else the number of cells.

    Args:
        rows: rows of replicates or of points, at least one.

    >>> quality(pd.DataFrame({"excess_risk": [None], "error_rate": [None], "half_l1": [0.2], "cells": [9.0]}))
    'half_l1'
    """
    if "excess_risk" in rows and rows["excess_risk"].notna().all():
        return "excess_risk"
    if "cells" in rows and rows["error_rate"].isna().all():
        return "half_l1" if rows["half_l1"].notna().all() else "cells"
    return "accuracy"


LOW, HIGH = "_low", "_high"
"""Endings of the names of the two columns with the ends of a mean's 95% interval."""
POINT, REPLICATE = "scenario", "replicate"
_NOT_MEASURED = (POINT, REPLICATE, "model_version")


def is_privacy(name: str) -> bool:
    """Whether a column is about privacy. Of such a column the largest value over replicates is reported, never the
    mean. Its name begins with "epsilon" or "advantage", or is "delta" or "coalition_meets" (the probability that a
    colluding user got a given label).
    """
    return name.startswith(("epsilon", "advantage")) or name in ("delta", "coalition_meets")


def derived(rows: pd.DataFrame) -> pd.DataFrame:
    """The result rows with further columns. accuracy, nonprivate_accuracy and majority_accuracy are 1 minus the error
    rates error_rate, nonprivate_error_rate and majority_error_rate. excess_error_rate, the loss of accuracy by privacy,
    is error_rate - nonprivate_error_rate; relative_accuracy is accuracy / nonprivate_accuracy. Each of these columns is
    added if the error rates that it needs are there.

    For each group with an error rate, such as error_rate[sex=Female], both accuracies and the loss are added, too.
    Missing numbers become NaN, also in a column without any value.

    Args:
        rows: one row for each replicate.
    """
    table = rows.copy()
    for name in table.columns[table.dtypes == "object"]:
        if table[name].map(lambda cell: cell is None or type(cell) in (int, float)).all():
            table[name] = table[name].astype(float)
    rates = {ERROR: ACCURACY, REFERENCE: REFERENCE_ACCURACY, "majority_error_rate": "majority_accuracy"}
    for rate, accuracy in rates.items():
        if rate in table:
            table[accuracy] = 1.0 - table[rate]
    if {ERROR, REFERENCE} <= set(table):
        table[LOSS] = table[ERROR] - table[REFERENCE]
        table["relative_accuracy"] = table[ACCURACY] / table[REFERENCE_ACCURACY]
    # the names of a group's columns end in the grouping and the group: error_rate[sex=Female]
    of_groups: dict[str, pd.Series] = {}
    for column in table.filter(regex=rf"(?s)^{ERROR}\[.*\]$"):
        group = str(column).removeprefix(ERROR)
        figures = table.reindex(columns=[column, REFERENCE + group]).apply(pd.to_numeric, errors="coerce").astype(float)
        error, reference = figures[column], figures[REFERENCE + group]
        of_groups |= {ACCURACY + group: 1.0 - error, REFERENCE_ACCURACY + group: 1.0 - reference}
        of_groups[LOSS + group] = error - reference
    return table.assign(**of_groups)


def points(rows: pd.DataFrame, axes: Sequence[str] = ()) -> pd.DataFrame:
    """One row for each scenario: axis values, number of replicates, means with 95% t-intervals, and the largest value
    of each column about privacy.

    A measured column `c` becomes the mean `c` and the ends `c_low` and `c_high` of its interval. The ends are NaN for a
    single replicate. All three are NaN if a replicate has no value or an infinite one. A column about privacy becomes
    its largest value, without an interval; NaN if a replicate has no value. A text column is kept if all rows of each
    scenario have the same text.

    Args:
        rows: one row for each scenario and replicate. axes: columns that are constant within a scenario; they are
        copied.

    >>> rows = pd.DataFrame({"scenario": ["a", "a"], "replicate": [0, 1], "x": [1.0, 3.0], "epsilon_upper": [0.5, 0.7]})
    >>> points(rows)[["replicates", "x", "epsilon_upper"]].values.tolist()
    [[2.0, 2.0, 0.7]]
    """
    table = tidy(rows, axes)
    groups: Any = table.groupby(POINT, sort=False)
    size: pd.Series = groups.size()
    fixed = table.drop_duplicates(POINT).set_index(POINT)
    out = pd.DataFrame({**{axis: fixed[axis] for axis in axes}, "replicates": size}, index=size.index)
    # measured columns become a mean with its interval, columns about privacy their largest value; common text is kept
    reserved = {"replicates", *(str(name) + end for name in table for end in (LOW, HIGH))}
    rest = [str(name) for name in table if name not in (*axes, *_NOT_MEASURED) and name not in reserved]
    measured = [name for name in rest if table[name].dtype.kind in "fiu"]
    privacy = [name for name in measured if is_privacy(name)]
    means = [name for name in measured if not is_privacy(name)]
    text = [name for name in rest if name not in measured]
    common = fixed[[name for name in text if groups[name].nunique(dropna=False).max() == 1]]
    worst: pd.DataFrame = groups[privacy].max().where(groups[privacy].count().eq(size, axis=0))
    return pd.concat([out, common, worst, _intervals(groups, means, size)], axis="columns").copy().reset_index()


def _intervals(groups: Any, names: list[str], size: pd.Series) -> pd.DataFrame:
    """Means of columns over each group of rows, each with the ends of its 95% t-interval. For a column c the result has
    the columns c, c_low and c_high, with one row for each group. The interval of a column whose name ends in "auc" is
    cut to [0, 1]. All three are NaN if a row of the group has no value.

    Args:
        groups: a Pandas groupby. names: the names of the columns. size: number of rows of each group.
    """
    from scipy.special import stdtrit

    values = groups[names]
    mean: pd.DataFrame = values.mean().where(values.count().eq(size, axis=0)).astype(float)
    half = values.std(ddof=1).mul(stdtrit(np.maximum(size - 1, 1), 0.975) / np.sqrt(size), axis=0)
    low, high = (mean - half).add_suffix(LOW), (mean + half).add_suffix(HIGH)
    for name in names:
        if name.endswith("auc"):  # an area under the curve lies in [0, 1]
            low[name + LOW], high[name + HIGH] = low[name + LOW].clip(lower=0.0), high[name + HIGH].clip(upper=1.0)
    order = [name + ending for name in names for ending in ("", LOW, HIGH)]
    intervals: pd.DataFrame = pd.concat([mean, low, high], axis="columns")[order]
    return intervals


def tidy(rows: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """The result rows with columns added for accuracies (1 minus error rates), for the loss of accuracy against
    learning without privacy, and for the ratio of the accuracies with and without privacy. Infinite values become NaN,
    except in columns about privacy and in axes.

    Args:
        rows: one row for each replicate. axes: columns that a sweep varies; infinite values stay in them.
    """
    table = derived(rows)
    for name in table.columns.difference([*axes, *_NOT_MEASURED]):
        if table[name].isna().all():
            table[name] = np.nan
        if table[name].dtype.kind == "f" and not is_privacy(name):
            table[name] = table[name].where(np.isfinite(table[name]))
    return table


def by_replicate(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """A measured column as a table with a row for each scenario and a column for each replicate; only replicates that
    every scenario has are kept.

    Args:
        rows: one row for each scenario and replicate. column: name of a column of numbers; a replicate without a number
        in some scenario is left out.
    """
    table = derived(rows).pivot(index=POINT, columns=REPLICATE, values=column)
    return table.reindex(rows[POINT].drop_duplicates()).astype(float).dropna(axis=1)


@dataclass(frozen=True)
class Difference:
    """The difference of a column between two sets of rows, second minus first, at a single point or pooled over points.

    values: axis values of the point; None: pooled over points. first, second: the means in the two sets; for a column
    about privacy the largest values of equally many replicates. difference: the difference with its 95% interval and a
    number of replicates, which is the number of pairs or, if unpaired, the size of the smaller sample. It is None for a
    column about privacy, and if no replicate can be pooled; then `first` and `second` are NaN. counts: numbers of
    replicates of `first` and `second`.
    """

    column: str
    values: dict[str, object] | None
    first: float
    second: float
    difference: Mean | None
    counts: tuple[int, int]


def welch_interval(first: ArrayLike, second: ArrayLike) -> Mean:
    """Welch's 95% t-interval for the difference of two independent means, second minus first.

    A sample of a single value gives NaN ends.

    >>> str(welch_interval([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]))
    '2.0000 [-2.1554, 6.1554]'
    """
    from scipy.special import stdtrit

    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    value, count = float(b.mean() - a.mean()), min(a.size, b.size)
    if count < 2:
        return Mean(value, float("nan"), float("nan"), count)
    parts = np.array([a.var(ddof=1) / a.size, b.var(ddof=1) / b.size])
    total = float(parts.sum())
    if total == 0.0:
        return Mean(value, value, value, count)
    freedom = total**2 / float(parts @ (parts / np.array([a.size - 1, b.size - 1])))
    half = float(stdtrit(freedom, 0.975)) * float(np.sqrt(total))
    return Mean(value, value - half, value + half, count)


def differences(
    first: pd.DataFrame, second: pd.DataFrame, axes: Sequence[str], column: str, paired: bool
) -> list[Difference]:
    """Differences of a column between two sets of rows, at every point that both sets have, and pooled over these
    points.

    Points that share random numbers are not independent. So for pooling each replicate gets its average over the
    points, and these averages are the sample. If replicates are paired, a replicate counts if all points have it in
    both sets; else it counts if all points have it in its own set. For a column about privacy the largest values are
    compared, without an interval. If replicates are paired, they are taken over the replicates that both sets have;
    else over the first replicates of each set, equally many in both.

    Args:
        first, second: rows with a column for every axis, at most one row for each replicate and combination of axis
        values. axes: columns whose values tell points apart; points with the same values are compared. If there are
        none, all rows are one point. column: the column to compare. paired: whether replicates with the same number
        share their random numbers.

    Returns:
        One difference for each shared point, in the order of the first rows. If there are several, the pooled
        difference comes last. A point is left out if one of the sets has no value of this column there, or if
        replicates are paired and no replicate is common to both sets.
    """
    tables = []
    for rows in (first, second):
        # the column as a table: a row for each point, with its axis values as index, and a column for each replicate
        keyed = rows if axes else rows.assign(_all=0)
        keys = [*axes] or ["_all"]
        order = keyed.set_index(keys).index.unique()
        tables.append(keyed.pivot(index=keys, columns=REPLICATE, values=column).astype(float).reindex(order))
    first_table, second_table = tables
    by_point: dict[Any, Difference] = {}
    for point in first_table.index.intersection(second_table.index, sort=False):
        values = dict(zip(axes, point if isinstance(point, tuple) else (point,), strict=False))
        difference = _difference(column, first_table.loc[point], second_table.loc[point], values=values, paired=paired)
        if difference is not None:
            by_point[point] = difference
    results = list(by_point.values())
    if len(results) > 1:
        results.append(_pool(by_point, tables, column=column, paired=paired))
    return results


def _pool(
    by_point: Mapping[Any, Difference], tables: Sequence[pd.DataFrame], *, column: str, paired: bool
) -> Difference:
    """The difference of a column between two sets of rows, pooled over points: of the largest values for a column about
    privacy, else of the averages over points that the replicates have.

    Args:
        by_point: the differences at the points that are pooled, by the points' axis values. tables: for each set, the
        column's values, with a row for each point and a column for each replicate. paired: whether replicates with the
        same number share their random numbers.
    """
    if is_privacy(column):
        results = by_point.values()
        count = min(difference.counts[0] for difference in results)
        first_worst, second_worst = max(d.first for d in results), max(d.second for d in results)
        return Difference(column, None, first_worst, second_worst, difference=None, counts=(count, count))
    a, b = (table.loc[list(by_point)].dropna(axis=1).mean() for table in tables)
    empty = Difference(column, None, float("nan"), float("nan"), difference=None, counts=(0, 0))
    return _difference(column, a, b, values=None, paired=paired) or empty


def _difference(
    column: str, a: pd.Series, b: pd.Series, *, values: dict[str, object] | None, paired: bool
) -> Difference | None:
    """The difference between two series of values by replicate, `b` minus `a`; None if there are no values to compare.

    Args:
        column: the name of their column. a, b: values, with the number of the replicate as index. values: axis values
        of the point, for the result. paired: whether to compare replicates with the same number, which both must have.
    """
    a, b = a.dropna(), b.dropna()
    if paired:
        both = a.index.intersection(b.index)
        a, b = a[both], b[both]
    elif is_privacy(column):  # the largest of many values tends to lie above that of few
        count = min(a.size, b.size)
        a, b = a.iloc[:count], b.iloc[:count]
    if a.empty or b.empty:
        return None
    if is_privacy(column):
        return Difference(column, values, float(a.max()), float(b.max()), difference=None, counts=(a.size, b.size))
    between = mean_interval(b - a) if paired else welch_interval(a, b)
    return Difference(column, values, float(a.mean()), float(b.mean()), difference=between, counts=(a.size, b.size))
