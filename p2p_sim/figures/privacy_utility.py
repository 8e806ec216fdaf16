"""Figures of a model's quality against ε: of a single scenario, and of the trials of a search for settings."""

import math
import textwrap
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from p2p_sim.base import bound_text, count
from p2p_sim.figures.column_labels import long, loss_text, short
from p2p_sim.figures.style import COLOURS, GREY, MARKERS, drawing, inches
from p2p_sim.measures import Mean, mean_interval, quality

STATEMENTS = (
    ("epsilon_upper", "{name}, worst cluster ({basis})"),
    ("epsilon_coalition_upper", "{name}: the learner with the coalition"),
    ("epsilon_paper", "{name}: the paper's Theorem 1"),
    ("epsilon_paper_lemma9", "{name}: the paper's Lemma 9"),
    ("epsilon_local", "{name}: counting only the noise on each label, ε₀"),
)


def plot_privacy_utility(rows: pd.DataFrame, title: str, path: Path) -> None:
    """Draw the quality of one result against every ε that somebody could state for it. Examples are the ε of the worst
    cluster, the ε against a coalition, and the ε by a formula of the clustering paper (Esfandiari et al.). Another
    example is ε₀, which counts only the noise on a label. All marks have the same height.

    The quality is excess risk if the law of the data (their distribution) is known, else accuracy. For a released
    density (a histogram of the users' features), the quality is half the L1 error. If this error is unknown, the
    quality is the number of cells.

    Args:
        rows: result rows of a single scenario, one for each replicate. title: the scenario's name. path: of the figure.
    """
    with drawing(path) as (figure, [axes]):
        draw_privacy_utility(axes, rows)
        axes.set_title(f"{title}: one result, and the ε one could state for it")
        figure.legend(loc="outside lower left", fontsize=9)


def draw_privacy_utility(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw the figure of `plot_privacy_utility` on given axes, without title and legend.

    Args:
        axes: to draw on. rows: result rows of a single scenario, one for each replicate, as data frame.
    """
    measure = _measure(rows)
    value = mean_interval(measure.values)
    # the level without privacy, with its interval
    if measure.references.notna().all():
        reference = mean_interval(measure.references)
        axes.axhspan(*_ends(reference), color=GREY, alpha=0.2, linewidth=0)
        axes.axhline(reference.value, color=GREY, linestyle="--", label=f"without privacy: {reference.value:.3f}")
    # a thin line at the quality of a prediction without features; rows of earlier versions lack its column
    column = "constant_excess_risk" if measure.excess else "majority_error_rate"
    if column in rows and rows[column].notna().all():
        mean = float(rows[column].astype(float).mean())
        level, text = (mean, "best constant") if measure.excess else (1.0 - mean, "always saying the majority class")
        axes.axhline(level, color=GREY, linestyle=":", linewidth=1.0, label=f"{text}: {level:.3f}")
    # the same quality at every ε that one could state, joined by a line
    stated = statements(rows)
    low, high = _ends(value)
    for index, (text, epsilon) in enumerate(stated.items()):
        axes.errorbar(
            [epsilon], [value.value], yerr=[[value.value - low], [high - value.value]], fmt=MARKERS[index],
            color=COLOURS[index], capsize=4, markersize=8, label=f"{text}: ε = {bound_text(epsilon, up=True)}",
        )  # fmt: skip
    if len(stated) > 1:
        axes.plot([min(stated.values()), max(stated.values())], [value.value] * 2, color=GREY, linewidth=0.8, zorder=0)
    # space on the left and right of the marks, and plain numbers as ticks
    axes.set_xscale("log")
    if stated:
        axes.set_xlim(min(stated.values()) / 3.0, max(stated.values()) * 2.0)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    adjacency = {"label": "label", "example": "whole-row"}.get(str(rows["adjacency"].iloc[0]), "each mechanism's")
    text = f"ε at δ = {rows['delta'].iloc[0]:g}, by observer, {adjacency} adjacency (log scale)"
    if np.isinf(rows["epsilon_upper"].fillna(math.inf).astype(float)).any():
        text += "; for the learner no finite ε is known"
    axes.set(xlabel=textwrap.fill(text, int(14 * inches(axes)[0])), ylabel=measure.label)
    bars = "95% confidence intervals" if value.replicates > 1 else "no interval"
    axes.text(
        0.99, 0.02, f"{count(value.replicates, 'replicate')}, {bars}",
        transform=axes.transAxes, ha="right", fontsize=8, color=GREY,
    )  # fmt: skip
    axes.margins(y=0.25)


class _Measure(NamedTuple):
    """The quality of the model in each replicate.

    values: with privacy. references: without privacy. label: label of the axis. excess: whether the quality is excess
    risk. Excess risk is compared with the excess risk of the best constant prediction.
    """

    values: pd.Series
    references: pd.Series
    label: str
    excess: bool = False


def _measure(rows: pd.DataFrame) -> _Measure:
    """The quality in each replicate, with and without privacy, and the label of its axis. `plot_privacy_utility`
    explains the kinds of quality. A quality without privacy that was not measured is a missing value.

    Args:
        rows: result rows of one scenario, one for each replicate.
    """
    column = quality(rows)
    if column == "excess_risk":
        return _Measure(rows[column], rows["nonprivate_excess_risk"], f"excess risk ({loss_text(rows)})", excess=True)
    if column != "accuracy":
        return _Measure(rows[column], rows[f"nonprivate_{column}"], long(column, rows))
    return _Measure(
        values=1.0 - rows["error_rate"],
        references=1.0 - rows["nonprivate_error_rate"].astype(float),
        label="accuracy on the holdout",
    )


def statements(rows: pd.DataFrame) -> dict[str, float]:
    """Every ε that could be stated for one scenario's result, with a text that names the ε as its key.

    Each ε is the largest over the replicates. An ε that is 0, infinite, or missing in a row is left out.

    Args:
        rows: result rows of one scenario, one for each replicate.
    """
    stated = {}
    for column, text in STATEMENTS:
        values = rows[column].astype(float) if column in rows else pd.Series([math.nan])
        worst = float(values.max())
        if values.notna().all() and math.isfinite(worst) and worst > 0:
            name = str(rows["mechanism"].iloc[0]).replace("_", " ")
            stated[text.format(name=name, basis=rows["basis"].iloc[0])] = worst
    return stated


def _ends(mean: Mean) -> tuple[float, float]:
    """The lower and upper end of the confidence interval of a mean over replicates. A single replicate has no interval:
    both ends are then the mean itself.
    """
    return (mean.low, mean.high) if mean.replicates > 1 else (mean.value, mean.value)


def plot_search(trials: pd.DataFrame, column: str, *, more: bool, least_epsilon: bool, title: str, path: Path) -> None:
    """Draw the trials of a search for settings in two panels. The first shows the value of each trial in its order,
    with the best so far. The second shows the scores against ε. A line joins the trials that no other trial beats in
    both score and ε.

    Args:
        trials: one row for each trial. The column trial is its number. state is "finished" if all replicates ran.
        epsilon_upper is the largest ε over replicates. meets_goal says whether the trial meets the goal. look names the
        data that the search used: "public", "released", "curator" or "oracle". With "oracle" the search saw true
        labels, and no ε covers this. column: name of the column with the mean score. more: whether a higher score is
        better. least_epsilon: whether the search is for the smallest ε, which the first panel then shows. Otherwise the
        search is for the best score. title: the goal. path: of the figure.
    """
    look = str(trials["look"].iloc[0])
    note = {"oracle": "This search looked at true labels, which no ε here counts."}.get(look, f"Look: {look}.")
    with drawing(path, width=9.6, panels=2, title=title, note=note) as (_, [progress, trade_off]):
        draw_progress(progress, trials, "epsilon_upper" if least_epsilon else column, more and not least_epsilon)
        draw_front(trade_off, trials, column, more)


def draw_progress(axes: Axes, trials: pd.DataFrame, column: str, more: bool) -> None:
    """Draw every trial's value in a column, and the best so far among the trials that meet the goal. NaN is not
    drawn.

    Args:
        axes: to draw on. trials: one row for each trial, with the columns trial (its number) and meets_goal. column:
        name of the values' column. more: whether a higher value is better.
    """
    meets = trials["meets_goal"].to_numpy(bool)
    values = trials[column].to_numpy(float)
    axes.plot(trials["trial"][~meets], values[~meets], "x", color=GREY, label="stopped, or does not meet the goal")
    axes.plot(trials["trial"][meets], values[meets], "o", color=COLOURS[0], label="meets the goal")
    if meets.any():
        allowed = np.where(meets, values, -np.inf if more else np.inf)
        # a missing value (NaN) leaves the best so far as it is
        best = np.fmax.accumulate(allowed) if more else np.fmin.accumulate(allowed)
        begun = np.isfinite(best)
        axes.step(trials["trial"][begun], best[begun], where="post", color=COLOURS[1], label="best so far")
    axes.set(xlabel="trial", ylabel=short(column))
    axes.legend(fontsize=8)


def draw_front(axes: Axes, trials: pd.DataFrame, column: str, more: bool) -> None:
    """Draw the finished trials' scores against ε, and a line through the trials that no other beats in score and ε.
    Trials without a finite ε are left out.

    Args:
        axes: to draw on. trials: one row for each trial, with the columns state and epsilon_upper (largest ε over
        replicates). column: name of the score's column. more: whether a higher score is better.
    """
    finished = trials[trials["state"] == "finished"]
    finished = finished[np.isfinite(finished["epsilon_upper"].astype(float))]
    epsilon, values = finished["epsilon_upper"].to_numpy(float), finished[column].to_numpy(float)
    axes.plot(epsilon, values, "o", color=GREY, label="trials with all replicates")
    best = front(epsilon, values, more)
    axes.step(epsilon[best], values[best], "o-", where="post", color=COLOURS[1], label="front")
    axes.set(xlabel="certified ε, largest over replicates", ylabel=short(column))
    axes.legend(fontsize=8)


def front(epsilon: np.ndarray, values: np.ndarray, more: bool) -> list[int]:
    """Indices of the points that no other point equals or beats in both ε and value, in ascending order of ε. Of
    several equal points, one counts.

    A smaller ε is better. A higher value is better if `more` is true, else a smaller value.

    >>> front(np.array([0.2, 0.1, 0.3]), np.array([0.8, 0.7, 0.6]), True)
    [1, 0]
    """
    # by ascending ε, a point is kept if its value is better than all values before
    signed = -values if more else values
    order = np.lexsort((signed, epsilon))
    before = np.minimum.accumulate(np.append(np.inf, signed[order]))[:-1]
    return [int(position) for position in order[signed[order] < before]]
