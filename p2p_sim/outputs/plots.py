"""Figures of a results directory: which columns to show, checked, then handed to `p2p_sim.analysis.figures`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from p2p_sim.analysis.figures.labels import SAME, pairs, short
from p2p_sim.analysis.figures.sweeps import MOST_FACETS, MOST_SERIES, View, is_number, plot_lines, series
from p2p_sim.analysis.utility.points import HIGH, LOW, POINT, by_replicate, is_privacy, points
from p2p_sim.base.errors import InputError
from p2p_sim.base.files import in_place_of
from p2p_sim.storage.results import Results, check_column, read_results
from p2p_sim.storage.rows import load_results

FORMATS = ("png", "svg", "pdf")
FIT_X = ("heterogeneity", "num_users", "users", "flip_prob", "num_clusters", "min_cluster_size", "max_cluster_size")
"""Last parts of the columns against which theory is fitted."""
_HELD = ("flip_prob", "sampling_rate", "num_users", "heterogeneity")


@dataclass(frozen=True)
class Request:
    """What a user asks for; what is None is chosen for her.

    heat: a column drawn as colours over two axes, x and y. fit: theory beside excess risk.
    """

    x: str | None = None
    y: str | None = None
    group: str | None = None
    facet: str | None = None
    heat: str | None = None
    fit: bool = False
    log_x: bool | None = None
    log_y: bool | None = None


@dataclass(frozen=True)
class Chosen(Request):
    """A request whose axes are known."""

    x: str = ""
    y: str = ""


def plot(
    directory: Path,
    request: Request,
    out: Path | None = None,
    format_: str | None = None,
    rows: pd.DataFrame | None = None,
) -> list[Path]:
    """Draw figures of a results directory: the one asked for, else those its manifest names, else a sensible one.

    Args:
        directory: of `run` or `sweep`.
        request: which columns.
        out: the file, for a single figure; default: plot-<columns>.<format> in the directory.
        format_: png, svg or pdf; default: the ending of `out`, else png.
        rows: of those in the directory, which to show; default: all.

    Returns:
        The files written.

    Raises:
        InputError: a directory that cannot be read, a column that is not there or not fit for its use.
    """
    ending = _ending(out, format_)
    results = read_results(directory)
    results = results if rows is None else replace(results, rows=rows)
    table = points(results.rows, results.keys)
    chosen = replace(request, log_x=None, log_y=None) == Request()
    requests = [request_of(entry, results) for entry in results.plots] if chosen and results.plots else [request]
    if out is not None and len(requests) > 1:
        raise InputError(f"--out {out}: {len(requests)} figures are to be drawn; choose one with --x and --y")
    written = []
    for one in requests:
        one = replace(one, log_x=request.log_x, log_y=request.log_y) if one is not request else one
        full = _full(one, results, table)
        path = out or directory / f"plot-{_file_name(full)}.{ending}"
        try:
            with in_place_of(path) as partial:
                draw(full, results, table, partial)
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None
        written.append(path)
    return written


def draw(request: Request, results: Results, table: pd.DataFrame, path: Path) -> None:
    """Draw one figure.

    Args:
        request: which columns.
        results: what is drawn. table: the points of its rows.
        path: the file, which ends in .png, .svg or .pdf.

    Raises:
        InputError: a column is not there or not fit for its use.
    """
    full = _full(request, results, table)
    (_heat if full.heat else _fit if full.fit else _lines)(full, results, table, path)


def draw_plots(directory: Path, rows: pd.DataFrame | None = None) -> list[Path]:
    """Draw what a finished sweep asks for; nothing where no replicate succeeded. `rows`: those to show, if not all."""
    rows = load_results(directory) if rows is None else rows
    return [] if rows.empty else plot(directory, Request(), rows=rows)


def _ending(out: Path | None, format_: str | None) -> str:
    ending = format_ or (out.suffix[1:] if out else FORMATS[0])
    if ending not in FORMATS:
        given = f"--format {format_}: must be" if format_ else f"--out {out}: must end in"
        raise InputError(f"{given} {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if out is not None and out.suffix[1:] != ending:
        raise InputError(f"--out {out}: must end in .{ending}, the chosen --format")
    if out is not None and not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no directory {out.parent}")
    return ending


def request_of(entry: dict[str, Any], results: Results) -> Request:
    """The figure that a sweep's author asked for.

    Raises:
        InputError: a key is unknown.
    """
    known = ("facet", "fit", "group", "heat", "x", "y")
    wrong = [key for key in entry if key not in known]
    if wrong:
        raise InputError(f"{results.directory}: plots.{wrong[0]} is unknown; allowed are {', '.join(known)}")
    return Request(**{**entry, "fit": bool(entry.get("fit"))})


def _full(request: Request, results: Results, table: pd.DataFrame) -> Chosen:
    """A request with what it leaves open filled in, and checked."""
    full = _heat_defaults(request, results) if request.heat else _defaults(request, results, table)
    _check(full, table)
    return full


def _defaults(request: Request, results: Results, table: pd.DataFrame) -> Chosen:
    """Fill in x and y: excess risk, else accuracy, against ε if it is finite anywhere, else against the first axis."""
    y = request.y or ("excess_risk" if "excess_risk" in table and table["excess_risk"].notna().any() else "accuracy")
    x = request.x
    if x is None and request.fit:
        x = next((key for key in results.keys if key.rsplit(".", 1)[-1] in FIT_X), None)
        if x is None:
            raise InputError(f"--fit: needs --x, one of {', '.join(FIT_X)}; none of these was swept")
    if x is None:
        finite = "epsilon_upper" in table and bool(np.isfinite(table["epsilon_upper"]).any())
        keys = [key for key in results.keys if key not in (request.group, request.facet)]
        x = keys[0] if keys and (is_privacy(y) or not finite) else "epsilon_upper"
    return Chosen(**{**vars(request), "x": x, "y": y})


def _heat_defaults(request: Request, results: Results) -> Chosen:
    """Fill in the two axes of a heat map."""
    keys = [axis[0] for axis in results.axes if not {request.x, request.y} & set(axis)]
    x = request.x or (keys.pop(0) if keys else None)
    y = request.y or (keys.pop(0) if keys else None)
    if x is None or y is None:
        raise InputError(f"--heat {request.heat}: needs two axes, and this sweep has {len(results.axes)}")
    return Chosen(**{**vars(request), "x": x, "y": y})


def _file_name(request: Chosen) -> str:
    parts = [request.heat, "over", request.x, "and", request.y] if request.heat else [request.y, "vs", request.x]
    for word, column in (("by", request.group), ("per", request.facet)):
        parts += [word, column] if column else []
    return "-".join(str(part).replace(".", "_").replace("/", "_") for part in parts) + "-fit" * request.fit


def _check(request: Chosen, table: pd.DataFrame) -> None:
    """Every column is there; what is measured along an axis is a number, with values."""
    names = [str(name) for name in table]
    ends = {name + ending for name in names for ending in (LOW, HIGH) if name + LOW in names}
    known = [name for name in names if name not in (POINT, *ends)]
    for option in ("x", "y", "group", "facet", "heat"):
        name = getattr(request, option)
        if name is not None:
            check_column(f"--{option}", name, known)
    option, name = ("--heat", request.heat) if request.heat else ("--y", request.y)
    if not is_number(table[name]):
        raise InputError(f"{option} {name}: holds text, such as {table[name].iloc[0]!r}; a column of numbers is needed")
    if table[name].isna().all():
        raise InputError(f"{option} {name}: has no value at any of these points")
    if table[request.x].isna().all():
        raise InputError(f"--x {request.x}: has no value at any of these points")


def view_of(request: Request, results: Results, table: pd.DataFrame) -> View:
    """The lines that a request without panels and colours asks for.

    Raises:
        InputError: a column is not there or not fit for its use.
    """
    full = _defaults(request, results, table)
    _check(full, table)
    return _view(full, results, table)


def _view(request: Chosen, results: Results, table: pd.DataFrame) -> View:
    """Which points make a line: along x, or along one axis if x is measured; other axes join the group."""
    named = [column for column in (request.group, request.facet) if column]
    free = [axis[0] for axis in results.axes if not _covered(axis, [*named, request.x], table)]
    along = None
    own = any(request.x in axis for axis in results.axes)
    if (
        not own
        and is_number(table[request.x])
        and (is_privacy(request.x) or not _follows_axis(request.x, results, table))
    ):
        along = max(free, key=lambda key: _reach(key, request.x, free, table), default=None)
    rest = [key for key in free if key != along]
    group = (*((request.group,) if request.group else ()), *rest)
    view = View(request.x, request.y, group, request.facet, along, request.log_x, request.log_y)
    lines, facets = len(series(table, group)), table[request.facet].nunique() if request.facet else 1
    if lines > MOST_SERIES:
        raise InputError(
            f"--group {', '.join(group)}: makes {lines} lines, at most {MOST_SERIES} can be told apart; "
            "put an axis on --facet or use --heat"
        )
    if facets > MOST_FACETS:
        raise InputError(f"--facet {request.facet}: has {facets} values, at most {MOST_FACETS} panels are drawn")
    return view


def _covered(axis: tuple[str, ...], columns: Sequence[str], table: pd.DataFrame) -> bool:
    """Whether an axis is fixed, or shown by one of the columns: itself, or one that says the same in other words."""
    return table[axis[0]].nunique() < 2 or any(
        column in axis or (not is_privacy(column) and _one_to_one(column, axis[0], table)) for column in columns
    )


def _follows_axis(column: str, results: Results, table: pd.DataFrame) -> bool:
    return any(_one_to_one(column, axis[0], table) for axis in results.axes if table[axis[0]].nunique() > 1)


def _one_to_one(one: str, two: str, table: pd.DataFrame) -> bool:
    count = len(table[[one, two]].drop_duplicates()) if one != two else table[one].nunique()
    return count == table[one].nunique(dropna=False) == table[two].nunique(dropna=False)


def _reach(key: str, x: str, free: Sequence[str], table: pd.DataFrame) -> float:
    """How far x moves along an axis while the other free axes are fixed."""
    finite = table[np.isfinite(table[x])]
    others = [other for other in free if other != key]
    if not others or finite.empty:
        return 0.0
    spans = finite.groupby(others, sort=False)[x].agg(["min", "max"])
    return float((spans["max"] - spans["min"]).mean())


def titles(results: Results, table: pd.DataFrame, text: str) -> tuple[str, str]:
    """Heading, and what all points share."""
    shown = {SAME.get(last, last) for last in (key.rsplit(".", 1)[-1] for key in results.keys)}
    held = [name for name in _HELD if name in table and name not in shown and table[name].nunique() == 1]
    note = [pairs(held, [round(float(table[name].iloc[0]), 12) for name in held])] if held else []
    if results.adaptive:
        note.append("replicates added until intervals seemed narrow enough, so they are somewhat too narrow")
    return f"{results.name}: {text}" if results.name else text, "; ".join(note)


def _lines(request: Chosen, results: Results, table: pd.DataFrame, path: Path) -> None:
    view = _view(request, results, table)
    title, note = titles(results, table, f"{short(view.y)} against {short(view.x)}")
    plot_lines(table, view, title, note, path)


def _heat(request: Chosen, results: Results, table: pd.DataFrame, path: Path) -> None:
    from p2p_sim.analysis.figures.heat import plot_heat

    heat = str(request.heat)
    if request.x == request.y:
        raise InputError(f"--y {request.y}: is --x too; a heat map needs two axes")
    if request.group or request.facet or request.fit:
        raise InputError("--heat: does not go with --group, --facet or --fit")
    others = [axis[0] for axis in results.axes if not _covered(axis, [request.x, request.y], table)]
    if others or table.duplicated([request.x, request.y]).any():
        more = f"; {', '.join(others)} varies too" if others else ""
        raise InputError(f"--heat {request.heat}: needs one point for each pair of {request.x} and {request.y}{more}")
    title, note = titles(results, table, f"{short(heat)} over {short(request.x)} and {short(request.y)}")
    plot_heat(table, request.x, request.y, heat, title, note, path)


def _fit(request: Chosen, results: Results, table: pd.DataFrame, path: Path) -> None:
    from p2p_sim.analysis.figures.fits import plot_fit
    from p2p_sim.analysis.utility.scaling import SQUARES, THEOREM4, fit_form, log_log_slope
    from p2p_sim.base.streams import Streams

    if request.y != "excess_risk" or request.x.rsplit(".", 1)[-1] not in FIT_X or not is_number(table[request.x]):
        raise InputError(f"--fit: needs --y excess_risk and --x one of {', '.join(FIT_X)}, not {request.x}")
    if request.facet:
        raise InputError(f"--fit: does not go with --facet {request.facet}; use --group")
    view = _view(request, results, table)
    risk = by_replicate(results.rows, "excess_risk").loc[table[POINT]]
    slopes = {}
    for line in series(table, view.group):
        part = line.points[line.points[view.x] > 0]
        if part[view.x].nunique() > 2:
            try:
                slopes[line.label] = log_log_slope(part[view.x].to_numpy(float), risk.loc[part[POINT]].to_numpy())
            except ValueError:  # a mean of 0 has no logarithm: the line goes without a slope
                continue
    arrived = (table["sampling_rate"] * table["num_users"]).to_numpy(float)
    phi, alpha = (table[name].to_numpy(float) for name in ("heterogeneity", "flip_prob"))
    rng = Streams(results.seed, 0).generator("plot-bootstrap")
    try:
        fits = [fit_form(f, f.terms(phi, alpha, arrived), risk.to_numpy(), rng) for f in (THEOREM4, SQUARES)]
    except ValueError as error:
        raise InputError(f"--fit: {error}") from None
    title, note = titles(results, table, f"excess risk against {short(view.x)}, measured and fitted")
    if short(view.x) == "n":
        note = "; ".join(filter(None, [note, _towards_floor(table, view.x, risk.to_numpy(float))]))
    plot_fit(table, view, slopes, [fit for fit in fits if set(fit.constants) != {"fixed"}], title, note, path)


def _towards_floor(table: pd.DataFrame, x: str, risk: NDArray[np.float64]) -> str:
    """How the distance of the excess risk from its exact floor falls with n, beside what Theorem 4 says."""
    from p2p_sim.analysis.figures.fits import FLOOR
    from p2p_sim.analysis.utility.scaling import log_log_slope

    theory = "Theorem 4's bound falls with slope -1/2 towards its floor"
    if FLOOR not in table or table[FLOOR].isna().any() or table[x].nunique() < 3:
        return theory
    distance = np.abs(risk - table[FLOOR].to_numpy(float)[:, None])
    slope = log_log_slope(table[x].to_numpy(float), distance)
    return f"{theory}; the measured distance from the exact floor, with slope {slope}"
