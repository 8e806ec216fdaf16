"""A law of the privacy loss from a few values of δ: quick enough for every row, and certified at every ε."""

import math

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.loss_law import LossLaw
from p2p_sim.privacy.ranges import LARGEST_EPSILON
from p2p_sim.privacy.worst_of_several import OnePoint, WorstOf


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
    asked = _below(top)
    if all(one.cacheable for one in models):
        points |= dict(zip(asked, models[0].largest_deltas(models[1:], asked), strict=True)) if asked else {}
    else:
        points |= {epsilon: OnePoint(stated).delta(epsilon).upper for epsilon in asked}
    if pure <= LARGEST_EPSILON:
        points[pure] = 0.0
    grid = sorted(points)
    return LossLaw.of(grid, [points[epsilon] for epsilon in grid], pure)


def _below(top: float) -> list[float]:
    """Up to three smaller ε: 0 and two powers of 2, so that runs that resemble one another ask for the same."""
    if top <= 0.0:
        return []
    middle = math.ldexp(0.5, math.frexp(0.7 * top)[1])  # the largest power of 2 that is at most .7 top
    return [0.0, middle / 2.0, middle]
