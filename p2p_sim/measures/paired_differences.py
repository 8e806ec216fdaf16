"""Differences between two sets of rows: paired where they share random numbers, else Welch's."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from p2p_sim.measures.intervals import Mean, mean_interval
from p2p_sim.measures.point_means import REPLICATE, is_privacy


@dataclass(frozen=True)
class Difference:
    """One column at one point, or pooled (values None): second minus first.

    first, second: means; for a privacy column the worst of equally many replicates, whose difference is not stated.
    difference: the difference with a 95% interval; its count is the number of pairs or, if unpaired, the smaller
        sample.
    counts: numbers of replicates of `first` and `second`.
    """

    column: str
    values: dict[str, object] | None
    first: float
    second: float
    difference: Mean | None
    counts: tuple[int, int]


def welch_interval(first: ArrayLike, second: ArrayLike, confidence: float = 0.95) -> Mean:
    """Welch's t interval for the difference of two independent means, second minus first; NaN ends for single values.

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
    half = float(stdtrit(freedom, 0.5 + confidence / 2)) * float(np.sqrt(total))
    return Mean(value, value - half, value + half, count)


def differences(
    first: pd.DataFrame, second: pd.DataFrame, axes: Sequence[str], column: str, paired: bool
) -> list[Difference]:
    """A column's differences at every point that both have, and pooled over these points.

    Points that share random numbers are not independent. So pooling uses the replicates that all points have on both
    sides (on each side, if unpaired), averages over the points within each replicate, and then counts replicates. ε is
    compared at the worst replicate and has no interval: the worst of those that both sides have or, if unpaired, of as
    many on each side, the first ones.

    Args:
        first, second: rows with a column for every axis, at most one row a replicate and axis values.
        axes: columns by whose values points are matched; an empty list matches everything.
        column: what to compare.
        paired: replicates of one number share their random numbers.

    Returns:
        One difference for each shared point, in the order of the first rows; the pooled difference last if there are
        several. Points without this column on either side, or without a common replicate if paired, are left out.
    """
    one, two = (_wide(rows, axes, column) for rows in (first, second))
    shared = one.index.intersection(two.index, sort=False)
    found, used = [], []
    for place in shared:
        a, b = one.loc[place].dropna(), two.loc[place].dropna()
        both = a.index.intersection(b.index)
        if paired:
            a, b = a[both], b[both]
        elif is_privacy(column):  # the worst of many lies above the worst of few
            count = min(a.size, b.size)
            a, b = a.iloc[:count], b.iloc[:count]
        if a.empty or b.empty:
            continue
        place_values = place if isinstance(place, tuple) else (place,)
        values = dict(zip(axes, place_values, strict=False))
        found.append(_difference(column, values, a, b, paired))
        used.append(place)
    if len(found) > 1 and is_privacy(column):
        count = min(difference.counts[0] for difference in found)
        one_worst, two_worst = max(d.first for d in found), max(d.second for d in found)
        found.append(Difference(column, None, one_worst, two_worst, None, (count, count)))
    elif len(found) > 1:
        found.append(_pooled(column, one.loc[used], two.loc[used], paired))
    return found


def _wide(rows: pd.DataFrame, axes: Sequence[str], column: str) -> pd.DataFrame:
    """A column as a matrix, axis values by replicates."""
    keyed = rows.assign(_all=0) if not axes else rows
    keys = [*axes] or ["_all"]
    order = keyed[keys].drop_duplicates()
    index = pd.MultiIndex.from_frame(order) if len(keys) > 1 else pd.Index(order[keys[0]])
    return keyed.pivot(index=keys, columns=REPLICATE, values=column).astype(float).reindex(index)


def _difference(column: str, values: dict[str, object] | None, a: pd.Series, b: pd.Series, paired: bool) -> Difference:
    if is_privacy(column):
        return Difference(column, values, float(a.max()), float(b.max()), None, (a.size, b.size))
    between = mean_interval(b - a) if paired else welch_interval(a, b)
    return Difference(column, values, float(a.mean()), float(b.mean()), between, (a.size, b.size))


def _pooled(column: str, one: pd.DataFrame, two: pd.DataFrame, paired: bool) -> Difference:
    a, b = one.dropna(axis=1).mean(), two.dropna(axis=1).mean()
    if paired:
        both = a.index.intersection(b.index)
        a, b = a[both], b[both]
    if a.empty or b.empty:
        return Difference(column, None, float("nan"), float("nan"), None, (0, 0))
    return _difference(column, None, a, b, paired)
