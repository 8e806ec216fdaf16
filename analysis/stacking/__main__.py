"""Figures 1 to 4 and Table 2 of the stacking paper (Yao et al. 2019). Each method has the ε that it really has.

Run as `python -m analysis.stacking --data-dir DIR`. The penalty λ of each method is chosen on public rows, or on
simulated organisations, never on rows that are scored. In a replicate (one random repetition), all methods have the
same split of the rows. A method has the same noise at every ε, except for its scale. So differences are taken within a
replicate.
"""

import platform
from functools import partial
from importlib.metadata import version
from itertools import chain, product
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.stacking.estimators import (
    METHODS,
    OVERSPENT,
    TRANSFER,
    BenchmarkPoint,
    benchmark_row,
    combiner_rows,
    transfer_rows,
)
from analysis.stacking.organisation_data import (
    TRAIN,
    Benchmark,
    Branches,
    OrganisationsData,
    branches,
    heart,
    mnist,
    news20,
    stand_in,
)
from analysis.study import Frame, command, curves, means
from p2p_sim.base import InputError, Streams
from p2p_sim.figures import COLOURS, MARKERS, Panel, drawing, legend_below, plot_study
from p2p_sim.measures import mean_interval

NAME = "stacking"
SEED = 1
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
COUNTS = (1, 2, 3, 5, 10, 20)
SKEWS = (0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25)
PENALTIES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)
TUNING = 8
"""Replicates for each λ when λ is chosen."""
TUNED_TARGETS = 5
"""Number of targets (organisations that learn) in the choice of λ on simulated organisations."""
DRAWN = tuple(method for method in TRANSFER if method != "PLR-HTL")
"""The methods in the figure on transfer between organisations; the tables have all methods."""
TITLES = {"branches": "a simulated main hospital and its branches", "heart": "UCI Heart, from Cleveland"}
KEYS = ["study", "data", "organisation", "method", "combiner", "epsilon", "groups", "skew"]
Line = dict[str, object]


def main(frame: Frame, replicates: int = 30) -> list[Path]:
    """Runs the stacking paper's methods on its data. The methods combine private logistic regressions: of groups of
    features (PST-F), of parts of the rows (PST-S), or of other organisations (PST-H). Single private logistic
    regressions (PLR) are run, too. Writes rows, manifest, tables and figures; returns the figures' files.

    Args:
        frame: where the study runs and writes. A reduced study (`frame.small`) takes simulated data and needs no data
        files. replicates: how often a benchmark's rows are split, and how often the organisations' rows are drawn.

    Raises:
        InputError: no directory of data files is named.
    """
    # `trials`: for each of `groups`, the simulated organisations on which λ is chosen
    groups: list[OrganisationsData]
    if frame.small:
        few = (400, 150, 150)
        benchmarks, groups, trials = [stand_in()], [branches(0, few, 2)], [branches(1, few, 2)]
    elif frame.data_dir is None:
        raise InputError("name the directory of the data sets with --data-dir or P2P_SIM_DATA")
    else:
        hospitals = heart(frame.data_dir)
        sizes = tuple(len(labels) for _, labels in hospitals.data)
        benchmarks, groups = [mnist(frame.data_dir), news20(frame.data_dir)], [branches(0), hospitals]
        trials = [branches(1), Branches("heart", hospitals.groups, hospitals.importance, sizes, 1)]
    parts: list[list[Line]] = []
    chosen: dict[str, dict[str, dict[str, float]]] = {}  # λ by data, ε and method
    # first choose λ, on rows that are not scored; then run the replicates
    for benchmark in benchmarks:
        chosen[benchmark.name] = _tune(frame, benchmark)
        parts += frame.each(partial(_benchmark_replicate, benchmark, chosen[benchmark.name]), range(replicates))
    for organisations, trial in zip(groups, trials, strict=True):
        # the λ with the largest mean AUC on simulated organisations, for the first few targets
        tried = [dict.fromkeys(TRANSFER, l2) for l2 in PENALTIES]
        tuned = frame.each(partial(_transfer, trial, SEED + 1, TUNED_TARGETS), product(tried, range(TUNING)))
        reached = pd.DataFrame(chain.from_iterable(tuned)).groupby(["method", "l2"])["auc"].mean()
        best = {str(method): float(l2) for method, l2 in reached.unstack().idxmax(axis=1).items()}
        chosen[organisations.name] = {"1": best}
        parts += frame.each(partial(_transfer, organisations, SEED, None), product([best], range(replicates)))
    table = pd.DataFrame(chain.from_iterable(parts))
    libraries = ("numpy", "scipy", "scikit-learn", "pandas")
    frame.rows(
        table, study=NAME, seed=SEED, replicates=replicates, epsilons=EPSILONS, group_counts=COUNTS, skews=SKEWS,
        penalties=PENALTIES, chosen_l2=chosen,
        versions={"python": platform.python_version(), **{name: version(name) for name in libraries}},
    )  # fmt: skip
    points = means(table, KEYS, "auc", ("epsilon_upper",))
    frame.table("table.csv", points, "%.4f")
    frame.table("differences.csv", paired(table), "%.4f")
    return [_draw_benchmarks(points, frame, replicates), _draw_transfer(points, frame.out, replicates)]


def _tune(frame: Frame, data: Benchmark) -> dict[str, dict[str, float]]:
    """For each ε and method, the penalty λ with the largest mean AUC on public rows. λ multiplies the squared weights
    in logistic regression. The result maps ε as a text, such as "0.5", to a dict from the method's name to λ.

    The methods usually learn from 3,000 rows. If fewer public rows can be learned from, ε is enlarged: ε times the
    number of rows stays equal.
    """
    enlarged = TRAIN / min(TRAIN, 2 * len(data.public[1]) // 3)
    points = [(method, epsilon, l2) for epsilon in EPSILONS for method in METHODS for l2 in PENALTIES]
    aucs = dict(zip(points, frame.each(partial(_tuning_auc, data, enlarged), points), strict=True))
    return {
        f"{epsilon:g}": {method: max(PENALTIES, key=lambda l2: aucs[method, epsilon, l2]) for method in METHODS}
        for epsilon in EPSILONS
    }


def _tuning_auc(data: Benchmark, enlarged: float, point: tuple[str, float, float]) -> float:
    """The mean AUC of a method over 8 replicates. In each replicate it learns from public rows and is tested on public
    rows.

    Args:
        data: has the public rows. enlarged: factor of ε that makes up for having fewer public than private rows. point:
        the method, the ε that the study uses, and the penalty λ.
    """
    method, epsilon, l2 = point
    total = 0.0
    for replicate in range(TUNING):
        streams = Streams(SEED + 1, replicate)
        split = data.draw(streams, public=True)
        total += benchmark_row(method, data, split, BenchmarkPoint(epsilon * enlarged, l2), streams)["auc"]
    return total / TUNING


def _benchmark_replicate(data: Benchmark, chosen: dict[str, dict[str, float]], replicate: int) -> list[Line]:
    """All results on one benchmark for one split of its rows into training and test rows (Figures 1 to 4 of the
    stacking paper). The methods are run at several ε and without privacy. At ε = 1 the number of groups, the inequality
    of their importance, and the combiner of models also vary.

    Args:
        data: the benchmark. chosen: the penalties λ, by ε as a text, such as "0.5", and then by the method's name.
        replicate: index.
    """
    streams = Streams(SEED, replicate)
    split = data.draw(streams)
    rows: list[Line] = []

    def add(study: str, method: str, point: BenchmarkPoint, figures: dict[str, object] | dict[str, float]) -> None:
        line = {"study": study, "data": data.name, "method": method, "epsilon": point.epsilon, "groups": point.count}
        rows.append({**line, "skew": point.skew, "l2": point.l2, "replicate": replicate, **figures})

    def run(study: str, method: str, point: BenchmarkPoint) -> None:
        add(study, method, point, benchmark_row(method, data, split, point, streams))

    at_one = chosen["1"]  # λ of each method at ε = 1
    # Figure 1: against ε, and without privacy
    for epsilon, method in product(EPSILONS, METHODS):
        run("epsilon", method, BenchmarkPoint(epsilon, chosen[f"{epsilon:g}"][method]))
    for method in METHODS:
        if method != OVERSPENT:
            run("no privacy", method, BenchmarkPoint(float("inf"), PENALTIES[0]))
    # Figure 2: against the number of groups; Figure 3: against how unequal their importance is
    for count, method in product(COUNTS, ("PST-F(U)", "PST-F(W)", "PLR(W)")):
        run("groups", method, BenchmarkPoint(1.0, at_one[method], count))
    for skew, method in product(SKEWS, ("PST-F(W)", "PLR(W)")):
        run("importance", method, BenchmarkPoint(1.0, at_one[method], skew=skew))
    # Figure 4: combiners of the same models
    for method in ("PST-F(U)", "PST-F(W)"):
        point = BenchmarkPoint(1.0, at_one[method])
        for figures in combiner_rows("(W)" in method, data, split, point, streams):
            add("combiner", method, point, figures)
    return rows


def _transfer(
    organisations: OrganisationsData, seed: int, only: int | None, task: tuple[dict[str, float], int]
) -> list[Line]:
    """The results of transfer between organisations at ε = 1 (Table 2 of the stacking paper), for one draw of their
    rows. A source is an organisation that releases models; other organisations, the targets, learn from these models.
    Each method has a result for each target.

    Args:
        organisations: draws the rows. seed: root seed of the draw. only: number of targets that are used, from the
        first; None: all. task: the penalty λ of each method, and the replicate.
    """
    l2, replicate = task
    rows = transfer_rows(organisations, 1.0, l2=l2, streams=Streams(seed, replicate), only=only)
    common = {"study": "transfer", "data": organisations.name, "epsilon": 1.0, "groups": len(organisations.groups)}
    return [{**common, "replicate": replicate, "l2": l2[str(row["method"])], **row} for row in rows]


PAIRS = {
    "epsilon": (("PST-F(W)", "PST-F(U)"), ("PLR", "PST-S"), ("PST-F(U)", "PLR"), ("PST-F(W)", "PLR"),
                ("PST-F(W)", "PLR(W)"), ("PST-F(W), no high level", "PST-F(W)"), (OVERSPENT, "PLR")),
    "transfer": (("PST-H(W)", "PLR (target)"), ("PST-H(U)", "PLR (target)"), ("PPHTL", "PLR (target)"),
                 ("PST-H(W)", "PLR-HTL"), ("PST-H(W), no high level", "PLR-HTL(W)")),
}  # fmt: skip
"""For each study, the pairs of methods whose differences are reported, the first minus the second."""


def paired(table: pd.DataFrame) -> pd.DataFrame:
    """Differences of AUC between the pairs of methods in `PAIRS`, the first minus the second, taken within replicates.
    The 95% intervals are not corrected for their number. There is a row for each pair, ε and data set; in transfer,
    also for each target.

    Args:
        table: one row for each point, method and replicate, with the columns study, data, organisation, epsilon,
        method, replicate and auc.
    """
    lines = []
    for study, pairs in PAIRS.items():
        for keys, part in table[table["study"] == study].groupby(["data", "organisation", "epsilon"], dropna=False):
            wide = part.pivot(index="replicate", columns="method", values="auc")
            for first, second in pairs:
                mean = mean_interval(wide[first] - wide[second])
                lines.append((study, *keys, first, second, mean.value, mean.low, mean.high, mean.replicates))
    columns = ("study", "data", "organisation", "epsilon", "first", "second", "difference", "low", "high", "replicates")
    return pd.DataFrame(lines, columns=columns)


def _draw_benchmarks(points: pd.DataFrame, frame: Frame, replicates: int) -> Path:
    """Draws the AUC on each benchmark against ε, the number of groups, and how unequal the groups' importance is.

    points: the means of the study. replicates: number of replicates over which each mean is taken.
    """
    panels = []
    for study, x, label in (("epsilon", "epsilon", "ε"), ("groups", "groups", "number of groups K"),
                            ("importance", "skew", "importance Σ αⁱ: α")):  # fmt: skip
        for data in points.loc[points["study"] == study, "data"].unique():
            part = points[(points["study"] == study) & (points["data"] == data)]
            title = data if study == "epsilon" else f"{data}, ε = 1"
            panels.append(Panel(label, "test AUC", curves(part, x, "auc", "method", (OVERSPENT,)),
                                log_x=study != "importance", log_y=False, title=title))  # fmt: skip
    note = (
        f"{replicates} splits a point, bands: 95% intervals. A whole row is protected (example adjacency).\n"
        "n = 3,000, 100 components, K = 5 where it is not the axis. Importance, norms and λ come\n"
        "from public rows. Dashed: what Kε buys, drawn where ε would be."
    )
    title = "The stacking paper's Figures 1 to 3 at honest privacy"
    return frame.figure(plot_study, panels, "benchmarks.png", title, note, columns=2)


def _draw_transfer(points: pd.DataFrame, out: Path, replicates: int) -> Path:
    """Draws the AUC at every target as dots with intervals, with the methods side by side."""
    part = points[points["study"] == "transfer"]
    names = [list(part.loc[part["data"] == data, "organisation"].unique()) for data in part["data"].unique()]
    title, widths = "Hypothesis transfer between organisations (Table 2)", [len(targets) + 3 for targets in names]
    with drawing(out / "transfer.png", 12.0, 5.0, panels=len(names), title=title, widths=widths) as (figure, grid):
        # the targets lie along the axis; at each target the methods lie side by side
        for axes, data, targets in zip(grid, part["data"].unique(), names, strict=True):
            for index, method in enumerate(DRAWN):
                line = part[(part["data"] == data) & (part["method"] == method)].set_index("organisation").loc[targets]
                places = np.arange(len(targets)) + 0.11 * (index - (len(DRAWN) - 1) / 2)
                ends = np.abs(line[["auc_low", "auc_high"]].to_numpy().T - line["auc"].to_numpy())
                axes.errorbar(places, line["auc"], ends, fmt=MARKERS[index], color=COLOURS[index], markersize=4,
                              linewidth=1.0, label=method)  # fmt: skip
            axes.set_xticks(range(len(targets)), targets)
            axes.grid(visible=False, axis="x")
            axes.set(ylabel="test AUC", title=TITLES[data])
        note = (
            f"{replicates} draws, bars: 95% intervals. ε = 1 for the source (one release for all targets) and 1 for "
            "each target; example adjacency."
        )
        legend_below(figure, grid, note, 4)
    return out / "transfer.png"


if __name__ == "__main__":
    command(NAME, main)
