"""Names of result columns in figures: symbols, words and units."""

import math
from collections.abc import Mapping, Sequence

from pandas import DataFrame

from p2p_sim.measures import figure_of

NAMES: Mapping[str, tuple[str, str]] = {
    "flip_prob": ("α", "flip probability α"),
    "sampling_rate": ("θ", "sampling rate θ"),
    "effective_sampling_rate": ("effective θ", "effective sampling rate: share of users whose label arrived"),
    "num_users": ("n", "users, n"),
    "num_clusters": ("clusters", "number of clusters"),
    "min_cluster_size": ("s", "users in the smallest cluster, s"),
    "max_cluster_size": ("largest cluster", "users in the largest cluster"),
    "heterogeneity": ("φ", "cluster heterogeneity φ"),
    "delta": ("δ", "δ"),
    "target_epsilon": ("target ε", "target ε"),
    "epsilon": ("target ε", "target ε"),
    "excess_risk": ("excess risk", "excess risk (log loss, nats)"),
    "nonprivate_excess_risk": ("excess risk without privacy", "excess risk without privacy (log loss, nats)"),
    "damage_excess_risk": ("damage", "excess risk that adversaries add (log loss, nats)"),
    "honest_excess_risk": ("honest excess risk", "excess risk were all users honest (log loss, nats)"),
    "error_rate": ("error rate", "error rate"),
    "nonprivate_error_rate": ("error rate without privacy", "error rate without privacy"),
    "excess_error_rate": ("loss of accuracy", "paired loss of accuracy against no privacy"),
    "share": ("share", "share of the rows that are measured"),
    "honest_error_rate": ("honest error rate", "error rate were all users honest"),
    "damage_error_rate": ("damage", "error rate that adversaries add"),
    "majority_error_rate": ("error rate of the majority class", "error rate of always saying the majority class"),
    "majority_accuracy": ("accuracy of the majority class", "accuracy of always saying the majority class"),
    "constant_excess_risk": ("excess risk of a constant", "excess risk of the best constant (log loss, nats)"),
    "squared_error": ("squared error", "mean squared error"),
    "nonprivate_squared_error": ("squared error without privacy", "mean squared error without privacy"),
    "constant_squared_error": ("squared error of a constant", "mean squared error of a constant"),
    "half_l1": ("half-L1", "half-L1 distance from the law"),
    "nonprivate_half_l1": ("half-L1 without noise", "half-L1 distance from the law, without noise"),
    "cells": ("cells", "cells that are released"),
    "nonprivate_cells": ("cells with users", "cells that hold users"),
    "count_error": ("error of a count", "largest error of a cell's count"),
    "value_spread": ("h", "standard deviation of a label's mean within clusters, h"),
    "auc": ("AUC", "area under the ROC curve, AUC"),
    "nonprivate_auc": ("AUC without privacy", "area under the ROC curve without privacy"),
    "bayes_error_rate": ("Bayes error rate", "smallest possible error rate"),
    "accuracy": ("accuracy", "accuracy"),
    "relative_accuracy": ("relative accuracy", "accuracy relative to no privacy"),
    "nonprivate_accuracy": ("accuracy without privacy", "accuracy without privacy"),
    "completion_time_s": ("completion", "time until everything was over (seconds)"),
    "arrival_p50_s": ("50% arrived by", "time until half of the submissions had arrived (seconds)"),
    "arrival_p90_s": ("90% arrived by", "time until 90% of the submissions had arrived (seconds)"),
    "arrival_p99_s": ("99% arrived by", "time until 99% of the submissions had arrived (seconds)"),
    "submissions": ("submissions", "submissions taken"),
    "bytes_sent": ("bytes sent", "bytes sent by users"),
    "messages_sent": ("messages sent", "messages sent by users"),
    "loss": ("loss", "probability that a message is lost"),
    "median_s": ("median latency", "median latency (seconds)"),
    "replicates": ("replicates", "replicates"),
    "guess_uniform": ("guessed blindly", "share of labels guessed right if all are equally likely"),
    "guess_cluster": ("guessed by cluster", "share of labels guessed right from the cluster alone"),
    "guess_model": ("guessed by a model", "share of labels that a model learned without users guesses right"),
    "advantage_uniform": ("advantage", "advantage of the learner, all labels equally likely (at most)"),
    "advantage_cluster": (
        "advantage by cluster",
        "advantage of the learner who knows each cluster's labels (mean user)",
    ),
    "advantage_cluster_worst": (
        "advantage by cluster",
        "advantage of the learner who knows each cluster's labels (largest)",
    ),
    "advantage_model": ("advantage by a model", "advantage of the learner who has a public model (mean user)"),
    "advantage_model_worst": ("advantage by a model", "advantage of the learner who has a public model (largest)"),
    "advantage_local": ("advantage, message seen", "advantage of whoever sees a user's own message (at most)"),
    "advantage_times": ("advantage, times seen", "advantage of a learner who sees times (at most)"),
    "advantage_coalition": ("advantage, coalition", "advantage of the learner with a coalition (at most)"),
}
"""For each column of results: a short name for legends, and a long name for an axis. Some keys here are the last part
of a swept key (a dotted key of a scenario)."""
SAME = {"users": "num_users"}
"""For the last part of some scenario keys: the column of results that holds the same quantity under another name."""
EPSILONS = {
    "epsilon_upper": "learner, {adjacency} adjacency (upper bound, worst replicate and cluster)",
    "epsilon_lower": "learner, {adjacency} adjacency (lower bound, worst replicate and cluster)",
    "epsilon_best_cluster": "learner, {adjacency} adjacency (upper bound of the best cluster, worst replicate)",
    "epsilon_others_upper": "learner, users who did not submit own labels (upper bound, worst replicate and cluster)",
    "epsilon_sample_upper": "learner, a sample of the users (upper bound for these alone, worst replicate and cluster)",
    "epsilon_times_upper": "learner who sees times (upper bound, worst replicate and cluster)",
    "epsilon_coalition_upper": "learner with a coalition (upper bound, worst replicate and cluster)",
    "epsilon_unmet_upper": "coalition, labels that no member fetched (upper bound, worst replicate and cluster)",
    "epsilon_paper": "learner, by the paper's Theorem 1 (worst replicate and cluster)",
    "epsilon_paper_lemma9": "learner, by the paper's Lemma 9 (worst replicate and cluster)",
}
"""For each column with an ε that holds at the δ of its row: the text for an axis."""
LOCAL = {
    "epsilon_local": "ε₀ of the noisy label alone (worst replicate)",
    "epsilon_paper_theorem3": "ε, learner, by the paper's Theorem 3 (at its own δ)",
    "coalition_meets": "largest probability that the coalition fetched the label",
}
"""For each other privacy column, whose value does not refer to the δ of its row: the text for an axis."""


def short(column: str) -> str:
    """A short name of a column of results, for legends: a symbol or words. A key without either gets its last part, or
    its last two parts if the last is "kind".
    """
    if column.startswith("epsilon"):
        return "ε₀" if column == "epsilon_local" else "ε" if column == "epsilon_upper" else column
    if (figure := figure_of(column)) is not None:
        return f"{short(figure[0])}, {figure[1]}"
    last = column.rsplit(".", 1)[-1]
    names = NAMES.get(SAME.get(last, last))
    return names[0] if names else (".".join(column.split(".")[-2:]) if last == "kind" else last)


def long(column: str, table: DataFrame) -> str:
    """An axis label of a column: words with symbol and unit. The label of an ε in `EPSILONS` also states δ, if all
    rows share it. Some of these labels state the adjacency (what neighbouring data sets differ in) in the same way.

    Args:
        column: name of a column of results, or a swept key. table: the points or rows that are drawn.
    """
    if column in EPSILONS:
        deltas = list(table["delta"].unique()) if "delta" in table else []
        at = f"δ = {deltas[0]:g}" if len(deltas) == 1 else "each point's δ"
        kinds = list(table["adjacency"].unique()) if "adjacency" in table else []
        return f"ε at {at}, {EPSILONS[column].format(adjacency=kinds[0] if len(kinds) == 1 else 'each')}"
    if column in LOCAL:
        return LOCAL[column]
    if (figure := figure_of(column)) is not None:
        return f"{long(figure[0], table)}, {figure[1]}"
    last = column.rsplit(".", 1)[-1]
    names = NAMES.get(SAME.get(last, last))
    if names:
        return names[1].replace("log loss, nats", loss_text(table))
    return f"{column.removesuffix('_s')} (seconds)" if column.endswith("_s") else column


def readable(column: str, table: DataFrame) -> str:
    """A swept key in words with its unit, for a heading. A key without a name in `NAMES` keeps its last two parts.

    >>> readable("mechanism.flip_prob", DataFrame()), readable("network.latency.median_s", DataFrame())
    ('flip probability α', 'median latency (seconds)')
    >>> readable("network.request_timeout_s", DataFrame()), readable("clusters.count", DataFrame())
    ('network request timeout (seconds)', 'clusters count')
    """
    last = column.rsplit(".", 1)[-1]
    if SAME.get(last, last) in NAMES:
        return long(column, table)
    words = " ".join(column.split(".")[-2:]).replace("_", " ").replace("epsilon", "ε").replace("delta", "δ")
    return f"{words.removesuffix(' s')} (seconds)" if last.endswith("_s") else words


def loss_text(table: DataFrame) -> str:
    """The loss in which a table's excess risk is measured, with its unit, such as "log loss, nats"."""
    losses = set(table["excess_risk_loss"].dropna()) if "excess_risk_loss" in table else set()
    return {"zero_one": "0-1 loss", "squared": "squared loss"}.get(min(losses, default=""), "log loss, nats")


def value(cell: object) -> str:
    """A cell's value as text for a tick or a legend; NaN and -∞ are "none". A float below 10,000 has at most four
    significant digits; a larger float is rounded to a whole number.
    """
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return str(cell)
    if isinstance(cell, float) and not math.isfinite(cell):
        return "∞" if cell > 0 else "none"
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:.4g}" if abs(cell) < 1e4 else f"{cell:,.0f}"


def pairs(columns: Sequence[str], values: Sequence[object]) -> str:
    """Columns with their values, such as "α = 0.1, n = 400"; a value that is text is written without its column."""
    cells = zip(columns, values, strict=True)
    return ", ".join(cell if isinstance(cell, str) else f"{short(column)} = {value(cell)}" for column, cell in cells)
