"""The page "What is it worth?", which shows columns of results directories as lines of points or as colours."""

import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from p2p_sim.base import InputError, set_key, without_formulas
from p2p_sim.explorer.directories import ReadableDirectory
from p2p_sim.explorer.page_results import RESULTS, Reading, gathered, shown_cell
from p2p_sim.figures import (
    MOST_FACETS,
    MOST_SERIES,
    View,
    caption,
    drawable,
    is_number,
    long,
    pairs,
    plot_lines,
    reference_of,
    reference_text,
    replicates_text,
    series,
    short,
    value,
    wants_log,
)
from p2p_sim.measures import HIGH, LOW, POINT, is_privacy, points, quality
from p2p_sim.report import scenario_in_order, toml
from p2p_sim.results import Chosen, FigureRequest, check_heat, draw, filled, read_manifest, titles, view_of

FORMATS = {"png": "image/png", "svg": "image/svg+xml", "csv": "text/csv"}
SHOWN = (
    "accuracy",
    "error_rate",
    "excess_risk",
    "epsilon_upper",
    "delta",
    "observer",
    "trust",
    "adjacency",
    "replicates",
)
"""Columns of a point that are shown after its swept keys, in this order."""
MOST_POINTS, MOST_CELLS = 5_000, 2_000
"""Largest number of points, and largest number of coloured cells, that are shown at a time."""


class Worth:
    """The chosen columns of some results directories, for the page. A point is a combination of swept values, with
    means over its replicates.

    Args:
        directories: the directories with the results. chosen: the values of the page's fields, by name. The fields x,
        y, group, facet and heat hold a column or are empty. log_x and log_y are "yes", "no" or empty. only.KEY limits
        the points to one value of the swept key KEY. read_at: reads a directory.

    Raises:
        InputError: a directory cannot be read, or there are no points or too many.
    """

    def __init__(self, directories: Sequence[ReadableDirectory], chosen: Mapping[str, str], read_at: Reading) -> None:
        # the page offers the values of all points; they are listed before rows are limited to the chosen values
        whole = gathered(directories, read_at)
        keys = [key for key in whole.keys if whole.rows[key].nunique() > 1]
        self.axes = [{"key": key, "label": short(key), "values": _values(whole.rows[key])} for key in keys]
        rows = whole.rows
        for key in keys:
            if wanted := chosen.get(f"only.{key}"):
                rows = rows[rows[key].map(_text) == wanted]
        if rows.empty:
            raise InputError("results: no point has all of these values")
        self.directories, self.results = tuple(directories), replace(whole, rows=rows)
        self.table = points(rows, whole.keys)
        if len(self.table) > MOST_POINTS:
            raise InputError(f"results: {len(self.table):,} points, at most {MOST_POINTS:,} are shown")
        self._logs = [{"yes": True, "no": False}.get(chosen.get(name, "")) for name in ("log_x", "log_y")]
        x, y, group, facet, heat = (chosen.get(name) or None for name in ("x", "y", "group", "facet", "heat"))
        self._request = FigureRequest(x, y, group, facet, heat)

    @cached_property
    def view(self) -> View:
        """The columns that are shown as lines.

        Raises:
            InputError: a column is not there or not fit for its use, or there are too many lines.
        """
        return self._view_of(self._request)

    def _view_of(self, request: FigureRequest) -> View:
        """The columns that a figure of lines shows. `x` and `y` lie along the axes. Each combination of values of
        `group` makes a line; each value of `facet` makes a panel.

        For an empty axis field, `view_of` chooses the column. If the field for lines is empty and `view_of` finds no
        column for lines, the first swept key of texts with 2 to 21 values is chosen. So no line joins points with
        different values of this key, such as two mechanisms.

        Args:
            request: the columns that the page's fields x, y, group and facet name; None for an empty field.
        """
        view = view_of(request, self.results, self.table)
        if not view.group and request.group is None:
            # each value of a key of texts, such as the mechanism, has a line: no line joins points of two values
            named = [k for k in self.results.keys if k not in (view.x, view.facet) and not is_number(self.table[k])]
            view = replace(view, group=tuple(k for k in named if 1 < self.table[k].nunique() <= MOST_SERIES)[:1])
        return replace(view, log_x=self._logs[0], log_y=self._logs[1])

    def offered(self) -> dict[str, Any]:
        """The choices that the page offers. "numbers" are columns for y, "columns" for x, "groups" for lines, and
        "facets" for panels. Each column comes with a short name. "axes" lists the swept keys. An entry has the "key",
        its short name "label", and the "values" to which points may be limited.
        """
        table = self.table
        names = [str(name) for name in table if name != POINT and not str(name).endswith((LOW, HIGH))]
        numbers = [name for name in names if is_number(table[name]) and table[name].notna().any()]
        groups = [name for name in names if 1 < table[name].nunique() <= MOST_SERIES]
        return {
            "numbers": _with_labels(numbers),
            "columns": _with_labels([name for name in names if name in numbers or name in groups]),
            "groups": _with_labels(groups),
            "facets": _with_labels([name for name in groups if table[name].nunique() <= MOST_FACETS]),
            "axes": self.axes,
        }

    def chart(self) -> dict[str, Any]:
        """The chart as data for the browser: lines of points in panels, or coloured cells if the field heat is filled.

        The data are texts (title and caption), the axes "x" and "y", the headings of "panels", the "lines" and
        "levels". "levels" has a horizontal line for the learner without privacy, if its value is equal at all points.

        Raises:
            InputError: a column is not there or not fit for its use, or there are too many lines or cells.
        """
        if self._request.heat:
            return self._colours()
        # drawn: points with finite x and y; places: the names along the x axis, if x is no number
        view, table = self.view, self.table
        drawn, places = drawable(table, view)
        lines = [
            {"label": line.label, "place": line.index, "points": self._points(line.points)}
            for line in series(drawn, view.group)
        ]
        title, note = titles(self.results, table, f"{short(view.y)} against {short(view.x)}")
        logs = wants_log(drawn["at"], view.log_x), wants_log(drawn[view.y], view.log_y)
        return {
            "title": title,
            "x": {**self._axis(view.x, log=logs[0]), "names": places},
            "y": self._axis(view.y, log=logs[1]),
            "group": list(view.group),
            "panels": [f"{short(view.facet)} = {value(facet)}" for facet in self._facets] if view.facet else [""],
            "lines": lines,
            "joined": view.along != RESULTS,
            "levels": self._levels(drawn),
            "caption": caption(table, drawn, view, note),
        }

    @cached_property
    def _facets(self) -> list[Any]:
        """The values of the column that makes panels, in the order of the points; empty if there is one panel."""
        return list(self.table[self.view.facet].unique()) if self.view.facet else []

    def _colours(self) -> dict[str, Any]:
        """The chart as data for the browser if one column is shown as colours over two others. The axes "x" and "y"
        have the names of their values. "heat" has the coloured column with its label and "cells". Each cell has its
        positions along x and y, the value, and texts. The parts that only charts of lines need are empty.

        Raises:
            InputError: a column is not there or not fit for its use, or a pair of values has several points.
        """
        table = self.table
        full = self._heat(self._request)
        heat = str(full.heat)
        columns, rows = list(table[full.x].unique()), list(table[full.y].unique())
        if len(columns) * len(rows) > MOST_CELLS:
            raise InputError(f"heat: {len(columns)} by {len(rows)} cells, at most {MOST_CELLS:,} are shown")
        # a cell for each point with a finite value; the browser picks the colour
        cells = [
            {
                "x": columns.index(row[full.x]), "y": rows.index(row[full.y]), "value": float(row[heat]),
                "text": shown_cell(heat, row[heat]), "key": str(row[POINT]), "said": self._point_text(row),
            }
            for _, row in table.iterrows() if np.isfinite(row[heat])
        ]  # fmt: skip
        title, note = titles(self.results, table, f"{short(heat)} over {short(full.x)} and {short(full.y)}")
        worst = "ε is the worst over replicates" if is_privacy(heat) else ""
        return {
            "title": title,
            "x": {**self._axis(full.x), "names": list(map(value, columns))},
            "y": {**self._axis(full.y), "names": list(map(value, rows))},
            "group": [], "panels": [""], "lines": [], "levels": [],
            "caption": "; ".join(filter(None, [note, replicates_text(table), worst])),
            "heat": {"column": heat, "label": long(heat, table), "log": wants_log(table[heat], None), "cells": cells},
        }  # fmt: skip

    def _axis(self, column: str, log: bool = False) -> dict[str, Any]:
        """An axis as data for the browser: the "column", a short "name" and a long "label". "log" means a logarithmic
        axis.
        """
        return {"column": column, "name": short(column), "label": long(column, self.table), "log": log}

    def _heat(self, request: FigureRequest) -> Chosen:
        """The columns of a heat map, which shows one column as colours over two others. An axis that the request leaves
        open gets the first swept key that is still free. The request's columns for lines and panels are dropped.

        Args:
            request: the columns that the page's fields name; None for an empty field.

        Raises:
            InputError: a column is not there or not fit for its use, or a pair of values has several points.
        """
        full = filled(replace(request, group=None, facet=None), self.results, self.table)
        check_heat(full, self.results, self.table)
        return full

    def suggested(self) -> list[dict[str, str]]:
        """Other choices of columns, for the case that the present choice has too many lines. Each choice can show all
        points and becomes a button. A choice has the button's "text" and new values of the page's fields: "facet" and
        "group", or "heat", "x" and "y". The present choice is not checked. The list is empty if no other choice works.
        """
        choices, request = [], replace(self._request, heat=None)
        for key in self.results.keys:
            choice = replace(request, facet=key, x=None if request.x == key else request.x, group=None)
            try:
                self._view_of(choice)
            except InputError:
                continue
            choices.append({"text": f"A panel for each {short(key)}", "facet": key, "group": ""})
        figure = request.y or quality(self.table)
        try:
            full = self._heat(FigureRequest(heat=figure))
        except InputError:
            return choices
        text = f"Colours for {short(figure)} over {short(full.x)} and {short(full.y)}"
        return [*choices, {"text": text, "heat": figure, "x": full.x, "y": full.y}]

    def _points(self, part: pd.DataFrame) -> list[dict[str, Any]]:
        """The points of one line as data for the browser, in their order. A point has the number of its "panel", the
        coordinates "x" and "y", and the 95% interval from "low" to "high" (None: no interval). A point also has its
        name "key", texts, the trusted party "trust", and the number of "replicates".

        part: the line's points, one row each.
        """
        view, drawn = self.view, []
        for _, row in part.iterrows():
            # an ε has no interval; the mean of a single replicate has no finite interval
            interval = [float(row.get(view.y + end, np.nan)) for end in (LOW, HIGH)]
            low, high = interval if np.isfinite(interval).all() else (None, None)
            drawn.append({
                "panel": self._facets.index(row[view.facet]) if view.facet else 0,
                "x": float(row["at"]), "y": float(row[view.y]), "low": low, "high": high,
                "key": str(row[POINT]), "said": self._point_text(row),
                "x_text": shown_cell(view.x, row[view.x]), "y_text": shown_cell(view.y, row[view.y]),
                "trust": str(row["trust"]) if isinstance(row.get("trust"), str) else "",
                "replicates": int(row["replicates"]),
            })  # fmt: skip
        return drawn

    @property
    def _measured(self) -> tuple[str, ...]:
        """The columns whose values a point's text states: x and y or, in a heat map, the coloured column."""
        return (self._request.heat,) if self._request.heat else (self.view.x, self.view.y)

    def _point_text(self, row: pd.Series) -> str:
        """A point in words: the values of the varying swept keys, and of the columns that the chart shows."""
        keys = [key for key in self.results.keys if self.table[key].nunique() > 1]
        rest = dict.fromkeys(name for name in self._measured if name not in keys)
        measured = [f"{short(name)} = {shown_cell(name, row[name])}" for name in rest]
        return ", ".join([*([pairs(keys, [row[name] for name in keys])] if keys else []), *measured])

    def _levels(self, drawn: pd.DataFrame) -> list[dict[str, Any]]:
        """The horizontal line of the same learner without privacy, as data for the browser. The entry has the learner's
        mean of the figure's y, the 95% interval if known, and the line's text and dashes. The list is empty if this
        learner was not measured at every point, or if its values at the points differ.

        Args:
            drawn: the points of the figure, one row each.
        """
        reference = reference_of(drawn, self.view)
        if reference is None or reference.level is None:
            return []
        mean, low, high = (float(reference.level[reference.column + end]) for end in ("", LOW, HIGH))
        level = [None, mean, *((low, high) if np.isfinite(low) else (None, None))]
        return [{"label": reference_text(self.view.y), "dash": "7 5", "pieces": [{"points": [level]}]}]

    def point(self, key: str) -> dict[str, Any]:
        """A point as data for the browser. "name" describes the point; "lines" are its values as pairs of texts;
        "scenario" is its scenario as TOML. key: the point's name.

        Raises:
            InputError: there is no such point.
        """
        matches = self.table[self.table[POINT].astype(str) == key]
        if matches.empty:
            raise InputError("point: there is no such point in these results")
        row = matches.iloc[0]
        swept = [key for key in self.results.keys if key in row]
        rest = [name for name in (*SHOWN, *self._measured) if name in row and name not in swept]
        columns = [name for name in dict.fromkeys([*swept, *rest]) if pd.notna(row[name])]
        lines = []
        for name in columns:
            text = shown_cell(name, row[name])
            if name + LOW in row and np.isfinite(row[name + LOW]):
                text += f" (95% interval {value(float(row[name + LOW]))} to {value(float(row[name + HIGH]))})"
            lines.append((short(name), text))
        # with several directories, the point's name begins with the key of its directory
        directory = next((each for each in self.directories if key.startswith(each.key + ":")), self.directories[0])
        return {
            "name": self._point_text(row),
            "lines": lines,
            "scenario": scenario_of(directory, row),
        }

    def written(self, format_: str) -> bytes:
        """The content of a file to download. "png" and "svg" are the figure that `p2p-sim plot` draws; "csv" is the
        table of points. Another format raises InputError.
        """
        if format_ == "csv":
            text = io.StringIO()
            without_formulas(self.table).to_csv(text, index=False, float_format="%.17g")
            return text.getvalue().encode()
        if format_ not in FORMATS:
            raise InputError(f"format {format_[:20]}: must be {', '.join(FORMATS)}")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"figure.{format_}"
            if self._request.heat:
                draw(self._request, self.results, self.table, path)
            else:
                title, note = titles(self.results, self.table, f"{short(self.view.y)} against {short(self.view.x)}")
                plot_lines(self.table, self.view, title, note, path)
            return path.read_bytes()


def scenario_of(directory: ReadableDirectory, row: pd.Series) -> str:
    """The text of a point's scenario file: the directory's base scenario with the row's values of swept keys."""
    manifest = read_manifest(directory.path)
    tree = json.loads(json.dumps(manifest["scenario"]))
    for axis in manifest.get("axes") or []:
        for index, step in enumerate(axis["values"]):
            labels = axis.get("labels")
            texts = [labels[index]] * len(step) if labels else [_text(part) for part in step]
            if texts == [_text(row[key]) for key in axis["keys"]]:
                for key, part in zip(axis["keys"], step, strict=True):
                    set_key(tree, key, part)
                break
    return toml(scenario_in_order(tree))


def _with_labels(columns: Sequence[str]) -> dict[str, str]:
    """The columns, each with the short name by which people choose it."""
    return {name: short(name) for name in columns}


def _values(column: pd.Series) -> list[dict[str, str]]:
    """The different values in a column, in the order of first occurrence, without missing ones. "value" is the form
    that the browser sends back; "text" is the form that people read.
    """
    return [{"value": _text(cell), "text": value(cell)} for cell in column.dropna().unique()]


def _text(cell: Any) -> str:
    """A value of a swept key as text. Equal numbers, such as 1, 1.0 and np.int64(1), give the same text."""
    plain = cell.item() if isinstance(cell, np.generic) else cell
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        return plain if isinstance(plain, str) else json.dumps(plain)
    return repr(float(plain))
