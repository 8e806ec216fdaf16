"""Every mechanism at equal ε."""

import pandas as pd

from analysis.comparison.__main__ import EPSILON, PANELS, TRUST
from docs.values.forms import published, short

SOURCE = (
    "python -m analysis.comparison --data-dir DIR",
    "analysis/test_published.py::test_the_comparison_of_all_mechanisms",
)

means = published("comparison").pivot(index=["panel", EPSILON], columns="mechanism", values="relative_accuracy")
"""Relative accuracy, a row for each panel and ε, a column for each mechanism."""
exchange, model, labels = means["label exchange"], means["DP-SGD"], means["ClusterRR"]
best = means[[name for name in TRUST["trust nobody"] if name != "label exchange"]].max(axis=1)
behind = (best > exchange).groupby("panel").apply(lambda ahead: ahead[ahead].index[0][1])
gap = (means["randomised response, shuffled"] - exchange).abs().groupby("panel").max()
users = published("comparison/digits", "rows.parquet")["num_users"].iloc[0]


def table(epsilon: float) -> list[list[str]]:
    """The rows at an ε."""
    values = [[means[name].get((panel, epsilon)) for panel in PANELS] for names in TRUST.values() for name in names]
    return [["" if pd.isna(value) else short(value) for value in row] for row in values]


def asked(panel: str) -> float:
    """ε₀ of the exchange at ε = 1: the worst over replicates."""
    rows = published(f"comparison/{panel}", "rows.parquet")
    return rows[(rows["mechanism_kind"] == "label_exchange") & (rows[EPSILON] == 1.0)]["epsilon_local"].max()
