"""One look for all figures: colours that colour-blind people can tell apart (Okabe and Ito), and a marker for each."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
GREY = "#6B6B6B"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
"""Translation of digits and the minus sign into superscripts, for exponents."""
WIDTH_OF_DIGIT = 0.085
"""Approximate width of a digit of a tick's label, in inches."""
RC: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "legend.frameon": False,
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "svg.hashsalt": "p2p-sim",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "text.parse_math": False,  # titles and labels may contain $; symbols are plain characters (ε)
}


def new_figure(width: float = 7.2, height: float = 4.4) -> "Figure":
    """An empty figure that needs no display and leaves no global state; width and height are in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


@contextmanager
def drawing(
    path: Path, width: float = 7.2, height: float = 4.4, *, panels: int = 1, columns: int = 3, title: str = "",
    note: str = "", shared: bool = False, widths: Sequence[float] | None = None,
) -> Iterator[tuple["Figure", list[Axes]]]:  # fmt: skip
    """A context with a new figure and the list of its panels' axes. The figure is written to a file at the end.

    Args:
        path: the file's path, whose ending decides the format. width, height: of the figure, in inches. panels: number
        of panels. columns: largest number of panels in a row. title: text above the panels. note: text below the
        panels. shared: whether panels share their scales. widths: relative widths of the columns; None: equal.
    """
    columns = min(panels, columns)
    with rc_context(RC):
        # a grid of whole rows; the last places may stay empty
        figure = new_figure(width, height)
        rows = -(-panels // columns)
        every = figure.subplots(rows, columns, sharex=shared, sharey=shared, squeeze=False, width_ratios=widths)
        grid: list[Axes] = every.ravel().tolist()
        for axes in grid[panels:]:
            axes.set_axis_off()
        yield figure, grid[:panels]
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        if note:
            figure.supxlabel(textwrap.fill(note, int(15 * width)), fontsize=8, color=GREY, x=0.01, ha="left")
        save(figure, path)


@contextmanager
def on_axes(existing: Axes | None) -> Iterator[Axes]:
    """A context with axes to draw on: `existing` or, if None, the axes of a new pyplot figure, which notebooks show."""
    from matplotlib import pyplot
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    if existing is not None:
        with rc_context({"text.parse_math": False}), _literal(existing.xaxis.label, existing.yaxis.label):
            yield existing
        return

    # pyplot may choose a backend, so the figure comes before the settings; the pads (inches) are the only margin
    figure = pyplot.figure(figsize=(7.2, 4.4), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
    with rc_context({**RC, "text.parse_math": True}):
        axes = figure.subplots()
    titles = [child for child in axes.get_children() if isinstance(child, Text)]
    with rc_context(RC), _literal(axes.xaxis.label, axes.yaxis.label, *titles):
        yield axes


@contextmanager
def _literal(*texts: Text) -> Iterator[None]:
    """A context in which a dollar sign in the given texts of a figure is a plain character. Text written inside the
    context stays plain. In later text, dollar signs mark mathematics again, if they did before.
    """
    before = [(text.get_text(), text.get_parse_math()) for text in texts]
    for text in texts:
        text.set_parse_math(False)
    try:
        yield
    finally:
        for text, (words, parses) in zip(texts, before, strict=True):
            if parses and text.get_text() != words:
                text.set_text(text.get_text().replace("$", r"\$"))
            text.set_parse_math(parses)


def inches(axes: Axes) -> tuple[float, float]:
    """The width and height of axes in inches, in the layout so far. Both may still change when the figure is drawn."""
    figure, size = cast("Figure", axes.get_figure(root=True)), axes.get_window_extent()
    return size.width / figure.dpi, size.height / figure.dpi


def legend_inside(axes: Axes) -> None:
    """Draw a legend on the axes, with labels wrapped to the width of the axes. Without labels, nothing is drawn."""
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        fitting = [textwrap.fill(label, max(12, int(11 * inches(axes)[0]))) for label in labels]
        axes.legend(handles, fitting, fontsize="small")


def legend_below(figure: "Figure", grid: Sequence[Axes], note: str, columns: int = 3, size: float = 9) -> None:
    """Draw one legend below the panels `grid`, with each label once, in `columns` columns. note: the title. size: font
    size in points.
    """
    title = textwrap.fill(note, int(15 * figure.get_figwidth()))
    _one_legend(figure, grid, title, loc="outside lower left", fontsize=size, ncols=columns)


def legend_beside(figure: "Figure", grid: Sequence[Axes], note: str) -> None:
    """Draw one legend in the empty place after the panels `grid`, with each label once. note: the legend's title."""
    empty = figure.axes[len(grid)]
    width = figure.get_figwidth() / empty.get_gridspec().ncols  # type: ignore[union-attr]
    _one_legend(empty, grid, textwrap.fill(note, int(12 * width)), loc="center left", fontsize=9)


def _one_legend(target: "Figure | Axes", grid: Sequence[Axes], title: str, **look: Any) -> None:
    """Draw one legend on `target` with every label of the panels `grid` once; `look` goes to matplotlib's `legend`."""
    handles: dict[str, Any] = {}
    for axes in grid:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    legend = target.legend(
        [*handles.values()], [*handles], alignment="left", title=title, title_fontproperties={"size": 8}, **look
    )
    legend.get_title().set_color(GREY)


def save(figure: "Figure", path: Path) -> None:
    """Write a figure to a file without the time of writing. So the same figure always gives the same file."""
    drop = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    figure.savefig(path, metadata=drop.get(path.suffix))


def powers_of_ten(axis: Axis) -> None:
    """Label the ticks of a logarithmic axis with powers of ten. Exponents are superscript characters."""
    axis.set_major_formatter(FuncFormatter(lambda x, _: "10" + str(round(math.log10(x))).translate(RAISED)))
    axis.set_minor_formatter(NullFormatter())


def plain_log_ticks(axis: Axis, low: float, high: float, room: float = math.inf) -> None:
    """Label the ticks of a logarithmic axis with plain numbers.

    Args:
        axis: the axis. low, high: ends of the axis's range, both above 0. room: length of the axis in inches. Fewer
        ticks are set if their numbers would overlap.
    """
    subs: tuple[float, ...] = (1.0, 2.0, 5.0)
    each = room * math.log10(2.0) / max(math.log10(high / low), 0.1)
    if each < WIDTH_OF_DIGIT * (len(f"{high:,.0f}") + 1):
        subs = (1.0, 3.0)
    axis.set_major_locator(LogLocator(subs=subs if high / low < 1000.0 else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}" if 1e-4 <= x < 1e7 else f"{x:.0e}"))
    axis.set_minor_formatter(NullFormatter())
