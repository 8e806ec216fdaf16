"""Lines with markers and bands: the one kind of plot that guides and studies need."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from p2p_sim.figures.style import COLOURS, GREY, MARKERS, drawing, legend_below, legend_beside, plain_log_ticks
from p2p_sim.measures.intervals import Mean
from p2p_sim.measures.point_means import HIGH, LOW


@dataclass(frozen=True)
class Curve:
    """One line. x, y: of the same length; low, high: a band, or absent.

    dashed: for a mere comparison. look: places of its colour and marker; by default those of the label.
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
    """One pair of axes; `apart`: its lines differ from the lines of the panels beside it, and have their own legend.

    marks: values of x with their names, as dotted lines.
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
    """Draw panels over one legend, two in a row, so that a page shows the text in full size.

    Lines of the same label look the same in all panels, and no two labels look alike. The legend stands where a panel
    is missing in the last row, else below.

    Args:
        panels: one to six. note: what is held fixed.
    """
    looks = looks_of(panels)
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    height = 3.5 * rows + (0.0 if len(panels) % columns else 1.4)
    with drawing(path, 7.6, height if len(panels) > 1 else 5.2, len(panels), columns) as (figure, grid):
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
    """Colour and marker of every label; grey for the only line that is a mere comparison.

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
    for place, name in panel.marks:
        axes.axvline(place, color=GREY, linestyle=":", linewidth=1.0, zorder=0)
        axes.annotate(name, (place, 0.02), xycoords=("data", "axes fraction"), rotation=90, ha="right", va="bottom",
                      fontsize=8, color=GREY)  # fmt: skip
    if panel.log_y:
        y = [value for curve in panel.curves for value in (*curve.y, *(curve.low or ())) if value > 0]
        axes.set_yscale("log", nonpositive="clip")
        plain_log_ticks(axes.yaxis, min(y), max(y))
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label, title=panel.title)
