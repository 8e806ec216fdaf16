"""Accountants of observers other than the learner, each with what the observer sees and when the bounds hold.

Each accountant has the methods `delta(epsilon)`, which returns a bracket, and `epsilon(delta)`, which returns a
PrivacyBound. The learner's own accountant is `LabelExchange`.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from p2p_sim.privacy.accountant import Accountant, FlippedLabels
from p2p_sim.privacy.binomial_windows import some
from p2p_sim.privacy.bound import LARGEST_CLUSTER, Bracket, PrivacyBound, check_delta, check_epsilon, check_range
from p2p_sim.privacy.composition_lower_end import AttainedPair
from p2p_sim.privacy.conditions import (
    ASKED_BY_DRAW,
    LEARNER_CONDITIONS,
    LOCAL_CONDITIONS,
    NO_RELEASE,
    PASSIVE,
    TIMES_FREE,
)
from p2p_sim.privacy.disk_cache import disk_cached
from p2p_sim.privacy.exchange.coalition import bracketing_exchanges, coalition_delta, enumerable
from p2p_sim.privacy.exchange.delta_evaluator import DeltaEvaluator
from p2p_sim.privacy.exchange.label_exchange import LabelExchange
from p2p_sim.privacy.exchange.majority_exchange import Peers, peer_weights
from p2p_sim.privacy.randomized_response import bisect, cross, invert, local_delta, local_epsilon, outward
from p2p_sim.privacy.where_bounds_hold import INSIDERS, REALISED


@dataclass(frozen=True)
class Eavesdropper(Accountant):
    """An observer who reads every message on the links: each noisy label with its owner. The noise alone protects.

    Args:
        flip_prob: α in [0, (K-1)/K].
        num_classes: K, at least 2.
        observer: whom the bounds are about: "eavesdropper", or another observer, who sees at most as much. For another
            observer the lower bounds are 0.
    """

    requires = REALISED
    conditions = LOCAL_CONDITIONS

    flip_prob: float
    num_classes: int = 2
    observer: str = "eavesdropper"

    @property
    def basis(self) -> str:
        """In words, how the bounds are computed, for reports."""
        return "exact: the noisy label" if self._reads_all else "noise alone: nothing sharper is known"

    @property
    def _reads_all(self) -> bool:
        """Whether the observer is an eavesdropper, for whom the bounds are exact. For another observer only the upper
        bounds count.
        """
        return self.observer == "eavesdropper"

    @property
    def pure_epsilon(self) -> float:
        """ε₀, the ε of the noisy label alone at δ = 0, which holds for every observer."""
        return local_epsilon(self.flip_prob, self.num_classes)

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of the δ(ε) of the noisy label alone. For an eavesdropper the two bounds are equal up to rounding."""
        check_epsilon(epsilon)
        bracket = local_delta(self.flip_prob, epsilon, self.num_classes)
        return bracket if self._reads_all else Bracket(0.0, bracket.upper)

    def attained_pair(self) -> AttainedPair | None:
        """Two laws of the target's noisy label, (Pr[0], Pr[1]): for her true label 0, and for her true label 1.

        From such pairs, lower bounds of the ε of several releases together are computed. The target is the user whose
        label is protected. None: there are more than two classes, α = 0, or the observer is no eavesdropper.
        """
        alpha = self.flip_prob
        if self.num_classes > 2 or alpha == 0.0 or not self._reads_all:
            return None
        return AttainedPair(np.array([1.0 - alpha, alpha]), np.array([alpha, 1.0 - alpha]), 1e-15)

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of the smallest ε at which (ε, δ) holds: ln((K-1)(1-α-δ)/α), at least 0."""
        bound = invert(
            self.delta,
            delta,
            self.flip_prob,
            observer=self.observer,
            basis=self.basis,
            conditions=self.conditions,
            num_classes=self.num_classes,
        )
        return bound if self._reads_all else replace(bound, epsilon_lower=0.0)


@dataclass(frozen=True)
class TimedLearner(Accountant):
    """A learner who also sees when each submission arrives.

    If latencies depend on the link (distance, retries, load), times may reveal whom a user asked. Then only ε₀ holds,
    the ε of the noisy label alone. If start times and latencies do not depend on whom a user asks, the bounds
    for a learner without times hold.

    Args:
        exchange: the exchange in one cluster.
        independent_latencies: start times and latencies are drawn independently of the choice of peers.
    """

    requires = INSIDERS

    exchange: LabelExchange
    independent_latencies: bool = False

    @property
    def pure_epsilon(self) -> float:
        """ε₀, the ε of the noisy label alone at δ = 0, which holds for every observer."""
        return self.exchange.pure_epsilon

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε). If `independent_latencies` is set, these are the bounds for a learner without times.

        Otherwise the upper bound is the δ(ε) of the noisy label alone, and the lower bound is 0.
        """
        if self.independent_latencies:
            return self.exchange.delta(epsilon)
        check_epsilon(epsilon)
        return Bracket(0.0, local_delta(self.exchange.flip_prob, epsilon).upper)

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of ε at δ. If `independent_latencies` is set, these are the bounds for a learner without times.

        Otherwise the upper bound is the ε of the noisy label alone at this δ, and the lower bound is 0.
        """
        if self.independent_latencies:
            return replace(self.exchange.epsilon(delta), observer="learner-times", conditions=self.conditions)
        return invert(
            self.delta,
            delta,
            self.exchange.flip_prob,
            observer="learner-times",
            basis=self.basis,
            conditions=self.conditions,
        )

    @property
    def basis(self) -> str:
        """In words, how the bounds are computed, for reports."""
        return self.exchange.basis if self.independent_latencies else "local noise: times may name the peer"

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions under which the bounds hold, in words."""
        return (TIMES_FREE, *LEARNER_CONDITIONS[1:]) if self.independent_latencies else LOCAL_CONDITIONS


@dataclass(frozen=True)
class Peer(FlippedLabels):
    """One curious user of the cluster. She sees the noisy labels of the peers whom she asked, but not the release.

    Args:
        cluster_size: n, at least 2. flip_prob: α in [0, 1/2].
        peers: k, the odd number of users whom she asks; or the probability of each k.
    """

    requires = INSIDERS
    conditions = (ASKED_BY_DRAW, NO_RELEASE, *LOCAL_CONDITIONS)

    cluster_size: int
    flip_prob: float
    peers: Peers = 1

    def __post_init__(self) -> None:
        check_range("cluster_size", self.cluster_size, 2, LARGEST_CLUSTER, whole=True)
        check_range("flip_prob", self.flip_prob, 0.0, 0.5)
        object.__setattr__(self, "peers", peer_weights(self.peers))

    @property
    def basis(self) -> str:
        """In words, how the bounds are computed, for reports."""
        return "exact: one noisy label" if self.peers == ((1, 1.0),) else "exact: the noisy labels that she got"

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε) = q max(0, 1-α-αe^ε), equal up to rounding.

        Here q is the probability that the peer asks the target. The other factor is the δ(ε) of the target's noisy
        label alone. The peer asks k of the n users, each drawn uniformly and independently, so q = 1-(1-1/n)^k. If k is
        random, q is the mean of this formula over k.
        """
        check_epsilon(epsilon)
        local, n = local_delta(self.flip_prob, epsilon), self.cluster_size
        if local.upper == 0.0:
            return local
        if self.peers == ((1, 1.0),):
            return outward(local.lower / n, local.upper / n)
        chance = sum(weight * some(1.0 / n, k) for k, weight in peer_weights(self.peers))
        return outward(local.lower * chance * (1.0 - 2.0**-45), local.upper * chance * (1.0 + 2.0**-45))

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of the smallest ε at which (ε, δ) holds against the peer, by inverting δ(ε)."""
        return invert(self.delta, delta, self.flip_prob, observer="peer", basis=self.basis, conditions=self.conditions)


@dataclass(frozen=True)
class Coalition(Accountant):
    """An observer who pools what the learner sees with what c passive users of the target's cluster see.

    The members know their own noisy labels, whom they asked, what they got, and who asked them.

    Args:
        exchange: the exchange in one cluster, of a single round.
        members: c, from 1 to n-1. The target is no member.
    """

    requires = INSIDERS
    basis = "average over what the members can know"
    conditions = (PASSIVE, *LEARNER_CONDITIONS)

    exchange: LabelExchange
    members: int

    def __post_init__(self) -> None:
        n = self.exchange.cluster_size
        if not isinstance(self.members, int) or not 1 <= self.members <= n - 1:
            raise ValueError(f"members = {self.members}: must lie in 1..{n - 1}, as the target is no member")
        if self.exchange.rounds != 1:
            raise ValueError(f"rounds = {self.exchange.rounds}: a coalition's bounds hold for a single round only")

    @property
    def pure_epsilon(self) -> float:
        """ε₀, the ε of the noisy label alone at δ = 0, which holds for every observer."""
        return self.exchange.pure_epsilon

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of the coalition's δ(ε), the largest over all data sets.

        There are two cases: a member asked the target, or no member did. The coalition's δ(ε) is the average of the two
        cases' δ(ε), weighted by their probabilities.
        """
        check_epsilon(epsilon)
        e = self.exchange
        direct = local_delta(e.flip_prob, epsilon)
        if direct.upper == 0.0:
            return Bracket(0.0, 0.0)
        # with probability `met` a member knows the target's noisy label; then δ is `direct`, the largest possible δ
        met = self._met
        rest = coalition_delta(e.cluster_size, e.flip_prob, e.sampling_rate, self.members, epsilon)
        lower = (met * direct.lower + (1.0 - met) * rest.lower) * (1.0 - 2.0**-48)
        upper = min((met * direct.upper + (1.0 - met) * rest.upper) * (1.0 + 2.0**-48), direct.upper)
        return outward(lower, upper)

    def satisfies(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) is certified for all data sets. False means that (ε, δ) fails, or that it could not be
        certified.
        """
        check_delta(delta)
        check_epsilon(epsilon)
        return not self._met_exceeds(epsilon, delta) and super().satisfies(epsilon, delta)

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of the smallest ε at which (ε, δ) holds against the coalition for all data sets."""
        check_delta(delta)
        bracket = _coalition_epsilon(self, delta)
        return PrivacyBound(
            bracket.lower,
            bracket.upper,
            delta,
            observer="coalition",
            adjacency="label",
            basis=self.basis,
            conditions=self.conditions,
        )

    @property
    def _met(self) -> float:
        """Probability that at least one member asks the target."""
        return some(1.0 / self.exchange.cluster_size, self.members)

    def _met_exceeds(self, epsilon: float, delta: float) -> bool:
        """Whether Pr[a member asks the target] times the δ(ε) of the target's noisy label exceeds `delta`. Then (ε, δ)
        fails.

        This quick test often decides without `delta(epsilon)`.
        """
        return self._met * local_delta(self.exchange.flip_prob, epsilon).lower * (1.0 - 2.0**-40) > delta


@disk_cached
def _coalition_epsilon(coalition: Coalition, delta: float) -> Bracket:
    """Bounds of the ε at δ of a coalition.

    `Coalition.delta` is inverted in small clusters, and for α = 0. In other clusters the bounds come from two other
    exchanges. For the lower bound, the members forget what they got. For the upper bound, the members know the noisy
    labels of as many other users as there are members. They cannot have got more.
    """
    exchange, members = coalition.exchange, coalition.members
    if not (enumerable(exchange.cluster_size, members) or math.isinf(coalition.pure_epsilon)):
        return _large_coalition_epsilon(coalition, delta)

    # where `_met_exceeds` shows that (ε, δ) fails, the curve counts as 1, which saves an enumeration
    def curve(epsilon: float) -> Bracket:
        return Bracket(1.0, 1.0) if coalition._met_exceeds(epsilon, delta) else coalition.delta(epsilon)

    bound = invert(
        curve, delta, exchange.flip_prob, observer="coalition", basis=coalition.basis, conditions=coalition.conditions
    )
    return Bracket(bound.epsilon_lower, bound.epsilon_upper)


def _large_coalition_epsilon(coalition: Coalition, delta: float) -> Bracket:
    """Bounds of the ε at δ of a coalition in a large cluster.

    There are two cases: a member asked the target, or no member did. The coalition's δ(ε) is the sum over the cases of
    a probability times a δ(ε). In the first case the factor δ(ε) is that of the target's noisy label. In the second
    case two exchanges bound the factor. For the lower bound, the members forget what they got. For the upper bound, the
    members know the noisy labels of as many other users as there are members.
    """
    exchange, members = coalition.exchange, coalition.members
    alpha, local = exchange.flip_prob, coalition.pure_epsilon
    forgotten, revealed = bracketing_exchanges(exchange.cluster_size, alpha, exchange.sampling_rate, members)
    met, log_delta = coalition._met, 8.0 * math.floor(math.log(delta) / 8.0)
    # an upper bound of ε: the ε of an observer who knows whose label each message carries
    direct = cross(lambda epsilon: local_delta(alpha, epsilon).upper > delta, alpha).below

    def unasked_delta(epsilon: float, upper: bool) -> float:
        """How large δ(ε) given that no member asked the target may be, for the coalition's δ(ε) to be at most `delta`.

        From `delta`, subtract the part of the case in which a member asked the target. Divide the rest by the
        probability of the other case. The result is at most 0 if the first case alone reaches `delta`.

        Args:
            upper: whether the result is rounded down, for the upper bound of ε; otherwise it is rounded up.
        """
        direct = local_delta(alpha, epsilon)
        spare = delta - met * (direct.upper * (1.0 + 2.0**-45) if upper else direct.lower * (1.0 - 2.0**-45))
        return spare * (1.0 - 2.0**-45 if (spare > 0.0) == upper else 1.0 + 2.0**-45) / (1.0 - met)

    def zeros_above(evaluator: DeltaEvaluator, upper: bool, epsilon: float) -> bool:
        """Whether the coalition's δ(ε) exceeds `delta` if all users but the target hold label 0.

        Args:
            evaluator: computes δ given that no member asked the target. upper: whether to take the evaluator's upper
            bound of δ, for the upper bound of ε; otherwise the lower bound.
        """
        most = unasked_delta(epsilon, upper)
        return most <= 0.0 or evaluator.bounds(evaluator.views([0]), epsilon, (upper,))[0].max() > most

    lower = cross(partial(zeros_above, DeltaEvaluator(forgotten, log_delta), False), alpha).above
    if revealed is None:
        return Bracket(lower, direct)

    def refused(epsilon: float) -> bool:
        most = unasked_delta(epsilon, True)
        return epsilon < local and (most <= 0.0 or not revealed.satisfies(epsilon, most, log_delta))

    # start at the ε of the data set in which all others hold label 0; if another data set needs more, go up, then
    # bisect
    below, upper = cross(partial(zeros_above, DeltaEvaluator(revealed, log_delta), True), alpha)
    step = 1e-6
    while refused(upper):
        below, upper, step = upper, min(local, upper * (1.0 + step) + step * local), 16.0 * step
    if step > 1e-6:
        upper = bisect(refused, below, upper, 1e-6).below
    return Bracket(lower, min(upper, direct))


Observer = LabelExchange | TimedLearner | Peer | Coalition | Eavesdropper
