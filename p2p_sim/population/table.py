"""A population that is read from a table file of your own: CSV, Parquet, Feather or NPZ."""

import codecs
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from p2p_sim.base import InputError, Streams, count, shortened
from p2p_sim.population.data_files import find_named
from p2p_sim.population.digits_and_adult import RandomSplit
from p2p_sim.population.features import (
    FeatureColumn,
    Rows,
    Treatment,
    column_of,
    doubts,
    is_text,
    spreads,
    transformed,
)
from p2p_sim.population.measured_groups import Grouping, by_column
from p2p_sim.population.population import GRID, Examples, GridSize, Sample, even_grid, rounded
from p2p_sim.population.table_columns import (
    UsedRows,
    complete_rows,
    complete_values,
    name_of,
    named_column,
    numbered_classes,
    numbers_of,
    plain_column,
    with_another_row,
)
from p2p_sim.population.table_file import ColumnTable, Layout, Values, is_missing, read_table
from p2p_sim.population.table_numbers import Convention

Names = bool | tuple[str, ...]
NEW_KEYS = (
    *("users", "classes", "label_range", "grid", "scale"),
    *("header", "separator", "missing", "decimal", "thousands", "encoding", "dates"),
    *("drop", "impute", "one_hot", "standardise", "proposed"),
)
"""A scenario's identity leaves out each of these keys that has its default value."""
MOST_SHOWN = 10
"""A remark lists at most this many classes."""


class TableConfig(RandomSplit):
    """A file with a row for each user; every replicate draws a fresh holdout.

    First, the key `drop` leaves out rows with missing values. Then scikit-learn's transformers fill in missing values,
    standardise numbers, or make texts one-hot. The transformers are fitted on features only, so ε does not depend on
    the transformers. All features must be public. It must also be public which users have a label.
    """

    kind: Literal["table"] = "table"
    own: ClassVar[bool] = True
    group_columns: ClassVar[tuple[str, ...] | None] = None
    row_by_row: ClassVar[frozenset[str]] = frozenset(
        (
            *("path", "label", "classes", "label_range", "grid", "cluster", "features", "scale", "users"),
            *("header", "separator", "missing", "decimal", "thousands", "encoding", "dates", "test_fraction"),
        )
    )
    later: ClassVar[tuple[str, ...]] = NEW_KEYS
    path: str = Field(min_length=1)
    """A .csv, .tsv (each also with .gz), .parquet, .feather or .npz file; looked for beside the scenario file, in the
    data directory, then in the current directory."""
    label: str = Field(min_length=1)
    """Column (or NPZ array) of the labels: 2 to 256 distinct values, numbers or texts; with `label_range` any
    numbers."""
    classes: tuple[str | int | float, ...] | None = Field(default=None, min_length=2, max_length=256)
    """All values of the label in the order in which they are numbered from 0; absent: the values that occur, sorted."""
    label_range: tuple[float, float] | None = None
    """Public range [low, high], two constants that do not come from the labels; labels are then numbers, clipped to the
    range. Absent: labels are classes."""
    grid: GridSize | None = None
    """k: number of label values, evenly spaced over `label_range`, 2 to 64, to which labels are rounded; absent: 17."""
    cluster: str | None = None
    """Column (or NPZ array) that names each user's cluster, for clusters.kind = "given"."""
    features: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Columns (or NPZ arrays) to learn from, at least one, never the label; absent: all but label and cluster."""
    header: bool | None = None
    """Whether the first line of a CSV file names the columns. If not, columns are called "1", "2" and so on. Absent:
    yes, and a first line of numbers alone is refused."""
    separator: str = Field(default=",", min_length=1, max_length=1)
    """The character between two cells of a CSV file; if absent for a .tsv file, the tab. Blanks after the character are
    ignored."""
    decimal: Literal[".", ","] = "."
    """The decimal sign of numbers in a CSV file."""
    thousands: Literal["", ",", ".", " ", "'", "\u00a0", "\u202f"] = ""
    """The sign between the thousands of numbers in a CSV file; absent: none."""
    encoding: str | None = None
    """Encoding of a CSV file, such as "latin-1"; absent: as a byte-order mark shows, else UTF-8."""
    dates: dict[str, str] = Field(default={})
    """Columns of dates with their format, such as { born = "%d.%m.%Y" }; they become days from 1970-01-01."""
    missing: tuple[str, ...] = ()
    """Texts that stand for a missing value, such as "?", besides an empty cell, NA, NaN, null and None."""
    drop: Names = False
    """true: users with a missing value in any used column are left out; a list: only the listed columns count."""
    impute: Names = False
    """true: missing values of all features are filled in; a list: of the listed features only. Numbers get the median,
    one-hot columns the most frequent value."""
    one_hot: Names = False
    """true: each column of text becomes a 0/1 feature for each of its values; a list: only these columns."""
    standardise: Names = False
    """true: each column of numbers gets mean 0 and standard deviation 1 among the users; a list: only these columns."""
    scale: dict[str, tuple[float, float]] = Field(default={})
    """Public centre and spread of columns of numbers, such as { age = [50, 15] }: each value v becomes
    (v - centre) / spread. Both are constants that do not come from the rows; spread is above 0."""
    proposed: bool = False
    """Whether keys such as features and classes were chosen by looking at the rows, as `p2p-sim new` does."""

    @field_validator("separator")
    @classmethod
    def _separates(cls, character: str) -> str:
        if character in '"\r\n' or character.isalnum() or not character.isascii():
            raise ValueError("must separate cells, such as ',', ';', '|' or '\\t'")
        return character

    @field_validator("encoding")
    @classmethod
    def _is_encoding(cls, name: str | None) -> str | None:
        try:
            return name and codecs.lookup(name) and name
        except LookupError:
            raise ValueError("is no encoding; utf-8, utf-16, latin-1 and cp1252 are some") from None

    @model_validator(mode="after")
    def _label_is_private(self) -> "TableConfig":
        # no key may name the label as a feature
        if self.label == self.cluster or self.label in (self.features or ()):
            raise ValueError(
                f"label = {self.label!r} is what is to be protected: it cannot be a feature or the cluster"
            )
        for key in ("impute", "one_hot", "standardise", "scale"):
            if self.label in _listed(getattr(self, key)):
                raise ValueError(f"{key}: {self.label!r} is the label, which is no feature")
        # a feature is transformed in one way: one-hot, standardised by the users' rows, or scaled by public constants
        for name in _listed(self.one_hot):
            if name in _listed(self.standardise):
                raise ValueError(f"standardise: {name!r} is in one_hot too; a column may be in one key only")
        for name, (_, spread) in self.scale.items():
            if spread <= 0.0:
                raise ValueError(f"scale: the spread of {name!r} is {spread:g}; it must be above 0")
            if name in (*_listed(self.one_hot), *_listed(self.standardise)):
                raise ValueError(f"scale: {name!r} is in one_hot or standardise too; a column may be in one key only")
        if self.drop is True and self.impute is not False:
            raise ValueError("impute: drop = true leaves no missing value; list the columns of drop")
        # labels are numbers in a public range, or classes
        if self.label_range is None and self.grid is not None:
            raise ValueError("grid: needs label_range, the public range of labels that are numbers")
        if self.label_range is not None:
            if self.classes is not None:
                raise ValueError("classes: labels with label_range are numbers, not classes")
            even_grid(*self.label_range, self.grid or GRID, "label_range")
        if self.classes is not None and len(set(self.classes)) < len(self.classes):
            raise ValueError("classes: a value is there twice")
        return self

    @property
    def clustered(self) -> bool:
        return self.cluster is not None

    @property
    def known_values(self) -> tuple[float, ...] | None:
        return None if self.label_range is None else even_grid(*self.label_range, self.grid or GRID)

    @property
    def known_classes(self) -> int | None:
        return super().known_classes if self.classes is None else len(self.classes)

    @property
    def looks_at_all_rows(self) -> str | None:
        """The key that may make a user's features or label depend on other users' rows, in words for an error message.
        None: no key does.

        The first of these cases applies:
        - `proposed` is true: a program looked at the rows to choose keys such as features.
        - `classes` and `label_range` are absent: the classes are the values that occur.
        - Another key outside `row_by_row` is set, such as `standardise` or `impute`.
        """
        if self.proposed:
            return "population.proposed: keys were chosen by looking at the rows (leave it out if they are public); it"
        if self.classes is None and self.label_range is None:
            return "population.classes, which is absent: the classes then are the values that occur"
        return super().looks_at_all_rows

    @property
    def layout(self) -> Layout:
        """How to read the file: header, separator, missing values, and the notation of numbers and dates."""
        tabs = self.path.lower().endswith((".tsv", ".tsv.gz")) and "separator" not in self.model_fields_set
        return Layout(
            header=self.header,
            separator="\t" if tabs else self.separator,
            missing=self.missing,
            numbers=Convention(self.decimal, self.thousands),
            encoding=self.encoding,
            dates=tuple(self.dates.items()),
        )

    def files(self, places: tuple[Path, ...]) -> list[Path]:
        """The path of the table's file, found in the directories `places` or in the current directory."""
        return [find_named(self.path, places, "population.path")]

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Splits the used rows of the file, found in `places`, into users and holdout. `streams` draws the split."""
        return self._split(self._read(places), streams)

    def one_row_moves_others(self, places: tuple[Path, ...], streams: Streams) -> bool:
        """Whether a new row of one user changes other users' features or labels, or the choice of users.

        If so, an ε for whole rows says nothing. The test gives the first user a wholly different row.

        Args:
            places: directories in which the file is looked for. streams: the replicate's random streams.
        """
        here = self._read(places)
        first = int(self._split(here, streams).users.take(np.array([0])).row[0])  # type: ignore[index]
        try:
            there = self._used_rows(with_another_row(here.table, first, [c.name for c in here.columns], self.label))
        except InputError:  # the new row makes the whole table invalid: no other row changes
            return False
        before, after = (self._split(used, streams).users for used in (here, there))
        if before.features.shape != after.features.shape or not np.array_equal(before.row, after.row):  # type: ignore[arg-type]
            return True
        others = before.row != first
        pairs = ((before.features, after.features), (before.labels, after.labels))
        return not all(np.array_equal(old[others], new[others]) for old, new in pairs)

    def _split(self, used: UsedRows, streams: Streams) -> Sample:
        """Splits the used rows at random into users and holdout, and computes their features.

        Imputation and standardising are fitted on the users' rows. A one-hot column becomes one feature for each value
        in the used rows.
        """
        learned, _ = self.held_out(len(used.labels), streams)  # the same draw as in `split`
        some = len(used.indices) < used.table.rows
        row, source_rows = (used.indices.astype(np.int32), used.table.rows) if some else (None, None)
        features = transformed(used.columns, learned)
        rows = Examples(features, used.labels, used.cluster, row=row, source_rows=source_rows, target=used.target)
        return self.split(rows, len(used.classes), streams)

    def grouping(self, column: str, places: tuple[Path, ...], streams: Streams) -> Grouping:
        """Divides the held-out rows into groups by the texts of a column, which need not be a feature.

        places: directories in which the file is looked for. streams: the replicate's random streams, which draw the
        holdout.
        """
        used = self._read(places)
        if column == self.label:
            raise InputError(f"groups = {column!r}: is the label; 'class' groups by it")
        if column not in used.table.columns:
            named = shortened(", ".join(map(repr, used.table.columns)))
            raise InputError(f"groups = {shortened(column)!r}: must be 'class', 'cluster_size' or one of {named}")
        values = used.table.columns[column]
        if values.ndim != 1 or len(values) != used.table.rows:
            raise InputError(f"groups = {column!r}: must be one plain value a row in {used.table.path}")
        values = values[used.indices]
        cells = zip(values.tolist(), is_missing(values).tolist(), strict=True)
        texts = ["missing" if gap else name_of(value) for value, gap in cells]
        held = self.held_out(len(texts), streams)[1]
        return by_column(column, [texts[row] for row in held], texts)

    def remarks(self, places: tuple[Path, ...]) -> list[str]:
        """Lines that `p2p-sim validate` prints about the file: rows, features, and the classes or numeric labels."""
        used = self._read(places)
        rows, users = used.table.rows, len(used.indices)
        size = transformed(used.columns, np.arange(users)).shape[1]
        dropped = f" ({rows - users:,} of {rows:,} dropped)" if users < rows else ""
        columns, make = count(len(used.columns), "column"), "makes" if len(used.columns) == 1 else "make"
        read = f"{used.table.path}: {count(users, 'row')}{dropped}; {columns} {make} {count(size, 'feature')}"
        # labels that are numbers: the grid, and how many numbers the public range clips
        if used.target is not None and self.label_range is not None:
            clipped = np.mean((used.target < self.label_range[0]) | (used.target > self.label_range[1]))
            grid = f"{count(len(used.classes), 'value')} from {used.classes[0]} to {used.classes[-1]}"
            return [
                read, f"labels {self.label!r}: numbers, rounded to {grid}; {clipped:.1%} are outside and clipped"
            ]  # fmt: skip
        # labels that are classes: the number, name and share of each class
        shares = np.bincount(used.labels, minlength=len(used.classes)) / users
        named_shares = [
            f"{k} = {name} ({share:.1%})" for k, (name, share) in enumerate(zip(used.classes, shares, strict=True))
        ]
        more = f" and {len(named_shares) - MOST_SHOWN} more" if len(named_shares) > MOST_SHOWN else ""
        order = "as stated" if self.classes else "sorted; population.classes states another order"
        return [
            read,
            f"classes of {self.label!r} ({order}): {', '.join(named_shares[:MOST_SHOWN])}{more}",
        ]

    def spreads(self, places: tuple[Path, ...]) -> dict[str, float]:
        """Standard deviation of each feature by name; constant features are left out. Large ratios mean that features
        differ in scale.

        A column of texts that becomes 0/1 features counts as one feature with the standard deviation 1/2.

        Args:
            places: directories in which the file is looked for.
        """
        used = self._read(places)
        return spreads(used.columns, np.arange(len(used.indices)))

    def doubts(self, places: tuple[Path, ...]) -> list[str]:
        """Warnings about one-hot columns that look like numbers or names, one line for each column."""
        used = self._read(places) if self.one_hot else None
        return [] if used is None else doubts(used.table, used.columns, used.indices, _listed(self.one_hot))

    def _read(self, places: tuple[Path, ...]) -> UsedRows:
        """Reads the file, found in the directories `places`, and selects the rows that the key `drop` leaves."""
        [path] = self.files(places)
        return self._used_rows(read_table(path, self.layout))

    def _used_rows(self, table: ColumnTable) -> UsedRows:
        """The rows that the key `drop` leaves, with classes and clusters as numbers from 0, and feature columns."""
        # the used columns, all of one length
        labels = plain_column(table, self.label, "label")
        grouped = None if self.cluster is None else plain_column(table, self.cluster, "cluster")
        if grouped is not None and len(grouped) != len(labels):
            raise InputError(f"population.cluster = {self.cluster!r}: {len(grouped)} rows for {len(labels)} labels")
        named = self.features or [name for name in table.columns if name not in (self.label, self.cluster)]
        parts = {name: named_column(table, name, "features") for name in named}
        if not parts or any(part.ndim > 0 and len(part) != len(labels) for part in parts.values()):
            raise InputError(
                f"population.path = {str(table.path)!r}: features and labels must have the same number of rows"
            )
        # rows without a missing value in the columns of drop
        used = [self.label, *([self.cluster] if self.cluster is not None else ()), *parts]
        indices = complete_rows(table, self.drop, used)
        # labels: classes numbered as stated or sorted; or numbers, rounded to the public grid
        values, target = self.known_values, None
        if values is None:
            classes, numbered = numbered_classes(table, indices, label=self.label, stated=self.classes)
        else:
            target = numbers_of(self.label, table, complete_values(table, self.label, "label", indices))
            classes, numbered = [name_of(value) for value in values], rounded(target, values)
        columns = self._columns(table, indices, parts)
        cluster = None
        if self.cluster is not None:
            texts = complete_values(table, self.cluster, "cluster", indices).astype(str)
            cluster = np.unique(texts, return_inverse=True)[1].astype(np.int64)
        return UsedRows(table, indices, numbered, classes, cluster, columns=columns, target=target)

    def _columns(self, table: ColumnTable, indices: Rows, parts: dict[str, Values]) -> list[FeatureColumn]:
        """The feature columns in the used rows. Each column holds its values, and how these become features.

        Args:
            table: the whole file. indices: (m,) used rows, from 0. parts: the values of each feature column in all
            rows, by name.
        """
        for key in ("impute", "one_hot", "standardise", "scale"):
            wrong = [name for name in _listed(getattr(self, key)) if name not in parts]
            if wrong:
                raise InputError(
                    f"population.{key}: {wrong[0]!r} is not among the features {', '.join(map(repr, parts))}"
                )
        columns = [column_of(table, name, self._treatment(name, values), indices) for name, values in parts.items()]
        return [c.scaled(*self.scale[c.name]) if c.name in self.scale else c for c in columns]

    def _treatment(self, name: str, values: Values) -> Treatment:
        """Whether a column's missing values are filled in, numbers are standardised, and texts are made one-hot.

        The keys impute, standardise and one_hot decide. Each key is true for all columns, false, or a list of names.
        one_hot = true applies only to columns of texts. name, values: the column's name and cells.
        """
        one_hot = name in _listed(self.one_hot) or (
            self.one_hot is True and is_text(values) and name not in (*_listed(self.standardise), *self.scale)
        )
        standardise = name in _listed(self.standardise) or (
            self.standardise is True and not one_hot and name not in self.scale
        )
        return Treatment(self.impute is True or name in _listed(self.impute), standardise, one_hot)


def _listed(names: Names | dict[str, tuple[float, float]]) -> tuple[str, ...]:
    """The names of the columns that a key's value lists; empty if the value is true or false.

    Args:
        names: the value of a key: true, false, a list of columns, or a dictionary by column.
    """
    return () if isinstance(names, bool) else tuple(names)
