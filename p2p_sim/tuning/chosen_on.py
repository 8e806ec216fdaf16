"""What a choice of settings may look at, and what it costs."""

from collections.abc import Sequence

from p2p_sim.base.errors import InputError
from p2p_sim.replicate.holdout_score import check_law_known
from p2p_sim.scenario import Scenario
from p2p_sim.tuning.goal import Goal

COSTS = {
    "public": "rehearsal on a synthetic or public data set; the choice costs no ε",
    "released": "choices after a release; they cost no ε",
    "curator": "private selection by a curator; its ε includes the choice",
    "oracle": "looks at true labels that no ε counts; no ε of this search protects them",
}
"""The four kinds of search, and what each costs."""
LOOKS = tuple(COSTS)


def check_look(look: str, scenario: Scenario, keys: Sequence[str]) -> None:
    """Refuse a search that would look at more than it declares.

    Args:
        look: what the search declares. scenario: whose population is searched. keys: that the search varies.

    Raises:
        InputError: one line.
    """
    if look not in LOOKS:
        raise InputError(f"--look {look}: must be one of {', '.join(LOOKS)}")
    if look == "public" and scenario.population.own:
        raise InputError(
            f"--look public: population.kind = {scenario.population.kind!r} is your own data, with private labels; "
            "search on a synthetic or public data set, or name the unpaid look: --look oracle"
        )
    if look == "released" and (further := [key for key in keys if not key.startswith("learner.")]):
        raise InputError(
            f"--look released: {further[0]} changes the release: each value would be another release, and ε would have "
            "to count all of them; search keys of the learner only, or rehearse: --look public"
        )
    if look == "released":
        check_law_known(scenario, "--look released")


def check_goal(look: str, goal: Goal) -> None:
    """Refuse a goal that a look cannot judge.

    Raises:
        InputError: one line.
    """
    if look in ("released", "curator") and goal.column in ("excess_risk", "half_l1"):
        raise InputError(f"--goal {goal.column}: nobody can judge it with --look {look}; choose accuracy or error_rate")
    if look == "curator" and goal.epsilon is None:
        raise InputError(
            "--accuracy: does not go with --look curator, whose price is fixed before it looks; give --epsilon"
        )
