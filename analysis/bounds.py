"""The papers' (ε, δ) bounds, checked numerically and drawn: `python -m analysis.bounds`, half a CPU minute.

claims.csv has a line for each numbered claim of the four papers: whether it holds on every case, how loosely, and what
is true instead. bounds.csv and bounds.png have the learner's ε against the cluster size: printed and exact.
"""

from dataclasses import asdict
from pathlib import Path

import pandas as pd

from analysis.study import Frame, command
from p2p_sim.figures import plot_bounds
from p2p_sim.privacy.claims import all_claims
from p2p_sim.privacy.claims.paper_against_exact import bounds_table

NAME = "bounds"
CLAIM_COLUMNS = ["paper", "name", "statement", "holds", "cases", "tightest", "loosest", "corrected"]


def main(frame: Frame) -> list[Path]:
    """Evaluates every numbered claim of the papers, and draws ε against the cluster size; returns the files written."""
    claims = pd.DataFrame([asdict(claim.check()) for claim in all_claims()])[CLAIM_COLUMNS]
    rows = bounds_table()
    figure = frame.out / "bounds.png"
    written = [frame.table("claims.csv", claims), frame.table("bounds.csv", pd.DataFrame(map(asdict, rows)))]
    plot_bounds(rows, figure)
    return [*written, figure]


if __name__ == "__main__":
    command(NAME, main)
