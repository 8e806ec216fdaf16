"""Charts of a report: values that a browser draws, and Matplotlib's figures as parts of a page."""

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import pandas as pd
from matplotlib import rc_context

from p2p_sim.base import count
from p2p_sim.figures import (
    BASELINES,
    REFERENCES,
    View,
    apart,
    baseline_of,
    baseline_text,
    caption,
    drawable,
    facets_of,
    long,
    pairs,
    reference_of,
    reference_text,
    series,
    short,
    statements,
    wants_log,
)
from p2p_sim.measures import HIGH, LOW, is_privacy, points, quality
from p2p_sim.report.columns import LONGEST_CELL, plain, with_interval
from p2p_sim.report.privacy_statement import rounded_down, rounded_up

MOST_POINTS = 2000
"""The largest number of points of a chart. A figure with more points is shown only as a picture."""
Chart = dict[str, Any]


def sweep_chart(table: pd.DataFrame, view: View, keys: Sequence[str], note: str) -> Chart | None:
    """The chart of a sweep's lines as JSON values, which a browser draws. None: there is no finite point, or more than
    2,000.

    x, y: labels of the axes. logs: whether x and y are logarithmic. places: the texts along x; None if x has numbers.
    joined: whether lines join points. panels: headings of the panels; a single panel has an empty heading. note: the
    caption.

    groups: the lines. Each has a label, a look (an index that decides colour and marker) and points. A point has the
    index of its panel, coordinates ("at") and words ("said"). The coordinates are x, y, and the ends of y's interval.
    If x has texts, the coordinate x is an index of `places`.

    levels: what the lines are compared with, such as the learner without privacy. Each level has a label, a dash
    pattern and pieces. A piece is a line in one panel; a single point stands for a horizontal line.

    Args:
        table: one row for each point (a combination of swept values), from `p2p_sim.measures.point_means.points`. view:
        the columns of the axes, lines and panels. keys: the swept keys; the words of a point state their values. note:
        what is held fixed.
    """
    finite, names = drawable(table, view)
    if finite.empty or len(finite) > MOST_POINTS:
        return None
    facets = facets_of(table, finite, view)
    parts = [facet.points for facet in facets]
    # the keys that vary; first the keys that make lines
    varied = [key for key in dict.fromkeys([*view.group, *keys]) if table[key].nunique(dropna=False) > 1]
    return {
        "x": plain(long(view.x, finite), 200),
        "y": plain(long(view.y, finite), 200),
        "logs": [wants_log(finite["at"], view.log_x) and names is None, wants_log(finite[view.y], view.log_y)],
        "places": None if names is None else [plain(name, 40) for name in names],
        "joined": names is None,
        "panels": [plain(facet.heading) for facet in facets],
        "groups": _groups(parts, finite, names, view, keys=varied),
        "levels": _references(parts, view) + _baselines(parts, view),
        "note": plain(caption(table, finite, view, note), 600),
    }


def _groups(
    parts: Sequence[pd.DataFrame], finite: pd.DataFrame, names: Sequence[str] | None, view: View, *, keys: Sequence[str]
) -> list[Chart]:
    """The lines of a chart: a dict with a label, a look and points for each group of points. A group is a combination
    of values that makes a line. A line may have points in several panels; each point names its panel.

    Args:
        parts: the table of points of each panel. finite: the points of all panels; a group's position there is its look
        (an index that decides colour and marker). names: the texts along x; None if x has numbers. view: which columns
        make axes, lines and panels. keys: the scenario's keys; the words of a point state their values.
    """
    lines: dict[int, Chart] = {}
    for panel, part in enumerate(parts):
        for line in apart(series(part, view.group, finite), names):
            label = plain(line.label or short(view.y))
            group = lines.setdefault(line.index, {"label": label, "look": line.index, "points": []})
            group["points"] += [_point(row, panel, view, keys) for row in line.points.to_dict("records")]
    return [lines[index] for index in sorted(lines)]


def run_chart(rows: pd.DataFrame) -> Chart | None:
    """The chart of a run as JSON values with the keys of `sweep_chart`: a point for each ε that could be stated.

    The chart is None if no ε is finite, or if the measure on the y axis is not finite. rows: one row for each replicate
    of a single point.
    """
    point = points(rows).iloc[0].to_dict()
    y = quality(rows)
    stated = statements(rows)
    if not stated or not math.isfinite(point[y]):
        return None
    # one point for each ε that could be stated, all with the same value and interval
    measured = [said_value(point, y), count(len(rows), "replicate")]
    groups = []
    for look, (text, epsilon) in enumerate(stated.items()):
        words = [f"{plain(text, 120)}: ε = {rounded_up(epsilon)}", *measured]
        mark = {"panel": 0, "at": [_number(epsilon), *_ends(point, y)], "said": words}
        groups.append({"label": plain(text, 120), "look": look, "points": [mark]})
    return {
        "x": f"ε at δ = {rows['delta'].iloc[0]:g}, learner's view",
        "y": plain("accuracy on the holdout" if y == "accuracy" else long(y, rows)),
        "logs": [True, False],
        "places": None,
        "joined": False,
        "panels": [""],
        "groups": groups,
        "levels": _run_levels(point, y),
        "note": "95% confidence intervals" if len(rows) > 1 else "no interval from a single replicate",
    }


def _run_levels(point: Mapping[Any, Any], y: str) -> list[Chart]:
    """The horizontal lines with which a run is compared, as entries of the chart's list of levels. The first line is
    the value of y for the learner without privacy. The second line is the value for a prediction without features, such
    as the majority class. Each entry's label states the mean, and its piece has the mean with the ends of its interval.
    An unknown value is left out.
    """
    compared = ((REFERENCES[y], "without privacy", "6 4"), (BASELINES.get(y, ""), baseline_text(y), "2 3"))
    levels = []
    for column, label, dash in compared:
        level = point.get(column)
        if isinstance(level, float) and math.isfinite(level):
            mean = with_interval(*(point[column + end] for end in ("", LOW, HIGH))).mean
            piece = {"panel": 0, "points": [[None, *_ends(point, column)]]}
            levels.append({"label": f"{label}: {mean}", "dash": dash, "pieces": [piece]})
    return levels


def _ends(row: Mapping[Any, Any] | pd.Series, column: str) -> list[float | None]:
    """A mean and the two ends of its interval. Each is a number that JSON can hold, or None."""
    return [_number(row.get(column + end)) for end in ("", LOW, HIGH)]


def said_value(row: Mapping[Any, Any], column: str) -> str:
    """A column's name and value in words. An upper bound is rounded up, a lower bound down; a mean has its interval.

    >>> said_value({"epsilon_upper": 0.74211}, "epsilon_upper"), said_value({"accuracy": 0.75}, "accuracy")
    ('ε at most 0.7422', 'accuracy 0.75')
    """
    cell = row[column]
    if not isinstance(cell, float | int) or isinstance(cell, bool):
        return plain(pairs([column], [cell]), LONGEST_CELL)
    if is_privacy(column) and column != "delta":
        if column == "epsilon_lower":
            return f"{short(column)} at least {rounded_down(float(cell))}"
        claim = "" if "paper" in column else "at most "  # a paper's bound is only claimed
        return f"{short(column)} {claim}{rounded_up(float(cell))}"
    low, high = (float(row.get(column + end, math.nan)) for end in (LOW, HIGH))
    text = with_interval(float(cell), low, high)
    return f"{short(column)} {text.mean} {text.interval}".strip()


def _point(row: Mapping[Any, Any], panel: int, view: View, varied: Sequence[str]) -> Chart:
    """One point of a chart: panel, coordinates and words. The coordinates are x, y, and the ends of y's interval; None:
    unknown. If x has texts, the coordinate x is the text's index. The words state the values of `varied`, then x, y and
    the value without privacy, then the number of replicates.

    Args:
        row: the point's values by column. panel: the number of its panel. view: which columns are on the axes. varied:
        the scenario's keys that are not the same at all points.
    """
    words = [plain(pairs([key], [row[key]])) for key in varied]
    measured = [view.x] if view.x not in varied else []
    words += [said_value(row, column) for column in (*measured, view.y)]
    reference = REFERENCES.get(view.y)
    if reference is not None and reference in row and math.isfinite(row[reference]):
        words.append(said_value(row, reference))
    words.append(count(int(row["replicates"]), "replicate"))
    return {"panel": panel, "at": [_number(row["at"]), *_ends(row, view.y)], "said": words}


def _references(parts: Sequence[pd.DataFrame], view: View) -> list[Chart]:
    """The comparison with the learner without privacy: a list with at most one entry, for `levels` of `sweep_chart`.
    If all points of a panel have the same value without privacy, the panel has a horizontal line with an interval.
    Other panels have lines with intervals. A panel has no line if the value was not measured at every point.
    """
    pieces: list[Chart] = []
    for panel, part in enumerate(parts):
        if (reference := reference_of(part, view)) is None:
            continue
        column = reference.column
        if reference.level is not None:
            pieces.append({"panel": panel, "points": [[None, *_ends(reference.level, column)]]})
        for line in reference.lines:
            cells = line.points[["at", column, column + LOW, column + HIGH]].to_numpy(dtype=float)
            pieces.append({"panel": panel, "points": [[_number(cell) for cell in cells_of] for cells_of in cells]})
    return [{"label": reference_text(view.y), "dash": "6 4", "pieces": pieces}] if pieces else []


def _baselines(parts: Sequence[pd.DataFrame], view: View) -> list[Chart]:
    """The comparison with a prediction without features, such as the majority class: a list with one entry for the
    chart's levels, or none. A panel has no line if the prediction's value is unknown.
    """
    pieces: list[Chart] = []
    for panel, part in enumerate(parts):
        if (baseline := baseline_of(part, view)) is not None:
            # one number for the whole panel, or the mean at each x
            line = [(None, baseline)] if isinstance(baseline, float) else baseline.items()
            pieces.append({"panel": panel, "points": [[_number(x), _number(y), None, None] for x, y in line]})
    return [{"label": baseline_text(view.y), "dash": "2 3", "pieces": pieces}] if pieces else []


def _number(number: Any) -> float | None:
    """A number with eight significant digits; None for infinity and NaN, which JSON lacks."""
    return None if number is None or not math.isfinite(number) else float(f"{float(number):.8g}")


ROUND = "stroke-linejoin:round;stroke-linecap:butt"
"""The style of all elements of a figure, in place of Matplotlib's style sheet, which would apply to the whole page."""

LARGEST = 1.15 * 96 / 72
"""The largest number of pixels for a typographic point. Letters are then no larger than the page's letters."""


def drawn(plot: Callable[[Path], object]) -> str:
    """The text of an SVG file that a function draws. Letters in the file are text, not shapes.

    Args:
        plot: draws a figure into a file; it gets the file's path, which ends in .svg.

    Raises:
        ValueError: the figure cannot be drawn.
    """
    settings: Any = {"svg.fonttype": "none"}
    with TemporaryDirectory() as folder, rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # about scripts that the font lacks
        path = Path(folder) / "figure.svg"
        plot(path)
        return path.read_text(encoding="utf-8")


def embedded(text: str, prefix: str, alt: str) -> str:
    """An SVG file's text as an <svg> element. The element scales with the page, and has an alternative text and no
    namespaces.

    Args:
        text: the text of the file.
        prefix: text to put before each identifier; it is unique in the page.
        alt: what the figure shows, in words.
    """
    # remove namespaces, metadata and Matplotlib's style sheet; this sheet would apply to the whole page
    root = ElementTree.fromstring(text)
    for element in root.iter():
        element.tag = _local(element.tag)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in ("metadata", "style"):
                parent.remove(child)
        # put the prefix before each identifier
        for key, value in parent.attrib.copy().items():
            name, marks = _local(key), {"id": "^", "href": "^#"}
            del parent.attrib[key]
            parent.attrib[name] = re.sub(marks.get(name, r"url\(#"), lambda mark: mark[0] + prefix, value)
    box = root.get("viewBox", "0 0 100 100")
    widest = round(float(box.split()[2]) * LARGEST)
    root.attrib = {"viewBox": box, "role": "img", "aria-label": alt, "style": f"{ROUND};max-width:{widest}px"}
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    return name.rsplit("}", 1)[-1]
