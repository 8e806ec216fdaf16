"""What learners gain by knowing the law of the noise, and what the exchange then still loses to randomised response.

Run as `python -m analysis.learners`; the same command continues a stopped run.
"""

from pathlib import Path

import pandas as pd

from analysis.study import EPSILON, Frame, command, curves, with_ends
from p2p_sim.figures import Panel, plot_panels
from p2p_sim.measures import mean_interval

NAME = "learners"
PANELS = {
    "digits": "digits, ten classes",
    "breast-cancer": "breast cancer, two classes",
    "synthetic": "a known law, φ = 0.2",
}
REDUCED = {
    "digits": ("replicates=2", "clusters.count=4", 'population.task="even-odd"'),
    "breast-cancer": ("replicates=2",),
    "synthetic": ("replicates=2", "population.users=2000"),
}
"""What a test changes in each panel's sweep."""
EXCHANGE, LOCAL, PLAIN = "label exchange", "randomised response", "plain"
DRAWN = (PLAIN, "forward", "clusters and features")
"""Learners in the figure; the table has all learners."""


def main(frame: Frame) -> list[Path]:
    """Compares learners that know the law of the labels' noise ("forward", "clusters and features") with a plain
    learner. All learners use the same releases of the label exchange and of randomised response, at several ε. Returns
    the files of a figure and two tables. One table has the accuracy at all points (ε, mechanism and learner). The other
    table has differences of accuracies.

    Args:
        frame: runs the study and writes its files.
    """
    sweeps = {name: frame.swept(f"{NAME}/{name}.toml", REDUCED[name]) for name in PANELS}
    tables = {name: sweep.points for name, sweep in sweeps.items()}
    gaps = [{"panel": name, **line} for name, sweep in sweeps.items() for line in _gaps(sweep.rows)]
    panels = []
    for name, table in tables.items():
        drawn = table[table["learner"].isin(DRAWN)]
        lines = curves(drawn.assign(line=drawn["mechanism"] + ", " + drawn["learner"]), EPSILON, "accuracy", "line")
        panels.append(Panel("target ε", "accuracy", lines, log_x=False, log_y=False, title=PANELS[name]))
    counts = ", ".join(f"{table['replicates'].min()} ({name})" for name, table in tables.items())
    note = f"Bands: 95% intervals; replicates a point: {counts}. δ = 1e-6 for the exchange."
    columns = ("mechanism", "learner", EPSILON, "epsilon_upper", "delta")
    return [
        frame.figure(plot_panels, panels, "learners.png", note),
        frame.points(tables, columns, ("accuracy", "nonprivate_accuracy", "excess_risk")),
        frame.table("gaps.csv", gaps),
    ]


def _gaps(rows: pd.DataFrame) -> list[dict[str, object]]:
    """A row for each ε and learner: three differences of accuracy on the same users, with 95% intervals.

    to_plain: randomised response with the plain learner, minus the exchange with the row's learner.
    to_same: randomised response minus the exchange, both with the row's learner.
    gain: the row's learner minus the plain learner, both on the exchange.
    rows: results of one sweep, a row for each mechanism, learner, ε and replicate.
    """
    lines = []
    error = rows.pivot_table(index=[EPSILON, "replicate"], columns=["mechanism", "learner"], values="error_rate")
    for epsilon, part in error.groupby(level=0):
        for learner in part[EXCHANGE].columns:
            ours = part[EXCHANGE, learner]
            line: dict[str, object] = {EPSILON: epsilon, "learner": learner, "replicates": len(part)}
            for name, reference, sign in (
                ("to_plain", part[LOCAL, PLAIN], 1.0),
                ("to_same", part[LOCAL, learner], 1.0),
                ("gain", part[EXCHANGE, PLAIN], -1.0),
            ):
                line |= with_ends(name, mean_interval(sign * (ours - reference)))
            lines.append(line)
    return lines


if __name__ == "__main__":
    command(NAME, main)
