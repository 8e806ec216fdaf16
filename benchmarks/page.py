"""The benchmarks' tables in Markdown, as docs.values puts them into the pages."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.job import PARTS
from benchmarks.table import FASTER, PASSES, SHARE, Row, short
from benchmarks.whole_jobs import ALL, KEPT, MEGABYTES, PEAK, SECONDS, SHARE_OF_JOB
from benchmarks.whole_jobs import NAME as WHOLE
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
SIMULATORS, ANCHOR = "other simulators", "C++ anchor"
EPSILON = Line("ε over all data sets, in every setting of the table, ms", "accountant", "ms", "ε over all data sets")
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
    Line(
        "event engine over an event queue in C++ (binary heap), 10⁶ users",
        ANCHOR,
        FASTER,
        "C++, binary heap",
        ("medians",),
    ),
    Line("the same queue with 1% loss, time-outs and retries", ANCHOR, FASTER, "C++, binary heap", ("faults",)),
    Line("event engine over C++ without a queue; with and without faults", ANCHOR, FASTER, "C++, no queue"),
    Line("vectorised engine, 10⁷ labels: time over one `Generator.random` pass", DRAW, PASSES, "NumPy"),
    Line("dp-accounting's time for one δ over ours, n = 50 to 400", "accountant", FASTER, "dp-accounting"),
    EPSILON,
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


def jobs(rows: Sequence[Row]) -> str:
    """Whole jobs, a line each: processor seconds, where they go, and peak memory; nothing if none was measured."""
    found = {(row.name, row.setting, row.unit): row.median for row in rows if row.benchmark == WHOLE}
    names = dict.fromkeys(name for name, *_ in found)
    cells = [
        (
            f"{name}{label}",
            short(found[name, f"{ALL}{label}", SECONDS]),
            *(short(found[name, f"{part}{label}", SECONDS]) for part in PARTS),
            short(found[name, f"{PEAK}{label}", MEGABYTES]),
        )
        for name in names
        for label in ("", KEPT)
        if (name, f"{ALL}{label}", SECONDS) in found
    ]
    return table(("whole job, CPU s", "all", *PARTS, "peak MB"), cells) + "\n" if cells else ""


def engine_shares(rows: Sequence[Row]) -> str:
    """The event engine's part of each whole job, a line each; nothing if none was measured."""
    chosen = [row for row in rows if (row.benchmark, row.unit) == (WHOLE, SHARE_OF_JOB)]
    cells = [(row.name, f"{short(row.median)}%") for row in chosen if row.setting == "engine" and row.median > 0.0]
    return table(("whole job", "event engine"), cells) if cells else ""


def slowest(rows: Sequence[Row]) -> str:
    """The setting in which ε takes longest."""
    timed = [row for row in rows if (row.benchmark, row.unit) == ("accountant", "ms")]
    return max(timed, key=lambda row: row.median).setting


def summary(rows: Sequence[Row]) -> str:
    """The README's few lines: whole jobs, then medians, from the smallest to the largest setting."""
    cells = []
    for line in SUMMARY:
        if of := line.medians(rows):
            ends = " to ".join(dict.fromkeys(short(end(of)) for end in (min, max)))
            cells.append((line.words, f"{ends} (slowest setting: {slowest(rows)})" if line is EPSILON else ends))
    return jobs(rows) + table(("", "median"), cells)
