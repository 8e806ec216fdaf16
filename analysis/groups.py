"""Who pays for privacy: the accuracy that each group of users loses, for each mechanism on two data sets.

Run as `python -m analysis.groups --data-dir DIR`; it takes about 15 CPU minutes. The same command continues a stopped
run.
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
"""The mechanisms that run on every panel (data set): each name, with the [mechanism] section of its scenario (without
ε)."""
LATER = {name: ALL[name] for name in ("LabelDP-Pro", "PATE", "noisy aggregates", "noise shares")}
LATER_ON = ("adult", "mnist")
"""`LATER` has further mechanisms, which run only on the panels `LATER_ON`."""
EPSILONS, DRAWN = {"adult": (0.5, 1.0, 4.0), "mnist": (1.0,)}, 1.0
"""Target values of ε of each panel, and the ε of the figure."""
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
    """Measures how much accuracy each group of users loses to privacy, for all mechanisms on the data sets Adult and
    MNIST. A group shares a class, a sex, or a range of cluster sizes. Returns the files of a figure at ε = 1 and of a
    table. The table has verdicts on whether a group loses more than the other users.

    Args:
        frame: runs the study and writes its files; a reduced study uses the breast cancer data. replicates: number of
        replicates for each combination of data set, mechanism and ε.
    """
    table = pd.DataFrame(_lines(frame, 2 if frame.small else replicates))
    verdicts = _judged(table, joint_confidence(intervals(table)))
    table = pd.concat([table.drop(columns="each"), verdicts], axis="columns")
    note = (
        f"Each mark: mean accuracy that a group loses to privacy at ε = {DRAWN:g}, with its 95% interval over "
        f"{table['replicates'].min()} replicates. In the panel of MNIST digits, each group is drawn as its digit, "
        "without an interval. Left of 0 the group gains."
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
    """The mechanisms compared on a data set: each name, with the [mechanism] section of its scenario (without ε).

    Args:
        panel: name of the data set: "adult", "mnist", or "breast-cancer" in a reduced study.
    """
    return MECHANISMS | LATER if panel in LATER_ON else MECHANISMS


def _lines(frame: Frame, replicates: int) -> Iterator[dict[str, Any]]:
    """Runs missing replicates of the study. Yields a row for each data set, mechanism, ε and group of users.

    A row has the data set (panel), the mechanism, the target ε, and the largest certified ε of all replicates
    (epsilon_upper). It has the kind of the group, such as "sex", the group, such as "Female", and the number of
    replicates. All other entries are from `_figures`, such as the group's loss of accuracy.

    Args:
        frame: runs the study; a reduced study uses the breast cancer data. replicates: number of replicates for each
        combination of data set, mechanism and ε.
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
    """What is measured for one group of users with one mechanism at one ε. The group's share of users, its accuracy
    with privacy, its accuracy without privacy and its loss of accuracy are means over replicates. The loss has a 95%
    interval. The entry `each` is an array over replicates: the group's loss minus the loss of all other users. part: a
    row for each replicate.
    """
    return {
        **{name: part[group.column(name)].mean() for name in (SHARE, REFERENCE_ACCURACY, ACCURACY)},
        **with_ends(LOSS, mean_interval(part[group.column(LOSS)])),
        "each": extra_loss(part, group).to_numpy(),
    }


def intervals(table: pd.DataFrame) -> int:
    """The number of different intervals in the table, for Bonferroni's correction. Each interval is for a difference:
    how much more accuracy a group loses than all other users. If a kind of group (such as sex) has only two groups,
    their differences are opposite numbers. The two intervals then count as one.

    Args:
        table: a row for each data set, mechanism, ε and group.
    """
    points = table.groupby(["panel", "mechanism", EPSILON, "kind"])["group"].size()
    return int(points.where(points > 2, 1).sum())


def _judged(table: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """How much more accuracy each row's group loses than the other users, with an interval and a verdict.

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
