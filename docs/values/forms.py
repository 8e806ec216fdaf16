"""How values are read and written: tables of published studies, short decimals, intervals, small numbers as words."""

import math
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parent.parent.parent
PUBLISHED = ROOT / "results" / "published"
WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def published(study: str, file: str = "table.csv") -> pd.DataFrame:
    """A table or the rows of a published study."""
    path = PUBLISHED / study / file
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


def short(value: float, digits: int = 3) -> str:
    """A number, without the zero before its point: .023."""
    return f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1.0 else f"{value:.{digits}f}"


def signed(value: float) -> str:
    """A short number with its sign."""
    return f"{'+' if value > 0.0 else '-'}{short(abs(value))}"


def interval(mean: float, low: float, high: float, digits: int = 3) -> str:
    """A mean with its 95% interval: .075 [.064, .086]."""
    return f"{short(mean, digits)} [{short(low, digits)}, {short(high, digits)}]"


def bold(cells: Iterable[float]) -> list[str]:
    """Short numbers, the largest of them, as they are written, in bold."""
    cells = list(cells)
    return [f"**{short(cell)}**" if round(cell, 3) == round(max(cells), 3) else short(cell) for cell in cells]


def up(value: float, digits: int) -> float:
    """A value rounded up."""
    return math.ceil(10**digits * value) / 10**digits


def word(count: float) -> str:
    """A small number as a word."""
    return WORDS[round(count)]


def only(values: pd.Series) -> float | int | str:
    """The one value that all rows have."""
    return values.unique().item()
