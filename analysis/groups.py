"""Who pays for privacy: the accuracy that each group of users loses, for each mechanism on two data sets.

Run as `python -m analysis.groups --data-dir DIR`; it takes approximately 15 CPU minutes. If a run was stopped, the same
command continues it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.comparison_second import MECHANISMS as ALL
from analysis.study import EPSILON, Frame, command, comparison_base, joint_confidence, with_ends
from p2p_sim.figures import Marks, plot_groups
from p2p_sim.measures import (
    ACCURACY,
    LOSS,
    REFERENCE_ACCURACY,
    SHARE,
    Group,
    derived,
    extra_loss,
    groups_of,
    mean_interval,
)
from p2p_sim.sweeps import Axis, make_plan

NAME = "groups"
FIRST = (
    "label exchange", "randomised response", "vector approximation", "RRWithPrior, two stages", "ALIBI",
    "randomised response, shuffled", "ClusterRR", "DP-SGD",
)  # fmt: skip
MECHANISMS = {name: ALL[name] for name in FIRST}
"""The mechanisms that run on every panel. For each name, the value is the mechanism's table in a scenario, which has
its kind and options but no ε."""
LATER = {name: ALL[name] for name in ("LabelDP-Pro", "PATE", "noisy aggregates", "noise shares")}
LATER_ON = ("adult", "mnist")
"""`LATER` has further mechanisms, and `LATER_ON` names the only panels on which they run."""
EPSILONS, DRAWN = {"adult": (0.5, 1.0, 4.0), "mnist": (1.0,)}, 1.0
"""Target values of ε of each panel, and the value that the figure shows."""
PANELS: dict[str, dict[str, Any]] = {
    "adult": {
        "population": {"kind": "adult", "users": 20_000},
        "clusters": {"kind": "kmeans", "count": 100, "min_size": 100},
        "groups": ["class", "sex", "cluster_size"],
    },
    "mnist": {
        "population": {"kind": "mnist", "task": "classes", "pca_dims": 50, "users": 20_000},
        "clusters": {"kind": "kmeans", "count": 20, "min_size": 36, "minibatch": True},
        "groups": ["class", "cluster_size"],
    },
}
"""What each panel changes in scenarios/comparison.toml."""
SMALL: dict[str, dict[str, Any]] = {
    "breast-cancer": {
        "population": {"kind": "breast-cancer"},
        "clusters": {"kind": "kmeans", "count": 4, "min_size": 36},
        "groups": ["class", "cluster_size"],
    }
}
"""What a reduced study changes in scenarios/comparison.toml."""
TITLES = {
    ("adult", "class"): "Adult: income at most (0), above (1) 50,000",
    ("adult", "sex"): "Adult: sex",
    ("adult", "cluster_size"): "Adult: size of the cluster",
    ("mnist", "class"): "MNIST: digit",
    ("mnist", "cluster_size"): "MNIST: size of the cluster",
}
MORE, LESS, OPEN = "pays more", "pays less", "not settled"


def main(frame: Frame, replicates: int = 10) -> list[Path]:
    """Measures how much accuracy each group of users (by class, sex, or size of cluster) loses to privacy, for all
    mechanisms of the project's comparison on the data sets Adult and MNIST. Returns the files of a figure at ε = 1 and
    of a table with a verdict on whether each group loses more than the other users.

    Args:
        frame: where the study runs and writes; a reduced study uses the breast cancer data. replicates: number of
        replicates for each combination of data set, mechanism and ε.
    """
    table = pd.DataFrame(_lines(frame, 2 if frame.small else replicates))
    verdicts = _judged(table, joint_confidence(intervals(table)))
    table = pd.concat([table.drop(columns="each"), verdicts], axis="columns")
    note = (
        f"Each mark: mean loss of a group's accuracy at ε = {DRAWN:g} (that without privacy minus that with it) "
        f"and its 95% interval over {table['replicates'].min()} replicates. Digits are their own marks, without "
        "intervals. Left of 0 the group gains."
    )
    panels = [
        Marks(TITLES.get((str(panel), str(kind)), f"{panel}: {kind}"), part, "mechanism", "group", LOSS)
        for (panel, kind), part in table[table[EPSILON] == DRAWN].groupby(["panel", "kind"], sort=False)
    ]
    return [
        frame.figure(plot_groups, panels, "groups.png", "Who pays for privacy?", note),
        frame.table("table.csv", table),
    ]


def mechanisms_of(panel: str) -> dict[str, dict[str, Any]]:
    """The mechanisms compared on a data set: the name of each, with its table in a scenario (its kind and options, but
    no ε).

    Args:
        panel: name of the data set: "adult", "mnist", or "breast-cancer" in a reduced study.
    """
    return MECHANISMS | LATER if panel in LATER_ON else MECHANISMS


def _lines(frame: Frame, replicates: int) -> Iterator[dict[str, Any]]:
    """Yields the rows of the table, one for each data set, mechanism, ε and group of users. A row has means over
    replicates: of the group's share of users, of its accuracy with and without privacy, and of its loss of accuracy,
    for which the row also has an interval. The entry `each` is an array over replicates: the accuracy that the group
    loses to privacy minus the accuracy that all other users lose.

    Args:
        frame: where the study runs. replicates: number of replicates for each combination of data set, mechanism and ε.
    """
    for panel, changes in (SMALL if frame.small else PANELS).items():
        base = comparison_base(NAME, panel, changes)
        chosen = mechanisms_of(panel)
        axes = (
            Axis(key="mechanism", values=tuple(chosen.values()), labels=tuple(chosen)),
            Axis(key=EPSILON, values=EPSILONS.get(panel, (DRAWN,))),
        )
        rows = derived(frame.planned(make_plan(base.name, base, axes, replicates, data_dir=frame.data_dir), panel))
        for (mechanism, epsilon), part in rows.groupby(["mechanism", EPSILON], sort=False):
            point = {
                "panel": panel,
                "mechanism": mechanism,
                EPSILON: epsilon,
                "epsilon_upper": part["epsilon_upper"].max(),
            }
            for group in groups_of(rows):
                yield point | {"kind": group.kind, "group": group.name, "replicates": len(part)} | _figures(part, group)


def _figures(part: pd.DataFrame, group: Group) -> dict[str, Any]:
    """What is measured for one group of users with one mechanism at one ε: the means over replicates of the group's
    share of users and of its accuracy with and without privacy, and the accuracy it loses to privacy with a 95%
    interval. The entry `each` is an array over replicates: the accuracy that the group loses minus the accuracy that
    all other users lose.

    Args:
        part: the rows of this mechanism and ε, one for each replicate. group: the group, which knows the names of its
        columns in these rows.
    """
    return {
        **{name: part[group.column(name)].mean() for name in (SHARE, REFERENCE_ACCURACY, ACCURACY)},
        **with_ends(LOSS, mean_interval(part[group.column(LOSS)])),
        "each": extra_loss(part, group).to_numpy(),
    }


def intervals(table: pd.DataFrame) -> int:
    """The number of different intervals in the table. Bonferroni's correction for many comparisons uses this number.
    Each interval is for a difference: how much more accuracy a group of users loses than all other users. If a kind of
    group (such as sex) has only two groups, the difference for one group is minus that for the other, so that the two
    count once.

    Args:
        table: a row for each data set, mechanism, ε and group.
    """
    points = table.groupby(["panel", "mechanism", EPSILON, "kind"])["group"].size()
    return int(points.where(points > 2, 1).sum())


def _judged(table: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """For each row, how much more accuracy the group loses than the other users, with an interval and a verdict.

    The verdict is "pays more", "pays less" or "not settled". table: its column `each` has, for every replicate, the
    group's loss minus the other users' loss. confidence: confidence level of each interval.
    """
    verdicts = []
    for each in table["each"]:
        extra = mean_interval(each, confidence)
        verdict = MORE if extra.low > 0.0 else LESS if extra.high < 0.0 else OPEN
        verdicts.append(with_ends("extra", extra) | {"verdict": verdict})
    return pd.DataFrame(verdicts, index=table.index)


if __name__ == "__main__":
    command(NAME, main)
