"""What the second comparison runs: a mechanism on the users of one replicate, and its learners on the release."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from p2p_sim import Scenario
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.replicate.learn import learn
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import account, exchange

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
_LAW, _SOFT = (PLAIN, FORWARD, COMBINED, TREES), (PLAIN, MULTINOMIAL)
_CANDIDATES = {
    "label exchange": _LAW,
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


def candidates(mechanism: str, classes: int) -> tuple[str, ...]:
    """The learners to choose from: those that take what the mechanism releases; trees for two classes only."""
    found = _CANDIDATES.get(mechanism, (PLAIN,))
    return tuple(name for name in found if classes == 2 or name != TREES)


def learned(task: Task) -> list[Line]:
    """A line for each learner on one release: its accuracy, and that of the same learner without privacy.

    Lines have ε of the worst cluster, δ and who is trusted where the task asks for them.
    """
    tree, replicate, data_dir, names, accounted = task
    case = Replicate(Scenario.from_tree(tree), replicate, data_dir)
    done = exchange(case)
    people, mechanism, outcome = done.population, done.mechanism, done.outcome
    known: Line = {"replicate": replicate, "num_users": people.num_users}
    if accounted:
        bound = account(case, people, mechanism, outcome).statements["epsilon_upper"]
        assert isinstance(bound, PrivacyBound)
        known |= {"epsilon_upper": bound.epsilon_upper, "delta": bound.delta, "trust": mechanism.trust}
    lines = []
    for name in names:
        scenario = case.scenario.replace(learner=LEARNERS[name])
        risk = learn(replace(case, scenario=scenario), people, mechanism, outcome).risk
        assert risk.error_rate is not None
        assert risk.nonprivate_error_rate is not None
        accuracies = {"accuracy": 1.0 - risk.error_rate, "nonprivate_accuracy": 1.0 - risk.nonprivate_error_rate}
        lines.append(known | {"learner": name} | accuracies)
    return lines
