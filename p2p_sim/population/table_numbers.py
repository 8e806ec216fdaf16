"""Recognises and reads notations of numbers (decimal signs, thousands separators) and formats of dates in a table."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError

if TYPE_CHECKING:
    import pandas as pd

FORMATS = (
    "%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%dT%H:%M:%SZ",
    "%Y-%m-%d %H:%M", "%Y/%m/%d", "%Y%m%d", "%d.%m.%Y", "%d.%m.%Y %H:%M:%S", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y",
    "%d/%m/%y", "%m/%d/%y", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y",
)  # fmt: skip
"""Formats of dates that are recognised."""
LONGEST_DATE = 30
"""A column is not tried as dates if the median length of its texts is above this number."""
DAY = np.timedelta64(1, "D")


def is_number(text: str) -> bool:
    """Whether a text is a number for Python, such as 3, -1.5e3 or nan, and has no underscore."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def looks_like_data(first: list[str], missing: tuple[str, ...] = ()) -> bool:
    """Whether the cells of a table's first line are all numbers, and do not just number the columns from 0 or 1.

    Empty cells and cells in `missing` need not be numbers.

    >>> looks_like_data(["6", "148", ".5"]), looks_like_data(["0", "1", "2"]), looks_like_data(["age", "2019"])
    (True, False, False)
    """
    cells = [cell.strip() for cell in first if cell.strip() and cell.strip() not in missing]
    numbered = [[str(number) for number in range(start, start + len(first))] for start in (0, 1)]
    return bool(cells) and all(map(is_number, cells)) and first not in numbered


class Convention(NamedTuple):
    """A notation of numbers: the decimal sign, and the separator of thousands (empty: none)."""

    decimal: str = "."
    thousands: str = ""

    @property
    def pattern(self) -> str:
        """A regular expression that matches exactly the texts of numbers in this notation."""
        grouped = rf"|[1-9]\d{{0,2}}(?:{re.escape(self.thousands)}\d{{3}})+" if self.thousands else ""
        point = re.escape(self.decimal)
        return rf"\s*[+-]?(?:(?:\d+{grouped})(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?\s*"

    def reads(self, texts: "pd.Series") -> NDArray[np.bool_]:
        """Marks the texts (n,) that are numbers in this notation."""
        import pandas as pd

        if self == PLAIN:
            return ~np.isnan(pd.to_numeric(texts.to_numpy(dtype=object), errors="coerce"))
        return texts.str.fullmatch(self.pattern).to_numpy(np.bool_)

    def numbers(self, texts: "pd.Series") -> NDArray[np.generic] | None:
        """The texts as numbers (n,), or as integers if all are written as integers. None: a text is not in this
        notation.
        """
        import pandas as pd

        if not self.reads(texts.iloc[:50]).all():  # a quick exit for a column of words
            return None
        if self != PLAIN:
            if not self.reads(texts).all():
                return None
            if self.thousands:
                texts = texts.str.replace(self.thousands, "", regex=False)
            texts = texts.str.replace(self.decimal, ".", regex=False)
        values: NDArray[np.generic] = pd.to_numeric(texts.to_numpy(dtype=object), errors="coerce")
        return None if np.isnan(values).any() else values


PLAIN = Convention()
CONVENTIONS = (
    PLAIN, Convention(","), Convention(".", ","), Convention(",", "."),
    *(Convention(sign, gap) for sign in ".," for gap in (" ", "\u00a0", "\u202f", "'")),
)  # fmt: skip
"""Notations that are recognised. For each decimal sign, the notation without a thousands separator comes first."""


def conventions(*columns: "pd.Series") -> list[Convention]:
    """The notations in which all texts of all columns are numbers.

    For each decimal sign, only the first notation of `CONVENTIONS` that fits is returned.

    >>> import pandas as pd
    >>> [tuple(style) for style in conventions(pd.Series(["42,0", "7"]))], conventions(pd.Series(["3 days"]))
    ([(',', '')], [])
    >>> [tuple(style) for style in conventions(pd.Series(["1,234"]))]
    [(',', ''), ('.', ',')]
    """
    fits = list[Convention]()
    for style in CONVENTIONS:
        simpler = any(style.decimal == fit.decimal for fit in fits)
        few = all(style.reads(texts.iloc[:50]).all() for texts in columns)  # a quick exit for columns of words
        if not simpler and few and all(style.reads(texts).all() for texts in columns):
            fits.append(style)
    return fits


def common_convention(path: Path, counts: "Mapping[str, pd.Series]", separator: str) -> Convention:
    """The notation (decimal sign, separator of thousands) in which the columns of a table write their numbers.

    Plain notation (1234.5) is taken if it fits all columns, with one exception. The notation is not clear if cells are
    not separated by commas, a column has a point, and another notation fits all columns, too. If no notation fits all
    columns, only the columns that are not plain decide. Their notation must not fit any column of plain numbers with a
    point, because such a column might then be misread.

    Args:
        path: path of the table, for messages. counts: for each column by name, how often each text occurs; the texts
        are the index of the series. separator: the character between two cells in the file.

    Raises:
        InputError: numbers of one column or of two columns contradict each other, or several notations are possible.
    """
    import pandas as pd

    columns = {name: cells for name, texts in counts.items() if len(cells := _digits(texts))}
    for name, cells in columns.items():
        if not conventions(cells):
            contrary = next(text for text in cells if not conventions(pd.Series([cells.iloc[0], text])))
            raise InputError(
                f"{path}: column {name!r} writes numbers in different ways, {cells.iloc[0]!r} and {contrary!r}; write "
                "them alike"
            )
    # a notation must fit all columns: 1.234 alone fits two notations, but 1.234,5 in another column decides
    styles = conventions(*columns.values())
    points = [cells for cells in columns.values() if cells.str.contains(".", regex=False).any()]
    if not columns or (styles[:1] == [PLAIN] and not (separator != "," and points and len(styles) > 1)):
        return PLAIN
    if not styles:  # no notation fits all columns: only the columns that are not plain decide
        styles = conventions(*(cells for cells in columns.values() if not PLAIN.reads(cells).all()))
        plain = [cells for cells in points if PLAIN.reads(cells).all()]
        if not styles or any(style.reads(cells).all() for cells in plain for style in styles):
            raise InputError(f"{path}: {_contradiction(columns)}")
    if len(styles) != 1:
        raise InputError(f"{path}: {_undecided(columns, styles)}")
    return styles[0]


def _digits(counts: "pd.Series") -> "pd.Series":
    """The different texts of a column that have a digit, as a series; empty if the column does not seem to hold
    numbers.

    In a column of numbers, at least half of the different texts have a digit. Each text with a digit must be a number
    in some notation. counts: how often each text occurs; the texts are the index of the series.
    """
    texts = counts.index.to_series()
    texts = texts[texts.str.contains(r"\d")].reset_index(drop=True)
    unread = texts
    for style in CONVENTIONS:
        unread = unread[~style.reads(unread)]
    return texts if 2 * len(texts) >= len(counts) and unread.empty else texts.iloc[:0]


def _undecided(columns: "Mapping[str, pd.Series]", styles: Sequence[Convention]) -> str:
    """A message that names a column whose numbers fit several notations, and the command-line options that choose a
    notation.

    columns: for each column of numbers by name, the column's different texts. styles: the possible notations.
    """
    samples = {name: _telling(texts) for name, texts in columns.items()}
    name, text = next((item for item in samples.items() if not item[1].isdigit()), next(iter(samples.items())))
    ways = " or ".join(
        " ".join(
            f"--{key} {json.dumps(sign, ensure_ascii=False)}"
            for key, sign in zip(("decimal", "thousands"), style, strict=True)
            if sign
        )
        for style in styles
    )
    return f"column {name!r} has {text!r}, which is a number in several ways; state {ways}"


def _contradiction(columns: "Mapping[str, pd.Series]") -> str:
    """A message that names two columns with numbers in different notations.

    columns: for each column of numbers, its different texts; at least one column is not in plain notation.
    """
    first = next(name for name, texts in columns.items() if not PLAIN.reads(texts).all())
    second = next((name for name, texts in columns.items() if not conventions(columns[first], texts)), "")
    second = second or next(name for name, texts in columns.items() if PLAIN.reads(texts).all() and name != first)
    texts = f"{_telling(columns[first])!r} and {_telling(columns[second])!r}"
    return f"columns {first!r} and {second!r} write numbers in different ways, {texts}; write them alike"


def _telling(texts: "pd.Series") -> str:
    """An example of a column's texts for messages: the first text that is not plain, else the first text."""
    odd = texts[~PLAIN.reads(texts)]
    return str((odd if len(odd) else texts).iloc[0])


def date_formats(texts: "pd.Series") -> dict[str, NDArray[np.bool_]]:
    """The formats in which at least half of the texts are dates, each with a mask (n,) that marks these texts.

    At least half of a sample must be dates, too. There is no format if the median length of the texts is 0 or above 30.

    >>> import pandas as pd
    >>> list(date_formats(pd.Series(["31/12/2020", "soon"]))), list(date_formats(pd.Series(["01/02/2020"])))
    (['%d/%m/%Y'], ['%d/%m/%Y', '%m/%d/%Y'])
    >>> date_formats(pd.Series(["12", "1.5"]))
    {}
    """
    if not 0 < texts.str.len().median() <= LONGEST_DATE:
        return {}
    formats = dict[str, NDArray[np.bool_]]()
    for form in FORMATS:
        few = texts.iloc[:: max(1, len(texts) // 50)]
        if 2 * _dated(few, form).sum() >= len(few) and 2 * (dated := _dated(texts, form)).sum() >= len(texts):
            formats[form] = dated
    return formats


def _dated(texts: "pd.Series", form: str) -> NDArray[np.bool_]:
    """Marks the texts (n,) that are dates of a format. For %Y%m%d, only eight digits that begin with 19 or 20 count;
    pandas accepts more.
    """
    dated = ~np.isnan(days(texts, form))
    return dated & texts.str.fullmatch(r"(19|20)\d{6}").to_numpy(np.bool_) if form == "%Y%m%d" else dated


def days(values: "NDArray[np.generic] | pd.Series", form: str | None = None) -> NDArray[np.float64]:
    """Dates (form: None), or texts of the date format `form`, as days from 1970-01-01 (n,); NaN for any other value."""
    import pandas as pd

    dates = pd.to_datetime(pd.Series(values), format=form, errors="coerce").to_numpy("datetime64[ns]")
    return np.where(np.isnat(dates), np.nan, (dates - np.datetime64(0, "ns")) / DAY)
