"""A results directory as one HTML file."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from p2p_sim.config import InputError
from p2p_sim.store import FAILURES, MANIFEST, ROWS, load_results, read_manifest, write_whole

REPORT = "report.html"


def write_report(directory: Path, out: Path | None = None) -> Path:
    """Write the report on a run or a sweep and return where it is; the same results give the same bytes.

    Args:
        directory: results of `p2p-sim run` or `p2p-sim sweep`.
        out: the file; default report.html in the directory.

    Raises:
        InputError: there are no results, they cannot be read, or the file cannot be written. Nothing is left then.
    """
    from analysis.figures.report.page import report_page

    path = directory / REPORT if out is None else out
    _check_destination(path)
    rows = load_results(directory)
    if rows.empty:
        raise InputError(f"{directory}: holds no finished replicate yet; run it first")
    manifest = read_manifest(directory)
    _check_manifest(directory, manifest)
    page = report_page(_checked(directory, rows), manifest, read_failures(directory))
    try:
        write_whole(path, page.encode("utf-8", "replace"))
    except OSError as error:
        raise InputError(f"--out {path}: cannot be written ({error.strerror})") from None
    return path


def read_failures(directory: Path) -> list[dict[str, Any]]:
    """What failed, in the order of the file; a half-written last line is left out."""
    path = directory / FAILURES
    if not path.exists():
        return []
    try:
        found = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: damaged ({error})") from None
    if not all(isinstance(failure, dict) for failure in found):
        raise InputError(f"{path}: damaged (a line is no record)")
    return found


def _check_destination(path: Path) -> None:
    if path.suffix not in (".html", ".htm"):
        raise InputError(f"--out {path}: must end in .html or .htm")
    if path.is_dir():
        raise InputError(f"--out {path}: is a directory")


def _check_manifest(directory: Path, manifest: dict[str, Any]) -> None:
    axes = manifest.get("axes", [])
    whole = isinstance(manifest.get("name"), str) and isinstance(manifest.get("scenario"), dict)
    if not whole or not isinstance(axes, list) or not all(_is_axis(axis) for axis in axes):
        raise InputError(f"{directory / MANIFEST}: does not say what was run; was it written by p2p-sim?")


def _is_axis(axis: Any) -> bool:
    return isinstance(axis, dict) and all(isinstance(axis.get(name), list) and axis[name] for name in ("keys", "values"))


def _checked(directory: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, if they have what a report needs."""
    from analysis.figures.report.points import NEEDED, NUMBERS

    missing = [name for name in NEEDED if name not in rows]
    if missing:
        raise InputError(f"{directory / ROWS}: has no column {missing[0]}; was it written by another version of p2p-sim?")
    for name in NUMBERS:
        try:
            rows[name] = rows[name].astype(float)
        except (TypeError, ValueError):
            raise InputError(f"{directory / ROWS}: column {name} must hold numbers alone") from None
    return rows
