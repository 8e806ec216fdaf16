"""Inputs of the private estimators: checks and clipping of rows, and groups of features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def clip_rows(rows: Floats, norm: float = 1.0) -> Floats:
    """The rows (n, d). A row that is longer than `norm` in Euclidean norm is scaled down to `norm`.

    >>> clip_rows(np.array([[3.0, 4.0], [0.3, 0.4]])).round(6).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """
    # Dividing by the largest entry first keeps the squares of huge entries finite.
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=1.0)
    lengths = largest * np.linalg.norm(rows / largest, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, norm / np.maximum(lengths, norm)))


def read_rows(estimator: Any, features: ArrayLike) -> Floats:
    """The features as float64 rows (n, d). A value that is NaN or infinite raises ValueError.

    Args:
        estimator: a scikit-learn estimator that was fitted on rows of d features. features: array-like (n, d).
    """
    from sklearn.utils.validation import validate_data

    return _finite(validate_data(estimator, features, dtype=np.float64, reset=False, ensure_all_finite=False))


class SignedRows(NamedTuple):
    """Examples of two classes: features (n, d) and labels (n,), which are ±1. The class that sorts last is +1."""

    rows: Floats
    signs: Floats


def read_examples(estimator: Any, features: ArrayLike, labels: ArrayLike) -> SignedRows:
    """Check features and labels that an estimator is to learn from. Return rows (n, d) and labels (n,), which are ±1.
    The class that sorts last is +1. The estimator's `classes_` is set to the two classes.

    Args:
        estimator: the scikit-learn estimator. features: array-like (n, d). labels: (n,) of two classes.

    Raises:
        ValueError: a feature is NaN or infinite, or there are not two classes.
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
    """The given rows (n, d). A value that is NaN or infinite raises ValueError."""
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
    """K disjoint groups of features, with the importance of each group. All fields are public.

    members: (K,) feature indices of each group.
    importance: (K,) q_k > 0, with sum 1.
    norm_bounds: (K,) norms B_k > 0. A row's features in group k are clipped to norm B_k, then multiplied by q_k/B_k.
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
        """The stated groups of features, else `n_groups` groups of consecutive features, as equal in size as possible.

        Args:
            num_features: number d of features. n_groups: used only if `groups` is None; at most d groups are made.
            groups: feature indices of each of K groups. importance: (K,) q_k > 0, the largest norm of a row's features
            in group k after scaling; None: 1/K for each. norm_bound: public norms B_k > 0, at which a row's features in
            group k are clipped; one number for all groups, or (K,).

        Raises:
            ValueError: a group is empty, overlaps another group or has an unknown feature; `n_groups`, importance or a
                norm bound is out of its range or has a wrong length.
        """
        if groups is None:
            if n_groups < 1:
                raise ValueError(f"n_groups = {n_groups}: must be at least 1")
            groups = [part.tolist() for part in np.array_split(np.arange(num_features), min(n_groups, num_features))]
        members = tuple(tuple(map(int, group)) for group in groups)
        _check_members(members, num_features)
        count = len(members)
        shares = (1.0 / count,) * count if importance is None else tuple(map(float, importance))
        if len(shares) != count or not all(q > 0.0 for q in shares):
            raise ValueError(f"importance = {list(shares)}: needs a value above 0 for each of the {count} groups")
        if abs(sum(shares) - 1.0) > 1e-9:
            raise ValueError(f"importance = {list(shares)}: must sum to 1, not to {sum(shares):g}")
        # one norm bound for all groups, or a norm bound for each group
        norms = np.asarray(norm_bound, dtype=np.float64)
        if norms.shape not in ((), (count,)):
            raise ValueError(f"norm_bound = {norm_bound}: needs one value, or one for each of the {count} groups")
        bounds = tuple(np.broadcast_to(norms, (count,)).tolist())
        if not all(0.0 < bound < np.inf for bound in bounds):
            raise ValueError(f"norm_bound = {list(bounds)}: every value must be above 0 and finite")
        return cls(members, shares, bounds)

    def scaled(self, rows: Floats) -> list[Floats]:
        """Split rows (n, d) into K arrays (n, d_k), where group k has d_k features. A row's features in group k are
        clipped to the norm bound B_k, then multiplied by q_k/B_k (q_k: importance). Their norm is then at most q_k.
        """
        return [
            q * clip_rows(rows[:, list(group)] / bound)
            for group, q, bound in zip(self.members, self.importance, self.norm_bounds, strict=True)
        ]


def check_public(importance: Sequence[float] | None, declared: bool) -> None:
    """Raise ValueError if importance is given but not declared public. Public means: not computed from the data."""
    if importance is not None and not declared:
        raise ValueError(
            "importance: must come from outside the data, else ε fails; set importance_is_public = true if it does "
            "(in Python importance_is_public=True)"
        )


def _check_members(members: tuple[tuple[int, ...], ...], num_features: int) -> None:
    """Raise ValueError for an empty group, no group at all, a feature that occurs twice, or an unknown one."""
    if not members or not all(members):
        raise ValueError("groups: there must be at least one, and none may be empty")
    everything = [i for group in members for i in group]
    outside = [i for i in everything if not 0 <= i < num_features]
    if outside:
        raise ValueError(f"groups: feature {outside[0]} does not exist; indices are 0 to {num_features - 1}")
    twice = sorted({i for i in everything if everything.count(i) > 1})
    if twice:
        raise ValueError(f"groups: feature {twice[0]} occurs twice; every feature may be in one group, once")
