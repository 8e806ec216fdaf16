"""What learners gain that know the noise, and how far the exchange then is from randomised response.

Run as `python -m analysis.learners`; interrupted, it goes on where it stopped.
"""

from pathlib import Path

import pandas as pd

from analysis.study import Frame, command, curves
from p2p_sim.figures import Panel, plot_panels
from p2p_sim.measures import mean_interval

NAME = "learners"
EPSILON = "mechanism.target_epsilon"
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
"""What a test changes."""
EXCHANGE, LOCAL, PLAIN = "label exchange", "randomised response", "plain"
DRAWN = (PLAIN, "forward", "clusters and features")
"""Learners of the figure; the table has all."""


def main(frame: Frame) -> list[Path]:
    """Compares learners on the same releases; writes the figure, all points, and the gaps between learners, returns the
    files.
    """
    tables, gaps = {}, []
    for name in PANELS:
        swept = frame.swept(f"{NAME}/{name}.toml", REDUCED[name])
        tables[name] = swept.points
        gaps += [{"panel": name, **line} for line in _gaps(swept.rows)]  # differences are within replicates
    panels = [
        Panel(
            "target ε", "accuracy", curves(_named(table), EPSILON, "accuracy", "line"), False, False, title=PANELS[name]
        )
        for name, table in tables.items()
    ]
    figure = frame.out / "learners.png"
    counts = ", ".join(f"{table['replicates'].min()} ({name})" for name, table in tables.items())
    plot_panels(panels, figure, f"Bands: 95% intervals; replicates a point: {counts}. δ = 1e-6 for the exchange.")
    columns = ("mechanism", "learner", EPSILON, "epsilon_upper", "delta")
    measures = ("accuracy", "nonprivate_accuracy", "excess_risk")
    return [figure, frame.points(tables, columns, measures), frame.table("gaps.csv", gaps)]


def _named(table: pd.DataFrame) -> pd.DataFrame:
    """The points of the figure, each with the name of its line: mechanism and learner."""
    drawn = table[table["learner"].isin(DRAWN)]
    return drawn.assign(line=drawn["mechanism"] + ", " + drawn["learner"])


def _gaps(rows: pd.DataFrame) -> list[dict[str, object]]:
    """Differences of accuracy between pairs of points on the same users, with 95% intervals.

    to_plain: of randomised response and the plain learner to the exchange with this learner. to_same: of randomised
    response to the exchange, both with this learner. gain: of this learner to the plain one, both on the exchange.
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
                mean = mean_interval(sign * (ours - reference))
                line |= {name: mean.value, f"{name}_low": mean.low, f"{name}_high": mean.high}
            lines.append(line)
    return lines


if __name__ == "__main__":
    command(NAME, main)
