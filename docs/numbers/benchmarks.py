"""docs/benchmarks.md: its tables are the published one."""

from collections.abc import Iterator

from benchmarks.page import full
from benchmarks.table import read
from docs.numbers.page import PUBLISHED, Page, Source


def rows() -> Iterator[str]:
    """Every row of every table."""
    lines = full(read(PUBLISHED / "benchmarks" / "table.csv")).splitlines()
    yield from (line for line in lines if line.startswith("| ") and not line.startswith("| | "))


PAGE = Page(
    "docs/benchmarks.md",
    (Source("make bench", "test_benchmarks.py::test_the_pages_show_the_published_table", rows),),
    given=(r"16-bit|64-bit|53-bit",),
)
