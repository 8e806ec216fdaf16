"""Figures for scripts and notebooks: columns of results on matplotlib axes."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from p2p_sim.base import InputError, axes_of_matplotlib, is_a
from p2p_sim.figures import draw_lines, legend_below, legend_inside, on_axes, short
from p2p_sim.measures import POINT, REPLICATE, points
from p2p_sim.results.figure_request import FigureRequest, view_of
from p2p_sim.results.plots import titles
from p2p_sim.results.results_directory import Results, read_results

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot(
    rows: "pd.DataFrame | str | Path",
    x: str | None = None,
    y: str | None = None,
    group: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one column of results against another, with 95% intervals of means; ε is the largest over replicates.

    Args:
        rows: a data frame that `sweep`, `run_all` or `load_results` returned, or some of its rows; or a results
            directory.
        x, y: columns, named as for `p2p-sim plot --x --y`. Default for y: excess risk if known, else accuracy. Default
            for x: ε if finite, else the first swept key.
        group: column whose values become lines. Other swept keys that vary and are not along x join this column.
        ax: matplotlib axes to draw on; default: a new figure, with a title above and a caption below.

    Returns:
        The axes, with labels and a legend; the figure is `.figure`.

    Raises:
        InputError: a column is missing or does not fit its use, or `rows` are no results.
    """
    results = read_results(Path(rows)) if isinstance(rows, str | os.PathLike) else _results(rows)
    table = points(results.rows, results.keys)
    # arguments are checked like the options of `p2p-sim plot`, but errors name an argument without dashes
    for name, column in (("x", x), ("y", y), ("group", group)):
        if column is not None and not isinstance(column, str):
            raise InputError(f"{name} {is_a(column)}: must be the name of a column")
    try:
        view = view_of(FigureRequest(x, y, group), results, table)
    except InputError as error:
        raise InputError(str(error).removeprefix("--")) from None
    with on_axes(axes_of_matplotlib("ax", ax)) as axes:
        title, fixed = titles(results, table, f"{short(view.y)} against {short(view.x)}")
        note = draw_lines(axes, table, view, fixed)
        if ax is None:
            figure: Any = axes.figure
            axes.set_title(title)
            legend_below(figure, [axes], note, 2, 8.5)
        else:
            legend_inside(axes)
    return axes


def _results(rows: Any) -> Results:
    """The results in a data frame of rows, with an empty name and scenario; the swept keys follow from the columns.

    Raises:
        InputError: `rows` is no data frame of results, or empty.
    """
    if not isinstance(rows, pd.DataFrame):
        raise InputError(f"rows {is_a(rows)}: must be a data frame of results, or a results directory")
    missing = [name for name in (POINT, REPLICATE) if name not in rows]
    if missing or rows.empty:
        raise InputError(
            f"rows: {f'have no column {missing[0]!r}' if missing else 'there are none'}; pass the rows of a sweep"
        )
    return Results(directory=Path(), name="", seed=0, rows=rows, axes=_axes(rows), scenario={}, plots=())


def _axes(rows: pd.DataFrame) -> tuple[tuple[str, ...], ...]:
    """The swept keys of rows, in tuples of keys that change together.

    Within a tuple, each value of a key occurs with a single value of each other key. A column with a dot in its name is
    a swept key. `engine` and `seed` are swept keys if they vary.
    """
    fixed = rows.drop_duplicates(POINT)
    keys = [str(name) for name in rows if "." in str(name) or (name in ("engine", "seed") and rows[name].nunique() > 1)]
    axes: list[list[str]] = []
    for key in keys:  # a key joins an axis if its values correspond one to one with the axis's values
        for axis in axes:
            if len(fixed[[axis[0], key]].drop_duplicates()) == fixed[key].nunique() == fixed[axis[0]].nunique():
                axis.append(key)
                break
        else:
            axes.append([key])
    return tuple(map(tuple, axes))
