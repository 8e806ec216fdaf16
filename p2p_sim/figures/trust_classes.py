"""Many mechanisms in one figure: a colour for who must be trusted, a marker for each."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.lines import Line2D

from p2p_sim.figures.curves import Panel, draw_line, set_scales
from p2p_sim.figures.style import COLOURS, MARKERS, drawing

WIDTH, HEIGHT = 4.3, 3.6
"""Of a panel, in inches."""


def plot_by_trust(
    panels: Sequence[Panel], groups: Mapping[str, Sequence[str]], path: Path, title: str, note: str
) -> None:
    """Draw panels in rows of three; the legend, by groups, takes the place after the last one.

    Args:
        panels: two or five, so that a place is left; 95% intervals in their curves' `low` and `high`.
        groups: heading of the legend -> labels of its lines, in the order of their markers; every label is in one.
        note: below the legend.
    """
    looks = {
        label: (_lighter(COLOURS[place % len(COLOURS)], _step(len(labels)) * index), MARKERS[index % len(MARKERS)])
        for place, labels in enumerate(groups.values())
        for index, label in enumerate(labels)
    }
    height = HEIGHT * ((len(panels) + 3) // 3) + 0.6
    with drawing(path, 3 * WIDTH, height, len(panels) + 1, title=title, note=note) as (_, grid):
        for axes, panel in zip(grid, panels, strict=False):
            for curve in panel.curves:
                draw_line(axes, curve, *looks[curve.label])
            set_scales(axes, panel)
        grid[-1].set_axis_off()
        _legend(grid[-1], groups, looks, {curve.label for panel in panels for curve in panel.curves})


def _legend(
    axes: Axes, groups: Mapping[str, Sequence[str]], looks: Mapping[str, tuple[str, str]], drawn: set[str]
) -> None:
    """Headings and lines in the order of the groups."""
    handles, names = [], []
    for heading, labels in groups.items():
        present = [label for label in labels if label in drawn]
        if present:
            handles.append(Line2D([], [], linestyle=""))
            names.append(heading)
        for label in present:
            colour, marker = looks[label]
            handles.append(Line2D([], [], color=colour, marker=marker, markersize=5.5, linewidth=1.4))
            names.append(label)
    legend = axes.legend(handles, names, loc="upper left", fontsize=9, borderaxespad=0.0, labelspacing=0.3)
    for text in legend.get_texts():
        if text.get_text() in groups:
            text.set_fontweight("bold")
            text.set_x(-28)


def _step(count: int) -> float:
    """How much lighter each line of a group is than the one before; the last keeps two fifths of its colour."""
    return min(0.13, 0.6 / max(count - 1, 1))


def _lighter(colour: str, share: float) -> str:
    """A colour mixed with white."""
    red, green, blue = (1.0 - (1.0 - part) * (1.0 - share) for part in to_rgb(colour))
    return to_hex((red, green, blue))
