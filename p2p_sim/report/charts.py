"""Charts of a report: data of one that a reader can ask, and figures of Matplotlib as parts of a page."""

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
from matplotlib import rc_context

from p2p_sim.base.notebook_view import count
from p2p_sim.figures.column_labels import long, pairs, short, value
from p2p_sim.figures.point_series import (
    BASELINES,
    REFERENCES,
    View,
    apart,
    caption,
    drawable,
    is_number,
    reference_text,
    series,
    wants_log,
)
from p2p_sim.figures.privacy_utility import statements
from p2p_sim.measures.point_means import HIGH, LOW, is_privacy, points, quality
from p2p_sim.report.columns import LONGEST_CELL, plain, with_interval
from p2p_sim.report.privacy_statement import rounded_down, rounded_up

MOST_POINTS = 2000
"""A figure of more points stays a picture."""
Chart = dict[str, Any]


def sweep_chart(table: pd.DataFrame, view: View, keys: Sequence[str], note: str) -> Chart | None:
    """What `p2p_sim.figures.sweep_lines.plot_lines` draws, as values that JSON can hold; None if nothing is finite.

    x, y: labels of the axes. logs: whether x and y are logarithmic. places: names of x's values if they are text.
    panels: their names, one empty name if there is one panel. groups: lines with label, look (the place of their colour
    and marker) and points: panel, x, y, low, high, said. levels: comparisons with label, dash and pieces of lines.
    note: what is held fixed, and what intervals are.

    Args:
        table: one line a point, as `p2p_sim.measures.point_means.points` gives it.
        view: what is shown.
        keys: the swept keys, which a point's words name.
        note: what is held fixed.
    """
    shown, places = drawable(table, view)
    if shown.empty or len(shown) > MOST_POINTS:
        return None
    column = view.facet
    facets = list(table[column].unique()) if column else []
    parts = [shown[shown[column] == facet] for facet in facets] if column else [shown]
    varied = [key for key in dict.fromkeys([*view.group, *keys]) if table[key].nunique(dropna=False) > 1]
    lines: dict[int, Chart] = {}
    for panel, part in enumerate(parts):
        for line in apart(series(part, view.group, shown), places):
            label = plain(line.label or short(view.y))
            group = lines.setdefault(line.index, {"label": label, "look": line.index, "points": []})
            group["points"] += [_point(row, panel, view, varied) for row in line.points.to_dict("records")]
    return {
        "x": plain(long(view.x, shown), 200),
        "y": plain(long(view.y, shown), 200),
        "logs": [wants_log(shown["at"], view.log_x) and places is None, wants_log(shown[view.y], view.log_y)],
        "places": None if places is None else [plain(name, 40) for name in places],
        "joined": places is None,
        "panels": [plain(f"{short(column)} = {value(facet)}") for facet in facets] if column else [""],
        "groups": [lines[index] for index in sorted(lines)],
        "levels": [*_references(parts, view), *_baselines(parts, view)],
        "note": plain(caption(table, shown, view, note), 600),
    }


def run_chart(rows: pd.DataFrame) -> Chart | None:
    """What `p2p_sim.figures.privacy_utility.plot_privacy_utility` draws, as `sweep_chart` says it.

    Args:
        rows: one line a replicate of a single point.
    """
    point = points(rows).iloc[0].to_dict()
    y = quality(rows)
    found = statements(rows)
    if not found or not math.isfinite(point[y]):
        return None
    measured = [said_value(point, y), count(len(rows), "replicate")]
    ends = [_number(point[y + end]) for end in ("", LOW, HIGH)]
    levels = []
    for column, label, dash in ((REFERENCES[y], "without privacy", "6 4"), (BASELINES.get(y, ""), _constant(y), "2 3")):
        if column in point and isinstance(point[column], float) and math.isfinite(point[column]):
            band = [_number(point[column + end]) for end in ("", LOW, HIGH)]
            text = f"{label}: {with_interval(*(point[column + end] for end in ('', LOW, HIGH)))[0]}"
            levels.append({"label": text, "dash": dash, "pieces": [{"panel": 0, "points": [[None, *band]]}]})
    return {
        "x": f"ε at δ = {rows['delta'].iloc[0]:g}, learner's view",
        "y": plain("accuracy on the holdout" if y == "accuracy" else long(y, rows)),
        "logs": [True, False],
        "places": None,
        "joined": False,
        "panels": [""],
        "groups": [
            {
                "label": plain(text, 120),
                "look": look,
                "points": [
                    {
                        "panel": 0,
                        "at": [_number(epsilon), *ends],
                        "said": [f"{plain(text, 120)}: ε = {rounded_up(epsilon)}", *measured],
                    }
                ],
            }
            for look, (epsilon, text) in enumerate(found)
        ],
        "levels": levels,
        "note": "95% confidence intervals" if len(rows) > 1 else "no interval from a single replicate",
    }


def _constant(y: str) -> str:
    return "the best constant" if y in ("excess_risk", "squared_error") else "always saying the majority class"


def said_value(row: Mapping[Any, Any], column: str) -> str:
    """A column's name and value in words: an upper bound is never below its value, a mean has its interval.

    >>> said_value({"epsilon_upper": 0.74211}, "epsilon_upper"), said_value({"accuracy": 0.75}, "accuracy")
    ('ε at most 0.7422', 'accuracy 0.75')
    """
    found = row[column]
    if not isinstance(found, float | int) or isinstance(found, bool):
        return plain(pairs([column], [found]), LONGEST_CELL)
    if is_privacy(column) and column != "delta":
        if column == "epsilon_lower":
            return f"{short(column)} at least {rounded_down(float(found))}"
        claim = "" if "paper" in column else "at most "  # a paper's bound is the paper's word
        return f"{short(column)} {claim}{rounded_up(float(found))}"
    low, high = (float(row.get(column + end, math.nan)) for end in (LOW, HIGH))
    text, interval = with_interval(float(found), low, high)
    return f"{short(column)} {text} {interval}".strip()


def _point(row: Mapping[Any, Any], panel: int, view: View, varied: Sequence[str]) -> Chart:
    """One point: first what is set, then what came out."""
    said = [plain(pairs([key], [row[key]])) for key in varied]
    measured = [view.x] if view.x not in varied else []
    said += [said_value(row, column) for column in (*measured, view.y)]
    reference = REFERENCES.get(view.y)
    if reference is not None and reference in row and math.isfinite(row[reference]):
        said.append(said_value(row, reference))
    said.append(count(int(row["replicates"]), "replicate"))
    ends = [_number(row.get(view.y + end)) for end in (LOW, HIGH)]
    return {"panel": panel, "at": [_number(row["at"]), _number(row[view.y]), *ends], "said": said}


def _references(parts: Sequence[pd.DataFrame], view: View) -> list[Chart]:
    """The same learner without privacy: a level with its interval, or a line a group where groups differ."""
    column = REFERENCES.get(view.y)
    if column is None:
        return []
    pieces: list[Chart] = []
    for panel, part in enumerate(parts):
        if column not in part or part.empty or not np.isfinite(part[column]).all():
            continue
        if np.ptp(part[column]) <= 1e-9 * abs(part[column]).max():
            first = part.iloc[0]
            ends = [_number(first[column + end]) for end in ("", LOW, HIGH)]
            pieces.append({"panel": panel, "points": [[None, *ends]]})
            continue
        lines = [line.points for line in series(part, view.group)]
        one = part.drop_duplicates(["at", column])
        if view.along is None and len(one) == one["at"].nunique():
            lines = [one.sort_values("at")]
        for line in lines:
            cells = line[["at", column, column + LOW, column + HIGH]].to_numpy(dtype=float)
            pieces.append({"panel": panel, "points": [[_number(cell) for cell in cells_of] for cells_of in cells]})
    return [{"label": reference_text(view.y), "dash": "6 4", "pieces": pieces}] if pieces else []


def _baselines(parts: Sequence[pd.DataFrame], view: View) -> list[Chart]:
    """What is reached without features: a level, or the mean of the points at each place."""
    column = BASELINES.get(view.y)
    if column is None:
        return []
    pieces: list[Chart] = []
    for panel, part in enumerate(parts):
        if column not in part or part.empty or not is_number(part[column]) or not np.isfinite(part[column]).all():
            continue
        if np.ptp(part[column]) <= 0.02 * abs(part[column]).max():
            places = [[None, _number(part[column].mean()), None, None]]
        else:
            level = part.groupby("at")[column].mean()
            places = [[_number(x), _number(y), None, None] for x, y in level.items()]
        pieces.append({"panel": panel, "points": places})
    return [{"label": _constant(view.y), "dash": "2 3", "pieces": pieces}] if pieces else []


def _number(found: Any) -> float | None:
    """A number with eight digits, or None where JSON has none."""
    if found is None or not math.isfinite(found):
        return None
    return float(f"{float(found):.8g}")


ROUND = "stroke-linejoin:round;stroke-linecap:butt"
"""What Matplotlib says of all elements, in a style sheet that would reach the whole page."""

LARGEST = 1.15 * 96 / 72
"""Pixels a point at most, so that letters are no larger than the page's."""


def drawn(plot: Callable[[Path], object]) -> str:
    """The text of the SVG file that `plot` draws: letters stay letters.

    Args:
        plot: called with a path that ends in .svg.

    Raises:
        ValueError: it cannot be drawn.
    """
    settings: Any = {"svg.fonttype": "none"}
    with TemporaryDirectory() as place, rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # of a label in a script that the measuring font lacks
        path = Path(place) / "figure.svg"
        plot(path)
        return path.read_text(encoding="utf-8")


def embedded(text: str, prefix: str, alt: str) -> str:
    """An SVG file's text as an <svg> element: scales with the page, has an alternative text, no namespaces.

    Args:
        text: the file's.
        prefix: of the identifiers, unique in the page.
        alt: what the figure shows, in words.
    """
    root = ElementTree.fromstring(text)
    for element in root.iter():
        element.tag = _local(element.tag)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in ("metadata", "style"):
                parent.remove(child)
        parent.attrib = {_local(key): _prefixed(_local(key), value, prefix) for key, value in parent.attrib.items()}
    box = root.get("viewBox", "0 0 100 100")
    widest = round(float(box.split()[2]) * LARGEST)
    root.attrib = {"viewBox": box, "role": "img", "aria-label": alt, "style": f"{ROUND};max-width:{widest}px"}
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    return name.rsplit("}", 1)[-1]


def _prefixed(key: str, value: str, prefix: str) -> str:
    if key == "id":
        return prefix + value
    if key == "href" and value.startswith("#"):
        return f"#{prefix}{value[1:]}"
    return re.sub(r"url\(#", f"url(#{prefix}", value)
