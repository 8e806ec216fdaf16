"""Whether what the mechanism of a plug-in returns can be learned from and stated: one line about the first fault."""

import math
from typing import Any

import numpy as np

from p2p_sim.base.errors import InputError
from p2p_sim.base.plugins import MECHANISMS, method_of, offer_of
from p2p_sim.mechanisms.mechanism import Mechanism, MechanismBase
from p2p_sim.mechanisms.outcome import LabelRelease, ModelRelease, Outcome, ReleaseKind, Tally
from p2p_sim.mechanisms.plug_in_bounds import check_bound, check_bounds, require
from p2p_sim.population.population import People
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.where_bounds_hold import Stated

Part = tuple[int, int] | None
"""Shards first to last - 1 alone; None: all."""
_OFF = 1e-3
"""By how much shares of classes may differ from a sum of 1: rounding in single precision."""


def check_released(
    config: MechanismBase, mechanism: Mechanism, outcome: Outcome, people: People, part: Part = None
) -> Outcome:
    """The result of `release_on`; that of a plug-in's mechanism is looked at first.

    Args:
        config: what the mechanism was built from. outcome: the result. people, part: as given to `release_on`.

    Raises:
        InputError: nobody could learn from it.
    """
    if (offer := offer_of(MECHANISMS, config.kind)) is not None:
        check_outcome(method_of(offer, mechanism, "release_on"), outcome, config.releases, people, part)
        check_parameters(method_of(offer, mechanism, "parameters"), mechanism.parameters)
    return outcome


def check_outcome(method: str, outcome: Any, releases: ReleaseKind, people: People, part: Part = None) -> None:
    """Refuse a result of `release_on` that no learner could take, or that names users wrongly.

    Args:
        method: what the message begins with. outcome: the result. releases: what the configuration declares.
        people: whose labels they are. part: shards first to last - 1 alone; None: all.

    Raises:
        InputError: it is such a result.
    """
    release = outcome.release if isinstance(outcome, Outcome) else None
    if isinstance(release, ModelRelease) and releases == "model":
        return require(method, callable(getattr(release.predictor, "probabilities", None)),
                        "the released model must have a method probabilities")  # fmt: skip
    if not isinstance(release, LabelRelease) or release.kind != releases:
        what = type(outcome).__name__ if release is None else type(release).__name__
        if isinstance(release, LabelRelease):
            what += f" of kind {release.kind!r}"
        wanted = "ModelRelease" if releases == "model" else f"LabelRelease of kind {releases!r}"
        raise InputError(f"{method}must give an Outcome with a {wanted}, as its configuration declares, not {what}")
    user, count = release.user, len(release.user) if isinstance(release.user, np.ndarray) else 0
    require(method, _is_array(user, "iu", 1), f"user must be an array of integers (m,), not {_described(user)}")
    shards = people.shards if part is None else people.shards[slice(*part)]
    first, last = (shards[0].start, shards[-1].stop) if shards else (0, 0)
    inside = count == 0 or (first <= int(user[0]) and int(user[-1]) < last)
    ascending = bool((user[1:] > user[:-1]).all())
    require(method, ascending, "user must be ascending, each user at most once")
    require(method, inside, f"user must lie in {first}..{last - 1}")
    _check_payload(method, release, people.num_classes)
    times = outcome.arrival_s
    if times is not None:
        right = _is_array(times, "f", 1) and len(times) == count and bool((np.isfinite(times) & (times >= 0)).all())
        require(method, right, f"arrival_s must be finite seconds ({count},) of at least 0, not {_described(times)}")


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


def check_accounted(method: str, accounted: Any, outcome: Outcome, clusters: int, delta: float) -> None:
    """Refuse an account that lacks the learner's statement, or holds a figure that is none.

    Args:
        method: what the message begins with. accounted: the account. outcome: what it is about. clusters: C. delta: δ.

    Raises:
        InputError: it is such an account.
    """
    statements = getattr(accounted, "statements", None)
    require(method, isinstance(statements, dict) and isinstance(statements.get("epsilon_upper"), PrivacyBound),
             "must give an Accounted whose statements have a PrivacyBound of epsilon_upper")  # fmt: skip
    summed = isinstance(outcome.release, Tally)
    check_bounds(method, accounted.learner, len(accounted.learner) if summed else clusters, delta)
    for column, stated in accounted.statements.items():
        if isinstance(stated, PrivacyBound):
            check_bound(f"{method}{column}: ", stated, delta)
        else:
            epsilon = stated.epsilon if isinstance(stated, Stated) else math.nan
            require(method, epsilon is None or epsilon >= 0, f"{column} must be a statement with an ε of at least 0")
    worst = max((bound.epsilon_upper for bound in accounted.learner), default=0.0)
    claimed = accounted.statements["epsilon_upper"].epsilon_upper
    require(method, claimed >= worst, f"epsilon_upper = {claimed:g} is below that of a cluster, {worst:g}")


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
