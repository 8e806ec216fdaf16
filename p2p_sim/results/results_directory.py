"""The contents of a results directory for figures and comparisons: rows, swept keys, and the base scenario."""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

import pandas as pd

from p2p_sim.base import InputError, nearest
from p2p_sim.measures import derived
from p2p_sim.results.rows import MANIFEST, ROWS, read_manifest, read_rows, stored_rows

NUMBERS = (
    *("flip_prob", "sampling_rate", "effective_sampling_rate", "num_users", "num_clusters", "heterogeneity", "delta"),
    *("error_rate", "nonprivate_error_rate", "majority_error_rate", "excess_risk", "nonprivate_excess_risk"),
)
"""Columns that hold only numbers and gaps. All columns with a name that begins with epsilon also do, except
`epsilon_by_organisation`."""
TAKEN = ("name", "replicates", "replicate")
"""Keys that may not be swept: they do not determine what is simulated."""


@dataclass(frozen=True)
class Results:
    """The contents of a results directory.

    rows: one line for each point and replicate, with a column for every swept key.
    axes: the swept keys, in tuples of keys that vary together; empty for a run of a single scenario.
    scenario: the base scenario in full. plots: figures that the sweep's author asked for.
    """

    directory: Path
    name: str
    seed: int
    rows: pd.DataFrame
    axes: tuple[tuple[str, ...], ...]
    scenario: dict[str, Any]
    plots: tuple[dict[str, Any], ...]

    @property
    def keys(self) -> list[str]:
        """All swept keys, dotted."""
        return [key for axis in self.axes for key in axis]


def load_results(directory: str | Path) -> pd.DataFrame:
    """All rows in a results directory as a tidy data frame, one line for each point and replicate.

    Points of a finished sweep are in the sweep's order, other points in the order of their completion. The replicates
    of each point are in ascending order. Accuracies and the paired loss of accuracy are columns, too.

    Raises:
        InputError: the directory holds no results.
    """
    return derived(stored_rows(directory))


def read_results(directory: Path) -> Results:
    """The results in a directory that a run or a sweep wrote, with columns checked.

    Raises:
        InputError: the directory holds no results, they are damaged, or no replicate is finished yet.
    """
    rows, manifest = stored_rows(directory), read_manifest(directory)
    if rows.empty:
        raise InputError(f"{directory / ROWS}: holds no finished replicate yet")
    results = Results(directory, rows=rows, **described(directory, manifest))
    _check_axes(directory, results.keys, rows)
    for name in map(str, rows):
        # a column of Python objects may mix kinds of values; any other column has one kind. Missing values do not count
        kind = pd.api.types.infer_dtype(rows[name], skipna=True)
        alike = rows[name].dtype.kind != "O" or kind in ("string", "boolean", "empty")
        numbers = rows[name].dtype.kind in "fiu" or kind in ("integer", "floating", "empty")
        _check_kind(directory, name, swept=name in results.keys, alike=alike, numbers=numbers)
    return results


def _check_axes(directory: Path, keys: Iterable[str], columns: Container[str]) -> None:
    """Raise an InputError unless the stored rows have a column for each swept key.

    Args:
        directory: of the results, for the error's message. keys: the swept keys. columns: names of the rows' columns.
    """
    for key in keys:
        if key not in columns:
            raise InputError(f"{directory / ROWS}: has no column {key!r}, which {MANIFEST} names as an axis")


def _check_kind(directory: Path, name: str, *, swept: bool, alike: bool, numbers: bool) -> None:
    """Raise an InputError if a column of stored rows holds a value of a wrong kind.

    A column of numbers, such as ε, must hold numbers. Any other column must not mix numbers and text, unless it holds a
    swept key.

    Args:
        directory: of the results, for the error's message. name: the column's name. swept: whether the column holds a
        swept key. alike: whether all values are of one kind, such as numbers or texts. numbers: whether all values are
        numbers.
    """
    if not swept and not alike:
        raise InputError(f"{directory / ROWS}: column {name!r} must hold numbers alone or text alone")
    # every ε is a number or a gap, except in the column that lists the ε of each organisation
    number_column = name in NUMBERS or (name.startswith("epsilon") and name != "epsilon_by_organisation")
    if number_column and not numbers:
        raise InputError(f"{directory / ROWS}: column {name} must hold numbers alone")


def described(directory: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """The content of a results directory's manifest (the record of what was run), as a dict.

    Its keys are name, seed, axes, scenario and plots. An axis is a tuple of swept keys. The base scenario is a nested
    mapping. Plots are the figures that the sweep's file names.

    Args:
        directory: of the results, for the error's message. manifest: the manifest as read from its file.

    Raises:
        InputError: a key of the manifest is missing or wrong.
    """
    try:
        return _described(manifest)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{directory / MANIFEST}: is not a manifest ({type(error).__name__}: {error})") from None


def _described(manifest: dict[str, Any]) -> dict[str, Any]:
    """The content of a manifest, as for `described`. Raises TypeError, ValueError or KeyError for a wrong entry."""
    axes, plots = manifest.get("axes") or [], manifest.get("plots") or []
    for tables in (axes, plots):
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise TypeError("axes and plots must be lists of tables")
    # this order decides which fault an error names first: axes, their keys, plots, other entries
    for axis in axes:
        _check_axis(axis)
    keys = [key for axis in axes for key in axis["keys"]]
    for key in keys:
        if key in TAKEN or keys.count(key) > 1:
            raise ValueError(f"{key} cannot be the key of an axis" + " twice" * (key not in TAKEN))
    _check_entries(manifest, plots)
    return {
        "name": str(manifest["name"]),
        "seed": manifest["seed"],
        "axes": tuple(tuple(axis["keys"]) for axis in axes),
        "scenario": manifest["scenario"],
        "plots": tuple(plots),
    }


def _check_axis(axis: dict[str, Any]) -> None:
    """Raise an error unless an axis in a manifest is right. Keys are texts. A value is a list with an entry for each
    key. Labels are absent, or one for each value.
    """
    if not all(isinstance(axis[name], list) and axis[name] for name in ("keys", "values")):
        raise ValueError("an axis has no keys or no values")
    if not all(isinstance(key, str) for key in axis["keys"]):
        raise TypeError("the keys of an axis must be text")
    if not all(isinstance(step, list) and len(step) == len(axis["keys"]) for step in axis["values"]):
        raise TypeError("the values of an axis must be lists with a value for each of its keys")
    labels = axis.get("labels")
    if labels is not None and not (isinstance(labels, list) and len(labels) == len(axis["values"])):
        raise TypeError("the labels of an axis must be a list with a label for each value")


def _check_entries(manifest: dict[str, Any], plots: list[dict[str, Any]]) -> None:
    """Raise an error if a plot or another entry of a manifest is wrong.

    Args:
        manifest: its entries seed (0 to 2**63 - 1), scenario, replicates and versions are checked. plots: the plots
        that the sweep's file names. All values must be text or None, except `fit` (whether curves of theory are drawn).

    Raises:
        TypeError: an entry has a wrong type. ValueError: seed is not a whole number in this range.
    """
    for plot in plots:
        for key, value in plot.items():
            if key != "fit" and not isinstance(value, str | None):
                raise TypeError(f"plots.{key} must be text")
    if type(manifest["seed"]) is not int or not 0 <= manifest["seed"] < 2**63:
        raise ValueError("seed must be a whole number from 0 to 2**63 - 1")
    if not isinstance(manifest["scenario"], dict):
        raise TypeError("scenario must be a table")
    if not isinstance(manifest.get("replicates"), int | None):
        raise TypeError("replicates must be a whole number")
    if not isinstance(manifest.get("versions"), dict | None):
        raise TypeError("versions must be a table")


def check_cells(directory: Path, keys: Iterable[str]) -> int:
    """Check the stored rows of a directory line by line, and return the number of rows.

    Lines of the same point and replicate count once. Every line must be a row, and every swept key a column. Each
    column must hold values of the right kind (`_check_kind`).

    Args:
        directory: of the results. keys: the swept keys.

    Raises:
        InputError: a line or a column is damaged. UnicodeEncodeError: a text holds a lone surrogate.
    """
    replicates: set[tuple[str, int]] = set()
    kinds: dict[str, set[type]] = {}
    for row in read_rows(directory):
        replicates.add((row["scenario"], row["replicate"]))
        for name, cell in row.items():
            huge = type(cell) is int and abs(cell) >= 2**63  # no column of numbers can hold it
            kinds.setdefault(name, set()).add(object if huge else type(cell))
            if isinstance(cell, str):
                cell.encode()
    for name, types in kinds.items():
        name.encode()
        numbers = types <= {int, float, NoneType}
        alike = numbers or len(types - {NoneType}) <= 1
        _check_kind(directory, name, swept=name in keys, alike=alike, numbers=numbers)
    if kinds:
        _check_axes(directory, keys, kinds)
    return len(replicates)


def check_column(option: str, name: str, columns: Iterable[str]) -> None:
    """Raise an InputError unless `name`, given to an option, is one of the columns.

    Raises:
        InputError: `name` is none of the columns. The message names the nearest column, by its whole name or by the
        last part of a dotted key. If none is near, the message lists up to 8 columns.
    """
    columns = list(columns)
    if name in columns:
        return
    alike = sorted(column for column in columns if name in column) if name else []
    some = (alike or sorted(columns))[:8]
    more = f" and {len(columns) - len(some)} more, which docs/row-columns.md explains"
    hint = nearest(name, columns) or f"; choose one of {', '.join(some)}{more * (len(columns) > len(some))}"
    raise InputError(f"{option} {name}: no such column{hint}")
