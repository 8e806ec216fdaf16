"""All benchmarks: a table, two figures and a manifest, and the pages that show them.

python -m benchmarks [--only NAME] [--small] [--out DIR]        measures
python -m benchmarks --only whole_jobs --against COMMIT         measures an older commit's code beside today's
python -m benchmarks --page                                     writes the tables into the pages
"""

import argparse
import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks import (
    accountant,
    anchor,
    event_engine,
    figures,
    histograms,
    label_mechanisms,
    overlays,
    processes,
    simulators,
    sweeps,
    table,
    vectorised,
    whole_jobs,
)
from docs.values import forms
from docs.values.pages import Page

MODULES = (
    *(whole_jobs, event_engine, simulators, anchor, overlays),
    *(vectorised, accountant, label_mechanisms, histograms, sweeps),
)
NAMES = {module.__name__.rpartition(".")[2]: module for module in MODULES}
PUBLISHED = forms.PUBLISHED / "benchmarks"
LIBRARIES = ("dp-accounting", "numpy", "salabim", "scikit-learn", "scipy", "simpy")


def processor() -> str:
    """The processor's model name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def machine() -> dict[str, object]:
    """What the numbers depend on: cores, how busy they are, the processor, versions; no name of the machine."""
    libraries = {library: _version(library) for library in LIBRARIES}
    busy = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    return {
        "cores": os.cpu_count(),
        "processor": processor(),
        "load_average_at_start": busy,
        "python": platform.python_version(),
        "libraries": {library: found for library, found in libraries.items() if found},
    }


def measure(out: Path, names: Sequence[str], small: bool, against: str | None = None) -> None:
    """Run some benchmarks, printing as they go, and put their rows, those of others kept, into a directory.

    against: a commit or a checkout; whole jobs run with its code too.
    """
    out.mkdir(parents=True, exist_ok=True)
    manifest_path, table_path = out / "manifest.json", out / "table.csv"
    manifest = json.loads(manifest_path.read_text(encoding="utf-8")) if manifest_path.exists() else {}
    kept = table.read(table_path) if table_path.exists() else []
    for name in names:
        print(name, flush=True)
        manifest[name] = machine()
        found = []
        for row in whole_jobs.rows(small, against) if name == "whole_jobs" else NAMES[name].rows(small):
            found.append(row)
            print(row, flush=True)
        own = {row.benchmark for row in found}
        kept = in_order([row for row in kept if row.benchmark not in own] + found)
        table.write(kept, table_path)
        manifest_path.write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    draw(out)


def in_order(rows: Sequence[table.Row]) -> list[table.Row]:
    """The rows, whole jobs first; those of a benchmark stay together and as they are."""
    return sorted(rows, key=lambda row: row.benchmark != whole_jobs.NAME)


def draw(out: Path) -> None:
    """The figures of a directory's table."""
    rows = table.read(out / "table.csv")
    if any(row.unit in figures.TITLES for row in rows):
        figures.draw_ratios(rows, out / "ratios.png")
    if {"event scaling", "vectorised scaling"} <= {row.benchmark for row in rows}:
        figures.draw_scaling(rows, out / "scaling.png")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or write the pages."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=NAMES, action="append", help="this benchmark alone; may be repeated")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to see that everything runs")
    parser.add_argument("--out", type=Path, default=PUBLISHED, help="directory of table, figures and manifest")
    parser.add_argument("--page", action="store_true", help="measure nothing; draw the figures and write the pages")
    parser.add_argument(
        "--against", metavar="COMMIT", help="or a checkout: whole jobs run with its code beside today's"
    )
    given = parser.parse_args(arguments)
    if given.against is not None and "whole_jobs" not in (given.only or NAMES):
        parser.error("--against is for whole_jobs; name it with --only, or leave --only out")
    if given.page:
        draw(given.out)
        Page("docs/benchmarks.md").write()
        return
    try:
        measure(given.out, given.only or tuple(NAMES), given.small, given.against)
    except processes.CheckoutError as fault:
        parser.error(f"--against {fault}")


if __name__ == "__main__":
    main()
