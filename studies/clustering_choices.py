"""What choices in docs/clustering-paper.md do: labels with their bias taken out, and the guess of φ for ClusterRR.

Run as `python -m studies.clustering_choices --data-dir DIR`; interrupted, it goes on where it stopped.
"""

from pathlib import Path

from studies.frame import command, tabulate

NAME = "clustering-choices"
SWEEPS = ("clustering-choices/debiased.toml", "clustering-choices/guess.toml")
EPSILON, GUESS = "mechanism.target_epsilon", "mechanism.heterogeneity"
REDUCED = ('population={kind="digits"}', 'population.task="classes"', "clusters.count=20", "replicates=2")
"""What a test changes: digits instead of the large sets, few replicates."""


def main(out: Path, work: Path, data_dir: Path | None, workers: int = 2, small: bool = False) -> list[Path]:
    """Run the sweeps, keep their rows and write their points as one table; `small` runs on digits, for the tests.

    Args:
        out: where table, rows and manifests go. work: where the sweeps run.
        data_dir: where data files are. workers: local processes.
    """
    columns = ("population", "mechanism", EPSILON, GUESS, "epsilon_upper")
    measures = ("relative_accuracy", "accuracy", "nonprivate_accuracy")
    return [tabulate(SWEEPS, columns, measures, out, work, data_dir, workers, REDUCED if small else ())]


if __name__ == "__main__":
    command(NAME, main)
