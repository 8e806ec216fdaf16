"""The figure of a search: the best so far by trial, and the front between ε and what is learned."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from p2p_sim.figures.column_labels import short
from p2p_sim.figures.style import COLOURS, GREY, drawing


def plot_search(trials: pd.DataFrame, column: str, more: bool, least_epsilon: bool, title: str, path: Path) -> None:
    """Draw a search.

    Args:
        trials: one row a trial, with trial, state, epsilon_upper, meets_goal, look and the score's column.
        column: of the score. more: whether more of it is better.
        least_epsilon: whether the search is for the least ε; otherwise it is for the best score.
        title: the goal. path: the file.
    """
    look = str(trials["look"].iloc[0])
    note = {"oracle": "This search looked at true labels, which no ε here counts."}.get(look, f"Look: {look}.")
    with drawing(path, width=9.6, panels=2, title=title, note=note) as (_, [left, right]):
        draw_progress(left, trials, "epsilon_upper" if least_epsilon else column, more and not least_epsilon)
        draw_front(right, trials, column, more)


def draw_progress(axes: Axes, trials: pd.DataFrame, column: str, more: bool) -> None:
    """Every trial's figure, and the best so far among those that meet the goal."""
    meets = trials["meets_goal"].to_numpy(bool)
    values = trials[column].to_numpy(float)
    axes.plot(trials["trial"][~meets], values[~meets], "x", color=GREY, label="stopped, or does not meet the goal")
    axes.plot(trials["trial"][meets], values[meets], "o", color=COLOURS[0], label="meets the goal")
    if meets.any():
        worst = -np.inf if more else np.inf
        allowed = np.where(meets, values, worst)
        best = np.maximum.accumulate(allowed) if more else np.minimum.accumulate(allowed)
        begun = np.isfinite(best)
        axes.step(trials["trial"][begun], best[begun], where="post", color=COLOURS[1], label="best so far")
    axes.set_xlabel("trial")
    axes.set_ylabel(short(column))
    axes.legend(fontsize=8)


def draw_front(axes: Axes, trials: pd.DataFrame, column: str, more: bool) -> None:
    """The finished trials over ε, and those that no other trial beats in both."""
    done = trials[trials["state"] == "finished"]
    done = done[np.isfinite(done["epsilon_upper"].astype(float))]
    epsilon, values = done["epsilon_upper"].to_numpy(float), done[column].to_numpy(float)
    axes.plot(epsilon, values, "o", color=GREY, label="trials with all replicates")
    place = front(epsilon, values, more)
    axes.step(epsilon[place], values[place], "o-", where="post", color=COLOURS[1], label="front")
    axes.set_xlabel("certified ε, largest over replicates")
    axes.set_ylabel(short(column))
    axes.legend(fontsize=8)


def front(epsilon: np.ndarray, values: np.ndarray, more: bool) -> list[int]:
    """Places of the points that no other point beats in both ε and value, in ascending order of ε.

    >>> front(np.array([0.2, 0.1, 0.3]), np.array([0.8, 0.7, 0.6]), True)
    [1, 0]
    """
    sign = -1.0 if more else 1.0
    found: list[int] = []
    for place in np.lexsort((sign * values, epsilon)):
        if not found or sign * values[place] < sign * values[found[-1]]:
            found.append(int(place))
    return found
