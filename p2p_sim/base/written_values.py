"""Values as spreadsheets and JSON have them."""

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

FORMULA = re.compile(r"[=+@＝＋－＠'\t\r\n]|-(?!\d+(\.\d+)?(e[-+]?\d+)?$)", re.IGNORECASE)
"""How a text begins that spreadsheets may run, and the apostrophe that is put before it; a negative number is none."""


def as_text(cell: object) -> object:
    """A cell of a CSV file: a text that could be a formula gets an apostrophe, which whoever reads it back removes.

    >>> [as_text(cell) for cell in ("=1+1", "-x", "'a", "-0.5", -0.5, "a-b")]
    ["'=1+1", "'-x", "''a", '-0.5', -0.5, 'a-b']
    """
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


def without_formulas(frame: "pd.DataFrame") -> "pd.DataFrame":
    """A table for `to_csv`: texts and names of columns as `as_text` has them, columns of numbers as they are."""
    import pandas as pd
    from pandas.api.types import is_numeric_dtype

    safe = {name: cells if is_numeric_dtype(cells) else cells.map(as_text) for name, cells in frame.items()}
    return pd.DataFrame(safe, frame.index).set_axis([as_text(name) for name in frame.columns], axis="columns")


def finite(value: Any) -> Any:
    """A value that JSON can hold: plain numbers, infinities as the texts "inf" and "-inf", NaN as null, at any
    depth.
    """
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value.item() if isinstance(value, np.generic) else value
