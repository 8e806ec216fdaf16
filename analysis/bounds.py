"""Claims of five papers on label privacy, checked numerically, and the learner's ε against a paper's bound.

Run as `python -m analysis.bounds`; it takes half a CPU minute.

claims.csv has a row for each checked claim of the papers. The row states whether the claim holds in every tried case,
and how tight and how loose the claim is. For a false claim, the row also has a true statement. bounds.csv and
bounds.png compare a paper's formula for the learner's ε with the exact ε, for several cluster sizes.
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
    """Checks every claim of `all_claims` numerically. Also draws the learner's ε against the cluster size, by a paper's
    formula and exactly. Returns the files of two tables and a figure.

    Args:
        frame: runs the study and writes its files.
    """
    claims, rows = pd.DataFrame([asdict(claim.check()) for claim in all_claims()]), bounds_table()
    return [
        frame.table("claims.csv", claims[CLAIM_COLUMNS]),
        frame.table("bounds.csv", map(asdict, rows)),
        frame.figure(plot_bounds, rows, "bounds.png"),
    ]


if __name__ == "__main__":
    command("bounds", main)
