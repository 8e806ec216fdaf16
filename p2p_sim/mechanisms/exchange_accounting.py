"""How private a run was, given the network as it turned out: cluster by cluster, never averaged over replicates."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.exchange.network_record import Capped, FetchTable, NetworkRecord, Uniform, Unknown
from p2p_sim.exchange.randomizer import Message
from p2p_sim.mechanisms.faulty_networks import GivenNetwork, NoiseAlone, NothingSeen
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import REALISED, PrivacyBound, worst_bound
from p2p_sim.privacy.conditions import (
    KNOWN_FETCHES,
    KNOWN_LAW,
    PASSIVE,
    REALISED_CONDITIONS,
    REALISED_NETWORK,
    SAME_SOURCES,
    SET_SEEN,
    TIMES_FREE,
)
from p2p_sim.privacy.overlays.fetch_distribution import FetchDistribution
from p2p_sim.privacy.overlays.realised_network import CappedFetch, UniformSources
from p2p_sim.privacy.worst_of_several import WorstOf

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ClusterPrivacy:
    """One cluster's figures, each for its worst user.

    learner: who sees the set of submissions; others: the same, but for users who passed on their own label.
    timed: a learner who also sees when each submission came. coalition: the learner and the cluster's members of the
    coalition, about the others; watched: there is one here.
    meets: probability that some member fetched a given user's label, at most; None where it is not known, or where
    there is no member. unmet: the coalition about users whose label no member fetched; None if all are members.
    sample: the largest figure of a sample of the users, where `others` was not computed from every user's place.
    """

    learner: PrivacyBound
    others: PrivacyBound
    timed: PrivacyBound
    coalition: PrivacyBound
    watched: bool = False
    meets: float | None = None
    unmet: PrivacyBound | None = None
    sample: PrivacyBound | None = None


def cluster_privacy(
    shards: Sequence[NetworkRecord], noise: Message, delta: float, among: NDArray[np.bool_] | None = None
) -> Iterator[ClusterPrivacy]:
    """The figures of every cluster of a run, in the population's order.

    Args:
        shards: what is known of the run besides labels.
        among: (C,), the clusters to look at; default: all.
        noise: what each label went through; where messages carry something else than flipped labels, they are
            accounted for where everybody may ask anybody and no coalition looks on, else as seen with their senders.
        delta: δ of every figure.
    """
    clusters = _clusters(shards) if among is None else itertools.compress(_clusters(shards), among)
    return (_cluster(cluster, noise, delta) for cluster in clusters)


def clusters_to_evaluate(shards: Sequence[NetworkRecord]) -> NDArray[np.bool_]:
    """The clusters that hold the largest and the smallest figures of a run, (C,): no other needs a look.

    Let S users answer, and t of them submit what they fetched uniformly. Reveal the noisy bits of b users, and which
    submissions came from them: what is left is an exchange among S - b users with at most t submissions. So no figure
    falls if S falls, or if t grows. Where more is known of a cluster than S and t, it is looked at.
    """
    plain, counts = list[bool](), list[tuple[int, int]]()
    for cluster in _clusters(shards):
        more = cluster.revealed or cluster.members or cluster.own.any() or cluster.probed.any()
        plain.append(isinstance(cluster.law, Uniform) and not more)
        counts.append((cluster.sources, cluster.submissions))
    chosen = ~np.array(plain)
    at, table = np.flatnonzero(~chosen), np.array(counts)
    for sources, submissions in (table[at].T, -table[at].T):
        order = np.lexsort((-submissions, sources))
        most = np.maximum.accumulate(submissions[order])
        rises = np.append(True, most[1:] > most[:-1])[: len(order)]
        chosen[at[order[rises]]] = True
    return chosen


def observed(clusters: Sequence[ClusterPrivacy]) -> dict[str, PrivacyBound]:
    """What other observers than the learner can tell of all users, by the column of a row that holds ε."""
    found = {
        "epsilon_others_upper": worst_bound([cluster.others for cluster in clusters]),
        "epsilon_times_upper": worst_bound([cluster.timed for cluster in clusters]),
    }
    if any(cluster.watched for cluster in clusters):
        found["epsilon_coalition_upper"] = worst_bound([cluster.coalition for cluster in clusters])
    if any(cluster.sample is not None for cluster in clusters):
        found["epsilon_sample_upper"] = worst_bound([cluster.sample or cluster.others for cluster in clusters])
    if any(cluster.meets is not None for cluster in clusters):
        found["epsilon_unmet_upper"] = worst_bound([cluster.unmet for cluster in clusters if cluster.unmet is not None])
    return found


def facts_of(shards: Sequence[NetworkRecord], clusters: Sequence[ClusterPrivacy]) -> dict[str, float | int | None]:
    """How many users fell back, colluded or were asked on purpose, by the column of a row."""
    meets = [cluster.meets for cluster in clusters if cluster.meets is not None]
    return {
        "coalition_meets": max(meets) if meets else None,
        "own_labels": sum(shard.count(shard.own) for shard in shards),
        "coalition_members": sum(shard.count(shard.member) for shard in shards),
        "probed_users": sum(shard.count(shard.probed) for shard in shards),
    }


def user_epsilons(shards: Sequence[NetworkRecord], noise: Message, delta: float) -> tuple[Floats, PrivacyBound]:
    """Certified ε of every user (n,) against a learner who sees the set of submissions, and the statement about all."""
    found = [_users(cluster, noise, delta) for cluster in _clusters(shards)]
    return np.concatenate([epsilons for epsilons, _ in found]), worst_bound([bound for _, bound in found])


def worst_account(shards: Sequence[NetworkRecord], noise: Message) -> Accountant:
    """What protects every user of a run from a learner who sees the set of submissions."""
    found: dict[Accountant, None] = {}
    for cluster in itertools.compress(_clusters(shards), clusters_to_evaluate(shards)):
        found[_model(cluster, noise)] = None
        if (cluster.own & ~cluster.constant).any():
            found[NoiseAlone(noise, "a user passed on her own label")] = None
    return WorstOf(tuple(found))


class _Cluster:
    """One cluster's part of a shard's arrays."""

    def __init__(self, shard: NetworkRecord, part: slice) -> None:
        self.law, self.draws, self.times_tell = shard.law, shard.draws, shard.times_tell
        self.fetched, self.own = shard.fetched[part], shard.own[part]
        self.answers, self.constant = shard.answers[part], shard.constant[part]
        self.member, self.probed = shard.member[part], shard.probed[part]
        self.known = (self.own | self.constant) & self.answers
        self.anything = isinstance(self.law, Unknown) and self.law.anything
        self.hidden = ~self.constant if self.anything else self.answers & ~self.known
        counted = (self.answers, self.known, self.fetched, self.member)
        if shard.users is None:
            found = [int(np.count_nonzero(x)) for x in counted]
        else:
            found = [int(shard.users[part][x].sum()) for x in counted]
        self.sources, self.revealed, self.submissions, self.members = found
        if isinstance(self.law, FetchTable):
            self.weights = _square(self.law.weights, part)
            self.asked = None if self.law.asked is None else _square(self.law.asked, part)
        if isinstance(self.law, Capped):
            self.caps = self.law.caps[part]


def _square(table: "scipy.sparse.csr_array", part: slice) -> "scipy.sparse.csr_array":
    """Rows and columns of one cluster, whose users fetch from nobody else."""
    if part == slice(0, table.shape[0]):
        return table
    start = table.indptr[part.start : part.stop + 1]
    entries, size = slice(start[0], start[-1]), part.stop - part.start
    own = (table.data[entries], table.indices[entries] - part.start, start - start[0])
    return scipy.sparse.csr_array(own, shape=(size, size))


def _clusters(shards: Sequence[NetworkRecord]) -> Iterator[_Cluster]:
    """Every cluster of a run, in the population's order."""
    for shard in shards:
        for first, last in itertools.pairwise(shard.offsets.tolist()):
            yield _Cluster(shard, slice(first, last))


def _cluster(cluster: _Cluster, noise: Message, delta: float) -> ClusterPrivacy:
    others, sample = _with_sample(_model(cluster, noise), delta, cluster.hidden)
    fell_back = bool((cluster.own & ~cluster.constant).any())
    learner = NoiseAlone(noise, "a user passed on her own label").epsilon(delta) if fell_back else others
    timed = learner
    if cluster.times_tell:
        timed = NoiseAlone(noise, "arrival times may name the peer").epsilon(delta)
    timed = _with_times(timed)
    coalition, meets = learner, None  # the learner is in the coalition, whether or not a member is here
    unmet: PrivacyBound | None = learner
    watched = bool(cluster.member.any())
    if watched:
        coalition = _epsilon(_model(cluster, noise, members=True), delta, cluster.hidden & ~cluster.member)
        meets, unmet = _unmet(cluster, noise, delta)
        chosen = bool((cluster.probed & ~cluster.member).any())
        if chosen:
            meets = 1.0
        if fell_back or chosen:
            coalition = NoiseAlone(noise, "a member chose whom to ask, or a user fell back").epsilon(delta)
            unmet = coalition
    coalition = _as_coalition(coalition, learner)
    unmet = None if unmet is None else _as_coalition(unmet, learner)
    return ClusterPrivacy(learner, others, timed, coalition, watched, meets, unmet, sample)


def _as_coalition(bound: PrivacyBound, learner: PrivacyBound) -> PrivacyBound:
    """A statement about the coalition, which is about fewer users than the learner's but never below it."""
    upper = max(bound.epsilon_upper, learner.epsilon_upper)
    return replace(bound, observer="coalition", epsilon_upper=upper)


def _with_times(bound: PrivacyBound) -> PrivacyBound:
    """The learner's statement about a learner who also sees times that tell nothing."""
    seen: dict[str, tuple[str, ...]] = {SET_SEEN: (TIMES_FREE,), KNOWN_FETCHES: (KNOWN_LAW, TIMES_FREE)}
    conditions = tuple(new for old in bound.conditions for new in seen.get(old, (old,)))
    return replace(bound, observer="learner-times", conditions=conditions)


def _unmet(cluster: _Cluster, noise: Message, delta: float) -> tuple[float | None, PrivacyBound | None]:
    """Probability that a member fetched a given label, and what holds if none did: their bits and fetches are known.

    The noise alone protects whatever was fetched, as flips do not depend on fetches.
    """
    alpha = noise.binary_flip_prob
    if not (cluster.hidden & ~cluster.member).any():
        return None, None
    if not isinstance(cluster.law, Uniform) or alpha is None:
        return None, NoiseAlone(noise, "it is not known what the members fetched").epsilon(delta)
    sources, count = cluster.sources, cluster.members
    known = cluster.revealed + (1 + cluster.draws) * count
    meets = 1.0 - (1.0 - 1.0 / sources) ** (cluster.draws * count)
    if known >= sources:
        bound = NoiseAlone(noise, "the members may know everybody else's").epsilon(delta)
        return meets, replace(bound, observer="coalition")
    bound = _kept_epsilon(UniformSources(sources, known, cluster.submissions, alpha), delta)
    given = f"{REALISED} and that no member fetched the label"
    return meets, replace(bound, observer="coalition", conditions=(*bound.conditions, PASSIVE), conditional_on=given)


def _model(cluster: _Cluster, noise: Message, members: bool = False) -> Accountant:
    """What protects users whose label others may have passed on; `members`: from the coalition, else the learner."""
    hidden = cluster.hidden & ~(cluster.member & members)
    if not hidden.any() or not (cluster.fetched.any() or members or cluster.anything):
        return NothingSeen()
    if isinstance(cluster.law, Unknown):
        return NoiseAlone(noise, cluster.law.reason)
    sources, known, submissions = cluster.sources, cluster.revealed, cluster.submissions
    alpha = noise.binary_flip_prob
    if alpha is None:
        if isinstance(cluster.law, Uniform) and not members and sources - known > 1:
            model = noise.fetched(sources - known, submissions)
            return GivenNetwork(model, (*REALISED_CONDITIONS, SAME_SOURCES, *noise.caveats))
        return NoiseAlone(noise, "no figure for this network but for flipped labels of two classes")
    if isinstance(cluster.law, Uniform):
        pooled = (cluster.members, cluster.draws) if members else ()
        return UniformSources(sources, known, submissions, alpha, *pooled)
    if isinstance(cluster.law, FetchTable):
        return _table(cluster, noise, alpha, members)
    if members:
        return NoiseAlone(noise, "no figure for coalitions where users come and go")
    caps = cluster.caps[cluster.fetched]
    return CappedFetch(caps, alpha, np.minimum(1.0, known * caps))


def _table(cluster: _Cluster, noise: Message, alpha: float, members: bool) -> Accountant:
    """The same by a table; members see what they fetch whether they submit it or not."""
    others = ~cluster.member if members else np.ones_like(cluster.member)
    weights, rates = cluster.weights, (cluster.fetched & others).astype(np.float64)
    if members:
        if cluster.asked is None:
            return NoiseAlone(noise, "members may have seen requests on their way to others, or failed ones")
        weights = scipy.sparse.csr_array(weights.multiply(others[:, None])) + cluster.asked
    pooled, draws = (cluster.member, cluster.draws) if members else (None, 1)
    given = FetchDistribution(weights, alpha, rates, known=cluster.known, members=pooled, draws=draws)
    return GivenNetwork(given, (REALISED_NETWORK, *given.conditions))


def _users(cluster: _Cluster, noise: Message, delta: float) -> tuple[Floats, PrivacyBound]:
    """ε of each user of a cluster, and the statement about the worst placed."""
    model = _model(cluster, noise)
    epsilons = model.each_epsilon(delta, cluster.hidden)
    worst = np.zeros(len(epsilons), dtype=np.bool_)
    worst[np.argmax(np.where(cluster.hidden, epsilons, -1.0))] = True
    bounds = [_epsilon(model, delta, worst)]
    epsilons = np.where(cluster.answers | cluster.anything, epsilons, 0.0)
    epsilons[cluster.own] = noise.local_epsilon
    epsilons[cluster.constant] = 0.0
    if (cluster.own & ~cluster.constant).any():
        bounds.append(NoiseAlone(noise, "a user passed on her own label").epsilon(delta))
    return epsilons, replace(worst_bound(bounds), epsilon_lower=0.0, epsilon_upper=float(epsilons.max()))


def _epsilon(model: Accountant, delta: float, hidden: NDArray[np.bool_]) -> PrivacyBound:
    """ε for the worst of the users whose bit is not known."""
    return _with_sample(model, delta, hidden)[0]


def _with_sample(
    model: Accountant, delta: float, hidden: NDArray[np.bool_]
) -> tuple[PrivacyBound, PrivacyBound | None]:
    """The same, and that of a sample if not everybody's place was looked at."""
    return (_kept_epsilon(model, delta), None) if model.cacheable else model.epsilon_and_sample(delta, hidden)


@lru_cache(maxsize=65_536)
def _kept_epsilon(model: Accountant, delta: float) -> PrivacyBound:
    return model.epsilon(delta)
