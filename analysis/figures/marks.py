"""Names of the marks of lines, where there is room for them."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

MOST_NAMED = 12
"""Marks of a line that are all named; of a longer line, its ends are."""
SIDES = ((5, 4, "left", "bottom"), (5, -4, "left", "top"), (-5, 4, "right", "bottom"), (-5, -4, "right", "top"))
"""Where a name may stand: points right of and above its mark, and which corner of the name is there."""
REACH = 3.5
"""Half the width of a mark, points."""


@dataclass(frozen=True)
class Named:
    """The marks of one line, in the order along it, with the colour of the line and a text for each mark."""

    colour: str
    x: Sequence[float]
    y: Sequence[float]
    texts: Sequence[str]


def name_marks(axes: Axes, lines: Sequence[Named]) -> None:
    """Write the texts beside the marks of all lines, in the colours of the lines; both ends of each line come first.

    A name that would cover a mark or another name, or would leave the panel, is left out. Call this after all else is
    drawn, since names keep clear of marks by the final layout.

    Args:
        lines: with finite coordinates.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    reach, panel = REACH * figure.dpi / 72.0, axes.get_window_extent()
    taken = [
        Bbox.from_extents(px - reach, py - reach, px + reach, py + reach)
        for line in lines
        for px, py in axes.transData.transform(list(zip(line.x, line.y, strict=True)))
    ]
    ends = [(line, place) for line in lines for place in dict.fromkeys((0, len(line.x) - 1))]
    inner = [(line, place) for line in lines if len(line.x) <= MOST_NAMED for place in range(1, len(line.x) - 1)]
    for line, place in (*ends, *inner):
        for right, above, across, upright in SIDES:
            name = axes.annotate(
                line.texts[place], (line.x[place], line.y[place]), xytext=(right, above), textcoords="offset points",
                ha=across, va=upright, fontsize=7.5, color=line.colour,
                bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.4},
            )  # fmt: skip
            name.set_in_layout(False)
            box = name.get_window_extent()
            inside = panel.x0 <= box.x0 and box.x1 <= panel.x1 and panel.y0 <= box.y0 and box.y1 <= panel.y1
            if inside and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            name.remove()
