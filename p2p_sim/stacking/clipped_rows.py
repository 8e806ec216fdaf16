"""Inputs of the private estimators: finite rows of two classes, clipped; feature groups and their importance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def clip_rows(rows: Floats, norm: float = 1.0) -> Floats:
    """Shortens each of the rows (n, d) to Euclidean norm `norm` if it is longer.

    >>> clip_rows(np.array([[3.0, 4.0], [0.3, 0.4]])).round(6).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """
    # Dividing by the largest entry first keeps the squares of huge entries finite.
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=1.0)
    lengths = largest * np.linalg.norm(rows / largest, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, norm / np.maximum(lengths, norm)))


def read_rows(estimator: Any, features: ArrayLike, reset: bool = False) -> Floats:
    """Returns features as finite float64 rows (n, d) for an estimator, else ValueError; reset: as in scikit-learn."""
    from sklearn.utils.validation import validate_data

    rows = validate_data(estimator, features, dtype=np.float64, reset=reset, ensure_all_finite=False)
    return _finite(rows)


class SignedRows(NamedTuple):
    """Features (n, d), and labels (n,) as ±1, where +1 is the class that sorts last."""

    rows: Floats
    signs: Floats


def read_examples(estimator: Any, features: ArrayLike, labels: ArrayLike) -> SignedRows:
    """Returns features with labels ±1 of two classes, and sets the estimator's `classes_`.

    Raises:
        ValueError: NaN or infinite features, or other than two classes.
    """
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import validate_data

    rows, targets = validate_data(estimator, features, labels, dtype=np.float64, ensure_all_finite=False)
    _finite(rows)
    check_classification_targets(targets)
    classes = np.unique(targets)
    if len(classes) > 2:
        kind = type_of_target(targets)
        raise ValueError(f"Only binary classification is supported. The type of the target is {kind}: {classes[:5]}")
    if len(classes) < 2:
        raise ValueError(f"labels: all are of one class, {classes[0]}; two classes are needed")
    estimator.classes_ = classes
    return SignedRows(rows, np.where(targets == classes[1], 1.0, -1.0))


def _finite(rows: Floats) -> Floats:
    """Returns the rows (n, d) if all values are finite, else raises ValueError."""
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        raise ValueError(f"features: row {int(np.argmax(bad))} holds NaN or inf; every value must be finite")
    return rows


def check_positive(**values: float) -> None:
    """Raise ValueError for the first of the named values that is not above 0."""
    for name, value in values.items():
        if not value > 0.0:
            raise ValueError(f"{name} = {value}: must be above 0")


@dataclass(frozen=True)
class FeatureGroups:
    """Disjoint groups of features with their importance, all public.

    members: (K,) feature indices of each group.
    importance: (K,) q_k > 0, of sum 1.
    norm_bounds: (K,) public norms B_k > 0 at which the rows of a group are clipped before they are scaled to q_k.
    """

    members: tuple[tuple[int, ...], ...]
    importance: tuple[float, ...]
    norm_bounds: tuple[float, ...]

    @classmethod
    def of(
        cls,
        num_features: int,
        n_groups: int,
        groups: Sequence[Sequence[int]] | None,
        importance: Sequence[float] | None,
        norm_bound: float | Sequence[float],
    ) -> "FeatureGroups":
        """The stated groups of features, or `n_groups` consecutive ones of about equal size, at most one per feature.

        Raises:
            ValueError: groups that overlap, are empty or name features that do not exist; importance that does not sum
                to 1 or has another length; a norm bound that is not above 0.
        """
        if groups is None:
            if n_groups < 1:
                raise ValueError(f"n_groups = {n_groups}: must be at least 1")
            groups = [part.tolist() for part in np.array_split(np.arange(num_features), min(n_groups, num_features))]
        members = tuple(tuple(map(int, group)) for group in groups)
        _check_members(members, num_features)
        count = len(members)
        # importance: alike unless it is stated
        shares = (1.0 / count,) * count if importance is None else tuple(map(float, importance))
        _check_importance(shares, count)
        # norm bounds: one for all groups, or one each
        norms = np.asarray(norm_bound, dtype=np.float64)
        if norms.shape not in ((), (count,)):
            raise ValueError(f"norm_bound = {norm_bound}: needs one value, or one for each of the {count} groups")
        bounds = tuple(np.broadcast_to(norms, (count,)).tolist())
        if not all(0.0 < bound < np.inf for bound in bounds):
            raise ValueError(f"norm_bound = {list(bounds)}: every value must be above 0 and finite")
        return cls(members, shares, bounds)

    def scaled(self, rows: Floats) -> list[Floats]:
        """Splits rows (n, d) into K arrays (n, d_k), one for each group of features, each with rows of norm at most
        q_k.

        A row's part is clipped to norm B_k, the group's bound, then multiplied by q_k/B_k, q_k the group's importance.
        """
        return [
            q * clip_rows(rows[:, list(group)] / bound)
            for group, q, bound in zip(self.members, self.importance, self.norm_bounds, strict=True)
        ]


def check_public(importance: Sequence[float] | None, declared: bool) -> None:
    """Raise ValueError if importance is given without the declaration that it does not come from the data."""
    if importance is not None and not declared:
        raise ValueError(
            "importance: must come from outside the data, else ε fails; set importance_is_public = true if it does "
            "(in Python importance_is_public=True)"
        )


def _check_importance(shares: tuple[float, ...], count: int) -> None:
    """Raise ValueError unless there are `count` values above 0, of sum 1."""
    if len(shares) != count or not all(q > 0.0 for q in shares):
        raise ValueError(f"importance = {list(shares)}: needs a value above 0 for each of the {count} groups")
    if abs(sum(shares) - 1.0) > 1e-9:
        raise ValueError(f"importance = {list(shares)}: must sum to 1, not to {sum(shares):g}")


def _check_members(members: tuple[tuple[int, ...], ...], num_features: int) -> None:
    """Raise ValueError if a group is empty, two groups overlap, or a feature does not exist."""
    if not members or not all(members):
        raise ValueError("groups: there must be at least one, and none may be empty")
    everything = [i for group in members for i in group]
    outside = [i for i in everything if not 0 <= i < num_features]
    if outside:
        raise ValueError(f"groups: feature {outside[0]} does not exist; indices are 0 to {num_features - 1}")
    twice = sorted({i for i in everything if everything.count(i) > 1})
    if twice:
        raise ValueError(f"groups: feature {twice[0]} is in several groups; they must not overlap")
