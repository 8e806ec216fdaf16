"""Figures of a sweep: lines with intervals, and formulas from theory that are fitted to the points."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox, BboxBase

from p2p_sim.figures.column_labels import long, pairs, short, value
from p2p_sim.figures.point_series import (
    BASELINES,
    REFERENCES,
    Series,
    View,
    apart,
    baseline_of,
    baseline_text,
    caption,
    drawable,
    facets_of,
    reference_of,
    reference_text,
    series,
    wants_log,
)
from p2p_sim.figures.style import COLOURS, GREY, MARKERS, drawing, inches, legend_below, plain_log_ticks
from p2p_sim.measures import HIGH, LOW, Estimate, Fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = ("-", "--", ":")
MOST_SERIES = len(COLOURS) * len(STYLES)
MOST_FACETS = 12
SIDES = ((5, 4, "left", "bottom"), (5, -4, "left", "top"), (-5, 4, "right", "bottom"), (-5, -4, "right", "top"))
"""Possible places for the text at a mark. The first two numbers are the distances from the mark to the right and up, in
points. Then comes the corner of the text that lies at this place."""


def plot_lines(table: pd.DataFrame, view: View, title: str, note: str, path: Path) -> None:
    """Draw one column of a table of points against another as lines with 95% intervals, in one or several panels.

    The caption counts the points that are not drawn because x or y is not finite. If y is a measure of quality, such as
    accuracy, the same learner without privacy is drawn in grey.

    Args:
        table: one row for each combination of the swept values, with means over replicates. The columns that end in
        "_low" and "_high" have the ends of the 95% intervals. view: the columns along x and y. The values of `group`
        make lines; the values of `facet` make panels. If there is a single panel, the values of the swept key `along`
        are written beside the marks. title: above the panels. note: text for the caption with the parameters that are
        held fixed. path: the figure's file.
    """
    drawn, names = drawable(table, view)
    panels = facets_of(table, drawn, view)
    # a row has at most three panels; four panels are two by two
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    width, height = (7.2, 4.8) if len(panels) == 1 else (max(7.2, 3.6 * columns), 3.0 * rows + 1.6)
    with drawing(path, width, height, panels=len(panels), columns=columns, title=title, shared=True) as (figure, grid):
        for axes, (heading, part) in zip(grid, panels, strict=True):
            _draw_panel(axes, part, drawn, view, names=names)
            if heading:
                axes.set_title(heading)
        scale(grid[0], drawn, view, names)
        note += _label_axes(figure, grid, table, drawn, view, columns=columns)
        named = view.along is not None and len(panels) == 1
        finish(figure, grid, caption(table, drawn, view, note) + (_marks(view) if named else ""))
        if named:
            _name_marks(grid[0], drawn, view)


def _label_axes(
    figure: "Figure", grid: Sequence[Axes], table: pd.DataFrame, drawn: pd.DataFrame, view: View, *, columns: int
) -> str:
    """Label x below the lowest panels, and y once. Return a text for the caption: the long name of x if the panels get
    the short name, else an empty text. Several panels get the short name if the long name has more than 40 characters.

    Args:
        figure, grid: the figure and its panels' axes. table: all points. drawn: the points that can be drawn. view: the
        figure's columns x and y, and whether their axes are logarithmic. columns: number of panels in a row.
    """
    width, height = figure.get_size_inches()
    x_text, y_text, note = long(view.x, table), long(view.y, table) + _scale_text(drawn, view.y, view.log_y), ""
    if len(grid) > 1 and len(x_text) > 40:  # a panel has no room for the long name; the caption has room
        x_text, note = short(view.x), f"; along x: {x_text}"
    for axes in grid[-columns:]:
        axes.set_xlabel(wrapped(x_text + _scale_text(drawn, view.x, view.log_x), width / columns))
        axes.tick_params(labelbottom=True)
    if len(grid) > 1:
        figure.supylabel(wrapped(y_text, height), fontsize=10)
    else:
        grid[0].set_ylabel(wrapped(y_text, 0.75 * height))
    return note


def _marks(view: View) -> str:
    """The end of a caption, which names the swept key whose values are written beside the marks (`view.along`). Without
    such a key, the end is empty.
    """
    return f"; numbers at the marks: {short(view.along)}" if view.along else ""


def draw_lines(axes: Axes, table: pd.DataFrame, view: View, held: str = "") -> str:
    """Draw a column of a table against another on given axes, as lines with 95% intervals, and label both axes. A
    column of the view that makes panels is ignored.

    Args:
        axes: to draw on. table: one row for each point, with means and the ends of their intervals. view: the columns
        along x and y. The values of `group` make lines. The values of the swept key `along`, if given, are written
        beside the marks. held: text for the caption with the parameters that all points share.

    Returns:
        The caption, which says what the intervals are and how many points could not be drawn. For an ε, it says that ε
        is the largest over replicates.
    """
    drawn, names = drawable(table, view)
    _draw_panel(axes, drawn, drawn, view, names=names)
    scale(axes, drawn, view, names)
    width, height = inches(axes)
    axes.set(
        xlabel=wrapped(long(view.x, table) + _scale_text(drawn, view.x, view.log_x), 1.15 * width),
        ylabel=wrapped(long(view.y, table) + _scale_text(drawn, view.y, view.log_y), height),
    )
    if view.along:
        _name_marks(axes, drawn, view)
    return caption(table, drawn, view, held) + _marks(view)


def draw_series(axes: Axes, line: Series, view: View, places: Sequence[str] | None) -> None:
    """Draw one line with its 95% intervals as a band. The intervals are error bars instead if x is a text, `view.along`
    is given, or there are fewer than three points.

    Args:
        axes: to draw on. line: its points are one row each, with the coordinate along x in the column "at". view: the
        figure's columns, of which only y and along matter. places: the texts along x; None: x is a number.
    """
    colour, marker = COLOURS[line.index % len(COLOURS)], MARKERS[line.index % len(MARKERS)]
    style = STYLES[line.index // len(COLOURS) % len(STYLES)]
    part = line.points
    # the points that have an interval
    bounded = part[np.isfinite(part[view.y + LOW])] if view.y + LOW in part else part.iloc[:0]
    bars = places is not None or view.along is not None or len(part) < 3
    if len(bounded) and bars:
        ends = [bounded[view.y] - bounded[view.y + LOW], bounded[view.y + HIGH] - bounded[view.y]]
        axes.errorbar(bounded["at"], bounded[view.y], yerr=ends, fmt="none", ecolor=colour, elinewidth=1.0, capsize=3)
    elif len(bounded):
        low, high = bounded[view.y + LOW], bounded[view.y + HIGH]
        axes.fill_between(bounded["at"], low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(
        part["at"], part[view.y], color=colour, linestyle="none" if places is not None else style, marker=marker,
        markersize=max(4.5, 7.5 - line.index), markeredgecolor="white", markeredgewidth=0.6, linewidth=1.4,
        label=line.label or None, zorder=3,
    )  # fmt: skip


def draw_reference(axes: Axes, part: pd.DataFrame, view: View) -> None:
    """Draw, in grey, the value that the same learner reaches without privacy. Nothing is drawn unless the value was
    measured at all points of the panel. Equal values are one dashed level, with the 95% interval as a band. Different
    values are one or several dashed lines with bands.

    Args:
        axes: to draw on. part: points of the panel, one row each, with their coordinate along x in the column "at".
        view: the figure's columns, of which only y, group and along matter.
    """
    reference = reference_of(part, view)
    if reference is None:
        return
    column, text = reference.column, reference_text(view.y)
    if reference.level is not None:
        level, low, high = (reference.level[column + end] for end in ("", LOW, HIGH))
        if np.isfinite(low):
            axes.axhspan(low, high, color=GREY, alpha=0.2, linewidth=0)
        axes.axhline(level, color=GREY, linestyle="--", linewidth=1.2, label=text)
    # with more lines, the bands are lighter; the legend has one entry for all lines
    for number, line in enumerate(reference.lines):
        points, alpha = line.points, 0.2 / len(reference.lines)
        axes.fill_between(
            points["at"], points[column + LOW], points[column + HIGH], color=GREY, alpha=alpha, linewidth=0
        )
        axes.plot(
            points["at"], points[column], color=GREY, linestyle="--", linewidth=1.2,
            marker=MARKERS[line.index % len(MARKERS)] if len(reference.lines) > 1 else None,
            markerfacecolor="white", markersize=4, label=None if number else text,
        )  # fmt: skip


def _draw_panel(
    axes: Axes, part: pd.DataFrame, drawn: pd.DataFrame, view: View, *, names: Sequence[str] | None
) -> None:
    """Draw the lines of one panel. Two comparisons are drawn, too: the same learner without privacy, and a prediction
    without features, such as the majority class.

    Args:
        axes: to draw on. part: points of the panel, one row each. drawn: points of all panels. view: the figure's
        columns. names: the texts along x; None: x is a number.
    """
    draw_reference(axes, part, view)
    # a thin line shows the value of a prediction without features: one level, or the mean of the points at each x
    baseline, text = baseline_of(part, view), baseline_text(view.y)
    if isinstance(baseline, float):
        axes.axhline(baseline, color=GREY, linestyle=":", linewidth=1.0, label=text)
    elif baseline is not None:
        axes.plot(baseline.index, baseline.to_numpy(), color=GREY, linestyle=":", linewidth=1.0, label=text)
    for line in apart(series(part, view.group, drawn), names):
        draw_series(axes, line, view, names)


def scale(axes: Axes, drawn: pd.DataFrame, view: View, places: Sequence[str] | None) -> None:
    """Set scales, limits and ticks of the axes to fit the points `drawn`.

    Args:
        axes: to set. drawn: one row for each point, with its coordinate along x in the column "at". view: only y, log_x
        and log_y matter (whether an axis is logarithmic; None: the values decide). places: the texts along x; None: x
        is a number.
    """
    if places is not None:
        axes.set_xticks(
            range(len(places)),
            [textwrap.fill(name, max(8, 66 // len(places)), break_long_words=False) for name in places],
            parse_math=False,
        )
        axes.set_xlim(-0.5, len(places) - 0.5)
    elif wants_log(drawn["at"], view.log_x):
        axes.set_xscale("log")
        positive = drawn["at"][drawn["at"] > 0]
        plain_log_ticks(axes.xaxis, positive.min(), positive.max(), inches(axes)[0])
        if positive.min() == positive.max():
            axes.set_xlim(positive.min() / 3.0, positive.min() * 3.0)
    if wants_log(drawn[view.y], view.log_y):
        axes.set_yscale("log", nonpositive="clip")
        columns = (view.y, view.y + LOW, view.y + HIGH, REFERENCES.get(view.y), BASELINES.get(view.y))
        heights = drawn[[column for column in columns if column in drawn]].to_numpy(dtype=float)
        heights = heights[np.isfinite(heights) & (heights > 0)]
        # an interval that reaches (almost) to 0 must not stretch the axis over empty decades
        low = max(float(heights.min()), float(drawn[view.y][drawn[view.y] > 0].min()) / 10.0)
        axes.set_ylim(low / 1.15, float(heights.max()) * 1.15)
        plain_log_ticks(axes.yaxis, low, float(heights.max()))
    elif not len(drawn):
        axes.text(0.5, 0.5, "no point has finite values here", transform=axes.transAxes, ha="center", color=GREY)


def _name_marks(axes: Axes, drawn: pd.DataFrame, view: View) -> None:
    """Write the value of the swept key `view.along` beside each mark of the lines. The first mark of a line also gets
    the key's symbol, such as "α = 0.1".

    A text is left out if it would cover a mark or another text, or would leave the panel. The ends of the lines get
    their texts first. A line with more than 12 points has texts only at its ends. Call this function last, because the
    final layout decides which texts fit.

    Args:
        axes: with the lines. drawn: the points of the lines, one row each. view: the figure's columns.
    """
    figure, lines = cast("Figure", axes.get_figure(root=True)), series(drawn, view.group)
    figure.draw_without_rendering()
    reach, panel = 3.5 * figure.dpi / 72.0, axes.get_window_extent()  # half the width of a mark: 3.5 points
    covered = [
        Bbox.from_bounds(x - reach, y - reach, 2 * reach, 2 * reach)
        for x, y in axes.transData.transform(drawn[["at", view.y]].to_numpy(float))
    ]
    ends = [(line, at) for line in lines if len(line.points) for at in dict.fromkeys((0, len(line.points) - 1))]
    inner = [(line, at) for line in lines if len(line.points) <= 12 for at in range(1, len(line.points) - 1)]
    for line, at in (*ends, *inner):
        if (box := _name_mark(axes, line, at, view, covered=covered, panel=panel)) is not None:
            covered.append(box)


def _name_mark(
    axes: Axes, line: Series, at: int, view: View, *, covered: Sequence[Bbox], panel: BboxBase
) -> Bbox | None:
    """Write the value of the swept key `view.along` beside one mark of a line, on the first side that is free. Return
    the box around this text, or None if no side is free.

    Args:
        axes: to write on. line: the line with its points. at: index of the mark's point in the line, from 0. view: the
        figure's columns. covered: boxes that the text must not overlap. panel: the box in which the text must stay.
    """
    x, y, along = (line.points[column].iloc[at] for column in ("at", view.y, view.along))
    text = value(along) if at else pairs([str(view.along)], [along])
    for right, above, across, upright in SIDES:
        name = axes.annotate(
            text, (x, y), xytext=(right, above), textcoords="offset points",
            ha=across, va=upright, fontsize=7.5, color=COLOURS[line.index % len(COLOURS)],
            bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.4},
        )  # fmt: skip
        name.set_in_layout(False)
        box = name.get_window_extent()
        if panel.count_contains(box.corners()) == 4 and not box.count_overlaps(covered):
            return box
        name.remove()
    return None


def _scale_text(drawn: pd.DataFrame, column: str, chosen: bool | None) -> str:
    """The end of an axis label: ", log scale" if the axis is logarithmic, else empty.

    Args:
        drawn: the points that can be drawn. column: the column along the axis. chosen: whether the axis is logarithmic;
        None: it is logarithmic if all values lie above 0 and spread over more than a decade.
    """
    return ", log scale" if wants_log(drawn[column], chosen) else ""


def wrapped(text: str, inches: float) -> str:
    """An axis label, broken into lines that fit into an axis of the given length in inches."""
    return textwrap.fill(text, int(11 * inches))


def finish(figure: "Figure", grid: Sequence[Axes], note: str) -> None:
    """Draw one legend below all panels, in as many columns as fit, with the caption `note` as its title."""
    labels = {label for axes in grid for label in axes.get_legend_handles_labels()[1]}
    longest = max(map(len, labels), default=0)
    columns = 1 if longest > 45 else 2 if longest > 22 or len(labels) < 5 else 4
    legend_below(figure, grid, note, columns, 8.5)


FLOOR = "excess_risk_floor"
LINES = ((0, (4, 2)), (0, (1, 1.5)))
"""Line styles: dashes for the first fitted form, dots for the second."""


def plot_fit(
    table: pd.DataFrame,
    view: View,
    slopes: Mapping[str, Estimate],
    fits: Sequence[Fit],
    *,
    title: str,
    note: str,
    path: Path,
) -> None:
    """Draw excess risk against x with intervals, and formulas fitted to the points. The same learner without privacy is
    drawn, too, and the floor. The floor is the excess risk that would remain with infinitely many exchanged labels.

    Args:
        table: one row for each point. view: the columns. y is the excess risk, x is a number, and no column makes
        panels. slopes: for the label of each line ("" if there is a single line), the estimated slope of ln y against
        ln x. fits: at most two fitted formulas, each with its value at every row of the table. A formula is a sum of
        terms from theory, with fitted constants. The terms depend on the flip probability α, the number of labels, and
        the heterogeneity φ. φ measures how far users' label distributions lie from the cluster's. title: above the
        axes. note: text for the caption with the parameters that are held fixed. path: the figure's file.
    """
    # as columns of the table, the fitted values stay with their points
    for fit in fits:
        table = table.assign(**{fit.name: fit.fitted})
    drawn, _ = drawable(table, view)
    lines = series(drawn, view.group)
    with drawing(path, 7.2, 5.4 + 0.19 * len(lines), title=title) as (figure, [axes]):
        draw_reference(axes, drawn, view)
        _draw_floor(axes, drawn)
        for line in lines:
            slope = f": log-log slope {slopes[line.label]}" if line.label in slopes else ""
            draw_series(axes, replace(line, label=(line.label or "measured") + slope), view, None)
        for line, (fit, dashes) in product(lines, zip(fits, LINES, strict=False)):
            points = line.points.sort_values("at")
            axes.plot(
                points["at"], points[fit.name], label=f"{fit.name}, fitted:\n{fit}" if line is lines[0] else None,
                color="black" if len(lines) == 1 else COLOURS[line.index % len(COLOURS)], linestyle=dashes,
                linewidth=1.5, zorder=2,
            )  # fmt: skip
        scale(axes, drawn, view, None)
        axes.set(
            xlabel=wrapped(long(view.x, table) + _scale_text(drawn, "at", view.log_x), 7.2),
            ylabel=wrapped(long(view.y, table) + _scale_text(drawn, view.y, view.log_y), 4.8),
        )
        finish(figure, [axes], caption(table, drawn, view, note))


def _draw_floor(axes: Axes, drawn: pd.DataFrame) -> None:
    """Draw a line at the exact excess risk that would remain with infinitely many exchanged labels (the column
    excess_risk_floor). Nothing is drawn if a point lacks a finite value above 0, or if points with the same x have
    different values.

    Args:
        axes: to draw on. drawn: one row for each point, with its coordinate along x in the column "at".
    """
    floor = drawn[FLOOR].astype(float) if FLOOR in drawn else pd.Series([np.nan])
    if not (np.isfinite(floor) & (floor > 0)).all():
        return
    line = drawn.drop_duplicates(["at", FLOOR]).sort_values("at")
    if line["at"].is_unique:
        axes.plot(
            line["at"], line[FLOOR].astype(float), color=COLOURS[2], linestyle="-.", linewidth=1.6, zorder=2,
            label="exact floor: infinitely many exchanged labels",
        )  # fmt: skip
