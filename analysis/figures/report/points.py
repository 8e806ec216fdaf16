"""Rows summed up, one line a point: means with intervals, ε at its worst."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

MEANS = (
    "accuracy",
    "nonprivate_accuracy",
    "lost_accuracy",
    "excess_risk",
    "nonprivate_excess_risk",
    "effective_sampling_rate",
    "heterogeneity",
)
WORST = (
    "epsilon_lower",
    "epsilon_upper",
    "epsilon_local",
    "epsilon_others_upper",
    "epsilon_times_upper",
    "epsilon_coalition_upper",
    "epsilon_unmet_upper",
    "epsilon_paper_lemma9",
    "epsilon_paper_theorem3",
)
NUMBERS = (
    *("flip_prob", "sampling_rate", "num_users", "num_clusters", "heterogeneity", "delta", "effective_sampling_rate"),
    *("error_rate", "nonprivate_error_rate", "excess_risk", "nonprivate_excess_risk"),
    *WORST,
)
"""Columns of numbers, or of nothing, that a report reads."""
NEEDED = (
    *("scenario", "replicate", "engine", "population", "mechanism", "learner", "observer", "adjacency", "basis"),
    *NUMBERS,
)
"""Columns that a report reads."""

Failure = Mapping[str, Any]


def standing(failures: Iterable[Failure], rows: pd.DataFrame) -> list[Failure]:
    """Failures whose replicate has not succeeded since, in their order."""
    done = set(zip(rows["scenario"], rows["replicate"], strict=True))
    return [failure for failure in failures if (failure.get("point"), failure.get("replicate")) not in done]


def per_point(rows: pd.DataFrame, keys: Sequence[str], failures: Sequence[Failure] = ()) -> pd.DataFrame:
    """One line a point, in the order of the rows; points of which nothing succeeded come last.

    A mean is followed by the ends of its 95% interval (Student's t over replicates; NaN for a single one) in columns
    ending in _low and _high. A figure that does not apply to every replicate of a point is NaN.

    Args:
        rows: one line a point and replicate.
        keys: columns that say where a point lies.
        failures: replicates without a row, with `point`, `replicate` and the columns of `keys`.
    """
    whole = rows.assign(
        accuracy=1.0 - rows["error_rate"].astype(float),
        nonprivate_accuracy=1.0 - rows["nonprivate_error_rate"].astype(float),
        lost_accuracy=rows["error_rate"].astype(float) - rows["nonprivate_error_rate"].astype(float),
    )
    groups = whole.groupby("scenario", sort=False)
    table = groups[list(dict.fromkeys(["delta", "engine", "basis", *keys]))].first()
    table["basis"] = whole.loc[_worst(whole), ["scenario", "basis"]].set_index("scenario")["basis"]
    table.insert(0, "replicates", groups.size())
    for name in MEANS:
        table[[name, f"{name}_low", f"{name}_high"]] = _means(whole, name)
    for name in WORST:
        table[name] = _complete(whole, name).max()
    return _with_failures(table.rename_axis("point").reset_index(), keys, failures)


def _worst(rows: pd.DataFrame) -> Any:
    """Index of the row with the largest ε of each point."""
    return rows["epsilon_upper"].astype(float).fillna(np.inf).groupby(rows["scenario"], sort=False).idxmax()


def _complete(rows: pd.DataFrame, name: str) -> Any:
    """A column by point, all NaN where one replicate has no value."""
    values, point = rows[name].astype(float), rows["scenario"]
    gap = values.isna().groupby(point, sort=False).transform("any")
    return values.mask(gap).groupby(point, sort=False)


def _means(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Mean and ends of the 95% interval by point, as `analysis.utility.intervals` has them."""
    values = _complete(rows, name)
    mean, size = values.mean(), values.size().to_numpy()
    quantile = np.where(size > 1, stdtrit(np.maximum(size - 1, 1), 0.975), np.nan)
    half = quantile * values.std(ddof=1) / np.sqrt(size)
    return pd.DataFrame({0: mean, 1: mean - half, 2: mean + half}).set_axis([name, f"{name}_low", f"{name}_high"], axis=1)


def _with_failures(table: pd.DataFrame, keys: Sequence[str], failures: Sequence[Failure]) -> pd.DataFrame:
    counts: dict[str, int] = {}
    places: dict[str, Failure] = {}
    for failure in failures:
        point = str(failure.get("point"))
        counts[point] = counts.get(point, 0) + 1
        places.setdefault(point, failure)
    known = set(table["point"])
    lost = [
        {"point": point, "replicates": 0, **{key: place.get(key) for key in keys}}
        for point, place in places.items()
        if point not in known
    ]
    if lost:
        table = pd.concat([table, pd.DataFrame(lost).astype({key: object for key in keys})], ignore_index=True)
    return table.assign(failures=[counts.get(point, 0) for point in table["point"]])
