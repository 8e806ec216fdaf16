"""Values as a reader sees them: short, plain, harmless."""

import math
from collections.abc import Iterable
from typing import Any

LONGEST_CELL = 80
"""Characters of a label that are shown."""


def plain(value: Any, longest: int = LONGEST_CELL) -> str:
    """A value as one line of printable text; what no file can hold becomes "�", what is long is cut.

    >>> plain("a\\n\\x00b"), plain(0.1), plain(None)
    ('a �b', '0.1', '–')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    text = number(value) if isinstance(value, float) else str(value)
    text = "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def number(value: float) -> str:
    """Four significant digits; infinity and what is not known as signs.

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
    """Smallest and largest of some numbers, or the one that they all are.

    >>> span([1.0, 3.0]), span([2, 2])
    ('1 to 3', '2')
    """
    known = [float(value) for value in values if not math.isnan(float(value))]
    if not known:
        return "–"
    low, high = (_grouped(extreme(known)) for extreme in (min, max))
    return low if low == high else f"{low} to {high}"


def _grouped(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) and value == round(value) and abs(value) < 1e15 else number(value)


def decimals(halves: Iterable[float]) -> int | None:
    """Decimals that intervals of these half-widths support, two digits of the middle one; None if there are none.

    >>> decimals([0.004, 0.0026, 0.001]), decimals([float("nan")])
    (4, None)
    """
    known = sorted(half for half in halves if math.isfinite(half) and half > 0)
    return min(8, max(2, 1 - math.floor(math.log10(known[len(known) // 2])))) if known else None


def with_interval(value: float, low: float, high: float, places: int | None = None) -> tuple[str, str]:
    """A mean and its interval, empty where there is none, in so many decimals; default: those that it supports.

    >>> with_interval(0.887123, 0.8845, 0.8897), with_interval(0.5, float("nan"), float("nan"))
    (('0.8871', '[0.8845, 0.8897]'), ('0.5', ''))
    """
    places = decimals([(high - low) / 2]) if places is None else places
    if places is None or not math.isfinite(value):
        return number(value), ""
    return f"{value:.{places}f}", f"[{low:.{places}f}, {high:.{places}f}]" if math.isfinite(high - low) else ""
