"""Two results directories, point by point: which points they share, and how far apart they are there."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from p2p_sim.base.errors import InputError
from p2p_sim.base.toml import value_at
from p2p_sim.measures.point_means import POINT, REPLICATE, Difference, differences, tidy
from p2p_sim.results.results_directory import Results, check_column, read_results

DEFAULT = ("excess_risk", "error_rate", "half_l1", "epsilon_upper")
Setting = tuple[str, Any, Any]
"""A dotted key and its two values, None where a scenario does not have it."""


@dataclass(frozen=True)
class Comparison:
    """Second minus first, at every shared point and pooled.

    axes: the swept keys by which points were matched; settings: what else differs between the two base scenarios.
    paired: replicates of one number share random numbers; otherwise intervals are Welch's.
    """

    first: Results
    second: Results
    axes: tuple[str, ...]
    settings: tuple[Setting, ...]
    paired: bool
    differences: tuple[Difference, ...]


def compare(first: Path, second: Path, columns: Sequence[str] = ()) -> Comparison:
    """Compare two results directories of `run` or `sweep`.

    Points match if they agree on every swept key of either directory; a key that only one of them sweeps has its
    scenario's value in the other, and is no obstacle if the other has no such key.

    Args:
        first, second: the directories.
        columns: what to compare; default: excess risk, error rate, half-L1 and the learner's ε, where both have them.

    Raises:
        InputError: no point or no replicate is shared, or a column is missing on a side.
    """
    one, two = read_results(first), read_results(second)
    axes = tuple(dict.fromkeys([*one.keys, *two.keys]))
    left, right = (tidy(results.rows, results.keys) for results in (one, two))
    chosen = [_column(name, left, right) for name in columns] or [c for c in DEFAULT if _usable(c, left, right)]
    left, right = _placed(left, right, axes, one), _placed(right, left, axes, two)
    for table, results in ((left, one), (right, two)):
        if table.duplicated([*axes, REPLICATE]).any():
            raise InputError(f"{results.directory}: two of its points have the same {', '.join(axes) or 'replicate'}")
    paired = one.seed == two.seed
    found = [d for column in chosen for d in differences(left, right, axes, column, paired)]
    if not found:
        raise InputError(f"{first} and {second}: share no point with a common replicate; {_reason(left, right, axes)}")
    return Comparison(one, two, axes, _settings(one, two, axes), paired, tuple(found))


def _usable(column: str, *tables: pd.DataFrame) -> bool:
    return all(c in t and t[c].notna().any() and t[c].dtype.kind in "fiu" for t in tables for c in (column,))


def _column(name: str, left: pd.DataFrame, right: pd.DataFrame) -> str:
    """A measured column of both sides."""
    known = [str(c) for c in left if c in right and c not in (POINT, REPLICATE, "model_version")]
    check_column("--y", name, [c for c in known if _usable(c, left, right)] if name not in known else known)
    if not _usable(name, left, right):
        raise InputError(f"--y {name}: must hold numbers in both directories")
    return name


def _placed(rows: pd.DataFrame, others: pd.DataFrame, axes: Sequence[str], results: Results) -> pd.DataFrame:
    """Rows with a column for every axis: swept, or the scenario's value, or repeated for every value opposite."""
    for axis in axes:
        if axis in results.keys:
            continue
        fixed = value_at(results.scenario, axis)
        if isinstance(fixed, int | float | str):
            rows = rows.assign(**{axis: fixed})
        else:
            rows = rows.drop(columns=axis, errors="ignore").merge(others[[axis]].drop_duplicates(), how="cross")
    return rows


def _reason(left: pd.DataFrame, right: pd.DataFrame, axes: Sequence[str]) -> str:
    """Why nothing matched, in a few words: the first axis without a common value, else the replicates."""
    for axis in axes:
        one, two = (list(dict.fromkeys(table[axis])) for table in (left, right))
        if not set(one) & set(two):
            return f"{axis} is {_few(one)} in one and {_few(two)} in the other"
    return "no combination of axis values and replicate is in both"


def _few(values: Sequence[object]) -> str:
    return ", ".join(map(str, values[:4])) + (", ..." if len(values) > 4 else "")


def _settings(one: Results, two: Results, axes: Sequence[str]) -> tuple[Setting, ...]:
    """Keys in which the base scenarios differ, but for names, replicate counts and what points are matched by."""
    flat = [_flat(results.scenario) for results in (one, two)]
    keys = [key for key in dict.fromkeys([*flat[0], *flat[1]]) if key not in ("name", "replicates")]
    differing = [key for key in keys if flat[0].get(key) != flat[1].get(key)]
    matched = [key for key in differing if any(key == axis or key.startswith(axis + ".") for axis in axes)]
    return tuple((key, flat[0].get(key), flat[1].get(key)) for key in differing if key not in matched)


def _flat(tree: dict[str, Any]) -> dict[str, Any]:
    [found] = pd.json_normalize(tree).astype(object).to_dict("records")
    return {str(key): json.dumps(entry) if isinstance(entry, list) else entry for key, entry in found.items()}
