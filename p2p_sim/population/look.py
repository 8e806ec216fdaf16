"""A look at a user's table, to suggest how it is to be read and which columns to learn from."""

import csv
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from p2p_sim.analysis.privacy.statement.shown import count
from p2p_sim.base.errors import InputError, shortened
from p2p_sim.population.features import is_missing, is_text, quoted
from p2p_sim.population.table_file import (
    SEPARATORS,
    TEXTS,
    Layout,
    Table,
    Values,
    guessed_encoding,
    is_number,
    looks_like_data,
    opened,
    read_table,
    records,
    suffix_of,
)
from p2p_sim.population.table_numbers import PLAIN, Convention, conventions, date_formats

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
    left_out: columns that are not learned from, and why.
    """

    keys: dict[str, Any] = field(default_factory=dict)
    rows: int = 0
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def look_at(path: Path, label: str | None, stated: Mapping[str, str] | None = None) -> Look:
    """How a table is to be read.

    Args:
        path: of the table. label: its column. stated: keys that are known: decimal, thousands, encoding.

    Raises:
        InputError: it cannot be read, has no such column, the column cannot be a label, or it is not clear how numbers
            are written.
    """
    found = Look({**(stated or {}), "proposed": True})
    try:
        layout = _layout(path, label, found)
        if suffix_of(path) in TEXTS:
            layout = layout._replace(numbers=_convention(path, layout, label, found))
    except (OSError, EOFError, UnicodeError, zlib.error, csv.Error) as error:
        raise InputError(f"--data {path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    table = read_table(path, layout)
    if label is None or label not in table.columns:
        given = "--label is missing" if label is None else f"--label {label}: no such column"
        raise InputError(f"{given}; {path} has {shortened(', '.join(map(repr, table.columns)))}")
    markers = _markers(table, label)
    if markers:
        found.keys["missing"] = markers
        verb = "is" if len(markers) == 1 else "are each"
        found.notes.append(f"{', '.join(map(quoted, markers))} {verb} read as a missing value")
        layout = layout._replace(missing=tuple(markers))
        table = read_table(path, layout)
    if dates := _dates(table, label, found):
        table = read_table(path, layout._replace(dates=tuple(dates.items())))
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
    if suffix_of(path) not in TEXTS:
        return Layout()
    tabs = suffix_of(path) in (".tsv", ".tsv.gz")
    encoding = found.keys.get("encoding") or _encoding(path, found)
    with opened(path, encoding) as file:
        line = next(file, "")
        separator = "\t" if tabs else max(SEPARATORS, key=line.count)
        file.seek(0)
        _, first = next(records(file, separator), (0, []))
    if separator != "," and not tabs:
        found.keys["separator"] = separator
        found.notes.append(f"cells are separated by {separator!r}")
    numbered = label is not None and label not in first and label.isdecimal() and 1 <= int(label) <= len(first)
    if looks_like_data(first, (MARKER,)) or numbered:
        found.keys["header"] = False
        found.notes.append(f'line 1 is data, not names: columns are called "1" to "{len(first)}"')
    return Layout(found.keys.get("header"), separator, encoding=encoding)


def _encoding(path: Path, found: Look) -> str | None:
    """None where the text is UTF-8, or says itself what it is; else a guess, which is noted."""
    try:
        with opened(path) as file:
            for _ in file:
                pass
    except UnicodeDecodeError as error:
        guess = guessed_encoding(error.object)
        found.keys["encoding"] = guess
        found.notes.append(f"the file is no UTF-8; it is read as {guess}: look at a text with accents")
        return guess
    return None


def _convention(path: Path, layout: Layout, label: str | None, found: Look) -> Convention:
    """How the columns of numbers are written: under the one convention that fits them all.

    Raises:
        InputError: none fits all columns that look like numbers, or several do.
    """
    stated = Convention(found.keys.get("decimal", "."), found.keys.get("thousands", ""))
    if stated != PLAIN:
        return stated
    with opened(path, layout.encoding) as file:
        lines = [record for _, record in records(file, layout.separator)]
    names = [str(k + 1) for k in range(len(lines[0]))] if layout.header is False else lines.pop(0)
    columns = dict[str, list[str]]()
    for name, cells in zip(names, zip(*lines, strict=False), strict=False):
        texts = [] if name == label else _digits({cell.strip() for cell in cells})
        if texts and all(conventions([text]) for text in texts):
            columns[name] = texts
            if not conventions(texts):
                odd = next(text for text in texts if not conventions([texts[0], text]))
                said = f"column {name!r} writes numbers in different ways, {texts[0]!r} and {odd!r}"
                raise InputError(f"{path}: {said}; write them alike")
    fits = conventions(*columns.values())
    dotted = layout.separator != "," and any("." in text for texts in columns.values() for text in texts)
    if not columns or (fits[:1] == [PLAIN] and not (dotted and len(fits) > 1)):
        return PLAIN
    if len(fits) != 1:
        raise InputError(f"{path}: {_undecided(columns, fits)}")
    [one] = fits
    found.keys |= {"decimal": one.decimal} if one.decimal != "." else {}
    found.keys |= {"thousands": one.thousands} if one.thousands else {}
    between = f", with {one.thousands!r} between thousands" if one.thousands else ""
    found.notes.append(f"numbers are written with the decimal sign {one.decimal!r}{between}")
    return one


def _digits(texts: set[str]) -> list[str]:
    """The texts with a digit, if they are at least half of them."""
    there = [text for text in texts if text]
    found = [text for text in there if any(map(str.isdigit, text))]
    return sorted(found) if 2 * len(found) >= len(there) else []


def _undecided(columns: Mapping[str, Sequence[str]], fits: Sequence[Convention]) -> str:
    """Why it is not clear how numbers are written, and what to state."""
    shown = {name: next((t for t in texts if not PLAIN.reads([t])), texts[0]) for name, texts in columns.items()}
    if fits:
        name, text = next((one for one in shown.items() if not one[1].isdigit()), next(iter(shown.items())))
        ways = " or ".join(
            " ".join(f"--{key} {quoted(sign)}" for key, sign in zip(("decimal", "thousands"), fit, strict=True) if sign)
            for fit in fits
        )
        return f"column {name!r} has {text!r}, which is a number in several ways; state {ways}"
    first = next(iter(shown))
    other = next(name for name in columns if not conventions(columns[first], columns[name]))
    return (
        f"columns {first!r} and {other!r} write numbers in different ways, {shown[first]!r} and {shown[other]!r}; "
        "write them alike"
    )


def _dates(table: Table, label: str, found: Look) -> dict[str, str]:
    """The columns of dates with their formats."""
    dates = dict[str, str]()
    for name, values in table.columns.items():
        if name == label or not is_text(values):
            continue
        texts = sorted({str(value).strip() for value in values[~is_missing(values)]})
        if len(forms := date_formats(texts)) == 1:
            dates[name] = forms[0]
        elif forms:
            found.left_out[name] = (
                f"dates such as {texts[0]!r}, of which day and month cannot be told apart; population.dates states a "
                f"format, such as {{ {quoted(name)} = {quoted(forms[0])} }}"
            )
    if dates:
        found.keys["dates"] = dates
        found.notes.append(f"dates become days from 1970-01-01: {shortened(', '.join(map(repr, dates)))}")
    return dates


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
    found.notes.append(
        f"{count(len(classes), 'class')} of {label!r}, sorted: {shortened(', '.join(map(str, classes)))}"
    )
    found.rows = len(plain)
    if gaps.any():
        found.keys["drop"] = [label]
        found.notes.append(f"{count(int(gaps.sum()), 'user')} without a label: left out")


def _useful(table: Table, name: str, found: Look) -> bool:
    """Whether a column can be learned from; a note says why not."""
    reason = found.left_out.get(name) or _useless(name, table.columns[name])
    if reason:
        found.left_out[name] = reason
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
