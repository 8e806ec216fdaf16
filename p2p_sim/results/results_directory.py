"""A results directory as figures and comparisons read it: rows, axes, and what was run."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

import pandas as pd

from p2p_sim.base.errors import InputError, nearest
from p2p_sim.results.rows import MANIFEST, ROWS, load_results, read_manifest, read_rows

NUMBERS = (
    *("flip_prob", "sampling_rate", "effective_sampling_rate", "num_users", "num_clusters", "heterogeneity", "delta"),
    *("error_rate", "nonprivate_error_rate", "majority_error_rate", "excess_risk", "nonprivate_excess_risk"),
)
"""Columns that hold numbers or nothing, as all do whose name begins with epsilon."""
TAKEN = ("name", "replicates", "replicate")
"""Keys that no axis has: they do not say what is simulated."""


@dataclass(frozen=True)
class Results:
    """What a results directory holds.

    rows: one line a point and replicate, with a column for every swept key.
    axes: the swept keys, those that vary together in one tuple; none for a run of a single scenario.
    scenario: the base scenario in full; plots: figures that the sweep's author asked for.
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
        """All swept keys."""
        return [key for axis in self.axes for key in axis]


def read_results(directory: Path) -> Results:
    """Read a results directory of `run` or `sweep`.

    Raises:
        InputError: there is none, it is damaged, or no replicate is finished yet.
    """
    rows, manifest = load_results(directory), read_manifest(directory)
    if rows.empty:
        raise InputError(f"{directory / ROWS}: holds no finished replicate yet")
    results = Results(directory, rows=rows, **described(directory, manifest))
    for key in results.keys:
        if key not in rows:
            raise InputError(f"{directory / ROWS}: has no column {key!r}, which {MANIFEST} names as an axis")
    for name in rows:
        if name not in results.keys and not _of_one_kind(rows[name]):
            raise InputError(f"{directory / ROWS}: column {name!r} must hold numbers alone or text alone")
        if holds_numbers(str(name)) and not _of_numbers(rows[name]):
            raise InputError(f"{directory / ROWS}: column {name} must hold numbers alone")
    return results


def described(directory: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """What the manifest of a directory says of its rows, as `Results` holds it.

    Raises:
        InputError: it is not a manifest.
    """
    try:
        return _described(manifest)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{directory / MANIFEST}: is not a manifest ({type(error).__name__}: {error})") from None


def _described(manifest: dict[str, Any]) -> dict[str, Any]:
    """What a manifest says of its rows; TypeError, ValueError or KeyError where it says it in another way."""
    axes, plots = manifest.get("axes") or [], manifest.get("plots") or []
    if not all(isinstance(part, list) and all(isinstance(entry, dict) for entry in part) for part in (axes, plots)):
        raise TypeError("axes and plots must be lists of tables")
    for axis in axes:
        if not all(isinstance(axis[name], list) and axis[name] for name in ("keys", "values")):
            raise ValueError("an axis has no keys or no values")
        if not all(isinstance(key, str) for key in axis["keys"]):
            raise TypeError("the keys of an axis must be text")
        if not all(isinstance(step, list) and len(step) == len(axis["keys"]) for step in axis["values"]):
            raise TypeError("the values of an axis must be lists with a value for each of its keys")
        labels = axis.get("labels")
        if not (labels is None or (isinstance(labels, list) and len(labels) == len(axis["values"]))):
            raise TypeError("the labels of an axis must be a list with one for each of its values")
    keys = [key for axis in axes for key in axis["keys"]]
    for key in keys:
        if key in TAKEN or keys.count(key) > 1:
            raise ValueError(f"{key} cannot be the key of an axis" + " twice" * (key not in TAKEN))
    for plot in plots:
        wrong = [key for key, value in plot.items() if key != "fit" and not isinstance(value, str | None)]
        if wrong:
            raise TypeError(f"plots.{wrong[0]} must be text")
    if type(manifest["seed"]) is not int or not 0 <= manifest["seed"] < 2**63:
        raise ValueError("seed must be a whole number from 0 to 2**63 - 1")
    if not isinstance(manifest["scenario"], dict):
        raise TypeError("scenario must be a table")
    if not isinstance(manifest.get("replicates"), int | None):
        raise TypeError("replicates must be a whole number")
    if not isinstance(manifest.get("versions"), dict | None):
        raise TypeError("versions must be a table")
    return {
        "name": str(manifest["name"]),
        "seed": manifest["seed"],
        "axes": tuple(tuple(axis["keys"]) for axis in axes),
        "scenario": manifest["scenario"],
        "plots": tuple(plots),
    }


def holds_numbers(column: str) -> bool:
    """Whether a column must hold numbers, gaps apart."""
    return column in NUMBERS or (column.startswith("epsilon") and column != "epsilon_by_organisation")


def check_cells(directory: Path, keys: Iterable[str]) -> int:
    """How many replicates a directory's lines hold; reads them one by one, faster than `read_results` and as strict.

    Args:
        keys: the swept ones, whose columns may mix numbers and text.

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
    for name, held in kinds.items():
        name.encode()
        numbers = held <= {int, float, NoneType}
        if name not in keys and not numbers and len(held - {NoneType}) > 1:
            raise InputError(f"{directory / ROWS}: column {name!r} must hold numbers alone or text alone")
        if holds_numbers(name) and not numbers:
            raise InputError(f"{directory / ROWS}: column {name} must hold numbers alone")
    for key in keys if kinds else ():
        if key not in kinds:
            raise InputError(f"{directory / ROWS}: has no column {key!r}, which {MANIFEST} names as an axis")
    return len(replicates)


def _of_one_kind(column: pd.Series) -> bool:
    """Whether the cells of a column, gaps apart, are all numbers, all truth values or all text."""
    kinds = ("string", "boolean", "empty")
    return column.dtype.kind != "O" or pd.api.types.infer_dtype(column, skipna=True) in kinds


def _of_numbers(column: pd.Series) -> bool:
    """Whether the cells of a column, gaps apart, are numbers."""
    return column.dtype.kind in "fiu" or pd.api.types.infer_dtype(column, skipna=True) in (
        "integer",
        "floating",
        "empty",
    )


def check_column(option: str, name: str, known: Iterable[str]) -> str:
    """The name, if it is among the known ones.

    Raises:
        InputError: it is not; names the nearest that is, by its whole name or by the last part of a dotted key.
    """
    known = list(known)
    if name in known:
        return name
    alike = sorted(column for column in known if name in column) if name else []
    some = (alike or sorted(known))[:8]
    more = f" and {len(known) - len(some)} more, which docs/row-columns.md explains" if len(known) > len(some) else ""
    hint = nearest(name, known) or f"; choose one of {', '.join(some)}{more}"
    raise InputError(f"{option} {name}: no such column{hint}")
