"""Every mechanism at equal (ε, δ), by whom it needs to trust: the figure at the top of the README.

Run as `python -m analysis.comparison --data-dir DIR`; interrupted, it goes on where it stopped.
"""

from functools import partial
from pathlib import Path

import pandas as pd

from analysis.comparison.models import HISTOGRAM, PLR, STACKING, model_rows
from analysis.study import Frame, command, curves
from p2p_sim.figures.curves import Panel, plot_by_trust
from p2p_sim.measures.point_means import points

NAME = "comparison"
EPSILON = "mechanism.target_epsilon"
PANELS = {
    "digits": "digits, ten classes",
    "mnist": "MNIST, ten classes",
    "even-odd": "MNIST, even against odd",
    "adult": "Adult, income above 50,000",
    "synthetic": "a known law, φ = 0.2",
}
TRUST = {
    "trust nobody": (
        "label exchange",
        "randomised response",
        "vector approximation",
        "RRWithPrior, two stages",
        "ALIBI",
    ),
    "trust a shuffler": ("randomised response, shuffled",),
    "trust one's own organisation": (STACKING,),
    "trust a curator with all labels": ("DP-SGD", "ClusterRR", PLR, HISTOGRAM),
}
"""Who sees true labels, or noisy ones with their owner, and must not tell."""
TWO_CLASSES = ("even-odd", "adult", "synthetic")
REDUCED = {
    "digits": ("replicates=2", "clusters.count=4"),
    "synthetic": ("replicates=2", "population.users=2000"),
}
"""What a test runs: two panels, and what it changes."""
MEASURES = ("relative_accuracy", "accuracy", "nonprivate_accuracy")


def main(frame: Frame) -> list[Path]:
    """Run all panels, draw the figure and write the table."""
    tables = {name: _panel(name, frame) for name in (REDUCED if frame.small else PANELS)}
    lines = [
        Panel("target ε", "accuracy relative to no privacy", lines, log_y=False, title=PANELS[name])
        for name, table in tables.items()
        if (lines := curves(table, EPSILON, "relative_accuracy", "mechanism"))
    ]
    written = frame.points(tables, ("mechanism", EPSILON, "epsilon_upper", "delta", "trust"), MEASURES)
    counts = ", ".join(f"{table['replicates'].min()} ({name})" for name, table in tables.items())
    note = (
        f"Bands: 95% intervals; replicates a point: {counts}. One-vs-rest logistic regression learns from every "
        "release of labels. δ = 1e-6 for exchange, shuffler and DP-SGD, pure ε elsewhere; label adjacency throughout. "
        "ε is for the learner's view: in the exchange a peer, or someone on the wire, sees a noisy label with its "
        "owner, and for them a larger ε₀ holds."
    )
    figure = frame.out / "comparison.png"
    plot_by_trust(lines, TRUST, figure, "What each mechanism is worth, and who must be trusted", note)
    return [figure, written]


def _panel(name: str, frame: Frame) -> pd.DataFrame:
    """The points of a panel: of a sweep, and of the models where there are two classes."""
    plan, swept = frame.swept(f"{NAME}/{name}.toml", REDUCED.get(name, ()))
    table = points(swept, plan.keys)
    if name not in TWO_CLASSES:
        return table
    once = swept.drop_duplicates("replicate").set_index("replicate")["nonprivate_error_rate"]
    tree = plan.base.model_dump(mode="json")
    tasks = [(tree, sorted(table[EPSILON].unique()), replicate, frame.data_dir) for replicate in once.index]
    found = frame.each(partial(model_rows, histogram=name == "synthetic"), tasks)
    rows = pd.DataFrame([row for part in found for row in part])
    rows["nonprivate_error_rate"] = rows["replicate"].map(once)
    rows.to_parquet(frame.out / name / "models.parquet", index=False)
    return pd.concat([table, points(rows, ("mechanism", EPSILON))], ignore_index=True)


if __name__ == "__main__":
    command(NAME, main)
