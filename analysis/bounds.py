"""The (ε, δ) bounds of four papers on the exchange of labels, checked numerically and drawn.

Run as `python -m analysis.bounds`; it takes half a CPU minute.

claims.csv has a row for each numbered claim of the papers. The row states whether the claim holds in every case tried,
how tight and how loose it is, and what is true where it fails. For several cluster sizes, bounds.csv and bounds.png
have two values of the learner's ε: the value of a paper's formula, and the exact value.
"""

from dataclasses import asdict
from pathlib import Path

import pandas as pd

from analysis.study import Frame, command
from p2p_sim.figures import plot_bounds
from p2p_sim.privacy.claims import all_claims
from p2p_sim.privacy.claims.paper_against_exact import bounds_table

CLAIM_COLUMNS = ["paper", "name", "statement", "holds", "cases", "tightest", "loosest", "corrected"]


def main(frame: Frame) -> list[Path]:
    """Checks numerically every claim (theorem, lemma, corollary or formula with a number) of the four papers on the
    exchange of labels, and draws the learner's ε against the cluster size: the values printed in a paper and the exact
    values. Returns the files of two tables and a figure.

    Args:
        frame: where the study runs and writes.
    """
    claims, rows = pd.DataFrame([asdict(claim.check()) for claim in all_claims()]), bounds_table()
    return [
        frame.table("claims.csv", claims[CLAIM_COLUMNS]),
        frame.table("bounds.csv", map(asdict, rows)),
        frame.figure(plot_bounds, rows, "bounds.png"),
    ]


if __name__ == "__main__":
    command("bounds", main)
