"""How a table writes numbers and dates: decimal signs, thousands separators, formats of dates."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FORMATS = (
    "%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y/%m/%d", "%d.%m.%Y", "%d.%m.%Y %H:%M:%S",
    "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y",
)  # fmt: skip
"""Of dates that are recognised."""
DAY = np.timedelta64(1, "D")


class Convention(NamedTuple):
    """How numbers are written: the decimal sign, and what stands between thousands; empty: nothing."""

    decimal: str = "."
    thousands: str = ""

    @property
    def pattern(self) -> re.Pattern[str]:
        """What a whole cell must match to be a number."""
        grouped = rf"|[1-9]\d{{0,2}}(?:{re.escape(self.thousands)}\d{{3}})+" if self.thousands else ""
        point = re.escape(self.decimal)
        return re.compile(rf"[+-]?(?:(?:\d+{grouped})(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?")

    def reads(self, texts: Iterable[str]) -> bool:
        """Whether all texts are numbers under it."""
        return all(map(self.pattern.fullmatch, texts))


PLAIN = Convention()
CONVENTIONS = (
    PLAIN, Convention(","), Convention(".", ","), Convention(",", "."),
    *(Convention(sign, gap) for sign in ".," for gap in (" ", "\u00a0", "\u202f", "'")),
)  # fmt: skip
"""Those that are recognised; before each one with thousands, the same one without them."""


def conventions(*columns: Sequence[str]) -> list[Convention]:
    """Those under which all texts of all columns are numbers, each without thousands where none is needed.

    >>> conventions(["42,0", "7"]), conventions(["1.234,5"], ["7,5"])
    ([Convention(decimal=',', thousands='')], [Convention(decimal=',', thousands='.')])
    >>> [tuple(one) for one in conventions(["1,234"])], conventions(["3 days"])
    ([(',', ''), ('.', ',')], [])
    """
    found = list[Convention]()
    for one in CONVENTIONS:
        if one.decimal not in {kept.decimal for kept in found} and all(map(one.reads, columns)):
            found.append(one)
    return found


def date_formats(texts: Sequence[str]) -> list[str]:
    """Of `FORMATS`, those under which all texts are dates.

    >>> date_formats(["31/12/2020"]), date_formats(["01/02/2020"]), date_formats(["12"])
    (['%d/%m/%Y'], ['%d/%m/%Y', '%m/%d/%Y'], [])
    """
    import pandas as pd

    wanted = [form for form in FORMATS if texts and len(re.split(r"\D+", texts[0])) == len(re.findall("%", form))]
    return [form for form in wanted if not pd.to_datetime(pd.Series(texts), format=form, errors="coerce").isna().any()]


def days(values: NDArray[np.generic], form: str | None = None) -> NDArray[np.float64]:
    """Days from 1970-01-01 (n,) of dates, or of texts of a format; NaN for what is none."""
    import pandas as pd

    dates = pd.to_datetime(pd.Series(values), format=form, errors="coerce").to_numpy("datetime64[ns]")
    return np.where(np.isnat(dates), np.nan, (dates - np.datetime64(0, "ns")) / DAY)
