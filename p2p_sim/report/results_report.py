"""A results directory as one HTML file."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import pandas as pd

from p2p_sim.base import InputError, member, write_whole
from p2p_sim.figures import count_range, plot_privacy_utility, reference_text, short
from p2p_sim.measures import points, quality
from p2p_sim.mechanisms import MechanismBase
from p2p_sim.report.charts import Chart, drawn, embedded, run_chart, sweep_chart
from p2p_sim.report.columns import NEEDED, NUMBERS, choices
from p2p_sim.report.page import Picture, report_page
from p2p_sim.report.point_table import FIGURES, MORE
from p2p_sim.results import (
    FAILURES,
    ROWS,
    FigureRequest,
    Results,
    draw,
    read_lines,
    read_manifest,
    read_results,
    read_terms,
    request_of,
    titles,
    view_of,
)
from p2p_sim.scenario import MechanismConfig

REPORT = "report.html"
MOST_FIGURES, MOST_LINES, MOST_PANELS = 8, 7, 9
"""The largest numbers of figures in a report, of lines in a figure with one panel, and of panels. The last two hold if
a sweep's file names no figures."""


def write_report(directory: Path, out: Path | None = None) -> Path:
    """Write the report on a run or a sweep, and return the file's path. The same results give the same bytes.

    Args:
        directory: results of `p2p-sim run` or `p2p-sim sweep`.
        out: the file; default report.html in the directory.

    Raises:
        InputError: there are no results, they cannot be read, or the file cannot be written. Nothing is changed then.
    """
    path = directory / REPORT if out is None else out
    if path.suffix not in (".html", ".htm"):
        raise InputError(f"--out {path}: must end in .html or .htm")
    if path.is_dir():
        raise InputError(f"--out {path}: is a directory")
    results, manifest = read_results(directory), read_manifest(directory)
    rows, failures = _checked(directory, results.rows), read_failures(directory)
    # words for the mechanisms; there are none for a plug-in that is not installed
    configs = {kind: member(MechanismConfig, kind) for kind in sorted(set(map(str, rows["mechanism_kind"])))}
    mechanisms = {
        kind: config.described or kind
        for kind, config in configs.items()
        if config is not None and issubclass(config, MechanismBase)
    }
    page = report_page(
        rows, manifest, failures, pictures=_pictures(results), mechanisms=mechanisms, terms=read_terms(directory)
    )
    try:
        write_whole(path, page.encode("utf-8", "replace"))
    except OSError as error:
        raise InputError(f"--out {path}: cannot be written ({error.strerror})") from None
    return path


def read_failures(directory: Path) -> list[dict[str, Any]]:
    """The records of failed replicates, in the order of the file; a half-written last line is left out."""
    path = directory / FAILURES
    failures = read_lines(path)
    for failure in failures:
        nested = not isinstance(failure, dict) or any(isinstance(cell, dict | list) for cell in failure.values())
        if nested or not isinstance(failure.get("replicate"), int):
            raise InputError(f"{path}: damaged (a line is no record)")
    return failures


def _pictures(results: Results) -> list[Picture]:
    """The figures of the report, at most eight. A run has one: the measure of utility, such as accuracy, beside every ε
    that could be stated. A sweep has the figures that its file names, or the three of `_usual`.
    """
    column = quality(results.rows)
    if not results.axes:
        caption = (
            f"{_named(column)} beside every ε that one could state for it. {_behind(results, True)} Each ε is the "
            f"largest over clusters and replicates. Dashed: {reference_text(column)}.{_chosen(results)}"
        )
        drawing = partial(plot_privacy_utility, results.rows, results.name)
        return [_picture(drawing, caption, partial(run_chart, results.rows))]
    requests = [request_of(entry, results) for entry in results.plots] or _usual(results, column)
    table = points(results.rows, results.keys)
    return [_of_sweep(results, table, request) for request in requests[:MOST_FIGURES]]


def _usual(results: Results, column: str) -> list[FigureRequest]:
    """The three figures of a sweep whose file names none: `column` against ε, then `column` and ε against the first
    swept key. There is a line for each combination of values of the other keys.

    More than seven lines are split into panels by one key: among the keys with 2 to 9 values, the key with most values.
    Without such a key, nothing is split.

    Args:
        results: the sweep's rows and keys. column: name of the column with a measure of utility, such as excess risk.
    """
    first = results.keys[0]
    others = [axis[0] for axis in results.axes[1:]]
    sizes = {key: int(results.rows[key].nunique()) for key in others}
    panels = [key for key in others if 1 < sizes[key] <= MOST_PANELS]
    facet = max(panels, key=lambda key: sizes[key]) if panels and math.prod(sizes.values()) > MOST_LINES else None
    pairs = (("epsilon_upper", column), (first, column), (first, "epsilon_upper"))
    return [FigureRequest(x, y, None, facet) for x, y in pairs]


def _of_sweep(results: Results, table: pd.DataFrame, request: FigureRequest) -> Picture:
    """One figure of a sweep, with its caption and the values that a browser shows.

    Args:
        results: the sweep's rows, one for each point and replicate, with its keys and name. table: one line for each
        point, with means over replicates. request: the columns along the axes, and the columns for lines, panels or
        colours.
    """
    title = f"{_named(request.y)} against {_named(request.x)}"
    if request.heat:
        title = f"{_named(request.heat)} over {_named(request.x)} and {_named(request.y)}"
    by = "".join(f", by {_named(column)}" for column in (request.group, request.facet) if column)
    column = str(request.heat or request.y)
    behind = _behind(results, not column.startswith("epsilon"))
    if "epsilon" in f"{request.x} {column}":
        behind += " ε is the largest over clusters and replicates."

    def chart() -> Chart | None:
        """The figure's axes, lines and points, for a browser to draw; None for a heat map or fitted curves, which are
        only pictures.
        """
        if request.heat or request.fit:
            return None
        return sweep_chart(table, view_of(request, results, table), results.keys, titles(results, table, "")[1])

    return _picture(partial(draw, request, results, table), f"{title}{by}. {behind}{_chosen(results)}", chart)


def _chosen(results: Results) -> str:
    """A caption's warning, after a space, on choices that the stated ε does not count; empty if there are none."""
    return "".join(f" {sentence}" for sentence in choices(results.rows))


def _picture(drawing: Any, caption: str, chart: Callable[[], Chart | None]) -> Picture:
    """A figure of the report: caption, drawing and values. If it cannot be drawn, the caption gives the reason.

    A sweep's file may ask for a figure that does not fit the rows, and a label may be any text.

    Args:
        drawing: a function that draws the figure into the file at a given path. caption: what the figure shows. chart:
        a function that gives the figure's values for the browser, or None if there are no values.
    """
    caption = caption if caption.startswith("ε") else caption[0].upper() + caption[1:]
    try:
        text = drawn(drawing)
        embedded(text, "", "")
    except (InputError, OSError, ValueError, ParseError) as error:
        return Picture(f"{caption} Not drawn: {error}")
    return Picture(caption, text, chart())


def _named(column: str | None) -> str:
    """A column's name in words."""
    return "a chosen column" if column is None else short(column)


def _behind(results: Results, means: bool) -> str:
    """A sentence on the number (or range) of replicates of each point; also on intervals if `means` are drawn."""
    counts = results.rows.groupby("scenario").size()
    replicates = count_range(counts, "replicate")
    each = "Each point" if results.axes else "The result"
    kind = "the mean and its 95% confidence interval (Student's t)" if counts.max() > 1 else "no interval"
    return f"{each} stands for {replicates}" + (f": {kind}." if means else ".")


def _checked(directory: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of results, checked and with their columns of numbers as floating-point numbers.

    Args:
        directory: the directory of the results, which an error names. rows: one line for each point and replicate.

    Raises:
        InputError: a column that a report needs is missing, or a column of numbers holds a value that is no number.
    """
    if missing := [name for name in NEEDED if name not in rows]:
        raise InputError(f"{directory / ROWS}: has no column {missing[0]}; another version of p2p-sim wrote it")
    numeric = [name for name, *_ in (*FIGURES, *MORE) if name in rows]
    numbers = {}
    for name in dict.fromkeys((*NUMBERS, *numeric)):
        try:
            numbers[name] = rows[name].astype(float)
        except (TypeError, ValueError):
            raise InputError(f"{directory / ROWS}: column {name} must hold numbers alone") from None
    return rows.assign(**numbers)
