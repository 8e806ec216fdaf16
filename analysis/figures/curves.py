"""Lines with markers and bands: the one kind of plot that guides and studies need."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from p2p_sim.analysis.figures.style import COLOURS, MARKERS, drawing, plain_log_ticks
from p2p_sim.analysis.utility.intervals import Mean
from p2p_sim.analysis.utility.points import HIGH, LOW


@dataclass(frozen=True)
class Curve:
    """One line. x, y: of the same length; low, high: a band, or absent; dashed: for a mere comparison."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dashed: bool = False
    marked: bool = True

    @classmethod
    def of(cls, label: object, table: pd.DataFrame, x: str, y: str, dashed: bool = False) -> "Curve":
        """A line through the rows of a table, with the ends of y's 95% intervals as its band where it has them."""
        part = table.sort_values(x)
        low, high = (part[y + end].tolist() if y + end in part else None for end in (LOW, HIGH))
        return cls(str(label), part[x].tolist(), part[y].tolist(), low, high, dashed)

    @classmethod
    def of_means(cls, label: str, x: Sequence[float], means: Sequence[Mean]) -> "Curve":
        """A line through means, with their intervals as its band."""
        return cls(label, x, [m.value for m in means], [m.low for m in means], [m.high for m in means])


@dataclass(frozen=True)
class Panel:
    """One pair of axes; `apart`: its lines differ from the lines of the panels beside it, and have their own legend."""

    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log_x: bool = True
    log_y: bool = True
    title: str = ""
    apart: bool = False


def plot_panels(panels: Sequence[Panel], path: Path, note: str = "") -> None:
    """Draw one to three panels side by side, each with its own legend below; `note` says what is held fixed."""
    with drawing(path, 4.9 * len(panels) + 2.0 * (len(panels) == 1), 5.2, len(panels), note=note) as (_, grid):
        for axes, panel in zip(grid, panels, strict=True):
            for index, curve in enumerate(panel.curves):
                draw_line(axes, curve, COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)])
            set_scales(axes, panel)
            axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.17), fontsize=8)


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
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label, title=panel.title)
