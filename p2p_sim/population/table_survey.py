"""Surveys a table, and proposes keys of [population]: how to read the table, and which columns to learn from."""

import csv
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from p2p_sim.base import InputError, count, shortened
from p2p_sim.population.features import is_text, quoted
from p2p_sim.population.table_file import (
    SEPARATORS,
    TEXTS,
    ColumnTable,
    Layout,
    Record,
    Values,
    guessed_encoding,
    is_missing,
    is_words,
    opened,
    read_columns,
    read_table,
    records,
    suffix_of,
)
from p2p_sim.population.table_numbers import PLAIN, Convention, common_convention, date_formats, days, looks_like_data

MARKER = "?"
"""The text that always stands for a missing value."""
MOST_MARKERS, MOST_CATEGORIES, MOST_CLASSES = 3, 100, 256
"""Largest numbers: of texts for missing values in one column, of values of a one-hot column, and of classes."""
WITH_UNIT = r"(?:[€$£¥]\s?)?[+-]?[\d.,'\s]*\d\s?(?:[%‰€$£¥]|\s[A-Za-z]{1,3})?"
LIKE_A_DATE = r".{0,12}\d{1,4}[ ./-]\s?[A-Za-z0-9]+[ ./,-]+\d{1,4}.*"
"""Patterns of a number with a unit, and of a text of three parts, such as a date."""
IDENTIFIED = 20
"""Least number of values in a column of names or identifiers that is recognised because all values differ."""


@dataclass
class Look:
    """The keys of [population] that a survey of a table proposes, and notes for the table's owner.

    keys: proposed keys of [population], besides kind, path and label. rows: number of rows with a label. notes: lines
    that explain the proposal. left_out: the columns that are not learned from, each with the reason.
    """

    keys: dict[str, Any] = field(default_factory=dict)
    rows: int = 0
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def lost(self) -> dict[str, str]:
        """The columns that are not used as features, each with the reason. Identifiers are not listed: they only number
        the rows.
        """
        return {name: why for name, why in self.left_out.items() if not why.endswith("identifier")}

    def loss(self, label: str) -> str:
        """A clause for messages: how many columns besides the label are left out, which and why. Identifiers, which
        only number the rows, are not counted. For use if `lost` is not empty. label: name of the label column.
        """
        columns = len(self.lost) + len(self.keys["features"])
        reasons = "; ".join(f"{name!r}: {why}" for name, why in self.lost.items())
        return f"{len(self.lost)} of {columns} columns besides {label!r} are left out ({reasons})"


def look_at(path: Path, label: str | None, stated: Mapping[str, str] | None = None) -> Look:
    """Surveys a table, and proposes how to read it and which columns to learn from.

    Args:
        path: path of the table. label: name of the label column. stated: the owner's values for some of the keys
        separator, decimal, thousands and encoding.

    Raises:
        InputError: the table cannot be read; the label column is missing or cannot be a label; no other column can be
        learned from; the stated separator is invalid; or the notation of numbers is not clear.
    """
    look = Look({**(stated or {}), "proposed": True})
    try:
        layout = _layout(path, label, look)
    except (OSError, EOFError, UnicodeError, LookupError, zlib.error, csv.Error) as error:
        raise InputError(f"--data {path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    columns = read_columns(path, layout, as_words=True)
    if label is None or label not in columns:
        fault = "--label is missing" if label is None else f"--label {label}: no such column"
        raise InputError(f"{fault}; {path} has {shortened(', '.join(map(repr, columns)))}")
    texts = {name: pd.Series(words).value_counts() for name, words in columns.items() if is_words(words)}
    layout = layout._replace(numbers=_convention(path, layout, {n: t for n, t in texts.items() if n != label}, look))
    markers = {MARKER} if any(MARKER in counts for counts in texts.values()) else set[str]()
    dates, written = dict[str, str](), list[str]()
    for name, counts in texts.items():
        if name != label:
            contents = _contents(name, counts, layout.numbers, look)
            markers |= set(contents.words)
            dates |= {name: contents.dates} if contents.dates else {}
            written += [name] if contents.numbers else []
    _note(markers, dates, look)
    dated = {*dates, *(name for name, cells in columns.items() if cells.dtype.kind == "M")}
    del columns, texts  # the columns of texts need more memory than the table
    layout = layout._replace(missing=tuple(sorted(markers)), dates=tuple(dates.items()))
    table = read_table(path, layout)
    written = [name for name in written if is_text(table.columns[name])]
    table.columns.update({name: table.columns[name].astype(np.float64) for name in written})
    _label(table, label, look)
    for name in table.columns:
        if name != label and (reason := look.left_out.get(name) or _useless(name, table.columns[name], name in dated)):
            look.left_out[name] = reason
            look.notes.append(f"column {name!r} is left out: {reason}")
    features = [name for name in table.columns if name not in (label, *look.left_out)]
    if not features:
        raise InputError(f"{path}: no column besides the label {label!r} can be learned from")
    if len(features) + 1 < len(table.columns):
        look.keys["features"] = features
    _treated(table, features, written, look)
    return look


def _note(markers: set[str], dates: dict[str, str], look: Look) -> None:
    """Adds keys and notes to `look`, the proposal: how texts for missing values and dates are read.

    Args:
        markers: texts that stand for a missing value, such as "?". dates: format of each column of dates, by name.
    """
    if markers:
        look.keys["missing"] = sorted(markers)
        verb = "is" if len(markers) == 1 else "are each"
        look.notes.append(f"{', '.join(map(quoted, sorted(markers)))} {verb} read as a missing value")
    if dates:
        look.keys["dates"] = dates
        look.notes.append(f"dates become days from 1970-01-01: {shortened(', '.join(map(repr, dates)))}")


def _treated(table: ColumnTable, features: Sequence[str], written: Sequence[str], look: Look) -> None:
    """Adds keys and notes to `look`, the proposal: how missing values, texts and numbers become features.

    features: names of the columns to learn from. written: names of the columns of numbers that the file holds as texts.
    """
    texts = [name for name in features if is_text(table.columns[name])]
    gaps = {name: int(is_missing(table.columns[name]).sum()) for name in features}
    if any(gaps.values()):
        look.keys["impute"] = True
        holes = ", ".join(f"{name!r} ({count:,})" for name, count in gaps.items() if count)
        look.notes.append(
            f"missing values are filled in: {shortened(holes)}; drop = true leaves such users out instead"
        )
    if texts:
        look.keys["one_hot"] = True
        look.notes.append(f"columns of text become one-hot: {shortened(', '.join(map(repr, texts)))}")
    if len(texts) < len(features):
        named = texts and set(written) & set(features)
        look.keys["standardise"] = [name for name in features if name not in texts] if named else True
        look.notes.append("columns of numbers are standardised: clusters and learner depend on scale")


def _layout(path: Path, label: str | None, look: Look) -> Layout:
    """The separator, header and encoding of a CSV file, as stated in `look` or as the file suggests.

    Suggested values are added to `look`, the proposal, unless they are defaults. A file of another kind has the
    default layout. label: name of the label column, or its number if there is no header.

    Raises:
        InputError: the stated separator is no single character that may separate cells.
    """
    if suffix_of(path) not in TEXTS:
        return Layout()
    tabs = suffix_of(path) in (".tsv", ".tsv.gz")
    encoding = look.keys.get("encoding") or _encoding(path, look)
    if (sign := look.keys.get("separator", ";")) in '"\r\n' or len(sign) > 1 or sign.isalnum():
        raise InputError(f"--separator {sign}: must be a character that separates cells, such as ';' or '|'")
    # take the most frequent separator of the first line, then see whether this line's cells are names
    with opened(path, encoding) as file:
        line = next(file, "")
        separator = look.keys.get("separator") or ("\t" if tabs else max(SEPARATORS, key=line.count))
        file.seek(0)
        first = next(records(file, separator), Record(0, [])).cells
    if separator != "," and not tabs and "separator" not in look.keys:
        look.keys["separator"] = separator
        look.notes.append(f"cells are separated by {separator!r}")
    numbered = label is not None and label not in first and label.isdecimal() and 1 <= int(label) <= len(first)
    if looks_like_data(first, (MARKER,)) or numbered:
        look.keys["header"] = False
        look.notes.append(f'line 1 is data, not names: columns are called "1" to "{len(first)}"')
    return Layout(look.keys.get("header"), separator, encoding=encoding)


def _encoding(path: Path, look: Look) -> str | None:
    """The encoding to state for a text file. None: the file is UTF-8, or has a byte-order mark.

    Any other encoding is guessed, and added to `look`, the proposal, with a note for the owner.
    """
    try:
        with opened(path) as file:
            for _ in file:
                pass
    except UnicodeDecodeError as error:
        guess = guessed_encoding(error.object)
        look.keys["encoding"] = guess
        look.notes.append(f"the file is no UTF-8; it is read as {guess}: look at a text with accents")
        return guess
    return None


def _convention(path: Path, layout: Layout, texts: Mapping[str, pd.Series], look: Look) -> Convention:
    """The notation of numbers in a table, as stated or as the columns suggest. A suggested notation is added to `look`.

    texts: for each column of texts, the number of cells with each text.
    """
    stated = Convention(look.keys.get("decimal", "."), look.keys.get("thousands", ""))
    if look.keys.keys() & {"decimal", "thousands"}:
        return stated
    style = common_convention(path, texts, layout.separator)
    look.keys |= {key: sign for key, sign, usual in zip(style._fields, style, PLAIN, strict=True) if sign != usual}
    if style != PLAIN:
        between = f", with {style.thousands!r} between thousands" if style.thousands else ""
        look.notes.append(f"numbers are written with the decimal sign {style.decimal!r}{between}")
    return style


class TableContents(NamedTuple):
    """The contents of a text column. numbers: whether the cells are numbers. dates: format of the dates; empty: no
    dates. words: texts that stand for a missing value.
    """

    numbers: bool = False
    dates: str = ""
    words: Sequence[str] = ()


def _contents(name: str, counts: pd.Series, style: Convention, look: Look) -> TableContents:
    """What a text column holds: numbers, or dates of a format, and the few other texts, taken as missing values.

    For any other column, the result is empty: no numbers, no dates, no missing values. If the column only looks like
    numbers or dates, the reason is added to `look`, the proposal.

    Args:
        name: name of the column. counts: the number of cells with each text. style: notation of numbers in the table.
    """
    texts, rows = pd.Series(counts.index), counts.to_numpy()
    fits = PLAIN.reads(texts) | style.reads(texts)
    numbers = bool(len(texts)) and 2 * rows[fits].sum() >= rows.sum()
    formats = date_formats(texts[fits].reset_index(drop=True) if numbers else texts)
    if numbers and not all(dated.all() for dated in formats.values()):
        formats = {}
    elif not numbers and formats:
        most = max(int(rows[dated].sum()) for dated in formats.values())
        formats = {form: dated for form, dated in formats.items() if rows[dated].sum() == most}
        fits = next(iter(formats.values()))
    form = next(iter(formats), "")
    # a year 69 is read as 1969, but 68 as 2068: dates over 60 years apart are likely read wrongly
    far_apart = "%y" in form and float(np.ptp(days(texts[fits], form))) > 365.25 * 60
    unclear = "day and month" if len(formats) > 1 else "the centuries" if far_apart else ""
    if unclear:
        look.left_out[name] = (
            f"dates such as {min(texts)!r}, of which {unclear} cannot be told apart; population.dates states a "
            f"format, such as {{ {quoted(name)} = {quoted(form)} }}"
        )
        return TableContents()
    words = texts[~fits].tolist()
    if (numbers or form) and len(words) <= MOST_MARKERS:
        return TableContents(bool(numbers) and not form, form, words)
    usual = f"dates of the form {form}" if form else "numbers" if numbers else ""
    if reason := _mixed(name, texts, words, int(rows[~fits].sum()), usual):
        if len(texts) > MOST_CATEGORIES:
            look.left_out[name] = reason
        else:
            look.notes.append(f"column {name!r}: {reason}; as it stands each value becomes a feature")
    return TableContents()


def _mixed(name: str, texts: pd.Series, words: Sequence[str], cells: int, usual: str) -> str:
    """The reason why a column that seems to hold numbers or dates holds neither, with advice; empty: there is none.

    Examples are numbers with a unit, dates in an unknown form, and numbers mixed with other texts.

    Args:
        texts: all different texts of the column. words: the texts that are not numbers (or dates), though most cells
        are. cells: number of cells with such words. usual: what most cells are, such as "numbers"; empty: neither
        numbers nor dates.
    """
    if usual:
        examples = shortened(", ".join(map(repr, sorted(words)[:MOST_MARKERS])))
        return (
            f"most cells are {usual}, {cells:,} are not ({examples}, ...): name these in population.missing, or "
            "correct them"
        )
    if len(texts) and texts.str.fullmatch(WITH_UNIT).mean() > 0.5:
        return f"numbers with a unit, such as {texts[0]!r}: write the numbers alone"
    # only 50 texts are tried as dates, since pandas is slow to guess formats
    few = texts[texts.str.fullmatch(LIKE_A_DATE)].iloc[:50]
    if (
        2 * len(few) > min(50, len(texts))
        and pd.to_datetime(few, format="mixed", errors="coerce", utc=True).notna().all()
    ):
        return (
            f"dates such as {few.iloc[0]!r}, in a form that is not recognised; population.dates states it, such as "
            f"{{ {quoted(name)} = {quoted('%Y-%m-%d')} }}"
        )
    return ""


def _label(table: ColumnTable, label: str, look: Look) -> None:
    """Adds keys and notes to `look`, the proposal, for the classes of the label column and for rows without a label.

    Raises:
        InputError: a row of the column holds more than one value; or the column does not have 2 to 256 different
        values.
    """
    values = table.columns[label]
    if values.ndim != 1:
        raise InputError(f"--label {label}: must be one plain value a row in {table.path}")
    gaps = is_missing(values)
    # pandas finds the different texts without sorting all cells
    there = values[~gaps]
    classes = np.unique(pd.unique(there).astype(str) if is_text(values) else there).tolist()
    if not 2 <= len(classes) <= MOST_CLASSES:
        hint = "; a label is a class, so divide its numbers into a few ranges first" if len(classes) > 2 else ""
        raise InputError(
            f"--label {label}: {len(classes):,} different values in {table.path}; 2 to 256 are allowed{hint}"
        )
    if is_text(values) or values.dtype.kind in "iuf":
        look.keys["classes"] = [int(v) if isinstance(v, float) and v.is_integer() else v for v in classes]
    look.notes.append(f"{count(len(classes), 'class')} of {label!r}, sorted: {shortened(', '.join(map(str, classes)))}")
    look.rows = len(there)
    if gaps.any():
        look.keys["drop"] = [label]
        look.notes.append(f"{count(int(gaps.sum()), 'user')} without a label: left out")


def _useless(name: str, values: Values, dated: bool) -> str:
    """The reason why a column cannot be learned from; empty: it can be.

    Reasons are: the cells are neither numbers nor texts; all rows have the same value; the column holds names or
    identifiers. Names are more than 100 different texts, or at least 20 texts that all differ. Identifiers are at least
    20 whole numbers, no dates, that all differ. They must be in order, or in a column called id, index or the like.

    dated: whether the column holds dates.
    """
    if values.ndim != 1 or values.dtype.kind not in "biufOUS":
        return "it holds neither numbers nor texts"
    there = values[~is_missing(values)]
    text = is_text(values)
    different = len(pd.unique(there))
    if different < 2:
        return "it has the same value for all users"
    # names, then identifiers, as the docstring describes them
    alone = different == len(there) >= IDENTIFIED
    if text and (different > MOST_CATEGORIES or alone):
        return f"a text with {different:,} different values, as of a name"
    whole = not text and not dated and values.dtype.kind in "iuf" and bool(np.all(there == np.floor(there)))
    ordered = whole and bool(np.all(np.diff(there) > 0) or np.all(np.diff(there) < 0))
    called = name.lower().replace("-", "_").split("_")[-1] in ("id", "index", "nr", "no", "number")
    if alone and whole and (ordered or called):
        return "every user has a number of her own there, as of an identifier"
    return ""
