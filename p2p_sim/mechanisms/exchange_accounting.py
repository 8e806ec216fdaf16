"""Privacy bounds of a finished exchange, for each cluster of the realised network and each observer.

`realised_accountants.accountant` chooses the accountant of each observer, and explains the choice.
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

    learner: the learner, who sees the set of submissions. others: the learner, about users who did not submit their own
    label. timed: a learner who also sees when each submission came. coalition: the learner together with the cluster's
    colluding users, about all other users.
    watched: whether the cluster has colluding users.
    meets: upper bound of the probability that a colluding user fetched a given user's label; None if it is unknown or
    nobody colludes.
    unmet: the coalition's bound about users whose label no colluding user fetched; None if there is no such user.
    sample: the largest bound of a sample of users, if `others` is an upper bound not computed for each user; else None.
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
    """Yields the privacy bounds of every chosen cluster of a run, in the population's order.

    Args:
        shards: network records of the run. noise: the randomizer of each label. delta: δ of every bound.
        among: (C,), marks the chosen clusters; None: all.
    """
    clusters = clusters_of(shards) if among is None else itertools.compress(clusters_of(shards), among)
    return (_cluster(cluster, noise, delta) for cluster in clusters)


def clusters_to_evaluate(shards: Sequence[NetworkRecord]) -> NDArray[np.bool_]:
    """Marks the clusters (C,) of a run in which the largest or smallest ε may occur, so that the others need not be
    computed.

    For flipped labels fetched from uniformly random users, ε depends on two numbers of a cluster: S users who answer
    requests, and t users who submit a label that they fetched. ε does not fall if S falls or if t grows. For, to reveal
    the noisy labels and submissions of b users leaves an exchange among S - b users with at most t submissions, and to
    drop submissions reveals less. Clusters whose ε depends on more than S and t are always marked.

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
    """Worst bound over clusters for each observer other than the plain learner, by the results column of its ε."""
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
    """Results columns about a run: facts of its coalition, and numbers of users in some roles.

    "coalition_meets" is the largest bound, over clusters, of the probability that a colluding user fetched a given
    user's label, None if unknown; the others are numbers of users who submitted their own label, colluded, or were
    probed.

    Args:
        shards: network records of the run. clusters: bounds of the clusters.
    """
    meets = [cluster.meets for cluster in clusters if cluster.meets is not None]
    return {
        "coalition_meets": max(meets) if meets else None,
        "own_labels": sum(shard.count(shard.own) for shard in shards),
        "coalition_members": sum(shard.count(shard.member) for shard in shards),
        "probed_users": sum(shard.count(shard.probed) for shard in shards),
    }


class UserEpsilons(NamedTuple):
    """ε (n,) of each user against a learner who sees the set of submissions, and one bound for all users."""

    epsilons: Floats
    statement: PrivacyBound


def user_epsilons(shards: Sequence[NetworkRecord], noise: Message, delta: float) -> UserEpsilons:
    """Certified ε at δ of each user of a run, in the population's order, and one bound for all users.

    Args:
        shards: network records of the run. noise: the randomizer of each label.
    """
    parts = [_users(cluster, noise, delta) for cluster in clusters_of(shards)]
    return UserEpsilons(
        np.concatenate([part.epsilons for part in parts]), worst_bound([part.statement for part in parts])
    )


def worst_account(shards: Sequence[NetworkRecord], noise: Message) -> Accountant:
    """Accountant of all users of a run against a learner who sees the set of submissions: the worst over clusters.

    Args:
        shards: network records of the run. noise: the randomizer of each label.
    """
    models = dict[Accountant, None]()  # each accountant once, in order
    for cluster in itertools.compress(clusters_of(shards), clusters_to_evaluate(shards)):
        models |= {accountant(cluster, noise, "others"): None, accountant(cluster, noise, "learner"): None}
    return WorstOf(tuple(models))


def target_deltas(shards: Sequence[NetworkRecord], noise: RandomizedResponse, epsilons: Sequence[float]) -> Floats:
    """Upper bounds of δ (C, J) about one user of each of C clusters, at each of J values of ε, against the learner. The
    user is the cluster's first; an audit attacks her label and compares what it reaches with these bounds.

    Args:
        shards: records of how the network turned out, with C clusters. noise: the random flips of each label.
        epsilons: (J,).
    """
    deltas = []
    for cluster in clusters_of(shards):
        model = accountant(cluster, noise, "learner", user=0)  # the same for every ε
        delta = partial(model.user_delta, 0) if isinstance(model, FetchDistribution) else partial(kept_delta, model)
        deltas.append([delta(epsilon) for epsilon in epsilons])
    return np.array(deltas)


def coalition_advantage(shards: Sequence[NetworkRecord], noise: Message, num_classes: int) -> float:
    """Upper bound of the coalition's guessing advantage: how much the run raises its chance to guess a user's label.

    The coalition is the learner and all colluding users; the user is any other one in a cluster with colluding users.
    Before the run, all labels are equally likely to the coalition.

    Args:
        shards: network records of the run. noise: the randomizer of each label.
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
    """The privacy bounds of one cluster at δ."""
    passed_on = accountant(cluster, noise, "others")
    others, sample = _with_sample(passed_on, delta, cluster.hidden)

    def bound(observer: Observer) -> PrivacyBound:
        model = accountant(cluster, noise, observer)
        return others if model is passed_on else model.epsilon(delta)

    learner, timed = bound("learner"), bound("learner-times")
    # a learner who also sees times has the same bound under the further condition that times reveal no peers
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
    """A bound restated as the coalition's, with ε raised to the learner's ε if that is larger.

    The coalition includes the learner, but `bound` is about fewer users than `learner`.
    """
    return replace(bound, observer="coalition", epsilon_upper=max(bound.epsilon_upper, learner.epsilon_upper))


def _unmet(cluster: Cluster, noise: Message, delta: float) -> tuple[float | None, PrivacyBound | None]:
    """Two figures about the users of a cluster other than those who collude with the learner: an upper bound of the
    probability that a colluder fetched a given user's label, and the coalition's bound of ε at δ for users whose label
    no colluder fetched. There the noisy labels of all colluders, and as many as they may have fetched, count as
    revealed.

    The probability is None if it is unknown; both are None if no such user's noisy label is hidden. A fetched label is
    still protected by its own noise, since flips do not depend on fetches.

    Args:
        cluster: how the cluster's part of the network turned out. noise: the randomizer of each label.
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
    """ε at δ of each user of a cluster, and one bound for all of them."""
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
    """The bound of ε at δ that holds for every user of a cluster, and, for comparison, the largest bound among some
    evenly spaced users for whom it was computed one by one. The second is None unless there are so many users (above
    32,768) that the first is a coarser bound, not computed for each user.

    Args:
        model: the accountant of one observer. hidden: (n,) whether a user's noisy label is hidden from this
        observer; only such users count.
    """
    if isinstance(model, FetchDistribution):
        return model.epsilon_and_sample(delta, hidden)
    # not cached: no two accountants with caps are equal, so a cache would never hit
    return model.epsilon(delta) if isinstance(model, CappedFetch) else _kept_epsilon(model, delta), None


@lru_cache(maxsize=65_536)
def _kept_epsilon(model: Accountant, delta: float) -> PrivacyBound:
    """The bound of ε at δ that an accountant gives. Results are kept, as many clusters have equal accountants."""
    return model.epsilon(delta)
