"""Chooses the accountant for a realised network; `accountant` lists all cases with their reasons."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.exchange.network_record import Capped, FetchTable, NetworkRecord, Uniform, Unknown
from p2p_sim.exchange.randomizer import Message
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import REALISED, Bracket, PrivacyBound
from p2p_sim.privacy.conditions import LOCAL_CONDITIONS, REALISED_CONDITIONS, SAME_SOURCES
from p2p_sim.privacy.overlays.fetch_distribution import FetchDistribution
from p2p_sim.privacy.overlays.realised_network import CappedFetch, UniformSources
from p2p_sim.privacy.where_bounds_hold import ANYWHERE

Floats = NDArray[np.float64]
Observer = Literal["others", "learner", "learner-times", "coalition"]


class Cluster:
    """One cluster's part of a network record, and the facts about it that decide what each observer learns.

    exposed: users whose noisy label the learner knows. hidden: other users whose label somebody may have passed on.
    fell_back: a user submitted her own label. chosen: a colluding user asked another user on purpose.
    watched: the cluster has a colluding user. members: number of colluding users.
    """

    def __init__(self, shard: NetworkRecord, part: slice) -> None:
        self.law, self.draws, self.times_tell = shard.law, shard.draws, shard.times_tell
        self.fetched, self.own = shard.fetched[part], shard.own[part]
        self.answers, self.constant = shard.answers[part], shard.constant[part]
        self.member, self.probed = shard.member[part], shard.probed[part]
        # a user's own label reveals its owner; a constant answer depends on nobody's label
        self.exposed = (self.own | self.constant) & self.answers
        self.anything = isinstance(self.law, Unknown) and self.law.anything
        self.hidden = ~self.constant if self.anything else self.answers & ~self.exposed
        self.fell_back = bool((self.own & ~self.constant).any())
        self.chosen = bool((self.probed & ~self.member).any())
        self.watched = bool(self.member.any())
        # if a shard keeps only sums, an entry stands for several users
        counted = (self.answers, self.exposed, self.fetched, self.member)
        if shard.users is None:
            counts = [int(np.count_nonzero(x)) for x in counted]
        else:
            counts = [int(shard.users[part][x].sum()) for x in counted]
        self.sources, self.revealed, self.submissions, self.members = counts
        if isinstance(self.law, FetchTable):
            self.weights = _square(self.law.weights, part)
            self.requests = None if self.law.requests is None else _square(self.law.requests, part)
        if isinstance(self.law, Capped):
            self.caps = self.law.caps[part]


def _square(table: "scipy.sparse.csr_array", part: slice) -> "scipy.sparse.csr_array":
    """The rows and columns of one cluster in a shard's sparse table (m, m); users fetch only within their cluster."""
    if part == slice(0, table.shape[0]):
        return table
    start = table.indptr[part.start : part.stop + 1]
    entries, size = slice(start[0], start[-1]), part.stop - part.start
    own = (table.data[entries], table.indices[entries] - part.start, start - start[0])
    return scipy.sparse.csr_array(own, shape=(size, size))


def clusters_of(shards: Sequence[NetworkRecord]) -> Iterator[Cluster]:
    """Yields every cluster of a run, in the population's order."""
    for shard in shards:
        for first, last in itertools.pairwise(shard.offsets.tolist()):
            yield Cluster(shard, slice(first, last))


def accountant(cluster: Cluster, noise: Message, observer: Observer, user: int | None = None) -> Accountant:
    """The accountant that protects the labels of a cluster's users in the realised network, or of one user.

    Args:
        noise: the randomizer of each label.
        observer: "learner": sees the set of submissions; "learner-times": also sees when each came; "coalition": the
            learner and the cluster's colluding users, about everybody else; "others": the learner, about users who did
            not submit their own label.
        user: her index in the cluster, against the learner; None: all users, so that the largest ε counts.
    """
    if user is not None:
        if cluster.constant[user]:  # what she sends does not depend on her label
            return NothingSeen()
        if cluster.own[user]:
            return NoiseAlone(noise, "a user passed on her own label")
        if not (cluster.answers[user] or cluster.anything):  # nobody could fetch her label
            return NothingSeen()
        if isinstance(cluster.law, Capped):
            return _few_distinct(cluster, noise)
        return _passed_on(cluster, noise, members=False)
    members = observer == "coalition" and cluster.watched
    if members and (cluster.chosen or cluster.fell_back):
        return NoiseAlone(noise, "a member chose whom to ask, or a user fell back")
    if observer == "learner-times" and cluster.times_tell:
        return NoiseAlone(noise, "arrival times may name the peer")
    if observer != "others" and cluster.fell_back:
        return NoiseAlone(noise, "a user passed on her own label")
    return _passed_on(cluster, noise, members)


@lru_cache(maxsize=2)  # the last cluster's, which several observers share
def _passed_on(cluster: Cluster, noise: Message, members: bool) -> Accountant:
    """Accountant of users whose label others may have submitted.

    Args:
        members: against the coalition; else against the learner.
    """
    hidden = cluster.hidden & ~(cluster.member & members)
    if not hidden.any() or not (cluster.fetched.any() or members or cluster.anything):
        return NothingSeen()
    if isinstance(cluster.law, Unknown):
        return NoiseAlone(noise, cluster.law.reason)
    # messages other than flipped labels of two classes: bounds exist only if all users are asked alike
    sources, revealed, submissions = cluster.sources, cluster.revealed, cluster.submissions
    alpha = noise.binary_flip_prob
    if alpha is None:
        if isinstance(cluster.law, Uniform) and not members and sources - revealed > 1:
            model = noise.fetched(sources - revealed, submissions)
            return GivenNetwork(model, (*REALISED_CONDITIONS, SAME_SOURCES, *noise.caveats))
        return NoiseAlone(noise, "no figure for this network but for flipped labels of two classes")
    # flipped labels of two classes: the accountant depends on the law of whom users asked
    if isinstance(cluster.law, Uniform):
        pooled = (cluster.members, cluster.draws) if members else ()
        return UniformSources(sources, revealed, submissions, alpha, *pooled)
    if isinstance(cluster.law, FetchTable):
        return _table(cluster, noise, alpha, members)
    if members:
        return NoiseAlone(noise, "no figure for coalitions where users come and go")
    caps = cluster.caps[cluster.fetched]
    return CappedFetch(caps, alpha, np.minimum(1.0, revealed * caps))


def _table(cluster: Cluster, noise: Message, alpha: float, members: bool) -> Accountant:
    """Accountant of users whose peers a fetch table describes; `members`: against the coalition, else the learner.

    Colluding users see what they fetch, whether they submit it or not.
    """
    others = ~cluster.member if members else np.ones_like(cluster.member)
    weights, rates = cluster.weights, (cluster.fetched & others).astype(np.float64)
    if members:
        if cluster.requests is None:
            return NoiseAlone(noise, "members may have seen requests on their way to others, or failed ones")
        weights = scipy.sparse.csr_array(weights.multiply(others[:, None])) + cluster.requests
    pooled, draws = (cluster.member, cluster.draws) if members else (None, 1)
    return FetchDistribution(weights, alpha, rates, known=cluster.exposed, members=pooled, draws=draws, realised=True)


def _few_distinct(cluster: Cluster, noise: Message) -> Accountant:
    """Accountant of users who come and go, with the largest cap for all submitters.

    The coarser bound depends on few numbers, so that many clusters share one cached accountant.
    """
    caps, alpha = cluster.caps[cluster.fetched], noise.binary_flip_prob
    if not caps.size or alpha is None:
        return _passed_on(cluster, noise, members=False)
    return _capped(len(caps), float(caps.max()), int(cluster.exposed.sum()), alpha)


@lru_cache(maxsize=65_536)
def _capped(submissions: int, cap: float, exposed: int, flip_prob: float) -> Accountant:
    """Accountant, against the learner, of `submissions` labels, of which no user is the source with probability above
    `cap`.

    exposed: how many of them could have a given user as their source. It is cached.
    """
    return CappedFetch(np.full(submissions, cap), flip_prob, min(1.0, exposed * cap))


@dataclass(frozen=True)
class NoiseAlone(Accountant):
    """Accountant for cases where only the noise on each label is certain to protect it.

    noise: the randomizer. reason: why nothing else is known, for the basis of the bound.
    """

    requires = ANYWHERE

    noise: Message
    reason: str

    @property
    def pure_epsilon(self) -> float:
        """ε₀ of a noisy label: ε at δ = 0."""
        return self.noise.local_epsilon

    def delta(self, epsilon: float) -> Bracket:
        """Bracket of δ(ε) of a single message seen with its sender."""
        return self.noise.alone(epsilon)

    def epsilon(self, delta: float) -> PrivacyBound:
        """The bound ε₀ of a noisy label, the same at every δ."""
        basis, upper = f"noise alone: {self.reason}", self.noise.local_epsilon
        return PrivacyBound(
            0.0, upper, delta, observer="learner", adjacency="label", basis=basis, conditions=self.conditions
        )

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions under which the bounds hold, as sentences."""
        return (*LOCAL_CONDITIONS, *self.noise.caveats)


@dataclass(frozen=True)
class NothingSeen(Accountant):
    """Accountant of users whose label nobody passed on: ε = 0 and δ = 0."""

    requires = ANYWHERE
    conditions = REALISED_CONDITIONS
    pure_epsilon = 0.0

    def delta(self, epsilon: float) -> Bracket:
        """A bracket with δ = 0 at every ε."""
        return Bracket(0.0, 0.0)

    def epsilon(self, delta: float) -> PrivacyBound:
        """The bound ε = 0 at δ."""
        basis = "nobody's label was passed on"
        return PrivacyBound(
            0.0, 0.0, delta, "learner", "label", basis=basis, conditions=self.conditions, conditional_on=REALISED
        )


@dataclass(frozen=True)
class GivenNetwork(Accountant):
    """An accountant restated for the realised network, with upper ends only: its lower ends do not hold there.

    model: the accountant. conditions: under which its bounds hold for the realised network.
    """

    requires = ANYWHERE

    model: Accountant
    conditions: tuple[str, ...] = ()

    @property
    def pure_epsilon(self) -> float:
        """ε at δ = 0, as the underlying accountant states it."""
        return self.model.pure_epsilon

    def delta(self, epsilon: float) -> Bracket:
        """Upper bound of δ at ε; the bracket's lower end is 0."""
        return Bracket(0.0, self.model.delta(epsilon).upper)

    def epsilon(self, delta: float) -> PrivacyBound:
        """Upper bound of ε at δ; the lower end is 0."""
        bound = self.model.epsilon(delta)
        return replace(bound, epsilon_lower=0.0, conditions=self.conditions, conditional_on=REALISED)

    def profile(self, epsilons: Sequence[float]) -> list[Bracket]:
        """Upper bounds of δ at each of the given values of ε; lower ends are 0."""
        return [Bracket(0.0, bracket.upper) for bracket in self.model.profile(epsilons)]
