"""Figures for many clusters: exact where it matters, certified where it does not."""

from collections.abc import Sequence
from dataclasses import replace

from p2p_sim.analysis.privacy.statement.accountant import Accountant
from p2p_sim.analysis.privacy.statement.bound import PrivacyBound

EVERY = 16
"""Most models for each of which ε is found."""


def epsilons(models: Sequence[Accountant], delta: float) -> list[PrivacyBound]:
    """ε(δ) of each model, worst first; the largest of them is found, and the last one's.

    Among more than 16 those between are only held against the worst so far, at a tenth of the cost: their upper end is
    then the worst one's, and their lower end 0.

    Args:
        models: at least one, ordered so that earlier ones are expected to be worse (smaller clusters).
        delta: δ in (0, 1).
    """
    if len(models) <= EVERY:
        return [model.epsilon(delta) for model in models]
    worst = models[0].epsilon(delta)
    found = [worst]
    for model in models[1:-1]:
        if model.satisfies(worst.epsilon_upper, delta):
            found.append(replace(worst, epsilon_lower=0.0, basis="no more than in the worst cluster"))
            continue
        worst = model.epsilon(delta)
        found.append(worst)
    return [*found, models[-1].epsilon(delta)]
