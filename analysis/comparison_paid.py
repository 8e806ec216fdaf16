"""A comparison of mechanisms in which every choice is paid for: a mechanism's ε also covers the choice of its options.

Run as `python -m analysis.comparison_paid --data-dir DIR`; a run that was stopped goes on where it stopped.
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
"""What a paid choice can be based on. A choice is paid for if the mechanism's ε covers it."""
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
"""Settings from which mechanisms with a curator choose. The first is the setting in `analysis.comparison_second`."""
MECHANISMS = second.MECHANISMS | SEVERAL
"""The mechanisms: their names, with their tables in a scenario without ε."""
TRUST = {**second.TRUST, "trust nobody": (*second.TRUST["trust nobody"], *SEVERAL)}
"""Mechanisms, grouped by the party that users must trust: all mechanisms of `analysis.comparison_second`, and exchanges
with several peers."""
WAYS = dict.fromkeys((*SETTINGS, "noisy aggregates"), CURATED) | dict.fromkeys(("noise shares", *SEVERAL), REHEARSED)
"""What the paid choice of a mechanism's options is based on, if not on released labels."""
MEAN_RUNS = 4.0
"""Mean number of runs of a private selection."""


def way(mechanism: str) -> str:
    """What the paid choice of a mechanism's settings or learner is based on; "paid" means that the mechanism's ε covers
    the choice. The basis is "released labels" (the mechanism's own noisy release), "a rehearsal on the known law" (a
    public synthetic distribution) or "private selection by a curator".

    Args:
        mechanism: its name.
    """
    return WAYS.get(mechanism, RELEASED)


def options(base: Scenario, name: str, epsilon: float) -> dict[str, Scenario]:
    """The options from which a mechanism may choose at its ε: their names, each with a scenario. The first is the
    default. For three mechanisms with a curator (DP-SGD, LabelDP-Pro, PATE) the options are settings of the mechanism
    itself. For all others they are learners that can learn from its release.

    Args:
        base: scenario whose mechanism is replaced; its learner is replaced too where learners are the options. name: of
        the mechanism. epsilon: its target ε.
    """
    table = table_of(MechanismPoint(name, epsilon))
    if name in SETTINGS:
        return {own: base.replace(mechanism={**table, **changes}) for own, changes in SETTINGS[name].items()}
    learners = candidates(name, 10 if getattr(base.population, "task", "") == "classes" else 2)
    return {learner: base.replace(mechanism=table, learner=LEARNERS[learner]) for learner in learners}


def tried(task: Task) -> list[Line]:
    """A row for each option (a setting of the mechanism, or a learner) of one mechanism at its ε in one replicate. The
    row has the accuracy on true labels, the ε and δ of the release, and the party that users must trust. This ε does
    not cover the look at true labels. If the mechanism chooses by its released labels, `shown` is the accuracy
    estimated from these labels.

    Args:
        task: the scenario as a nested mapping, the mechanism's name with its ε, the replicate, the folder of data
        files, and the names of the options to run (None: all).
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
    option of a mechanism, and only the run with the best noisy score is released. Returns the winner's option as an
    index, its noisy score and its accuracy, with the number of runs and the ε of the whole selection.

    Args:
        task: the plan of the selection (options, noise and law of the number of runs), the replicate (it decides on
        users and noise), and the folder of data files.
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
"""Number of the first replicates, which serve free choices and rehearsals by their true labels. Only later replicates
are reported.
"""
USERS = 3_000
"""Largest number of users of a panel (data set). A data set with a fixed number of users keeps this number."""
LAW = "synthetic"
"""The panel whose law is public, so that rehearsals can be made on it."""
DEFAULT, PAID, FREE = "no choice", "paid choice", "free choice"


def main(frame: Frame, replicates: int = 8) -> list[Path]:
    """Compares the mechanisms when the choice of their options (settings or learners) is paid for in ε; returns the
    files of two tables and two figures. One table has all points, the other what each mechanism's choice costs in
    accuracy. One figure shows paid choices. The other shows free choices, which look at true labels; no ε covers this
    look.

    Args:
        frame: where the study runs and writes. replicates: of each point; the first 3 of them serve free choices and
        rehearsals and are not reported.
    """
    count = CHOOSING + 2 if frame.small else replicates
    bases = {}
    for panel, changes in (REDUCED if frame.small else CHANGES).items():
        base = comparison_base(NAME, panel, changes)
        users = getattr(base.population, "users", None)  # None for data sets of a fixed number of users
        bases[panel] = base.replace(**{"population.users": min(users, USERS)}) if users else base
    tables = {panel: every(base, frame, count) for panel, base in bases.items()}
    rehearsal = freely(tables[LAW])  # on the panel whose law is public, so that it costs no ε on other panels
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
    """A row for each mechanism, ε, replicate and option (a setting or a learner), with its accuracy; each option is run
    at the whole ε, as if the choice cost no ε. All options are run both in the first 3 replicates, which serve to
    choose options, and in the later ones, which are reported. There is one exception: in later replicates, a mechanism
    that chooses by a curator's private selection runs only the default and the free choice.

    Args:
        base: scenario of the data set. frame: runs the tasks. count: number of replicates, the first 3 among them.
    """
    points = [MechanismPoint(name, epsilon) for epsilon in ((1.0,) if frame.small else EPSILONS) for name in MECHANISMS]
    first = run_points(tried, base, frame, range(CHOOSING), dict.fromkeys(points))
    free, wanted = freely(first), dict[MechanismPoint, Options]()
    for point in points:
        # a curator's default and free choice are enough here; `selected` runs the paid choice
        usual = next(iter(options(base, *point)))
        wanted[point] = tuple(dict.fromkeys((usual, free[point]))) if way(point.mechanism) == CURATED else None
    return pd.concat([first, run_points(tried, base, frame, range(CHOOSING, count), wanted)], ignore_index=True)


def freely(rows: pd.DataFrame) -> dict[MechanismPoint, str]:
    """The free choice for each mechanism and ε: the name of the option (a setting or a learner) with the largest mean
    accuracy in the first 3 replicates. This choice looks at true labels, and no ε covers this look. The result's keys
    are pairs of mechanism and ε.

    Args:
        rows: one for each mechanism, ε, replicate and option, with its accuracy.
    """
    return chosen(rows[rows["replicate"] < CHOOSING], "option")


def chosen_rows(
    base: Scenario, rows: pd.DataFrame, rehearsal: dict[MechanismPoint, str], frame: Frame, count: int
) -> pd.DataFrame:
    """A row for each mechanism, ε, reported replicate and kind of choice, with the accuracy of the option taken.
    Without a choice the default option is taken. The free choice is the best option by true labels in the first 3
    replicates; no ε covers this look at true labels. The paid choice is made by released noisy labels, by the
    rehearsal, or by a private selection within ε.

    Args:
        base: scenario of the data set. rows: the accuracy of all options that were run. rehearsal: for each mechanism
        and ε, the best option on the data set whose law is public, so that choosing there costs no ε. frame: runs
        private selections. count: number of replicates, the first 3 among them.
    """
    free, reported = freely(rows), rows[rows["replicate"] >= CHOOSING]
    lines: list[dict[str, Any]] = []
    for (name, epsilon), favourite in free.items():
        part = reported[(reported["mechanism"] == name) & (reported[EPSILON] == epsilon)]
        point = {"mechanism": name, EPSILON: epsilon, "way": way(name)}
        default = part["option"].iloc[0]
        for choice, option in ((DEFAULT, default), (FREE, favourite)):
            lines += _reported(part[part["option"] == option], point | {"choice": choice})
        # the paid choice is made by released labels in each replicate, by the rehearsal, or by a private selection in
        # each replicate
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
    """Rows of the table of choices, as dicts: for each row of `part` its replicate, option, accuracy and ε, after the
    columns of `point`.

    Args:
        part: rows of one mechanism and ε, one for each replicate. point: columns that all of them share: mechanism,
        ε and kind of choice.
    """
    columns = ["replicate", "option", "accuracy", "epsilon_upper"]
    lines = part[columns].itertuples(index=False, name=None)
    return [point | dict(zip(columns, line, strict=True)) for line in lines]


def points(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each data set, ε, mechanism and kind of choice of its options, with the mean accuracy and its 95%
    interval. The kinds are no choice (the default), paid choice (counted in ε) and free choice (by true labels of other
    replicates, not counted in ε). `place` is the rank of the row's accuracy among all mechanisms. `price` is the
    accuracy of the free choice minus the row's accuracy, replicate by replicate; all intervals of prices hold jointly
    with 95% confidence (Bonferroni's correction).

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
    """A row for each mechanism: how much accuracy the paid choice of its options (counted in ε) loses against the free
    choice (by true labels, not counted in ε), and how much it gains over no choice. In each replicate, loss and gain
    are means over data sets and ε. The 95% intervals of all mechanisms hold jointly (Bonferroni's correction).

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
    """Draws a figure of the accuracy against ε, with a panel for each data set and a curve for each mechanism.

    Args:
        table: a row for each data set, ε and mechanism, all with the same kind of choice. It has the columns panel (the
        data set), choice, mechanism, mechanism.target_epsilon, replicates, accuracy, accuracy_low and accuracy_high.
        path: file of the figure.
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
