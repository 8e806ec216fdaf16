"""Lines with markers and bands: the one kind of plot that privacy guides need."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes

from analysis.figures.style import COLOURS, GREY, MARKERS, RC, new_figure


@dataclass(frozen=True)
class Curve:
    """One line. x, y: same length; low, high: a band, where there is one; dashed: for what is only a comparison."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dashed: bool = False
    marked: bool = True


@dataclass(frozen=True)
class Panel:
    """One pair of axes; `apart`: its lines are others than those of the panels beside it, and have their own legend."""

    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log_x: bool = True
    log_y: bool = True
    title: str = ""
    apart: bool = False


def plot_panels(panels: Sequence[Panel], path: Path, note: str = "") -> None:
    """Draw panels side by side, each with its own legend below.

    Args:
        panels: one to three.
        path: where the figure goes; its ending decides the format.
        note: a line at the bottom: what is held fixed.
    """
    with rc_context(RC):
        figure = new_figure(4.9 * len(panels) + (2.0 if len(panels) == 1 else 0.0), 5.2)
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _draw(axes, panel)
        if note:
            figure.supxlabel(note, fontsize=8, color=GREY)
        figure.savefig(path, metadata={"Software": None} if path.suffix == ".png" else None)


def _draw(axes: Axes, panel: Panel) -> None:
    for index, curve in enumerate(panel.curves):
        colour = COLOURS[index % len(COLOURS)]
        if curve.low is not None and curve.high is not None:
            axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.25, linewidth=0)
        marker = MARKERS[index % len(MARKERS)] if curve.marked else None
        axes.plot(
            curve.x, curve.y, color=colour, linestyle="--" if curve.dashed else "-", marker=marker, markersize=4.5,
            markevery=(index, max(1, len(curve.x) // 12)) if len(curve.x) > 24 else 1, linewidth=1.4, label=curve.label,
        )  # fmt: skip
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_title(panel.title, loc="left", fontsize=10)
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.17), fontsize=8)
