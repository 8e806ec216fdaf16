"""Reads the columns of tables in CSV, Parquet, Feather or NPZ files, and finds the line of a cell for messages."""

import codecs
import csv
import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError, shortened
from p2p_sim.population.table_numbers import PLAIN, Convention, days, is_number, looks_like_data

if TYPE_CHECKING:
    import pandas as pd

Values = NDArray[np.generic]
SEPARATORS = (",", ";", "\t", "|")
"""Separators of cells that are recognised where none is stated."""
TEXTS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
SUFFIXES = (*TEXTS, ".parquet", ".feather", ".npz")
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""The encoding for each byte-order mark with which a file may begin. UTF-32 comes first, since its mark begins with
that of UTF-16."""


class Layout(NamedTuple):
    """How to read a CSV file.

    header: whether the first line names the columns; None: it does, but a first line that looks like data is refused.
    separator: the character between two cells. missing: texts that stand for a missing value, besides an empty cell and
    those that pandas knows, such as NA, NaN, null and None; it also counts in Parquet and Feather files.
    numbers: notation of numbers. encoding: encoding of the text; None: as the byte-order mark shows, else UTF-8.
    dates: pairs of a column and its date format; such dates become days from 1970-01-01.
    """

    header: bool | None = None
    separator: str = ","
    missing: tuple[str, ...] = ()
    numbers: Convention = PLAIN
    encoding: str | None = None
    dates: tuple[tuple[str, str], ...] = ()


class Cell(NamedTuple):
    """The location of a cell, such as "column 'age', line 88", and its text in the file, for messages."""

    where: str
    text: str


class Record(NamedTuple):
    """One record of a CSV file: the number of its first line, from 1, and its cells."""

    line: int
    cells: list[str]


@dataclass(frozen=True)
class ColumnTable:
    """The columns of a file by name: (n,), or (n, k) with k values in each row. If the file has no header, the columns
    are called "1", "2" and so on.
    """

    path: Path
    layout: Layout
    columns: dict[str, Values]

    @property
    def rows(self) -> int:
        """Number of rows; in an NPZ file with arrays of different lengths, that of the longest."""
        return max((len(values) for values in self.columns.values() if values.ndim), default=0)

    def otherwise_read(self) -> str:
        """Advice that is appended to an error message about a missing column: a setting with which the file may be read
        as its owner meant.

        It proposes another separator if the file has a single column and its first line has this separator, or header =
        false if a name of a column is a number. Otherwise, and for a file that is no CSV file, the advice is empty.
        """
        if suffix_of(self.path) not in TEXTS:
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
        if suffix_of(self.path) in TEXTS:
            number, record = row if self.layout.header is False else row + 1, None
            with suppress(OSError, EOFError, csv.Error), opened(self.path, self.layout.encoding) as file:
                record = next(islice(records(file, self.layout.separator), number, None), None)
            if record is not None:
                position = list(self.columns).index(name)
                text = record.cells[position] if position < len(record.cells) else ""
                return Cell(f"column {name!r}, line {record.line}", text)
        return Cell(f"column {name!r}, row {row}", str(values[row]) if values.ndim == 1 else "")


def read_table(path: Path, layout: Layout) -> ColumnTable:
    """Reads the columns of a file. Dates become days from 1970-01-01. If the layout's notation of numbers is not the
    plain one, columns of texts that stand for numbers become numbers; plain numbers in a CSV file are read as numbers
    anyway.

    Raises:
        InputError: the file cannot be read or has faulty records, its first line should name columns but looks like
            data, a column for which the layout states a form of dates is missing, or a cell in it is no date.
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
    """Reads the columns of a CSV, Parquet, Feather or NPZ file: a dict with an array for each column name. Texts of
    dates stay texts. A missing value becomes NaN, and so does each text that the layout states for missing values,
    except in an NPZ file.

    Args:
        path: path of the file. layout: how to read a CSV file (separator, header, encoding, decimal sign), and texts
        for missing values. as_words: whether to keep all cells of a CSV file as texts, numbers included.

    Raises:
        InputError: the file cannot be read or has faulty records, or its first line should name columns but looks like
            data.
    """
    suffix = suffix_of(path)
    if suffix not in SUFFIXES:
        raise InputError(f"population.path = {str(path)!r}: must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    try:
        if suffix == ".npz":
            columns = _read_npz(path)
        else:
            import pandas as pd

            read = pd.read_parquet if suffix == ".parquet" else pd.read_feather
            frame = _read_csv(path, layout, as_words) if suffix in TEXTS else read(path)
            columns = {str(name): frame[name].to_numpy() for name in frame.columns}
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(_undecoded(path, error)) from None
    except Exception as error:  # readers of damaged files raise errors of many types
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"population.path = {str(path)!r}: cannot be read ({first})") from None
    if suffix not in TEXTS:  # texts that stand for a missing value; pandas replaces those of CSV files
        for name, values in columns.items():
            if layout.missing and values.dtype.kind == "O":
                columns[name] = np.array([np.nan if v in layout.missing else v for v in values], dtype=object)
    return columns


def is_words(values: "Values | pd.Series") -> bool:
    """Whether all values of a column of objects are texts, apart from missing ones; false if all are missing, and for
    arrays of NumPy's own type for texts, as in NPZ files.
    """
    import pandas as pd

    return values.dtype.kind == "O" and pd.api.types.infer_dtype(values, skipna=True) == "string"


def is_missing(values: Values) -> NDArray[np.bool_]:
    """Marks the rows (n,) of a column in which a value is missing. A row of several values is marked if at least one of
    them is missing.
    """
    import pandas as pd

    gaps = np.asarray(pd.isna(values), dtype=np.bool_)
    return gaps if gaps.ndim == 1 else np.asarray(gaps.reshape(len(gaps), -1).any(axis=1))


def _numbers(words: Values, style: Convention) -> Values:
    """A column of texts as numbers (n,) if all are in the notation `style`, or all in plain notation; else unchanged.

    words: (n,) texts, or missing values, which become NaN.
    """
    import pandas as pd

    gaps = is_missing(words)
    texts = pd.Series(words[~gaps], dtype=str)
    numbers = style.numbers(texts)
    if numbers is None and (numbers := PLAIN.numbers(texts)) is None:
        return words
    if not gaps.any():
        return numbers
    values = np.full(len(words), np.nan)
    values[~gaps] = numbers
    return values


def suffix_of(path: Path) -> str:
    """The ending of a file's name, such as .csv.gz, which decides how the file is read."""
    return "".join(path.suffixes[-2:]).lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def _undecoded(path: Path, error: UnicodeDecodeError) -> str:
    """A message that names the first line that is invalid in the encoding, and the key that states another encoding.

    path: path of the CSV file. error: the error that was raised when the file was read.
    """
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as damage:
        return f"population.path = {str(path)!r}: cannot be read ({damage})"
    line = 1
    try:
        content.decode(error.encoding)
    except UnicodeDecodeError as first:
        line += content.count(b"\n", 0, first.start)
    guess = json.dumps(guessed_encoding(content))
    return f"{path}, line {line}: is no text in {error.encoding}; try population.encoding = {guess}"


def guessed_encoding(content: bytes) -> str:
    """A likely encoding of bytes: UTF-16 if many bytes are zero, else UTF-8 if they are valid UTF-8, else latin-1."""
    if content.count(b"\0") > len(content) // 4:
        return "utf-16-be" if content[:1] == b"\0" else "utf-16-le"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def _read_npz(path: Path) -> dict[str, Values]:
    """Reads the arrays of an NPZ file by name.

    Raises:
        ValueError: an array has objects, or a text has a code that is no character.
    """
    with np.load(path, allow_pickle=False) as file:
        columns = {name: np.asarray(file[name]) for name in file.files}
    for name, values in columns.items():
        if values.dtype.kind == "U":
            characters = np.frombuffer(values.tobytes(), np.dtype(np.uint32).newbyteorder(values.dtype.byteorder))
            if (characters > sys.maxunicode).any():
                raise ValueError(f"{name!r} holds what is no character")
    return columns


def _read_csv(path: Path, layout: Layout, as_words: bool) -> "pd.DataFrame":
    """Reads a CSV file after checking its records; as_words: whether to keep all cells as texts."""
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

    pandas would accept faulty files, and move their cells or rename their columns.

    Raises:
        InputError: the file is empty, a record has more or fewer cells than the first record, two names are equal, or
            the first line should name columns but looks like data.
    """
    with opened(path, layout.encoding) as file:
        begin, first = next(records(file, layout.separator), Record(1, []))
        _check_names(path, begin, first, layout)
        if set(map(len, _reader(file, layout.separator))) <= {len(first)}:
            return len(first)
        file.seek(0)  # a line is blank, or has too many or too few cells: a slower search finds it
        for line, record in records(file, layout.separator):
            if len(record) != len(first):
                unnamed = layout.header is not False and len(record) > len(first)
                unit = "names; every column needs one" if unnamed else "cells"
                raise InputError(f"{path}, line {line}: {len(record)} cells, but line {begin} has {len(first)} {unit}")
    return len(first)


def _check_names(path: Path, begin: int, first: list[str], layout: Layout) -> None:
    """Checks the first record (line of cells) of a CSV file, which should hold the names of the columns.

    Args:
        path: path of the file, for messages. begin: number of the line in which the record begins. first: its cells.
        layout: how the file is read; without a header, names are not checked.

    Raises:
        InputError: the record is empty, names the columns and has a name twice, or looks like data while the layout
            does not state whether there is a header.
    """
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


def opened(path: Path, encoding: str | None = None) -> TextIO:
    """Open a CSV file, plain or compressed by gzip, as text. If `encoding` is None, the file's first bytes decide on
    the encoding.
    """
    name = encoding_of(path, encoding)
    if path.suffix == ".gz":
        return cast(TextIO, gzip.open(path, "rt", encoding=name, newline=""))
    return path.open(encoding=name, newline="")


def records(file: TextIO, separator: str) -> Iterator[Record]:
    """Yields the records of an open CSV file that are not blank, in order: each with the number of its first line, from
    1, and the list of its cells, which are texts. separator: the character between two cells.
    """
    reader, line = _reader(file, separator), 1  # a record may take several lines
    for record in reader:
        if len(record) > 1 or (record and record[0].strip()):
            yield Record(line, record)
        line = reader.line_num + 1


def _reader(file: TextIO, separator: str) -> Any:
    """A reader of a CSV file's records, blank or not, as lists of cells."""
    return csv.reader(file, delimiter=separator, skipinitialspace=True)
