"""The experiments of the vector approximation paper: a synthetic study with Theorem 2's bound, and tables on images.

Run as `python -m analysis.vector --data-dir DIR`; a run that was stopped goes on where it stopped. The experiments on
images need the project's extra [deep]. Experiments on CIFAR-10 also need a GPU.
"""

import importlib.util
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import pandas as pd

from analysis.study import EPSILON, ROOT, Frame, command, curves, fewest, means
from p2p_sim import load_scenario
from p2p_sim.figures import Curve, Panel, plot_study
from p2p_sim.learning import CHECKPOINTS, KnnConfig, Received
from p2p_sim.measures import theorem_2
from p2p_sim.mechanisms import NeighbourMeans
from p2p_sim.population import CircleConfig, Examples
from p2p_sim.replicate import Replicate, exchange

NAME = "vector"
SPREADS = {"narrow": "σ = 0.05", "scaled": "σ = 2/K"}
"""The sweeps of the synthetic study. Each text gives the spread σ of the Gaussian law of each class; K is the number of
classes."""
NEIGHBOURS, CLASSES = "learner.neighbours", "population.num_classes"
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
"""Accuracies that Tables 1 and 2 of the vector approximation paper print, by data set, mechanism and ε. The accuracies
on CIFAR-10 are without pre-training."""
REDUCED = ("population.users=2000", "population.holdout=1000", "replicates=2")
"""What a test changes: fewer users, and two replicates."""


def main(frame: Frame) -> list[Path]:
    """Runs the experiments of the vector approximation paper, in which a user releases her label as K noisy bits, one
    for each class. On synthetic data it measures the accuracy against K, and the excess risk beside Theorem 2's upper
    bound of this risk. A study of full size with PyTorch and a folder of data also runs the experiments on images.
    Writes figures and tables, and returns their files.

    Args:
        frame: where the study runs and writes.
    """
    tables = {name: frame.swept(f"{NAME}/{name}.toml", REDUCED).points for name in SPREADS}
    bounds = {name: _bounds(name, table, frame) for name, table in tables.items()}
    images = {} if frame.small or frame.data_dir is None else _images(frame)
    columns = ("mechanism", EPSILON, NEIGHBOURS, CLASSES, "epsilon_upper", "trust", "bayes_accuracy")
    # the accuracy of Bayes' rule, which no learner exceeds
    synthetic = {}
    for name, table in tables.items():
        spread = 0.05 if name == "narrow" else None
        laws = (CircleConfig(num_classes=k, spread=spread) for k in map(int, table[CLASSES]))
        synthetic[name] = table.assign(bayes_accuracy=[1.0 - law.bayes_error_rate() for law in laws])
    written = [
        frame.points(synthetic, columns, ("accuracy", "nonprivate_accuracy")),
        frame.table("theorem2.csv", pd.concat(bounds, names=["panel"]).reset_index(0)),
        _draw_synthetic(synthetic, frame),
        _draw_bounds(bounds, frame),
    ]
    return [*written, *(_write_images(images, frame) if images else ())]


class Means(NamedTuple):
    """What one run of vector approximation gives: three means over held-out users.

    error: the largest error of an estimated probability that a noisy bit is 1. excess: the excess risk. bound: Theorem
    2's bound of the excess risk.
    """

    error: float
    excess: float
    bound: float


def _draw_synthetic(tables: dict[str, pd.DataFrame], frame: Frame) -> Path:
    """Draws accuracy against the number K of classes. Returns the figure's file. There is a curve for each mechanism,
    one without privacy, and one for Bayes' rule. There is a panel for each spread σ of the classes' Gaussian laws, for
    each number k of neighbours, and for each ε. The learner predicts by the votes of k neighbours.

    Args:
        tables: two tables, "narrow" (σ = 0.05) and "scaled" (σ = 2/K), with a row for each combination of swept values.
        A row has the mean accuracy with privacy, without privacy, and of Bayes' rule (bayes_accuracy). frame: writes
        the figure.
    """
    panels = []
    for name, table in tables.items():
        for (neighbours, epsilon), part in table.groupby([NEIGHBOURS, EPSILON]):
            # curves that do not depend on the mechanism are drawn once, from the rows of one mechanism
            once = part[part["mechanism"] == VECTOR].sort_values(CLASSES)
            lines = [
                *curves(part, CLASSES, "accuracy", "mechanism"),
                Curve.of("without privacy", once, CLASSES, "nonprivate_accuracy"),
                replace(Curve.of("Bayes' rule", once, CLASSES, "bayes_accuracy"), dashed=True, marked=False),
            ]
            title = f"{SPREADS[name]}, ε = {epsilon:g}, k = {neighbours}"
            panels.append(Panel("number of classes K", "accuracy", lines, log_x=False, log_y=False, title=title))
    note = (
        f"{fewest(tables)} trials a point, bands: 95% intervals. {int(table['num_users'].max()):,} users, "
        "k nearest neighbours as the learner, pure ε for a user's label against everybody; Bayes' rule exact."
    )
    return frame.figure(
        plot_study, panels, "synthetic.png",
        "K Gaussians around a circle: the vector approximation paper's Figures 2 to 4", note,
    )  # fmt: skip


def _bounds(name: str, table: pd.DataFrame, frame: Frame) -> pd.DataFrame:
    """Three means for vector approximation, in which a user's label becomes K noisy bits. The first is the largest
    error of an estimated probability that a noisy bit is 1. The others are the excess risk, and the bound of this risk
    from the vector approximation paper's Theorem 2. The means are over held-out users and replicates, with intervals.
    The table has a row for each combination of swept values.

    Args:
        name: the sweep's name, "narrow" or "scaled", which sets the spread of the law of each class. table: the sweep's
        results, with a row for each combination of swept values. frame: runs the replicates.
    """
    keys = [EPSILON, NEIGHBOURS, CLASSES]
    points = table[table["mechanism"] == VECTOR]
    changes, narrow = points[keys].to_dict("records"), {"population.spread": 0.05} if name == "narrow" else {}
    runs = [
        (point, replicate)
        for point, replicates in zip(changes, points["replicates"], strict=True)
        for replicate in range(int(replicates))
    ]
    measured = partial(_measured, REDUCED if frame.small else ())
    results = frame.each(measured, [(point | narrow, replicate) for point, replicate in runs])
    rows = pd.DataFrame(point | result._asdict() for (point, _), result in zip(runs, results, strict=True))
    return means(rows, keys, Means._fields)


def _measured(reduced: tuple[str, ...], task: tuple[dict[str, float], int]) -> Means:
    """Three means over held-out users, in one replicate of vector approximation, where a label becomes K noisy bits.

    The first is of the largest error of an estimated probability that a noisy bit is 1. The second is of the excess
    risk, and the third of Theorem 2's bound of this risk. True probabilities come from the known law p(y|x).

    Args:
        reduced: settings that make the scenario small, such as "population.users=2000"; empty for the full size. task:
        the values of scenario keys, such as ε, and the number of the replicate.
    """
    changes, replicate = task
    scenario = load_scenario(ROOT / "scenarios" / "vectors.toml", reduced).replace(**changes)
    run = exchange(Replicate(scenario, replicate))
    population, release = run.population, run.outcome.labels
    # the scenario's users are points on a circle, with held-out points; its learner is nearest neighbours
    circle, learner = cast(CircleConfig, scenario.population), cast(KnnConfig, scenario.learner)
    points = cast(Examples, population.holdout).features.astype(np.float64)
    received = Received(population.features, release, population.num_classes, population.cluster_offsets)
    learned = NeighbourMeans(received.rows, received.weights.astype(np.float32), learner.neighbours).at(points)
    epsilon = run.mechanism.privacy(np.array([2]), 1e-6)[0].epsilon_upper
    at = theorem_2(learned, circle.label_distribution(points), epsilon)
    return Means(float(at.error.mean()), float(at.excess.mean()), float(at.bound.mean()))


def _draw_bounds(bounds: dict[str, pd.DataFrame], frame: Frame) -> Path:
    """Draws two curves for each ε against the number K of classes. One is the excess risk of vector approximation. The
    other, dashed, is Theorem 2's upper bound of this risk. Returns the figure's file. There is a panel for each spread
    σ of the classes' Gaussian laws and for each number k of neighbours. The learner predicts by the labels of k
    neighbours.

    Args:
        bounds: two tables, for "narrow" and "scaled" spreads, with a row for each combination of ε, k and K. The
        columns are excess, bound, and the ends of their intervals. frame: writes the figure.
    """
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
    return frame.figure(
        plot_study, panels, "theorem2.png",
        "Theorem 2 of the vector approximation paper beside the excess risk", note, columns=2,
    )  # fmt: skip


def _images(frame: Frame) -> dict[str, pd.DataFrame]:
    """The results of the sweeps on images: for each data set a table with a row for each mechanism and ε. Without
    PyTorch there is no table. The table of CIFAR-10 also needs a GPU.
    """
    if importlib.util.find_spec("torch") is None:
        return {}
    import torch

    os.environ.setdefault(CHECKPOINTS, str(frame.work / "checkpoints"))
    names = [name for name in IMAGES if name != "cifar-10" or torch.cuda.is_available()]
    return {name: frame.swept(f"{NAME}/{name}.toml").points for name in names}


def _write_images(tables: dict[str, pd.DataFrame], frame: Frame) -> list[Path]:
    """Writes the accuracies measured on images as a table and as a figure against ε. Both also have the accuracies that
    the vector approximation paper's Tables 1 and 2 print. Returns both files.

    Args:
        tables: a table for each data set, with a row for each mechanism and ε. Each table gets the printed accuracies
        as its column paper_accuracy. frame: writes the files into its subfolder images.
    """
    frame, panels = replace(frame, out=frame.out / "images"), []
    for name, table in tables.items():
        printed = [PRINTED.get((name, m), {}).get(e) for m, e in zip(table["mechanism"], table[EPSILON], strict=True)]
        tables[name] = table.assign(paper_accuracy=pd.array(printed, dtype="Float64"))
        lines = curves(table, EPSILON, "accuracy", "mechanism")
        lines += [
            Curve(f"{mechanism}, as printed", list(points), list(points.values()), dashed=True)
            for (data, mechanism), points in PRINTED.items()
            if data == name
        ]
        panels.append(Panel("ε", "accuracy", lines, log_y=False, title=IMAGES[name]))
    columns = ("mechanism", EPSILON, "epsilon_upper", "trust", "paper_accuracy")
    note = (
        f"{fewest(tables)} trainings a point, of as many epochs for all mechanisms. Dashed: the paper's Tables 1 and 2."
    )
    title = "Labels of images: the vector approximation paper's tables"
    return [
        frame.points(tables, columns, ("accuracy", "nonprivate_accuracy")),
        frame.figure(plot_study, panels, "images.png", title, note),
    ]


if __name__ == "__main__":
    command(NAME, main)
