"""Whether what the mechanism of a plug-in states is a statement: one line about the first fault."""

from collections.abc import Sequence
from typing import Any, get_args

from p2p_sim.base.errors import InputError
from p2p_sim.privacy.bound import OBSERVERS, Adjacency, PrivacyBound


def check_bounds(method: str, bounds: Any, count: int, delta: float) -> None:
    """Refuse statements that nobody could read: one for each of some clusters.

    Raises:
        InputError: there are not as many, or one is no statement of an observer at δ.
    """
    right = isinstance(bounds, Sequence) and len(bounds) == count
    require(method, right, f"must give {count} bounds, one for each cluster or size of cluster, not "
                            f"{len(bounds) if isinstance(bounds, Sequence) else type(bounds).__name__}")  # fmt: skip
    for bound in {id(bound): bound for bound in bounds}.values():
        check_bound(method, bound, delta)


def check_bound(method: str, bound: Any, delta: float) -> None:
    """Refuse a statement whose ends, δ, observer or adjacency are none."""
    require(method, isinstance(bound, PrivacyBound), f"must give a PrivacyBound, not {type(bound).__name__}")
    low, high = bound.epsilon_lower, bound.epsilon_upper
    require(method, 0.0 <= low <= high,
             f"epsilon_lower = {low:g} must be at least 0 and at most epsilon_upper = {high:g}")  # fmt: skip
    require(method, bound.delta == delta, f"its bound is at delta = {bound.delta:g}, not at {delta:g}")
    require(method, bound.observer in OBSERVERS,
             f"observer = {bound.observer!r}: must be one of {', '.join(OBSERVERS)}")  # fmt: skip
    require(method, bound.adjacency in get_args(Adjacency),
             f"adjacency = {bound.adjacency!r}: must be one of {', '.join(get_args(Adjacency))}")  # fmt: skip


def require(method: str, right: bool, what: str) -> None:
    """Raise InputError with what a method must give if what it gave is not right."""
    if not right:
        raise InputError(f"{method}{what}")
