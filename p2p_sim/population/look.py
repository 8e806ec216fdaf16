"""A look at a user's table, to suggest how it is to be read and which columns to learn from."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from p2p_sim.base.errors import InputError, shortened
from p2p_sim.population.features import is_missing, is_text, quoted
from p2p_sim.population.table_file import (
    SEPARATORS,
    Layout,
    Table,
    Values,
    is_number,
    looks_like_data,
    opened,
    read_table,
    records,
)

MARKER = "?"
"""Stands for a missing value wherever it occurs."""
MOST_MARKERS, MOST_CATEGORIES, MOST_CLASSES = 3, 100, 256
"""Texts of a column of numbers that stand for missing values; values of a column that becomes one-hot; classes."""
IDENTIFIED = 20
"""Rows from which on a column with a value of its own in every row is taken for an identifier."""


@dataclass
class Look:
    """What a look at a table suggests.

    keys: of [population], besides kind, path and label. rows: with a label. notes: what was seen, a line each.
    """

    keys: dict[str, Any] = field(default_factory=dict)
    rows: int = 0
    notes: list[str] = field(default_factory=list)


def look_at(path: Path, label: str | None) -> Look:
    """How a table is to be read.

    Raises:
        InputError: it cannot be read, has no such column, or the column cannot be a label.
    """
    found = Look()
    layout = _layout(path, label, found)
    table = read_table(path, layout)
    if label is None or label not in table.columns:
        given = "--label is missing" if label is None else f"--label {label}: no such column"
        raise InputError(f"{given}; {path} has {shortened(', '.join(map(repr, table.columns)))}")
    markers = _markers(table, label)
    if markers:
        found.keys["missing"] = markers
        verb = "is" if len(markers) == 1 else "are each"
        found.notes.append(f"{', '.join(map(quoted, markers))} {verb} read as a missing value")
        table = read_table(path, layout._replace(missing=tuple(markers)))
    _label(table, label, found)
    kept = [name for name in table.columns if name != label and _useful(table, name, found)]
    if not kept:
        raise InputError(f"{path}: no column besides the label {label!r} can be learned from")
    if len(kept) + 1 < len(table.columns):
        found.keys["features"] = kept
    texts = [name for name in kept if is_text(table.columns[name])]
    gaps = {name: int(is_missing(table.columns[name]).sum()) for name in kept}
    if any(gaps.values()):
        found.keys["impute"] = True
        holes = ", ".join(f"{name!r} ({count:,})" for name, count in gaps.items() if count)
        found.notes.append(
            f"missing values are filled in: {shortened(holes)}; drop = true leaves such users out instead"
        )
    if texts:
        found.keys["one_hot"] = True
        found.notes.append(f"columns of text become one-hot: {shortened(', '.join(map(repr, texts)))}")
    if len(texts) < len(kept):
        found.keys["standardise"] = True
        found.notes.append("columns of numbers are standardised: clusters and learner depend on scale")
    return found


def _layout(path: Path, label: str | None, found: Look) -> Layout:
    """Separator and header of a CSV file."""
    if path.suffix not in (".csv", ".gz"):
        return Layout()
    try:
        with opened(path) as file:
            line = next(file, "")
            separator = max(SEPARATORS, key=line.count)
            file.seek(0)
            _, first = next(records(file, separator), (0, []))
    except (OSError, EOFError) as error:
        raise InputError(f"--data {path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if separator != ",":
        found.keys["separator"] = separator
        found.notes.append(f"cells are separated by {separator!r}")
    numbered = label is not None and label not in first and label.isdecimal() and 1 <= int(label) <= len(first)
    if looks_like_data(first, (MARKER,)) or numbered:
        found.keys["header"] = False
        found.notes.append(f'line 1 is data, not names: columns are called "1" to "{len(first)}"')
    return Layout(found.keys.get("header"), separator)


def _markers(table: Table, label: str) -> list[str]:
    """Texts that stand for missing values."""
    found: set[str] = set()
    for name, values in table.columns.items():
        if not is_text(values):
            continue
        texts = [str(value) for value in values[~is_missing(values)]]
        words = [text for text in texts if not is_number(text)]
        if name != label and 2 * len(words) <= len(texts) and len(set(words)) <= MOST_MARKERS:
            found |= set(words)
        found |= {MARKER} & set(words)
    return sorted(found)


def _label(table: Table, label: str, found: Look) -> None:
    values = table.columns[label]
    gaps = is_missing(values)
    plain = values[~gaps].astype(str) if is_text(values) else values[~gaps]
    if plain.ndim != 1:
        raise InputError(f"--label {label}: must be one plain value a row in {table.path}")
    classes = np.unique(plain).tolist()
    if not 2 <= len(classes) <= MOST_CLASSES:
        hint = "; a label is a class, so divide its numbers into a few ranges first" if len(classes) > 2 else ""
        raise InputError(
            f"--label {label}: {len(classes):,} different values in {table.path}; 2 to 256 are allowed{hint}"
        )
    if is_text(values) or values.dtype.kind in "iuf":
        found.keys["classes"] = [int(v) if isinstance(v, float) and v.is_integer() else v for v in classes]
    found.notes.append(f"{len(classes)} classes of {label!r}, sorted: {shortened(', '.join(map(str, classes)))}")
    found.rows = len(plain)
    if gaps.any():
        found.keys["drop"] = [label]
        found.notes.append(f"{int(gaps.sum()):,} users without a label are left out")


def _useful(table: Table, name: str, found: Look) -> bool:
    """Whether a column can be learned from; a note says why not."""
    values = table.columns[name]
    reason = _useless(name, values)
    if reason:
        found.notes.append(f"column {name!r} is left out: {reason}")
    return not reason


def _useless(name: str, values: Values) -> str:
    if values.ndim != 1 or values.dtype.kind not in "biufOUS":
        return "it holds neither numbers nor texts"
    there = values[~is_missing(values)]
    text = is_text(values)
    different = len(np.unique(there.astype(str) if text else there))
    if different < 2:
        return "it has the same value for all users"
    alone = different == len(there) >= IDENTIFIED
    if text and (different > MOST_CATEGORIES or alone):
        return f"a text with {different:,} different values, as of a name"
    whole = not text and values.dtype.kind in "iuf" and bool(np.all(there == np.floor(there)))
    ordered = whole and bool(np.all(np.diff(there) > 0) or np.all(np.diff(there) < 0))
    called = name.lower().replace("-", "_").split("_")[-1] in ("id", "index", "nr", "no", "number")
    if alone and whole and (ordered or called):
        return "every user has a number of her own there, as of an identifier"
    return ""
