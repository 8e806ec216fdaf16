"""Measured excess risk beside theory: slopes, and fitted sums of theoretical terms, dashed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from p2p_sim.analysis.figures.labels import long
from p2p_sim.analysis.figures.series import View, caption, drawable, series, wants_log
from p2p_sim.analysis.figures.style import COLOURS, drawing
from p2p_sim.analysis.figures.sweeps import draw_reference, draw_series, finish, scale, wrapped
from p2p_sim.analysis.utility.scaling import Estimate, Fit

FLOOR = "excess_risk_floor"
LINES = ((0, (4, 2)), (0, (1, 1.5)))
"""Dashes of the first fitted form, dots of the second."""


def plot_fit(
    table: pd.DataFrame,
    view: View,
    slopes: Mapping[str, Estimate],
    fits: Sequence[Fit],
    title: str,
    note: str,
    path: Path,
) -> None:
    """Draw excess risk with its intervals, the floor without privacy, and fitted forms with their constants.

    Args:
        table: one line a point.
        view: what to show; y is the excess risk, x a number, no facet.
        slopes: log-log slope of each line, by its label; "" for a single line.
        fits: fitted to all of the table's points, at most two.
        note: what is held fixed, for the caption.
    """
    for fit in fits:
        table = table.assign(**{fit.name: fit.fitted})
    shown, _ = drawable(table, view)
    lines = series(shown, view.group)
    with drawing(path, 7.2, 5.4 + 0.19 * len(lines), title=title) as (figure, [axes]):
        draw_reference(axes, shown, view)
        _draw_floor(axes, shown)
        for line in lines:
            slope = f": log-log slope {slopes[line.label]}" if line.label in slopes else ""
            draw_series(axes, replace(line, label=(line.label or "measured") + slope), view, None)
        for line, (fit, dashes) in product(lines, zip(fits, LINES, strict=False)):
            points = line.points.sort_values("at")
            axes.plot(
                points["at"], points[fit.name], label=f"{fit.name}, fitted:\n{fit}" if line is lines[0] else None,
                color="black" if len(lines) == 1 else COLOURS[line.index % len(COLOURS)], linestyle=dashes,
                linewidth=1.5, zorder=2,
            )  # fmt: skip
        scale(axes, shown, view, None)
        axes.set_xlabel(wrapped(long(view.x, table) + (", log scale" * wants_log(shown["at"], view.log_x)), 7.2))
        axes.set_ylabel(wrapped(long(view.y, table) + (", log scale" * wants_log(shown[view.y], view.log_y)), 4.8))
        finish(figure, [axes], caption(table, shown, view, note))


def _draw_floor(axes: Axes, shown: pd.DataFrame) -> None:
    """What infinitely many exchanged labels would leave, where it is known at every point."""
    if FLOOR not in shown or not np.isfinite(shown[FLOOR].astype(float)).all() or not (shown[FLOOR] > 0).all():
        return
    line = shown.drop_duplicates(["at", FLOOR]).sort_values("at")
    if line["at"].is_unique:
        axes.plot(
            line["at"], line[FLOOR].astype(float), color=COLOURS[2], linestyle="-.", linewidth=1.6, zorder=2,
            label="exact floor: infinitely many exchanged labels",
        )  # fmt: skip
