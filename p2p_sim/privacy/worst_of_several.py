"""The worst of many clusters: ε of each, the largest δ, and a coarse law of the privacy loss."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import LARGEST_EPSILON, Bracket, PrivacyBound, worst_bound
from p2p_sim.privacy.conversions import certified_delta
from p2p_sim.privacy.dominating_law import LossLaw
from p2p_sim.privacy.exchange import many_clusters
from p2p_sim.privacy.exchange.kary import KaryExchange
from p2p_sim.privacy.exchange.label_exchange import LabelExchange
from p2p_sim.privacy.exchange.one_cluster import ClusterExchange
from p2p_sim.privacy.overlays.fetch_distribution import FetchDistribution
from p2p_sim.privacy.overlays.realised_network import CappedFetch
from p2p_sim.privacy.stated_accountants import OnePoint
from p2p_sim.privacy.where_bounds_hold import ANYWHERE

EVERY = 16
"""Most models for each of which ε is found."""
_SLACK = 1.002
"""By which the first accountant's δ is raised, so that others need not be looked at closely."""


def epsilons(models: Sequence[Accountant], delta: float) -> list[PrivacyBound]:
    """The statement of ε at δ for each model, in their order, of which the largest is certified for all.

    Among more than 16, only the first, the last and those worse than all before are computed. The others are certified
    at the largest ε so far: that is then their upper bound, and their lower bound is 0.

    Args:
        models: at least one, ordered so that earlier ones are expected to be worse (smaller clusters).
        delta: δ in (0, 1).
    """
    if len(models) <= EVERY:
        return [model.epsilon(delta) for model in models]
    worst = models[0].epsilon(delta)
    # those between: no worse than the worst so far, or evaluated
    bounds = [worst]
    all_held = math.isfinite(worst.epsilon_upper) and satisfied(models[:-1], worst.epsilon_upper, delta)
    for model in models[1:-1]:
        if all_held or model.satisfies(worst.epsilon_upper, delta):
            bounds.append(replace(worst, epsilon_lower=0.0, basis="no more than in the worst cluster"))
            continue
        worst = model.epsilon(delta)
        bounds.append(worst)
    return [*bounds, models[-1].epsilon(delta)]


def largest_deltas(models: Sequence[Accountant], epsilons: Sequence[float]) -> list[float]:
    """For each ε a certified δ that holds for all models, of which the first is expected to be the worst.

    For exchanges whose smallest cluster is small it is computed from that cluster: mostly within 3% of the largest δ,
    seldom twice as large. Otherwise it is the first model's δ, raised by 0.2% if the others are certified there.
    """
    exchanges = _settings(models)
    together = many_clusters.deltas(exchanges, epsilons) if exchanges else None
    if together is not None:
        return together
    first = [bracket.upper for bracket in models[0].profile(epsilons)]
    if len(models) == 1:
        return first
    return [_largest(models, epsilon, delta) for epsilon, delta in zip(epsilons, first, strict=True)]


def _largest(models: Sequence[Accountant], epsilon: float, delta: float) -> float:
    """A certified δ(ε) of all models: `delta`, the first one's, raised by 0.2% if that suffices, else the largest.

    At ε = 0 each model's δ is computed, which is as fast as a comparison and is cached for other runs. For more than
    two classes a comparison is faster, as it needs no lower bounds.
    """
    raised = min(1.0, delta * _SLACK)
    if 0.0 < raised < 1.0 and satisfied(models, epsilon, raised):
        return raised
    if epsilon == 0.0 and not isinstance(models[0], KaryExchange):
        return max(delta, *(kept_delta(model, 0.0) for model in models[1:]))
    largest = delta if epsilon == 0.0 else raised
    for model in models[1:]:
        if not 0.0 < largest < 1.0 or not model.satisfies(epsilon, largest):
            largest = max(largest, certified_delta(model, epsilon))
    return largest


def satisfied(models: Sequence[Accountant], epsilon: float, delta: float) -> bool:
    """Whether (ε, δ), which the first model certifies, is certified for all others in one computation.

    False also where no computation is faster than one by one.
    """
    exchanges = _settings(models)
    return len(exchanges) > 1 and many_clusters.satisfied(exchanges[1:], epsilon, delta)


def _settings(models: Sequence[Accountant]) -> list[ClusterExchange]:
    """The learner's exchange of each model; an empty list if some model is not of that kind."""
    exchanges = [model.setting for model in models if isinstance(model, LabelExchange)]
    return exchanges if len(exchanges) == len(models) else []


@lru_cache(maxsize=65_536)
def kept_delta(model: Accountant, epsilon: float) -> float:
    """Upper bound of the accountant's δ(ε), cached: computed once for equal accountants."""
    return model.delta(epsilon).upper


@dataclass(frozen=True)
class WorstOf(Accountant):
    """The accountant of all users together, each of whom has one of several accountants: the largest δ at every ε.

    models: at least one, about one observer and adjacency.
    """

    requires = ANYWHERE

    models: tuple[Accountant, ...]

    @property
    def pure_epsilon(self) -> float:
        """The largest of the models' pure ε, from which on every δ(ε) is 0."""
        return max(model.pure_epsilon for model in self.models)

    @property
    def least_delta(self) -> float:
        """The largest of the models' `least_delta`: the smallest δ at which all of them have a bound of ε."""
        return max(model.least_delta for model in self.models)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions under which the bounds hold: those of all models."""
        return tuple(dict.fromkeys(condition for model in self.models for condition in model.conditions))

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε): the largest of the models' lower and of their upper bounds."""
        return self.profile([epsilon])[0]

    def profile(self, epsilons: Sequence[float]) -> list[Bracket]:
        """For each ε, the bounds of the largest δ(ε) of a model."""
        each = zip(*(model.profile(epsilons) for model in self.models), strict=True)
        return [Bracket(max(b.lower for b in brackets), max(b.upper for b in brackets)) for brackets in each]

    def epsilon(self, delta: float) -> PrivacyBound:
        """The statement of the largest ε at δ, under the conditions of all models."""
        return worst_bound([model.epsilon(delta) for model in self.models])


def coarse_law(model: Accountant, stated: PrivacyBound) -> LossLaw:
    """A law that dominates the accountant's: from δ at three ε, the stated (ε, δ), and the ε from which on δ is 0.

    It is quick enough for every row, and certified at every ε: δ is convex in e^ε, so that it lies below the lines
    between these points. Of many models the first is looked at, and the others are only held against it. Where the
    place of a user in the network matters, δ is slow to compute, and the statement alone is used.

    Args:
        model: whose δ it is. stated: an ε at a δ that it certifies.
    """
    models = list(model.models) if isinstance(model, WorstOf) else [model]
    if stated.epsilon_upper > LARGEST_EPSILON:  # infinite, or e^ε is
        return LossLaw.of([0.0], [1.0])
    pure = min(model.pure_epsilon, stated.epsilon_upper if stated.delta == 0.0 else math.inf)
    top = min(stated.epsilon_upper, pure)
    # δ at the stated ε, at up to three smaller ones, and at the pure ε
    points = {top: 0.0 if top >= pure else stated.delta}
    smaller = _below(top)
    if any(isinstance(each, FetchDistribution | CappedFetch) for each in models):
        points |= {epsilon: OnePoint(stated).delta(epsilon).upper for epsilon in smaller}
    elif smaller:
        points |= dict(zip(smaller, largest_deltas(models, smaller), strict=True))
    if pure <= LARGEST_EPSILON:
        points[pure] = 0.0
    points = dict(sorted(points.items()))
    return LossLaw.of(list(points), list(points.values()), pure)


def _below(top: float) -> list[float]:
    """Up to three ε below `top`, for a coarse law: 0 and two powers of 2, which similar runs share in the cache."""
    if top <= 0.0:
        return []
    middle = math.ldexp(0.5, math.frexp(0.7 * top)[1])  # the largest power of 2 that is at most .7 top
    return [0.0, middle / 2.0, middle]
