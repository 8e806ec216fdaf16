"""The privacy columns of a row from what is known of the realised network: one cluster after another, one user after
another, nothing kept, nothing left out. The figures of one cluster are the accountants', which have references of their
own; how they are chosen and put together is what this file is held against."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from p2p_sim.exchange.network_record import Capped, FetchLaw, NetworkRecord, Uniform, Unknown
from p2p_sim.privacy import Accountant, CappedFetch, FetchDistribution, UniformSources


@dataclass
class PlainUser:
    """What is known of one user besides her label."""

    fetched: bool
    own: bool
    answers: bool
    constant: bool
    member: bool
    probed: bool

    @property
    def known(self) -> bool:
        """Whether whoever sees all submissions knows the bit that she answers with."""
        return self.answers and (self.own or self.constant)


@dataclass
class PlainCluster:
    """One cluster. place: of its users in the shard."""

    users: list[PlainUser]
    law: FetchLaw
    draws: int
    times_tell: bool
    place: range


def clusters(shards: tuple[NetworkRecord, ...]) -> Iterator[PlainCluster]:
    for shard in shards:
        assert shard.users is None
        for c in range(len(shard.offsets) - 1):
            place = range(int(shard.offsets[c]), int(shard.offsets[c + 1]))
            users = [
                PlainUser(*(bool(getattr(shard, name)[i]) for name in PlainUser.__dataclass_fields__)) for i in place
            ]
            yield PlainCluster(users, shard.law, shard.draws, shard.times_tell, place)


def protected(cluster: PlainCluster, coalition: bool) -> list[bool]:
    """Whose label others may have passed on, and whose bit nobody knows."""
    if isinstance(cluster.law, Unknown) and cluster.law.anything:
        said = [not user.constant for user in cluster.users]
    else:
        said = [user.answers and not user.known for user in cluster.users]
    return [yes and not (coalition and user.member) for yes, user in zip(said, cluster.users, strict=True)]


def accountant(cluster: PlainCluster, alpha: float, coalition: bool) -> Accountant | None:
    """What protects those whom others' submissions may give away, if anybody; None: the noise alone is certain."""
    users, law = cluster.users, cluster.law
    if isinstance(law, Unknown) or (isinstance(law, Capped) and coalition):
        return None
    sources, known = sum(user.answers for user in users), sum(user.known for user in users)
    submissions, members = sum(user.fetched for user in users), sum(user.member for user in users)
    if isinstance(law, Uniform):
        pooled = (members, cluster.draws) if coalition else ()
        return UniformSources(sources, known, submissions, alpha, *pooled)
    if isinstance(law, Capped):
        caps = np.array([law.caps[i] for i, user in zip(cluster.place, users, strict=True) if user.fetched])
        return CappedFetch(caps, alpha, np.minimum(1.0, known * caps))
    weights = law.weights.toarray()[np.ix_(cluster.place, cluster.place)]
    rates = np.array([float(user.fetched) for user in users])
    known_bits = np.array([user.known for user in users])
    if not coalition:
        return FetchDistribution(weights, alpha, rates, known=known_bits)
    if law.requests is None:
        return None
    asked = law.requests.toarray()[np.ix_(cluster.place, cluster.place)]
    member = np.array([user.member for user in users])
    weights[member] = 0.0
    rates[member] = 0.0
    return FetchDistribution(weights + asked, alpha, rates, known=known_bits, members=member, draws=cluster.draws)


def anybody(cluster: PlainCluster, coalition: bool) -> bool:
    """Whether there is somebody whose label others' submissions may give away."""
    anything = isinstance(cluster.law, Unknown) and cluster.law.anything
    fetched = any(user.fetched for user in cluster.users)
    return any(protected(cluster, coalition)) and (coalition or anything or fetched)


def figure(cluster: PlainCluster, alpha: float, delta: float, coalition: bool) -> float:
    """ε of the worst of those whom others' submissions may give away."""
    if not anybody(cluster, coalition):
        return 0.0
    model = accountant(cluster, alpha, coalition)
    if model is None:
        return math.log((1.0 - alpha) / alpha)
    among = (np.array(protected(cluster, coalition)),) if isinstance(model, FetchDistribution) else ()
    return model.epsilon(delta, *among).epsilon_upper


def gain(cluster: PlainCluster, alpha: float, share: float) -> float:
    """How much more often the learner guesses the worst placed label right, of which a share is thought to be one.

    Who thinks 1 with probability p and 0 with 1 - p gains min(p, 1-p) · δ(|ln(p/(1-p))|) over the likelier label.
    """
    rarer = min(share, 1.0 - share)
    if rarer == 0.0:
        return 0.0
    epsilon = math.log((1.0 - rarer) / rarer)
    direct = max(0.0, 1.0 - alpha - alpha * math.exp(epsilon))
    if any(user.own and not user.constant for user in cluster.users):
        return rarer * direct
    if not anybody(cluster, False):
        return 0.0
    model = accountant(cluster, alpha, False)
    if model is None:
        return rarer * direct
    if not isinstance(model, FetchDistribution):
        return rarer * model.delta(epsilon).upper
    hidden = np.flatnonzero(protected(cluster, False))
    return rarer * max(implied(lambda e, user=int(user): model.user_delta(user, e), epsilon) for user in hidden)


def implied(delta: Callable[[float], float], epsilon: float) -> float:
    """The least δ(ε) that a curve of upper bounds implies at some points.

    (ε', δ') with ε' >= ε, in both directions, gives δ(ε) <= max(δ', 1 - (1 + e^ε)(1 - δ')/(1 + e^ε')).
    """
    least = delta(epsilon)
    for other in epsilon + np.array([0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8, 1.2]):
        there = delta(float(other))
        least = min(least, max(there, 1.0 - (1.0 + math.exp(epsilon)) * (1.0 - there) / (1.0 + math.exp(other))))
    return least


def gains(shards: tuple[NetworkRecord, ...], alpha: float, labels: list[np.ndarray]) -> dict[str, float]:
    """The learner's columns of right guesses; labels: of each cluster."""
    every, users = list(clusters(shards)), sum(map(len, labels))
    ones = [float(np.mean(here)) for here in labels]
    worst = [max(gain(cluster, alpha, share) for cluster in every) for share in ones]
    return {
        "advantage_uniform": max(gain(cluster, alpha, 0.5) for cluster in every),
        "advantage_cluster": sum(len(here) * most for here, most in zip(labels, worst, strict=True)) / users,
        "advantage_cluster_worst": max(worst),
        "advantage_local": (1.0 - 2.0 * alpha) / 2.0,
        "guess_uniform": 0.5,
        "guess_cluster": sum(len(here) * max(p, 1.0 - p) for here, p in zip(labels, ones, strict=True)) / users,
    }


def columns(shards: tuple[NetworkRecord, ...], alpha: float, delta: float) -> dict[str, float | int | None]:
    """The columns of a row that say how private the run was, and what is known of the network."""
    local, every = math.log((1.0 - alpha) / alpha), list(clusters(shards))
    learner, others, times, coalition, unmet, meets, known_meets = [], [], [], [], [], [], False
    for cluster in every:
        fell_back = any(user.own and not user.constant for user in cluster.users)
        watched = any(user.member for user in cluster.users)
        here = figure(cluster, alpha, delta, False)
        seen = local if fell_back else here
        others.append(here)
        learner.append(seen)
        times.append(local if cluster.times_tell else seen)
        probed = any(user.probed and not user.member for user in cluster.users)
        if not watched:
            coalition.append(seen)
            unmet.append(seen)
            continue
        sources = sum(user.answers for user in cluster.users)
        members = sum(user.member for user in cluster.users)
        met = isinstance(cluster.law, Uniform) and any(protected(cluster, True))
        if probed or met:
            meets.append(1.0 if probed else 1.0 - (1.0 - 1.0 / sources) ** (cluster.draws * members))
            known_meets = True
        if probed or fell_back:
            coalition.append(local)
            unmet.append(local)
            continue
        coalition.append(max(seen, figure(cluster, alpha, delta, True)))
        if not any(protected(cluster, True)):
            continue
        if not isinstance(cluster.law, Uniform):
            unmet.append(local)
            continue
        told = sum(user.known for user in cluster.users) + (1 + cluster.draws) * members
        bound = local
        if told < sources:
            submissions = sum(user.fetched for user in cluster.users)
            bound = UniformSources(sources, told, submissions, alpha).epsilon(delta).epsilon_upper
        unmet.append(max(seen, bound))
    watched = any(user.member for cluster in every for user in cluster.users)
    return {
        "epsilon_upper": max(learner),
        "epsilon_best_cluster": min(learner),
        "epsilon_others_upper": max(others),
        "epsilon_times_upper": max(times),
        "epsilon_coalition_upper": max(coalition) if watched else None,
        "epsilon_unmet_upper": max(unmet) if known_meets else None,
        "coalition_meets": max(meets) if meets else None,
        "epsilon_local": local,
        "own_labels": sum(user.own for cluster in every for user in cluster.users),
        "coalition_members": sum(user.member for cluster in every for user in cluster.users),
        "probed_users": sum(user.probed for cluster in every for user in cluster.users),
    }
