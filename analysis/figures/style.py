"""One look for all figures: colour-blind-safe colours (Okabe and Ito), each with its own marker."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#6B6B6B"
RC: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "svg.hashsalt": "p2p-sim",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}


def new_figure(width: float = 7.2, height: float = 4.4) -> "Figure":
    """An empty figure, in inches, that needs no display and leaves no global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: "Figure", path: Path) -> None:
    """Write a figure, without clock times or versions, so that the same figure is the same file."""
    drop = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    figure.savefig(path, metadata=drop.get(path.suffix))


def plain_log_ticks(axis: "Axis", low: float, high: float) -> None:
    """Plain numbers as ticks of a logarithmic axis that shows low to high, both above 0."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    decades = high / low
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 1000.0 else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}" if 1e-4 <= x < 1e7 else f"{x:.0e}"))
    axis.set_minor_formatter(NullFormatter())
