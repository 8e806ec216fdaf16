"""Privacy bounds of a finished exchange: for each observer and each cluster, given what happened on the network.

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

    learner: against the learner, who sees the set of submissions without their senders. others: against the learner,
    but only for users who did not submit their own label. timed: against a learner who also sees when each submission
    came. coalition: against the learner together with the cluster's colluding users, for all other users. watched:
    whether the cluster has colluding users. meets: upper bound of the probability that a colluding user fetched a given
    user's label; None: it is unknown, nobody colludes, or the learner already knows every noisy label of other users
    that can be fetched. unmet: the bound against the coalition for users whose label no colluding user fetched; None:
    there is no such user. sample: largest bound of a sample of users; None: no sample was needed, or `others` is ε₀.
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
    """Yields the privacy bounds of each chosen cluster of a run, in the population's order.

    Args:
        shards: records of the run, one for each shard (a part of the clusters): who answered, who submitted, and what
        is known of whom users asked. noise: the randomizer that made each user's noisy label. delta: δ of every bound.
        among: (C,), whether each of the C clusters is chosen; None: all are chosen.
    """
    clusters = clusters_of(shards) if among is None else itertools.compress(clusters_of(shards), among)
    return (_cluster(cluster, noise, delta) for cluster in clusters)


def clusters_to_evaluate(shards: Sequence[NetworkRecord]) -> NDArray[np.bool_]:
    """Marks the clusters (C,) of a run in which the largest or smallest ε may occur. The other clusters need not be
    computed.

    This saves work if flipped labels were fetched from uniformly random users. Then ε depends on two numbers of a
    cluster: S users answer requests, and t users submit a fetched label. ε does not fall if S falls or t grows, for two
    reasons. First, let the noisy labels and submissions of b users be revealed. Then an exchange among S - b users with
    at most t submissions remains. Second, a learner who gets fewer submissions learns less. Clusters in which ε depends
    on more than S and t are always marked.

    Args:
        shards: records of what happened on the network, each for a part of the clusters.
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
    """The worst bound over all given clusters, by results column.

    "epsilon_others_upper" is against the learner, for users who did not submit their own label. "epsilon_times_upper"
    is against a learner who also sees when each submission came. "epsilon_coalition_upper" is against the learner
    together with the colluding users, for all other users. "epsilon_unmet_upper" is also against this coalition, but
    only for users whose label no colluder fetched. "epsilon_sample_upper" is the largest bound in a sample of users, if
    some cluster has too many users to compute every user's bound. A bound that is unknown or has no observer is left
    out.

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
    """Results columns about a run. "coalition_meets" is the largest bound, over clusters, of the probability that a
    colluding user fetched a given user's label; None: unknown. The other columns are numbers of users. "own_labels" is
    for users who submitted their own label, and "coalition_members" for colluders. "probed_users" is for users who gave
    a noisy label to an adversary who asks everybody.

    Args:
        shards: records of what happened on the network, for all clusters. clusters: bounds of the clusters.
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
    """Certified ε at δ of each user of a run against the learner, in the population's order, and one bound for all
    users.

    Args:
        shards: records of what happened on the network, for all clusters. noise: the randomizer of each label. delta:
        δ.
    """
    parts = [_users(cluster, noise, delta) for cluster in clusters_of(shards)]
    return UserEpsilons(
        np.concatenate([part.epsilons for part in parts]), worst_bound([part.statement for part in parts])
    )


def worst_account(shards: Sequence[NetworkRecord], noise: Message) -> Accountant:
    """Accountant of a run for all users against the learner, who sees the set of submissions but not their senders. At
    every ε, δ(ε) is the largest over the clusters.

    Args:
        shards: records of what happened on the network, for all clusters. noise: the randomizer of each label.
    """
    models = dict[Accountant, None]()  # each accountant once, in order
    for cluster in itertools.compress(clusters_of(shards), clusters_to_evaluate(shards)):
        models |= {accountant(cluster, noise, "others"): None, accountant(cluster, noise, "learner"): None}
    return WorstOf(tuple(models))


def target_deltas(shards: Sequence[NetworkRecord], noise: RandomizedResponse, epsilons: Sequence[float]) -> Floats:
    """Upper bounds of δ (C, J) against the learner at J values of ε, for the first user of each of C clusters. An audit
    attacks the label of this user (any user would do). The attack proves a δ, which is compared with these bounds.

    Args:
        shards: records of what happened on the network, for all C clusters. noise: the random flips of each label.
        epsilons: (J,), the values of ε.
    """
    deltas = []
    for cluster in clusters_of(shards):
        model = accountant(cluster, noise, "learner", user=0)  # one accountant serves every ε
        delta = partial(model.user_delta, 0) if isinstance(model, FetchDistribution) else partial(kept_delta, model)
        deltas.append([delta(epsilon) for epsilon in epsilons])
    return np.array(deltas)


def coalition_advantage(shards: Sequence[NetworkRecord], noise: Message, num_classes: int) -> float:
    """Upper bound of the coalition's guessing advantage: how much the run raises the probability that the coalition
    guesses a user's label right. The coalition is the learner and all colluding users. The guessed label belongs to
    another user, in a cluster with colluding users. Before the run, all labels are equally likely to the coalition.
    If some user submitted her own noisy label because no reply came, the result is the bound for one noisy label. In
    all other cases, the result is 0 if nobody colludes.

    Args:
        shards: records of what happened on the network, for all clusters. noise: the randomizer of each label.
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
    """The bounds of ε at δ of one cluster against all observers.

    Args:
        cluster: what happened on the network in this cluster. noise: the randomizer of each label. delta: δ.
    """
    passed_on = accountant(cluster, noise, "others")
    others, sample = _with_sample(passed_on, delta, cluster.hidden)

    def bound(observer: Observer) -> PrivacyBound:
        model = accountant(cluster, noise, observer)
        return others if model is passed_on else model.epsilon(delta)

    learner, timed = bound("learner"), bound("learner-times")
    # against a learner who also sees times, the bound has one more condition: times reveal no peers
    added: dict[str, tuple[str, ...]] = {SET_SEEN: (TIMES_FREE,), KNOWN_FETCHES: (KNOWN_LAW, TIMES_FREE)}
    conditions = tuple(new for old in timed.conditions for new in added.get(old, (old,)))
    timed = replace(timed, observer="learner-times", conditions=conditions)
    if not cluster.watched:  # the coalition is the learner alone
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
    """The bound `bound`, stated for the coalition, with an ε of at least the learner's. The coalition includes the
    learner, but `bound` is about fewer users than the learner's bound.
    """
    return replace(bound, observer="coalition", epsilon_upper=max(bound.epsilon_upper, learner.epsilon_upper))


def _unmet(cluster: Cluster, noise: Message, delta: float) -> tuple[float | None, PrivacyBound | None]:
    """Two bounds about the users of a cluster who do not collude with the learner. The first is an upper bound of the
    probability that a colluder fetched a given user's label; None if it is unknown. The second is the coalition's bound
    of ε at δ for users whose label no colluder fetched. For the second, the coalition is taken to know the noisy label
    of every colluder, and one more for each fetch of a colluder. Both are None if the learner knows every noisy label
    of these users that can be fetched.

    Args:
        cluster: what happened on the network in this cluster. noise: the randomizer of each label. delta: δ.
    """
    alpha = noise.binary_flip_prob
    if not (cluster.hidden & ~cluster.member).any():
        return None, None
    if not isinstance(cluster.law, Uniform) or alpha is None:
        return None, NoiseAlone(noise, "it is not known what the members fetched").epsilon(delta)
    # each of `count` colluders reveals her own noisy label and one noisy label for each of her draws
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
    """Certified ε at δ of each user of a cluster against the learner, as an array (n,), and one bound for all these
    users.

    Args:
        cluster: what happened on the network in this cluster. noise: the randomizer of each label. delta: δ.
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
    A `FetchDistribution` bounds each such user alone. If there are more than 32,768, the first bound is coarser, and
    the second is the largest bound of an evenly spaced sample of them. The second is None in all other cases, and if
    the bound of a sampled user is ε₀; then the first is ε₀ too.

    Args:
        model: the accountant of one observer. delta: δ. hidden: (n,), whether a user's noisy label is hidden from this
        observer; only such users count.
    """
    if isinstance(model, FetchDistribution):
        return model.epsilon_and_sample(delta, hidden)
    # accountants with a bound for each submission are never equal, so a cache would be useless
    return model.epsilon(delta) if isinstance(model, CappedFetch) else _kept_epsilon(model, delta), None


@lru_cache(maxsize=65_536)
def _kept_epsilon(model: Accountant, delta: float) -> PrivacyBound:
    """The bound of ε at δ that an accountant gives. Results are cached: many clusters have equal accountants."""
    return model.epsilon(delta)
