"""The benchmarks' tables in Markdown, as docs.values puts them into the pages."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.table import FASTER, PASSES, SHARE, Row, short
from docs.markdown import table

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


def full(rows: Sequence[Row]) -> str:
    """All rows, a table a benchmark."""
    head = ("", "setting", "median (range)", "unit", "ceiling, or beside what")
    parts = []
    for benchmark in dict.fromkeys(row.benchmark for row in rows):
        cells = [
            (row.name, f"{row.setting}, {row.size:,}" if row.size else row.setting, row.value, row.unit, row.ceiling)
            for row in rows
            if row.benchmark == benchmark
        ]
        parts.append(f"### {benchmark[0].upper()}{benchmark[1:]}\n\n{table(head, cells)}")
    return "\n".join(parts)


def summary(rows: Sequence[Row]) -> str:
    """The README's few lines: medians, from the smallest to the largest setting."""
    found = {line.words: [short(end(of)) for end in (min, max)] for line in SUMMARY if (of := line.medians(rows))}
    return table(("", "median"), [(words, " to ".join(dict.fromkeys(ends))) for words, ends in found.items()])
