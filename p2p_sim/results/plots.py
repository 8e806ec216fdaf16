"""Draws the figures of a results directory. A request, or the sweep's file, may name the columns of a figure."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from p2p_sim.base import InputError, Streams, in_place_of
from p2p_sim.figures import FLOOR, SAME, View, is_number, pairs, plot_fit, plot_heat, plot_lines, series, short
from p2p_sim.measures import POINT, Estimate, by_replicate, fit_forms, log_log_slope, points
from p2p_sim.results.figure_request import FIT_X, Chosen, FigureRequest, covered, filled, lines_of
from p2p_sim.results.results_directory import Results, read_results
from p2p_sim.results.rows import stored_rows

FORMATS = ("png", "svg", "pdf")
_FIXED = ("flip_prob", "sampling_rate", "num_users", "heterogeneity")
"""A figure's note states the value of such a column if all points share this value."""


def plot(
    directory: Path,
    request: FigureRequest,
    out: Path | None = None,
    format_: str | None = None,
    rows: pd.DataFrame | None = None,
) -> list[Path]:
    """Draw the requested figure. An empty request stands for all figures listed in the sweep's file. If none is listed,
    one figure with default columns is drawn.

    Args:
        directory: results of `run` or `sweep`.
        request: the figure's columns.
        out: the file, for a single figure; default: plot-<columns>.<format> in the directory.
        format_: png, svg or pdf; default: the ending of `out`, else png.
        rows: the rows of the directory that are drawn; default: all.

    Returns:
        The files written.

    Raises:
        InputError: the directory cannot be read, a file cannot be written, or a column is missing or unsuitable.
    """
    ending = _ending(out, format_)
    results = read_results(directory)
    results = results if rows is None else replace(results, rows=rows)
    table = points(results.rows, results.keys)
    requests = request.expand(results)
    if out is not None and len(requests) > 1:
        raise InputError(f"--out {out}: {len(requests)} figures are to be drawn; choose one with --x and --y")
    written = []
    for chosen in requests:
        full = filled(chosen, results, table)
        path = out or directory / f"{full.file_stem}.{ending}"
        try:
            with in_place_of(path) as partial:
                draw(full, results, table, partial)
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None
        written.append(path)
    return written


def draw(request: FigureRequest, results: Results, table: pd.DataFrame, path: Path) -> None:
    """Draw one figure into a file.

    Args:
        request: the figure's columns. results: the rows, swept keys and name. table: one line for each point (a
        combination of swept values). path: the file; it ends in .png, .svg or .pdf.

    Raises:
        InputError: a column is missing or unsuitable.
    """
    full = filled(request, results, table)
    (_heat if full.heat else _fit if full.fit else _lines)(full, results, table, path)


def draw_plots(directory: Path, rows: pd.DataFrame | None = None) -> list[Path]:
    """Draw what `plot` draws for an empty request, and return the files. There are none if no replicate succeeded.

    rows: the rows of the directory that are drawn; None: all.
    """
    rows = stored_rows(directory) if rows is None else rows
    return [] if rows.empty else plot(directory, FigureRequest(), rows=rows)


def _ending(out: Path | None, format_: str | None) -> str:
    """The ending of a figure's file, without dot: the format, else the ending of `out`, else png.

    Raises an InputError if the format is unknown, `out` has another ending, or its directory is missing.
    """
    ending = format_ or (out.suffix[1:] if out else FORMATS[0])
    if ending not in FORMATS:
        fault = f"--format {format_}: must be" if format_ else f"--out {out}: must end in"
        raise InputError(f"{fault} {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if out is not None and out.suffix[1:] != ending:
        raise InputError(f"--out {out}: must end in .{ending}, the chosen --format")
    if out is not None and not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no directory {out.parent}")
    return ending


def titles(results: Results, table: pd.DataFrame, text: str) -> tuple[str, str]:
    """A figure's title and note. The title has the study's name and `text`. The note has the values that all points
    share, such as "α = 0.1, n = 400".
    """
    swept = {SAME.get(last, last) for last in (key.rsplit(".", 1)[-1] for key in results.keys)}
    fixed = [name for name in _FIXED if name in table and name not in swept]
    fixed = [name for name in fixed if table[name].nunique() == 1 and table[name].notna().all()]
    note = pairs(fixed, [round(float(table[name].iloc[0]), 12) for name in fixed]) if fixed else ""
    return f"{results.name}: {text}" if results.name else text, note


def _lines(request: Chosen, results: Results, table: pd.DataFrame, path: Path) -> None:
    """Draw a figure of lines into a file. `table` has one line for each point, with means over replicates."""
    view = lines_of(request, results, table)
    title, note = titles(results, table, f"{short(view.y)} against {short(view.x)}")
    plot_lines(table, view, title, note, path)


def _heat(request: Chosen, results: Results, table: pd.DataFrame, path: Path) -> None:
    """Draw a heat map into a file: colours show one column over x and y. `table` is as in `_lines`."""
    heat = str(request.heat)
    check_heat(request, results, table)
    title, note = titles(results, table, f"{short(heat)} over {short(request.x)} and {short(request.y)}")
    plot_heat(table, request.x, request.y, heat, title=title, note=note, path=path)


def check_heat(request: Chosen, results: Results, table: pd.DataFrame) -> None:
    """Raise an InputError if the options of a heat map conflict, or if several points have the same x and y."""
    if request.x == request.y:
        raise InputError(f"--y {request.y}: is --x too; a heat map needs two axes")
    if request.group or request.facet or request.fit:
        raise InputError("--heat: does not go with --group, --facet or --fit")
    free = [axis[0] for axis in results.axes if not covered(axis, [request.x, request.y], table)]
    if free or table.duplicated([request.x, request.y]).any():
        more = f"; {', '.join(free)} varies too" if free else ""
        raise InputError(f"--heat {request.heat}: needs one point for each pair of {request.x} and {request.y}{more}")


def _fit(request: Chosen, results: Results, table: pd.DataFrame, path: Path) -> None:
    """Draw excess risk against x into a file, with two curves that are fitted to all points. The first curve, aφ + bα +
    c/√(θn), has the form of Theorem 4 of the clustering paper. The second curve is aφ² + bα² + c/(θn). Here φ is the
    clusters' heterogeneity, α the flip probability, and θn the number of labels that reach the learner. The legend has
    the fitted constants a, b and c, and each line's slope in a plot of log y against log x.

    Raises:
        InputError: y is not the excess risk, or theory has no curve over x.
    """
    if request.y != "excess_risk" or request.x.rsplit(".", 1)[-1] not in FIT_X or not is_number(table[request.x]):
        raise InputError(f"--fit: needs --y excess_risk and --x one of {', '.join(FIT_X)}, not {request.x}")
    if request.facet:
        raise InputError(f"--fit: does not go with --facet {request.facet}; use --group")
    view = lines_of(request, results, table)
    risk = by_replicate(results.rows, "excess_risk").loc[table[POINT]]
    slopes = _slopes(view, table, risk)
    # fit both forms to all points, with bootstrap intervals over replicates
    try:
        fits = fit_forms(table, risk.to_numpy(), Streams(results.seed, 0).generator("plot-bootstrap"))
    except ValueError as error:
        raise InputError(f"--fit: {error}") from None
    title, note = titles(results, table, f"excess risk against {short(view.x)}, measured and fitted")
    if short(view.x) == "n":
        note = "; ".join(filter(None, [note, _towards_floor(view, table, risk)]))
    free = [fit for fit in fits if set(fit.constants) != {"fixed"}]
    plot_fit(table, view, slopes, free, title=title, note=note, path=path)


def _slopes(view: View, table: pd.DataFrame, risk: pd.DataFrame) -> dict[str, Estimate]:
    """For each line of a figure, by label, the slope of log excess risk against log x, with a 95% interval. A line
    is left out if it has fewer than three values of x above 0, or a mean of 0.

    Args:
        view: the columns along the axes, and the columns that make lines. table: one line for each point. risk: excess
        risk, a row for each point and a column for each replicate.
    """
    slopes = {}
    for line in series(table, view.group):
        part = line.points[line.points[view.x] > 0]
        if part[view.x].nunique() > 2:
            with suppress(ValueError):  # a mean of 0 has no logarithm: the line gets no slope
                slopes[line.label] = log_log_slope(part[view.x].to_numpy(float), risk.loc[part[POINT]].to_numpy())
    return slopes


def _towards_floor(view: View, table: pd.DataFrame, risk: pd.DataFrame) -> str:
    """A note on how excess risk falls with x, the number of users n. The note states the slope -1/2 of the clustering
    paper's Theorem 4. If the floor is known but not reached, and there are at least three values of n, the note also
    states the fitted slope of |excess risk - floor|. The floor is the excess risk that remains with infinitely many
    exchanged labels, computed exactly. `risk` is as in `_slopes`.
    """
    note = "Theorem 4's bound falls with slope -1/2 towards its floor"
    if FLOOR in table and table[FLOOR].notna().all() and table[view.x].nunique() > 2:
        distance = np.abs(risk.to_numpy(float) - table[FLOOR].to_numpy(float)[:, None])
        # where the learner reaches the floor, the distance is 0 or a rounding error, which has no slope
        if distance.mean(axis=1).min() > 1e-12:
            slope = log_log_slope(table[view.x].to_numpy(float), distance)
            note += f"; the measured distance from the exact floor has slope {slope}"
    return note
