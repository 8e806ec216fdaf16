"""The accuracy of every mechanism against its advantage.

An observer guesses a user's label. The advantage is the probability of a right guess with a mechanism's release, minus
this probability without the release. The study uses the runs of `analysis.comparison`.

Run it as `python -m analysis.advantage`. Advantages on disk are not computed again.
"""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.comparison.__main__ import EPSILON, MEASURES, PANELS, TRUST, TWO_CLASSES
from analysis.study import PUBLISHED, Frame, command, curves
from p2p_sim.figures import Panel, plot_by_trust
from p2p_sim.measures import points
from p2p_sim.mechanisms import DpSgdConfig
from p2p_sim.privacy import (
    Accountant,
    ClusterResampling,
    DpSgd,
    KaryExchange,
    LabelExchange,
    OnePoint,
    PrivacyBound,
    ShuffledResponse,
    advantage,
    local_advantage,
)
from p2p_sim.privacy.rivals import laplace_advantage, vector_advantage

ADVANTAGE, ALONE = "advantage", "advantage_of_statement"
STEPS = DpSgdConfig(target_epsilon=1.0).steps
PARAMETERS = (
    "mechanism", "mechanism_kind", "min_cluster_size", "max_cluster_size", "flip_prob", "sampling_rate", "noise_scale",
    "bit_flip_prob", "resampling_prob", "threshold", "bias_correction", "noise_multiplier", "epsilon_upper", "delta",
)  # fmt: skip
"""The columns of a result row on which the advantage depends."""
SMALL = ("synthetic", "adult")
"""The data sets of a reduced study, which uses only ε = 1."""
MARKED = (0.1, 1.0, 4.0)
"""The values of ε that the figure marks. A mark is the largest advantage that ε allows at δ = 0."""

Line = dict[Hashable, Any]


def main(frame: Frame) -> list[Path]:
    """Computes an upper bound of the advantage for each run in the published comparison of mechanisms. Draws the
    accuracy against the advantage. Writes a table with a row for each data set, mechanism and ε. Returns both files.

    Args:
        frame: runs the study and writes its files.
    """
    tables = {name: _panel(name, frame) for name in (SMALL if frame.small else PANELS)}
    panels = []
    for name, table in tables.items():
        # the advantage is drawn in percent; a mark is the largest advantage that one ε of `MARKED` allows at δ = 0
        scaled = table.assign(**{ADVANTAGE: 100.0 * table[ADVANTAGE]})
        marks = [(100.0 * local_advantage(1.0, epsilon, classes_of(name)), f"ε = {epsilon:g}") for epsilon in MARKED]
        if lines := curves(scaled, ADVANTAGE, "relative_accuracy", "mechanism"):
            panels.append(
                Panel("more right guesses in 100 (advantage)", "accuracy relative to no privacy", lines, log_y=False,
                      title=PANELS[name], marks=marks)
            )  # fmt: skip
    written = frame.points(
        tables, ("mechanism", EPSILON, "epsilon_upper", "delta", "trust", ADVANTAGE, ALONE), MEASURES
    )
    note = (
        "Advantage: how many more labels in 100 an observer guesses right after seeing the release. She knows all "
        "other labels; all classes are equally likely to her. Values are upper bounds for the smallest and the "
        "largest cluster. Left is more private. Dotted: what pure ε alone allows. Bands: 95% intervals of the "
        "accuracy. The runs are from the comparison at equal ε. In the exchange a peer, or someone on the wire, "
        "learns more."
    )
    title = "What each mechanism is worth, and what it tells of a label"
    return [frame.figure(plot_by_trust, panels, "advantage.png", TRUST, title, note), written]


def classes_of(panel: str) -> int:
    """The number of classes of a data set. panel: name of the data set, such as "mnist"."""
    return 2 if panel in TWO_CLASSES else 10


def _panel(name: str, frame: Frame) -> pd.DataFrame:
    """A table for one data set of the comparison, with a row for each mechanism and ε. A row has means over replicates.
    It also has two upper bounds of the advantage, each the largest over replicates.
    """
    files = [PUBLISHED / "comparison" / name / file for file in ("rows.parquet", "models.parquet")]
    rows = pd.concat([pd.read_parquet(file) for file in files if file.is_file()])
    if frame.small:
        rows = rows[(rows[EPSILON] == 1.0) & (rows["replicate"] < 2)]
    runs = rows.reindex(columns=["scenario", *PARAMETERS]).drop_duplicates()
    lines = runs[[*PARAMETERS]].astype(object).where(runs[[*PARAMETERS]].notna(), None).to_dict("records")
    runs[[ADVANTAGE, ALONE]] = frame.each(advantage_of, [(line, classes_of(name)) for line in lines])
    return points(rows, ("mechanism", EPSILON)).join(runs.groupby("scenario")[[ADVANTAGE, ALONE]].max(), on="scenario")


def advantage_of(task: tuple[Line, int]) -> tuple[float, float]:
    """Two upper bounds of the advantage of one run. The advantage is what a release adds to the probability of guessing
    a user's label. All classes are equally likely to the observer beforehand.

    The second bound uses only the run's (ε, δ) at the learner. The first bound also uses `_advantage` for the smallest
    and the largest cluster; the larger of these two values counts. The first bound never exceeds the second.

    Args:
        task: the run's row as a dict with the columns `PARAMETERS`, and the number of classes.
    """
    row, classes = task
    stated = PrivacyBound(
        0.0, row["epsilon_upper"], row["delta"], observer="learner", adjacency="label", basis="stated"
    )
    alone = advantage(OnePoint(stated), np.full(classes, 1.0 / classes)).upper
    sizes = {row["min_cluster_size"], row["max_cluster_size"]}
    return min(alone, max(_advantage(row, classes, int(size or 0)) for size in sizes)), alone


def _advantage(row: Line, classes: int, size: int) -> float:
    """An upper bound of the advantage, explained at `advantage_of`, in one cluster. The bound comes from the
    mechanism's output distribution, or from its pure ε.

    row: a run as a dict with the columns `PARAMETERS`. size: number of users; 0 for a mechanism without clusters.
    """
    alpha, rate = row["flip_prob"], row["sampling_rate"]
    model: Accountant
    match row["mechanism_kind"]:
        case "randomized_response" | "rr_with_prior" | None:  # pure ε
            return local_advantage(1.0, row["epsilon_upper"], classes)
        case "vector_approximation":
            return vector_advantage(row["bit_flip_prob"], classes)
        case "alibi":
            return laplace_advantage(row["noise_scale"], classes)
        case "label_exchange":
            model = LabelExchange(size, alpha, rate) if classes == 2 else KaryExchange(size, alpha, rate, classes)
        case "shuffled_response":
            model = ShuffledResponse(size, alpha, classes)
        case "cluster_rr":
            chosen = row["resampling_prob"], row["noise_scale"], row["threshold"]
            model = ClusterResampling(size, classes, *chosen, row["bias_correction"] > 0.0, counted=False)
        case "dp_sgd":
            model = DpSgd(row["noise_multiplier"], rate, STEPS)
        case kind:
            raise ValueError(f"mechanism_kind = {kind}: its advantage is not known")
    return advantage(model, np.full(classes, 1.0 / classes)).upper


if __name__ == "__main__":
    command("advantage", main)
