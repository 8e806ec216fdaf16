"""How fast the errors of private rules fall as the number n of points grows. The rules are consistent for every law.

Run as `python -m analysis.consistency`. The law (distribution of the points), n and the replicate determine each random
stream. So another run gives the same rows.
"""

import math
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple, cast

import pandas as pd
from scipy.special import ndtr
from scipy.stats import binom

from analysis.study import Frame, command, curves, means
from p2p_sim.base import Streams
from p2p_sim.figures import Panel, plot_study
from p2p_sim.histograms import (
    PCDE,
    PCL,
    Cubes,
    HalfSpaceNet,
    HistogramClassifier,
    HistogramDensity,
    SemiSupervised,
    even_side,
)
from p2p_sim.learning import ExchangeHistogram
from p2p_sim.measures import LINE_LAWS, Harmonic, ProductLaw, Sine, box_centres, half_l1
from p2p_sim.privacy import LabelExchange, calibrate_flip_prob, epsilons

NAME, EPSILON, SEED = "consistency", 1.0, 2022
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
REPLICATES, FEWER = 60, 20
"""Number of replicates for each law and n: `REPLICATES` up to n = 100,000, `FEWER` for larger n."""
CLASSIFIERS: dict[str, ProductLaw] = {
    "smooth, d = 1": ProductLaw(Sine(2), 1),
    "oscillating, d = 1": ProductLaw(Sine(32), 1),
    "hard, d = 1": ProductLaw(Harmonic(), 1),
    "smooth, d = 2": ProductLaw(Sine(1), 2),
    "oscillating, d = 2": ProductLaw(Sine(8), 2),
    "hard, d = 2": ProductLaw(Harmonic(), 2),
}
DENSITIES = {"normal": LINE_LAWS["normal"], "Cauchy": LINE_LAWS["cauchy"], "spikes": LINE_LAWS["spikes"]}
NONPRIVATE, EXCHANGE = "histogram, not private", "label exchange in cells, (1, n^-2)"
VOTES = "PCL, (1, 0)"
DENSITY, RAW = "PCDE, (1, n^-2), normalised", "PCDE, (1, n^-2), divided by n"
THRESHOLD, LABELLED, UNLABELLED = "semi-supervised, (1, n^-2)", 400, 100_000
"""The name of the rule that learns a threshold, and its numbers of points with and without labels."""


@dataclass(frozen=True)
class Measurement:
    """The error of one rule in one replicate, on one law at one n.

    Attributes:
        method: name of the rule. value: excess error, half-L1 distance, or error of a threshold, according to `study`.
        epsilon_upper, delta: ε and δ for one example, or for one label if the rule is the exchange.
        flip_prob: α of the exchange; NaN for other rules. smallest_cell: number of users in the exchange's smallest
        cell; 0 for other rules.
    """

    study: str
    law: str
    n: int
    replicate: int
    method: str
    value: float
    epsilon_upper: float
    delta: float
    flip_prob: float = math.nan
    smallest_cell: int = 0


class Classified(NamedTuple):
    """Measurements of the histogram rules in one replicate, and the sizes of the exchange's clusters, ascending."""

    rows: list[Measurement]
    sizes: list[int]


def main(frame: Frame, sizes: tuple[int, ...] = SIZES, replicates: int | None = None) -> list[Path]:
    """Measures how fast the errors of private rules fall with the number n of points, on known distributions. Three
    rules are histogram classifiers: PCL, the label exchange within cells, and a histogram without privacy. Densities
    are estimated by the histogram PCDE, and by a histogram without privacy. One more rule learns a threshold. Returns
    the files of two figures and a table.

    Args:
        frame: runs the study and writes its files. sizes: values of n. replicates: number of replicates for each law
        and n; None: as published.
    """
    tasks = [
        (study, law, n, replicates or (REPLICATES if n <= 100_000 else FEWER))
        for n in sorted(sizes, reverse=True)  # the longest tasks first
        for study, laws in (("excess error", CLASSIFIERS), ("half-L1", DENSITIES))
        for law in laws
    ]
    tasks.append(("threshold", "N(0, 1)", UNLABELLED, replicates or REPLICATES))
    rows = pd.DataFrame(asdict(measurement) for part in frame.each(_measure, tasks) for measurement in part)
    rows = rows.sort_values(["study", "law", "n", "replicate", "method"])
    laws = {name: repr(law) for name, law in CLASSIFIERS.items()}
    frame.rows(rows, name=NAME, seed=SEED, epsilon=EPSILON, sizes=list(sizes), rows=len(rows), laws=laws)
    points = means(rows, ("study", "law", "n", "method"), "value", ("epsilon_upper", "delta", "flip_prob"))
    return [*_figures(points, frame), frame.table("table.csv", points)]


def _measure(task: tuple[str, str, int, int]) -> list[Measurement]:
    """All measurements of one task: one for each rule and replicate, with the rule's error, ε and δ.

    Args:
        task: the study, the name of the law, the number n of points, and the number of replicates. The study is "excess
        error" (of classifiers), "half-L1" (distance of estimated densities from the true one) or "threshold".
    """
    study, law, n, replicates = task
    if study == "threshold":
        return [_threshold_row(n, replicate) for replicate in range(replicates)]
    if study == "half-L1":
        return [row for replicate in range(replicates) for row in _density_rows(law, n, replicate)]
    return _classifier_rows(law, n, replicates)


def _classifier_rows(law: str, n: int, replicates: int) -> list[Measurement]:
    """The excess errors of three histogram classifiers on n points of one law, a row for each classifier and replicate.
    The classifiers are a histogram without privacy, the private rule PCL, and the label exchange within cells. The
    exchange's ε is the largest over all clusters of all replicates. law: name of the law of points and labels.
    """
    # α is chosen for clusters of `smallest` users; a cell has fewer users with probability at most 1e-7
    dimension = CLASSIFIERS[law].dimension
    smallest = max(2, int(binom.ppf(1e-7, n, even_side(n, dimension) ** dimension)))
    flip_prob = calibrate_flip_prob([smallest], 2, 1.0, EPSILON, n**-2.0)
    runs = [_classified(law, n, replicate, flip_prob) for replicate in range(replicates)]
    # the exchange's ε is the largest over all clusters of all replicates
    exchanges = [LabelExchange(size, flip_prob, 1.0) for size in sorted({size for run in runs for size in run.sizes})]
    epsilon = max(bound.epsilon_upper for bound in epsilons(exchanges, n**-2.0))
    return [replace(row, epsilon_upper=epsilon) if row.method == EXCHANGE else row for run in runs for row in run.rows]


def _classified(name: str, n: int, replicate: int, flip_prob: float) -> Classified:
    """The excess errors of the three histogram classifiers in one replicate, and the cluster sizes of the exchange. The
    row of the exchange has ε = ∞ here; the caller fills in the true ε. name: name of the law of points and labels.
    """
    law, streams = CLASSIFIERS[name], Streams(SEED, replicate)
    points, labels = law.draw(n, streams.generator(f"{name} {n}"))
    seed = streams.integer_seed(f"noise {name} {n}")
    exchange = ExchangeHistogram(None, flip_prob, random_state=seed)
    side = even_side(n, law.dimension)
    models = {NONPRIVATE: HistogramClassifier(side), VOTES: PCL(EPSILON, side, seed), EXCHANGE: exchange}
    rows = []
    for method, model in models.items():
        # the rule is constant on cells: its excess error under the law is an exact sum over cells
        edges = cast(Cubes, model.fit(points, labels).partition_).edges()
        value = law.excess_error(edges, model.predict(box_centres(edges, law.dimension)))
        rows.append(Measurement(
            "excess error", name, n, replicate, method=method, value=value,
            epsilon_upper=EPSILON if method == VOTES else math.inf, delta=0.0,
        ))  # fmt: skip
    sizes = exchange.sizes_.tolist()
    rows[-1] = replace(rows[-1], delta=n**-2.0, flip_prob=flip_prob, smallest_cell=sizes[0])
    return Classified(rows, sizes)


def _density_rows(name: str, n: int, replicate: int) -> Iterable[Measurement]:
    """Yields the half-L1 distances of three density estimates from the true law, in one replicate. One estimate is a
    histogram without privacy. The other two are the private estimate PCDE: with counts divided by the noisy total, and
    with counts divided by n. name: name of the law of the points.
    """
    law, streams = DENSITIES[name], Streams(SEED, replicate)
    points = law.draw(n, streams.generator(f"{name} {n}"))
    seed = streams.integer_seed(f"noise {name} {n}")
    models = {
        NONPRIVATE: HistogramDensity(),
        DENSITY: PCDE(EPSILON, random_state=seed),
        RAW: PCDE(EPSILON, normalise=False, random_state=seed),
    }
    for method, model in models.items():
        with warnings.catch_warnings(action="ignore"):  # at small n, possibly no cell passes the threshold
            model.fit(points)
        value = half_l1(law, model.coordinates_.ravel(), model.cubes_.side, model.heights_)
        epsilon, delta = (math.inf, 0.0) if method == NONPRIVATE else (EPSILON, n**-2.0)
        yield Measurement("half-L1", name, n, replicate, method=method, value=value, epsilon_upper=epsilon, delta=delta)


def _threshold_row(n: int, replicate: int) -> Measurement:
    """The error of a private rule that learns a threshold on the line from 400 labelled points and n points without
    labels. A point x has the law N(0, 1), and its label is 1 if x >= 0. The error is the probability, under this law,
    that the rule is wrong. The rule has ε = 1 and δ = n⁻².
    """
    streams = Streams(SEED, replicate)
    rng = streams.generator(f"threshold {n}")
    points = rng.standard_normal((LABELLED, 1))
    learner = SemiSupervised(epsilon=EPSILON, random_state=streams.integer_seed(f"noise threshold {n}"))
    learner.fit(points, points[:, 0] >= 0.0, rng.standard_normal((n, 1)))
    # the learned rule is wrong between 0 and the learned threshold; its error is the probability of this interval
    error = abs(float(ndtr(cast(HalfSpaceNet, learner.net_).cuts[learner.chosen_, 0])) - 0.5)
    bound = learner.privacy()
    return Measurement(
        "threshold", "N(0, 1)", n, replicate, method=THRESHOLD, value=error,
        epsilon_upper=bound.epsilon_upper, delta=bound.delta,
    )  # fmt: skip


def _figures(points: pd.DataFrame, frame: Frame) -> list[Path]:
    """Draws two figures with a panel for each law, and returns both files. One figure shows the excess error of the
    classifiers. The other figure shows the half-L1 distance of the density estimates from the true density. Each panel
    has n on the horizontal axis, and a curve for each rule.

    Args:
        points: a row for each study, law, n and rule (column method). A row has the mean value, its 95% interval, and
        the number of replicates. frame: writes the figures.
    """
    # the note of both figures; a small run has fewer replicates
    count = f"{REPLICATES} replicates a point ({FEWER} above n = 100,000), bands: 95% t-intervals. "
    if points["replicates"].max() < REPLICATES:
        count = f"At most {points['replicates'].max()} replicates a point, bands: 95% t-intervals. "
    # one figure for the classifiers, one for the densities
    paths = []
    for study, laws, title, note in (
        ("excess error", CLASSIFIERS, "Excess error of private histogram rules",
         "PCL protects an example, the exchange a label."),
        ("half-L1", DENSITIES, "Half-L1 distance of private density estimates",
         "δ = n^-2. Without normalising, the estimate does not integrate to 1."),
    ):  # fmt: skip
        parts = {law: points[(points["study"] == study) & (points["law"] == law)] for law in laws}
        panels = [
            Panel("n", study, curves(part, "n", "value", "method", (NONPRIVATE,)), title=law)
            for law, part in parts.items()
        ]
        paths.append(frame.figure(plot_study, panels, f"{study.replace(' ', '-').lower()}.png", title, count + note))
    return paths


if __name__ == "__main__":
    command(NAME, main)
