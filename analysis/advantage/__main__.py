"""Every mechanism's accuracy against what somebody learns of a label: the second version of the comparison's figure.

The runs are those of `analysis.comparison`, whose rows hold every parameter; the advantage follows from these alone.
Run as `python -m analysis.advantage`; a figure that is there already is not computed again.
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

NAME = "advantage"
ADVANTAGE, ALONE = "advantage", "advantage_of_statement"
STEPS = DpSgdConfig(target_epsilon=1.0).steps
PARAMETERS = (
    "mechanism", "mechanism_kind", "min_cluster_size", "max_cluster_size", "flip_prob", "sampling_rate", "noise_scale",
    "bit_flip_prob", "resampling_prob", "threshold", "bias_correction", "noise_multiplier", "epsilon_upper", "delta",
)  # fmt: skip
"""What the advantage of a row follows from."""
SMALL = ("synthetic", "adult")
"""Panels that a test looks at, at a single ε."""
MARKED = (0.1, 1.0, 4.0)
"""ε whose own advantage is marked."""

Line = dict[Hashable, Any]


def main(frame: Frame) -> list[Path]:
    """Computes how much more often labels are guessed right at each point; writes the figure and the table, returns the
    files.
    """
    tables = {name: _panel(name, frame) for name in (SMALL if frame.small else PANELS)}
    panels = []
    for name, table in tables.items():
        # advantages in percent; dotted, those of an ε alone with as many classes
        scaled = table.assign(**{ADVANTAGE: 100.0 * table[ADVANTAGE]})
        marks = [(100.0 * local_advantage(1.0, epsilon, classes_of(name)), f"ε = {epsilon:g}") for epsilon in MARKED]
        if lines := curves(scaled, ADVANTAGE, "relative_accuracy", "mechanism"):
            panels.append(
                Panel("more right guesses in 100 (advantage)", "accuracy relative to no privacy", lines, log_y=False,
                      title=PANELS[name], marks=marks)
            )  # fmt: skip
    columns = ("mechanism", EPSILON, "epsilon_upper", "delta", "trust", ADVANTAGE, ALONE)
    written = frame.points(tables, columns, MEASURES)
    note = (
        "Advantage: how many more labels in 100 somebody guesses right who sees what is released and knows all other "
        "labels, if all labels are equally likely to her; an upper bound, for the smallest and the largest cluster. "
        "Left is more private. Dotted: what pure ε alone allows. Bands: 95% intervals of the accuracy. The runs are "
        "those of the comparison at equal ε. In the exchange a peer, or someone on the wire, learns more."
    )
    figure = frame.out / "advantage.png"
    plot_by_trust(panels, TRUST, figure, "What each mechanism is worth, and what it tells of a label", note)
    return [figure, written]


def classes_of(panel: str) -> int:
    """K, the number of classes of a panel's data set."""
    return 2 if panel in TWO_CLASSES else 10


def _panel(name: str, frame: Frame) -> pd.DataFrame:
    """The points of a panel, from the published comparison, with the largest advantage over their replicates."""
    swept = pd.read_parquet(PUBLISHED / "comparison" / name / "rows.parquet")
    models = PUBLISHED / "comparison" / name / "models.parquet"
    rows = pd.concat([swept, pd.read_parquet(models)]) if models.is_file() else swept
    if frame.small:
        rows = rows[(rows[EPSILON] == 1.0) & (rows["replicate"] < 2)]
    table = points(rows, ("mechanism", EPSILON))
    runs = rows.reindex(columns=["scenario", *PARAMETERS]).drop_duplicates()
    lines = runs[[*PARAMETERS]].astype(object).where(runs[[*PARAMETERS]].notna(), None).to_dict("records")
    advantages = frame.each(advantage_of, [(line, classes_of(name)) for line in lines])
    runs[ADVANTAGE], runs[ALONE] = (list(column) for column in zip(*advantages, strict=True))
    worst = runs.groupby("scenario")[[ADVANTAGE, ALONE]].max()
    return table.join(worst, on="scenario")


def advantage_of(task: tuple[Line, int]) -> tuple[float, float]:
    """Upper bounds of the advantage behind a row if all K labels are equally likely: the mechanism's own, and what (ε,
    δ) alone would allow.
    """
    row, classes = task
    stated = PrivacyBound(
        0.0, row["epsilon_upper"], row["delta"], observer="learner", adjacency="label", basis="stated"
    )
    uniform = np.full(classes, 1.0 / classes)
    alone = advantage(OnePoint(stated), uniform).upper
    sizes = {row["min_cluster_size"], row["max_cluster_size"]}
    return min(alone, max(_advantage(row, classes, size) for size in sizes)), alone


def _advantage(row: Line, classes: int, size: int | None) -> float:
    """Upper bound of the advantage behind a row by the mechanism's own accountant; by pure ε where there is none."""
    kind, uniform = row["mechanism_kind"], np.full(classes, 1.0 / classes)
    if kind == "vector_approximation":
        return vector_advantage(row["bit_flip_prob"], classes)
    if kind == "alibi":
        return laplace_advantage(row["noise_scale"], classes)
    model = None if size is None else _accountant(row, classes, int(size))
    return local_advantage(1.0, row["epsilon_upper"], classes) if model is None else advantage(model, uniform).upper


def _accountant(row: Line, classes: int, size: int) -> Accountant | None:
    """The accountant of a mechanism; None if its figure is pure ε."""
    alpha, rate = row["flip_prob"], row["sampling_rate"]
    match row["mechanism_kind"]:
        case "label_exchange":
            return LabelExchange(size, alpha, rate) if classes == 2 else KaryExchange(size, alpha, rate, classes)
        case "shuffled_response":
            return ShuffledResponse(size, alpha, classes)
        case "cluster_rr":
            released = row["bias_correction"] > 0.0
            chosen = row["resampling_prob"], row["noise_scale"], row["threshold"]
            return ClusterResampling(size, classes, *chosen, released, counted=False)
        case "dp_sgd":
            return DpSgd(row["noise_multiplier"], rate, STEPS)
        case "randomized_response" | "rr_with_prior" | None:
            return None
    raise ValueError(f"mechanism_kind = {row['mechanism_kind']}: its advantage is not known")


if __name__ == "__main__":
    command(NAME, main)
