"""The excess risk of the clustering paper's mechanisms on known laws, at an ε that each mechanism keeps.

With the parameters that the paper prints, ClusterRR may exceed its stated ε. The laws have several heterogeneities φ:
how much labels vary within clusters. Run as `python -m analysis.heterogeneity` or by `make published`. The same command
continues a stopped run.
"""

from pathlib import Path

import pandas as pd

from analysis.study import EPSILON, Frame, command, curves
from p2p_sim.figures import Panel, plot_study

NAME = "clustering-synthetic"
# ClusterRR draws labels from noisy shares of labels. No share is below τ. Here τ is the heterogeneity φ.
HALF = "ClusterRR, half each, τ = φ (curator)"
MEASURES = ("excess_risk", "nonprivate_excess_risk", "excess_risk_floor")
PHI = "population.heterogeneity"
REDUCED = ("replicates=2", "population.users=2000")
"""What a test changes: fewer replicates and users."""


def main(frame: Frame) -> list[Path]:
    """Measures the excess risk at each target ε and heterogeneity φ. The mechanisms are two variants of a curator's
    ClusterRR, UniformRR, and the label exchange. ClusterRR splits ε between the clusters' label distributions and the
    labels; the variants differ in this split and in τ. Returns the files of a figure and a table.

    Args:
        frame: runs the study and writes its files.
    """
    files = ("clustering-mechanisms.toml", "clustering-exchange.toml")
    table = pd.concat([frame.swept(file, REDUCED).points for file in files], ignore_index=True)
    panels = [
        Panel(
            "target ε",
            "excess risk (0-1 loss)",
            curves(part, EPSILON, "excess_risk", "mechanism", (HALF,)),
            title=f"φ = {phi:g}",
        )
        for phi, part in table.groupby(PHI, sort=False)
    ]
    count = table["replicates"]
    note = (
        f"{count.min()} to {count.max()} replicates a point, bands: 95% intervals. 20 clusters, each with 4 feature "
        f"vectors; n = {int(table['num_users'].max()):,}; the learner predicts each point's majority label; pure ε for "
        f"ClusterRR and UniformRR, δ = {table['delta'].iloc[0]:g} for the exchange; both variants of ClusterRR get "
        "the true φ. In brackets: who must be trusted."
    )
    title = "Excess risk on a known law, at an ε that each mechanism keeps"
    return [
        frame.figure(plot_study, panels, "excess-risk.png", title, note, columns=2),
        frame.points({NAME: table}, ("mechanism", PHI, EPSILON, "epsilon_upper", "trust"), MEASURES),
    ]


if __name__ == "__main__":
    command(NAME, main)
