"""Accountants for what happened on a run's network. `accountant` chooses one for each observer."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.exchange import Capped, FetchTable, Message, NetworkRecord, Uniform, Unknown
from p2p_sim.mechanisms.channels import MessageAccountant
from p2p_sim.privacy import (
    ANYWHERE,
    LOCAL_CONDITIONS,
    REALISED,
    REALISED_CONDITIONS,
    SAME_SOURCES,
    Accountant,
    Bracket,
    PrivacyBound,
)
from p2p_sim.privacy.exchange import NOISE_ALONE
from p2p_sim.privacy.overlays import CappedFetch, FetchDistribution, UniformSources

Floats = NDArray[np.float64]
Observer = Literal["others", "learner", "learner-times", "coalition"]


class Cluster:
    """One cluster's part of a network record: what happened to its n users, and what observers can learn from this.

    exposed: (n,) whether a user answers requests, and the learner knows her noisy label or her constant answer. hidden:
    (n,) whether the learner does not know a user's noisy label, and another user may have submitted it. anything:
    whether it must be assumed that every user may have been asked. Then `hidden` is true for all users without a
    constant answer. fell_back: whether a user without a constant answer submitted her own label. chosen: whether a
    colluding user who asks everybody got the answer of a user who does not collude. watched: whether the cluster has a
    colluding user. sources: number of users who answer. revealed: number of exposed users. submissions: number of users
    who submit a fetched label. members: number of colluding users.
    """

    def __init__(self, shard: NetworkRecord, part: slice) -> None:
        self.law, self.draws, self.times_tell = shard.law, shard.draws, shard.times_tell
        self.fetched, self.own = shard.fetched[part], shard.own[part]
        self.answers, self.constant = shard.answers[part], shard.constant[part]
        self.member, self.probed = shard.member[part], shard.probed[part]
        # a user who submits her own label reveals its owner; a constant answer depends on no label
        self.exposed = (self.own | self.constant) & self.answers
        self.anything = isinstance(self.law, Unknown) and self.law.anything
        self.hidden = ~self.constant if self.anything else self.answers & ~self.exposed
        self.fell_back = bool((self.own & ~self.constant).any())
        self.chosen = bool((self.probed & ~self.member).any())
        self.watched = bool(self.member.any())
        # an entry stands for several users if the record of a shard (a group of clusters) keeps only sums
        users = np.ones(len(self.own), dtype=np.int64) if shard.users is None else shard.users[part]
        counted = (self.answers, self.exposed, self.fetched, self.member)
        self.sources, self.revealed, self.submissions, self.members = (int(users[mask].sum()) for mask in counted)
        if isinstance(self.law, FetchTable):
            self.weights = _square(self.law.weights, part)
            self.requests = None if self.law.requests is None else _square(self.law.requests, part)
        if isinstance(self.law, Capped):
            self.caps = self.law.caps[part]


def _square(table: "scipy.sparse.csr_array", part: slice) -> "scipy.sparse.csr_array":
    """One cluster's part of a sparse (m, m) table of m users: the rows and columns of this cluster's users.

    A row belongs to a user who fetches a label, and a column to a user from whom she may have fetched it. An entry is a
    probability. Users fetch only within their cluster, so all other columns of these rows are 0.

    Args:
        part: the cluster's users, as a range of indices.
    """
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
    """The accountant that bounds what one observer learns about the noisy labels of a cluster's users, or of a single
    user. The accountant takes into account what happened on the network. If only the noise is known to protect labels,
    the bound states the reason.

    Args:
        cluster: what happened on the network in this cluster. noise: the randomizer of each label. observer: "learner"
        sees the set of submissions, not their senders. "learner-times" also sees when each submission came. "coalition"
        is the learner with the cluster's colluding users; the bound is for all other users. "others" is the learner;
        the bound is for users who did not submit their own label. user: index in the cluster of the single user (the
        observer is then the learner); None: all users.
    """
    if user is not None:
        return _user_accountant(cluster, noise, user)
    members = observer == "coalition" and cluster.watched
    if members and (cluster.chosen or cluster.fell_back):
        return NoiseAlone(noise, "a member chose whom to ask, or a user fell back")
    if observer == "learner-times" and cluster.times_tell:
        return NoiseAlone(noise, "arrival times may name the peer")
    if observer != "others" and cluster.fell_back:
        return NoiseAlone(noise, "a user passed on her own label")
    return _passed_on(cluster, noise, members)


def _user_accountant(cluster: Cluster, noise: Message, user: int) -> Accountant:
    """The accountant that bounds what the learner learns about the noisy label of the cluster's user `user`."""
    if cluster.constant[user]:  # what she sends does not depend on her label
        return NothingSeen()
    if cluster.own[user]:
        return NoiseAlone(noise, "a user passed on her own label")
    if not (cluster.answers[user] or cluster.anything):  # nobody could fetch her label
        return NothingSeen()
    if isinstance(cluster.law, Capped):
        # Users come and go. Each submission's cap bounds the probability that it has the user's label. All get the
        # largest cap, so that clusters share an accountant.
        caps, alpha = cluster.caps[cluster.fetched], noise.binary_flip_prob
        if caps.size and alpha is not None:
            return _capped(len(caps), float(caps.max()), cluster.revealed, alpha)
    return _passed_on(cluster, noise, members=False)


@lru_cache(maxsize=2)  # several observers ask for the same cluster in turn
def _passed_on(cluster: Cluster, noise: Message, members: bool) -> Accountant:
    """Accountant of a cluster's noisy labels that other users may have fetched and submitted. A label that its owner
    submitted is not covered; only the noise protects such a label. `members`: whether the observer is the learner with
    the cluster's colluding users; else it is the learner alone.
    """
    hidden = cluster.hidden & ~(cluster.member & members)
    if not hidden.any() or not (cluster.fetched.any() or members or cluster.anything):
        return NothingSeen()
    if isinstance(cluster.law, Unknown):
        return NoiseAlone(noise, cluster.law.reason)
    # for messages other than flipped labels of two classes, bounds exist only if all peers are equally likely
    sources, revealed, submissions = cluster.sources, cluster.revealed, cluster.submissions
    alpha = noise.binary_flip_prob
    if alpha is None:
        if isinstance(cluster.law, Uniform) and not members and sources - revealed > 1:
            return GivenNetwork(
                noise.fetched(sources - revealed, submissions), (*REALISED_CONDITIONS, SAME_SOURCES, *noise.caveats)
            )
        return NoiseAlone(noise, "no figure for this network but for flipped labels of two classes")
    # for flipped labels of two classes, the probabilities of asking each peer decide
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
    """Accountant for a network where the probabilities of each submitted label's sources are known. Labels have two
    classes and are flipped with probability `alpha`.

    Args:
        cluster: holds the table of these probabilities (a row for each user who fetched, a column for each peer), and
        who submitted. noise: flips the labels; it is needed if only the noise is known to protect labels. members:
        whether the observer is the learner with the colluding users, who see every label that they fetch; else the
        learner alone.
    """
    others = ~cluster.member if members else np.ones_like(cluster.member)
    weights, rates = cluster.weights, (cluster.fetched & others).astype(np.float64)
    if members:
        if cluster.requests is None:
            return NoiseAlone(noise, "members may have seen requests on their way to others, or failed ones")
        weights = scipy.sparse.csr_array(weights.multiply(others[:, None])) + cluster.requests
    pooled, draws = (cluster.member, cluster.draws) if members else (None, 1)
    return FetchDistribution(weights, alpha, rates, known=cluster.exposed, members=pooled, draws=draws, realised=True)


@lru_cache(maxsize=65_536)
def _capped(submissions: int, cap: float, exposed: int, flip_prob: float) -> Accountant:
    """Accountant against the learner for a cluster with `submissions` submitted labels. Any given user is the source of
    a submission with probability at most `cap`. Results are cached, so that similar clusters share an accountant.

    Args:
        exposed: number of users whose noisy label the learner knows. A label of such a user does not help to hide
        another label; a submission is such a label with probability at most exposed · cap. flip_prob: α, for labels of
        two classes.
    """
    return CappedFetch(np.full(submissions, cap), flip_prob, min(1.0, exposed * cap))


@dataclass(frozen=True)
class NoiseAlone(MessageAccountant):
    """Accountant for cases in which only the noise on a label is known to protect it.

    reason: why nothing else is known to protect the label; the bound's basis states it.
    """

    reason: str

    def epsilon(self, delta: float) -> PrivacyBound:
        """The bound ε₀ of a noisy label, the same at every δ."""
        return PrivacyBound(
            0.0,
            self.message.local_epsilon,
            delta,
            "learner",
            "label",
            basis=f"{NOISE_ALONE}{self.reason}",
            conditions=self.conditions,
        )

    @property
    def conditions(self) -> tuple[str, ...]:
        return (*LOCAL_CONDITIONS, *self.message.caveats)


@dataclass(frozen=True)
class NothingSeen(Accountant):
    """Accountant of users whose noisy label nobody else submitted, or whose answer is constant: ε = 0, δ = 0."""

    requires = ANYWHERE
    conditions = REALISED_CONDITIONS
    pure_epsilon = 0.0

    def delta(self, epsilon: float) -> Bracket:
        return Bracket(0.0, 0.0)

    def epsilon(self, delta: float) -> PrivacyBound:
        return PrivacyBound(
            0.0,
            0.0,
            delta,
            "learner",
            "label",
            basis="nobody's label was passed on",
            conditions=self.conditions,
            conditional_on=REALISED,
        )


@dataclass(frozen=True)
class GivenNetwork(Accountant):
    """An accountant that is used for what happened on a run's network. Lower bounds become 0, since they need not hold
    for this network.

    model: the accountant. conditions: conditions of the bounds for this network.
    """

    requires = ANYWHERE

    model: Accountant
    conditions: tuple[str, ...] = ()

    @property
    def pure_epsilon(self) -> float:
        return self.model.pure_epsilon

    def delta(self, epsilon: float) -> Bracket:
        return Bracket(0.0, self.model.delta(epsilon).upper)

    def epsilon(self, delta: float) -> PrivacyBound:
        return replace(
            self.model.epsilon(delta), epsilon_lower=0.0, conditions=self.conditions, conditional_on=REALISED
        )

    def profile(self, epsilons: Sequence[float]) -> list[Bracket]:
        return [Bracket(0.0, bracket.upper) for bracket in self.model.profile(epsilons)]
