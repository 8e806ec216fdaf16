"""The clustering paper's mechanisms on a law that is known in full, at the same honest ε: `make published`.

Run as `python -m analysis.heterogeneity`; interrupted, it goes on where it stopped.
"""

from pathlib import Path

import pandas as pd

from analysis.study import Frame, command, curves
from p2p_sim.figures import Panel, plot_study

NAME = "clustering-synthetic"
HALF = "ClusterRR, half each, τ = φ (curator)"
MEASURES = ("excess_risk", "nonprivate_excess_risk", "excess_risk_floor")
PHI, EPSILON = "population.heterogeneity", "mechanism.target_epsilon"
REDUCED = ("replicates=2", "population.users=2000")
"""What a test changes."""


def main(frame: Frame) -> list[Path]:
    """Measures excess risk against the clusters' heterogeneity φ; writes a figure with a panel for each φ and the
    table.

    Returns the files.
    """
    files = ("clustering-mechanisms.toml", "clustering-exchange.toml")
    table, panels = pd.concat([frame.sweep(file, REDUCED) for file in files], ignore_index=True), []
    for phi in table[PHI].unique():  # a panel each
        part = table[table[PHI] == phi]
        lines = curves(part, EPSILON, "excess_risk", "mechanism", (HALF,))
        panels.append(Panel("target ε", "excess risk (0-1 loss)", lines, title=f"φ = {phi:g}"))
    written = frame.points({NAME: table}, ("mechanism", PHI, EPSILON, "epsilon_upper", "trust"), MEASURES)
    count = table["replicates"]
    note = (
        f"{count.min()} to {count.max()} replicates a point, bands: 95% intervals. 20 clusters of 4 points, "
        f"n = {int(table['num_users'].max()):,}; majority of each point; pure ε for ClusterRR and UniformRR, "
        f"δ = {table['delta'].iloc[0]:g} for the exchange; both splits know φ. In brackets: who must be trusted."
    )
    figure = frame.out / "excess-risk.png"
    plot_study(panels, figure, "Excess risk at honest privacy on a known law", note, columns=2)
    return [figure, written]


if __name__ == "__main__":
    command(NAME, main)
