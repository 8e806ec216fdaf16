"""The results of a directory as a data frame, with the columns that follow from others."""

from pathlib import Path

import pandas as pd

from p2p_sim.measures import derived
from p2p_sim.results import rows


def load_results(directory: str | Path) -> pd.DataFrame:
    """All rows in a results directory as a tidy data frame, one line for each point and replicate.

    Points of a finished sweep are in the sweep's order, others in the order of their completion; replicates ascend.
    Accuracies and the paired loss of accuracy, which follow from the error rates, are columns too.

    Raises:
        InputError: the directory holds no results.
    """
    return derived(rows.load_results(directory))
