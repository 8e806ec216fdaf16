"""A law of the privacy loss from a few values of δ: quick enough for every row, and certified at every ε."""

import math
from collections.abc import Sequence
from functools import lru_cache

from p2p_sim.analysis.privacy.statement.accountant import Accountant
from p2p_sim.analysis.privacy.statement.bound import PrivacyBound
from p2p_sim.analysis.privacy.statement.checks import LARGEST_EPSILON
from p2p_sim.analysis.privacy.statement.loss_law import LossLaw
from p2p_sim.analysis.privacy.statement.worst import OnePoint, WorstOf

PARTS = (0.0, 0.25, 0.5)
"""Shares of the stated ε at which δ is asked for."""
_SLACK = 1.002
"""By which the worst model's δ is raised, so that others need not be looked at closely."""


def coarse_law(model: Accountant, stated: PrivacyBound) -> LossLaw:
    """A law that dominates the accountant's: from δ at three ε, the stated (ε, δ), and the ε from which on δ is 0.

    δ is convex in e^ε, so that it lies below the lines between these points. Of many models the first is looked at, and
    the others are only held against it. Where the place of a user in the network matters, δ is slow to compute, and the
    statement alone is used.

    Args:
        model: whose δ it is. stated: an ε at a δ that it certifies.
    """
    models = list(model.models) if isinstance(model, WorstOf) else [model]
    if stated.epsilon_upper > LARGEST_EPSILON:  # infinite, or e^ε is
        return LossLaw.of([0.0], [1.0])
    pure = min(model.pure_epsilon, stated.epsilon_upper if stated.delta == 0.0 else math.inf)
    top = min(stated.epsilon_upper, pure)
    points = {top: 0.0 if top >= pure else stated.delta}
    if not all(one.kept for one in models):
        only = OnePoint(stated)
        points |= {part * top: only.delta(part * top).upper for part in PARTS if part * top < top}
    elif asked := [part * top for part in PARTS if part * top < top]:
        points |= dict(zip(asked, _largest(models, asked), strict=True))
    if pure <= LARGEST_EPSILON:
        points[pure] = 0.0
    grid = sorted(points)
    return LossLaw.of(grid, [points[epsilon] for epsilon in grid], pure)


def _largest(models: Sequence[Accountant], epsilons: Sequence[float]) -> list[float]:
    """Certified δ at each ε that holds for all models, at least one; the first is expected to be the worst."""
    found = [bracket.upper for bracket in models[0].profile(epsilons)]
    for place, epsilon in enumerate(epsilons):
        if epsilon == 0.0:  # no faster to hold against, and the same for every replicate
            found[place] = max(_at_zero(model) for model in models)
            continue
        if len(models) > 1:
            found[place] = min(1.0, found[place] * _SLACK)
        for model in models[1:]:
            delta = found[place]
            if not 0.0 < delta < 1.0 or not model.satisfies(epsilon, delta):
                found[place] = max(delta, model.delta(epsilon).upper)
    return found


@lru_cache(maxsize=65_536)
def _at_zero(model: Accountant) -> float:
    """Certified δ(0) of an accountant whose computed bounds may be used again."""
    return model.delta(0.0).upper
