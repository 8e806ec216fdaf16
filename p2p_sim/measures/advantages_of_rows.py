"""What the advantages of some rows come to, in sentences."""

from typing import TYPE_CHECKING

from p2p_sim.privacy.wording import SEES, equally_likely, guessed, of_hundred

if TYPE_CHECKING:
    import pandas as pd

SHARES_KNOWN = "if each label is drawn independently with the shares of its cluster"
KNOWN = {"uniform": "", "cluster": SHARES_KNOWN}
"""What is known of labels without what users sent, by the ending of the columns.

It must be a law under which labels are independent. Known *counts* are another thing: there one label tells something
of the others, whose messages then speak for it as well, and more is guessed right.
"""


def sentences(rows: "pd.DataFrame", every: bool = True) -> list[str]:
    """Of 100 labels, how many are guessed right with and without what users sent; of the row with the most.

    Args:
        rows: of one point or several; empty for rows of versions that had no such columns.
        every: also for somebody who knows the shares of labels in each cluster.
    """
    if "advantage_uniform" not in rows or rows["advantage_uniform"].isna().any():
        return []
    found = []
    for name, given in KNOWN.items() if every else [("uniform", KNOWN["uniform"])]:
        gain, without = rows[f"advantage_{name}"].astype(float), rows[f"guess_{name}"].astype(float)
        if gain.isna().any() or without.isna().any():
            continue
        worst = int((gain + without).argmax())
        base = float(without.iloc[worst])
        exchange = rows["mechanism_kind"].iloc[worst] == "label_exchange"
        who, them = (SEES["learner"], "them") if exchange else ("somebody who sees the release", "it")
        known = given or equally_likely(round(1.0 / base))
        found.append(guessed(who, base, float(gain.iloc[worst]), known, them))
        if name == "uniform" and rows["advantage_coalition"].notna().all():
            most = float(rows["advantage_coalition"].astype(float).max())
            found.append(guessed(SEES["coalition"], base, most, known))
    return found


def population(rows: "pd.DataFrame") -> str:
    """What follows from the population, whoever takes part; empty where no public model is known."""
    if "guess_model" not in rows or rows["guess_model"].isna().any():
        return ""
    right = of_hundred(float(rows["guess_model"].astype(float).mean()), False)
    return (
        f"A public model, which uses no user's label, guesses {right} of 100 labels right from the features. That "
        "follows from the population, whether a user takes part or not, and is no loss of her privacy in this sense."
    )
