"""Privacy in the worst of many clusters: ε of each, the largest δ, and a coarse law (distribution) of the privacy loss.

An accountant is an object that bounds ε and δ, here mostly for one cluster.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import LARGEST_EPSILON, Bracket, PrivacyBound, worst_bound
from p2p_sim.privacy.dominating_law import LossLaw
from p2p_sim.privacy.exchange import ClusterExchange, KaryExchange, LabelExchange, many_clusters
from p2p_sim.privacy.overlays import CappedFetch, FetchDistribution
from p2p_sim.privacy.stated_accountants import OnePoint
from p2p_sim.privacy.where_bounds_hold import ANYWHERE

EVERY = 16
"""Largest number of accountants that are each asked for ε."""
_SLACK = 1.002
"""The first accountant's δ is raised by this factor. Then a quick test of all others usually succeeds."""


def epsilons(models: Sequence[Accountant], delta: float) -> list[PrivacyBound]:
    """The statement of ε at δ for each accountant, in order.

    Up to 16 accountants are each asked for ε. If there are more, the first and the last are asked. The others are
    tested with the largest ε so far. If this ε is certified at δ, it is the accountant's upper bound, and 0 the lower
    bound. Otherwise the accountant is asked for ε.

    Args:
        models: the accountants, at least one; earlier ones are expected to be worse (smaller clusters).
        delta: δ in (0, 1).
    """
    if len(models) <= EVERY:
        return [model.epsilon(delta) for model in models]
    worst = models[0].epsilon(delta)
    # accountants between the first and the last: the worst ε so far is certified, or the accountant is asked for ε
    bounds = [worst]
    all_held = math.isfinite(worst.epsilon_upper) and satisfied(models[:-1], worst.epsilon_upper, delta)
    for model in models[1:-1]:
        if all_held or model.satisfies(worst.epsilon_upper, delta):
            bounds.append(replace(worst, epsilon_lower=0.0, basis="no more than in the worst cluster"))
        else:
            worst = model.epsilon(delta)
            bounds.append(worst)
    return [*bounds, models[-1].epsilon(delta)]


def largest_deltas(models: Sequence[Accountant], epsilons: Sequence[float]) -> list[float]:
    """For each ε, one certified δ that holds for all accountants. This δ is often larger than the largest δ(ε).

    Tables for the smallest cluster give δ if four conditions hold. All accountants are of two-class label exchanges.
    All have the same α above 0. The smallest cluster has at most 64 users. The tables are not too large. This δ is
    mostly within 3% of the largest δ, and seldom twice as large.

    Otherwise, the first accountant's δ is raised by 0.2%, and taken if certified for all others. If it is not
    certified, the largest δ is taken. At ε = 0, the first accountant's δ need not be raised. For a single accountant,
    its own δ is taken.

    Args:
        models: the accountants, at least one; the first is expected to be the worst. epsilons: values of ε, at least 0.
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
    """A certified δ(ε) for all accountants: the first accountant's δ raised by 0.2%, if certified for all others, else
    the largest δ.

    One fast computation tests the raised δ for all others together. If this fails at ε = 0, every accountant's own δ
    is computed. This costs no more than a test, and other simulations find δ in the cache. For more than two classes
    (`KaryExchange`), a test is cheaper. At ε = 0, the test is of the first accountant's δ without a rise.

    Args:
        models: the accountants. epsilon: ε. delta: the first accountant's δ at ε.
    """
    raised = min(1.0, delta * _SLACK)
    if 0.0 < raised < 1.0 and satisfied(models, epsilon, raised):
        return raised
    if epsilon == 0.0 and not isinstance(models[0], KaryExchange):
        return max(delta, *(kept_delta(model, 0.0) for model in models[1:]))
    largest = delta if epsilon == 0.0 else raised
    for model in models[1:]:
        if not 0.0 < largest < 1.0 or not model.satisfies(epsilon, largest):
            largest = max(largest, model.certified_delta(epsilon))
    return largest


def satisfied(models: Sequence[Accountant], epsilon: float, delta: float) -> bool:
    """Whether one fast computation certifies (ε, δ) for all accountants. For the first, (ε, δ) is known to hold.

    False does not mean that (ε, δ) fails. The computation may miss an (ε, δ) that holds. The result is also False for
    a single model, or if a model is not of a two-class label exchange.

    Args:
        models: the accountants. epsilon: ε. delta: δ in (0, 1).
    """
    exchanges = _settings(models)
    return len(exchanges) > 1 and many_clusters.satisfied(exchanges[1:], epsilon, delta)


def _settings(models: Sequence[Accountant]) -> list[ClusterExchange]:
    """The `ClusterExchange` of each accountant, in order: number of users, α, and the law of the number of submissions.

    The list is empty if an accountant is not of a two-class label exchange (`LabelExchange`).
    """
    exchanges = [model.setting for model in models if isinstance(model, LabelExchange)]
    return exchanges if len(exchanges) == len(models) else []


@lru_cache(maxsize=65_536)
def kept_delta(model: Accountant, epsilon: float) -> float:
    """The upper bound of the accountant's δ(ε), cached for equal accountants."""
    return model.certified_delta(epsilon)


@dataclass(frozen=True)
class WorstOf(Accountant):
    """The accountant that, at every ε, has the largest δ of several accountants.

    models: the accountants, at least one, all about the same observer and adjacency.
    """

    requires = ANYWHERE

    models: tuple[Accountant, ...]

    @property
    def pure_epsilon(self) -> float:
        """The largest of the accountants' pure ε. From this ε on, all δ(ε) are 0."""
        return max(model.pure_epsilon for model in self.models)

    @property
    def least_delta(self) -> float:
        """The smallest δ at which all accountants can be asked for ε."""
        return max(model.least_delta for model in self.models)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of all accountants, each once."""
        return tuple(dict.fromkeys(condition for model in self.models for condition in model.conditions))

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of the largest of the accountants' δ(ε)."""
        return self.profile([epsilon])[0]

    def profile(self, epsilons: Sequence[float]) -> list[Bracket]:
        """Bounds of the largest of the accountants' δ(ε), for each ε."""
        each = zip(*(model.profile(epsilons) for model in self.models), strict=True)
        return [Bracket(max(b.lower for b in brackets), max(b.upper for b in brackets)) for brackets in each]

    def epsilon(self, delta: float) -> PrivacyBound:
        """The statement with the largest of the accountants' ε at δ, under the conditions of all accountants."""
        return worst_bound([model.epsilon(delta) for model in self.models])


def coarse_law(model: Accountant, stated: PrivacyBound) -> LossLaw:
    """A law of the privacy loss that dominates the accountant's law, from few points of the curve δ(ε), for speed.

    The points are the stated (ε, δ), up to three smaller values of ε, and the pure ε (at δ = 0) if at most 700. The
    three values are 0, a power of 2, and half this power. The power is the largest up to 0.7 of the stated ε, or of the
    pure ε if this is smaller. The law is valid at every ε: δ is convex in e^ε, and so lies below the lines between the
    points.

    For users who fetch with different probabilities (accountants `FetchDistribution` and `CappedFetch`), δ is slow to
    compute. There, δ at the three smaller values is the largest that is compatible with the stated (ε, δ). If the
    stated ε is too large to compute with, the loss is infinite.

    Args:
        model: the accountant. stated: its statement (ε, δ).
    """
    models = list(model.models) if isinstance(model, WorstOf) else [model]
    if stated.epsilon_upper > LARGEST_EPSILON:  # ε or e^ε is infinite
        return LossLaw.of([0.0], [1.0])
    pure = min(model.pure_epsilon, stated.epsilon_upper if stated.delta == 0.0 else math.inf)
    top = min(stated.epsilon_upper, pure)
    # δ at the stated ε, at up to three smaller values of ε, and at the pure ε
    points = {top: 0.0 if top >= pure else stated.delta}
    # 0 and two powers of 2; the larger is the largest power up to .7 top. Similar simulations find both in the cache
    middle = math.ldexp(0.5, math.frexp(0.7 * top)[1])
    smaller = [0.0, middle / 2.0, middle] if top > 0.0 else []
    if any(isinstance(each, FetchDistribution | CappedFetch) for each in models):
        points |= {epsilon: OnePoint(stated).delta(epsilon).upper for epsilon in smaller}
    elif smaller:
        points |= dict(zip(smaller, largest_deltas(models, smaller), strict=True))
    if pure <= LARGEST_EPSILON:
        points[pure] = 0.0
    points = dict(sorted(points.items()))
    return LossLaw.of(list(points), list(points.values()), pure)
