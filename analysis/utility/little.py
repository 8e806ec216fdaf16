"""Where an exchange hides little more than the noise on each label does."""

import math

NEAR_LOCAL = 0.9
"""Share of ε₀ above which the exchange is said to add little."""


def adds_little(epsilon: float, local: float) -> str:
    """A sentence that says so, with ways out; empty where the exchange adds more, or ε is infinite.

    Args:
        epsilon: the learner's ε. local: ε₀, which the noise on each label gives.

    >>> adds_little(0.5, 2.2), adds_little(2.1, 2.2)[:30]
    ('', 'The exchange adds little here:')
    """
    if not NEAR_LOCAL * local < epsilon < math.inf:
        return ""
    return (
        f"The exchange adds little here: ε is {epsilon / local:.1%} of ε₀, which the noise on each label gives. "
        "Larger clusters help, or a smaller θ, or a larger δ; `p2p-sim calibrate` finds the α for an ε."
    )
