"""A heat map of a column over two axes of a sweep, with the column's values in the cells."""

import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from numpy.typing import NDArray

from p2p_sim.figures.column_labels import long, value
from p2p_sim.figures.point_series import replicates_text, wants_log
from p2p_sim.figures.style import drawing, plain_log_ticks
from p2p_sim.figures.sweep_lines import wrapped
from p2p_sim.measures import HIGH, LOW, is_privacy

MOST_PRINTED = 60
"""Largest number of cells for which values are written into the cells."""


def plot_heat(table: pd.DataFrame, x: str, y: str, heat: str, *, title: str, note: str, path: Path) -> None:
    """Draw a column as colours over two axes. If there are at most 60 cells, each cell also shows its value. If the
    table has intervals, ± half the width of the 95% interval follows.

    Args:
        table: one row for each point, at most one for each pair of values of x and y. The columns heat + "_low" and
        heat + "_high" have the ends of the intervals. x, y: columns along the axes, numbers or text. Their values are
        evenly spaced, in the order of the table. heat: the column of numbers that colours show. title: above the axes.
        note: text for the caption with the parameters that are held fixed. path: of the figure's file.
    """
    # grid: values by row and column; half: half the width of each value's interval
    columns, rows = list(table[x].unique()), list(table[y].unique())
    cells = [rows.index(v) for v in table[y]], [columns.index(v) for v in table[x]]
    grid, half = (np.full((len(rows), len(columns)), np.nan) for _ in range(2))
    grid[cells] = table[heat].astype(float)
    if heat + HIGH in table:
        half[cells] = (table[heat + HIGH] - table[heat + LOW]) / 2.0
    logarithmic, printed = wants_log(table[heat].astype(float), None), grid.size <= MOST_PRINTED
    norm = _norm(grid, logarithmic)
    width, height = min(14.0, 2.6 + 0.85 * max(4, len(columns))), min(11.0, 1.9 + 0.6 * max(3, len(rows)))
    note = _caption(table, heat, half, printed, note)
    with drawing(path, width, height, title=title, note=note) as (figure, [axes]):
        axes.grid(visible=False)
        axes.set_facecolor("#EFEFEF")
        # a cell whose value is not finite has the colour of the background
        picture = axes.imshow(np.where(np.isfinite(grid), grid, np.nan), norm=norm, cmap="cividis", aspect="auto",
                              origin="lower")  # fmt: skip
        bar = figure.colorbar(picture, ax=axes)
        bar.set_label(wrapped(long(heat, table) + ", log scale" * logarithmic, height))
        if logarithmic:
            plain_log_ticks(bar.ax.yaxis, *picture.get_clim())
        if printed:
            _write(axes, grid, half, norm)
        axes.set_xticks(range(len(columns)), [_tick(cell, 12) for cell in columns])
        axes.set_yticks(range(len(rows)), [_tick(cell, 20) for cell in rows])
        axes.set(xlabel=wrapped(long(x, table), width - 2), ylabel=wrapped(long(y, table), height))


def _norm(grid: NDArray[np.float64], logarithmic: bool) -> Normalize:
    """The colour scale from the smallest to the largest finite value of `grid`. If these are equal, a linear scale ends
    slightly higher. A logarithmic scale needs values above 0.
    """
    finite = grid[np.isfinite(grid)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if logarithmic:
        return LogNorm(low, high)
    return Normalize(low, high if high > low else low + 1e-12 + abs(low) * 1e-6)


def _tick(cell: object, characters: int) -> str:
    """A cell's value as text in lines of at most `characters` characters; no word is broken."""
    return textwrap.fill(value(cell), characters, break_long_words=False)


def _write(axes: Axes, grid: NDArray[np.float64], half: NDArray[np.float64], norm: Normalize) -> None:
    """Write each value of `grid` into its cell, in black on light colours and in white on dark colours.

    Args:
        axes: of the heat map. grid: values by row and column; NaN: the cell stays empty. half: half the width of each
        value's 95% interval, written after ±; NaN: no interval. norm: the colour scale, from values to 0..1.
    """
    for (row, column), cell in np.ndenumerate(grid):
        if np.isnan(cell):
            continue
        if np.isfinite(cell):
            error = half[row, column]
            text = f"{cell:.3g}" + (f"\n±{error:.1g}" if np.isfinite(error) else "")
            colour = "white" if float(norm(cell)) < 0.55 else "black"
        else:
            text, colour = "∞", "black"
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)


def _caption(table: pd.DataFrame, heat: str, half: NDArray[np.float64], printed: bool, note: str) -> str:
    """The caption: the note, the number of replicates, and what the intervals are. For an ε, the caption says instead
    that ε is the largest over the replicates.

    Args:
        table: one row for each point. heat: the column that is drawn. half: half the width of each cell's interval;
        NaN: no interval. printed: whether the intervals are written in the cells. note: text with the parameters that
        are held fixed.
    """
    if is_privacy(heat):
        last = "ε is the worst over replicates"
    elif not np.isfinite(half).any():
        last = "no intervals from a single replicate"
    elif printed:
        last = "±: half of the 95% confidence interval of the mean"
    else:
        last = f"95% confidence intervals of the means are at most ±{np.nanmax(half):.2g}"
    return "; ".join(filter(None, [note, replicates_text(table), last]))
