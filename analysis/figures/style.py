"""One look for all figures: colour-blind-safe colours (Okabe and Ito), each with its own marker."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
}


def new_figure(width: float = 7.2, height: float = 4.4) -> "Figure":
    """An empty figure, in inches, that needs no display and leaves no global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")
