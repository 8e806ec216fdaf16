"""The vector approximation paper's experiments: its synthetic study with Theorem 2, and its table on images.

Run with `python -m analysis.vector --data-dir DIR`; interrupted, it goes on where it stopped. The images need the
extra [deep], and CIFAR-10 a GPU as well.
"""

import importlib.util
import os
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import pandas as pd

from analysis.study import ROOT, Frame, command, curves
from p2p_sim import load_scenario
from p2p_sim.figures import Curve, Panel, plot_study
from p2p_sim.learning import CHECKPOINTS, KnnConfig, Received
from p2p_sim.measures import HIGH, LOW, mean_interval, theorem_2
from p2p_sim.mechanisms import NeighbourMeans
from p2p_sim.population import CircleConfig, Examples
from p2p_sim.replicate import Replicate, exchange

NAME = "vector"
SPREADS = {"narrow": "σ = 0.05", "scaled": "σ = 2/K"}
EPSILON, NEIGHBOURS, CLASSES = "mechanism.target_epsilon", "learner.neighbours", "population.num_classes"
IMAGES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar-10": "CIFAR-10"}
VECTOR, RESPONSE, TWO_STAGES, ALIBI = "vector approximation", "randomised response", "LP-2ST", "ALIBI"
PRINTED = {
    ("mnist", VECTOR): {0.5: 0.879, 1.0: 0.962, 2.0: 0.974},
    ("mnist", RESPONSE): {0.5: 0.749, 1.0: 0.953, 2.0: 0.977},
    ("mnist", TWO_STAGES): {0.5: 0.814, 1.0: 0.918, 2.0: 0.977},
    ("mnist", ALIBI): {0.5: 0.843, 1.0: 0.945, 2.0: 0.976},
    ("fashion-mnist", VECTOR): {0.5: 0.757, 1.0: 0.834},
    ("fashion-mnist", RESPONSE): {0.5: 0.596, 1.0: 0.746},
    ("fashion-mnist", TWO_STAGES): {0.5: 0.601, 1.0: 0.756},
    ("fashion-mnist", ALIBI): {0.5: 0.543, 1.0: 0.798},
    ("cifar-10", VECTOR): {1.0: 0.751, 2.0: 0.916, 3.0: 0.927, 4.0: 0.932},
    ("cifar-10", TWO_STAGES): {1.0: 0.637, 2.0: 0.861, 3.0: 0.922, 4.0: 0.934},
    ("cifar-10", ALIBI): {1.0: 0.710, 2.0: 0.842},
}
"""Accuracies that the paper's Tables 1 and 2 print, by data set, mechanism and ε; on CIFAR-10 without pre-training."""
REDUCED = ("population.users=2000", "population.holdout=1000", "replicates=2")
"""What a test changes."""


def main(frame: Frame) -> list[Path]:
    """Runs the vector approximation paper's experiments: synthetic data, and images if PyTorch and the data are here.

    Writes figures and tables, and returns the files.
    """
    tables = {name: frame.sweep(f"{NAME}/{name}.toml", REDUCED) for name in SPREADS}
    bounds = {name: _bounds(name, table, frame) for name, table in tables.items()}
    images = {} if frame.small or frame.data_dir is None else _images(frame)
    columns = ("mechanism", EPSILON, NEIGHBOURS, CLASSES, "epsilon_upper", "trust", "bayes_accuracy")
    # beside the accuracies, that of Bayes' rule, which no learner exceeds
    synthetic = {}
    for name, table in tables.items():
        spread = 0.05 if name == "narrow" else None
        laws = (CircleConfig(num_classes=k, spread=spread) for k in map(int, table[CLASSES]))
        synthetic[name] = table.assign(bayes_accuracy=[1.0 - law.bayes_error_rate() for law in laws])
    written = [
        frame.points(synthetic, columns, ("accuracy", "nonprivate_accuracy")),
        frame.table("theorem2.csv", pd.concat(bounds, names=["panel"]).reset_index(0)),
        _draw_synthetic(synthetic, frame.out / "synthetic.png"),
        _draw_bounds(bounds, frame.out / "theorem2.png"),
    ]
    return [*written, *(_write_images(images, frame) if images else ())]


class Means(NamedTuple):
    """Means over the users who are held out: of Δ(x), of the excess risk and of Theorem 2's bound."""

    error: float
    excess: float
    bound: float


def _draw_synthetic(tables: dict[str, pd.DataFrame], path: Path) -> Path:
    """A panel for each spread, number of neighbours and ε; accuracy against K."""
    panels = []
    for name, table in tables.items():
        for (neighbours, epsilon), part in table.groupby([NEIGHBOURS, EPSILON]):
            # what depends on no mechanism is drawn once, from the rows of one of them
            once = part[part["mechanism"] == VECTOR].sort_values(CLASSES)
            lines = [
                *curves(part, CLASSES, "accuracy", "mechanism"),
                Curve.of("without privacy", once, CLASSES, "nonprivate_accuracy"),
                Curve(
                    "Bayes' rule", once[CLASSES].tolist(), once["bayes_accuracy"].tolist(), dashed=True, marked=False
                ),
            ]
            title = f"{SPREADS[name]}, ε = {epsilon:g}, k = {neighbours}"
            panels.append(Panel("number of classes K", "accuracy", lines, log_x=False, log_y=False, title=title))
    count = int(min(table["replicates"].min() for table in tables.values()))
    note = (
        f"{count} trials a point, bands: 95% intervals. {int(table['num_users'].max()):,} users, k nearest neighbours "
        "as the learner, pure ε for a user's label against everybody; Bayes' rule exact."
    )
    plot_study(panels, path, "K Gaussians around a circle: the vector approximation paper's Figures 2 to 4", note)
    return path


def _bounds(name: str, table: pd.DataFrame, frame: Frame) -> pd.DataFrame:
    """Theorem 2's bound beside the excess risk of vector approximation at every point of a sweep.

    Means over the law are taken over the holdout's features, with the law's own p(y|x).
    """
    lines, narrow = [], {"population.spread": 0.05} if name == "narrow" else {}
    points = table.loc[table["mechanism"] == VECTOR, [EPSILON, NEIGHBOURS, CLASSES, "replicates"]].to_dict("records")
    tasks = [
        ({key: point[key] for key in (EPSILON, NEIGHBOURS, CLASSES)} | narrow, replicate)
        for point in points
        for replicate in range(int(point["replicates"]))
    ]
    each = iter(frame.each(partial(_measured, REDUCED if frame.small else ()), tasks))
    for line in points:
        values_of = np.transpose(list(islice(each, int(line["replicates"]))))
        for column, values in zip(Means._fields, values_of, strict=True):
            mean = mean_interval(values)
            line |= {column: mean.value, column + LOW: mean.low, column + HIGH: mean.high}
        lines.append(line)
    return pd.DataFrame(lines)


def _measured(reduced: tuple[str, ...], task: tuple[dict[str, float], int]) -> Means:
    """Means over one replicate of the shipped scenario with some keys changed; reduced: changes for a small study."""
    changes, replicate = task
    scenario = load_scenario(ROOT / "scenarios" / "vectors.toml", reduced).replace(**changes)
    run = exchange(Replicate(scenario, replicate))
    population, release = run.population, run.outcome.labels
    # what the scenario is about: points on a circle, of which some are held out, and nearest neighbours
    circle, learner = cast(CircleConfig, scenario.population), cast(KnnConfig, scenario.learner)
    points = cast(Examples, population.holdout).features.astype(np.float64)
    received = Received(population.features, release, population.num_classes, population.cluster_offsets)
    learned = NeighbourMeans(received.rows, received.weights.astype(np.float32), learner.neighbours).at(points)
    epsilon = run.mechanism.privacy(np.array([2]), 1e-6)[0].epsilon_upper
    at = theorem_2(learned, circle.label_distribution(points), epsilon)
    return Means(float(at.error.mean()), float(at.excess.mean()), float(at.bound.mean()))


def _draw_bounds(bounds: dict[str, pd.DataFrame], path: Path) -> Path:
    """A panel for each spread and number of neighbours: excess risk, and the bound dashed, for each ε."""
    panels = []
    for name, table in bounds.items():
        for neighbours, part in table.groupby(NEIGHBOURS):
            lines = []
            for epsilon, line in part.groupby(EPSILON):
                for column, text in (("excess", "excess risk"), ("bound", "Theorem 2's bound")):
                    lines.append(Curve.of(f"{text}, ε = {epsilon:g}", line, CLASSES, column, column == "bound"))
            title = f"{SPREADS[name]}, k = {neighbours}"
            panels.append(Panel("number of classes K", "excess risk", lines, log_x=False, title=title))
    note = "Vector approximation, k nearest neighbours; the bound takes the largest error of a learned bit as measured."
    plot_study(panels, path, "Theorem 2 of the vector approximation paper beside the excess risk", note, columns=2)
    return path


def _images(frame: Frame) -> dict[str, pd.DataFrame]:
    """The sweeps on images that can be run here: none without PyTorch, CIFAR-10 only with a GPU."""
    if importlib.util.find_spec("torch") is None:
        return {}
    import torch

    os.environ.setdefault(CHECKPOINTS, str(frame.work / "checkpoints"))
    here = [name for name in IMAGES if name != "cifar-10" or torch.cuda.is_available()]
    return {name: frame.sweep(f"{NAME}/{name}.toml") for name in here}


def _write_images(tables: dict[str, pd.DataFrame], frame: Frame) -> list[Path]:
    """Accuracies beside those printed, as a table and as a figure."""
    frame, panels = replace(frame, out=frame.out / "images"), []
    for name, table in tables.items():
        printed = [PRINTED.get((name, m), {}).get(e) for m, e in zip(table["mechanism"], table[EPSILON], strict=True)]
        tables[name] = table.assign(paper_accuracy=pd.array(printed, dtype="Float64"))
        lines = curves(table, EPSILON, "accuracy", "mechanism")
        # dashed, what the paper prints
        lines += [
            Curve(f"{mechanism}, as printed", list(points), list(points.values()), dashed=True)
            for (data, mechanism), points in PRINTED.items()
            if data == name
        ]
        panels.append(Panel("ε", "accuracy", lines, log_y=False, title=IMAGES[name]))
    columns = ("mechanism", EPSILON, "epsilon_upper", "trust", "paper_accuracy")
    written = frame.points(tables, columns, ("accuracy", "nonprivate_accuracy"))
    count = int(min(table["replicates"].min() for table in tables.values()))
    note = f"{count} trainings a point, of as many epochs for all mechanisms. Dashed: the paper's Tables 1 and 2."
    plot_study(panels, frame.out / "images.png", "Labels of images: the vector approximation paper's tables", note)
    return [written, frame.out / "images.png"]


if __name__ == "__main__":
    command(NAME, main)
