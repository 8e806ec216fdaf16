"""Averages result rows over replicates, and compares two sets of rows. Columns about privacy are not averaged.

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
    """The name of the quality measure that all given rows have: excess risk if this is known, else accuracy. For
    density estimates the measure is half the L1 error if this is known, else the number of cells.

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
    """Whether a column is about privacy. Such a column is reported by its largest value over replicates, never by the
    mean. The name begins with "epsilon" or "advantage", or is "delta" or "coalition_meets". "coalition_meets" is the
    probability that a colluding user got a given label.
    """
    return name.startswith(("epsilon", "advantage")) or name in ("delta", "coalition_meets")


def derived(rows: pd.DataFrame) -> pd.DataFrame:
    """The result rows with further columns from error rates:

    - accuracy, nonprivate_accuracy and majority_accuracy are 1 minus error_rate, nonprivate_error_rate and
      majority_error_rate.
    - excess_error_rate is error_rate - nonprivate_error_rate, the accuracy that is lost by privacy.
    - relative_accuracy is accuracy / nonprivate_accuracy.

    A column is added if its error rates are there. Each group with an error rate, such as error_rate[sex=Female], also
    gets both accuracies and the loss. Missing numbers become NaN.

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
    """One row for each scenario, with axis values, number of replicates, means, and largest values of columns about
    privacy.

    A measured column `c` becomes the mean `c` and the ends `c_low` and `c_high` of its 95% t-interval. The ends are NaN
    for a single replicate. All three are NaN if a replicate has no finite value. A column about privacy becomes its
    largest value; it is NaN if a replicate has no value. A text column is kept if each scenario has the same text in
    all rows.

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
    # choose the columns that become means or largest values, and the text to keep
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
    """Means of columns over each group of rows, each with the ends of its 95% t-interval. For a column c, the result
    has the columns c, c_low and c_high, with one row for each group. All three are NaN if a row of the group has no
    value. If a column's name ends in "auc", the interval is cut to [0, 1]. `groups` is the pandas
    result of `groupby`. `size` has the number of rows of each group.
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
    """The result rows with the further columns of `derived`. Infinite values become NaN, except in axes and in columns
    about privacy.

    Args:
        rows: one row for each replicate. axes: columns that a sweep varies.
    """
    table = derived(rows)
    for name in table.columns.difference([*axes, *_NOT_MEASURED]):
        if table[name].isna().all():
            table[name] = np.nan
        if table[name].dtype.kind == "f" and not is_privacy(name):
            table[name] = table[name].where(np.isfinite(table[name]))
    return table


def by_replicate(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """A measured column as a table with a row for each scenario and a column for each replicate. A replicate is left
    out if it lacks a number in some scenario.

    Args:
        rows: one row for each scenario and replicate. column: name of a column of numbers.
    """
    table = derived(rows).pivot(index=POINT, columns=REPLICATE, values=column)
    return table.reindex(rows[POINT].drop_duplicates()).astype(float).dropna(axis=1)


@dataclass(frozen=True)
class Difference:
    """The difference of a column between two sets of rows, second minus first, at a single point or pooled over points.

    values: axis values of the point; None: pooled over points. first, second: the means in the two sets. For a column
    about privacy, they are the largest values of equally many replicates. difference: the difference of the means, with
    a 95% interval and a number of replicates. This is the number of pairs or, if unpaired, the size of the smaller
    sample. None: the column is about privacy, or no replicate can be pooled. In the second case `first` and `second`
    are NaN. counts: numbers of replicates of `first` and `second`.
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
    """Differences of a column, second minus first set of rows, at every shared point and pooled over these points.

    Points that share random numbers are not independent. So each replicate is first averaged over the points, and the
    averages are the pooled sample. A replicate counts if all points of its set have this replicate; paired replicates
    need this in both sets. For a column about privacy the largest values are compared, without an interval: over common
    replicates if these are paired, else over equally many first replicates of each set.

    Args:
        first, second: rows with a column for every axis, at most one row for each replicate and combination of axis
        values. axes: columns whose values tell points apart; without axes, all rows are one point. column: the column
        to compare. paired: whether replicates with the same number share their random numbers.

    Returns:
        One difference for each shared point, in the order of the first rows. If there are several, the pooled
        difference comes last. A point is left out if a set has no value of this column there. With paired replicates, a
        point is also left out if the sets have no common replicate there.
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
    """The difference of a column, second minus first set of rows, pooled over points. For a column about privacy, the
    largest values are compared. For another column, each replicate's average over the points is compared.

    Args:
        by_point: the differences to pool, by axis values. tables: for each set, the column's values, with a row for
        each point and a column for each replicate. paired: whether replicates with the same number share their random
        numbers.
    """
    if is_privacy(column):
        results = by_point.values()
        count = min(difference.counts[0] for difference in results)
        first_worst, second_worst = max(d.first for d in results), max(d.second for d in results)
        return Difference(column, None, first_worst, second_worst, difference=None, counts=(count, count))
    a, b = (table.loc[list(by_point)].dropna(axis=1).mean() for table in tables)
    return _difference(column, a, b, values=None, paired=paired) or Difference(
        column, None, float("nan"), float("nan"), difference=None, counts=(0, 0)
    )


def _difference(
    column: str, a: pd.Series, b: pd.Series, *, values: dict[str, object] | None, paired: bool
) -> Difference | None:
    """The difference between two series of values by replicate, `b` minus `a`; None: there are no values to compare.
    Means are compared, or the largest values of a column about privacy. Missing values do not count.

    Args:
        values: axis values of the point, for the result. paired: whether to compare only replicates that both series
        have.
    """
    a, b = a.dropna(), b.dropna()
    if paired:
        both = a.index.intersection(b.index)
        a, b = a[both], b[both]
    elif is_privacy(column):  # more values tend to have a larger maximum
        count = min(a.size, b.size)
        a, b = a.iloc[:count], b.iloc[:count]
    if a.empty or b.empty:
        return None
    if is_privacy(column):
        return Difference(column, values, float(a.max()), float(b.max()), difference=None, counts=(a.size, b.size))
    between = mean_interval(b - a) if paired else welch_interval(a, b)
    return Difference(column, values, float(a.mean()), float(b.mean()), difference=between, counts=(a.size, b.size))
