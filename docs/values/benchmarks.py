"""The benchmarks: every table of their page, and the README's."""

from benchmarks.page import full, summary
from benchmarks.table import read
from docs.values.forms import PUBLISHED

SOURCE = ("make bench", "test_benchmarks.py::test_a_small_run_leaves_a_table_figures_and_a_manifest")

_rows = read(PUBLISHED / "benchmarks" / "table.csv")
tables, few = full(_rows), summary(_rows)
