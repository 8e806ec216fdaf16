"""What a privacy statement is: a bracket of ε, for whom it holds and under which conditions; and the numbers it takes.

Each number has a range, outside of which it is refused in one line. Numbers of NumPy are taken as the numbers of Python
that they are: single precision would void a certified bound.
"""

import math
import re
from abc import ABCMeta
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np

from p2p_sim.base.notebook_view import bound_text, card, count
from p2p_sim.privacy.conditions import identifier_of

Adjacency = Literal["label", "example"]
OBSERVERS = ("learner", "learner-times", "peer", "coalition", "eavesdropper")
"""Everybody for whom a figure is known."""
SEES_AT_MOST = {
    "learner": ("learner",),
    "learner-times": ("learner-times", "learner"),
    "coalition": ("coalition", "learner"),
    "peer": ("peer",),
    "eavesdropper": ("eavesdropper", "coalition", "learner-times", "peer", "learner"),
}
"""By observer, whoever sees no more of a release, so that the observer's figure bounds theirs too; the strongest first.

An eavesdropper sees every noisy label with its owner: all that anybody else has of a user's label is made from these.
"""
REALISED = "the realised network"
"""What a figure is conditional on that holds for the network as it turned out."""
EXACT = 1e-4
"""Ends of a bracket of an exact figure are no farther apart than this part of the upper one: no printed digit differs
by more than one."""
LARGEST_CLUSTER = 10_000_000
LARGEST_EPSILON = 700.0
"""Above ε₀ of every α of at least 1e-300."""


@dataclass(frozen=True)
class Bracket:
    """A lower and an upper bound of one number, such as δ at some ε."""

    lower: float
    upper: float

    def worded(self, basis: str) -> str:
        """The words for how the bounds were computed, with "certified" for "exact" where the two differ.

        >>> Bracket(0.71, 0.71).worded("exact, over all data sets")
        'exact, over all data sets'
        >>> Bracket(0.61, 0.71).worded("exact, over all data sets")
        'certified over all data sets'
        """
        if self.lower == self.upper or self.upper - self.lower <= EXACT * self.upper < math.inf:
            return basis
        return re.sub(r"\bexact\b(, over\b)?", lambda word: "certified" + " over" * bool(word[1]), basis)


@dataclass(frozen=True, repr=False)
class PrivacyBound:
    """ε at a given δ, for one observer, with everything that the statement needs.

    epsilon_lower: no smaller ε holds (attained by a data set and direction).
    epsilon_upper: certified to hold under `conditions`; infinite where nothing is known.
    delta: δ.
    observer: one of `OBSERVERS`: "learner" (sees the set of submissions), "learner-times" (sees also when each
        arrived), "peer", "coalition" (members pooled with the learner) or "eavesdropper".
    adjacency: what differs between neighbouring data sets: one user's label, or a whole example.
    basis: how the bounds were computed; "exact" only where both ends agree (`Bracket.worded`).
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
        """Replace a NaN by the bound that promises nothing, and "exact" where the two bounds differ."""
        if math.isnan(self.epsilon_upper):
            object.__setattr__(self, "epsilon_upper", math.inf)
        if math.isnan(self.epsilon_lower):
            object.__setattr__(self, "epsilon_lower", 0.0)
        object.__setattr__(self, "basis", Bracket(self.epsilon_lower, self.epsilon_upper).worded(self.basis))

    @property
    def condition_ids(self) -> tuple[str, ...]:
        """The identifiers of the conditions of the upper bound, in their order."""
        return tuple(identifier_of(condition) for condition in self.conditions)

    def __repr__(self) -> str:
        """The statement in one line; ε is rounded to the safe side, the conditions are counted.

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
        title = "Privacy statement" + "; it holds if" * bool(self.conditions)
        return card(title, lines, map(str, self.conditions))


def common_observer(observers: Iterable[str]) -> str:
    """The name of the strongest observer who sees no more than any of these: bounds for all of them hold for her.

    Raises:
        ValueError: there is none, such as of a peer, who does not see the release, and the learner.
    """
    # in a fixed order, in which unknown observers come last
    named = sorted(set(observers), key=lambda name: (OBSERVERS.index(name) if name in OBSERVERS else math.inf, name))
    shared: tuple[str, ...] = SEES_AT_MOST.get(named[0], (named[0],))
    for observer in named[1:]:
        shared = tuple(name for name in shared if name in SEES_AT_MOST.get(observer, (observer,)))
    if not shared:
        raise ValueError(f"observer = {', '.join(named)}: none of them sees no more than the others; give one observer")
    return shared[0]


def worst_bound(bounds: Sequence[PrivacyBound]) -> PrivacyBound:
    """One statement that holds for every user, each of whom has one of these: largest bounds, all conditions.

    Args:
        bounds: at least one, of one δ and adjacency. The basis is that of the largest upper end; the observer is
            `common_observer`, whichever figure is larger.
    """
    worst = max(bounds, key=lambda bound: bound.epsilon_upper)
    groups = dict.fromkeys((bound.conditions, bound.conditional_on) for bound in bounds)
    conditions = dict.fromkeys(condition for conditions, _ in groups for condition in conditions)
    networks = dict.fromkeys(network for _, network in groups if network)
    lower = max(bound.epsilon_lower for bound in bounds)
    observer = common_observer(bound.observer for bound in bounds)
    if any(bound.observer != observer for bound in bounds):
        lower = 0.0  # what a stronger observer attains says nothing of a weaker one
    return replace(
        worst,
        observer=observer,
        epsilon_lower=lower,
        conditions=tuple(conditions),
        conditional_on=" and ".join(networks),
    )


def check_range(
    name: str, value: float, least: float, largest: float, *, whole: bool = False, or_zero: bool = False
) -> None:
    """Raise a ValueError that names the parameter unless its value lies in [least, largest].

    Args:
        whole: whether it must be a whole number. or_zero: whether it may also be 0.
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
    """Raise a ValueError unless ε, of a noise scale or a target, is above 0 and finite."""
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
"""Methods of accountants and of laws of runs that take numbers."""


def plain(value: Any) -> Any:
    """A NumPy number, or those in a list or tuple, as Python numbers; an array in double precision; anything else as it
    is.
    """
    if isinstance(value, np.generic | np.ndarray):
        wide = value.astype(np.float64, copy=False) if np.issubdtype(value.dtype, np.floating) else value
        return wide.item() if wide.ndim == 0 else wide
    if type(value) in (list, tuple) and any(isinstance(entry, np.generic | np.ndarray) for entry in value):
        return type(value)(map(plain, value))
    return value


def plain_arguments(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A decorator: converts each argument by `plain`, from NumPy's numbers to Python's, before the call."""

    @wraps(function)
    def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return function(*map(plain, args), **{name: plain(value) for name, value in kwargs.items()})

    return called


class _PlainCalls(ABCMeta):
    """The metaclass of `PlainNumbers`: converts numbers of NumPy among constructor arguments to those of Python."""

    __call__ = plain_arguments(ABCMeta.__call__)


class PlainNumbers(metaclass=_PlainCalls):
    """Base of data classes whose fields, and the arguments of the methods in `ASKED`, may be NumPy numbers."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ASKED & vars(cls).keys():
            method = vars(cls)[name]
            if isinstance(method, staticmethod):
                setattr(cls, name, staticmethod(plain_arguments(method.__func__)))
            else:
                setattr(cls, name, plain_arguments(method))
