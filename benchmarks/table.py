"""The table of all benchmarks: a row a measurement, as CSV."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

from benchmarks.timing import Spread

FASTER, PASSES, SHARE = "times as fast", "passes", "share"
"""Units of ratios: the peer's time over ours; our time over that of one pass; a share of the ideal speed-up."""


@dataclass(frozen=True)
class Row:
    """A measurement: what, in which setting, its smallest, median and largest value, and what no value can beat.

    ceiling: in words, with what was run beside it. size: users or labels where that is an axis, else 0.
    """

    benchmark: str
    name: str
    setting: str
    unit: str
    low: float
    median: float
    high: float
    ceiling: str = ""
    size: int = 0

    @staticmethod
    def of(
        benchmark: str, name: str, setting: str, unit: str, values: Spread | float, ceiling: str = "", size: int = 0
    ) -> "Row":
        """A row from smallest, median and largest, or from one value."""
        low, median, high = values if isinstance(values, tuple) else (values, values, values)
        return Row(benchmark, name, setting, unit, low, median, high, ceiling, size)

    @property
    def value(self) -> str:
        """Median and range, two digits at least."""
        if self.low == self.high:
            return short(self.median)
        return f"{short(self.median)} ({short(self.low)} to {short(self.high)})"

    def __str__(self) -> str:
        return f"  {self.name:<48} {self.setting:<58} {self.value:>24} {self.unit}"


def short(number: float) -> str:
    """Two or three digits, and all before the point."""
    if number < 0.1:
        return f"{number:.2g}"
    return f"{number:.2f}" if number < 10.0 else f"{number:.1f}" if number < 100.0 else f"{number:,.0f}"


COLUMNS = tuple(field.name for field in fields(Row))


def write(rows: Iterable[Row], path: Path) -> None:
    """The rows as CSV, four digits each."""
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(COLUMNS)
        for row in rows:
            values = [getattr(row, name) for name in COLUMNS]
            lines.writerow([f"{value:.4g}" if isinstance(value, float) else value for value in values])


def read(path: Path) -> list[Row]:
    """The rows of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Row(**{**line, **{k: float(line[k]) for k in ("low", "median", "high")}, "size": int(line["size"])})
            for line in csv.DictReader(file)
        ]
