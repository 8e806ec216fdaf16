"""Privacy statements: bounds of ε with their observer and conditions. Also checks the numbers that accountants take.

A number outside its range is refused with a message of one line. NumPy's numbers are converted to Python's, because
arithmetic in single precision would void a certified bound.
"""

import math
import re
from abc import ABCMeta
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np

from p2p_sim.base import bound_text, card, count
from p2p_sim.privacy.conditions import CLAIMED, Condition

Adjacency = Literal["label", "example"]
OBSERVERS = ("learner", "learner-times", "peer", "coalition", "eavesdropper")
"""All observers for whom a bound is known."""
RATED = ("learner", "coalition")
"""Observers whose ε can depend on the sampling rate."""
SEES_AT_MOST = {
    "learner": ("learner",),
    "learner-times": ("learner-times", "learner"),
    "coalition": ("coalition", "learner"),
    "peer": ("peer",),
    "eavesdropper": ("eavesdropper", "coalition", "learner-times", "peer", "learner"),
}
"""For each observer, all observers who see only what she also sees, the strongest first. Her ε holds for all these
observers.

An eavesdropper sees every noisy label with its owner. Everything that other observers see of labels follows from these
noisy labels.
"""
REALISED = "the realised network"
"""`PrivacyBound.conditional_on` has this value if a bound takes what happened on the network as given."""
EXACT = 1e-4
"""Two bounds are called exact if their distance is at most this share of the upper bound."""
LARGEST_CLUSTER = 10_000_000
LARGEST_EPSILON = 700.0
"""A number above ε₀, the ε of a noisy label alone, for every flip probability α of at least 1e-300."""


@dataclass(frozen=True)
class Bracket:
    """A lower and an upper bound of one number, such as δ at some ε."""

    lower: float
    upper: float

    def worded(self, basis: str) -> str:
        """The words for how the bounds were computed. "exact" becomes "certified" unless the bounds agree.

        >>> Bracket(0.71, 0.71).worded("exact, over all data sets")
        'exact, over all data sets'
        >>> Bracket(0.61, 0.71).worded("exact, over all data sets")
        'certified over all data sets'
        """
        if self.lower == self.upper or self.upper - self.lower <= EXACT * self.upper < math.inf:
            return basis
        return re.sub(r"\bexact\b(, over\b)?", lambda word: "certified" + " over" * bool(word[1]), basis)


def identifier_of(condition: str) -> str:
    """The short name of a condition under which a bound of ε holds. Names serve to compare conditions.

    A `Condition` has this name as an attribute. Plain text, which a plug-in may give, has the name "claimed".
    """
    return condition.identifier if isinstance(condition, Condition) else CLAIMED


@dataclass(frozen=True, repr=False)
class PrivacyBound:
    """A privacy statement: bounds of ε at a given δ against one observer, and the conditions under which they hold.

    epsilon_lower: no smaller ε holds (some data set and direction attain this value).
    epsilon_upper: certified to hold under `conditions`; infinite if no finite ε is known.
    delta: δ.
    observer: one of `OBSERVERS`. "learner" sees the set of submissions. "learner-times" also sees when each submission
        arrived. "coalition" is a group of users together with the learner. The others are "peer" and "eavesdropper".
    adjacency: what differs between neighbouring data sets: one user's label, or a whole example.
    basis: how the bounds were computed; "exact" only if the bounds agree (`Bracket.worded`).
    conditions: conditions under which the upper bound holds. Each is a `Condition`, or plain text from a plug-in.
    conditional_on: what the bound also takes as given, such as "the realised network"; empty: nothing.
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
        """Corrects three fields. A bound of ε that is NaN promises nothing: the upper bound becomes infinity, the lower
        bound 0. In `basis`, "exact" becomes "certified" unless the bounds agree.
        """
        if math.isnan(self.epsilon_upper):
            object.__setattr__(self, "epsilon_upper", math.inf)
        if math.isnan(self.epsilon_lower):
            object.__setattr__(self, "epsilon_lower", 0.0)
        object.__setattr__(self, "basis", Bracket(self.epsilon_lower, self.epsilon_upper).worded(self.basis))

    @property
    def condition_ids(self) -> tuple[str, ...]:
        """The identifiers of the upper bound's conditions, in order."""
        return tuple(map(identifier_of, self.conditions))

    def __repr__(self) -> str:
        """The statement in one line, with the upper bound of ε rounded up, and with the number of conditions.

        >>> PrivacyBound(0.74208, 0.74211, 1e-5, "learner", "label", "exact", ("one", "two"))
        PrivacyBound(ε ≤ 0.7422 at δ = 1e-05, observer 'learner', adjacency 'label', exact, 2 conditions)
        """
        network = f" given {self.conditional_on}" if self.conditional_on else ""
        conditions = count(len(self.conditions), "condition")
        return (
            f"PrivacyBound(ε ≤ {bound_text(self.epsilon_upper, True)} at δ = {self.delta:g}{network}, observer "
            f"{self.observer!r}, adjacency {self.adjacency!r}, {self.basis}, {conditions})"
        )

    def _repr_html_(self) -> str:
        """The statement with its conditions as HTML, for notebooks."""
        lines = [
            ("ε, no more than", bound_text(self.epsilon_upper, True)),
            ("no smaller ε holds than", bound_text(self.epsilon_lower, False)),
            ("δ", f"{self.delta:g}"),
            ("observer", self.observer),
            ("adjacency", self.adjacency),
            ("basis", self.basis),
            *([("given", self.conditional_on)] if self.conditional_on else []),
        ]
        return card("Privacy statement" + "; it holds if" * bool(self.conditions), lines, map(str, self.conditions))


def common_observer(observers: Iterable[str]) -> str:
    """The strongest observer who sees only what each given observer also sees. All these observers' bounds of ε hold
    for her.

    Args:
        observers: names, at least one: learner, learner-times (the learner with arrival times), peer, coalition
        (members and learner together) or eavesdropper. A plug-in may use another name. What such an observer sees is
        unknown, so she has no common observer except with herself.

    Raises:
        ValueError: there is no such observer; an example is the learner with a peer, who does not see the submissions.
    """
    # in a fixed order, in which unknown observers come last
    named = sorted(set(observers), key=lambda name: (OBSERVERS.index(name) if name in OBSERVERS else math.inf, name))
    shared: tuple[str, ...] = SEES_AT_MOST.get(named[0], (named[0],))
    for observer in named[1:]:
        shared = tuple(name for name in shared if name in SEES_AT_MOST.get(observer, (observer,)))
    if not shared:
        raise ValueError(
            f"observer = {', '.join(named)}: no observer sees only what all of these see; give one observer"
        )
    return shared[0]


def worst_bound(bounds: Sequence[PrivacyBound]) -> PrivacyBound:
    """One privacy statement that holds for all users together, if each user has one of the given statements.

    The result has the largest bounds and all conditions. `basis` comes from the statement with the largest upper bound.
    The observer is the strongest observer who sees only what each statement's observer also sees. The lower bound is 0
    if observers differ: a lower bound for a stronger observer says nothing of a weaker observer.

    Args:
        bounds: the statements, at least one, all for the same δ and the same notion of neighbouring data sets.
    """
    worst = max(bounds, key=lambda bound: bound.epsilon_upper)
    observer = common_observer(bound.observer for bound in bounds)
    # a lower bound for a stronger observer is no lower bound for a weaker observer
    same_observer = all(bound.observer == observer for bound in bounds)
    return replace(
        worst,
        observer=observer,
        epsilon_lower=max(bound.epsilon_lower for bound in bounds) if same_observer else 0.0,
        conditions=tuple(dict.fromkeys(condition for bound in bounds for condition in bound.conditions)),
        conditional_on=" and ".join(dict.fromkeys(b.conditional_on for b in bounds if b.conditional_on)),
    )


def check_range(
    name: str, value: float, least: float, largest: float, *, whole: bool = False, or_zero: bool = False
) -> None:
    """Raise a ValueError that names the parameter unless the value lies in [least, largest].

    Args:
        whole: whether the value must be a whole number. or_zero: whether the value may also be 0.
    """
    inside = least <= value <= largest or (or_zero and value == 0.0)
    span = f"lie in [{least:g}, {largest:g}]"
    if whole:
        inside, span = inside and isinstance(value, int), f"be a whole number from {least} to {largest:,}"
    elif or_zero:
        span = f"be 0, or {span}"
    if not inside:
        raise ValueError(f"{name} = {value}: must {span}")


def check_epsilon(epsilon: float) -> None:
    """Raise a ValueError unless ε is a number of at least 0."""
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon = {epsilon}: must be at least 0")


def check_positive_epsilon(epsilon: float) -> None:
    """Raise a ValueError unless ε is above 0 and finite. This is for an ε that is a target, or that sets the noise."""
    if not 0.0 < epsilon < math.inf:
        raise ValueError(f"epsilon = {epsilon}: must be above 0 and finite")


def check_delta(delta: float) -> None:
    """Raise a ValueError unless δ lies strictly between 0 and 1."""
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta = {delta}: must lie in (0, 1)")


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
ASKED = {
    *("delta", "epsilon", "certified_delta", "profile", "satisfies", "user_delta"),
    *("renyi", "gdp", "pld", "best_share", "delta_of", "of_mean"),
}
"""Names of methods that take numbers: methods of accountants, and of classes for how often a mechanism is run."""


def plain(value: Any) -> Any:
    """The value, with NumPy's numbers replaced by Python's, also in a list or tuple. Arrays of floats get double
    precision.

    All other values are returned unchanged.
    """
    if isinstance(value, np.generic | np.ndarray):
        wide = value.astype(np.float64, copy=False) if np.issubdtype(value.dtype, np.floating) else value
        return wide.item() if wide.ndim == 0 else wide
    if type(value) in (list, tuple) and any(isinstance(entry, np.generic | np.ndarray) for entry in value):
        return type(value)(map(plain, value))
    return value


def plain_arguments(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A decorator that applies `plain` to each argument, also to those passed by name, before the call."""

    @wraps(function)
    def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return function(*map(plain, args), **{name: plain(value) for name, value in kwargs.items()})

    return called


class _PlainCalls(ABCMeta):
    """The metaclass of `PlainNumbers`: converts constructor arguments by `plain`."""

    __call__ = plain_arguments(ABCMeta.__call__)


class PlainNumbers(metaclass=_PlainCalls):
    """Base of data classes that take NumPy's numbers, as fields and as arguments of the methods in `ASKED`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ASKED & vars(cls).keys():
            method = vars(cls)[name]
            static = isinstance(method, staticmethod)
            setattr(cls, name, staticmethod(plain_arguments(method.__func__)) if static else plain_arguments(method))
