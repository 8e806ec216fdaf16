"""A comparison of mechanisms in which every choice is paid: a mechanism's ε also covers the choice of its options.

Run as `python -m analysis.comparison_paid --data-dir DIR`; the same command continues a stopped run.
"""

from pathlib import Path
from typing import Any, cast

import pandas as pd

from analysis import comparison_second as second
from analysis.comparison_second import (
    CHANGES,
    LEARNERS,
    REDUCED,
    SEVERAL,
    Line,
    MechanismPoint,
    Options,
    Task,
    accuracy_panels,
    candidates,
    chosen,
    run_points,
    table_of,
)  # fmt: skip
from analysis.study import EPSILON, Frame, command, comparison_base, joint_confidence, with_ends
from p2p_sim import Scenario
from p2p_sim.figures import plot_by_trust
from p2p_sim.learning import measured, predict
from p2p_sim.measures import mean_interval
from p2p_sim.mechanisms import Deployment, Outcome
from p2p_sim.population import Population
from p2p_sim.privacy import PrivacyBound
from p2p_sim.replicate import Replicate, account, exchange, judged, learned_from, scored, set_up
from p2p_sim.tuning import FIRST_RUN, PrivateSearchPlan, planned

RELEASED, REHEARSED, CURATED = "released labels", "a rehearsal on the known law", "private selection by a curator"
"""The possible bases of a paid choice. A choice is paid if the mechanism's ε covers it."""
OWN = "as it is"
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "DP-SGD": {
        OWN: {},
        "features of norm 3": {"feature_norm": 3.0},
        "features of norm 1, clip 2": {"feature_norm": 1.0, "clip": 2.0},
        "steps of length 1": {"learning_rate": 1.0},
    },
    "LabelDP-Pro": {
        OWN: {},
        "features of norm 3": {"feature_norm": 3.0},
        "steps of length 1": {"learning_rate": 1.0},
        "no smoothing": {"smoothing": 1.0},
    },
    "PATE": {
        OWN: {},
        "30 teachers": {"teachers": 30},
        "120 teachers": {"teachers": 120},
        "20 answers of 30": {"queries": 30, "answers": 20},
    },
}
"""Settings from which three mechanisms with a curator choose. `OWN` is the setting in `analysis.comparison_second`."""
MECHANISMS = second.MECHANISMS | SEVERAL
"""The mechanisms: each name, with the [mechanism] section of its scenario (without ε)."""
TRUST = {**second.TRUST, "trust nobody": (*second.TRUST["trust nobody"], *SEVERAL)}
"""Mechanisms, grouped by the party that users must trust. The exchanges with several peers are added to the mechanisms
of `analysis.comparison_second`."""
WAYS = dict.fromkeys((*SETTINGS, "noisy aggregates"), CURATED) | dict.fromkeys(("noise shares", *SEVERAL), REHEARSED)
"""The basis of a mechanism's paid choice, if the basis is not released labels."""
MEAN_RUNS = 4.0
"""Mean number of runs in a private selection."""


def way(mechanism: str) -> str:
    """The basis of a mechanism's paid choice: `RELEASED`, `REHEARSED` or `CURATED`. Released labels are the mechanism's
    own noisy release. A rehearsal uses a public synthetic distribution. With `CURATED`, a curator privately selects the
    best of several runs.

    Args:
        mechanism: its name.
    """
    return WAYS.get(mechanism, RELEASED)


def options(base: Scenario, name: str, epsilon: float) -> dict[str, Scenario]:
    """The options of a mechanism at ε: each name, with a scenario. The first option is the default. DP-SGD, LabelDP-Pro
    and PATE choose among settings of the mechanism. Other mechanisms choose among learners that can learn from the
    release.

    Args:
        base: the data set's scenario; an option replaces the mechanism, and possibly the learner. name: name of the
        mechanism. epsilon: target ε of the mechanism.
    """
    table = table_of(MechanismPoint(name, epsilon))
    if name in SETTINGS:
        return {own: base.replace(mechanism={**table, **changes}) for own, changes in SETTINGS[name].items()}
    learners = candidates(name, 10 if getattr(base.population, "task", "") == "classes" else 2)
    return {learner: base.replace(mechanism=table, learner=LEARNERS[learner]) for learner in learners}


def tried(task: Task) -> list[Line]:
    """A row for each option (a setting or a learner) of one mechanism at its ε in one replicate. A row has the accuracy
    on true labels, ε and δ of the release, and the party that users must trust. This ε does not cover the use of true
    labels. If the mechanism chooses by released labels, `shown` is the accuracy estimated from these labels.

    Args:
        task: the scenario as a nested mapping, the mechanism's name with its ε, the replicate, the folder of data
        files, and the options to run (None: all).
    """
    tree, point, replicate, data_dir, wanted = task
    name, every = point.mechanism, options(Scenario.from_tree(tree), *point)
    lines, parts, stated = list[Line](), None, Line()
    for option in wanted or every:
        case = Replicate(every[option], replicate, data_dir)
        if parts is None or name in SETTINGS:  # options that are learners share one release
            release = exchange(case)
            parts = release.population, release.mechanism, release.outcome
            bound = cast(PrivacyBound, account(case, *parts).statements["epsilon_upper"])
            stated = {"epsilon_upper": bound.epsilon_upper, "delta": bound.delta, "trust": release.mechanism.trust}
        line = {"replicate": replicate, "option": option, "accuracy": accuracy(case, *parts), **stated}
        if way(name) == RELEASED:
            estimate = judged(case, *parts)
            line["shown"] = estimate.lower if estimate.value is None else estimate.value
        lines.append(line)
    return lines


def selected(task: tuple[PrivateSearchPlan, int, Path | None]) -> Line:
    """The winner of one private selection. A selection makes a random number of runs. Each run trains a randomly drawn
    option of a mechanism. Only the run with the best noisy score is released. The result has the winner's option (as an
    index), noisy score and accuracy. It also has the number of runs, and the ε of the whole selection.

    Args:
        task: the plan of the selection, the replicate, and the folder of data files. The plan has the options, the
        noise and the law of the number of runs. The replicate determines users and noise.
    """
    plan, replicate, data_dir = task
    best: Line = {"score": -float("inf")}
    drawn = plan.runs(plan.candidates[0].seed, replicate)
    people = Replicate(plan.candidates[0], replicate, data_dir).people()
    for number, candidate in enumerate(drawn):
        case = Replicate(plan.calibrated[candidate], FIRST_RUN * (replicate + 1) + number, data_dir)
        mechanism, network = set_up(case, people)
        outcome = mechanism.release_on(network, people)
        score = scored(case, people, mechanism, outcome, plan.score_scale)
        if score > best["score"]:
            best = {"score": score, "index": candidate, "accuracy": accuracy(case, people, mechanism, outcome)}
    return {"replicate": replicate, "runs": len(drawn), "epsilon_upper": plan.bound.epsilon_upper, **best}


def accuracy(case: Replicate, people: Population, mechanism: Deployment, outcome: Outcome) -> float:
    """The accuracy of the scenario's learner on a release: exact if the users' law is known, else on held-out users."""
    model = learned_from(case, people, mechanism, outcome)
    return 1.0 - cast(float, measured(predict(people, model, None), "zero_one").error_rate)  # never None for 0-1 loss


NAME = "comparison-paid"
EPSILONS = (0.5, 2.0)
CHOOSING = 3
"""Number of replicates, at the start, that serve free choices and rehearsals. Only later replicates are reported."""
USERS = 3_000
"""Largest number of users of a panel (data set). A data set of fixed size keeps its size."""
LAW = "synthetic"
"""The panel with a public law (distribution of users and labels); rehearsals use this panel."""
DEFAULT, PAID, FREE = "no choice", "paid choice", "free choice"


def main(frame: Frame, replicates: int = 8) -> list[Path]:
    """Compares the mechanisms if ε also covers the choice of options (settings or learners). Returns the files of two
    tables and two figures. One table has all points. The other table has the accuracy that each mechanism's choice
    costs. One figure shows paid choices. The other figure shows free choices, which look at true labels; no ε covers
    this look.

    Args:
        frame: runs the study and writes its files. replicates: number of replicates of each point. The first 3 serve
        free choices and rehearsals, and are not reported.
    """
    count = CHOOSING + 2 if frame.small else replicates
    bases = {}
    for panel, changes in (REDUCED if frame.small else CHANGES).items():
        base = comparison_base(NAME, panel, changes)
        users = getattr(base.population, "users", None)  # None for data sets of fixed size
        bases[panel] = base.replace(**{"population.users": min(users, USERS)}) if users else base
    tables = {panel: every(base, frame, count) for panel, base in bases.items()}
    rehearsal = freely(tables[LAW])  # its law is public: choosing here costs no ε on other panels
    rows = pd.concat(
        [
            chosen_rows(base, tables[panel], rehearsal, frame, count).assign(panel=panel)
            for panel, base in bases.items()
        ],
        ignore_index=True,
    )
    frame.rows(rows, study=NAME, choosing=CHOOSING, replicates=count, mean_runs=MEAN_RUNS, users=USERS)
    table = points(rows)
    return [
        frame.table("table.csv", table),
        frame.table("prices.csv", prices(rows)),
        frame.figure(_draw, table[table["choice"] == PAID], "paid.png"),
        frame.figure(_draw, table[table["choice"] == FREE], "free.png"),
    ]


def every(base: Scenario, frame: Frame, count: int) -> pd.DataFrame:
    """A row with the accuracy for each mechanism, ε, replicate and option (a setting or a learner). Each option runs at
    the whole ε, as if the choice cost no ε. The first 3 replicates serve to choose, and run all options. Later
    replicates are reported, and also run all options. There is one exception: with a curator's private selection, later
    replicates run only the default and the free choice.

    Args:
        base: scenario of the data set. frame: runs the tasks. count: number of replicates, including the first 3.
    """
    points = [MechanismPoint(name, epsilon) for epsilon in ((1.0,) if frame.small else EPSILONS) for name in MECHANISMS]
    first = run_points(tried, base, frame, range(CHOOSING), dict.fromkeys(points))
    free, wanted = freely(first), dict[MechanismPoint, Options]()
    for point in points:
        # for a curator's mechanism, `selected` runs the paid choice later
        usual = next(iter(options(base, *point)))
        wanted[point] = tuple(dict.fromkeys((usual, free[point]))) if way(point.mechanism) == CURATED else None
    return pd.concat([first, run_points(tried, base, frame, range(CHOOSING, count), wanted)], ignore_index=True)


def freely(rows: pd.DataFrame) -> dict[MechanismPoint, str]:
    """The free choice for each pair of mechanism and ε: the option with the largest mean accuracy in the first 3
    replicates. A free choice looks at true labels, and no ε covers this look.

    Args:
        rows: one for each mechanism, ε, replicate and option, with the accuracy.
    """
    return chosen(rows[rows["replicate"] < CHOOSING], "option")


def chosen_rows(
    base: Scenario, rows: pd.DataFrame, rehearsal: dict[MechanismPoint, str], frame: Frame, count: int
) -> pd.DataFrame:
    """A row for each mechanism, ε, reported replicate and kind of choice, with the accuracy of the option taken.
    Without a choice the default option is taken. The free choice is the best option by true labels in the first 3
    replicates; no ε covers this choice. The paid choice is made by released noisy labels, by the rehearsal, or by a
    private selection within ε.

    Args:
        base: scenario of the data set. rows: the accuracy of all options that were run. rehearsal: the best option on
        the data set with a public law, for each mechanism and ε. frame: runs private selections. count: number of
        replicates, including the first 3.
    """
    free, reported = freely(rows), rows[rows["replicate"] >= CHOOSING]
    lines: list[dict[str, Any]] = []
    for (name, epsilon), favourite in free.items():
        part = reported[(reported["mechanism"] == name) & (reported[EPSILON] == epsilon)]
        point = {"mechanism": name, EPSILON: epsilon, "way": way(name)}
        default = part["option"].iloc[0]
        for choice, option in ((DEFAULT, default), (FREE, favourite)):
            lines += _reported(part[part["option"] == option], point | {"choice": choice})
        # released labels and private selections choose anew in each replicate; a rehearsal chooses once
        paid = point | {"choice": PAID}
        if way(name) == RELEASED:
            lines += _reported(part.loc[part.groupby("replicate")["shown"].idxmax()], paid)
        elif way(name) == REHEARSED:
            rehearsed = rehearsal.get(MechanismPoint(name, epsilon), default)
            option = rehearsed if rehearsed in set(part["option"]) else default
            lines += _reported(part[part["option"] == option], paid)
        else:
            # each private selection costs at most ε
            variants = options(base, name, epsilon)
            plan, names = planned(tuple(variants.values()), epsilon, MEAN_RUNS, frame.data_dir), list(variants)
            tasks = [(plan, replicate, frame.data_dir) for replicate in range(CHOOSING, count)]
            winners = pd.DataFrame(frame.each(selected, tasks))
            lines += _reported(winners.assign(option=[names[index] for index in winners["index"]]), paid)
    return pd.DataFrame(lines)


def _reported(part: pd.DataFrame, point: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of the table of choices, as dicts. A row has the columns of `point` (such as mechanism, ε and kind of
    choice). It also has the replicate, option, accuracy and ε of a row of `part`.
    """
    columns = ["replicate", "option", "accuracy", "epsilon_upper"]
    lines = part[columns].itertuples(index=False, name=None)
    return [point | dict(zip(columns, line, strict=True)) for line in lines]


def points(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each data set, ε, mechanism and kind of choice, with the mean accuracy and its 95% interval. The kinds
    are no choice (the default), paid choice (counted in ε) and free choice (by true labels of other replicates, not
    counted in ε). `place` is the rank of the accuracy among all mechanisms with the same kind of choice. `price` is the
    free choice's accuracy minus the row's accuracy, taken within replicates and averaged. All intervals of
    prices hold jointly with 95% confidence (Bonferroni's correction).

    Args:
        rows: one for each data set, ε, mechanism, choice and reported replicate.
    """
    keys, lines = ["panel", EPSILON, "mechanism"], list[dict[str, Any]]()
    cells = rows.groupby(keys, sort=False).ngroups
    for point, part in rows.groupby(keys, sort=False):
        wide = part.pivot(index="replicate", columns="choice", values="accuracy")
        for choice in (DEFAULT, PAID, FREE):
            used, mean = part[part["choice"] == choice], mean_interval(wide[choice])
            gap = mean_interval(wide[FREE] - wide[choice], joint_confidence(2 * cells))
            line = dict(zip(keys, point, strict=True)) | {"choice": choice, "way": used["way"].iloc[0]}
            line |= {"replicates": mean.replicates} | with_ends("accuracy", mean) | with_ends("price", gap)
            lines.append(line | {"epsilon_upper": used["epsilon_upper"].max()})
    table = pd.DataFrame(lines)
    table["place"] = table.groupby(["panel", EPSILON, "choice"])["accuracy"].rank(ascending=False, method="min")
    return table.astype({"place": int}).assign(comparisons=2 * cells)


def prices(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each mechanism. `price` is the accuracy that the paid choice loses against the free choice. `gain` is
    the accuracy that the paid choice gains over no choice. Both are means over data sets and ε in each replicate. The
    95% intervals of all mechanisms hold jointly (Bonferroni's correction).

    Args:
        rows: one for each data set (column panel), ε, mechanism, replicate and kind of choice (column choice), with the
        accuracy.
    """
    lines = list[dict[str, Any]]()
    wide = rows.pivot(index=["panel", EPSILON, "mechanism", "replicate"], columns="choice", values="accuracy")
    each = pd.DataFrame({"price": wide[FREE] - wide[PAID], "gain": wide[PAID] - wide[DEFAULT]})
    mean = each.groupby(level=["mechanism", "replicate"]).mean()
    for name in dict.fromkeys(rows["mechanism"]):
        line: dict[str, Any] = {"mechanism": name, "way": way(name)}
        for column in ("price", "gain"):
            interval = mean_interval(mean.loc[name][column], joint_confidence(2 * len(MECHANISMS)))
            line |= with_ends(column, interval)
        lines.append(line | {"replicates": interval.replicates})
    return pd.DataFrame(lines)


def _draw(table: pd.DataFrame, path: Path) -> None:
    """Draws the accuracy against ε, with a panel for each data set and a curve for each mechanism. table: rows of
    `points` with the same kind of choice. path: file of the figure.
    """
    choice = str(table["choice"].iloc[0])
    choices = {
        PAID: f"Choices are paid for: {RELEASED}, {REHEARSED}, or {CURATED}, its price included in ε.",
        FREE: f"Choices look at true labels of {CHOOSING} other replicates, which no ε counts.",
    }[choice]
    note = (
        f"{choices} Bands: 95% intervals over {table['replicates'].min()} replicates; label adjacency, the learner's "
        "view."
    )
    plot_by_trust(accuracy_panels(table), path, TRUST, f"Every mechanism, {choice}", note)


if __name__ == "__main__":
    command(NAME, main)
