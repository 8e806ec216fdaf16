"""Figure 1 of the clustering paper at honest privacy."""

import pandas as pd

from docs.values.forms import published, short, up

SOURCE = (
    "python -m analysis.clustering_figure1",
    "analysis/test_published.py::test_figure_1_of_the_clustering_paper_on_digits",
)
RESPONSE, EXCHANGE, SGD = "UniformRR (nobody)", "label exchange (nobody)", "DP-SGD (curator)"
HONEST, PRINTED = "ClusterRR, honest ε (curator)", "ClusterRR as printed: costs up to 3ε"
EPSILON = "mechanism.target_epsilon"
SETS = ["mnist", "fashion-mnist", "cifar-10"]

_found = published("clustering-figure1")
points = _found[_found[EPSILON].notna()].set_index(["panel", "mechanism", EPSILON]).sort_index()
means = points["relative_accuracy"]


def _first(panel: str) -> float:
    """The smallest ε at which randomised response is above ClusterRR."""
    return (means[panel, RESPONSE] > means[panel, HONEST]).idxmax()


fashion, cifar = _first("fashion-mnist"), _first("cifar-10")
_better = pd.concat([means[panel, HONEST] > means[panel, RESPONSE] for panel in SETS], axis=1).all(axis=1).cummin()
better_to = _better[_better].index.max()
_sets = means.unstack("mechanism").loc[SETS, [HONEST, RESPONSE, EXCHANGE, SGD]]
_leads = (_sets.idxmax(axis=1) == SGD).groupby(level=EPSILON).all()
leads = _leads[_leads].index
table = [
    [f"{epsilon:g}", *(short(_sets.loc[(panel, epsilon), name]) for name in (HONEST, RESPONSE, EXCHANGE, SGD))]
    for panel in SETS
    for epsilon in (0.1, 0.5, 2.0)
]
mnist = means["mnist"].map(lambda mean: short(mean, 2))
below = short(up(max((means[panel, PRINTED] - means[panel, HONEST]).max() for panel in SETS[:2]), 3))
two = up(100 * (1.0 - means[["even-odd", "one-against-rest"]].drop(RESPONSE, level="mechanism").min()), 1)

rows, images = (published(f"clustering-figure1/{panel}", "rows.parquet") for panel in ("mnist", "cifar-10"))
_by = _found[(_found["panel"] == "clusters") & (_found["population"] == "mnist")].pivot(
    index="clusters.count", columns="mechanism", values="relative_accuracy"
)
few = _by.map(lambda mean: short(mean, 2))
