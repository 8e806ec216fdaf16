"""Checks of what a plug-in's mechanism returns. Each check raises a one-line error about the first fault.

In all checks the argument `method` is the beginning of the message, with the names of the plug-in and of its method.
"""

from collections.abc import Hashable, Sequence
from typing import Any, cast, get_args

import numpy as np

from p2p_sim.base import InputError, described, is_array, is_number, maker_of, method_of, misfit, require
from p2p_sim.mechanisms.outcome import LabelRelease, ModelRelease, ReleaseKind
from p2p_sim.privacy import OBSERVERS, Accountant, Adjacency, Bracket, PrivacyBound

_OFF = 1e-3
"""Largest allowed difference between a sum of class shares and 1. Shares may be rounded to single precision."""


def check_release(method: str, release: Any, releases: ReleaseKind, users: int, classes: int) -> None:
    """Raise InputError if a plug-in's release has the wrong kind or shape, or wrong user numbers.

    Args:
        method: beginning of the message. release: what the mechanism returned. releases: the kind of release that the
        mechanism declares. users: n, the number of users. classes: K.
    """
    if isinstance(release, ModelRelease) and releases == "model":
        return require(method, callable(getattr(release.predictor, "probabilities", None)),
                        "the released model must have a method probabilities")  # fmt: skip
    if not isinstance(release, LabelRelease) or release.kind != releases:
        wanted = "ModelRelease" if releases == "model" else f"LabelRelease of kind {releases!r}"
        kind = f" of kind {release.kind!r}" if isinstance(release, LabelRelease) else ""
        raise InputError(
            f"{method}must give a {wanted}, as its configuration declares, not {type(release).__name__}{kind}"
        )
    # users' numbers must be ascending, each in 0..n-1
    user = release.user
    require(method, is_array(user, "iu", (None,)), f"user must be an array of integers (m,), not {described(user)}")
    require(method, bool((user[1:] > user[:-1]).all()), "user must be ascending, each user at most once")
    require(
        method,
        len(user) == 0 or (int(user[0]) >= 0 and int(user[-1]) < users),
        f"user must lie in 0..{users - 1}",
    )
    _check_payload(method, release, classes)


def _check_payload(method: str, release: LabelRelease, classes: int) -> None:
    """Raise InputError if the payload of released labels has a wrong type, shape or range for the kind of the labels.

    Args:
        method: beginning of the message. release: the labels. classes: K.
    """
    payload: Any = release.payload
    count = len(release)
    # for each kind of release: allowed numpy.dtype.kind, number of columns, meaning of the numbers
    types, columns, meaning = {
        "hard": ("iu", None, f"classes in 0..{classes - 1}"),
        "bits": ("u", (classes + 7) // 8, "packed bits"),
        "soft": ("f", classes, "shares of the classes, each row with the sum 1"),
        "signed": ("f", classes, "finite weights of the classes"),
        "values": ("f", None, "finite numbers"),
    }[release.kind]
    shape = (count,) if columns is None else (count, columns)
    wanted = f"payload must be an array {shape} of {meaning}"
    require(method, is_array(payload, types, shape),
             f"{wanted}, not {described(payload)}")  # fmt: skip
    # then the numbers themselves
    if types == "iu" and count:
        low, high = int(payload.min()), int(payload.max())
        require(method, low >= 0 and high < classes, f"{wanted}, not {low if low < 0 else high}")
    if types == "f":
        require(method, bool(np.isfinite(payload).all()), f"{wanted}, but holds infinity or NaN")
    if release.kind == "soft" and count:
        require(
            method,
            bool((payload >= -_OFF).all() and (np.abs(payload.sum(axis=1) - 1.0) <= _OFF).all()),
            f"{wanted}, but holds a row that is no distribution",
        )
    if release.kind == "bits":
        require(method, payload.dtype == np.uint8, f"{wanted} (uint8), not {payload.dtype}")


def check_columns(method: str, mechanism: Any) -> None:
    """Raise InputError if the attribute `columns` of a plug-in's mechanism is wrong. `columns` must be a tuple of
    columns. Each column must name an attribute of the mechanism whose value is a finite number.

    Args:
        method: beginning of the message. mechanism: the mechanism with its parameters fixed.
    """
    names: list[Any] = [getattr(column, "name", None) for column in mechanism.columns]
    require(method, all(isinstance(name, str) for name in names), "must be a tuple of extend.Column")
    for name in names:
        require(method, hasattr(mechanism, name), f"{name} must be the name of a key or of a property")
        value = getattr(mechanism, name)
        require(method, is_number(value), f"{name} must be a finite number, not {value!r}")


def check_accountant(method: str, model: Any) -> None:
    """Raise InputError unless a plug-in's accountant is usable. The accountant must be an `Accountant` with a hash. The
    bounds of δ at ε = 1 must satisfy 0 <= lower <= upper <= 1. The `conditions` must be a tuple of texts.

    Args:
        method: beginning of the message. model: the accountant.
    """
    require(method, isinstance(model, Accountant), f"must give an Accountant, not {model!r}")
    hashed = f"{type(model).__name__} must have a hash, as a frozen dataclass has"
    require(method, isinstance(model, Hashable), hashed)
    require(method, not (wrong := misfit(type(model), Accountant)), f"{type(model).__name__}.{wrong}")
    # faults found below are faults of the accountant, not of the mechanism
    offer, bracket = maker_of(model), cast(Any, model.delta(1.0))
    method = method_of(offer, model, "delta")
    require(method, isinstance(bracket, Bracket), f"must give a Bracket, not {type(bracket).__name__}")
    right = is_number(bracket.lower) and is_number(bracket.upper) and 0.0 <= bracket.lower <= bracket.upper <= 1.0
    require(method, right, f"must give 0 <= lower <= upper <= 1, not {bracket.lower} and {bracket.upper}")
    conditions: Any = model.conditions
    texts = isinstance(conditions, tuple) and all(isinstance(text, str) for text in conditions)
    require(method_of(offer, model, "conditions"), texts, f"must be a tuple of texts, not {conditions!r}")


def check_local_epsilon(method: str, epsilon: Any) -> None:
    """Raise InputError unless a plug-in's ε₀ of a user's message is a number of at least 0, or infinity."""
    require(
        method,
        isinstance(epsilon, int | float | np.number) and bool(epsilon >= 0),  # false for NaN
        f"must give a number of at least 0, or None, not {epsilon!r}",
    )


def check_bounds(method: str, bounds: Any, count: int, delta: float) -> None:
    """Raise InputError unless a plug-in returned `count` valid privacy bounds at δ, for clusters or cluster sizes.

    Args:
        method: beginning of the message. bounds: what the method returned. delta: δ that each bound must have.
    """
    right = isinstance(bounds, Sequence) and len(bounds) == count
    require(method, right, f"must give {count} bounds, one for each cluster or size of cluster, not "
                            f"{len(bounds) if isinstance(bounds, Sequence) else type(bounds).__name__}")  # fmt: skip
    for bound in {id(bound): bound for bound in bounds}.values():
        check_bound(method, bound, delta)


def check_bound(method: str, bound: Any, delta: float) -> None:
    """Raise InputError unless `bound` is a privacy bound at δ with 0 <= lower ε <= upper ε. The observer and the
    adjacency of the bound must be known.

    Args:
        method: beginning of the message. bound: what the method returned. delta: δ that the bound must have.
    """
    require(method, isinstance(bound, PrivacyBound), f"must give a PrivacyBound, not {type(bound).__name__}")
    low, high = bound.epsilon_lower, bound.epsilon_upper
    require(method, 0.0 <= low <= high, f"epsilon_lower = {low} must be at least 0 and at most epsilon_upper = {high}")
    require(method, bound.delta == delta, f"its bound is at delta = {bound.delta}, not at {delta}")
    require(method, bound.observer in OBSERVERS,
             f"observer = {bound.observer!r}: must be one of {', '.join(OBSERVERS)}")  # fmt: skip
    require(method, bound.adjacency in get_args(Adjacency),
             f"adjacency = {bound.adjacency!r}: must be one of {', '.join(get_args(Adjacency))}")  # fmt: skip
