"""The tables of docs/label-mechanisms.md: noisy vectors against scalars, each on its own and through the exchange.

Run as `python -m analysis.vector_tables`; interrupted, it goes on where it stopped.
"""

from pathlib import Path

from analysis.study import Frame, command

NAME = "vector-tables"
SWEEPS = ("vectors.toml", "vector/exchange.toml", "vector/exchange-kmeans.toml")
EPSILON, CLASSES = "mechanism.target_epsilon", "population.num_classes"
REDUCED = (
    "population.users=1000", "population.holdout=500", "population.num_classes=10", "learner.neighbours=20",
    "replicates=1",
)  # fmt: skip
"""What a test changes: few users, a single replicate."""


def main(frame: Frame) -> list[Path]:
    """Runs the sweeps behind the tables of docs/label-mechanisms.md; returns the table of their points."""
    columns = ("mechanism", EPSILON, CLASSES, "epsilon_upper", "epsilon_local")
    measures = ("accuracy", "nonprivate_accuracy", "heterogeneity")
    return [frame.points({Path(file).stem: frame.sweep(file, REDUCED) for file in SWEEPS}, columns, measures)]


if __name__ == "__main__":
    command(NAME, main)
