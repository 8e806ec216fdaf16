"""What a privacy statement is: a bracket of ε, for whom it holds and under which conditions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from p2p_sim.analysis.privacy.statement.conditions import identifier_of
from p2p_sim.analysis.privacy.statement.shown import bound_text, card

Adjacency = Literal["label", "example"]
OBSERVERS = ("learner", "learner-times", "peer", "coalition", "eavesdropper")
"""Everybody for whom a figure is known."""
REALISED = "the realised network"
"""What a figure is conditional on that holds for the network as it turned out."""


@dataclass(frozen=True)
class Bracket:
    """A lower and an upper bound on one number."""

    lower: float
    upper: float


@dataclass(frozen=True, repr=False)
class PrivacyBound:
    """ε at a given δ, for one observer, with everything that the statement needs.

    epsilon_lower: no smaller ε holds (attained by a data set and direction).
    epsilon_upper: certified to hold under `conditions`; infinite where nothing is known.
    delta: δ.
    observer: one of `OBSERVERS`: "learner" (sees the set of submissions), "learner-times" (sees also when each
        arrived), "peer", "coalition" (members pooled with the learner) or "eavesdropper".
    adjacency: what differs between neighbouring data sets: one user's label, or a whole example.
    basis: how the bounds were computed.
    conditions: the conditions of the upper bound; each a `Condition`, or plain text if a plug-in claims it.
    conditional_on: "the realised network" if the bound takes it as given; empty: only the conditions.
    """

    epsilon_lower: float
    epsilon_upper: float
    delta: float
    observer: str
    adjacency: Adjacency
    basis: str
    conditions: tuple[str, ...] = ()
    conditional_on: str = ""

    def __post_init__(self) -> None:
        """No number is no promise: an end that is NaN becomes the one that says nothing."""
        if math.isnan(self.epsilon_upper):
            object.__setattr__(self, "epsilon_upper", math.inf)
        if math.isnan(self.epsilon_lower):
            object.__setattr__(self, "epsilon_lower", 0.0)

    @property
    def condition_ids(self) -> tuple[str, ...]:
        """The identifiers of the conditions, in their order."""
        return tuple(identifier_of(condition) for condition in self.conditions)

    def __repr__(self) -> str:
        """The statement in one line; ε is rounded to the safe side, the conditions are counted.

        >>> PrivacyBound(0.74208, 0.74211, 1e-5, "learner", "label", "exact", ("one", "two"))
        PrivacyBound(ε ≤ 0.7422 at δ = 1e-05, observer 'learner', adjacency 'label', exact, 2 conditions)
        """
        given = f" given {self.conditional_on}" if self.conditional_on else ""
        count = f"{len(self.conditions)} condition{'s' * (len(self.conditions) != 1)}"
        return (
            f"PrivacyBound(ε ≤ {bound_text(self.epsilon_upper, True)} at δ = {self.delta:g}{given}, observer "
            f"{self.observer!r}, adjacency {self.adjacency!r}, {self.basis}, {count})"
        )

    def _repr_html_(self) -> str:
        """The statement with its conditions, for notebooks."""
        lines = [
            ("ε, no more than", bound_text(self.epsilon_upper, True)),
            ("no smaller ε holds than", bound_text(self.epsilon_lower, False)),
            ("δ", f"{self.delta:g}"),
            ("observer", self.observer),
            ("adjacency", self.adjacency),
            ("basis", self.basis),
            *([("given", self.conditional_on)] if self.conditional_on else []),
        ]
        title = "Privacy statement" + "; it holds if" * bool(self.conditions)
        return card(title, lines, map(str, self.conditions))


def together(bounds: Sequence[PrivacyBound]) -> PrivacyBound:
    """The statement about all users, whichever of these bounds is hers: the largest figures under all conditions.

    Args:
        bounds: at least one, of one δ, observer and adjacency. The basis is that of the largest upper end.
    """
    worst = max(bounds, key=lambda bound: bound.epsilon_upper)
    groups = dict.fromkeys((bound.conditions, bound.conditional_on) for bound in bounds)
    conditions = dict.fromkeys(condition for conditions, _ in groups for condition in conditions)
    given = dict.fromkeys(given for _, given in groups if given)
    lower = max(bound.epsilon_lower for bound in bounds)
    return replace(worst, epsilon_lower=lower, conditions=tuple(conditions), conditional_on=" and ".join(given))
