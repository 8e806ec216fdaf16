"""The learner's ε in a *realised* network: the network as it turned out in one run.

It is then known who could be asked, and how many labels arrived. The bounds are conditional on the realised network,
and must not be averaged over replicates. They hold for neighbouring data sets, which differ in one user's label. Labels
do not affect who is online, which messages are lost, or how long messages take.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from p2p_sim.privacy.accountant import FlippedLabels
from p2p_sim.privacy.binomial_windows import LEAST, SUBNORMAL, Floats, share_of, some
from p2p_sim.privacy.bound import (
    LARGEST_CLUSTER,
    REALISED,
    Bracket,
    PrivacyBound,
    check_delta,
    check_epsilon,
    check_range,
)
from p2p_sim.privacy.conditions import CAPPED_FETCHES, PASSIVE, REALISED_CONDITIONS, SAME_SOURCES
from p2p_sim.privacy.exchange import ClusterExchange
from p2p_sim.privacy.overlays.symmetric_pairs import (
    LEAST_FLIP,
    SHARES,
    LevelBound,
    Levels,
    Pair,
    amplified_delta,
    product,
)
from p2p_sim.privacy.randomized_response import cross, invert, local_delta, outward
from p2p_sim.privacy.where_bounds_hold import REALISED as REALISED_REQUIRED

_CAPS = 32
"""Largest number of distinct caps (bounds of fetch probabilities). If there are more, they are rounded up to this many
values."""


@dataclass(frozen=True)
class UniformSources(FlippedLabels):
    """Exactly `submissions` labels arrived. Each was fetched uniformly and independently from the same users, the
    sources.

    The bound of δ lets the learner see more. First reveal which submissions are noisy labels that are known anyway.
    These submissions are no evidence. An exchange among the other sources remains.

    Members are passive users who pool what they see with the learner. If a member fetched the target's noisy label,
    only the label's noise protects the target. Otherwise reveal three more things: the members' noisy labels, the
    labels that they fetched, and who submits these labels. Whether a member fetched from the target is independent of
    the target's label and of other users' fetches.

    Args:
        sources: S, the number of users from whom labels can be fetched, the target among them, at least 1.
        known: how many sources' noisy labels the learner knows, at most S-1. Examples are users with fixed
            answers, and users who got no peer's label and submit their own. The target is not one of these sources.
        submissions: t, how many labels arrived, at least 0; labels that members submitted may be counted or not.
        flip_prob: α, 0 or in [1e-300, 1/2].
        members: c, the number of members; they may be sources or not.
        draws: R, the largest number of labels that a member may have got, at least 1. Each comes from an independently
            drawn source.
    """

    requires = REALISED_REQUIRED

    sources: int
    known: int
    submissions: int
    flip_prob: float
    members: int = 0
    draws: int = 1

    def __post_init__(self) -> None:
        check_range("sources", self.sources, 1, LARGEST_CLUSTER, whole=True)
        check_range("known", self.known, 0, self.sources - 1, whole=True)
        for name, least in (("submissions", 0), ("members", 0), ("draws", 1)):
            check_range(name, getattr(self, name), least, LARGEST_CLUSTER, whole=True)
        check_range("flip_prob", self.flip_prob, LEAST, 0.5, or_zero=True)

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε), ε at least 0, given the realised network.

        The bounds are equal up to rounding if `known` and `members` are 0.
        """
        check_epsilon(epsilon)
        direct = local_delta(self.flip_prob, epsilon)
        if direct.upper == 0.0:
            return Bracket(0.0, 0.0)
        rest = self._setting.delta(epsilon) if self.submissions else Bracket(0.0, 0.0)
        if self.known or self.members:
            rest = Bracket(0.0, min(rest.upper, outward(0.0, self._exposure * direct.upper).upper))
        if not self.members:
            return rest
        return outward(0.0, (self._met * direct.upper + (1.0 - self._met) * rest.upper) * (1.0 + 2.0**-48))

    def epsilon(self, delta: float) -> PrivacyBound:
        """ε(δ), δ in (0, 1), conditional on the realised network."""
        check_delta(delta)
        lower, exact = 0.0, self._setting.epsilon(delta) if self.submissions and not self.members else Bracket(0.0, 0.0)
        if self.members:
            basis = "average over whether a member met the target"
            upper = cross(lambda epsilon: not self._holds(epsilon, delta), self.flip_prob, precision=1e-5)[1]
        elif self.known:
            # The lesser of two bounds counts. The first leaves out the known labels. The second uses only the
            # probability that the target's noisy label is submitted.
            basis, exposure = "known sources revealed", self._exposure
            direct = cross(lambda e: exposure * local_delta(self.flip_prob, e).upper > delta, self.flip_prob)[1]
            upper = min(exact.upper, direct)
        else:
            basis, lower, upper = "exact, given the submissions", exact.lower, exact.upper
        return PrivacyBound(
            lower,
            upper,
            delta,
            observer="coalition" if self.members else "learner",
            adjacency="label",
            basis=f"realised network: {basis}",
            conditions=self.conditions,
            conditional_on=REALISED,
        )

    @property
    def conditions(self) -> tuple[str, ...]:
        return (*REALISED_CONDITIONS, SAME_SOURCES, *((PASSIVE,) if self.members else ()))

    def _holds(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, `delta`) is certified if there are members. Clear cases are decided quickly."""
        direct = local_delta(self.flip_prob, epsilon).upper
        spare = delta * (1.0 - 2.0**-48) - self._met * direct
        if spare <= 0.0:
            return False
        if (1.0 - self._met) * self._exposure * direct <= spare:
            return True
        return self._setting.satisfies(epsilon, spare / (1.0 - self._met))

    @property
    def _setting(self) -> ClusterExchange:
        """The exchange that remains when all noisy labels are revealed that the learner or a member knows or may know.

        The cluster then has H = S - known - c (1 + R) users, at least 1. S is `sources`, c `members` and R `draws`. The
        term c (1 + R) is for the members and the labels that they may have fetched. Revealing a label never lowers δ.
        Each of the t submissions carries one of the H users' labels with probability H/S.
        """
        hidden = max(1, self.sources - self.known - self.members * (1 + self.draws))
        return ClusterExchange(hidden, self.flip_prob, self.submissions, share_of(1.0, hidden, self.sources, up=True))

    @property
    def _met(self) -> float:
        """The probability 1 - (1 - 1/S)^(c R) that some member got the target's noisy label.

        S is `sources`, c `members` and R `draws`.
        """
        return some(1.0 / self.sources, self.members * self.draws)

    @property
    def _exposure(self) -> float:
        """The probability 1 - (1 - 1/S)^t that at least one submission is the target's noisy label, rounded up.

        S is `sources`, and t `submissions`.
        """
        return some(1.0 / self.sources, self.submissions) * (1.0 + 2.0**-48)


@dataclass(frozen=True, eq=False)
class CappedFetch(FlippedLabels):
    """Submissions of users of whom only a cap is known: a bound of the largest fetch probability. No n by n table is
    needed.

    Submitter i fetches from each user with probability at most c = caps[i]. Let τ be a threshold. For every target,
    what i shows, unless she is stray (see `LevelBound`), is a post-processing of the three-point pair (see
    `fetch_distribution`) with w = c. To see this for w < c, start from (τ, 1-2τ-c, τ+c). Keep each outer outcome with
    some probability. Replace it by the other outer outcome with another probability, and otherwise by the middle
    outcome. Suitable probabilities give (τ, 1-2τ-w, τ+w).

    Submitter i is stray with probability at most 2 exp(-(M/c) kl(τ/M, α)) if τ/M < α. Here kl is the Kullback-Leibler
    divergence of two Bernoulli laws. M = 1 - c - known_mass is the least probability with which she fetches an unknown
    noisy label of a user other than the target. This is Chernoff's bound, with a parameter λ > 0. The bound adds up
    ln(1-α+αe^(-λw)) over the entries w of her row. This term is convex in w, and 0 at w = 0. So the term is at most w/c
    times its value at c, and the worst row has M/c equal entries.

    Args:
        caps: (m,), in (0, 1]: for each submitter, a bound of the largest probability with which she fetches from one
            user.
        flip_prob: α in [0, 1/2].
        known_mass: scalar or (m,), in [0, 1]: the largest probability with which a submitter fetches a noisy label that
            the learner knows. The target's label is not known.
    """

    requires = REALISED_REQUIRED
    conditions = (*REALISED_CONDITIONS, CAPPED_FETCHES)

    caps: Floats
    flip_prob: float
    known_mass: float | Floats = 0.0

    def __post_init__(self) -> None:
        caps, mass = np.asarray(self.caps, dtype=np.float64), np.asarray(self.known_mass, dtype=np.float64)
        if caps.ndim != 1 or not np.all((caps > 0.0) & (caps <= 1.0)):
            raise ValueError("caps: must be one list of numbers in (0, 1]")
        if mass.shape not in ((), caps.shape) or not np.all((mass >= 0.0) & (mass <= 1.0)):
            raise ValueError("known_mass: must be a number in [0, 1], or one for each submitter")
        check_range("flip_prob", self.flip_prob, 0.0, 0.5)

    def delta(self, epsilon: float) -> Bracket:
        """A certified bracket of δ(ε) that holds for every target; its lower value is 0."""
        check_epsilon(epsilon)
        return Bracket(0.0, amplified_delta(self._levels, self.flip_prob, epsilon))

    def epsilon(self, delta: float) -> PrivacyBound:
        """Certified ε(δ) that holds for every target, at most ε₀, the ε of the noise on a label alone."""
        bound = invert(
            self.delta,
            delta,
            self.flip_prob,
            observer="learner",
            basis="largest fetch probabilities",
            conditions=self.conditions,
        )
        return replace(bound, conditional_on=REALISED)

    @cached_property
    def _levels(self) -> Levels:
        # bounds of what submissions show of any target's noisy label, at several thresholds τ (levels)
        caps = np.asarray(self.caps, dtype=np.float64)
        return _capped_levels(_grouped(caps, np.broadcast_to(self.known_mass, caps.shape)), self.flip_prob)


def _grouped(caps: Floats, mass: Floats) -> Floats:
    """Submitters in groups of equal cap and known mass (see `CappedFetch`), (G, 3): cap, known mass, number of
    submitters.

    Caps and known masses are rounded up to few values, which only weakens the bound.

    Args:
        caps, mass: (m,), the cap and the known mass of each submitter.
    """
    if np.unique(caps).size > _CAPS:
        edges = np.geomspace(caps.min(), caps.max(), _CAPS)
        edges[-1] = caps.max()
        above = np.searchsorted(edges, caps)
        caps = np.maximum(edges[np.minimum(above, _CAPS - 1)], caps)
    if np.unique(mass).size > 1:
        mass = np.minimum(1.0, np.ceil(mass * 20.0) / 20.0)
    lines, counts = np.unique(np.stack([caps, mass], axis=1), axis=0, return_counts=True)
    return np.column_stack([lines, counts])


def _capped_levels(groups: Floats, flip_prob: float) -> Levels:
    """Bounds of what is seen of a target's noisy label, at several thresholds τ, each a fixed share of α.

    At each τ, stray submitters (see `LevelBound`) count as showing the target's noisy label if they fetched it. The
    probability of being stray has a Chernoff bound. All other submitters show little. No τ is used if α < 1e-100.

    Args:
        groups: (G, 3): each group's cap, its known mass, and its number of submitters.
    """
    caps, mass, counts = groups.T
    others = 1.0 - caps - mass
    bounds = []
    for level in (share * flip_prob for share in SHARES if flip_prob >= LEAST_FLIP):
        # Chernoff's bound of the probability of being stray, for the groups to which it applies.
        inside = (2.0 * level + caps < 1.0) & (level < others * flip_prob)
        share = level / others[inside]
        divergence = share * np.log(share / flip_prob) + (1.0 - share) * (np.log1p(-share) - math.log1p(-flip_prob))
        chance = np.ones(len(caps))
        stray = 2.0 * np.exp(-others[inside] / caps[inside] * divergence) * (1.0 + 1e-9) + SUBNORMAL
        chance[inside] = np.minimum(1.0, stray)
        # Groups without such a bound count as always stray. Stray users show the label if they fetched it.
        bounded = chance < 1.0
        if not bounded.any():
            continue
        exposed = _exposure(caps[~bounded], counts[~bounded])
        leak = float(exposed + (counts * caps * chance)[bounded].sum()) * (1.0 + 1e-12)
        stray = float((counts * chance)[bounded].sum()) * (1.0 + 1e-12)
        pairs = [Pair.three_point(level, c, 1.0, int(k)) for c, k in zip(caps[bounded], counts[bounded], strict=True)]
        bounds.append(LevelBound(leak, exposed, stray, product(pairs)))
    return Levels(min(1.0, _exposure(caps, counts)), tuple(bounds))


def _exposure(caps: Floats, counts: Floats) -> float:
    """The probability that at least one submitter submits the target's noisy label, rounded up.

    caps, counts: (G,) each, a bound of a submitter's probability of fetching from the target, and a group's size.
    """
    with np.errstate(divide="ignore"):
        return -math.expm1(float(counts @ np.log1p(-caps))) * (1.0 + 1e-12)
