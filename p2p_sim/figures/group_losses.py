"""What groups lose: a line for each mechanism, a mark for each group."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from p2p_sim.figures.style import COLOURS, GREY, MARKERS, drawing
from p2p_sim.measures.point_means import HIGH, LOW

WIDTH, LINE = 4.3, 0.34
"""Of a panel, and of each of its lines, in inches."""


@dataclass(frozen=True)
class Marks:
    """One panel: a table with a line for each pair of a row of the panel and a group.

    row, group: columns of texts. value: a column of numbers; its 95% interval ends where columns of that name say.
    """

    title: str
    table: pd.DataFrame
    row: str
    group: str
    value: str


def plot_groups(panels: Sequence[Marks], path: Path, title: str, note: str) -> None:
    """Draw panels in rows of three, each with its own legend; groups beyond seven are marked by their names alone.

    Args:
        panels: with the same rows. path: of the figure. title: above all panels. note: below them.
    """
    rows = max(panel.table[panel.row].nunique() for panel in panels)
    height = (rows * LINE + 1.5) * math.ceil(len(panels) / 3) + 0.8
    width = WIDTH * min(3, len(panels))
    with drawing(path, width, height, len(panels), title=title, note=note) as (_, grid):
        for place, (axes, panel) in enumerate(zip(grid, panels, strict=True)):
            _draw(axes, panel, named=place % 3 == 0)


def _draw(axes: Axes, panel: Marks, named: bool) -> None:
    names, groups = (list(panel.table[column].unique()) for column in (panel.row, panel.group))
    few = len(groups) <= len(COLOURS)
    for index, group in enumerate(groups):
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
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=len(groups))
