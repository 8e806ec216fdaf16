"""The figure of the learner's ε against the cluster size: printed, exact, in the limit, and with a shuffler."""

from collections.abc import Sequence
from pathlib import Path

from p2p_sim.figures.curves import Curve, Panel, plot_panels
from p2p_sim.privacy.claims.paper_against_exact import BoundsRow

DRAWN = (
    ("epsilon_upper", "exact (certified from above)", False),
    ("epsilon_paper", "the paper's Lemma 9, where it applies", True),
    ("epsilon_closed_form", "closed form (theorem)", True),
    ("epsilon_gaussian", "Gaussian limit", True),
    ("epsilon_shuffled_lower", "a shuffler of the same noisy labels (attained)", False),
)
"""Columns, their names, and whether they are dashed."""


def plot_bounds(table: Sequence[BoundsRow], path: Path) -> None:
    """Draw every ε of the table against the cluster size n, a panel a sampling rate.

    Args:
        table: rows of one flip probability, as `bounds_table` gives them.
    """
    panels = []
    for rate in sorted({row.sampling_rate for row in table}, reverse=True):
        curves = []
        for column, label, dashed in DRAWN:
            found = ((row.cluster_size, getattr(row, column)) for row in table if row.sampling_rate == rate)
            if known := [(size, epsilon) for size, epsilon in found if epsilon is not None]:
                sizes, values = zip(*known, strict=True)
                curves.append(Curve(label, sizes, values, dashed=dashed))
        title = f"One user's label, α = {table[0].flip_prob:g}, θ = {rate:g}"
        panels.append(Panel("users in the cluster, n", "ε of the learner at δ = 1/n²", curves, title=title))
    plot_panels(panels, path)
