"""What choices in docs/clustering-paper.md do: labels with their bias taken out, and the guess of φ for ClusterRR.

Run as `python -m analysis.clustering_choices --data-dir DIR`; interrupted, it goes on where it stopped.
"""

from pathlib import Path

from analysis.study import Frame, command

NAME = "clustering-choices"
SWEEPS = ("clustering-choices/debiased.toml", "clustering-choices/guess.toml")
EPSILON, GUESS = "mechanism.target_epsilon", "mechanism.heterogeneity"
REDUCED = ('population={kind="digits"}', 'population.task="classes"', "clusters.count=20", "replicates=2")
"""What a test changes: digits instead of the large sets, few replicates."""


def main(frame: Frame) -> list[Path]:
    """Runs the sweeps over choices of the clustering paper's mechanism; returns the table of their points."""
    columns = ("population", "mechanism", EPSILON, GUESS, "epsilon_upper")
    measures = ("relative_accuracy", "accuracy", "nonprivate_accuracy")
    return [frame.points({Path(file).stem: frame.sweep(file, REDUCED) for file in SWEEPS}, columns, measures)]


if __name__ == "__main__":
    command(NAME, main)
