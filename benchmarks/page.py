"""The benchmarks' tables in Markdown, and the pages that show them between two marks."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.table import FASTER, PASSES, SHARE, Row, short

ROOT = Path(__file__).parent.parent
CLEAN = ("at once", "medians")


@dataclass(frozen=True)
class Line:
    """A line of the README: what is said of the rows of a benchmark whose unit, names and settings are these."""

    words: str
    benchmark: str
    unit: str
    name: str
    ends: tuple[str, ...] = ("",)

    def medians(self, rows: Sequence[Row]) -> list[float]:
        """Of the rows whose name is this one and whose setting ends so."""
        return [
            row.median
            for row in rows
            if (row.benchmark, row.unit, row.name) == (self.benchmark, self.unit, self.name)
            if row.setting.endswith(self.ends)
        ]


LOOP, EVENTS, DRAW = "SimPy, bare timeout loop", "event engine", "vectorised engine"
SIMULATORS = "other simulators"
SUMMARY = (
    Line("event engine, 10⁵ and 10⁶ users: events a second over SimPy's bare loop", EVENTS, FASTER, LOOP, CLEAN),
    Line("the same with 1% loss, time-outs and retries", EVENTS, FASTER, LOOP, ("faults",)),
    Line("its memory, bytes a user", EVENTS, "bytes a user", "peak memory", (*CLEAN, "faults")),
    Line("event engine over a process a user in SimPy, 50,000 users", SIMULATORS, FASTER, "SimPy, a process a user"),
    Line(
        "event engine over a component a user in salabim, 10,000 users",
        SIMULATORS,
        FASTER,
        "salabim, a component a user",
    ),
    Line("vectorised engine, 10⁷ labels: time over one `Generator.random` pass", DRAW, PASSES, "NumPy"),
    Line("the same, compiled (`[fast]`)", DRAW, PASSES, "compiled"),
    Line("dp-accounting's time for one δ over ours, n = 50 to 400", "accountant", FASTER, "dp-accounting"),
    Line("ε over all data sets, n = 36 to 1,000,000, ms", "accountant", "ms", "ε over all data sets"),
    Line(
        "sweep, share of what two bare processes reach: local processes",
        "sweeps",
        SHARE,
        "two local processes over bare processes",
    ),
    Line("the same: two Dask workers", "sweeps", SHARE, "two Dask workers over bare processes"),
)


def mark(name: str) -> tuple[str, str]:
    """Where a block begins and ends."""
    return f"<!-- {name}: written by python -m benchmarks --page -->", f"<!-- end of {name} -->"


def full(rows: Sequence[Row]) -> str:
    """All rows, a table a benchmark."""
    parts = []
    for benchmark in dict.fromkeys(row.benchmark for row in rows):
        parts.append(f"### {benchmark[0].upper()}{benchmark[1:]}\n")
        parts += ["| | setting | median (range) | unit | ceiling, or beside what |", "|---|---|---|---|---|"]
        for row in (row for row in rows if row.benchmark == benchmark):
            count = f"{row.setting}, {row.size:,}" if row.size else row.setting
            parts.append(f"| {row.name} | {count} | {row.value} | {row.unit} | {row.ceiling} |")
        parts.append("")
    return "\n".join(parts)


def summary(rows: Sequence[Row]) -> str:
    """The README's few lines: medians, from the smallest to the largest setting."""
    lines = ["| | median |", "|---|---|"]
    for line in SUMMARY:
        found = line.medians(rows)
        if found:
            low, high = short(min(found)), short(max(found))
            lines.append(f"| {line.words} | {low if low == high else f'{low} to {high}'} |")
    return "\n".join(lines) + "\n"


def replaced(text: str, name: str, block: str) -> str:
    """The text with the block between its two marks.

    Raises:
        ValueError: the marks are not there.
    """
    begin, end = mark(name)
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"{name}: the page lacks its marks")
    return text[: text.index(begin)] + f"{begin}\n{block}\n{end}" + text[text.index(end) + len(end) :]


PAGES = {ROOT / "docs" / "benchmarks.md": ("benchmarks", full), ROOT / "README.md": ("how fast", summary)}


def update(rows: Sequence[Row]) -> None:
    """Put the tables into the pages."""
    for path, (name, render) in PAGES.items():
        text = path.read_text(encoding="utf-8")
        path.write_text(replaced(text, name, render(rows)), encoding="utf-8")
