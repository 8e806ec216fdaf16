"""Figures of published studies: panels over one legend, a colour and marker for each mechanism throughout."""

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes

from analysis.figures.curves import Curve, Panel
from analysis.figures.style import COLOURS, GREY, MARKERS, RC, new_figure, plain_log_ticks, save


def plot_study(panels: Sequence[Panel], path: Path, title: str, note: str, columns: int = 3) -> None:
    """Draw panels in rows; lines of the same label look the same in all of them.

    Args:
        panels: with 95% intervals in their curves' `low` and `high`.
        path: where the figure goes; its ending decides the format.
        title: heading. note: below the legend: replicates, intervals, what is held fixed.
        columns: panels in a row.
    """
    shared = [panel for panel in panels if not panel.apart]
    labels = list(dict.fromkeys(curve.label for panel in shared for curve in panel.curves))
    rows = math.ceil(len(panels) / columns)
    with rc_context(RC):
        figure = new_figure(3.9 * columns, 3.3 * rows + 1.3)
        note = textwrap.fill(note, int(15 * 3.9 * columns))
        grid = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
        for axes, panel in zip(grid, panels, strict=False):
            for place, curve in enumerate(panel.curves):
                index = place if panel.apart else labels.index(curve.label)
                draw_line(axes, curve, COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)])
            set_scales(axes, panel)
            if panel.apart:
                axes.legend(fontsize=7, loc="best")
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        drawn = {
            line.get_label(): line
            for axes, panel in zip(grid, panels, strict=False)
            if not panel.apart
            for line in axes.get_lines()
        }
        legend = figure.legend(
            [drawn[label] for label in labels], labels, loc="outside lower left", fontsize=9, ncols=3, title=note,
            title_fontproperties={"size": 8}, alignment="left",
        )  # fmt: skip
        legend.get_title().set_color(GREY)
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        save(figure, path)


def draw_line(axes: Axes, curve: Curve, colour: str, marker: str) -> None:
    """A line with its markers and its band."""
    if curve.low is not None and curve.high is not None:
        axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(
        curve.x, curve.y, color=colour, linestyle="--" if curve.dashed else "-", marker=marker if curve.marked else "",
        markersize=5.5, markerfacecolor="white" if curve.dashed else colour, linewidth=1.4, label=curve.label,
    )  # fmt: skip


def set_scales(axes: Axes, panel: Panel) -> None:
    """Scales with plain ticks, labels and title of a panel whose lines are drawn."""
    x = [value for curve in panel.curves for value in curve.x]
    if panel.log_x:
        axes.set_xscale("log")
        plain_log_ticks(axes.xaxis, min(x), max(x))
    if panel.log_y:
        y = [value for curve in panel.curves for value in (*curve.y, *(curve.low or ())) if value > 0]
        axes.set_yscale("log", nonpositive="clip")
        plain_log_ticks(axes.yaxis, min(y), max(y))
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_title(panel.title, loc="left", fontsize=10)
