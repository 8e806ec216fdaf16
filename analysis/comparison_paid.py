"""The comparison with every choice paid for: what each mechanism's place owed to choices that no ε counts.

Run as `python -m analysis.comparison_paid --data-dir DIR`; interrupted, it goes on where it stopped.
"""

from pathlib import Path
from typing import Any, cast

import pandas as pd

from analysis.comparison_second import (
    CHANGES,
    CONFIDENCE,
    LEARNERS,
    REDUCED,
    SEVERAL,
    Line,
    MechanismPoint,
    accuracy_panels,
    candidates,
    table_of,
    with_points,
)  # fmt: skip
from analysis.comparison_second import MECHANISMS as SECOND
from analysis.comparison_second import TRUST as SECOND_TRUST
from analysis.study import ROOT, Frame, command
from p2p_sim import Scenario, load_scenario
from p2p_sim.figures import plot_by_trust
from p2p_sim.learning import measured, predict
from p2p_sim.measures import mean_interval
from p2p_sim.mechanisms import Deployment, Outcome
from p2p_sim.population import Population
from p2p_sim.privacy import PrivacyBound
from p2p_sim.replicate import Replicate, account, exchange, judged, learned_from, scored, set_up
from p2p_sim.tuning import FIRST_RUN, PrivateSearchPlan, planned

RELEASED, REHEARSED, CURATED = "released labels", "a rehearsal on the known law", "private selection by a curator"
"""What a paid choice looks at."""
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
"""Settings to choose from of mechanisms with a curator, by name; the first is the one of the second comparison."""
MECHANISMS = SECOND | SEVERAL
"""The mechanisms by name, and their tables in a scenario without ε."""
TRUST = {**SECOND_TRUST, "trust nobody": (*SECOND_TRUST["trust nobody"], *SEVERAL)}
"""Whom users must trust, with the mechanisms; those of the second comparison and exchanges of several peers."""
WAYS = dict.fromkeys((*SETTINGS, "noisy aggregates"), CURATED) | dict.fromkeys(("noise shares", *SEVERAL), REHEARSED)
"""How each mechanism chooses; all others choose by the labels that they have released, whose noise they know."""
MEAN_RUNS = 4.0
Task = tuple[dict[str, Any], str, int, Path | None, tuple[str, ...] | None]
"""The tree of the panel's scenario with ε as its target, the mechanism's name, the replicate, where data files are, and
the options to run; None: all."""


def way(mechanism: str) -> str:
    """What a mechanism's paid choice looks at."""
    return WAYS.get(mechanism, RELEASED)


def options(base: Scenario, name: str, epsilon: float) -> dict[str, Scenario]:
    """The scenarios to choose from, by what they are called; the first is the default."""
    classes = 10 if getattr(base.population, "task", "") == "classes" else 2
    table = table_of(MechanismPoint(name, epsilon))
    if name in SETTINGS:
        return {own: base.replace(mechanism={**table, **changes}) for own, changes in SETTINGS[name].items()}
    chosen = base.replace(mechanism=table)
    return {learner: chosen.replace(learner=LEARNERS[learner]) for learner in candidates(name, classes)}


def tried(task: Task) -> list[Line]:
    """The accuracy of each option of a mechanism at the whole ε, a line each: on true labels, which no ε counts.

    Where labels are released, each line also has the accuracy that these labels estimate (`RELEASED`).
    """
    tree, name, replicate, data_dir, wanted = task
    every = options(Scenario.from_tree(tree), name, tree["mechanism"]["target_epsilon"])
    lines, release, stated = list[Line](), None, Line()
    for option in wanted or every:
        case = Replicate(every[option], replicate, data_dir)
        if release is None or name in SETTINGS:  # options that are learners share one release
            release = exchange(case)
            accounted = account(case, release.population, release.mechanism, release.outcome)
            bound = cast(PrivacyBound, accounted.statements["epsilon_upper"])
            stated = {"epsilon_upper": bound.epsilon_upper, "delta": bound.delta, "trust": release.mechanism.trust}
        parts = release.population, release.mechanism, release.outcome
        line = {"replicate": replicate, "option": option, "accuracy": accuracy(case, *parts), **stated}
        if way(name) == RELEASED:
            estimate = judged(case, *parts)
            line["shown"] = estimate.lower if estimate.value is None else estimate.value
        lines.append(line)
    return lines


def selected(task: tuple[PrivateSearchPlan, int, Path | None]) -> Line:
    """The winner of a private selection: its accuracy, and ε of the whole."""
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
            best = {"score": score, "place": candidate, "accuracy": accuracy(case, people, mechanism, outcome)}
    return {"replicate": replicate, "runs": len(drawn), "epsilon_upper": plan.bound.epsilon_upper, **best}


def accuracy(case: Replicate, people: Population, mechanism: Deployment, outcome: Outcome) -> float:
    """The accuracy of the case's learner: exact where the law is known, else on users who were held out."""
    model = learned_from(case, people, mechanism, outcome)
    return 1.0 - cast(float, measured(predict(people, model, None), "zero_one").error_rate)  # 0-1 loss has one


NAME = "comparison-paid"
EPSILON, EPSILONS = "mechanism.target_epsilon", (0.5, 2.0)
CHOOSING = 3
"""Replicates whose true labels choose for the free way, and for a rehearsal; all others are reported."""
USERS = 3_000
LAW = "synthetic"
"""The panel whose law is public: a rehearsal looks at it."""
DEFAULT, PAID, FREE = "no choice", "paid choice", "free choice"
CHOICES = (DEFAULT, PAID, FREE)


def main(frame: Frame, replicates: int = 8) -> list[Path]:
    """Compares the mechanisms with every choice paid for; returns the files written.

    They are the rows, the table of all points, and one figure each with paid and with free choices.

    Args:
        frame: where the study runs and writes. replicates: of each point; those that choose count, too.
    """
    count = CHOOSING + 2 if frame.small else replicates
    panels = REDUCED if frame.small else CHANGES
    bases = {}
    for panel, changes in panels.items():
        base = load_scenario(ROOT / "scenarios" / "comparison.toml").replace(name=f"{NAME}-{panel}", **changes)
        users = getattr(base.population, "users", None)  # data sets have as many as they have
        bases[panel] = base.replace(**{"population.users": min(users, USERS)}) if users else base
    tables = {panel: every(base, frame, count) for panel, base in bases.items()}
    rehearsal = freely(tables[LAW])  # on the panel whose law is public, so that it costs nothing on the others
    rows = pd.concat(
        [
            chosen_rows(base, tables[panel], rehearsal, frame, count).assign(panel=panel)
            for panel, base in bases.items()
        ],
        ignore_index=True,
    )
    frame.rows(rows, study=NAME, choosing=CHOOSING, replicates=count, mean_runs=MEAN_RUNS, users=USERS)
    table = points(rows)
    files = [frame.table("table.csv", table), frame.table("prices.csv", prices(rows))]
    for choice, file in ((PAID, "paid.png"), (FREE, "free.png")):
        files.append(_drawn(table[table["choice"] == choice], choice, frame.out / file))
    return files


def every(base: Scenario, frame: Frame, count: int) -> pd.DataFrame:
    """A line for each option of every mechanism in every replicate, run at the whole ε.

    The replicates that choose have all options; the others those that are reported, and those that released labels
    judge.
    """
    points = [MechanismPoint(name, epsilon) for epsilon in ((1.0,) if frame.small else EPSILONS) for name in MECHANISMS]
    first = _options_run(base, frame, range(CHOOSING), dict.fromkeys(points))
    free, wanted = freely(first), dict[MechanismPoint, tuple[str, ...] | None]()
    for point in points:
        # a curator's choice needs the default and the free option alone; its paid one is run by `selected`
        usual = next(iter(options(base, *point)))
        curated = way(point.mechanism) == CURATED
        wanted[point] = tuple(dict.fromkeys((usual, free[point]))) if curated else None
    return pd.concat([first, _options_run(base, frame, range(CHOOSING, count), wanted)], ignore_index=True)


def _options_run(
    base: Scenario, frame: Frame, replicates: range, wanted: dict[MechanismPoint, tuple[str, ...] | None]
) -> pd.DataFrame:
    """A line for each option of each mechanism at its ε in some replicates; `wanted`: the options, None for all of
    them.
    """
    runs = [(replicate, point) for replicate in replicates for point in wanted]
    trees = {point: base.replace(mechanism=table_of(point)).model_dump(mode="json") for point in wanted}
    tasks = [(trees[point], point.mechanism, replicate, frame.data_dir, wanted[point]) for replicate, point in runs]
    return with_points([point for _, point in runs], frame.each(tried, tasks))


def freely(rows: pd.DataFrame) -> dict[MechanismPoint, str]:
    """The free choice of each mechanism at each ε: the option with the largest mean accuracy in the replicates that
    choose.
    """
    choosing, keys = rows[rows["replicate"] < CHOOSING], ["mechanism", EPSILON]
    mean = choosing.groupby([*keys, "option"], sort=False, as_index=False)["accuracy"].mean()
    best = mean.loc[mean.groupby(keys, sort=False)["accuracy"].idxmax()]
    return {MechanismPoint(line["mechanism"], line[EPSILON]): line["option"] for line in best.to_dict("records")}


def chosen_rows(
    base: Scenario, rows: pd.DataFrame, rehearsal: dict[MechanismPoint, str], frame: Frame, count: int
) -> pd.DataFrame:
    """A row for each reported replicate of each mechanism, and each way to choose; `rehearsal`: the best options on the
    public law.
    """
    free, reported = freely(rows), rows[rows["replicate"] >= CHOOSING]
    lines: list[dict[str, Any]] = []
    for (name, epsilon), favourite in free.items():
        part = reported[(reported["mechanism"] == name) & (reported[EPSILON] == epsilon)]
        point = {"mechanism": name, EPSILON: epsilon, "way": way(name)}
        default = part["option"].iloc[0]
        for choice, option in ((DEFAULT, default), (FREE, favourite)):
            lines += _reported(part[part["option"] == option], point | {"choice": choice})
        # the paid choice: by released labels in each replicate, by the rehearsal for all, or by a private selection
        paid = point | {"choice": PAID}
        if way(name) == RELEASED:
            lines += _reported(part.loc[part.groupby("replicate")["shown"].idxmax()], paid)
        elif way(name) == REHEARSED:
            rehearsed = rehearsal.get(MechanismPoint(name, epsilon), default)
            option = rehearsed if rehearsed in set(part["option"]) else default
            lines += _reported(part[part["option"] == option], paid)
        else:
            # the winners of private selections in all reported replicates; the price of each is at most ε
            variants = options(base, name, epsilon)
            plan, names = planned(tuple(variants.values()), epsilon, MEAN_RUNS, frame.data_dir), list(variants)
            tasks = [(plan, replicate, frame.data_dir) for replicate in range(CHOOSING, count)]
            for line in frame.each(selected, tasks):
                columns = {key: line[key] for key in ("replicate", "accuracy", "epsilon_upper")}
                lines.append(paid | {"option": names[line["place"]], **columns})
    return pd.DataFrame(lines)


def _reported(part: pd.DataFrame, point: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the study at one point, one for each replicate in `part`: `point` with replicate, option, accuracy
    and ε.
    """
    columns = ["replicate", "option", "accuracy", "epsilon_upper"]
    lines = part[columns].itertuples(index=False, name=None)
    return [point | dict(zip(columns, line, strict=True)) for line in lines]


def points(rows: pd.DataFrame) -> pd.DataFrame:
    """A line for each panel, ε, mechanism and way to choose.

    Besides the mean accuracy with its interval: its place among all mechanisms, and how much less it is than that of
    the free choice (`price`), replicate by replicate. Intervals of prices hold together with 95%: Bonferroni over all.
    """
    keys, lines = ["panel", EPSILON, "mechanism"], list[dict[str, Any]]()
    cells = rows.groupby(keys, sort=False).ngroups
    for point, part in rows.groupby(keys, sort=False):
        wide = part.pivot(index="replicate", columns="choice", values="accuracy")
        for choice in CHOICES:
            used, mean = part[part["choice"] == choice], mean_interval(wide[choice])
            gap = mean_interval(wide[FREE] - wide[choice], 1.0 - (1.0 - CONFIDENCE) / (2 * cells))
            line = dict(zip(keys, point, strict=True)) | {"choice": choice, "way": used["way"].iloc[0]}
            line |= {"replicates": mean.replicates, "accuracy": mean.value}
            line |= {"accuracy_low": mean.low, "accuracy_high": mean.high}
            line |= {"price": gap.value, "price_low": gap.low, "price_high": gap.high}
            lines.append(line | {"epsilon_upper": used["epsilon_upper"].max()})
    table = pd.DataFrame(lines)
    table["place"] = table.groupby(["panel", EPSILON, "choice"])["accuracy"].rank(ascending=False, method="min")
    return table.astype({"place": int}).assign(comparisons=2 * cells)


def prices(rows: pd.DataFrame) -> pd.DataFrame:
    """A line for each mechanism: what the paid choice costs against the free one, and gains over none.

    Both are means over all panels and ε, replicate by replicate. Their intervals hold together with 95%: Bonferroni.
    """
    keys, lines = ["panel", EPSILON, "mechanism", "replicate"], list[dict[str, Any]]()
    wide = rows.pivot(index=keys, columns="choice", values="accuracy")
    each = pd.DataFrame({"price": wide[FREE] - wide[PAID], "gain": wide[PAID] - wide[DEFAULT]})
    mean = each.groupby(level=["mechanism", "replicate"]).mean()
    for name in dict.fromkeys(rows["mechanism"]):
        line: dict[str, Any] = {"mechanism": name, "way": way(name)}
        for column in ("price", "gain"):
            mean_of = mean_interval(mean.loc[name][column], 1.0 - (1.0 - CONFIDENCE) / (2 * len(MECHANISMS)))
            line |= {column: mean_of.value, f"{column}_low": mean_of.low, f"{column}_high": mean_of.high}
        lines.append(line | {"replicates": mean_of.replicates})
    return pd.DataFrame(lines)


def _drawn(table: pd.DataFrame, choice: str, path: Path) -> Path:
    """The figure of one way to choose."""
    choices = {
        PAID: f"Choices are paid for: {RELEASED}, {REHEARSED}, or {CURATED}, its price included in ε.",
        FREE: f"Choices look at true labels of {CHOOSING} other replicates, which no ε counts.",
    }[choice]
    bands = f"Bands: 95% intervals over {table['replicates'].min()} replicates"
    note = f"{choices} {bands}; label adjacency, the learner's view."
    plot_by_trust(accuracy_panels(table), TRUST, path, f"Every mechanism, {choice}", note)
    return path


if __name__ == "__main__":
    command(NAME, main)
