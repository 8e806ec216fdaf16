"""What a report adds to the table of points: what failed, and which columns it reads."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from p2p_sim.measures.point_means import POINT, REPLICATE, points

WORST = (
    *("epsilon_lower", "epsilon_upper", "epsilon_local", "epsilon_others_upper", "epsilon_times_upper"),
    *("epsilon_coalition_upper", "epsilon_unmet_upper", "epsilon_paper_lemma9", "epsilon_paper_theorem3"),
)
NUMBERS = (
    *("flip_prob", "sampling_rate", "num_users", "num_clusters", "delta", "effective_sampling_rate"),
    *("error_rate", "nonprivate_error_rate", "excess_risk", "nonprivate_excess_risk"),
    "epsilon_paper",
    *WORST,
)
"""Columns of numbers, or of nothing, that a report reads."""
TEXTS = ("engine", "population", "mechanism", "mechanism_kind", "learner", "observer", "adjacency", "basis", "oracle")
NEEDED = (POINT, REPLICATE, *TEXTS, *NUMBERS)
"""Columns that a report reads."""

Failure = Mapping[str, Any]


def standing(failures: Iterable[Failure], rows: pd.DataFrame) -> list[Failure]:
    """Failures whose replicate has not succeeded since, in their order."""
    done = set(zip(rows[POINT], rows[REPLICATE], strict=True))
    return [failure for failure in failures if (str(failure.get("point")), failure.get("replicate")) not in done]


def with_failures(rows: pd.DataFrame, keys: Sequence[str], failures: Sequence[Failure] = ()) -> pd.DataFrame:
    """One line a point, as `p2p_sim.measures.point_means.points` has it, with the number of failed replicates.

    Points of which nothing succeeded come last, with 0 replicates and gaps.

    Args:
        rows: one line a point and replicate.
        keys: columns that say where a point lies.
        failures: replicates without a row, with `point`, `replicate` and the columns of `keys`.
    """
    table = points(rows, keys)
    table["replicates"] = table["replicates"].astype(int)
    counts: dict[str, int] = {}
    lost: dict[str, dict[str, Any]] = {}
    known = set(table[POINT])
    for failure in failures:
        point = str(failure.get("point"))
        counts[point] = counts.get(point, 0) + 1
        if point not in known:
            lost[point] = {POINT: point, "replicates": 0, **{key: failure.get(key) for key in keys}}
    if lost:
        table = pd.concat([table, pd.DataFrame(list(lost.values()))], ignore_index=True)
    return table.assign(failures=[counts.get(point, 0) for point in table[POINT]])


def worst_bases(rows: pd.DataFrame) -> pd.Series:
    """Where the learner's ε of each point comes from: the basis of its worst replicate."""
    order = rows["epsilon_upper"].fillna(float("inf")).sort_values(kind="stable").index
    return rows.loc[order].groupby(POINT, sort=False)["basis"].last()
