"""What the paid comparison runs: a mechanism on the users of one replicate, and three ways to choose its settings."""

from pathlib import Path
from typing import Any

from analysis.comparison.settings_runs import LEARNERS, MECHANISMS, candidates
from p2p_sim import Scenario
from p2p_sim.learning.metrics import measured, predict
from p2p_sim.mechanisms.deployment import Deployment
from p2p_sim.mechanisms.outcome import Outcome
from p2p_sim.population.population import Population
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.replicate.learn import learned_from
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import account, exchange, set_up
from p2p_sim.replicate.selection_scores import judged, scored
from p2p_sim.tuning.private_search import FIRST_RUN, TARGET, PrivateSearchPlan

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
WAYS = dict.fromkeys((*SETTINGS, "noisy aggregates"), CURATED) | {"noise shares": REHEARSED}
"""How each mechanism chooses; all others choose by the labels that they have released."""
MEAN_RUNS = 4.0
Line = dict[str, Any]
Task = tuple[dict[str, Any], str, int, Path | None, tuple[str, ...] | None]
"""The tree of the panel's scenario with ε as its target, the mechanism's name, the replicate, where data files are, and
the options to run; None: all."""


def way(mechanism: str) -> str:
    """What a mechanism's paid choice looks at."""
    return WAYS.get(mechanism, RELEASED)


def options(base: Scenario, name: str, epsilon: float) -> dict[str, Scenario]:
    """The scenarios to choose from, by what they are called; the first is the default."""
    classes = 10 if getattr(base.population, "task", "") == "classes" else 2
    table = {**MECHANISMS[name], "target_epsilon": epsilon}
    if name in SETTINGS:
        return {own: base.replace(mechanism={**table, **changes}) for own, changes in SETTINGS[name].items()}
    chosen = base.replace(mechanism=table)
    return {learner: chosen.replace(learner=LEARNERS[learner]) for learner in candidates(name, classes)}


def tried(task: Task) -> list[Line]:
    """The accuracy of options at the whole ε, a line each: on true labels, which no ε counts.

    Where labels are released, each line has the accuracy that they show as well (`RELEASED`).
    """
    tree, name, replicate, data_dir, wanted = task
    base = Scenario.from_tree(tree)
    epsilon, lines, done = tree["mechanism"]["target_epsilon"], list[Line](), None
    stated = Line()
    found = options(base, name, epsilon)
    for option, scenario in ((one, found[one]) for one in wanted or found):
        case = Replicate(scenario, replicate, data_dir)
        if done is None or name in SETTINGS:  # options that are learners share one release
            done = exchange(case)
            bound = account(case, done.population, done.mechanism, done.outcome).statements["epsilon_upper"]
            assert isinstance(bound, PrivacyBound)
            stated = {"epsilon_upper": bound.epsilon_upper, "delta": bound.delta, "trust": done.mechanism.trust}
        parts = done.population, done.mechanism, done.outcome
        line = {"replicate": replicate, "option": option, "accuracy": accuracy(case, *parts), **stated}
        if way(name) == RELEASED:
            shown = judged(case, *parts)
            line["shown"] = shown.lower if shown.value is None else shown.value
        lines.append(line)
    return lines


def selected(task: tuple[PrivateSearchPlan, int, Path | None]) -> Line:
    """The winner of a private selection: its accuracy, and ε of the whole."""
    plan, replicate, data_dir = task
    best: Line = {"score": -float("inf")}
    drawn = plan.runs(plan.candidates[0].seed, replicate)
    people = Replicate(plan.candidates[0], replicate, data_dir).people()
    for number, place in enumerate(drawn):
        case = Replicate(plan.calibrated[place], FIRST_RUN * (replicate + 1) + number, data_dir)
        mechanism, network = set_up(case, people)
        outcome = mechanism.release_on(network, people)
        score = scored(case, people, mechanism, outcome, plan.score_scale)
        if score > best["score"]:
            best = {"score": score, "place": place, "accuracy": accuracy(case, people, mechanism, outcome)}
    return {"replicate": replicate, "runs": len(drawn), "epsilon_upper": plan.bound.epsilon_upper, **best}


def accuracy(case: Replicate, people: Population, mechanism: Deployment, outcome: Outcome) -> float:
    """Of the case's learner: exact where the law is known, else on users who were held out."""
    model = learned_from(case, people, mechanism, outcome)
    error_rate = measured(predict(people, model, None), "zero_one").error_rate
    assert error_rate is not None
    return 1.0 - error_rate


def with_target(base: Scenario, name: str, epsilon: float) -> dict[str, Any]:
    """The tree of a task."""
    return base.replace(mechanism={**MECHANISMS[name], TARGET.split(".")[1]: epsilon}).model_dump(mode="json")
