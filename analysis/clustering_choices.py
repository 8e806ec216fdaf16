"""The effect of two choices in docs/clustering-paper.md. One removes the bias that randomised response gives to labels.
The other is the guess of how much labels vary within clusters, by which the mechanism ClusterRR splits its ε.

Run as `python -m analysis.clustering_choices --data-dir DIR`; if a run was stopped, the same command continues it.
"""

from pathlib import Path

from analysis.study import EPSILON, Frame, command

SWEEPS = ("clustering-choices/debiased.toml", "clustering-choices/guess.toml")
REDUCED = ('population={kind="digits"}', 'population.task="classes"', "clusters.count=20", "replicates=2")
"""The settings that a test changes: it uses digits instead of the large data sets, and two replicates."""


def main(frame: Frame) -> list[Path]:
    """Tries two choices of docs/clustering-paper.md by running two sweeps, and returns the file of a table with a row
    for each point of the sweeps. In the first sweep, each noisy label is replaced by signed weights, one for each
    class. Their mean, given the true label, is 1 for the true class and 0 for the others, so that they remove the bias
    that randomised response gives to the labels. In the second, the curator's mechanism ClusterRR runs with several
    guesses of the heterogeneity φ (how much labels vary within clusters). The guess decides how ClusterRR splits its ε.

    Args:
        frame: where the study runs and writes.
    """
    tables = {Path(file).stem: frame.swept(file, REDUCED).points for file in SWEEPS}
    columns = ("population", "mechanism", EPSILON, "mechanism.heterogeneity", "epsilon_upper")
    return [frame.points(tables, columns, ("relative_accuracy", "accuracy", "nonprivate_accuracy"))]


if __name__ == "__main__":
    command("clustering-choices", main)
