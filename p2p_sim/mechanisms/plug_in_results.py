"""Whether what a plug-in's mechanism releases and states can be learned from: one line about the first fault."""

import math
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np

from p2p_sim.base.errors import InputError
from p2p_sim.mechanisms.outcome import LabelRelease, ModelRelease, ReleaseKind
from p2p_sim.privacy.bound import OBSERVERS, Adjacency, PrivacyBound

_OFF = 1e-3
"""By how much shares of classes may differ from a sum of 1: rounding in single precision."""


def check_release(method: str, release: Any, releases: ReleaseKind, users: int, classes: int) -> None:
    """Refuse a release that no learner could take, or that names users wrongly.

    Args:
        method: what the message begins with. release: what the mechanism gave. releases: what it declares.
        users: n, numbered from 0. classes: K.

    Raises:
        InputError: it is such a release.
    """
    if isinstance(release, ModelRelease) and releases == "model":
        return require(method, callable(getattr(release.predictor, "probabilities", None)),
                        "the released model must have a method probabilities")  # fmt: skip
    if not isinstance(release, LabelRelease) or release.kind != releases:
        what = type(release).__name__
        if isinstance(release, LabelRelease):
            what += f" of kind {release.kind!r}"
        wanted = "ModelRelease" if releases == "model" else f"LabelRelease of kind {releases!r}"
        raise InputError(f"{method}must give a {wanted}, as its configuration declares, not {what}")
    user, count = release.user, len(release.user) if isinstance(release.user, np.ndarray) else 0
    require(method, _is_array(user, "iu", 1), f"user must be an array of integers (m,), not {_described(user)}")
    inside = count == 0 or (int(user[0]) >= 0 and int(user[-1]) < users)
    ascending = bool((user[1:] > user[:-1]).all())
    require(method, ascending, "user must be ascending, each user at most once")
    require(method, inside, f"user must lie in 0..{users - 1}")
    _check_payload(method, release, classes)


def _check_payload(method: str, release: LabelRelease, classes: int) -> None:
    """Refuse labels that are none of their kind."""
    payload: Any = release.payload
    count = len(release)
    types, columns, meaning = {
        "hard": ("iu", None, f"classes in 0..{classes - 1}"),
        "bits": ("u", (classes + 7) // 8, "packed bits"),
        "soft": ("f", classes, "shares of the classes, each row with the sum 1"),
        "signed": ("f", classes, "finite weights of the classes"),
        "values": ("f", None, "finite numbers"),
    }[release.kind]
    shape = (count,) if columns is None else (count, columns)
    wanted = f"payload must be an array {shape} of {meaning}"
    require(method, _is_array(payload, types, len(shape)) and payload.shape == shape,
             f"{wanted}, not {_described(payload)}")  # fmt: skip
    if types == "iu" and count:
        low, high = int(payload.min()), int(payload.max())
        require(method, low >= 0 and high < classes, f"{wanted}, not {low if low < 0 else high}")
    if types == "f":
        require(method, bool(np.isfinite(payload).all()), f"{wanted}, and holds infinity or no number")
    if release.kind == "soft" and count:
        shares = bool((payload >= -_OFF).all() and (np.abs(payload.sum(axis=1) - 1.0) <= _OFF).all())
        require(method, shares, f"{wanted}, and holds a row that is none")
    if release.kind == "bits":
        require(method, payload.dtype == np.uint8, f"{wanted} (uint8), not {payload.dtype}")


def check_parameters(method: str, parameters: Any) -> None:
    """Refuse parameters that are no numbers.

    Raises:
        InputError: one is none.
    """
    require(method, isinstance(parameters, dict), f"must give a dict, not {type(parameters).__name__}")
    for name, value in parameters.items():
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)
        require(method, number, f"{name} must be a finite number, not {value!r}")


def _is_array(value: Any, kinds: str, dimensions: int) -> bool:
    """Whether it is an array of such numbers (as in `numpy.dtype.kind`) with so many dimensions."""
    return isinstance(value, np.ndarray) and value.dtype.kind in kinds and value.ndim == dimensions


def _described(value: Any) -> str:
    """An array as its type and shape, anything else as its class."""
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


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
