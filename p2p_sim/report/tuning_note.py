"""What a report says of the rows of a search: which data the choice looked at, and whether ε counts it."""

import pandas as pd

from p2p_sim.base.notebook_view import count
from p2p_sim.measures.point_means import POINT

SAID = {
    "oracle": "Choices made with the true labels, not paid for by ε",
    "curator": "Runs of a private selection: each ε here is that of one run; the larger ε of the whole selection, "
    "choice included, is in trials.csv",
}
"""By the column `look` of a search's rows; other looks cost no ε."""


def choices(rows: pd.DataFrame) -> list[str]:
    """One sentence for each look whose choices the figures of these rows do not count; none for rows of no search."""
    if "look" not in rows:
        return []
    every, found = rows[POINT].nunique(), []
    for look, text in SAID.items():
        size = rows.loc[rows["look"] == look, POINT].nunique()
        some = "" if size == every else f" (at {size:,d} of {count(every, 'point')})"
        if size:
            found.append(f"{text}{some}.")
    return found
