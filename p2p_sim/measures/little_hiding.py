"""Where an exchange hides little more than the noise on each label does."""

import math

from p2p_sim.base.notebook_view import four_digits
from p2p_sim.privacy.overlays.fetch_distribution import ANY_FETCHES

NEAR_LOCAL = 0.9
"""Share of ε₀ above which the exchange is said to add little."""
DOMINATED = (
    "Randomised response with the same α dominates it, whatever the labels: it has the same ε, nobody must be trusted "
    "for it either, and each noisy label arrives with its owner's features. From its release "
    "anybody could draw what the exchange submits."
)
"""What dominates an exchange that adds nothing to the noise on each label."""
PAID = (
    "A choice by the outcome looks at true labels, which no ε counts: choose by the reason above, or pay for the "
    "choice (docs/choices.md)."
)
"""What it costs to compare and choose."""


def adds_little(epsilon: float, local: float, basis: str = "") -> str:
    """A sentence that says so, with ways out; empty where the exchange adds more, or ε is infinite.

    Args:
        epsilon: the learner's ε. local: ε₀, which the noise on each label gives. basis: how ε was computed, which shows
            whether users may ask their neighbours alone: then these count, not the cluster's users.

    >>> adds_little(0.5, 2.2), adds_little(2.1, 2.2)[:30]
    ('', 'The exchange adds little here:')
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
    return (
        f"The exchange adds little here: ε is {epsilon / local:.1%} of ε₀, which the noise on each label gives. {helps}"
    )


def adds_nothing(epsilon: float, local: float) -> bool:
    """Whether ε is ε₀ in four digits, so that the noise on each label is all that protects.

    >>> adds_nothing(2.19722, 2.19723), adds_nothing(2.15, 2.2), adds_nothing(math.inf, math.inf)
    (True, False, False)
    """
    return math.isfinite(epsilon) and four_digits(epsilon, up=True) >= four_digits(local, up=True)
