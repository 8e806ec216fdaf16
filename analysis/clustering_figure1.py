"""Figure 1 of the clustering paper (Esfandiari et al.), with each mechanism at the ε that it really has.

Run as `python -m analysis.clustering_figure1 --data-dir DIR` or by `make published`. The same command continues a
stopped run.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis.study import EPSILON, Frame, command, curves, fewest
from p2p_sim.figures import Curve, Panel, plot_study

NAME = "clustering-figure1"
PANELS = {
    "mnist": "MNIST, ten classes",
    "fashion-mnist": "Fashion-MNIST, ten classes",
    "cifar-10": "CIFAR-10 (20,000 images), ten classes",
    "even-odd": "MNIST, even against odd",
    "one-against-rest": "MNIST, 8 against the rest",
}
SHORT = {"mnist": "MNIST", "fashion-mnist": "Fashion", "cifar-10": "CIFAR-10", "digits": "digits"}
"""Names of data sets in the legend of the last panel."""
PRINTED = "ClusterRR as printed: costs up to 3ε"
RELATIVE = "accuracy relative to no privacy"
MEASURES = ("relative_accuracy", "accuracy", "nonprivate_accuracy")
REDUCED = ('population={kind="digits"}', "clusters.count=20", "replicates=2")
"""The settings that a test changes: digits instead of the large data sets, fewer clusters, and two replicates."""


def main(frame: Frame) -> list[Path]:
    """Runs the sweep of each panel of the clustering paper's Figure 1. Writes a figure and a table, and returns both
    files.
    """
    tables = {name: _points(frame, name) for name in (*PANELS, "clusters")}
    panels = [
        Panel(
            "target ε", RELATIVE, curves(tables[name], EPSILON, "relative_accuracy", "mechanism", (PRINTED,)),
            log_y=False, title=title,
        )
        for name, title in PANELS.items()
    ]  # fmt: skip
    panels.append(_cluster_panel(tables["clusters"], panels))
    columns = ("population", "mechanism", EPSILON, "clusters.count", "epsilon_upper", "trust")
    note = (
        f"{fewest(tables)} trials a point, bands: 95% intervals. Logistic regression on 50 principal components. "
        "δ = 1.6e-5 (5e-5 for CIFAR-10) for DP-SGD, shuffler and exchange, pure ε elsewhere; label adjacency "
        "throughout. In brackets: who must be trusted. Dashed: at the ε that the paper states, not at the true ε. "
        "Last panel: colours as in the others, a marker for each data set."
    )
    title = "The clustering paper's Figure 1 at honest privacy"
    return [
        frame.figure(plot_study, panels, "figure1.png", title, note, columns=2),
        frame.points(tables, columns, MEASURES),
    ]


def _cluster_panel(table: pd.DataFrame, others: Sequence[Panel]) -> Panel:
    """The last panel: accuracy at ε = 0.5, relative to the accuracy without privacy, against the number of clusters.
    Each curve is for one data set and one mechanism. Its colour shows the mechanism, its marker the data set.

    Args:
        table: a row for each combination of swept values, with the columns population (the data set), mechanism,
        clusters.count and relative_accuracy. others: the other panels, which determine each mechanism's colour.
    """
    labels = dict.fromkeys(curve.label for panel in others for curve in panel.curves)
    sets, lines = list(table["population"].unique()), []
    for (population, mechanism), part in table.groupby(["population", "mechanism"], sort=False, observed=True):
        [colour] = [index for index, label in enumerate(labels) if label.startswith(str(mechanism))]
        line = Curve.of(f"{SHORT[str(population)]}: {mechanism}", part, "clusters.count", "relative_accuracy")
        lines.append(replace(line, look=(colour, sets.index(population))))
    return Panel("number of clusters asked for", RELATIVE, lines, log_y=False, title="ε = 0.5", apart=True)


def _points(frame: Frame, name: str) -> pd.DataFrame:
    """The results of one panel's sweep: a row for each combination of swept values. A row has the mechanism, the target
    ε, and the mean accuracy with its 95% interval. A reduced study uses digits, divided into the panel's classes. name:
    a key of `PANELS`, or "clusters" for the last panel.
    """
    task = name if name in ("even-odd", "one-against-rest") else "classes"
    return frame.swept(f"{NAME}/{name}.toml", [*REDUCED, f'population.task="{task}"']).points


if __name__ == "__main__":
    command(NAME, main)
