"""Reads tables from CSV, Parquet, Feather or NPZ files: columns, and the line of each cell for messages."""

import codecs
import csv
import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.errors import InputError, shortened
from p2p_sim.population.table_numbers import PLAIN, Convention, days, is_number, looks_like_data

if TYPE_CHECKING:
    import pandas as pd

Values = NDArray[np.generic]
SEPARATORS = (",", ";", "\t", "|")
"""Characters between cells that are recognised without being stated."""
TEXTS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
SUFFIXES = (*TEXTS, ".parquet", ".feather", ".npz")
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Encodings by the bytes with which a file begins; the mark of UTF-32 begins with that of UTF-16."""


class Layout(NamedTuple):
    """How to read a CSV file.

    header: whether the first line names the columns; None: yes, but a line that looks like data is refused.
    separator: between two cells. missing: texts that stand for a missing value, besides an empty cell and the usual NA
    and NaN. numbers: their notation. encoding: of the text; None: by the bytes with which it begins, else UTF-8.
    dates: pairs of a column and its date format; such dates become days.
    """

    header: bool | None = None
    separator: str = ","
    missing: tuple[str, ...] = ()
    numbers: Convention = PLAIN
    encoding: str | None = None
    dates: tuple[tuple[str, str], ...] = ()


class Cell(NamedTuple):
    """A cell for messages: its location, such as "column 'age', line 88", and its text in the file."""

    where: str
    text: str


class Record(NamedTuple):
    """One record of a CSV file: the number of its first line, from 1, and its cells."""

    line: int
    cells: list[str]


@dataclass(frozen=True)
class ColumnTable:
    """A file as columns by name, each with one value (n,) or several (n, k) a row; without header "1", "2", ..."""

    path: Path
    layout: Layout
    columns: dict[str, Values]

    @property
    def is_csv(self) -> bool:
        """Whether the file is a CSV or TSV file, whose lines messages can name."""
        return suffix_of(self.path) in TEXTS

    @property
    def rows(self) -> int:
        """Number of rows; in an NPZ file with arrays of different lengths, that of the longest."""
        return max((len(values) for values in self.columns.values() if values.ndim), default=0)

    def otherwise_read(self) -> str:
        """Advice on reading the file with other keys, as the end of a message; empty if it seems to be read well."""
        if not self.is_csv:
            return ""
        with opened(self.path, self.layout.encoding) as file:
            first = next(file, "")
        better = max(SEPARATORS, key=first.count)
        if len(self.columns) == 1 and first.count(better) and better != self.layout.separator:
            return f"; population.separator = {json.dumps(better)} would make {first.count(better) + 1} columns of it"
        if self.layout.header is not False and any(map(is_number, self.columns)):
            return '; if line 1 is data, population.header = false calls the columns "1", "2", and so on'
        return ""

    def cell(self, name: str, row: int) -> Cell:
        """The location and text of a column's cell, for messages; `row` counts from 0 below the header."""
        values = self.columns[name]
        if self.is_csv:
            try:
                with opened(self.path, self.layout.encoding) as file:
                    record = next((f for i, f in enumerate(self._lines(file)) if i == row), None)
            except (OSError, EOFError, csv.Error):
                record = None
            position = list(self.columns).index(name)
            if record is not None:
                text = record.cells[position] if position < len(record.cells) else ""
                return Cell(f"column {name!r}, line {record.line}", text)
        return Cell(f"column {name!r}, row {row}", str(values[row]) if values.ndim == 1 else "")

    def _lines(self, file: TextIO) -> Iterator[Record]:
        """Yields the records of an open CSV file below its header."""
        lines = records(file, self.layout.separator)
        if self.layout.header is not False:
            next(lines, None)
        return lines


def read_table(path: Path, layout: Layout) -> ColumnTable:
    """Reads the columns of a file; dates become days from 1970-01-01, numbers written as text become numbers.

    Raises:
        InputError: it cannot be read, its first line is taken for names and looks like data, or a date is none.
    """
    columns, forms = read_columns(path, layout), dict(layout.dates)
    for name in forms.keys() - columns.keys():
        raise InputError(f"population.dates: {path} has no column {name!r}")
    table = ColumnTable(path, layout, dict(columns))
    for name, values in columns.items():
        dated = name in forms and values.ndim == 1
        if dated or values.dtype.kind == "M":
            table.columns[name] = days(values, forms.get(name))
        elif layout.numbers != PLAIN and is_words(values):
            table.columns[name] = _numbers(values, layout.numbers)
        if dated and (wrong := np.flatnonzero(np.isnan(table.columns[name]) & ~is_missing(values))).size:
            cell = table.cell(name, int(wrong[0]))
            raise InputError(f"{path}: {cell.where}: {cell.text!r} is no date of the form {forms[name]!r}")
    return table


def read_columns(path: Path, layout: Layout, as_words: bool = False) -> dict[str, Any]:
    """Reads the columns of a file by name, without converting dates; a missing text is NaN.

    Args:
        as_words: keep all cells of a CSV file as texts.

    Raises:
        InputError: it cannot be read, or its first line is taken for names and looks like data.
    """
    suffix = suffix_of(path)
    if suffix not in SUFFIXES:
        raise InputError(f"population.path = {str(path)!r}: must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    try:
        if suffix == ".npz":
            columns = _read_npz(path)
        else:
            frame = _read_csv(path, layout, as_words) if suffix in TEXTS else _read_arrow(path, suffix)
            columns = {str(name): frame[name].to_numpy() for name in frame.columns}
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(_undecoded(path, error)) from None
    except Exception as error:  # the readers of a damaged file raise whatever they meet first
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"population.path = {str(path)!r}: cannot be read ({first})") from None
    if suffix not in TEXTS and layout.missing:
        columns = {name: _with_gaps(values, layout.missing) for name, values in columns.items()}
    return columns


def is_words(values: "Values | pd.Series") -> bool:
    """Whether all values of a column are texts, apart from missing ones."""
    import pandas as pd

    return values.dtype.kind == "O" and pd.api.types.infer_dtype(values, skipna=True) == "string"


def is_missing(values: Values) -> NDArray[np.bool_]:
    """Marks the rows (n,) of a column that miss a value; with several values a row, those that miss any."""
    import pandas as pd

    gaps = np.asarray(pd.isna(values), dtype=np.bool_)
    return gaps if gaps.ndim == 1 else np.asarray(gaps.reshape(len(gaps), -1).any(axis=1))


def _numbers(words: Values, style: Convention) -> Values:
    """A text column converted to numbers, each in the notation `style` or plain; unchanged if a text is no number."""
    import pandas as pd

    gaps = is_missing(words)
    for numbers in (convention.numbers(pd.Series(words[~gaps], dtype=str)) for convention in (style, PLAIN)):
        if numbers is not None and gaps.any():
            values = np.full(len(words), np.nan)
            values[~gaps] = numbers
            return values
        if numbers is not None:
            return numbers
    return words


def suffix_of(path: Path) -> str:
    """The ending of a file's name that decides how it is read, such as .csv.gz."""
    return "".join(path.suffixes[-2:]).lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def _undecoded(path: Path, error: UnicodeDecodeError) -> str:
    """A message that names the first line that is invalid in its encoding, and the key that states another one."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as damage:
        return f"population.path = {str(path)!r}: cannot be read ({damage})"
    sure = content.decode("utf-8", errors="surrogateescape")
    line = 1 + next((i for i, text in enumerate(sure.split("\n")) if any("\udc80" <= c <= "\udcff" for c in text)), 0)
    return (
        f"{path}, line {line}: is no text in {error.encoding}; population.encoding = "
        f"{json.dumps(guessed_encoding(content))} may be what it is written in"
    )


def guessed_encoding(content: bytes) -> str:
    """A likely encoding of bytes that are not UTF-8: UTF-16 if many bytes are zero, else latin-1."""
    if content.count(b"\0") > len(content) // 4:
        return "utf-16-be" if content[:1] == b"\0" else "utf-16-le"
    return "latin-1"


def _with_gaps(values: Values, missing: tuple[str, ...]) -> Values:
    """A text column with NaN in place of the texts that stand for a missing value."""
    if values.dtype.kind != "O":
        return values
    texts: Values = np.array([np.nan if v in missing else v for v in values], dtype=object)
    return texts


def _read_npz(path: Path) -> dict[str, Values]:
    with np.load(path, allow_pickle=False) as file:
        columns = {name: np.asarray(file[name]) for name in file.files}
    for name, values in columns.items():
        if values.dtype.kind == "U":
            characters = np.frombuffer(values.tobytes(), np.dtype(np.uint32).newbyteorder(values.dtype.byteorder))
            if (characters > sys.maxunicode).any():
                raise ValueError(f"{name!r} holds what is no character")
    return columns


def _read_arrow(path: Path, suffix: str) -> "pd.DataFrame":
    import pandas as pd

    return pd.read_parquet(path) if suffix == ".parquet" else pd.read_feather(path)


def _read_csv(path: Path, layout: Layout, as_words: bool) -> "pd.DataFrame":
    import pandas as pd

    names = _checked(path, layout)
    dates = [int(name) - 1 if layout.header is False else name for name, _ in layout.dates]
    frame = pd.read_csv(
        path, sep=layout.separator, header=None if layout.header is False else 0, na_values=list(layout.missing),
        dtype=str if as_words else dict.fromkeys(dates, str), decimal=layout.numbers.decimal, skipinitialspace=True,
        engine="c", encoding=encoding_of(path, layout.encoding), index_col=False,
    )  # fmt: skip
    if len(frame.columns) != names:
        raise InputError(f"{path}: {names} columns are expected, and {len(frame.columns)} are read")
    if layout.header is False:
        frame.columns = pd.Index([str(number) for number in range(1, frame.shape[1] + 1)])
    return frame


def _checked(path: Path, layout: Layout) -> int:
    """Checks the records of a CSV file, and returns its number of columns.

    pandas would accept such faulty files, and move or rename their contents.

    Raises:
        InputError: a record has more or fewer cells than the first, two names are equal, or a first line that is taken
            for names looks like data.
    """
    with opened(path, layout.encoding) as file:
        begin, first = next(records(file, layout.separator), Record(1, []))
        _check_names(path, begin, first, layout)
        if set(map(len, _reader(file, layout.separator))) <= {len(first)}:
            return len(first)
        file.seek(0)  # some line is blank, or has too many or too few cells: a slower look finds it
        for line, record in records(file, layout.separator):
            if len(record) != len(first):
                names = layout.header is not False and len(record) > len(first)
                unit = "names; every column needs one" if names else "cells"
                raise InputError(f"{path}, line {line}: {len(record)} cells, but line {begin} has {len(first)} {unit}")
    return len(first)


def _check_names(path: Path, begin: int, first: list[str], layout: Layout) -> None:
    """Raise InputError if the first record is empty, looks like data instead of names, or has a name twice."""
    if not first:
        raise InputError(f"{path}: is empty; a table has a line of names and a row for each user")
    if layout.header is None and looks_like_data(first, layout.missing):
        excerpt = shortened(layout.separator.join(first[:5]))
        raise InputError(
            f"{path}, line 1: {excerpt!r} looks like data, not like names of columns; state population.header = "
            'false (columns are then called "1", "2", and so on), or header = true if these are the names'
        )
    twice = next((name for i, name in enumerate(first) if name in first[:i]), None)
    if layout.header is not False and twice is not None:
        raise InputError(
            f"{path}, line {begin}: two columns are called {twice!r}; every column needs a name of its own"
        )


def encoding_of(path: Path, stated: str | None) -> str:
    """The encoding of a CSV file: as stated, as its first bytes show, or UTF-8."""
    if stated is not None:
        return stated
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        begin = file.read(4)
    return next((name for mark, name in MARKS.items() if begin.startswith(mark)), "utf-8")


@contextmanager
def opened(path: Path, encoding: str | None = None) -> Iterator[TextIO]:
    """Open a CSV file, plain or compressed by gzip, as text in its encoding."""
    name = encoding_of(path, encoding)
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding=name, newline="") as file:
            yield file
    else:
        with path.open(encoding=name, newline="") as file:
            yield file


def records(file: TextIO, separator: str) -> Iterator[Record]:
    """Yields the records of a CSV file that are not blank, in order."""
    reader, line = _reader(file, separator), 1
    for record in reader:
        if len(record) > 1 or (record and record[0].strip()):
            yield Record(line, record)
        line = reader.line_num + 1


def _reader(file: TextIO, separator: str) -> Any:
    return csv.reader(file, delimiter=separator, skipinitialspace=True)
