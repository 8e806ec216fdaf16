"""The second comparison: every mechanism at equal ε with the best of its learners, and the leading mechanism at each ε.

Run as `python -m analysis.comparison_second --data-dir DIR`; the same command continues a stopped run.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

import pandas as pd

from analysis.comparison.__main__ import HISTOGRAM, PANELS, PLR, TWO_CLASSES, model_rows
from analysis.comparison.__main__ import TRUST as FIRST_TRUST
from analysis.study import EPSILON, Frame, command, comparison_base, curves, joint_confidence, means
from p2p_sim import Scenario
from p2p_sim.figures import Panel, plot_by_trust
from p2p_sim.measures import mean_interval
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
"""The learners: each name, with the [learner] section of its scenario."""
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
"""The mechanisms: each name, with the [mechanism] section of its scenario (without ε)."""
SEVERAL: dict[str, dict[str, Any]] = {f"ask {k}": {"kind": "label_exchange", "peers": k} for k in (3, 5)}
"""Exchanges in which users ask several peers. `analysis.comparison_paid` alone runs these exchanges."""
_LAW, _SOFT = (PLAIN, FORWARD, COMBINED, TREES), (PLAIN, MULTINOMIAL)
_CANDIDATES = {
    "label exchange": _LAW,
    **dict.fromkeys(SEVERAL, (PLAIN,)),  # other learners must know a single label's flips; a majority mixes labels
    "randomised response": _LAW,
    "RRWithPrior, two stages": (PLAIN, FORWARD),
    "randomised response, shuffled": _LAW,
    "ALIBI": _SOFT,
    "noise shares": _SOFT,
    "noisy aggregates": _SOFT,
}


class MechanismPoint(NamedTuple):
    """The name of a mechanism, and a target ε."""

    mechanism: str
    epsilon: float


Line = dict[str, Any]
Options = tuple[str, ...] | None
"""Names of learners, or of other options of a mechanism; None: all options."""
Task = tuple[dict[str, Any], MechanismPoint, int, Path | None, Options]
"""In this order: a scenario as a nested mapping, with the mechanism at its ε; the mechanism's name and ε; the number of
the replicate; the folder of data files; the options to run."""


def table_of(point: MechanismPoint) -> dict[str, Any]:
    """The [mechanism] section of a scenario: the mechanism's kind and options, and its target ε.

    Args:
        point: the mechanism's name and its ε.
    """
    return {**(MECHANISMS | SEVERAL)[point.mechanism], "target_epsilon": point.epsilon}


def candidates(mechanism: str, classes: int) -> tuple[str, ...]:
    """The learners (keys of `LEARNERS`) that can learn from a mechanism's release. One-vs-rest logistic regression
    comes first. Boosted trees are only for two classes.
    """
    return tuple(name for name in _CANDIDATES.get(mechanism, (PLAIN,)) if classes == 2 or name != TREES)


def learned(task: Task, accounted: bool) -> list[Line]:
    """A row for each learner of the task: the number of users, and the learner's accuracy with and without privacy. All
    learners learn from the same release of noisy labels.

    Args:
        task: the scenario as a nested mapping, the mechanism's name with its ε, the replicate, the folder of data
        files, and the names of the learners (None: all). accounted: whether rows also have ε of the worst cluster, δ,
        and the party that users must trust.
    """
    tree, _, replicate, data_dir, names = task
    case = Replicate(Scenario.from_tree(tree), replicate, data_dir)
    run = exchange(case)
    people, mechanism, outcome = run.population, run.mechanism, run.outcome
    common: Line = {"replicate": replicate, "num_users": people.num_users}
    if accounted:
        bound = cast(PrivacyBound, account(case, people, mechanism, outcome).statements["epsilon_upper"])
        common |= {"epsilon_upper": bound.epsilon_upper, "delta": bound.delta, "trust": mechanism.trust}
    lines = []
    for name in names or LEARNERS:
        taught = replace(case, scenario=case.scenario.replace(learner=LEARNERS[name]))
        risk = learn(taught, people, mechanism, outcome).risk
        # labels are classes here: every learner has an error rate
        accuracy, reference = (1.0 - cast(float, rate) for rate in (risk.error_rate, risk.nonprivate_error_rate))
        lines.append(common | {"learner": name, "accuracy": accuracy, "nonprivate_accuracy": reference})
    return lines


NAME = "comparison-second"
EPSILONS = (0.5, 1.0, 2.0, 4.0)
CHOOSING = 3
"""Number of replicates, at the start of a study, that serve to choose learners and to name leaders. Only later
replicates are reported."""
USERS = 8_000
"""Number of users sampled from MNIST, and from Adult, in each replicate."""
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
"""What each panel (data set) changes in scenarios/comparison.toml."""
REDUCED: dict[str, dict[str, Any]] = {
    "digits": {"clusters": {"kind": "kmeans", "count": 4, "min_size": 36}},
    "synthetic": {
        "population": {"kind": "synthetic", "users": 1_000, "num_clusters": 4, "heterogeneity": 0.2},
        "clusters": {"kind": "given"},
    },
}
"""The panels of a reduced study, and what they change in scenarios/comparison.toml. A reduced study has only ε = 1."""
_NOBODY, _CURATOR = "trust nobody", "trust a curator with all labels"
TRUST = FIRST_TRUST | {
    _NOBODY: (*FIRST_TRUST[_NOBODY], "noise shares"),
    _CURATOR: ("DP-SGD", "ClusterRR", "LabelDP-Pro", "PATE", "noisy aggregates", PLR, HISTOGRAM),
}
"""Mechanisms, grouped by the party that users must trust, if any. This party sees true labels, or noisy labels with
their owners."""
ALL, OWN = "all", "its own"
"""`ALL` names the group of all mechanisms. `OWN` stands for the learner if a mechanism releases a model."""
WHOLE = ("DP-SGD", "LabelDP-Pro")
"""Mechanisms that release a model instead of labels: there is no learner to choose."""
LEADS, BEHIND, OPEN = "leads", "is behind", "not settled"
KEYS = ("mechanism", EPSILON)


def main(frame: Frame, replicates: int = 9) -> list[Path]:
    """Compares the mechanisms at equal ε, each with the best of its learners. Returns the files of a figure and two
    tables. One table has a row for each data set, mechanism and ε. The other table has the differences in accuracy
    between a leader and its rivals.

    Args:
        frame: runs the study and writes its files. replicates: number of replicates for each mechanism and ε. The first
        3 serve to choose learners and to name leaders, and are not reported.
    """
    count = CHOOSING + 2 if frame.small else replicates
    changes = REDUCED if frame.small else CHANGES
    rows = {panel: panel_rows(panel, frame, count) for panel in changes}
    every = pd.concat([part.assign(panel=panel) for panel, part in rows.items()], ignore_index=True)
    frame.rows(every, study=NAME, choosing=CHOOSING, replicates=count, panels=changes)
    table = pd.concat([_points(part).assign(panel=panel) for panel, part in rows.items()], ignore_index=True)
    table = table[["panel", *table.columns.drop("panel")]]
    # the first replicates determine the leaders; later replicates judge the leaders
    written = [frame.table("table.csv", table), frame.table("leaders.csv", judged(rows))]
    note = (
        f"Each mechanism with its best learner, chosen on {CHOOSING} replicates that are not shown. Bands: 95% "
        f"intervals over {table['replicates'].min()} other replicates. δ = 1e-6 for exchange, shuffler, DP-SGD, "
        "LabelDP-Pro and PATE, pure ε elsewhere; ε is for the learner's view of one label."
    )
    title = "Every mechanism with the best of its learners"
    return [frame.figure(plot_by_trust, accuracy_panels(table), f"{NAME}.png", TRUST, title, note), *written]


def accuracy_panels(table: pd.DataFrame) -> list[Panel]:
    """Panels of accuracy against ε, one for each data set, with a curve for each mechanism.

    Args:
        table: a row for each point, with the columns panel (the data set), mechanism, mechanism.target_epsilon and
        accuracy. The columns accuracy_low and accuracy_high give the bands.
    """
    return [
        Panel(
            "target ε", "accuracy", curves(part, EPSILON, "accuracy", "mechanism"), log_y=False, title=PANELS[str(name)]
        )
        for name, part in table.groupby("panel", sort=False)
    ]


def panel_rows(panel: str, frame: Frame, replicates: int) -> pd.DataFrame:
    """All runs on one data set: a row for each mechanism, ε, replicate and learner, with the accuracy. The first 3
    replicates run all learners that suit the mechanism. Later replicates run two learners: the best learner of the
    first 3 replicates, and one-vs-rest logistic regression. Data sets with two classes also have models that a curator
    or organisations train privately. Such models have no learner to choose.

    Args:
        panel: name of the data set. frame: runs the tasks. replicates: number of replicates, including the first 3.
    """
    base = comparison_base(NAME, panel, (REDUCED if frame.small else CHANGES)[panel])
    points = [MechanismPoint(name, epsilon) for epsilon in ((1.0,) if frame.small else EPSILONS) for name in MECHANISMS]
    classes = 2 if panel in TWO_CLASSES else 10
    every = {point: candidates(point.mechanism, classes) for point in points}
    first = run_points(partial(learned, accounted=False), base, frame, range(CHOOSING), every)
    best = chosen(first)
    reported = {point: tuple(dict.fromkeys((best[point], PLAIN))) for point in points}
    later = run_points(partial(learned, accounted=True), base, frame, range(CHOOSING, replicates), reported)
    rows = pd.concat([first, later], ignore_index=True)
    rows["chosen"] = [best[point] == learner for point, learner in zip(_points_of(rows), rows["learner"], strict=True)]
    rows["learner"] = rows["learner"].mask(rows["mechanism"].isin(WHOLE), OWN)
    if classes == 2:
        # these mechanisms release a model for two classes; there is no learner to choose
        tree, epsilons = base.model_dump(mode="json"), [1.0] if frame.small else sorted(EPSILONS)
        tasks = [(tree, epsilons, replicate, frame.data_dir) for replicate in range(replicates)]
        models = pd.DataFrame(chain(*frame.each(partial(model_rows, histogram=panel == "synthetic"), tasks)))
        models = models.assign(learner=OWN, chosen=True, accuracy=1.0 - models["error_rate"])
        rows = pd.concat([rows, models.drop(columns=["error_rate", "scenario"])], ignore_index=True)
    return rows.assign(reported=rows["replicate"] >= CHOOSING)


def run_points(
    function: Callable[[Task], list[Line]], base: Scenario, frame: Frame, replicates: range,
    options: Mapping[MechanismPoint, Options],
) -> pd.DataFrame:  # fmt: skip
    """A table of the rows that a function returns for each pair of mechanism and ε in each replicate. The table also
    has columns for the mechanism and ε.

    Args:
        function: takes a task and returns rows. base: the data set's scenario; its mechanism is replaced. frame: runs
        the tasks. replicates: the numbers of the replicates to run. options: the learners or settings to run, for each
        mechanism and ε; None: all.
    """
    runs = [(replicate, point) for replicate in replicates for point in options]
    trees = {point: base.replace(mechanism=table_of(point)).model_dump(mode="json") for point in options}
    tasks = [(trees[point], point, replicate, frame.data_dir, options[point]) for replicate, point in runs]
    return pd.DataFrame(
        {"mechanism": point.mechanism, EPSILON: point.epsilon, **line}
        for (_, point), part in zip(runs, frame.each(function, tasks), strict=True)
        for line in part
    )


def chosen(rows: pd.DataFrame, option: str = "learner") -> dict[MechanismPoint, str]:
    """The learner (or other option) with the largest mean accuracy for each pair of mechanism and ε. The first one wins
    a tie.

    Args:
        rows: one for each mechanism, ε, replicate and option, with the accuracy. option: name of the column of options:
        learners, or settings of a mechanism.
    """
    mean = rows.groupby([*KEYS, option], sort=False, as_index=False)["accuracy"].mean()
    best = mean.loc[mean.groupby(list(KEYS), sort=False)["accuracy"].idxmax()]
    return dict(zip(_points_of(best), best[option], strict=True))


def judged(rows: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Comparisons of leaders with rivals: a row for each data set, ε, group of trust and rival. In a group of trust,
    users must trust the same party; all mechanisms together are a group, too. The leader has the largest mean accuracy
    in the first 3 replicates. The later replicates give the mean difference in accuracy; its interval gives a verdict:
    "leads", "is behind" or "not settled". All intervals hold jointly with 95% confidence (Bonferroni's correction for
    the number of distinct comparisons).

    Args:
        rows: for each data set, a table with a row for each mechanism, ε, replicate and learner.
    """
    lines = [{"panel": panel, **line} for panel, part in rows.items() for line in _against(part)]
    comparisons = len({(line["panel"], line[EPSILON], line["leader"], line["other"]) for line in lines})
    for line in lines:
        gap = mean_interval(line.pop("each"), joint_confidence(comparisons))
        line |= {"difference": gap.value, "low": gap.low, "high": gap.high, "replicates": gap.replicates}
        line["verdict"] = LEADS if gap.low > 0.0 else BEHIND if gap.high < 0.0 else OPEN
    return pd.DataFrame(lines).assign(comparisons=comparisons)


def _against(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yields a row for each ε, group of trust and rival of the group's leader, on one data set. `judged` explains
    leaders and groups. The key `each` has an array: the leader's accuracy minus the rival's accuracy in each later
    (reported) replicate.
    """
    for epsilon, part in rows[rows["chosen"]].groupby(EPSILON):
        cells = part.pivot(index=["reported", "replicate"], columns="mechanism", values="accuracy")
        choosing, reported = cells.query("not reported").mean(), cells.query("reported")
        for group, names in {**TRUST, ALL: tuple(map(str, cells))}.items():
            present = [name for name in names if name in cells]
            if len(present) < 2:
                continue
            leader = choosing[present].idxmax()
            for rival in present:
                if rival != leader:
                    yield {
                        EPSILON: epsilon, "group": group, "leader": leader, "other": rival,
                        "each": (reported[leader] - reported[rival]).to_numpy(),
                    }  # fmt: skip


def _points(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each mechanism and ε on one data set. A row has the chosen learner, the mean accuracy, and the mean
    gain over one-vs-rest logistic regression with the same mechanism. Means are over the reported replicates, which had
    no part in the choice. The gain is NaN for models without a learner.
    """
    later = rows[rows["reported"]]
    used = later[later["chosen"]]
    plain = later[later["learner"] == PLAIN].set_index([*KEYS, "replicate"])["accuracy"]
    before = plain.reindex(pd.MultiIndex.from_frame(used[[*KEYS, "replicate"]])).to_numpy()
    used = used.assign(gain=used["accuracy"] - before)
    fixed = used.drop_duplicates(list(KEYS))[[*KEYS, "learner", "delta", "trust"]]
    accuracy = means(used, KEYS, "accuracy", ("epsilon_upper",))
    gain = means(used, KEYS, "gain").drop(columns="replicates")
    return fixed.merge(accuracy, on=list(KEYS)).merge(gain, on=list(KEYS))


def _points_of(rows: pd.DataFrame) -> Iterator[MechanismPoint]:
    """The mechanism and ε of each row, in the order of the rows."""
    return map(MechanismPoint, rows["mechanism"], rows[EPSILON])


if __name__ == "__main__":
    command(NAME, main)
