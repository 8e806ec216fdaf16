"""The figures of a report, each with a caption that says what stands behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from analysis.figures.privacy_utility import plot_privacy_utility
from analysis.figures.report.lines import Lines, lines, plot_lines, shown
from analysis.figures.report.svg import drawn
from analysis.figures.report.text import plain
from analysis.figures.report.words import replicates_text

MOST_FIGURES = 8


@dataclass(frozen=True)
class Picture:
    """A figure: its title, the <svg> element, and what is known of the numbers in it."""

    title: str
    svg: str
    caption: str


def pictures(
    rows: pd.DataFrame,
    points: pd.DataFrame,
    keys: Sequence[str],
    plots: Sequence[Mapping[str, Any]],
    name: str,
) -> list[Picture]:
    """The figures of a run, or those that a sweep asks for; at most eight.

    Args:
        rows: one line a point and replicate. points: one line a point, from `per_point`.
        keys: the swept keys; none: a run. plots: what the sweep asks for. name: of the run.
    """
    if not keys:
        return [_of_run(rows, points, name)]
    done = points[points["replicates"] > 0]
    asked = [_asked(done, keys, plot) for plot in plots] or _usual(done, keys)
    drawable = [what for what in asked if what is not None and len(shown(done, what))][:MOST_FIGURES]
    return [_of_sweep(done, what, f"figure-{number}-") for number, what in enumerate(drawable, 1)]


def _of_run(rows: pd.DataFrame, points: pd.DataFrame, name: str) -> Picture:
    quantity = "Excess risk" if rows["excess_risk"].notna().all() else "Accuracy"
    title = f"{quantity} beside every ε one could state for it"
    caption = (
        f"{title}. Mean over {replicates_text(points['replicates'].tolist())}; {_bars(points)}. Each ε is the largest over "
        "clusters and replicates. Dashed: the same learner without privacy."
    )
    heading = plain(name).replace("$", r"\$")
    svg = drawn(partial(_run_figure, rows, heading), "figure-1-", caption)
    return Picture(title, svg, caption)


def _run_figure(rows: pd.DataFrame, heading: str, path: Any) -> None:
    plot_privacy_utility(rows, heading, path)


def _asked(points: pd.DataFrame, keys: Sequence[str], plot: Mapping[str, Any]) -> Lines | None:
    """A figure that the sweep asks for, if it can be drawn from the points' table."""
    x, y, group = plot.get("x"), {"error_rate": "accuracy"}.get(str(plot.get("y")), plot.get("y")), plot.get("group")
    if x not in points or y not in points or (group is not None and group not in points):
        return None
    if not pd.api.types.is_numeric_dtype(points[y]):
        return None
    return lines(points, keys, str(x), str(y), group)


def _usual(points: pd.DataFrame, keys: Sequence[str]) -> list[Lines | None]:
    """What is learned, and ε, along the first axis that is a number, by the next that is none or short."""
    varying = [key for key in keys if points[key].nunique() > 1] or list(keys[:1])
    numeric = [key for key in varying if pd.api.types.is_numeric_dtype(points[key])]
    x = (numeric or varying)[0]
    others = sorted((key for key in varying if key != x), key=lambda key: points[key].nunique())
    group = others[0] if others else None
    quality = "excess_risk" if points["excess_risk"].notna().all() else "accuracy"
    return [lines(points, keys, x, y, group) for y in (quality, "epsilon_upper")]


def _of_sweep(points: pd.DataFrame, what: Lines, prefix: str) -> Picture:
    part = shown(points, what)
    behind = f"Each point stands for {replicates_text(part['replicates'].tolist())}"
    kind = _bars(part) if f"{what.y}_low" in part else "the largest over clusters and replicates, not a mean"
    held = "".join(f"; {plain(key)} = {plain(value)}" for key, value in what.held)
    caption = f"{what.title}. {behind}: {kind}." + (f" Held{held[1:]}." if held else "")
    title = what.title[0].upper() + what.title[1:]
    return Picture(title, drawn(partial(plot_lines, points, what), prefix, caption), caption[0].upper() + caption[1:])


def _bars(points: pd.DataFrame) -> str:
    if (points["replicates"] < 2).all():
        return "the mean, without an interval"
    return "mean and 95% confidence interval (Student's t)"
