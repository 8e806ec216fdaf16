"""Sentences for reports about ε and guessing advantages in result rows."""

import math
from typing import TYPE_CHECKING

from p2p_sim.base import four_digits
from p2p_sim.privacy import SEES, equally_likely, guessed, of_hundred
from p2p_sim.privacy.exchange import ELSEWHERE, NOISE_ALONE
from p2p_sim.privacy.overlays import ANY_FETCHES

if TYPE_CHECKING:
    import pandas as pd

NEAR_LOCAL = 0.9
"""A share of ε₀, the ε of a single noisy label. Above this share, reports say that the exchange adds little privacy."""
DOMINATED = (
    "Randomised response with the same α dominates it, whatever the labels. Both have the same ε, and neither needs a "
    "trusted party. With randomised response, each noisy label arrives with its owner's features. Anybody who has "
    "these noisy labels could simulate what the exchange submits."
)
"""The reason why randomised response is better than an exchange with ε = ε₀."""
PAID = (
    "A choice by measured accuracy looks at true labels, and no ε here counts this. Choose by the argument above, "
    "which looks at no label, or spend ε on the choice (docs/choices.md)."
)
"""The warning against choosing a mechanism by its accuracy."""


def adds_little(epsilon: float, local: float, basis: str = "") -> str:
    """A warning, with advice, that the exchange gives hardly more privacy than the noise on each label alone. The text
    is empty unless the learner's ε is finite and above 90% of ε₀, the ε of a noisy label alone.

    Args:
        epsilon: the learner's ε. local: ε₀. basis: the privacy bound's words on how ε was computed; empty: the usual
        advice. Three cases need other advice: each user has few neighbours; users submit the majority of several labels
        in a network with faults; only the noise on labels is known to protect.

    >>> adds_little(0.5, 2.2), adds_little(2.1, 2.2)[:30]
    ('', 'The exchange adds little here:')
    >>> adds_little(2.2, 2.2, f"{NOISE_ALONE}labels go astray")[-47:]
    'Nothing better is known here: labels go astray.'
    """
    if not NEAR_LOCAL * local < epsilon < math.inf:
        return ""
    helps = "Larger clusters help, or a smaller θ, or a larger δ; `p2p-sim calibrate` finds the α for an ε."
    if basis.startswith(ANY_FETCHES):
        helps = (
            "The cause is the number of neighbours: few others can be asked in place of a user, and larger clusters "
            "change nothing. More neighbours help, or a smaller θ; `p2p-sim calibrate --flip-prob A` says how many "
            "neighbours an ε needs, and `--degree G` the α for G neighbours."
        )
    if basis.startswith(NOISE_ALONE):
        helps = f"Nothing better is known here: {basis.removeprefix(NOISE_ALONE)}."
    if basis.endswith(ELSEWHERE):
        helps = "Nothing better is known of majorities where anything can fail; `peers = 1` helps, or an ideal network."
    return (
        f"The exchange adds little here: ε is {epsilon / local:.1%} of ε₀, which the noise on each label gives. {helps}"
    )


def adds_nothing(epsilon: float, local: float) -> bool:
    """Whether ε is finite and, to four significant digits, at least ε₀. Then only the noise on labels gives privacy.

    >>> adds_nothing(2.19722, 2.19723), adds_nothing(2.15, 2.2), adds_nothing(math.inf, math.inf)
    (True, False, False)
    """
    return math.isfinite(epsilon) and four_digits(epsilon, up=True) >= four_digits(local, up=True)


SHARES_KNOWN = "if each label is drawn independently with the shares of its cluster"
KNOWN = {"uniform": "", "cluster": SHARES_KNOWN}
"""What an observer knows of labels before any message, in words. A key is the ending of the result columns for this
knowledge.

The knowledge must be a law under which labels are independent. So an observer who knows the *counts* of labels is not
meant. Messages about other labels tell her about this label too, so she may guess more labels right than is stated.
"""


def sentences(rows: "pd.DataFrame", every: bool = True) -> list[str]:
    """Sentences on how many of 100 labels an observer guesses right with and without users' messages. The observer is
    the learner, or anybody who sees the release. In the first sentence, all labels are equally likely to the observer
    beforehand. If the rows have a coalition of users, a sentence for the coalition follows. With several rows, the
    first sentence uses the row with the largest share of right guesses with messages. The sentence for the coalition
    uses the largest advantage.

    Args:
        rows: result rows, one for each replicate. The columns guess_... have the shares of labels guessed right without
        messages; the columns advantage_... have the increase by messages. If a row lacks advantage_uniform, there is no
        sentence. every: whether to add a sentence for an observer who knows the class shares of clusters. To her, each
        label is an independent draw from these shares.
    """
    if "advantage_uniform" not in rows or rows["advantage_uniform"].isna().any():
        return []
    lines = []
    for name, knowledge in KNOWN.items() if every else [("uniform", KNOWN["uniform"])]:
        gain, without = rows[f"advantage_{name}"].astype(float), rows[f"guess_{name}"].astype(float)
        if gain.isna().any() or without.isna().any():
            continue
        # the row with the largest share of labels guessed right with messages
        worst = int((gain + without).argmax())
        base = float(without.iloc[worst])
        exchange = rows["mechanism_kind"].iloc[worst] == "label_exchange"
        who, them = (SEES["learner"], "them") if exchange else ("somebody who sees the release", "it")
        prior = knowledge or equally_likely(round(1.0 / base))
        lines.append(guessed(who, base, float(gain.iloc[worst]), prior, them))
        if name == "uniform" and rows["advantage_coalition"].notna().all():
            most = float(rows["advantage_coalition"].astype(float).max())
            lines.append(guessed(SEES["coalition"], base, most, prior))
    return lines


def population(rows: "pd.DataFrame") -> str:
    """A sentence on how many of 100 labels a public model guesses right from the features, on average over the rows.
    Empty if no such model is known. The model uses no user's label, so the number depends on the population alone.

    Args:
        rows: result rows, one for each replicate; the column guess_model has the share of labels that the model guesses
        right.
    """
    if "guess_model" not in rows or rows["guess_model"].isna().any():
        return ""
    right = of_hundred(float(rows["guess_model"].astype(float).mean()), False)
    return (
        f"A public model, which uses no user's label, guesses {right} of 100 labels right from the features. That "
        "is so whether or not a user takes part. So it is no loss of her privacy in the sense of ε."
    )
