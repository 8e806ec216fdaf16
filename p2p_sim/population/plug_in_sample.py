"""Whether what the population of a plug-in draws is users who can be clustered, privatised and measured."""

from typing import Any

import numpy as np

from p2p_sim.base.errors import InputError
from p2p_sim.population.population import Examples, FiniteLaw, Sample

MOST_CLASSES = 256
"""Labels are bytes."""
_OFF = 1e-6
"""By how much probabilities may differ from a sum of 1."""


def check_sample(method: str, sample: Any) -> None:
    """Refuse a draw of users that would spoil figures.

    Args:
        method: what the message begins with. sample: what was drawn.

    Raises:
        InputError: it is such a draw; one line.
    """
    _require(method, isinstance(sample, Sample), f"must give a Sample, not {type(sample).__name__}")
    classes = sample.num_classes
    counted = isinstance(classes, int | np.integer) and not isinstance(classes, bool) and 2 <= classes <= MOST_CLASSES
    _require(method, bool(counted), f"num_classes must be a whole number from 2 to {MOST_CLASSES}, not {classes!r}")
    _check_rows(f"{method}users: ", sample.users, int(classes))
    users, columns = len(sample.users.labels), sample.users.features.shape[1]
    if sample.holdout is not None:
        _check_rows(f"{method}holdout: ", sample.holdout, int(classes))
        same = sample.holdout.features.shape[1] == columns
        _require(method, same, f"holdout: features must have {columns} columns, as those of users")
    elif sample.law is None:
        raise InputError(f"{method}must hold rows out, or give the law, by which errors are measured")
    if sample.law is not None:
        _check_law(f"{method}law: ", sample.law, columns, int(classes))
        point = sample.point
        placed = _is_array(point, "iu", (users,)) and point.min() >= 0 and point.max() < len(sample.law.mass)
        _require(method, placed, f"point must be integers ({users},) in 0..{len(sample.law.mass) - 1}, with a law")
    if sample.values is not None:
        grid = np.asarray(sample.values)
        right = _is_array(grid, "iuf", (int(classes),)) and np.isfinite(grid).all() and (np.diff(grid) > 0).all()
        _require(method, bool(right), f"values must be {classes} finite numbers, increasing")


def _check_rows(method: str, rows: Any, classes: int) -> None:
    """Refuse rows whose features, labels or clusters are none."""
    _require(method, isinstance(rows, Examples), f"must be Examples, not {type(rows).__name__}")
    features, labels = rows.features, rows.labels
    matrix = isinstance(features, np.ndarray) and features.dtype.kind == "f" and features.ndim == 2
    _require(method, matrix, "features must be floating-point numbers (n, d)")
    _require(method, bool(np.isfinite(features).all()), "features must be finite")
    count = len(features)
    right = _is_array(labels, "u", (count,)) and labels.dtype == np.uint8
    _require(method, right, "labels must be uint8 (n,), one a row of features")
    lie = bool(count) and int(labels.max()) < classes
    _require(method, lie, f"labels must lie in 0..{classes - 1}, and there must be some")
    for name, kinds in (("cluster", "iu"), ("row", "iu"), ("target", "f")):
        value, numbers = getattr(rows, name), "numbers" if kinds == "f" else "integers"
        right = value is None or (_is_array(value, kinds, (count,)) and bool(np.isfinite(value).all()))
        _require(method, right, f"{name} must be {numbers} ({count},)")


def _check_law(method: str, law: Any, columns: int, classes: int) -> None:
    """Refuse a law whose probabilities are none."""
    _require(method, isinstance(law, FiniteLaw), f"must be a FiniteLaw, not {type(law).__name__}")
    points = len(law.mass)
    shapes = (
        _is_array(law.points, "f", (points, columns))
        and _is_array(law.mass, "f", (points,))
        and _is_array(law.label_distribution, "f", (points, classes))
        and _is_array(law.cluster, "iu", (points,))
    )
    _require(
        method, shapes, f"must have points (P, {columns}), mass (P,), label_distribution (P, {classes}), cluster (P,)"
    )
    _require(method, bool(np.isfinite(law.points).all()), "points must be finite")
    for name, values, sums in (
        ("mass", law.mass, law.mass.sum(keepdims=True)),
        ("label_distribution", law.label_distribution, law.label_distribution.sum(axis=1)),
    ):
        right = bool((values >= 0).all() and (np.abs(sums - 1.0) <= _OFF).all())
        _require(method, right, f"{name} must be probabilities, at least 0 and with the sum 1")


def _is_array(value: Any, kinds: str, shape: tuple[int, ...]) -> bool:
    """Whether it is an array of such numbers (as in `numpy.dtype.kind`) and of this shape."""
    return isinstance(value, np.ndarray) and value.dtype.kind in kinds and value.shape == shape


def _require(method: str, right: bool, what: str) -> None:
    if not right:
        raise InputError(f"{method}{what}")
