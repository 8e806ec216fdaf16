"""The benchmarks' tables in Markdown, and the pages that show them between two marks."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.table import PASSES, SHARE, Row, short

ROOT = Path(__file__).parent.parent
SUMMARY = (
    ("events a second over SimPy's bare timeout loop, 10⁵ and 10⁶ users", "event engine", "SimPy, bare", "medians"),
    ("the same with 1% loss, time-outs and retries", "event engine", "SimPy, bare", "medians, faults"),
    ("event engine over a process a user in SimPy, 50,000 users", "event engine", "SimPy, a process", ""),
    ("event engine over a component a user in salabim, 10,000 users", "event engine", "salabim", ""),
    ("vectorised engine, 10⁷ labels, NumPy: time over one `Generator.random` pass", "vectorised engine", "NumPy", ""),
    ("the same, compiled (`[fast]`)", "vectorised engine", "compiled", ""),
    ("dp-accounting's time for the same pair of laws over ours, n = 50 to 400", "accountant", "dp-accounting", ""),
    ("sweep of 400 points of 50 ms, share of the ideal speed-up: two local processes", "sweeps", "two local proc", ""),
    ("the same: two Dask workers", "sweeps", "two Dask workers", ""),
)
"""Lines of the README: what is said, the benchmark, how the row's name begins, how its setting ends."""


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
    """The README's few lines: the range of the medians, where there are several settings."""
    lines = ["| | median ratio |", "|---|---|"]
    for words, benchmark, begin, end in SUMMARY:
        found = [
            row.median
            for row in rows
            if row.benchmark == benchmark and row.name.startswith(begin) and "over bare processes" not in row.name
            if row.setting.endswith(end) and (row.unit in (PASSES, SHARE) or "times" in row.unit)
        ]
        if found:
            low, high = short(min(found)), short(max(found))
            lines.append(f"| {words} | {low if low == high else f'{low} to {high}'} |")
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
