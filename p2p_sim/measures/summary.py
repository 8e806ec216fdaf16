"""Summarises the result rows of one scenario: means with intervals, the largest ε, and totals of messages."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from p2p_sim.measures.group_gaps import ERROR, LOSS, REFERENCE, SHARE, groups_of
from p2p_sim.measures.intervals import Mean, mean_interval

if TYPE_CHECKING:
    import pandas as pd

MEANS = (
    "error_rate",
    "nonprivate_error_rate",
    "majority_error_rate",
    "bayes_error_rate",
    "auc",
    "nonprivate_auc",
    "excess_risk",
    "nonprivate_excess_risk",
    "constant_excess_risk",
    "heterogeneity",
    "effective_sampling_rate",
    "completion_time_s",
    "arrival_p50_s",
    "arrival_p99_s",
    "honest_error_rate",
    "damage_error_rate",
    "honest_excess_risk",
    "damage_excess_risk",
    "squared_error",
    "nonprivate_squared_error",
    "constant_squared_error",
    "value_spread",
    "half_l1",
    "nonprivate_half_l1",
    "cells",
    "nonprivate_cells",
    "count_error",
)
WORST = (
    "epsilon_lower",
    "epsilon_upper",
    "epsilon_others_upper",
    "epsilon_times_upper",
    "epsilon_coalition_upper",
    "epsilon_unmet_upper",
    "coalition_meets",
    "epsilon_local",
    "epsilon_paper",
    "epsilon_paper_lemma9",
    "epsilon_paper_theorem3",
)
TOTALS = (
    "fetches",
    "answered",
    "expired",
    "failed",
    "late_replies",
    "retries",
    "departed",
    "fallbacks",
    "messages_sent",
    "messages_duplicated",
    "messages_lost",
    "messages_undelivered",
    "messages_delivered",
    "bytes_sent",
    "learner_messages",
    "learner_bytes",
)
"""Numbers of requests, messages and bytes, which are summed over the replicates."""


def means(rows: "pd.DataFrame") -> dict[str, Mean]:
    """Mean and 95% interval of each measured column, such as error_rate, by its name. The columns are those in `MEANS`
    without missing values. The interval of an AUC is cut to [0, 1].
    """
    intervals = {name: mean_interval(rows[name].astype(float)) for name in _complete(rows, MEANS)}
    return {name: mean.within(0.0, 1.0) if name.endswith("auc") else mean for name, mean in intervals.items()}


def _complete(rows: "pd.DataFrame", names: Sequence[str]) -> list[str]:
    """The given names that are columns of the rows without missing values."""
    return [name for name in names if name in rows and rows[name].notna().all()]


def excess_error(rows: "pd.DataFrame") -> Mean | None:
    """Mean over replicates of the private minus the non-private error rate; None if a replicate lacks the non-private
    rate.
    """
    if rows["nonprivate_error_rate"].isna().any():
        return None
    return mean_interval((rows["error_rate"] - rows["nonprivate_error_rate"]).astype(float))


def group_means(rows: "pd.DataFrame") -> dict[str, Mean]:
    """Means over replicates, with 95% intervals, of four columns for each group of users. The columns are the group's
    share of the users, the two error rates with and without privacy, and their difference. A group has the users of one
    class, of one value of a public column such as sex, or of clusters of similar size. Columns with a missing value are
    left out. A key of the result is a column's name, such as error_rate[sex=Female].

    Args:
        rows: result rows of one scenario, one for each replicate.
    """
    from p2p_sim.measures.point_means import derived

    table = derived(rows)
    columns = [group.column(figure) for group in groups_of(rows) for figure in (SHARE, ERROR, REFERENCE, LOSS)]
    return {column: mean_interval(table[column].astype(float)) for column in _complete(table, columns)}


def worst_epsilons(rows: "pd.DataFrame") -> dict[str, float | None]:
    """Largest value over replicates of each column in `WORST`, such as epsilon_upper; None if a replicate has none."""
    return {name: float(rows[name].max()) if rows[name].notna().all() else None for name in WORST}


def summarise(rows: "pd.DataFrame", parameters: Sequence[str] = ()) -> dict[str, Any]:
    """A summary of one scenario's result rows as a record for JSON. Most keys are names of columns. Texts such as the
    mechanism, and δ and θ, have a single value. Each other column in `parameters` has two keys, such as flip_prob_min
    and flip_prob_max. A column of ε has its largest value. A measured column has "mean" and "interval_95" (two ends;
    None for a single replicate). If messages were simulated, `totals` has the numbers of requests, messages and bytes
    of all replicates.

    Args:
        rows: result rows, one for each replicate of the scenario. parameters: names of the columns with parameters of
        the scenario's mechanism.
    """
    first = rows.iloc[0]
    words = ("engine", "population", "mechanism", "trust", "observer", "adjacency", "basis")
    record: dict[str, Any] = {
        "replicates": len(rows),
        **{name: first[name] for name in words},
        "oracle": bool(rows["oracle"].any()),
        **{name: float(first[name]) for name in _complete(rows, ("delta", "sampling_rate"))},
    }
    for name in _complete(rows, parameters):
        if name not in record:
            record |= {f"{name}_min": float(rows[name].min()), f"{name}_max": float(rows[name].max())}
    record |= worst_epsilons(rows)
    # means with intervals; for the loss of accuracy, differences are taken within replicates
    paired = excess_error(rows)
    for name, mean in {**means(rows), **({LOSS: paired} if paired else {}), **group_means(rows)}.items():
        record[name] = {"mean": mean.value, "interval_95": [mean.low, mean.high] if mean.replicates > 1 else None}
    if totals := {name: int(rows[name].sum()) for name in _complete(rows, TOTALS)}:
        record["totals"] = totals
    return record
