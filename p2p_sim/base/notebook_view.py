"""Texts and HTML tables by which results show themselves at a Python prompt and in a notebook."""

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from html import escape


def four_digits(value: float, up: bool) -> float:
    """A bound rounded to four significant digits: upwards if `up`, as upper bounds need it, else downwards.

    >>> four_digits(0.74211, up=True), four_digits(0.74219, up=False)
    (0.7422, 0.7421)
    """
    if not math.isfinite(value):
        return value
    return float(Context(prec=4, rounding=ROUND_CEILING if up else ROUND_FLOOR).create_decimal_from_float(value))


def bound_text(value: float, up: bool) -> str:
    """A bound as a text of four significant digits, rounded upwards if `up`, as upper bounds need it, else downwards.

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
    """HTML of the heading `title`, a table with a row for each pair in `lines`, and a list of notes.

    >>> card("a < b", [], ["one"])
    '<strong>a &lt; b</strong><table></table><ul><li>one</li></ul>'
    """
    align = 'style="text-align:left"'
    rows = "".join(f"<tr><th {align}>{escape(name)}</th><td {align}>{escape(text)}</td></tr>" for name, text in lines)
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<strong>{escape(title)}</strong><table>{rows}</table>" + (f"<ul>{items}</ul>" if items else "")
