"""Converts values for CSV files, which spreadsheets read, and for JSON."""

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

FORMULA = re.compile(r"[=+@＝＋－＠'\t\r\n]|-(?!\d+(\.\d+)?(e[-+]?\d+)?$)", re.IGNORECASE)
"""Matches the beginning of a text that spreadsheets may run as a formula, and an apostrophe; not a negative number."""


def as_text(cell: object) -> object:
    """The cell for a CSV file: a text that could be a formula gets an apostrophe, which the reader has to remove.

    >>> [as_text(cell) for cell in ("=1+1", "-x", "'a", "-0.5", -0.5, "a-b")]
    ["'=1+1", "'-x", "''a", '-0.5', -0.5, 'a-b']
    """
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


def without_formulas(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The table for `to_csv`: `as_text` is applied to the names of columns, and to the cells of columns of texts."""
    import pandas as pd
    from pandas.api.types import is_numeric_dtype

    safe = {name: cells if is_numeric_dtype(cells) else cells.map(as_text) for name, cells in frame.items()}
    return pd.DataFrame(safe, frame.index).set_axis([as_text(name) for name in frame.columns], axis="columns")


def finite(value: Any) -> Any:
    """The value for JSON, at any depth: NumPy's numbers as Python's, infinities as "inf" and "-inf", NaN as None."""
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value.item() if isinstance(value, np.generic) else value
