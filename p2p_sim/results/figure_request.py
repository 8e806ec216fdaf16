"""Chooses those columns of a figure that a request leaves open."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from p2p_sim.base import InputError
from p2p_sim.figures import MOST_FACETS, MOST_SERIES, View, is_number, series
from p2p_sim.measures import HIGH, LOW, POINT, is_privacy, quality
from p2p_sim.results.results_directory import Results, check_column

FIT_X = ("heterogeneity", "num_users", "users", "flip_prob", "num_clusters", "min_cluster_size", "max_cluster_size")
"""Theory has a curve of excess risk over each of these columns. Each text is the last part of a column's dotted name.
"""


@dataclass(frozen=True)
class FigureRequest:
    """The columns that are named for a figure.

    x, y: columns along the axes; None: a column is chosen. group: a column; each of its values has a line. facet: a
    column; each of its values has a panel. heat: a column that is drawn as colours over x and y. fit: whether curves of
    theory are fitted to excess risk and drawn.
    """

    x: str | None = None
    y: str | None = None
    group: str | None = None
    facet: str | None = None
    heat: str | None = None
    fit: bool = False

    def expand(self, results: Results) -> "list[FigureRequest]":
        """The figures to draw. An empty request stands for all figures that are listed in the sweep's file, if any.
        Otherwise the request itself is the only figure.

        Raises:
            InputError: a figure in the sweep's file has an unknown key.
        """
        authors = results.plots if self == FigureRequest() else ()
        return [request_of(entry, results) for entry in authors] or [self]


@dataclass(frozen=True)
class Chosen(FigureRequest):
    """A figure request in which both axes are named."""

    x: str = ""
    y: str = ""

    @property
    def file_stem(self) -> str:
        """The name of the figure's file without ending, with the columns: plot-error_rate-vs-epsilon_upper."""
        parts = [self.heat, "over", self.x, "and", self.y] if self.heat else [self.y, "vs", self.x]
        for word, column in (("by", self.group), ("per", self.facet)):
            parts += [word, column] if column else []
        return "-".join(str(part).replace(".", "_").replace("/", "_") for part in ("plot", *parts)) + "-fit" * self.fit


def request_of(entry: dict[str, Any], results: Results) -> FigureRequest:
    """The figure that a sweep's file asks for in one of its `plots`, a mapping from x, y, group, ... to columns.

    Raises:
        InputError: a key is unknown.
    """
    allowed = ("facet", "fit", "group", "heat", "x", "y")
    wrong = [key for key in entry if key not in allowed]
    if wrong:
        raise InputError(f"{results.directory}: plots.{wrong[0]} is unknown; allowed are {', '.join(allowed)}")
    return FigureRequest(**{**entry, "fit": bool(entry.get("fit"))})


def filled(request: FigureRequest, results: Results, table: pd.DataFrame) -> Chosen:
    """The request with both axes named, and checked. A column is chosen for an axis that the request does not name. In
    a heat map this is a swept key. In other figures y becomes the measure of utility, and x becomes ε or a swept key.

    Args:
        request: the columns that are named for the figure. results: the results, with the swept keys that may be
        chosen. table: one line for each point (a combination of swept values), with means over replicates.

    Raises:
        InputError: a column is missing, or not suitable for its use.
    """
    if request.heat:
        # in a heat map, axes that the request does not name get the first swept keys
        keys = [axis[0] for axis in results.axes if not {request.x, request.y} & set(axis)]
        x = request.x or (keys.pop(0) if keys else None)
        y = request.y or (keys.pop(0) if keys else None)
        if x is None or y is None:
            raise InputError(f"--heat {request.heat}: needs two axes, and this sweep has {len(results.axes)}")
    else:
        risk = "excess_risk" in table and table["excess_risk"].notna().any()
        y = request.y or ("excess_risk" if risk else quality(table))
        x = _usual_x(request, y, results, table) if request.x is None else request.x
    full = Chosen(**{**vars(request), "x": x, "y": y})
    _check(full, table)
    return full


def _usual_x(request: FigureRequest, y: str, results: Results, table: pd.DataFrame) -> str:
    """The column along x for a request that names none; `y` is the column along the other axis. If curves of theory are
    fitted, this is the first swept key for which theory has a curve. Without such a key, an InputError is raised.

    Otherwise the column is usually ε. If y is a measure of privacy, or no ε is finite, the column is the first swept
    key that makes neither lines nor panels. Without such a key, the column is ε.
    """
    if request.fit:
        fitting = [key for key in results.keys if key.rsplit(".", 1)[-1] in FIT_X]
        if not fitting:
            raise InputError(f"--fit: needs --x, one of {', '.join(FIT_X)}; none of these was swept")
        return fitting[0]
    finite = "epsilon_upper" in table and bool(np.isfinite(table["epsilon_upper"]).any())
    keys = [key for key in results.keys if key not in (request.group, request.facet)]
    return keys[0] if keys and (is_privacy(y) or not finite) else "epsilon_upper"


def _check(request: Chosen, table: pd.DataFrame) -> None:
    """Raise an InputError unless the table has a request's columns, at least one value of x, and numbers in the
    measured column. The measured column is `heat` in a heat map, and y in other figures.
    """
    names = list(map(str, table))
    ends = {name + ending for name in names for ending in (LOW, HIGH) if name + LOW in names}
    columns = [name for name in names if name not in (POINT, *ends)]
    for option in ("x", "y", "group", "facet", "heat"):
        if (name := getattr(request, option)) is not None:
            check_column(f"--{option}", name, columns)
    measured = ("--heat", request.heat) if request.heat else ("--y", request.y)
    option, name = measured
    if not is_number(table[name]):
        raise InputError(f"{option} {name}: holds text, such as {table[name].iloc[0]!r}; a column of numbers is needed")
    for option, name in (measured, ("--x", request.x)):
        if table[name].isna().all():
            raise InputError(f"{option} {name}: has no value at any of these points")


def view_of(request: FigureRequest, results: Results, table: pd.DataFrame) -> View:
    """The columns of a figure of lines: x, y, and the columns whose values make lines and panels. A column that the
    request does not name is chosen.

    Args:
        request: the columns that are named for the figure. results: the swept keys. table: one line for each point.

    Raises:
        InputError: a column is missing or not suitable for its use, or there are too many lines or panels.
    """
    return lines_of(filled(request, results, table), results, table)


def lines_of(request: Chosen, results: Results, table: pd.DataFrame) -> View:
    """The columns of a figure of lines, from a request that names both axes.

    Each line joins its points in the order of a column. If x is a swept key, this column is x. If x is a result, such
    as ε, this column is the swept key along which x changes most. There is one exception: a result that is no measure
    of privacy may correspond one to one to a swept key. Then this column is x. Every other swept key with several
    values makes lines, unless x or a named column shows the key already.

    Args:
        request: the named columns. results: the swept keys. table: one line for each point.

    Raises:
        InputError: there are more lines or panels than can be distinguished.
    """
    named = [column for column in (request.group, request.facet) if column]
    # x, lines and panels do not show these swept keys; a line may follow one key, and the other keys make lines
    free = [axis[0] for axis in results.axes if not covered(axis, [*named, request.x], table)]
    along = _choose_path(request.x, results, table, free=free)
    group = (*((request.group,) if request.group else ()), *(key for key in free if key != along))
    view = View(request.x, request.y, group, request.facet, along)
    lines, facets = len(series(table, group)), table[request.facet].nunique() if request.facet else 1
    if lines > MOST_SERIES:
        raise InputError(
            f"--group {', '.join(group)}: makes {lines} lines, at most {MOST_SERIES} can be told apart; "
            "put an axis on --facet or use --heat"
        )
    if facets > MOST_FACETS:
        raise InputError(f"--facet {request.facet}: has {facets} values, at most {MOST_FACETS} panels are drawn")
    return view


def _choose_path(x: str, results: Results, table: pd.DataFrame, *, free: Sequence[str]) -> str | None:
    """The swept key in whose order the points of a line are joined; None: the order of x. `free`: swept keys that x,
    lines and panels do not show. Along the chosen key, x changes most.
    """
    if any(x in axis for axis in results.axes) or not is_number(table[x]):
        return None
    # x is a measured column; if it corresponds one to one to a swept key, a line follows x
    varied = [axis[0] for axis in results.axes if table[axis[0]].nunique() > 1]
    if not is_privacy(x) and any(_one_to_one(x, key, table) for key in varied):
        return None
    # otherwise a line follows the swept key along which x changes most
    return max(free, key=lambda key: _reach(key, x, free, table), default=None)


def covered(axis: tuple[str, ...], columns: Sequence[str], table: pd.DataFrame) -> bool:
    """Whether a figure needs no separate lines for the values of a swept axis (one key, or several that change
    together). No lines are needed if the axis has only one value, or if one of the columns is a key of the axis. No
    lines are needed either if a column corresponds one to one to the axis. This last case excludes measures of privacy,
    such as ε.

    Args:
        axis: the axis's keys. columns: columns along x, or that make lines or panels. table: one line for each point.
    """
    return table[axis[0]].nunique() < 2 or any(
        column in axis or (not is_privacy(column) and _one_to_one(column, axis[0], table)) for column in columns
    )


def _one_to_one(first: str, second: str, table: pd.DataFrame) -> bool:
    """Whether the values of two columns correspond one to one."""
    pairs = table[list(dict.fromkeys([first, second]))].drop_duplicates()
    return len(pairs) == table[first].nunique(dropna=False) == table[second].nunique(dropna=False)


def _reach(key: str, x: str, free: Sequence[str], table: pd.DataFrame) -> float:
    """How much x changes along one swept key while the other keys in `free` are fixed. This is the largest minus the
    smallest x, averaged over all combinations of the other keys' values. The result is 0 if there is no other key, or
    no finite x.
    """
    finite = table[np.isfinite(table[x])]
    others = [axis for axis in free if axis != key]
    if not others or finite.empty:
        return 0.0
    spans = finite.groupby(others, sort=False)[x].agg(["min", "max"])
    return float((spans["max"] - spans["min"]).mean())
