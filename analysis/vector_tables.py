"""The tables of docs/label-mechanisms.md: labels sent as noisy vectors and as noisy classes, with and without the
exchange.

Run it as `python -m analysis.vector_tables`; a study that was stopped goes on where it stopped.
"""

from pathlib import Path

from analysis.study import EPSILON, Frame, command

SWEEPS = ("vectors.toml", "vector/exchange.toml", "vector/exchange-kmeans.toml")
REDUCED = (
    "population.users=1000", "population.holdout=500", "population.num_classes=10", "learner.neighbours=20",
    "replicates=1",
)  # fmt: skip
"""What a test changes: fewer users, ten classes, fewer neighbours, and one replicate."""


def main(frame: Frame) -> list[Path]:
    """Runs the three sweeps behind the tables of docs/label-mechanisms.md. The first sweep releases labels at ε = 1 for
    several numbers of classes: as noisy bits, as noisy classes or with other noise. The second sends such messages with
    and without the label exchange, at several ε. The third exchanges such messages in clusters made by k-means. Returns
    the file of a table with a row for each point (combination of swept values). A row has ε, and the accuracy with its
    interval.

    Args:
        frame: where the study runs and writes.
    """
    tables = {Path(file).stem: frame.swept(file, REDUCED).points for file in SWEEPS}
    columns = ("mechanism", EPSILON, "population.num_classes", "epsilon_upper", "epsilon_local")
    return [frame.points(tables, columns, ("accuracy", "nonprivate_accuracy", "heterogeneity"))]


if __name__ == "__main__":
    command("vector-tables", main)
