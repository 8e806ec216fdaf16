"""The benchmarks: every table of their page, the README's, and how the event engine stands beside C++."""

from benchmarks.anchor import LOSS
from benchmarks.anchor import NAME as ANCHOR
from benchmarks.page import engine_shares, full, jobs, summary
from benchmarks.table import FASTER, read
from docs.values.forms import PUBLISHED

SOURCE = ("make bench", "release/test_benchmarks.py::test_a_small_run_leaves_a_table_figures_and_a_manifest")
SOURCES = {
    "whole": ("make bench", "release/test_whole_jobs.py::test_a_whole_job_is_split_into_its_parts"),
    "engine_part": ("make bench", "release/test_whole_jobs.py::test_a_whole_job_is_split_into_its_parts"),
    **dict.fromkeys(
        ("lost", "heap", "heap_faults", "loop", "loop_faults"),
        (
            "python -m benchmarks --only anchor",
            "release/test_whole_jobs.py::test_cpp_counts_what_the_event_engine_counts",
        ),
    ),
}

_rows = read(PUBLISHED / "benchmarks" / "table.csv")
tables, few, whole, engine_part = full(_rows), summary(_rows), jobs(_rows), engine_shares(_rows)


def _medians(benchmark: str, name: str, faults: bool) -> list[float]:
    """By how many times ours is as fast as a peer, in the settings with faults or in those without."""
    chosen = [row for row in _rows if (row.benchmark, row.name, row.unit) == (benchmark, name, FASTER)]
    return [row.median for row in chosen if (", faults" in row.setting) == faults]


lost = LOSS
heap, heap_faults = (_medians(ANCHOR, "C++, binary heap", faults)[0] for faults in (False, True))
loop, loop_faults = (1.0 / _medians(ANCHOR, "C++, no queue", faults)[0] for faults in (False, True))
