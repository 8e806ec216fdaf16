"""Which clustering: heterogeneity, smallest cluster, ε and accuracy of each, and what it costs."""

import pandas as pd

from analysis.clusterings import CLUSTERS, COUNTED, COUNTS, DATA, DENSE, GIVEN, LEAST, MANY, USERS
from docs.values.forms import interval, only, published, short
from p2p_sim.measures.intervals import mean_interval

SOURCE = ("python -m analysis.clusterings --data-dir DIR", "population/test_clusterings.py::test_the_study")
SHOWN = 20
"""Clusters asked for in the table of the page."""

least, users = LEAST, USERS
most = COUNTS[-1]
points = published("clusterings").set_index(["population", "clusters", "count"]).sort_index()
costs = published("clusterings", "cost.csv").set_index(["clusters", "num_users"])
replicates = only(points["replicates"])


def at(population: str, label: str, measure: str, count: int = SHOWN) -> float:
    """The mean of a measure."""
    return float(points.loc[(population, label, count if label in COUNTED else 0), measure])


def _line(population: str, label: str) -> list[str]:
    point: pd.Series = points.loc[population, label, SHOWN if label in COUNTED else 0]

    def ends(measure: str) -> str:
        return interval(*(point[measure + end] for end in ("", "_low", "_high")))

    return [
        short(point["num_clusters"], 1), short(point["min_cluster_size"], 0), f"{point['moved']:.0%}",
        ends("heterogeneity"), ends("epsilon_upper"), ends("accuracy_at_target"),
    ]  # fmt: skip


KINDS = [(source, label) for source in DATA for label in (*COUNTED, DENSE, *([GIVEN] * (source == "synthetic")))]
table = [_line(source, label) for source, label in KINDS]
seconds = costs["cpu_s"]
memory = costs["peak_mib"]
big, large = MANY[-1], CLUSTERS
digits = only(published("clusterings", "rows.parquet").query("population == 'digits'")["num_users"])
_rows = (
    published("clusterings", "rows.parquet").set_index(["population", "clusters", "count", "replicate"]).sort_index()
)


def gap(population: str, label: str, other: str, count: int = SHOWN, measure: str = "accuracy_at_target") -> str:
    """How much more one clustering has than another one on the same users, with the interval of the differences."""
    first, second = (_rows.loc[population, one, count if one in COUNTED else 0][measure] for one in (label, other))
    mean = mean_interval(first - second)
    return interval(mean.value, mean.low, mean.high)
