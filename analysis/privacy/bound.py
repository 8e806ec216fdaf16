"""What a privacy statement is: a bracket of ε, for whom it holds and under which conditions."""

from dataclasses import dataclass
from typing import Literal

Adjacency = Literal["label", "example"]


@dataclass(frozen=True)
class Bracket:
    """A lower and an upper bound of one number."""

    lower: float
    upper: float


@dataclass(frozen=True)
class PrivacyBound:
    """ε at a given δ, for one observer.

    epsilon_lower: no smaller ε holds (attained by a data set and direction).
    epsilon_upper: certified to hold under `conditions`; infinite where nothing is known.
    delta: δ.
    observer: who looks: "learner", "peer", "coalition" or "eavesdropper".
    adjacency: what differs between neighbouring data sets: one user's label, or a whole example.
    basis: where the figures come from.
    conditions: under which the upper bound holds.
    """

    epsilon_lower: float
    epsilon_upper: float
    delta: float
    observer: str
    adjacency: Adjacency
    basis: str
    conditions: tuple[str, ...] = ()
