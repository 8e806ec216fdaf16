"""Draws figures of panels with lines or marks. Lines have markers and bands. The colour of a line shows its label, or
the party that users must trust. Marks stand for groups of users.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.lines import Line2D

from p2p_sim.figures.style import COLOURS, GREY, MARKERS, drawing, legend_below, legend_beside, plain_log_ticks
from p2p_sim.measures import HIGH, LOW, Mean


@dataclass(frozen=True)
class Curve:
    """One line of a figure.

    label: the line's text in the legend. x, y: coordinates, of the same length. low, high: ends of the line's band at
    each x, or None. dashed: whether the line is dashed, as a comparison. marked: whether the line has markers. look:
    indices of the line's colour and marker in `plot_study`; None: the label decides.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dashed: bool = False
    marked: bool = True
    look: tuple[int, int] | None = None

    @classmethod
    def of(cls, label: object, table: pd.DataFrame, x: str, y: str, dashed: bool = False) -> "Curve":
        """A line through the points of a table's columns x and y, in the order of x. The band shows 95% intervals of y
        from the columns y + "_low" and y + "_high", if the table has them.
        """
        part = table.sort_values(x)
        low, high = (part[y + end].tolist() if y + end in part else None for end in (LOW, HIGH))
        return cls(str(label), part[x].tolist(), part[y].tolist(), low=low, high=high, dashed=dashed)

    @classmethod
    def of_means(cls, label: str, x: Sequence[float], means: Sequence[Mean]) -> "Curve":
        """A line through a mean at each x, with the means' intervals as its band."""
        return cls(label, x, y=[m.value for m in means], low=[m.low for m in means], high=[m.high for m in means])


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its lines.

    curves: the lines. log_x, log_y: whether the axes are logarithmic. apart: whether the lines are unrelated to other
    panels; the panel then has its own legend. marks: values of x with their names, drawn as dotted vertical lines.
    """

    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log_x: bool = True
    log_y: bool = True
    title: str = ""
    apart: bool = False
    marks: Sequence[tuple[float, str]] = ()


def plot_panels(panels: Sequence[Panel], path: Path, note: str = "") -> None:
    """Draw panels with one legend. A row has two panels, so that the text is not shrunk on a page.

    Lines with the same label look the same in all panels; lines with different labels look different. The legend fills
    the empty place of the last row. Without an empty place, the legend is below the panels.

    Args:
        panels: one to six, each with its axis labels, lines and scales. path: of the figure; it ends in .png, .pdf or
        .svg. note: title of the legend, which says what is held fixed.
    """
    looks = looks_of(panels)
    columns = min(2, len(panels))
    height = 3.5 * (-(-len(panels) // columns)) + (0.0 if len(panels) % columns else 1.4)
    with drawing(path, 7.6, height if len(panels) > 1 else 5.2, panels=len(panels), columns=columns) as (figure, grid):
        for axes, panel in zip(grid, panels, strict=True):
            for curve in panel.curves:
                draw_line(axes, curve, *looks[curve.label])
            set_scales(axes, panel)
            axes.tick_params(labelsize=10 if columns == 1 else 8.5)
        if len(panels) % columns:
            legend_beside(figure, grid, note)
        else:
            legend_below(figure, grid, note, columns=2)


def looks_of(panels: Sequence[Panel]) -> dict[str, tuple[str, str]]:
    """For each label, the line's colour and marker. If exactly one label has a dashed line without markers, this line
    is grey. Every other label gets its own colour and marker.

    Args:
        panels: all panels of the figure, with their lines.

    Raises:
        ValueError: there are more labels than colours.
    """
    curves = {curve.label: curve for panel in panels for curve in panel.curves}
    compared = [label for label, curve in curves.items() if curve.dashed and not curve.marked]
    plain = [label for label in curves if len(compared) != 1 or label != compared[0]]
    if len(plain) > len(COLOURS):
        raise ValueError(f"{len(plain)} lines of different labels, {len(COLOURS)} colours")
    looks = {label: (COLOURS[index], MARKERS[index]) for index, label in enumerate(plain)}
    return looks | {label: (GREY, "") for label in compared if label not in looks}


def draw_line(axes: Axes, curve: Curve, colour: str, marker: str) -> None:
    """Draw a line, its markers if `curve.marked`, and its band if `low` and `high` are given, in one colour."""
    if curve.low is not None and curve.high is not None:
        axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(
        curve.x, curve.y, color=colour, linestyle="--" if curve.dashed else "-", marker=marker if curve.marked else "",
        markersize=5.5, markerfacecolor="white" if curve.dashed else colour, linewidth=1.4, label=curve.label,
    )  # fmt: skip


def set_scales(axes: Axes, panel: Panel) -> None:
    """Set scales, ticks, labels and title of a panel's axes. Draw the panel's `marks` as dotted vertical lines with
    names. The panel's curves must be drawn already.
    """
    x = [value for curve in panel.curves for value in curve.x]
    if panel.log_x:
        axes.set_xscale("log")
        plain_log_ticks(axes.xaxis, min(x), max(x))
    for x_mark, name in panel.marks:
        axes.axvline(x_mark, color=GREY, linestyle=":", linewidth=1.0, zorder=0)
        axes.annotate(name, (x_mark, 0.02), xycoords=("data", "axes fraction"), rotation=90, ha="right", va="bottom",
                      fontsize=8, color=GREY)  # fmt: skip
    if panel.log_y:
        y = [value for curve in panel.curves for value in (*curve.y, *(curve.low or ())) if value > 0]
        axes.set_yscale("log", nonpositive="clip")
        plain_log_ticks(axes.yaxis, min(y), max(y))
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label, title=panel.title)


def plot_study(panels: Sequence[Panel], path: Path, title: str, note: str, columns: int = 3) -> None:
    """Draw panels in rows into one figure. Lines with the same label have the same colour and marker in all panels. A
    panel whose field `apart` is true has its own colours, markers and legend. The field `look` of a line (indices of a
    colour and a marker) overrides the label.

    Args:
        panels: each with its lines, whose fields `low` and `high` may hold 95% intervals. path: of the figure's file.
        title: above all panels. note: title of the common legend, with the number of replicates, the kind of intervals
        and the parameters that are held fixed. columns: panels in a row.
    """
    labels = list(dict.fromkeys(curve.label for panel in panels if not panel.apart for curve in panel.curves))
    height = 3.3 * math.ceil(len(panels) / columns) + 1.3
    with drawing(path, 3.9 * columns, height, panels=len(panels), columns=columns, title=title) as (figure, grid):
        for axes, panel in zip(grid, panels, strict=True):
            for number, curve in enumerate(panel.curves):
                index = number if panel.apart else labels.index(curve.label)
                colour, marker = curve.look or (index, index)
                draw_line(axes, curve, COLOURS[colour % len(COLOURS)], MARKERS[marker % len(MARKERS)])
            set_scales(axes, panel)
            if panel.apart:
                axes.legend(fontsize=7, loc="best")
        legend_below(figure, [axes for axes, panel in zip(grid, panels, strict=True) if not panel.apart], note)


WIDTH, HEIGHT, LINE = 4.3, 3.6, 0.34
"""Width and height of a panel, and height of one row in a panel that compares groups, all in inches."""


def plot_by_trust(
    panels: Sequence[Panel], path: Path, groups: Mapping[str, Sequence[str]], title: str, note: str
) -> None:
    """Draw panels in rows of three. The colour of a line shows the party that users must trust for their privacy, such
    as "nobody" or a server. The legend fills the place after the last panel. Each group has a heading there. The
    group's lines are below the heading, in shades of one colour.

    Args:
        panels: two or five, so that the last row has an empty place. A curve's `low` and `high` are 95% intervals.
        path: of the figure's file. groups: for each heading, the labels of the group's lines, in the order of their
        markers. A heading names the trusted party; every label is in one group. title: above all panels. note: text
        below the panels.
    """
    looks = {}
    for hue, labels in enumerate(groups.values()):
        # the share of white grows by `step` from line to line of a group, up to at most 0.6
        step = min(0.13, 0.6 / max(len(labels) - 1, 1))
        for index, label in enumerate(labels):
            rgb = to_rgb(COLOURS[hue % len(COLOURS)])
            red, green, blue = (1.0 - (1.0 - part) * (1.0 - step * index) for part in rgb)
            looks[label] = (to_hex((red, green, blue)), MARKERS[index % len(MARKERS)])
    height = HEIGHT * ((len(panels) + 3) // 3) + 0.6
    with drawing(path, 3 * WIDTH, height, panels=len(panels) + 1, title=title, note=note) as (_, grid):
        for axes, panel in zip(grid, panels, strict=False):
            for curve in panel.curves:
                draw_line(axes, curve, *looks[curve.label])
            set_scales(axes, panel)
        grid[-1].set_axis_off()
        _legend(grid[-1], groups, looks, {curve.label for panel in panels for curve in panel.curves})


def _legend(
    axes: Axes, groups: Mapping[str, Sequence[str]], looks: Mapping[str, tuple[str, str]], drawn: set[str]
) -> None:
    """Fill axes with a legend: the heading of each group, and below it the labels of the group's lines.

    Args:
        groups: for each heading, the labels of the group's lines. looks: colour and marker by label. drawn: the labels
        of lines that are drawn; other labels are left out.
    """
    samples = {}
    for heading, labels in groups.items():
        present = [label for label in labels if label in drawn]
        if present:
            samples[heading] = Line2D([], [], linestyle="")
        for label in present:
            colour, marker = looks[label]
            samples[label] = Line2D([], [], color=colour, marker=marker, markersize=5.5, linewidth=1.4)
    legend = axes.legend(
        samples.values(), samples.keys(), loc="upper left", fontsize=9, borderaxespad=0.0, labelspacing=0.3
    )
    # headings are bold and begin where the samples of lines begin
    for text in legend.get_texts():
        if text.get_text() in groups:
            text.set_fontweight("bold")
            text.set_x(-28)


@dataclass(frozen=True)
class Marks:
    """One panel of a figure that compares groups. The panel has named rows, with a mark for each group. `table` has a
    line for each pair of a row and a group.

    row, group: the table's columns with the names of the rows and of the groups. value: the table's column of numbers.
    The columns value + LOW and value + HIGH have the ends of the 95% intervals.
    """

    title: str
    table: pd.DataFrame
    row: str
    group: str
    value: str


def plot_groups(panels: Sequence[Marks], path: Path, title: str, note: str) -> None:
    """Draw panels that compare groups of users. Each panel has named rows, one below the other. In each row, every
    group has a mark at its loss of accuracy. Up to seven groups have marks with 95% intervals and a legend. With more
    groups, each mark is the group's name, without an interval.

    Args:
        panels: all with the same rows. path: of the figure's file. title: above all panels. note: text below the
        panels.
    """
    rows = max(panel.table[panel.row].nunique() for panel in panels)
    height = (rows * LINE + 1.5) * math.ceil(len(panels) / 3) + 0.8
    width = WIDTH * min(3, len(panels))
    with drawing(path, width, height, panels=len(panels), title=title, note=note) as (_, grid):
        for number, (axes, panel) in enumerate(zip(grid, panels, strict=True)):
            _draw(axes, panel, named=number % 3 == 0)


def _draw(axes: Axes, panel: Marks, named: bool) -> None:
    """Draw the marks of one panel. named: whether the names of the rows are written on the panel's left."""
    names, groups = (list(panel.table[column].unique()) for column in (panel.row, panel.group))
    few = len(groups) <= len(COLOURS)
    for index, group in enumerate(groups):
        # few groups have marks with intervals, at slightly different heights; many groups have names at one height
        part = panel.table[panel.table[panel.group] == group]
        shift = 0.5 * ((index + 0.5) / len(groups) - 0.5) if few else 0.0
        height = [names.index(name) + shift for name in part[panel.row]]
        value = part[panel.value].astype(float)
        if few:
            ends = [value - part[panel.value + LOW], part[panel.value + HIGH] - value]
            axes.errorbar(value, height, xerr=ends, color=COLOURS[index], marker=MARKERS[index], linestyle="",
                          markersize=4.5, linewidth=1.2, label=str(group))  # fmt: skip
        else:
            axes.scatter(value, height, marker=f"${group}$", s=38, color=COLOURS[index % len(COLOURS)], linewidths=0.4)
    axes.axvline(0.0, color=GREY, linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(names)), [textwrap.fill(name, 20) for name in names] if named else [""] * len(names))
    axes.set(ylim=(len(names) - 0.4, -0.6), xlabel="loss of accuracy", title=panel.title)
    if few:
        columns = len(groups) if sum(map(len, map(str, groups))) <= 40 else 2  # one line if all labels fit
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=columns)
