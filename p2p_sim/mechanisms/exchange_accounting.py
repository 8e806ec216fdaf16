"""Privacy bounds of a finished exchange: for each observer, and for each cluster of the network as it turned out.

The function `realised_accountants.accountant` chooses the accountant for each observer, and explains the choice.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.exchange import Message, NetworkRecord, Uniform
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.mechanisms.realised_accountants import Cluster, NoiseAlone, Observer, accountant, clusters_of
from p2p_sim.privacy import (
    KNOWN_FETCHES,
    KNOWN_LAW,
    PASSIVE,
    REALISED,
    SET_SEEN,
    TIMES_FREE,
    Accountant,
    PrivacyBound,
    WorstOf,
    advantage,
    kept_delta,
    worst_bound,
)
from p2p_sim.privacy.overlays import CappedFetch, FetchDistribution, UniformSources

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ClusterPrivacy:
    """Privacy bounds of one cluster against several observers, each for the user with the largest ε.

    learner: against the learner, who sees the set of submissions without their senders. others: against the same
    learner, but only for users who did not submit their own label. timed: against a learner who also sees when each
    submission came. coalition: against the learner together with the cluster's colluding users, for all other users.
    watched: whether the cluster has colluding users.
    meets: upper bound of the probability that a colluding user fetched a given user's label; None if it is unknown,
    nobody colludes, or no other user has a noisy label that can be fetched and that the learner does not know.
    unmet: the bound against the coalition for users whose label no colluding user fetched; None if there is no such
    user. sample: the largest bound among a sample of users; None unless `others` is a common upper bound that was not
    computed user by user.
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
    """Yields the privacy bounds of each chosen cluster of a run, in the population's order: bounds of ε at δ against
    the learner, a learner who also sees arrival times, and the coalition of learner and colluding users.

    Args:
        shards: records of the run, one for each shard (a part of the clusters): who answered, who submitted, and what
        is known of whom users asked. noise: the randomizer that made each user's noisy label. delta: δ of every bound.
        among: (C,), whether each of the C clusters is chosen; None: all are.
    """
    clusters = clusters_of(shards) if among is None else itertools.compress(clusters_of(shards), among)
    return (_cluster(cluster, noise, delta) for cluster in clusters)


def clusters_to_evaluate(shards: Sequence[NetworkRecord]) -> NDArray[np.bool_]:
    """Marks the clusters (C,) of a run in which the largest or smallest ε may occur. The other clusters need not be
    computed.

    This saves work if flipped labels were fetched from uniformly random users. Then ε depends on two numbers of a
    cluster: S, the number of users who answer requests, and t, the number of users who submit a label that they
    fetched. ε grows or stays the same if S falls or t grows, for two reasons. First, if the noisy labels and
    submissions of b users are revealed, an exchange among S - b users with at most t submissions remains. Second, a
    learner who gets fewer submissions learns less. Clusters whose ε depends on more than S and t are always marked.

    Args:
        shards: records of how the network turned out, each for a part of the clusters.
    """
    plain, counts = list[bool](), list[tuple[int, int]]()
    for cluster in clusters_of(shards):
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
    """The worst bound over all given clusters, under the name of the results column that holds its ε.
    "epsilon_others_upper": the learner, for users who did not submit their own label. "epsilon_times_upper": a learner
    who also sees when each submission came. If some users collude, "epsilon_coalition_upper": the learner together with
    them, for all other users; and, if known, "epsilon_unmet_upper": the ε against this coalition, but only for users
    whose label no colluder fetched. "epsilon_sample_upper": the largest bound in a sample of users, if some cluster has
    so many users that not every user's bound was computed.

    Args:
        clusters: the bounds of the clusters of a run, at least one.
    """
    statements = {
        "epsilon_others_upper": worst_bound([cluster.others for cluster in clusters]),
        "epsilon_times_upper": worst_bound([cluster.timed for cluster in clusters]),
    }
    if any(cluster.watched for cluster in clusters):
        statements["epsilon_coalition_upper"] = worst_bound([cluster.coalition for cluster in clusters])
    if any(cluster.sample is not None for cluster in clusters):
        statements["epsilon_sample_upper"] = worst_bound([cluster.sample or cluster.others for cluster in clusters])
    if any(cluster.meets is not None for cluster in clusters):
        statements["epsilon_unmet_upper"] = worst_bound(
            [cluster.unmet for cluster in clusters if cluster.unmet is not None]
        )
    return statements


def facts_of(shards: Sequence[NetworkRecord], clusters: Sequence[ClusterPrivacy]) -> dict[str, float | int | None]:
    """Results columns about a run. "coalition_meets": the largest bound, over clusters, of the probability that a
    colluding user fetched a given user's label; None if unknown. "own_labels", "coalition_members", "probed_users": how
    many users submitted their own label, colluded with the learner, or gave a noisy label to an adversary who asks
    everybody.

    Args:
        shards: records of how the network turned out, for all clusters. clusters: bounds of the clusters.
    """
    meets = [cluster.meets for cluster in clusters if cluster.meets is not None]
    return {
        "coalition_meets": max(meets) if meets else None,
        "own_labels": sum(shard.count(shard.own) for shard in shards),
        "coalition_members": sum(shard.count(shard.member) for shard in shards),
        "probed_users": sum(shard.count(shard.probed) for shard in shards),
    }


class UserEpsilons(NamedTuple):
    """The ε of each user (n,) against a learner who sees the set of submissions, and one bound for all users."""

    epsilons: Floats
    statement: PrivacyBound


def user_epsilons(shards: Sequence[NetworkRecord], noise: Message, delta: float) -> UserEpsilons:
    """Certified ε at δ of each user of a run against the learner, in the population's order; and one bound for all
    users.

    Args:
        shards: records of how the network turned out, for all clusters. noise: the randomizer of each label. delta: δ.
    """
    parts = [_users(cluster, noise, delta) for cluster in clusters_of(shards)]
    return UserEpsilons(
        np.concatenate([part.epsilons for part in parts]), worst_bound([part.statement for part in parts])
    )


def worst_account(shards: Sequence[NetworkRecord], noise: Message) -> Accountant:
    """Accountant of a run for all users against the learner, who sees the set of submissions but not their senders. At
    every ε, its δ(ε) is the largest over the clusters.

    Args:
        shards: records of how the network turned out, for all clusters. noise: the randomizer of each label.
    """
    models = dict[Accountant, None]()  # each accountant once, in order
    for cluster in itertools.compress(clusters_of(shards), clusters_to_evaluate(shards)):
        models |= {accountant(cluster, noise, "others"): None, accountant(cluster, noise, "learner"): None}
    return WorstOf(tuple(models))


def target_deltas(shards: Sequence[NetworkRecord], noise: RandomizedResponse, epsilons: Sequence[float]) -> Floats:
    """Upper bounds of δ (C, J) against the learner at each of J values of ε, for the first user of each of C clusters.
    An audit attacks the label of this user (any one user would do), and compares the δ that the attack proves with
    these bounds.

    Args:
        shards: records of how the network turned out, for all C clusters. noise: the random flips of each label.
        epsilons: (J,), the values of ε.
    """
    deltas = []
    for cluster in clusters_of(shards):
        model = accountant(cluster, noise, "learner", user=0)  # one accountant serves every ε
        delta = partial(model.user_delta, 0) if isinstance(model, FetchDistribution) else partial(kept_delta, model)
        deltas.append([delta(epsilon) for epsilon in epsilons])
    return np.array(deltas)


def coalition_advantage(shards: Sequence[NetworkRecord], noise: Message, num_classes: int) -> float:
    """Upper bound of the coalition's guessing advantage: how much the run raises the coalition's probability to guess a
    user's label right.

    The coalition is the learner and all colluding users. The guessed label is that of any other user, in a cluster with
    colluding users. Before the run, all labels are equally likely to the coalition.

    Args:
        shards: records of how the network turned out, for all clusters. noise: the randomizer of each label.
        num_classes: K.
    """
    most, uniform, alone = 0.0, np.full(num_classes, 1.0 / num_classes), noise.advantage(num_classes)
    for cluster in clusters_of(shards):
        if cluster.fell_back:
            return alone
        if cluster.watched:
            model = accountant(cluster, noise, "coalition")
            slow = isinstance(model, NoiseAlone | FetchDistribution)
            most = max(most, alone if slow else min(alone, advantage(model, uniform).upper))
    return most


def _cluster(cluster: Cluster, noise: Message, delta: float) -> ClusterPrivacy:
    """The bounds of ε at δ of one cluster: against the learner (for all users, and for those who did not submit their
    own label), a learner who also sees arrival times, and the coalition of the learner and the cluster's colluding
    users.

    Args:
        cluster: how the network turned out for this cluster's users. noise: the randomizer of each label. delta: δ.
    """
    passed_on = accountant(cluster, noise, "others")
    others, sample = _with_sample(passed_on, delta, cluster.hidden)

    def bound(observer: Observer) -> PrivacyBound:
        model = accountant(cluster, noise, observer)
        return others if model is passed_on else model.epsilon(delta)

    learner, timed = bound("learner"), bound("learner-times")
    # against a learner who also sees times, the same bound holds if, in addition, times reveal no peers
    added: dict[str, tuple[str, ...]] = {SET_SEEN: (TIMES_FREE,), KNOWN_FETCHES: (KNOWN_LAW, TIMES_FREE)}
    conditions = tuple(new for old in timed.conditions for new in added.get(old, (old,)))
    timed = replace(timed, observer="learner-times", conditions=conditions)
    if not cluster.watched:  # then the coalition is the learner alone
        coalition = _as_coalition(learner, learner)
        return ClusterPrivacy(learner, others, timed, coalition, unmet=coalition, sample=sample)
    model = accountant(cluster, noise, "coalition")
    coalition = _as_coalition(_with_sample(model, delta, cluster.hidden & ~cluster.member)[0], learner)
    meets, unmet = _unmet(cluster, noise, delta)
    if cluster.fell_back or cluster.chosen:
        meets, unmet = 1.0 if cluster.chosen else meets, coalition
    unmet = None if unmet is None else _as_coalition(unmet, learner)
    return ClusterPrivacy(learner, others, timed, coalition, watched=True, meets=meets, unmet=unmet, sample=sample)


def _as_coalition(bound: PrivacyBound, learner: PrivacyBound) -> PrivacyBound:
    """The bound `bound`, stated for the coalition. Its ε is raised to that of `learner`, the learner's bound, if the
    learner's ε is larger: the coalition includes the learner, but `bound` is about fewer users than `learner`.
    """
    return replace(bound, observer="coalition", epsilon_upper=max(bound.epsilon_upper, learner.epsilon_upper))


def _unmet(cluster: Cluster, noise: Message, delta: float) -> tuple[float | None, PrivacyBound | None]:
    """Two bounds about the users of a cluster who do not collude with the learner. The first is an upper bound of the
    probability that a colluder fetched a given user's label. The second is the coalition's bound of ε at δ for users
    whose label no colluder fetched. This second bound assumes that the coalition knows the noisy label of every
    colluder, and one more noisy label for each fetch that a colluder may have made.

    The first is None if the probability is unknown. Both bounds are None if the coalition knows the noisy labels of all
    these users. A fetched label is still protected by its own noise, since flips do not depend on fetches.

    Args:
        cluster: how the network turned out for this cluster's users. noise: the randomizer of each label. delta: δ.
    """
    alpha = noise.binary_flip_prob
    if not (cluster.hidden & ~cluster.member).any():
        return None, None
    if not isinstance(cluster.law, Uniform) or alpha is None:
        return None, NoiseAlone(noise, "it is not known what the members fetched").epsilon(delta)
    # each of `count` colluders reveals her own label and those she fetched, one per draw
    sources, count = cluster.sources, cluster.members
    revealed = cluster.revealed + (1 + cluster.draws) * count
    meets = 1.0 - (1.0 - 1.0 / sources) ** (cluster.draws * count)
    if revealed >= sources:
        bound = NoiseAlone(noise, "the members may know the noisy labels of all other users").epsilon(delta)
        return meets, replace(bound, observer="coalition")
    bound = _kept_epsilon(UniformSources(sources, revealed, cluster.submissions, alpha), delta)
    return meets, replace(
        bound,
        observer="coalition",
        conditions=(*bound.conditions, PASSIVE),
        conditional_on=f"{REALISED} and that no member fetched the label",
    )


def _users(cluster: Cluster, noise: Message, delta: float) -> UserEpsilons:
    """Certified ε at δ of each user of a cluster against the learner, as an array (n,); and one bound for all of them.

    Args:
        cluster: how the network turned out for this cluster's users. noise: the randomizer of each label. delta: δ.
    """
    model = accountant(cluster, noise, "others")
    if isinstance(model, FetchDistribution):
        epsilons = model.user_epsilons(delta)
    else:
        epsilons = np.full(len(cluster.hidden), model.epsilon(delta).epsilon_upper)
    worst = np.zeros(len(epsilons), dtype=np.bool_)
    worst[np.argmax(np.where(cluster.hidden, epsilons, -1.0))] = True
    bounds = [_with_sample(model, delta, worst)[0]]
    epsilons = np.where(cluster.answers | cluster.anything, epsilons, 0.0)
    epsilons[cluster.own] = noise.local_epsilon
    epsilons[cluster.constant] = 0.0
    if cluster.fell_back:
        bounds.append(accountant(cluster, noise, "learner").epsilon(delta))
    return UserEpsilons(epsilons, replace(worst_bound(bounds), epsilon_lower=0.0, epsilon_upper=float(epsilons.max())))


def _with_sample(
    model: Accountant, delta: float, hidden: NDArray[np.bool_]
) -> tuple[PrivacyBound, PrivacyBound | None]:
    """Two bounds of ε at δ. The first holds for every user of a cluster whose noisy label the observer does not know.
    The second is the largest bound in an evenly spaced sample of these users, computed user by user; it shows by how
    much the first may be too large. The second is None unless there are so many users (above 32,768) that the first is
    a coarser bound, not computed for each user.

    Args:
        model: the accountant of one observer. delta: δ. hidden: (n,), whether a user's noisy label is hidden from this
        observer; only such users count.
    """
    if isinstance(model, FetchDistribution):
        return model.epsilon_and_sample(delta, hidden)
    # not cached: no two such accountants (with a bound for each submission) are equal, so a cache would never hit
    return model.epsilon(delta) if isinstance(model, CappedFetch) else _kept_epsilon(model, delta), None


@lru_cache(maxsize=65_536)
def _kept_epsilon(model: Accountant, delta: float) -> PrivacyBound:
    """The bound of ε at δ that an accountant gives. Results are cached, since many clusters have equal accountants."""
    return model.epsilon(delta)
