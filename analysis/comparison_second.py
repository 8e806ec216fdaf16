"""The second comparison: every mechanism at equal ε with the best of its learners, and which of them leads where.

Run as `python -m analysis.comparison_second --data-dir DIR`; interrupted, it goes on where it stopped.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import pandas as pd

from analysis.comparison.__main__ import HISTOGRAM, PANELS, PLR, TWO_CLASSES, model_rows
from analysis.comparison.__main__ import TRUST as FIRST_TRUST
from analysis.study import ROOT, Frame, command, curves, means
from p2p_sim import Scenario, load_scenario
from p2p_sim.figures import Panel, plot_by_trust
from p2p_sim.measures import HIGH, LOW, mean_interval
from p2p_sim.privacy import PrivacyBound
from p2p_sim.replicate import Replicate, account, exchange
from p2p_sim.replicate.learn import learn

PLAIN, FORWARD, COMBINED, TREES, MULTINOMIAL = (
    "one-vs-rest", "forward correction", "clusters and features", "boosted trees", "multinomial",
)  # fmt: skip
LEARNERS: dict[str, dict[str, Any]] = {
    PLAIN: {"kind": "one_vs_rest"},
    FORWARD: {"kind": "forward_correction", "max_iterations": 100},
    COMBINED: {"kind": "cluster_and_features", "max_iterations": 100},
    TREES: {"kind": "boosted_trees"},
    MULTINOMIAL: {"kind": "soft_logistic_regression"},
}
"""The learners by name, and their tables in a scenario."""
MECHANISMS: dict[str, dict[str, Any]] = {
    "label exchange": {"kind": "label_exchange"},
    "randomised response": {"kind": "randomized_response"},
    "vector approximation": {"kind": "vector_approximation"},
    "RRWithPrior, two stages": {"kind": "rr_with_prior"},
    "ALIBI": {"kind": "alibi"},
    "noise shares": {"kind": "noise_shares", "colluders": 2, "leavers": 5},
    "randomised response, shuffled": {"kind": "shuffled_response"},
    "DP-SGD": {"kind": "dp_sgd"},
    "ClusterRR": {"kind": "cluster_rr", "heterogeneity": 0.2},
    "LabelDP-Pro": {"kind": "label_dp_pro"},
    "PATE": {"kind": "pate", "teachers": 60, "queries": 60, "answers": 40, "threshold": 0.4},
    "noisy aggregates": {"kind": "noisy_aggregates"},
}
"""The mechanisms by name, and their tables in a scenario without ε."""
SEVERAL: dict[str, dict[str, Any]] = {f"ask {k}": {"kind": "label_exchange", "peers": k} for k in (3, 5)}
"""Exchanges in which users ask several peers, compared where choices are paid for."""
_LAW, _SOFT = (PLAIN, FORWARD, COMBINED, TREES), (PLAIN, MULTINOMIAL)
_CANDIDATES = {
    "label exchange": _LAW,
    **dict.fromkeys(SEVERAL, (PLAIN,)),  # a majority has no law of noise on one label, which others correct for
    "randomised response": _LAW,
    "RRWithPrior, two stages": (PLAIN, FORWARD),
    "randomised response, shuffled": _LAW,
    "ALIBI": _SOFT,
    "noise shares": _SOFT,
    "noisy aggregates": _SOFT,
}
Task = tuple[dict[str, Any], int, Path | None, tuple[str, ...], bool]
"""The tree of a scenario, the replicate, where data files are, the learners, and whether ε is to be computed."""
Line = dict[str, Any]


class MechanismPoint(NamedTuple):
    """A mechanism at a target ε."""

    mechanism: str
    epsilon: float


def table_of(point: MechanismPoint) -> dict[str, Any]:
    """The mechanism's table in a scenario, its noise chosen for ε."""
    return {**(MECHANISMS | SEVERAL)[point.mechanism], "target_epsilon": point.epsilon}


def candidates(mechanism: str, classes: int) -> tuple[str, ...]:
    """The learners to choose from: those that take what the mechanism releases; trees for two classes only."""
    return tuple(name for name in _CANDIDATES.get(mechanism, (PLAIN,)) if classes == 2 or name != TREES)


def learned(task: Task) -> list[Line]:
    """A line for each learner on one release: its accuracy, and that of the same learner without privacy.

    Lines have ε of the worst cluster, δ and who is trusted where the task asks for them.
    """
    tree, replicate, data_dir, names, accounted = task
    case = Replicate(Scenario.from_tree(tree), replicate, data_dir)
    run = exchange(case)
    people, mechanism, outcome = run.population, run.mechanism, run.outcome
    common: Line = {"replicate": replicate, "num_users": people.num_users}
    if accounted:
        bound = cast(PrivacyBound, account(case, people, mechanism, outcome).statements["epsilon_upper"])
        common |= {"epsilon_upper": bound.epsilon_upper, "delta": bound.delta, "trust": mechanism.trust}
    lines = []
    for name in names:
        scenario = case.scenario.replace(learner=LEARNERS[name])
        risk = learn(replace(case, scenario=scenario), people, mechanism, outcome).risk
        # labels are classes, so that every learner has an error rate
        accuracy, reference = (1.0 - cast(float, rate) for rate in (risk.error_rate, risk.nonprivate_error_rate))
        lines.append(common | {"learner": name, "accuracy": accuracy, "nonprivate_accuracy": reference})
    return lines


NAME = "comparison-second"
EPSILON, EPSILONS = "mechanism.target_epsilon", (0.5, 1.0, 2.0, 4.0)
CHOOSING = 3
"""Replicates that choose learners and name leaders; all others are reported."""
USERS = 8_000
"""Users of MNIST and Adult, drawn anew in each replicate."""
CHANGES: dict[str, dict[str, Any]] = {
    "digits": {},
    "mnist": {
        "population": {"kind": "mnist", "task": "classes", "pca_dims": 50, "users": USERS},
        "clusters": {"kind": "kmeans", "count": 20, "min_size": 36, "minibatch": True},
    },
    "even-odd": {
        "population": {"kind": "mnist", "task": "even-odd", "pca_dims": 50, "users": USERS},
        "clusters": {"kind": "kmeans", "count": 20, "min_size": 36, "minibatch": True},
    },
    "adult": {
        "population": {"kind": "adult", "users": USERS},
        "clusters": {"kind": "kmeans", "count": 20, "min_size": 100},
    },
    "synthetic": {
        "population": {"kind": "synthetic", "users": 20_000, "num_clusters": 20, "heterogeneity": 0.2},
        "clusters": {"kind": "given"},
    },
}
"""What each panel changes in scenarios/comparison.toml."""
REDUCED: dict[str, dict[str, Any]] = {
    "digits": {"clusters": {"kind": "kmeans", "count": 4, "min_size": 36}},
    "synthetic": {
        "population": {"kind": "synthetic", "users": 1_000, "num_clusters": 4, "heterogeneity": 0.2},
        "clusters": {"kind": "given"},
    },
}
"""What a test changes in scenarios/comparison.toml, at ε = 1."""
_NOBODY, _CURATOR = "trust nobody", "trust a curator with all labels"
TRUST = FIRST_TRUST | {
    _NOBODY: (*FIRST_TRUST[_NOBODY], "noise shares"),
    _CURATOR: ("DP-SGD", "ClusterRR", "LabelDP-Pro", "PATE", "noisy aggregates", PLR, HISTOGRAM),
}
"""Who sees true labels, or noisy ones with their owner, and must not tell."""
ALL, OWN = "all", "its own"
WHOLE = ("DP-SGD", "LabelDP-Pro")
"""Mechanisms that release a model: there is no learner to choose."""
CONFIDENCE = 0.95
LEADS, BEHIND, OPEN = "leads", "is behind", "not settled"
KEYS = ("mechanism", EPSILON)


def main(frame: Frame, replicates: int = 9) -> list[Path]:
    """Compares the mechanisms, each with the best of its learners; returns the files written.

    They are the figure, the table of all points, and the leaders' differences to their rivals.

    Args:
        frame: where the study runs and writes. replicates: of each point; those that choose count, too.
    """
    count = CHOOSING + 2 if frame.small else replicates
    changes = REDUCED if frame.small else CHANGES
    rows = {panel: panel_rows(panel, frame, count) for panel in changes}
    every = pd.concat([part.assign(panel=panel) for panel, part in rows.items()], ignore_index=True)
    frame.rows(every, study=NAME, choosing=CHOOSING, replicates=count, panels=changes)
    table = pd.concat([_points(part).assign(panel=panel) for panel, part in rows.items()], ignore_index=True)
    table = table[["panel", *table.columns.drop("panel")]]
    # leaders are named by the replicates that choose, and judged on all others
    written = [frame.table("table.csv", table), frame.table("leaders.csv", judged(rows))]
    note = (
        f"Each mechanism with its best learner, chosen on {CHOOSING} replicates that are not shown. Bands: 95% "
        f"intervals over {table['replicates'].min()} other replicates. δ = 1e-6 for exchange, shuffler, DP-SGD, "
        "LabelDP-Pro and PATE, pure ε elsewhere; ε is for the learner's view of one label."
    )
    figure = frame.out / f"{NAME}.png"
    plot_by_trust(accuracy_panels(table), TRUST, figure, "Every mechanism with the best of its learners", note)
    return [figure, *written]


def accuracy_panels(table: pd.DataFrame) -> list[Panel]:
    """Accuracy against ε, a panel for each value of the column `panel`."""
    panels = []
    for name, part in table.groupby("panel", sort=False):
        lines = curves(part, EPSILON, "accuracy", "mechanism")
        panels.append(Panel("target ε", "accuracy", lines, log_y=False, title=PANELS[str(name)]))
    return panels


def panel_rows(panel: str, frame: Frame, replicates: int) -> pd.DataFrame:
    """All runs of a panel, a line for each mechanism, ε, replicate and learner.

    The first replicates have all learners, the others the chosen one (`chosen`) and the plain one.
    """
    changes = (REDUCED if frame.small else CHANGES)[panel]
    base = load_scenario(ROOT / "scenarios" / "comparison.toml").replace(name=f"{NAME}-{panel}", **changes)
    points = [MechanismPoint(name, epsilon) for epsilon in ((1.0,) if frame.small else EPSILONS) for name in MECHANISMS]
    classes = 2 if panel in TWO_CLASSES else 10
    # the replicates that choose
    first = _runs(
        base, frame, range(CHOOSING), {point: candidates(point.mechanism, classes) for point in points}, accounted=False
    )
    best = chosen(first)
    # all others
    reported = {point: tuple(dict.fromkeys((best[point], PLAIN))) for point in points}
    later = _runs(base, frame, range(CHOOSING, replicates), reported, accounted=True)
    rows = pd.concat([first, later], ignore_index=True)
    rows["chosen"] = [best[point] == learner for point, learner in zip(_points_of(rows), rows["learner"], strict=True)]
    rows["learner"] = rows["learner"].mask(rows["mechanism"].isin(WHOLE), OWN)
    if classes == 2:
        models = _whole_models(base, frame, replicates, histogram=panel == "synthetic")
        rows = pd.concat([rows, models], ignore_index=True)
    return rows.assign(reported=rows["replicate"] >= CHOOSING)


def _runs(
    base: Scenario, frame: Frame, replicates: range, learners: dict[MechanismPoint, tuple[str, ...]], *, accounted: bool
) -> pd.DataFrame:
    """Runs of some replicates, a line for each of the learners of each mechanism and ε."""
    runs = [(replicate, point) for replicate in replicates for point in learners]
    trees = {point: base.replace(mechanism=table_of(point)).model_dump(mode="json") for point in learners}
    tasks = [(trees[point], replicate, frame.data_dir, learners[point], accounted) for replicate, point in runs]
    return with_points([point for _, point in runs], frame.each(learned, tasks))


def with_points(points: list[MechanismPoint], parts: list[list[Line]]) -> pd.DataFrame:
    """Rows with the mechanism and ε of the run that each line is of."""
    return pd.DataFrame(
        {"mechanism": point.mechanism, EPSILON: point.epsilon, **line}
        for point, part in zip(points, parts, strict=True)
        for line in part
    )


def _whole_models(base: Scenario, frame: Frame, replicates: int, histogram: bool) -> pd.DataFrame:
    """A row for each private model of two classes, for which there is no learner to choose, in each replicate."""
    tree, epsilons = base.model_dump(mode="json"), [1.0] if frame.small else sorted(EPSILONS)
    tasks = [(tree, epsilons, replicate, frame.data_dir) for replicate in range(replicates)]
    parts = frame.each(partial(model_rows, histogram=histogram), tasks)
    rows = pd.DataFrame([row for part in parts for row in part]).assign(learner=OWN, chosen=True)
    return rows.assign(accuracy=1.0 - rows["error_rate"]).drop(columns=["error_rate", "scenario"])


def chosen(rows: pd.DataFrame) -> dict[MechanismPoint, str]:
    """The learner with the largest mean accuracy for each mechanism and ε; of equally good ones the first."""
    mean = rows.groupby([*KEYS, "learner"], sort=False, as_index=False)["accuracy"].mean()
    best = mean.loc[mean.groupby(list(KEYS), sort=False)["accuracy"].idxmax()]
    return dict(zip(_points_of(best), best["learner"], strict=True))


def judged(rows: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The leader of each panel, ε and group of trust, held against each other mechanism of the group.

    The replicates that choose name the leader; the difference of accuracies is that of the others, replicate by
    replicate. Intervals have together the confidence of 95%: Bonferroni over all different comparisons.
    """
    lines = [{"panel": panel, **line} for panel, part in rows.items() for line in _against(part)]
    comparisons = len({(line["panel"], line[EPSILON], line["leader"], line["other"]) for line in lines})
    for line in lines:
        gap = mean_interval(line.pop("each"), 1.0 - (1.0 - CONFIDENCE) / comparisons)
        line |= {"difference": gap.value, "low": gap.low, "high": gap.high, "replicates": gap.replicates}
        line["verdict"] = LEADS if gap.low > 0.0 else BEHIND if gap.high < 0.0 else OPEN
    return pd.DataFrame(lines).assign(comparisons=comparisons)


def _against(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The leader and each of its rivals at each ε and in each group of trust, with their differences in all reported
    replicates.
    """
    used = rows[rows["chosen"]]
    for epsilon, part in used.groupby(EPSILON):
        cells = part.pivot(index=["reported", "replicate"], columns="mechanism", values="accuracy")
        choosing, reported = cells.query("not reported").mean(), cells.query("reported")
        for group, names in {**TRUST, ALL: tuple(map(str, cells))}.items():
            present = [name for name in names if name in cells]
            if len(present) < 2:
                continue
            leader = choosing[present].idxmax()
            for rival in present:
                if rival != leader:
                    each = (reported[leader] - reported[rival]).to_numpy()
                    yield {EPSILON: epsilon, "group": group, "leader": leader, "other": rival, "each": each}


def _points(rows: pd.DataFrame) -> pd.DataFrame:
    """A line for each mechanism and ε of the reported replicates, with what its learner gains over the plain one."""
    later = rows[rows["reported"]]
    used = later[later["chosen"]]
    plain = later[later["learner"] == PLAIN].set_index([*KEYS, "replicate"])["accuracy"]
    before = plain.reindex(pd.MultiIndex.from_frame(used[[*KEYS, "replicate"]])).to_numpy()
    used = used.assign(gain=used["accuracy"] - before)
    fixed = used.drop_duplicates(list(KEYS))[[*KEYS, "learner", "delta", "trust"]]
    accuracy = means(used, KEYS, "accuracy", ("epsilon_upper",))
    gain = means(used, KEYS, "gain", ())[[*KEYS, "gain", "gain" + LOW, "gain" + HIGH]]
    return fixed.merge(accuracy, on=list(KEYS)).merge(gain, on=list(KEYS))


def _points_of(rows: pd.DataFrame) -> Iterator[MechanismPoint]:
    """The mechanism and ε of each row."""
    return map(MechanismPoint, rows["mechanism"], rows[EPSILON])


if __name__ == "__main__":
    command(NAME, main)
