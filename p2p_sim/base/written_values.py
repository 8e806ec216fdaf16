"""Values as text: bounds and counts, HTML for notebooks, cells of CSV files that spreadsheets read, and JSON."""

import math
import re
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

FORMULA = re.compile(r"[=+@＝＋－＠'\t\r\n]|-(?!\d+(\.\d+)?(e[-+]?\d+)?$)", re.IGNORECASE)
"""Matches a text that spreadsheets may run as a formula, and a text that begins with an apostrophe. A negative number
does not match.
"""


def four_digits(value: float, up: bool) -> float:
    """A bound rounded to four significant digits. An upper bound is rounded upwards (`up`), a lower bound downwards.

    >>> four_digits(0.74211, up=True), four_digits(0.74219, up=False)
    (0.7422, 0.7421)
    """
    if not math.isfinite(value):
        return value
    return float(Context(prec=4, rounding=ROUND_CEILING if up else ROUND_FLOOR).create_decimal_from_float(value))


def bound_text(value: float, up: bool) -> str:
    """A bound as a text of four significant digits. An upper bound is rounded upwards (`up`), a lower bound downwards.

    >>> bound_text(0.5, True), bound_text(float("inf"), True)
    ('0.5', '∞')
    """
    return "∞" if value == math.inf else f"{four_digits(value, up):.4g}"


def count(size: int, thing: str) -> str:
    """A whole number with its noun in the singular or plural; `thing` is the singular.

    >>> count(1, "point"), count(1200, "point"), count(2, "class")
    ('1 point', '1,200 points', '2 classes')
    """
    return f"{size:,d} {thing}" + ("" if size == 1 else "es" if thing.endswith("s") else "s")


def card(title: str, lines: Iterable[tuple[str, str]], notes: Iterable[str] = ()) -> str:
    """The HTML by which a notebook shows a result: a heading, a table of two columns, and a list of notes. All texts
    are escaped.

    Args:
        title: the heading. lines: the table's rows, each a pair of a name and a value. notes: sentences.

    >>> card("a < b", [], ["one"])
    '<strong>a &lt; b</strong><table></table><ul><li>one</li></ul>'
    """
    align = 'style="text-align:left"'
    rows = "".join(f"<tr><th {align}>{escape(name)}</th><td {align}>{escape(text)}</td></tr>" for name, text in lines)
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<strong>{escape(title)}</strong><table>{rows}</table>" + (f"<ul>{items}</ul>" if items else "")


def as_text(cell: object) -> object:
    """A cell as it is written to a CSV file. A text that spreadsheets could run as a formula gets an apostrophe in
    front. Readers of the file have to remove the apostrophe.

    >>> [as_text(cell) for cell in ("=1+1", "-x", "'a", "-0.5", -0.5, "a-b")]
    ["'=1+1", "'-x", "''a", '-0.5', -0.5, 'a-b']
    """
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


def without_formulas(frame: "pd.DataFrame") -> "pd.DataFrame":
    """A copy of the table as it is written to a CSV file. A text that a spreadsheet could run as a formula gets an
    apostrophe in front, in column names and cells.
    """
    import pandas as pd
    from pandas.api.types import is_numeric_dtype

    safe = {name: cells if is_numeric_dtype(cells) else cells.map(as_text) for name, cells in frame.items()}
    return pd.DataFrame(safe, frame.index).set_axis([as_text(name) for name in frame.columns], axis="columns")


def finite(value: Any) -> Any:
    """A value as it is written to JSON. At any depth, NumPy's numbers become Python's, infinities become "inf" and
    "-inf", and NaN becomes None.
    """
    import numpy as np  # here, so that `p2p-sim --help` does not load it

    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    if isinstance(value, float | np.floating) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value.item() if isinstance(value, np.generic) else value
