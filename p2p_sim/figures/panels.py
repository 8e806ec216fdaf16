"""Figures of published studies: panels over one legend, a colour and marker for each mechanism throughout."""

import math
from collections.abc import Sequence
from pathlib import Path

from p2p_sim.figures.curves import Panel, draw_line, set_scales
from p2p_sim.figures.style import COLOURS, MARKERS, drawing, legend_below


def plot_study(panels: Sequence[Panel], path: Path, title: str, note: str, columns: int = 3) -> None:
    """Draw panels in rows; lines of the same label look the same in all of them.

    Args:
        panels: with 95% intervals in their curves' `low` and `high`. columns: panels in a row.
        note: below the legend: replicates, intervals, what is held fixed.
    """
    labels = list(dict.fromkeys(curve.label for panel in panels if not panel.apart for curve in panel.curves))
    height = 3.3 * math.ceil(len(panels) / columns) + 1.3
    with drawing(path, 3.9 * columns, height, len(panels), columns, title) as (figure, grid):
        for axes, panel in zip(grid, panels, strict=True):
            for place, curve in enumerate(panel.curves):
                index = place if panel.apart else labels.index(curve.label)
                colour, marker = curve.look or (index, index)
                draw_line(axes, curve, COLOURS[colour % len(COLOURS)], MARKERS[marker % len(MARKERS)])
            set_scales(axes, panel)
            if panel.apart:
                axes.legend(fontsize=7, loc="best")
        legend_below(figure, [axes for axes, panel in zip(grid, panels, strict=True) if not panel.apart], note)
