"""The goal of a search (the best score within an ε, or the least ε), and the data that a search may use."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from p2p_sim.base import InputError
from p2p_sim.replicate import LOWER, VALUE, check_law_known
from p2p_sim.scenario import Scenario

SCORES = {"accuracy": True, "error_rate": False, "excess_risk": False, "half_l1": False}
"""Columns that may be a goal, and whether larger values are better."""
LARGEST_VIOLATION = 1e6
"""The number that replaces a larger or infinite ε or violation. The sampler, which proposes settings, takes no infinite
number."""


@dataclass(frozen=True)
class Measured:
    """The score and the certified ε of one replicate."""

    score: float
    epsilon: float


@dataclass(frozen=True)
class Goal:
    """The goal of a search: the best score within an ε, or the least ε within an accuracy.

    column: the column of rows with the score. epsilon: the largest ε allowed, at the scenario's δ; None: the least ε is
    searched. accuracy: the least mean accuracy allowed; None: the best score is searched.
    judged: True: scores are estimated from released labels. False: scores are measured on true labels.
    """

    column: str = "accuracy"
    epsilon: float | None = None
    accuracy: float | None = None
    judged: bool = False

    def __post_init__(self) -> None:
        if self.column not in SCORES:
            raise InputError(f"--goal {self.column}: must be one of {', '.join(SCORES)}")
        if (self.epsilon is None) == (self.accuracy is None):
            raise InputError("--epsilon, --accuracy: give one of them: the largest ε, or the least accuracy")
        if self.accuracy is not None and self.column != "accuracy":
            raise InputError(f"--goal {self.column}: does not go with --accuracy, which searches for the least ε")
        if self.epsilon is not None and not 0 < self.epsilon <= 100:
            raise InputError(f"--epsilon {self.epsilon:g}: must be above 0 and at most 100")
        if self.accuracy is not None and not 0 < self.accuracy <= 1:
            raise InputError(f"--accuracy {self.accuracy:g}: must be above 0 and at most 1")

    def measured(self, row: Mapping[str, Any]) -> Measured:
        """The score and the certified ε of one replicate, from its row. A missing ε counts as infinite. Released labels
        may give only a range of accuracies; then the lower end counts.

        Raises:
            InputError: the row has no such score.
        """
        if self.judged:  # of a range of accuracies, the lower end counts
            accuracy = row[LOWER] if row[VALUE] is None else row[VALUE]
            score = accuracy if self.column == "accuracy" else 1.0 - accuracy
        else:
            score = row.get("error_rate" if self.column == "accuracy" else self.column)
            score = 1.0 - score if self.column == "accuracy" and score is not None else score
        if score is None:
            usable = "accuracy" if row["error_rate"] is not None else "half_l1"
            raise InputError(f"--goal {self.column}: the rows of this scenario have no such score; choose {usable}")
        epsilon = row["epsilon_upper"]
        return Measured(float(score), math.inf if epsilon is None else float(epsilon))

    def score(self, replicates: Sequence[Measured]) -> float:
        """The mean score over replicates."""
        return math.fsum(replicate.score for replicate in replicates) / len(replicates)

    def loss(self, replicates: Sequence[Measured]) -> float:
        """The number that a search minimises: the mean score or, if the least ε is searched, the largest ε.

        A score of which more is better, such as accuracy, is negated. An ε above 1e6 becomes 1e6.
        """
        if self.accuracy is not None:
            return min(max(replicate.epsilon for replicate in replicates), LARGEST_VIOLATION)
        return -self.score(replicates) if SCORES[self.column] else self.score(replicates)

    def violation(self, replicates: Sequence[Measured]) -> float:
        """The distance of a setting from the goal's condition. A value of 0 or less meets the condition.

        The distance is the excess of ε over its limit or, if the least ε is searched, the accuracy that is missing. A
        distance above 1e6 becomes 1e6. The ε of a setting is the largest ε over replicates, never an average.
        """
        if self.accuracy is not None:
            excess = self.accuracy - self.score(replicates)
        else:
            excess = max(replicate.epsilon for replicate in replicates) - self.largest_epsilon
        return min(excess, LARGEST_VIOLATION)

    @property
    def largest_epsilon(self) -> float:
        """The largest ε allowed. Infinite if the least ε is searched."""
        return math.inf if self.epsilon is None else self.epsilon

    def __str__(self) -> str:
        """The goal in words."""
        if self.epsilon is not None:
            best = "largest" if SCORES[self.column] else "smallest"
            return f"{best} {self.column} with ε at most {self.epsilon:g}"
        return f"least ε with a mean accuracy of at least {self.accuracy:g}"


COSTS = {
    "public": "rehearsal on a synthetic or public data set; the choice costs no ε",
    "released": "choices after a release; they cost no ε",
    "curator": "private selection by a curator; its ε includes the choice",
    "oracle": "looks at true labels that no ε counts; no ε of this search protects them",
}
"""The looks of a search. A look is the kind of data that a search uses; its text states the cost in ε."""
LOOKS = tuple(COSTS)


def check_look(look: str, scenario: Scenario, keys: Sequence[str]) -> None:
    """Check that a search uses no more data than `look` declares.

    Args:
        look: "public": only synthetic or public data; the choice costs no ε. "released": noisy labels that are released
        once; only keys of the learner may vary, and the choice costs no ε. "curator": true labels, by a private
        selection whose ε includes the choice. "oracle": true labels, which no ε counts. scenario: the scenario that is
        searched. keys: the keys that the search varies.

    Raises:
        InputError: the look is unknown or does not allow this search. With the look "released", faults of the network
        and adversaries are not allowed. The message is one line.
    """
    if look not in LOOKS:
        raise InputError(f"--look {look}: must be one of {', '.join(LOOKS)}")
    if look == "public" and scenario.population.own:
        raise InputError(
            f"--look public: population.kind = {scenario.population.kind!r} is your own data, with private labels; "
            "search on a synthetic or public data set, or use true labels that no ε counts: --look oracle"
        )
    if look == "released" and (further := [key for key in keys if not key.startswith("learner.")]):
        raise InputError(
            f"--look released: {further[0]} changes the release: each value would be another release, and ε would have "
            "to count every release; search keys of the learner only, or rehearse: --look public"
        )
    if look == "released":
        check_law_known(scenario, "--look released")


def check_goal(look: str, goal: Goal) -> None:
    """Check that a search can measure the goal with the data that `look` allows.

    Excess risk and distances of densities need the true distribution of the data, which only a simulation knows. So the
    looks "released" and "curator" exclude both scores. A curator fixes ε before the search. So the look "curator" needs
    a largest ε as the condition.

    Args:
        look: "public", "released", "curator" or "oracle". goal: the score and the condition.

    Raises:
        InputError: `look` and `goal` do not go together. The message is one line.
    """
    if look in ("released", "curator") and goal.column in ("excess_risk", "half_l1"):
        raise InputError(f"--goal {goal.column}: nobody can judge it with --look {look}; choose accuracy or error_rate")
    if look == "curator" and goal.epsilon is None:
        raise InputError("--accuracy: does not go with --look curator, which fixes ε before the search; give --epsilon")
