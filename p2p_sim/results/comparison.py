"""Compares two results directories at each point (combination of swept values) that both directories have."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from p2p_sim.base import InputError, value_at
from p2p_sim.measures import POINT, REPLICATE, Difference, differences, tidy
from p2p_sim.results.results_directory import Results, check_column, read_results

DEFAULT = ("excess_risk", "error_rate", "half_l1", "epsilon_upper")
Setting = tuple[str, Any, Any]
"""A dotted key, the value in the first scenario, and the value in the second. None: the scenario lacks the key."""


@dataclass(frozen=True)
class Comparison:
    """The differences of two results directories, second minus first. Each compared column has a difference at every
    shared point (combination of swept values), and a difference over all shared points together.

    axes: the swept keys by which points were matched. settings: the other keys in which the base scenarios differ.
    paired: whether replicates with the same index share random numbers; if not, intervals are Welch's.
    """

    first: Results
    second: Results
    axes: tuple[str, ...]
    settings: tuple[Setting, ...]
    paired: bool
    differences: tuple[Difference, ...]


def compare(first: Path, second: Path, columns: Sequence[str] = ()) -> Comparison:
    """Compare two results directories of `run` or `sweep`. A difference is the second value minus the first.

    Points match if they agree on every key that either directory sweeps. If a directory does not sweep a key, its base
    scenario gives the value. If this scenario has no number or text for the key, every value matches.

    Args:
        first, second: the directories.
        columns: what to compare; default: excess risk, error rate, half-L1 error and the learner's ε, if in both.

    Raises:
        InputError: no point or no replicate is shared, a column has no numbers in one of the directories, or two points
        of a directory agree on all these keys.
    """
    first_results, second_results = read_results(first), read_results(second)
    axes = tuple(dict.fromkeys([*first_results.keys, *second_results.keys]))
    before, after = (tidy(results.rows, results.keys) for results in (first_results, second_results))
    chosen = _choose_columns(columns, before, after)
    # every axis becomes a column on both sides; points match if these columns agree
    before, after = _with_axes(before, after, axes, first_results), _with_axes(after, before, axes, second_results)
    paired = first_results.seed == second_results.seed
    pairs = tuple(d for column in chosen for d in differences(before, after, axes, column, paired))
    if not pairs:
        # say why no rows match: name the first axis without a common value
        why = "no combination of axis values and replicate is in both"
        for axis in reversed(axes):
            here, there = (list(dict.fromkeys(table[axis])) for table in (before, after))
            if not set(here) & set(there):
                why = f"{axis} is {_few(here)} in one and {_few(there)} in the other"
        raise InputError(f"{first} and {second}: share no point with a common replicate; {why}")
    return Comparison(
        first=first_results,
        second=second_results,
        axes=axes,
        settings=_settings(first_results, second_results, axes),
        paired=paired,
        differences=pairs,
    )


def _choose_columns(columns: Sequence[str], before: pd.DataFrame, after: pd.DataFrame) -> Sequence[str]:
    """The columns to compare: `columns` or, if `columns` is empty, all columns of `DEFAULT` that are measured in both
    tables.

    Raises:
        InputError: a named column is not measured in both tables.
    """
    shared = [str(c) for c in before if c in after and c not in (POINT, REPLICATE, "model_version")]
    for name in columns:
        # an error suggests a measured column with a similar name
        check_column("--y", name, shared if name in shared else [c for c in shared if _is_measured(c, before, after)])
        if not _is_measured(name, before, after):
            raise InputError(f"--y {name}: must hold numbers in both directories")
    return columns or [column for column in DEFAULT if _is_measured(column, before, after)]


def _is_measured(column: str, *tables: pd.DataFrame) -> bool:
    """Whether every table has numbers in this column, at least one number and no text."""
    return all(
        column in table and table[column].notna().any() and table[column].dtype.kind in "fiu" for table in tables
    )


def _with_axes(rows: pd.DataFrame, others: pd.DataFrame, axes: Sequence[str], results: Results) -> pd.DataFrame:
    """The rows of one directory, with a column for every key that either directory sweeps. Points are matched by these
    columns. A key that this directory did not sweep gets the value of the base scenario. If the scenario has no number
    or text for the key, each row is repeated for every value in the rows `others` of the other directory.

    Raises:
        InputError: two points of this directory would have the same values.
    """
    for axis in axes:
        if axis in results.keys:
            continue
        fixed = value_at(results.scenario, axis)
        if isinstance(fixed, int | float | str):
            rows = rows.assign(**{axis: fixed})
        else:
            rows = rows.drop(columns=axis, errors="ignore").merge(others[[axis]].drop_duplicates(), how="cross")
    if rows.duplicated([*axes, REPLICATE]).any():
        raise InputError(f"{results.directory}: two of its points have the same {', '.join(axes) or 'replicate'}")
    return rows


def _few(values: Sequence[object]) -> str:
    """The first four values as text, with dots if there are more."""
    return ", ".join(map(str, values[:4])) + (", ..." if len(values) > 4 else "")


def _settings(first: Results, second: Results, axes: Sequence[str]) -> tuple[Setting, ...]:
    """The keys in which two base scenarios differ, with both values; None: the scenario lacks the key. The name, the
    number of replicates and the keys in `axes` are left out.
    """
    before, after = _leaves(first.scenario), _leaves(second.scenario)
    keys = [key for key in dict.fromkeys([*before, *after]) if key not in ("name", "replicates")]
    unmatched = [key for key in keys if not any(key == axis or key.startswith(axis + ".") for axis in axes)]
    return tuple((key, before.get(key), after.get(key)) for key in unmatched if before.get(key) != after.get(key))


def _leaves(tree: dict[str, Any]) -> dict[str, Any]:
    """The values of a scenario by dotted key; a list becomes JSON text."""
    [leaves] = pd.json_normalize(tree).astype(object).to_dict("records")
    return {str(key): json.dumps(value) if isinstance(value, list) else value for key, value in leaves.items()}
