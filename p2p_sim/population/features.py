"""Turns a table's columns into features: numbers standardised, texts one-hot, missing values filled in.

The transformers come from scikit-learn. They are fitted on public features only, never on labels.
"""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError, count, shortened
from p2p_sim.population.table_file import ColumnTable, Values, is_missing
from p2p_sim.population.table_numbers import conventions, is_number

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
MOST_VALUES, MANY_VALUES = 1000, 20
"""MOST_VALUES: largest number of different values of a one-hot column. MANY_VALUES: with more values, a one-hot column
may get a warning even if the scenario lists the column in one_hot."""


class Treatment(NamedTuple):
    """How a column becomes features: whether missing values are filled in, numbers standardised, texts made one-hot."""

    impute: bool = False
    standardise: bool = False
    one_hot: bool = False


class FeatureColumn(NamedTuple):
    """A column of a table that becomes features, restricted to the rows that are used, with its treatment.

    values: (m, k) numbers; for a one-hot column, (m, 1) texts with NaN for a missing text.
    """

    name: str
    treatment: Treatment
    values: Values

    def scaled(self, centre: float, spread: float) -> "FeatureColumn":
        """This column (not of texts), with each number replaced by (number - centre) / spread."""
        return self._replace(values=(self.values.astype(np.float64) - centre) / spread)


def is_text(values: Values) -> bool:
    """Whether a column holds texts, or objects of several types, rather than numbers."""
    return values.ndim == 1 and values.dtype.kind in "OUST"


def column_of(table: ColumnTable, name: str, treatment: Treatment, used_rows: Rows) -> FeatureColumn:
    """A column of a table, prepared to become features: numbers, or texts if the column is one-hot.

    Args:
        table: the table that has the column. name: the column's name. treatment: how the column becomes features.
        used_rows: (m,) indices of the rows that are used.

    Raises:
        InputError: a cell does not fit the treatment. The message names the cell, and keys that would help.
    """
    values = table.columns[name]
    if values.ndim == 0 or values.size == 0 or (values.dtype.kind not in "biuf" and not is_text(values)):
        raise InputError(f"population.features: column {name!r} of {table.path} is not numeric; list numeric columns")
    values = values[used_rows]
    # missing cells must be imputed, and numbers must be finite
    gaps = np.flatnonzero(is_missing(values))
    if gaps.size and not treatment.impute:
        where, _, more = _first(table, name, used_rows, gaps)
        filled = "its most frequent value" if treatment.one_hot else "its median"
        raise InputError(
            f"{where}: has no value{more}; population.impute = [{quoted(name)}] fills in {filled}, drop = true leaves "
            "such users out"
        )
    if treatment.one_hot:
        return FeatureColumn(name, treatment, _texts(table, name, values, gaps, used_rows))
    numbers = _numbers(table, name, values, used_rows).reshape(len(values), -1)
    infinite = np.flatnonzero(np.isinf(numbers).any(axis=1))
    if infinite.size:
        where, text, more = _first(table, name, used_rows, infinite)
        raise InputError(
            f"{where}: {text!r} is not finite{more}; population.missing = [{quoted(text)}] would read it as missing"
        )
    return FeatureColumn(name, treatment, numbers)


def _numbers(table: ColumnTable, name: str, values: Values, used_rows: Rows) -> Floats:
    """The numbers of a column in the m used rows: (m,), or (m, k) if each cell holds k numbers. NaN: missing.

    Args:
        table: the file, for messages. name: the column's name. values: the column's cells in the used rows. used_rows:
        (m,) indices of these rows in the file, for messages.

    Raises:
        InputError: a cell is a text that is no number.
    """
    if not is_text(values):
        return values.astype(np.float64)
    texts = [None if gap else str(value) for value, gap in zip(values, is_missing(values), strict=True)]
    bad = np.array([i for i, text in enumerate(texts) if text is not None and not is_number(text)], dtype=np.intp)
    if not bad.size:
        return np.array([np.nan if text is None else float(text) for text in texts])
    where, text, more = _first(table, name, used_rows, bad)
    raise InputError(f"{where}: {text!r} is no number{more}; {_way_out(name, texts, {str(texts[i]) for i in bad})}")


def _way_out(name: str, texts: list[str | None], words: set[str]) -> str:
    """Advice on a column in which some cells are no numbers: which key of `[population]` to set.

    The first case that applies decides. If all cells are numbers with another decimal sign or separator of thousands,
    the advice is to state this sign. If few cells are no numbers, the advice is to read these cells as missing values.
    Here, few means at most half of the cells, with at most 3 different texts. If the column has at most 1,000 different
    values, the advice is to make a 0/1 feature of each value. Otherwise the advice is to leave the column out.

    Args:
        name: the column's name. texts: all cells of the column; None: missing. words: the different texts that are no
        numbers.
    """
    import pandas as pd

    # with another decimal sign or sign between thousands, all cells may be numbers
    for style in conventions(pd.Series([text for text in texts if text is not None], dtype=object)):
        decimal = f"population.decimal = {quoted(style.decimal)}" if style.decimal != "." else ""
        thousands = f"population.thousands = {quoted(style.thousands)}" if style.thousands else ""
        keys = " with ".join(filter(None, (decimal, thousands)))
        return f"{keys} reads all {count(len(texts), 'cell')} of this column as numbers"
    # a few words among numbers are likely missing values; many different texts are categories; too many are names
    different, wordy = len(set(texts) - {None}), sum(text in words for text in texts)
    if 2 * wordy <= len(texts) and len(words) <= 3:
        markers = ", ".join(quoted(word) for word in sorted(words))
        return f"population.missing = [{markers}] would read such cells as missing"
    if different > MOST_VALUES:
        return "leave the column out of population.features"
    return (
        f"population.one_hot = [{quoted(name)}] makes a feature of each of its {different:,} values; or leave the "
        "column out of population.features"
    )


def _texts(table: ColumnTable, name: str, values: Values, gaps: Rows, used_rows: Rows) -> Values:
    """The cells of a one-hot column in the m used rows, as texts (m, 1); NaN in missing cells.

    Args:
        table: the file, for messages. name: the column's name. values: (m,) the column's cells in the used rows. gaps:
        indices of the missing cells in `values`. used_rows: (m,) indices of these rows in the file, for messages.

    Raises:
        InputError: a cell has several values, or the column has more than 1,000 different values.
    """
    if values.ndim != 1:
        raise InputError(f"population.one_hot: {name!r} of {table.path} has several values a row")
    texts = np.array([str(value) for value in values], dtype=object)
    texts[gaps] = np.nan
    different = len(set(texts[~is_missing(texts)]))
    # each value becomes a feature; if most cells are numbers, a few other texts made this a column of texts
    if different > MOST_VALUES:
        words = np.array([i for i, text in enumerate(texts) if isinstance(text, str) and not is_number(text)])
        odd = ""
        if 0 < 2 * len(words) < len(texts):
            where, text, more = _first(table, name, used_rows, words)
            odd = f"; most of its cells are numbers, but {where}: {text!r} is no number{more}; correct it, or else"
        raise InputError(
            f"population.one_hot: column {name!r} of {table.path} has {different:,} different values, at most "
            f"{MOST_VALUES:,} are allowed{odd or ';'} leave it out of population.features"
        )
    return texts[:, None]


def doubts(table: ColumnTable, columns: Sequence[FeatureColumn], used_rows: Rows, listed: Sequence[str]) -> list[str]:
    """Warnings about one-hot columns that look like numbers or names; each warning is a line with advice.

    Args:
        table: the file's columns. columns: the columns that become features, restricted to the used rows. used_rows:
        (m,) indices of these rows in the file. listed: columns that the scenario names in one_hot.
    """
    lines = (_doubt(table, c, used_rows, c.name in listed) for c in columns if c.treatment.one_hot)
    return [line for line in lines if line]


def _doubt(table: ColumnTable, column: FeatureColumn, used_rows: Rows, listed: bool) -> str:
    """The warning about a one-hot column that looks like numbers or names; empty if the column looks like neither.

    used_rows: (m,) indices in the file of the column's rows. listed: whether the scenario names the column in one_hot.
    """
    texts = column.values[:, 0]
    there = np.flatnonzero(~is_missing(texts))
    different = len(set(texts[there]))
    many = different > MANY_VALUES
    # a few words among numbers are likely missing values or typing errors, unless the scenario lists the column and the
    # column has few values
    words = np.array([row for row in there if not is_number(texts[row])], dtype=np.intp)
    if 0 < 2 * len(words) < len(there) and (many or not listed):
        where, text, more = _first(table, column.name, used_rows, words)
        return (
            f"{where}: {text!r} is no number{more}, but {len(there) - len(words):,} other cells of this one-hot column "
            f"are; the column makes {different:,} features; correct the cell, or population.missing = [{quoted(text)}] "
            "reads it as missing (impute or drop says what is done then)"
        )
    # if there are more than half as many different values as rows, they are likely names
    if many and 2 * different > len(there):
        where, text, _ = _first(table, column.name, used_rows, there[:1])
        return (
            f"{where}: {text!r} is one of {different:,} different values in {len(there):,} rows, and one_hot makes "
            "each a feature; leave the column out of population.features if it is a name"
        )
    return ""


def _first(table: ColumnTable, name: str, used_rows: Rows, rows: Rows) -> tuple[str, str, str]:
    """Three parts of a message about a column with faulty cells.

    The parts are: file and line of the first faulty cell; the text of this cell; the number of faulty cells, as " (9
    such cells)". The last part is empty if there is only one faulty cell.

    Args:
        table: the file. name: the column's name. used_rows: (m,) indices of the used rows in the file. rows: indices of
        the faulty rows among the used rows.
    """
    cell = table.cell(name, int(used_rows[rows[0]]))
    more = f" ({len(rows):,} such cells)" if len(rows) > 1 else ""
    return f"{table.path}: {cell.where}", shortened(cell.text.strip()), more


def quoted(text: str) -> str:
    """A text in double quotes, as in a scenario file."""
    return json.dumps(text, ensure_ascii=False)


def transformed(columns: Sequence[FeatureColumn], fitted_on: Rows) -> Floats:
    """The features (m, d) of all m used rows, in the order of the columns.

    Means, spreads and replacements of missing values are computed from the rows `fitted_on` alone. A one-hot column
    becomes several features: one for each value that occurs in the used rows.
    """
    parts = []
    for treatment, group in groupby(columns, key=lambda column: column.treatment):
        values = np.hstack([column.values for column in group])
        pipeline = _pipeline(treatment, values)
        parts.append(values if pipeline is None else pipeline.fit(values[fitted_on]).transform(values))
    return np.hstack(parts).astype(np.float64, copy=False)


def _pipeline(treatment: Treatment, values: Values) -> Any:
    """scikit-learn's transformers, in order, that turn columns into features; None: the columns stay unchanged.

    Args:
        treatment: the treatment that all these columns share. values: (m, k) the columns side by side.
    """
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    steps: list[Any] = []
    if treatment.impute:
        strategy = "most_frequent" if treatment.one_hot else "median"
        steps.append(SimpleImputer(strategy=strategy, keep_empty_features=True))
    if treatment.standardise:
        steps.append(StandardScaler())
    if treatment.one_hot:
        categories = [np.array(sorted({v for v in column if isinstance(v, str)}), dtype=object) for column in values.T]
        steps.append(OneHotEncoder(categories=categories, sparse_output=False, handle_unknown="ignore"))
    return make_pipeline(*steps) if steps else None


def spreads(columns: Sequence[FeatureColumn], rows: Rows) -> dict[str, float]:
    """The standard deviation of each feature over all rows, by the feature's name; constant features are left out.

    Large differences in scale would distort distances between users in clusterings. A column of texts that becomes 0/1
    features counts as one feature with the standard deviation 1/2.

    Args:
        columns: the columns that become features. rows: indices of the rows to which standardising and imputing are
        fitted.
    """
    scales: dict[str, float] = {}
    for column in columns:
        spread = np.array([0.5]) if column.treatment.one_hot else transformed([column], rows).std(axis=0)
        for index, value in enumerate(spread[spread > 0]):
            scales[column.name if len(spread) == 1 else f"{column.name}[{index}]"] = float(value)
    return scales
