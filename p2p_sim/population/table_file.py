"""Reads the columns of tables in CSV, Parquet, Feather or NPZ files, and finds the line of a cell for messages."""

import codecs
import csv
import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError, shortened
from p2p_sim.population.table_numbers import PLAIN, Convention, days, is_number, looks_like_data

if TYPE_CHECKING:
    import pandas as pd

Values = NDArray[np.generic]
SEPARATORS = (",", ";", "\t", "|")
"""Characters between two cells that are recognised if no separator is stated."""
TEXTS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
SUFFIXES = (*TEXTS, ".parquet", ".feather", ".npz")
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""The encoding for each byte-order mark with which a file may begin. UTF-32 comes first, because the mark of UTF-32
begins with the mark of UTF-16."""


class Layout(NamedTuple):
    """How to read a table's file.

    header: whether the first line of a CSV file names the columns. None: it does, but a first line that looks like data
    is refused. separator: the character between two cells. missing: texts that stand for a missing value, also in
    Parquet and Feather files. In a CSV file, pandas also takes empty cells, NA, NaN, null and None as missing. numbers:
    notation of numbers. encoding: encoding of the text; None: as the byte-order mark shows, else UTF-8. dates: pairs of
    a column and its date format; such dates become days from 1970-01-01.
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
    """The cells of one CSV record. line: the number of the record's first line, from 1."""

    line: int
    cells: list[str]


@dataclass(frozen=True)
class ColumnTable:
    """The columns of a file by name: (n,), or (n, k) with k values in each row. Without a header, the columns are
    called "1", "2" and so on.
    """

    path: Path
    layout: Layout
    columns: dict[str, Values]

    @property
    def rows(self) -> int:
        """Number of rows. If the arrays of an NPZ file differ in length, the longest array counts."""
        return max((len(values) for values in self.columns.values() if values.ndim), default=0)

    def otherwise_read(self) -> str:
        """Advice for an error message about a missing column: another setting with which to read the file.

        A CSV file with a single column may need another separator that occurs in its first line. A CSV file whose
        header has a number as a name may need header = false. Otherwise the advice is empty.
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
        """The location of a cell, such as "column 'age', line 88", and the cell's text, for messages.

        row: counts from 0 below the header.
        """
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
    """Reads the columns of a file. Dates become days from 1970-01-01.

    A layout may state a notation of numbers that is not plain. Then columns of texts that stand for numbers become
    numbers. Columns of plain numbers in a CSV file always do.

    Raises:
        InputError: the file cannot be read; a record is faulty; the first line looks like data, not like names; a
        column of dates that the layout names is missing; or a cell of such a column is no date.
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
    """Reads the columns of a CSV, Parquet, Feather or NPZ file, as an array for each column name.

    Texts of dates stay texts. A missing value becomes NaN, None or NaT. The texts that the layout states for missing
    values become NaN, except in an NPZ file.

    Args:
        path: path of the file. layout: how to read the file. as_words: whether to keep all cells of a CSV file as
        texts, numbers included.

    Raises:
        InputError: the file cannot be read, a record is faulty, or the first line looks like data, not like names.
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
    if suffix not in TEXTS:  # replace the texts for missing values; pandas has done this in CSV files
        for name, values in columns.items():
            if layout.missing and values.dtype.kind == "O":
                columns[name] = np.array([np.nan if v in layout.missing else v for v in values], dtype=object)
    return columns


def is_words(values: "Values | pd.Series") -> bool:
    """Whether all values of a column of objects are texts, apart from missing values.

    The answer is false if all values are missing. It is also false for arrays of NumPy's own text type, as in NPZ
    files.
    """
    import pandas as pd

    return values.dtype.kind == "O" and pd.api.types.infer_dtype(values, skipna=True) == "string"


def is_missing(values: Values) -> NDArray[np.bool_]:
    """Marks the rows (n,) of a column in which a value is missing. A row of several values is marked if any of these
    values is missing.
    """
    import pandas as pd

    gaps = np.asarray(pd.isna(values), dtype=np.bool_)
    return gaps if gaps.ndim == 1 else np.asarray(gaps.reshape(len(gaps), -1).any(axis=1))


def _numbers(words: Values, style: Convention) -> Values:
    """A column of texts as numbers (n,), if all texts are in the notation `style` or all are plain. Otherwise the
    column is returned unchanged.

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
    """A message that names the first line that is invalid in the encoding, and the key that states another encoding."""
    try:
        with _unpacked(path) as file:
            content = file.read()
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
    """A likely encoding of bytes: UTF-16 if many bytes are zero. Otherwise it is UTF-8 for valid UTF-8, and latin-1 for
    anything else.
    """
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
    """Checks the records of a CSV file, and returns the number of columns.

    pandas would accept faulty files: it would move cells or rename columns.

    Raises:
        InputError: the file is empty; a record has more or fewer cells than the first record; two names are equal; or
        the first line looks like data, not like names.
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
        path: path of the file, for messages. begin: number of the record's first line. first: the record's cells.
        layout: how the file is read. Without a header, names are not checked.

    Raises:
        InputError: the record is empty; a name occurs twice; or the record looks like data and the layout does not
        state whether there is a header.
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
    """The encoding of a CSV file: as stated, else as the first bytes show, else UTF-8."""
    if stated is not None:
        return stated
    with _unpacked(path) as file:
        begin = file.read(4)
    return next((name for mark, name in MARKS.items() if begin.startswith(mark)), "utf-8")


def opened(path: Path, encoding: str | None = None) -> TextIO:
    """Open a CSV file as text, plain or compressed by gzip. If `encoding` is None, the file's first bytes decide."""
    return io.TextIOWrapper(_unpacked(path), encoding=encoding_of(path, encoding), newline="")


def _unpacked(path: Path) -> BinaryIO:
    """Open a file as bytes. A file compressed by gzip, whose name ends in .gz or .GZ, is unpacked while it is read."""
    return cast(BinaryIO, gzip.open(path, "rb") if suffix_of(path).endswith(".gz") else path.open("rb"))


def records(file: TextIO, separator: str) -> Iterator[Record]:
    """Yields the records of an open CSV file in order, without blank records. separator: the character between two
    cells.
    """
    reader, line = _reader(file, separator), 1  # a record may take several lines
    for record in reader:
        if len(record) > 1 or (record and record[0].strip()):
            yield Record(line, record)
        line = reader.line_num + 1


def _reader(file: TextIO, separator: str) -> Any:
    """A reader of a CSV file's records, blank or not, as lists of cells."""
    return csv.reader(file, delimiter=separator, skipinitialspace=True)
