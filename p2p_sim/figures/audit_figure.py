"""The figure of an audit in one run: what no test can beat, what is certified, and what the attack reached."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from p2p_sim.figures.style import COLOURS, GREY, drawing
from p2p_sim.privacy.audit_statistics.one_run_plan import Drawn
from p2p_sim.privacy.binomial_windows import Floats


def plot_attacked(curves: Mapping[str, Floats], type_one: Floats, drawn: Drawn, title: str, path: Path) -> None:
    """Draw type II errors against type I errors of a test of one label against the other.

    Args:
        curves: by their names, least type II errors at `type_one`. drawn: what the attack reached.
        title: above the axes. path: of the figure; it ends in .png, .pdf or .svg.
    """
    with drawing(path, 6.2, 5.4, title=title) as (_, [axes]):
        axes.plot([0.0, 1.0], [1.0, 0.0], color=GREY, linewidth=0.8, label="no information")
        for (name, errors), colour in zip(curves.items(), COLOURS[1:], strict=False):
            axes.plot(type_one, errors, color=colour, label=name, linestyle="--" if "paper" in name else "-")
        reached = np.clip(drawn.type_one, 0.0, 1.0), np.clip(drawn.type_two, 0.0, 1.0)
        axes.plot(*reached, "o", color=COLOURS[0], markersize=4, label="attack, as counted")
        order = np.argsort(drawn.type_one_upper)
        most = drawn.type_one_upper[order], drawn.type_two_upper[order]
        axes.plot(*most, color=COLOURS[0], linewidth=1.2, label="attack, end of its confidence band")
        axes.set(xlabel="type I error", ylabel="type II error", xlim=(0.0, 1.0), ylim=(0.0, 1.0))
        axes.legend(loc="upper right", fontsize=9)
