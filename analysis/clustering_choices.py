"""The effect of two choices in docs/clustering-paper.md.

The first choice removes the bias of randomised response from labels. The second choice is a guess of how much labels
vary within clusters. The mechanism ClusterRR splits its ε by this guess.

Run as `python -m analysis.clustering_choices --data-dir DIR`; the same command continues a stopped run.
"""

from pathlib import Path

from analysis.study import EPSILON, Frame, command

SWEEPS = ("clustering-choices/debiased.toml", "clustering-choices/guess.toml")
REDUCED = ('population={kind="digits"}', 'population.task="classes"', "clusters.count=20", "replicates=2")
"""The settings that a test changes: digits instead of the large data sets, 20 clusters, and two replicates."""


def main(frame: Frame) -> list[Path]:
    """Runs two sweeps. Returns the file of a table with a row for each point of the sweeps.

    In the first sweep, each noisy label is replaced by signed weights, one for each class. Given the true label, the
    mean weight is 1 for the true class and 0 for other classes. So the weights have no bias. In the second sweep, the
    curator's mechanism ClusterRR runs with several guesses of the heterogeneity φ (how much labels vary within
    clusters).

    Args:
        frame: runs the study and writes its files.
    """
    tables = {Path(file).stem: frame.swept(file, REDUCED).points for file in SWEEPS}
    columns = ("population", "mechanism", EPSILON, "mechanism.heterogeneity", "epsilon_upper")
    return [frame.points(tables, columns, ("relative_accuracy", "accuracy", "nonprivate_accuracy"))]


if __name__ == "__main__":
    command("clustering-choices", main)
