"""The study of docs/regression-labels.md: regression labels released by randomizers alone and through the exchange.

Run as `python -m analysis.regression`; it takes about ten CPU minutes and needs no data files.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.regression.methods import (
    BINS,
    DEBIASED,
    EXCHANGED,
    GRID,
    KNOWING,
    METHODS,
    PAID,
    UNBIASED,
    Diabetes,
    LabelLaw,
    learned,
    release,
    risk,
    without_privacy,
)
from analysis.study import Frame, command, curves, means
from p2p_sim.base import Streams
from p2p_sim.figures import Panel, plot_study
from p2p_sim.measures import mean_interval
from p2p_sim.privacy import Floats
from p2p_sim.privacy.rivals import best_bins, best_unbiased, two_output_law

NAME, SEED = "regression", 11
EPSILONS: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
LOSSES = (*EPSILONS, 8.0)
HETEROGENEITY = 0.1
SPREADS: tuple[float, ...] = (0.0, 0.05, 0.15, 0.2)
ON_LAW, ON_SPREAD, ON_DIABETES = "law", "heterogeneity", "diabetes"
DELTA = {ON_LAW: 1e-6, ON_SPREAD: 1e-6, ON_DIABETES: 1e-4}
NONPRIVATE, CONSTANT = "no privacy", "mean of all labels"
PAIRS = (
    (EXCHANGED + DEBIASED, DEBIASED),
    (EXCHANGED + UNBIASED, UNBIASED),
    (EXCHANGED + DEBIASED + KNOWING, DEBIASED),
    (EXCHANGED + UNBIASED + KNOWING, UNBIASED),
    (EXCHANGED + DEBIASED + KNOWING, EXCHANGED + DEBIASED),
    (EXCHANGED + UNBIASED + KNOWING, EXCHANGED + UNBIASED),
    (EXCHANGED + DEBIASED + KNOWING, EXCHANGED + UNBIASED + KNOWING),
    (UNBIASED, BINS),
    (UNBIASED, DEBIASED),
    (BINS + PAID, BINS),
    (UNBIASED + PAID, UNBIASED),
)
"""Pairs of methods whose differences are reported: the first minus the second, in each replicate."""


@dataclass(frozen=True)
class RegressionTask:
    """All replicates of one point of the study. A point is a panel, the learner's ε, and the heterogeneity h."""

    panel: str
    epsilon: float
    heterogeneity: float
    replicates: int
    methods: tuple[str, ...] = METHODS

    @property
    def law(self) -> LabelLaw | None:
        """The law of users' features and labels; None for the diabetes data set. The heterogeneity h is the standard
        deviation of the mean label within a cluster.
        """
        return None if self.panel == ON_DIABETES else LabelLaw(self.heterogeneity)


def main(frame: Frame, replicates: int = 20) -> list[Path]:
    """Compares mechanisms for labels that are numbers. Writes losses, means, paired differences and a figure, and
    returns their files.
    """
    methods, epsilons, spreads, loss_epsilons = METHODS, EPSILONS, SPREADS, LOSSES
    if frame.small:
        methods = (DEBIASED, UNBIASED, EXCHANGED + DEBIASED, EXCHANGED + DEBIASED + KNOWING)
        replicates, epsilons, spreads, loss_epsilons = 2, (1.0, 4.0), (0.0,), LOSSES[:2]
    tasks = [RegressionTask(ON_LAW, epsilon, HETEROGENEITY, replicates, methods) for epsilon in epsilons]
    tasks += [RegressionTask(ON_SPREAD, 1.0, h, replicates, methods) for h in spreads]
    tasks += [RegressionTask(ON_DIABETES, epsilon, math.nan, replicates, methods) for epsilon in epsilons]
    rows = pd.DataFrame(itertools.chain(*frame.each(point_rows, tasks)))
    rows = rows.iloc[np.argsort(rows["method"] == CONSTANT, kind="stable")]  # the rows of this method come last
    # the point with ε = 1 on the law belongs to two panels: `ON_LAW` and `ON_SPREAD`
    shared = rows[(rows["panel"] == ON_LAW) & (rows["epsilon"] == 1.0)]
    rows = pd.concat([rows, shared.assign(panel=ON_SPREAD)], ignore_index=True)
    frame.rows(rows, name=NAME, seed=SEED, replicates=replicates)
    worst = ("epsilon_upper", "epsilon_local", "label_variance", "floor")
    table = means(rows, ("panel", "method", "epsilon", "heterogeneity"), "value", worst)
    losses = itertools.chain(*itertools.starmap(_losses, itertools.product(PRIORS, loss_epsilons)))
    return [
        frame.table("losses.csv", losses),
        frame.table("table.csv", table),
        frame.table("differences.csv", paired(rows)),
        _drawn(table, replicates, frame),
    ]


def point_rows(task: RegressionTask) -> list[dict[str, object]]:
    """The rows of one point. Each replicate has a row for each method. It also has a row for ridge regression without
    privacy, and a row for predicting always the mean of all true labels.
    """
    rows, law = list[dict[str, object]](), task.law
    for replicate in range(task.replicates):
        streams = Streams(SEED, replicate)
        people = (law or Diabetes()).draw(streams)
        point = {"panel": task.panel, "epsilon": task.epsilon, "heterogeneity": task.heterogeneity,
                 "replicate": replicate}  # fmt: skip
        common = point | {"label_variance": people.label_variance}
        # excess risk where the law is known, else the root of the mean squared test error
        form = math.sqrt if law is None else float
        rows.append(common | {"method": NONPRIVATE, "value": form(risk(without_privacy(people), people))})
        mean = people.values[people.population.labels].mean()
        rows.append(point | {"method": CONSTANT, "value": form(np.mean((mean - people.target) ** 2))})
        floor = None if law is None else floor_of(law)
        for method in task.methods:
            released = release(method, people, task.epsilon, DELTA[task.panel], streams)
            has_floor = method in (EXCHANGED + DEBIASED, EXCHANGED + UNBIASED)
            rows.append(common | {
                "method": method, "value": form(risk(learned(method, people, released), people)),
                "floor": floor if has_floor else None, "epsilon_upper": released.epsilon,
                "epsilon_local": released.epsilon_local,
            })  # fmt: skip
    return rows


def floor_of(law: LabelLaw) -> float:
    """The excess risk that remains with many users and without noise, if the exchange replaces each label by a random
    label of the cluster. Exchanged labels have the cluster's mean. So a linear regression learns the mean label of each
    cluster, not of each feature vector. The floor is the mean squared distance of this regression from the true mean
    labels.

    Args:
        law: has the feature vectors, four for each cluster, and the mean label at each of these vectors.
    """
    points, mean = law.points, law.mean
    of_cluster = np.repeat(mean.reshape(-1, 4).mean(axis=1), 4)
    X = np.column_stack([np.ones(len(points)), points])
    return float(np.mean((X @ np.linalg.lstsq(X, of_cluster, rcond=None)[0] - mean) ** 2))


def paired(rows: pd.DataFrame) -> list[dict[str, object]]:
    """Mean differences between pairs of methods at every point of the study, each with its 95% interval. Differences
    (first loss minus second) are taken within replicates. A pair is left out if one of its methods was not run.

    Args:
        rows: a row for each point (columns panel, epsilon and heterogeneity), method and replicate. The column value
        holds the loss.
    """
    lines: list[dict[str, object]] = []
    for (panel, epsilon, h), part in rows.groupby(["panel", "epsilon", "heterogeneity"], dropna=False):
        wide = part.pivot(index="replicate", columns="method", values="value")
        for first, second in PAIRS:
            if {first, second} <= set(wide):
                gap = mean_interval(wide[first] - wide[second])
                lines.append({
                    "panel": panel, "epsilon": epsilon, "heterogeneity": h, "first": first, "second": second,
                    "difference": gap.value, "low": gap.low, "high": gap.high, "replicates": gap.replicates,
                })  # fmt: skip
    return lines


PRIORS: dict[str, Callable[[Floats], Floats]] = {
    "uniform": np.ones_like,
    "peaked": lambda values: np.exp(-(((values - 0.5) / 0.15) ** 2)),
    "skewed": lambda values: 0.1 ** (2.0 * values),
}
"""Laws of a label's value, by name: functions from values to probabilities, up to a factor."""


def _losses(prior: str, epsilon: float) -> list[dict[str, object]]:
    """A row for each of five randomizers, and for no release. A row has the exact expected squared error of the
    released value of a label. The values of labels lie on a grid of 17 numbers in [0, 1]. prior: the law of the value:
    "uniform", "peaked" or "skewed".
    """
    values = np.linspace(0.0, 1.0, GRID)
    mass = PRIORS[prior](values)
    mass /= mass.sum()
    bins, unbiased = best_bins(values, mass, epsilon), best_unbiased(values, mass, epsilon)
    outputs, law = two_output_law(values, epsilon)
    # k-ary response: the true label is e^ε times as likely as each other label
    ratio = math.exp(-epsilon)
    keep, rest = 1.0 / (1.0 + (GRID - 1) * ratio), ratio / (1.0 + (GRID - 1) * ratio)
    undone = (values - rest * values.sum()) / (keep - rest)  # a k-ary label's unbiased value
    table = np.full((GRID, GRID), rest) + (keep - rest) * np.eye(GRID)
    error = {
        BINS: bins.expected_loss,
        "unbiased": unbiased.expected_loss,
        "two outputs, unbiased": float(mass @ (law * (outputs - values[:, None]) ** 2).sum(axis=1)),
        "Laplace noise": 2.0 / epsilon**2,
        "k-ary response, debiased": float(mass @ (table * (undone - values[:, None]) ** 2).sum(axis=1)),
        "nothing said": float(mass @ (values - mass @ values) ** 2),
    }
    return [
        {"prior": prior, "epsilon": epsilon, "randomizer": name, "error": value, "bins": len(bins),
         "outputs": len(unbiased.outputs)} for name, value in error.items()
    ]  # fmt: skip


def _drawn(table: pd.DataFrame, replicates: int, frame: Frame) -> Path:
    """Draws the means of the study's table against ε or heterogeneity, with a panel for each part of the study.

    replicates: number of replicates behind each mean.
    """
    # only these methods are drawn: more lines could not be told apart; the tables have all methods
    drawn = [NONPRIVATE, BINS, DEBIASED, UNBIASED, EXCHANGED + DEBIASED]
    drawn += [EXCHANGED + DEBIASED + KNOWING, EXCHANGED + UNBIASED + KNOWING]
    table = table[table["method"].isin(drawn)]
    panels = []
    for name, x, x_label, y_label, title in (
        (ON_LAW, "epsilon", "ε of the learner", "excess risk", f"known law, h = {HETEROGENEITY:g}"),
        (ON_SPREAD, "heterogeneity", "h: deviation of mean labels in a cluster", "excess risk", "known law, ε = 1"),
        (ON_DIABETES, "epsilon", "ε of the learner", "root mean squared test error", "diabetes"),
    ):
        lines = curves(table[table["panel"] == name], x, "value", "method", (NONPRIVATE,))
        log_x, log_y = name != ON_SPREAD, name != ON_DIABETES
        panels.append(Panel(x_label, y_label, lines, log_x=log_x, log_y=log_y, title=title))
    note = f"Means of {replicates} replicates with 95% intervals. δ = 1e-6 on the law, 1e-4 on diabetes."
    return frame.figure(plot_study, panels, "regression.png", "Regression labels", note)


if __name__ == "__main__":
    command(NAME, main)
