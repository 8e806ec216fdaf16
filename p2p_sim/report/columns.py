"""The columns that a report needs, and the conversion of values into short, printable, harmless texts."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from p2p_sim.base import count
from p2p_sim.measures import POINT, REPLICATE, points

LONGEST_CELL = 80
"""Largest number of characters of a table's cell or a label; longer texts are cut."""


def plain(value: Any, longest: int = LONGEST_CELL) -> str:
    """A value as one line of text: None and NaN are "–", unprintable characters "�", and floats as in `number`.

    A text of more than `longest` characters is cut, and then ends in "…".

    >>> plain("a\\n\\x00b"), plain(0.1), plain(None)
    ('a �b', '0.1', '–')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    text = number(value) if isinstance(value, float) else str(value)
    text = "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def number(value: float) -> str:
    """A number in four significant digits; a whole number below 1e9 is written in full. Infinity is "∞", NaN "–".

    >>> number(0.123456), number(4000.0), number(1e-5), number(float("inf")), number(float("nan"))
    ('0.1235', '4000', '1e-5', '∞', '–')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.0f}" if value == round(value) and abs(value) < 1e9 else f"{value:.4g}"
    return text.replace("e-0", "e-").replace("e+0", "e+")


def span(values: Any) -> str:
    """The smallest and the largest of some numbers, or one number if all are equal. NaN is left out.

    >>> span([1.0, 3.0]), span([2, 2])
    ('1 to 3', '2')
    """
    numbers = [float(value) for value in values if not math.isnan(float(value))]
    if not numbers:
        return "–"
    low, high = (_grouped(extreme(numbers)) for extreme in (min, max))
    return low if low == high else f"{low} to {high}"


def _grouped(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) and value == round(value) and abs(value) < 1e15 else number(value)


def decimals(halves: Iterable[float]) -> int | None:
    """The number of decimals for means, from 2 to 8: the median half-width of intervals gets two significant digits.

    None: no half-width is finite and above 0.

    >>> decimals([0.004, 0.0026, 0.001]), decimals([float("nan")])
    (4, None)
    """
    finite = sorted(half for half in halves if math.isfinite(half) and half > 0)
    return min(8, max(2, 1 - math.floor(math.log10(finite[len(finite) // 2])))) if finite else None


class MeanText(NamedTuple):
    """A mean and its interval as texts; the interval is empty if there is none."""

    mean: str
    interval: str


def with_interval(value: float, low: float, high: float, places: int | None = None) -> MeanText:
    """A mean and its interval as texts, with `places` decimals. By default, `decimals` finds the number.

    >>> with_interval(0.887123, 0.8845, 0.8897)
    MeanText(mean='0.8871', interval='[0.8845, 0.8897]')
    >>> with_interval(0.5, float("nan"), float("nan"))
    MeanText(mean='0.5', interval='')
    """
    places = decimals([(high - low) / 2]) if places is None else places
    if places is None or not math.isfinite(value):
        return MeanText(number(value), "")
    interval = f"[{low:.{places}f}, {high:.{places}f}]" if math.isfinite(high - low) else ""
    return MeanText(f"{value:.{places}f}", interval)


WORST = (
    *("epsilon_lower", "epsilon_upper", "epsilon_local", "epsilon_others_upper", "epsilon_times_upper"),
    *("epsilon_coalition_upper", "epsilon_unmet_upper", "epsilon_paper_lemma9", "epsilon_paper_theorem3"),
)
NUMBERS = (
    *("flip_prob", "sampling_rate", "num_users", "num_clusters", "delta", "effective_sampling_rate"),
    *("error_rate", "nonprivate_error_rate", "excess_risk", "nonprivate_excess_risk"),
    "epsilon_paper",
    *WORST,
)
"""The columns of numbers that a report reads. Some columns may be empty."""
TEXTS = ("engine", "population", "mechanism", "mechanism_kind", "learner", "observer", "adjacency", "basis", "oracle")
NEEDED = (POINT, REPLICATE, *TEXTS, *NUMBERS)
"""All columns that a report reads."""

Failure = Mapping[str, Any]


def standing(failures: Iterable[Failure], rows: pd.DataFrame) -> list[Failure]:
    """The failures, in the given order, whose replicate has no row. A repeated run may have added rows for others."""
    succeeded = set(zip(rows[POINT], rows[REPLICATE], strict=True))
    return [failure for failure in failures if (str(failure.get("point")), failure.get("replicate")) not in succeeded]


def with_failures(rows: pd.DataFrame, keys: Sequence[str], failures: Sequence[Failure] = ()) -> pd.DataFrame:
    """A table with one line for each point (combination of values of `keys`).

    A line has means and intervals of measured columns, the largest value of each ε, and numbers of replicates that
    succeeded and failed. Points without a successful replicate come last, without means.

    Args:
        rows: one line for each point and replicate. keys: columns whose values define a point. failures: replicates
        that failed and have no row; each is a mapping with the point, the replicate's index and the values of `keys`.
    """
    table = points(rows, keys)
    table["replicates"] = table["replicates"].astype(int)
    counts, measured = Counter(str(failure.get("point")) for failure in failures), set(table[POINT])
    values = {str(failure.get("point")): {key: failure.get(key) for key in keys} for failure in failures}
    if lost := [{POINT: point, "replicates": 0, **values[point]} for point in values if point not in measured]:
        table = pd.concat([table, pd.DataFrame(lost)], ignore_index=True)
    return table.assign(failures=[counts[point] for point in table[POINT]])


def worst_bases(rows: pd.DataFrame) -> pd.Series:
    """For each point, how the learner's ε was computed (column `basis`) in the replicate with the largest ε.

    The index has the points' identities (hashes). A missing ε counts as infinite.
    """
    order = rows["epsilon_upper"].fillna(float("inf")).sort_values(kind="stable").index
    return rows.loc[order].groupby(POINT, sort=False)["basis"].last()


LOOK_TEXTS = {
    "oracle": "Choices made with the true labels, not paid for by ε",
    "curator": "Runs of a private selection: each ε here is for one run; the larger ε of the whole selection, "
    "choice included, is in trials.csv",
}
"""A sentence by value of the column `look` (the data that a search looked at). Other searches cost no ε."""


def choices(rows: pd.DataFrame) -> list[str]:
    """Warnings on choices that the stated ε does not count, if the rows are of a parameter search; otherwise empty.

    There is one sentence for each way in which the search looked at private data. Either the search looked at true
    labels. Or it was a private selection: a curator (a trusted server with true labels) chose the run with the best
    noisy score. Searches that look at released labels or at public data need no warning.
    """
    if "look" not in rows:
        return []
    every, sentences = rows[POINT].nunique(), []
    for look, text in LOOK_TEXTS.items():
        size = rows.loc[rows["look"] == look, POINT].nunique()
        some = "" if size == every else f" (at {size:,d} of {count(every, 'point')})"
        if size:
            sentences.append(f"{text}{some}.")
    return sentences
