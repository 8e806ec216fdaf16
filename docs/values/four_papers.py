"""What the systems of the four papers achieve here, each with its 95% interval."""

import numpy as np
import pandas as pd

import p2p_sim
from analysis.vector import ALIBI, CLASSES, EPSILON, NEIGHBOURS, RESPONSE, TWO_STAGES, VECTOR
from docs.values import clustering_figure1 as clustering
from docs.values import consistency
from docs.values.forms import interval, published
from docs.values.vector import SOURCE as VECTOR_SOURCE
from p2p_sim.measures.intervals import mean_interval

SOURCE = ("python -m analysis.stacking", "analysis/test_stacking_study.py::test_the_study_on_stand_ins")
SOURCES = {
    "clustering_cells": clustering.SOURCE,
    "vector_cells": VECTOR_SOURCE,
    "consistency_cells": consistency.SOURCE,
}


def _shown(point: pd.Series, column: str) -> str:
    return interval(*(point[column + end] for end in ("", "_low", "_high")))


clustering_cells = [
    [_shown(clustering.points.loc[("mnist", name, 0.5)], "relative_accuracy")]
    for name in (clustering.HONEST, clustering.EXCHANGE, clustering.RESPONSE, clustering.SGD)
]

_circle = published("vector").set_index(["panel", EPSILON, NEIGHBOURS, CLASSES, "mechanism"])
vector_cells = [
    [_shown(_circle.loc[("scaled", 1.0, 200, 30, name)], "accuracy")] for name in (VECTOR, RESPONSE, TWO_STAGES, ALIBI)
]

_table, _rows = published("stacking"), published("stacking", "rows.parquet")
_news = _table[(_table["data"] == "NEWS20") & (_table["epsilon"] == 1.0)]
_methods = _news[_news["study"] == "epsilon"].set_index("method")
_combined = _news[(_news["study"] == "combiner") & (_news["method"] == "PST-F(W)")].set_index("combiner")
_transfer = _rows[(_rows["study"] == "transfer") & (_rows["data"] == "branches")]


def _over_targets(method: str) -> str:
    """The mean AUC over all targets, with the interval over replicates."""
    means = _transfer[_transfer["method"] == method].groupby("replicate")["auc"].mean()
    found = mean_interval(means.to_numpy())
    return interval(found.value, found.low, found.high)


stacking_cells = [
    *([_shown(_methods.loc[name], "auc")] for name in ("PLR", "PST-S", "PST-F(U)", "PST-F(W)")),
    *([_shown(_combined.loc[name], "auc")] for name in ("majority", "weighted", "stacked")),
    [_shown(_combined.loc[_combined.filter(like="group", axis=0)["auc"].idxmax()], "auc")],
    *([_over_targets(name)] for name in ("PST-H(U)", "PST-H(W)", "PPHTL")),
]
assert np.isfinite(_transfer["auc"]).all()


def _run(name: str) -> str:
    """Excess risk of a shipped scenario, as its command prints it."""
    scenario = p2p_sim.load_scenario(f"consistency/{name}")
    rows = [p2p_sim.run(scenario, replicate).row for replicate in range(scenario.replicates)]
    found = mean_interval([row["excess_risk"] for row in rows])
    return interval(found.value, found.low, found.high, 4)


consistency_cells = [
    [consistency.half_l1[2][1]],
    [consistency.excess_error[0][1]],
    [consistency.half_l1[1][1]],
    [consistency.threshold],
    *([_run(name)] for name in ("pcl2", "pcl2b")),
]
