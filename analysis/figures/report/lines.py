"""The figure of a sweep: a column against an axis, a line for each value of another, means with intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes

from analysis.figures.report.text import plain
from analysis.figures.style import COLOURS, MARKERS, RC, new_figure

MOST_LINES, MOST_MARKERS = len(COLOURS), 60
LABELS = {
    "accuracy": "accuracy",
    "lost_accuracy": "accuracy lost to privacy",
    "excess_risk": "excess risk (log loss, nats)",
    "epsilon_upper": "ε, learner (upper bound)",
    "effective_sampling_rate": "labels that arrive, share",
}


@dataclass(frozen=True)
class Lines:
    """What to draw. x, y: columns of the points' table; group: a line each; held: other axes, at one value each."""

    x: str
    y: str
    group: str | None
    held: tuple[tuple[str, Any], ...]

    @property
    def title(self) -> str:
        """What it shows, in a line."""
        return f"{label(self.y)} against {label(self.x)}" + (f", by {label(self.group)}" if self.group else "")


def label(name: str) -> str:
    """A column's name on an axis."""
    return LABELS.get(name, plain(name))


def lines(points: pd.DataFrame, keys: Sequence[str], x: str, y: str, group: str | None = None) -> Lines:
    """A figure of points that differ in x and group alone; all other keys are held at their first value."""
    held = [(key, points[key].iloc[0]) for key in keys if key not in (x, group) and points[key].nunique() > 1]
    return Lines(x, y, group, tuple(held))


def shown(points: pd.DataFrame, what: Lines) -> pd.DataFrame:
    """The points that a figure shows."""
    for key, value in what.held:
        points = points[points[key] == value]
    if what.group is not None:
        first = list(dict.fromkeys(points[what.group]))[:MOST_LINES]
        points = points[points[what.group].isin(first)]
    return points[points[what.y].astype(float).map(math.isfinite)]


def plot_lines(points: pd.DataFrame, what: Lines, path: Path) -> None:
    """Draw it.

    Args:
        points: one line a point, as `per_point` gives them. path: where it goes; its ending decides the format.
    """
    chosen = shown(points, what)
    with rc_context(RC):
        figure = new_figure()
        axes = figure.add_subplot()
        place = _horizontal(axes, chosen[what.x])
        groups = [("", chosen)] if what.group is None else list(chosen.groupby(what.group, sort=False))
        for index, (name, part) in enumerate(groups):
            text = f"{label(what.group)} = {_harmless(plain(name))}" if what.group is not None else None
            _line(axes, place[part.index], part, what.y, index, text)
        axes.set_xlabel(_harmless(label(what.x)))
        axes.set_ylabel(_harmless(label(what.y)))
        if what.group is not None and len(groups):
            figure.legend(loc="outside right upper", fontsize=8)
        figure.savefig(path)


def _horizontal(axes: Axes, values: pd.Series) -> pd.Series:
    """Where points lie: at their number, on a log scale if they span much, or one after another."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        numbers = values.astype(float)
        if len(numbers) and numbers.min() > 0 and numbers.max() > 20 * numbers.min():
            axes.set_xscale("log")
        return numbers
    names = list(dict.fromkeys(values))
    axes.set_xticks(range(len(names)), [_harmless(plain(name, 24)) for name in names])
    if len(names) > 4:
        axes.tick_params(axis="x", labelrotation=30)
    return values.map({name: position for position, name in enumerate(names)}).astype(float)


def _line(axes: Axes, x: pd.Series, part: pd.DataFrame, y: str, index: int, text: str | None) -> None:
    order = np.argsort(x.to_numpy(), kind="stable")
    across, values = x.to_numpy()[order], part[y].to_numpy(dtype=float)[order]
    colour, marker = COLOURS[index], MARKERS[index] if len(part) <= MOST_MARKERS else None
    if f"{y}_low" in part:
        low, high = (part[f"{y}_{end}"].to_numpy(dtype=float)[order] for end in ("low", "high"))
        axes.fill_between(across, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(across, values, color=colour, marker=marker, markersize=5, linewidth=1.4, label=text)


def _harmless(text: str) -> str:
    """Text in which a dollar is a dollar, not the begin of a formula."""
    return text.replace("$", r"\$")
