"""How private a run was, given the network as it turned out: cluster by cluster, never averaged over replicates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from analysis.privacy.bound import PrivacyBound
from analysis.privacy.fetch import FetchDistribution
from analysis.privacy.kary import KaryExchange
from analysis.privacy.local import LOCAL_CONDITIONS, local_epsilon
from analysis.privacy.realised import REALISED_CONDITIONS, CappedFetch, UniformSources
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.protocol.fetches import Capped, Table, Uniform, Unknown
from p2p_sim.protocol.realised import RealisedShard

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ClusterPrivacy:
    """One cluster's figures, each for its worst user.

    learner: who sees the set of submissions; others: the same, but for users who passed on their own label.
    timed: a learner who also sees when each submission came. coalition: the learner and the cluster's members of the
    coalition, about the others.
    """

    learner: PrivacyBound
    others: PrivacyBound
    timed: PrivacyBound
    coalition: PrivacyBound


def cluster_privacy(
    shards: Sequence[RealisedShard], noise: RandomizedResponse, delta: float
) -> Iterator[ClusterPrivacy]:
    """The figures of every cluster of a run, in the population's order.

    Args:
        shards: what is known of the run besides labels.
        noise: what each label went through.
        delta: δ of every figure.
    """
    for shard in shards:
        bounds = shard.shard.offsets
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            yield _cluster(_Cluster(shard, slice(first, last)), noise, delta)


def user_epsilons(shards: Sequence[RealisedShard], noise: RandomizedResponse, delta: float) -> Floats:
    """Certified ε of every user (n,) against a learner who sees the set of submissions, at the given δ."""
    found = []
    for shard in shards:
        bounds = shard.shard.offsets
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            found.append(_users(_Cluster(shard, slice(first, last)), noise, delta))
    return np.concatenate(found)


class _Cluster:
    """One cluster's part of a shard's arrays."""

    def __init__(self, shard: RealisedShard, part: slice) -> None:
        self.law, self.times_tell = shard.law, shard.times_tell
        self.fetched, self.own = shard.fetched[part], shard.own[part]
        self.answers, self.constant = shard.answers[part], shard.constant[part]
        self.member, self.probed = shard.member[part], shard.probed[part]
        self.known = (self.own | self.constant) & self.answers
        if isinstance(self.law, Table):
            self.weights = self.law.weights[part, part]
        if isinstance(self.law, Capped):
            self.caps = self.law.caps[part]


def _cluster(cluster: _Cluster, noise: RandomizedResponse, delta: float) -> ClusterPrivacy:
    others = _fetched_bound(cluster, noise, delta, members=False)
    fell_back = bool((cluster.own & ~cluster.constant).any())
    learner = _local(noise, delta, "learner", "noise alone: a user passed on her own label") if fell_back else others
    timed = learner
    if cluster.times_tell:
        timed = _local(noise, delta, "learner", "noise alone: arrival times may name the peer")
    timed = replace(timed, observer="learner-times")
    coalition = learner
    if cluster.member.any():
        coalition = _fetched_bound(cluster, noise, delta, members=True)
        if fell_back or (cluster.probed & ~cluster.member).any():
            coalition = _local(
                noise, delta, "coalition", "noise alone: a member chose whom to ask, or a user fell back"
            )
    return ClusterPrivacy(learner, others, timed, replace(coalition, observer="coalition"))


def _fetched_bound(cluster: _Cluster, noise: RandomizedResponse, delta: float, members: bool) -> PrivacyBound:
    """For users whose label others may have passed on; `members`: against the coalition, else the learner."""
    who = "coalition" if members else "learner"
    hidden = int(np.count_nonzero(cluster.answers & ~cluster.known & ~(cluster.member & members)))
    if hidden == 0 or not (cluster.fetched.any() or members):
        return PrivacyBound(0.0, 0.0, delta, who, "label", "nobody's label was passed on", REALISED_CONDITIONS)
    if isinstance(cluster.law, Unknown):
        return _local(noise, delta, who, f"noise alone: {cluster.law.reason}")
    count = int(np.count_nonzero(cluster.member)) if members else 0
    sources, known = int(np.count_nonzero(cluster.answers)), int(np.count_nonzero(cluster.known))
    if noise.num_classes > 2:
        if isinstance(cluster.law, Uniform) and not members:
            return _many_classes(sources - known, noise, delta)
        return _local(noise, delta, who, "noise alone: no figure for this network with more than two classes")
    if isinstance(cluster.law, Uniform):
        return _uniform(sources, known, int(np.count_nonzero(cluster.fetched)), noise.flip_prob, count, delta)
    if isinstance(cluster.law, Capped):
        if members:
            return _local(noise, delta, who, "noise alone: no figure for coalitions where users come and go")
        caps = cluster.caps[cluster.fetched]
        mass = np.minimum(1.0, known * caps)
        return CappedFetch(caps, noise.flip_prob, mass).epsilon(delta)
    return _table(cluster, noise, members).epsilon(delta)


def _table(cluster: _Cluster, noise: RandomizedResponse, members: bool) -> FetchDistribution:
    rates = cluster.fetched.astype(np.float64)
    colluders = cluster.member if members else None
    return FetchDistribution(cluster.weights, noise.flip_prob, rates, known=cluster.known, members=colluders)


def _users(cluster: _Cluster, noise: RandomizedResponse, delta: float) -> Floats:
    """ε of each user of a cluster."""
    if isinstance(cluster.law, Table) and noise.num_classes == 2:
        epsilons = _table(cluster, noise, members=False).user_epsilons(delta)
    else:
        epsilons = np.full(len(cluster.own), _fetched_bound(cluster, noise, delta, members=False).epsilon_upper)
    epsilons = np.where(cluster.answers, epsilons, 0.0)
    epsilons[cluster.own] = noise.local_epsilon
    epsilons[cluster.constant] = 0.0
    return epsilons


@lru_cache(maxsize=65_536)
def _uniform(sources: int, known: int, submissions: int, flip_prob: float, members: int, delta: float) -> PrivacyBound:
    return UniformSources(sources, known, submissions, flip_prob, members).epsilon(delta)


@lru_cache(maxsize=65_536)
def _many_classes(sources: int, noise: RandomizedResponse, delta: float) -> PrivacyBound:
    """The learner knows some bits, and whose labels were fetched from these; the rest is shuffled."""
    if sources < 2:
        return _local(noise, delta, "learner", "noise alone: a single user whose label is not known")
    bound = KaryExchange(sources, noise.flip_prob, 1.0, noise.num_classes).epsilon(delta)
    return replace(bound, epsilon_lower=0.0, conditions=REALISED_CONDITIONS)


def _local(noise: RandomizedResponse, delta: float, observer: str, basis: str) -> PrivacyBound:
    upper = local_epsilon(noise.flip_prob, noise.num_classes)
    return PrivacyBound(0.0, upper, delta, observer, "label", basis, LOCAL_CONDITIONS)
