"""The targets of an audit in one run, and what the learner sees of the targets.

A target's label is a fair coin between two classes, the low and the high one. In each cluster the first user is the
target; the attacker knows the labels of all other users. The clusters are copies of one cluster, or a scenario's own
clusters. If one run has too few targets, further runs with fresh noise follow.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.local_attack import BINARY, ClassPair, scores_of
from p2p_sim.audit.one_run import SHARDS, Floats
from p2p_sim.base import BLOCK, Streams
from p2p_sim.mechanisms import (
    Deployment,
    Outcome,
    RandomizedResponse,
    target_deltas,
)
from p2p_sim.network import Network
from p2p_sim.population import DrawnPeople, People, Population, Shard
from p2p_sim.replicate import Replicate

Ints = NDArray[np.int64]


class Round(NamedTuple):
    """The users of one run of an audit, in C clusters with one target in each.

    people: the users, before coins replace the targets' labels. part: a pair (first, end), which limits the run to the
    shards (groups of whole clusters) first to end - 1; None: all shards are run. offsets: (C + 1,) where the clusters
    begin and end. holders: (2, C) how many users of each cluster, without its target, hold the high class (first row)
    and the low class (second row).
    """

    people: People
    part: tuple[int, int] | None
    offsets: Ints
    holders: Ints


@dataclass(frozen=True)
class Batch:
    """What the learner sees of c targets, one in each cluster; arrays without a shape are (c,).

    labels: the coins. sizes: n, the number of users of the cluster. ones: how many users besides the target hold the
    high class. zeros: how many of them hold the low class. sent: how many users of the cluster submitted. sent_ones:
    how many users submitted the high class. sent_zeros: how many users submitted the low class.
    own: what the target submitted (0 nothing, 1 the low class, 2 the high class, 3 another class). after: what the user
    after the target submitted. before: what the cluster's last user submitted; in a circle she comes before the target.
    times: (c, 4) features of the order of arrival (`_order`); None if times are not used. claims: (J,) the sum of the
    certified δ of all targets at each of J values of ε; None if δ does not depend on the run, or no ε was given. raw:
    (c, 3n) what each user of the cluster submitted, and when (`raw_view`); None if it is not used.
    """

    labels: NDArray[np.bool_]
    sizes: Ints
    ones: Ints
    zeros: Ints
    sent: Ints
    sent_ones: Ints
    sent_zeros: Ints
    own: Ints
    after: Ints
    before: Ints
    times: Floats | None
    claims: Floats | None
    raw: Floats | None = None

    @property
    def features(self) -> NDArray[np.float32]:
        """Features (c, F) from which a classifier learns. First comes what the target, the next user and the cluster's
        last user submitted. Then comes the share of users who submitted. Then come the high class's shares of
        submissions and of users (the target is not counted), and the cluster's size. If some users hold a third class,
        the low class's shares follow. Features of the order of arrival and the raw view come last, if used.
        """
        states = [submitted == state for submitted in (self.own, self.after, self.before) for state in (1, 2)]
        some = np.maximum(self.sent, 1)
        shares = [self.sent / self.sizes, self.sent_ones / some, self.ones / self.sizes, self.sizes]
        if (self.zeros + self.ones + 1 < self.sizes).any():  # more than two classes
            shares += [self.sent_zeros / some, self.zeros / self.sizes]
        views = [part for part in (self.times, self.raw) if part is not None]
        return np.concatenate([np.stack([*states, *shares], axis=1), *views], axis=1).astype(np.float32)


@dataclass(frozen=True)
class CoinedPeople(DrawnPeople):
    """Users who are drawn shard by shard; the clusters' first users have `coins` (C,) as their labels."""

    coins: NDArray[np.uint8] = field(kw_only=True)

    def labels_of(self, shard: Shard) -> NDArray[np.uint8]:
        labels = super().labels_of(shard)
        first = int(np.searchsorted(self.cluster_offsets, shard.start))
        labels[shard.offsets[:-1]] = self.coins[first : first + len(shard.offsets) - 1]
        return labels


@dataclass(frozen=True)
class ClusterTargets:
    """The source of an audit's targets. Each cluster has one target, whose label is a coin.

    case: the scenario, whose network carries messages. mechanism: what is attacked. rounds: a function that yields the
    users of further runs; its argument is the number of targets still needed. pair: the classes between which a coin
    chooses. looks_closely: whether batches have the raw view; then all clusters must have the same size. certified: the
    randomised response for which δ is certified, given each network as it turned out; None: the certified δ does not
    depend on the run.
    """

    case: Replicate
    mechanism: Deployment
    rounds: Callable[[int], Iterator[Round]]
    pair: ClassPair = BINARY
    looks_closely: bool = False
    certified: RandomizedResponse | None = None

    def batches(self, trials: int, seed: int, epsilons: Sequence[float] = ()) -> Iterator[Batch]:
        """Yields batches of targets, until there are at least `trials` targets. A batch has the targets' coins, and
        what the learner sees of the targets' clusters. The mechanism runs again for each batch, with fresh coins and
        noise.

        Args:
            trials: the least number of targets. seed: root seed. epsilons: (J,) values of ε, may be empty. If the
            certified δ depends on the realised networks, a batch has the sum of the targets' certified δ at each ε.
        """
        total, replicate = 0, 0
        while total < trials:
            for users in self.rounds(trials - total):
                streams, clusters = Streams(seed, replicate), len(users.offsets) - 1
                coins = streams.generator("audit-coin", users.part[0] if users.part else 0).random(clusters) < 0.5
                people = _coined(users.people, users.offsets, self.pair.labels(coins))
                network = Network.open(self.case.scenario.network, people, streams, self.case.places)
                held = cast(Population, people)  # an exchange's users may be drawn shard by shard instead
                yield self._batch(self.mechanism.release_on(network, held, part=users.part), users, coins, epsilons)
                total, replicate = total + clusters, replicate + 1

    def _batch(self, outcome: Outcome, users: Round, coins: NDArray[np.bool_], epsilons: Sequence[float]) -> Batch:
        """What the learner sees of the targets of one run, one target in each of C clusters.

        Args:
            outcome: what the mechanism released in the run, with arrival times if there are any. users: the clusters'
            boundaries, and how many users of each cluster besides the target hold either class. coins: (C,) the
            targets' labels. epsilons: values of ε at which the targets' certified δ is summed if it depends on the
            run's network; may be empty.
        """
        offsets, start, clusters = users.offsets, int(users.offsets[0]), len(coins)
        release, sizes = outcome.labels, np.diff(offsets)
        # What each user submitted: 0 nothing, 1 the low class, 2 the high class, 3 another class.
        user = release.user.astype(np.int64) - start
        sent = np.zeros(int(offsets[-1]) - start, dtype=np.int8)
        speaks = scores_of(release, *self.pair)
        sent[user] = np.where(speaks > 0.0, 2, np.where(speaks < 0.0, 1, 3))
        bounds, ends = offsets[:-1] - start, offsets[1:] - start - 1
        # Times are used unless the certified bound is about a learner who does not see times.
        facts, times, raw = outcome.realised or (), None, None
        claims: Floats | None = None
        if epsilons and self.certified is not None:
            claims = target_deltas(facts, self.certified, epsilons).sum(axis=0)
        arrival = None if any(fact.times_tell for fact in facts) else outcome.arrival_s
        if arrival is not None:
            cluster = np.repeat(np.arange(clusters), sizes)[user]
            times = _order(cluster, user - bounds[cluster], speaks > 0.0, arrival, clusters)
            raw = raw_view(sent.reshape(clusters, -1), user, arrival) if self.looks_closely else None
        return Batch(
            labels=coins,
            sizes=sizes,
            ones=users.holders[0],
            zeros=users.holders[1],
            sent=np.add.reduceat(sent > 0, bounds, dtype=np.int64),
            sent_ones=np.add.reduceat(sent == 2, bounds, dtype=np.int64),
            sent_zeros=np.add.reduceat(sent == 1, bounds, dtype=np.int64),
            own=sent[bounds].astype(np.int64),
            after=sent[bounds + np.minimum(1, sizes - 1)].astype(np.int64),
            before=sent[ends].astype(np.int64),
            times=times,
            claims=claims,
            raw=raw,
        )


def copies(labels: NDArray[np.uint8]) -> Callable[[int], Iterator[Round]]:
    """A function that yields one run of an audit in copies of one cluster. Its argument is how many targets are still
    wanted. The run has one copy for each of these targets, or fewer copies if so many need too much memory. The first
    user of each copy is the target.

    labels: (n,) the labels of the cluster's users.
    """
    together = max(1, SHARDS * BLOCK // labels.size)
    ones = int(labels[1:].sum())

    def rounds(missing: int) -> Iterator[Round]:
        clusters = min(together, missing)
        offsets = np.arange(clusters + 1, dtype=np.int64) * labels.size
        people = Population(np.zeros((clusters * labels.size, 0)), np.tile(labels, clusters), offsets, 2)
        holders = np.array([[ones], [labels.size - 1 - ones]]).repeat(clusters, axis=1)
        yield Round(people, None, offsets, holders)

    return rounds


def own_users(people: People, pair: ClassPair = BINARY) -> Callable[[int], Iterator[Round]]:
    """A function that yields an audit's rounds: the users of a scenario's first replicate, one shard after another.

    The function's argument is how many clusters are still wanted. The function ends when it has yielded at least so
    many clusters, or all clusters. In every cluster the first user is the target. All shards of a `Population` are a
    single round.

    Args:
        people: the users. pair: the two classes, of which the target holds one.
    """

    def rounds(missing: int) -> Iterator[Round]:
        if isinstance(people, Population):
            offsets = people.cluster_offsets
            yield Round(people, None, offsets, _holders(people.labels, offsets, pair))
            return
        for shard in people.shards:
            if missing <= 0:
                return
            holders = _holders(people.labels_of(shard), shard.offsets, pair)
            yield Round(people, (shard.index, shard.index + 1), shard.offsets + shard.start, holders)
            missing -= len(shard.offsets) - 1

    return rounds


def _holders(labels: NDArray[np.uint8], offsets: Ints, pair: ClassPair) -> Ints:
    """How many users besides the first hold the high and the low class: (2, C), with a column for each cluster.

    Args:
        labels: (n,) of the users. offsets: (C + 1,) where the clusters begin and end; a constant may be added to all
        offsets. pair: the two classes.
    """
    first = offsets[:-1] - offsets[0]
    held = np.stack([labels == pair.high, labels == pair.low])
    return np.asarray(np.add.reduceat(held, first, axis=1, dtype=np.int64) - held[:, first])


def _coined(people: People, offsets: Ints, coins: NDArray[np.uint8]) -> People:
    """A copy of the people in which the first user of each of C clusters has a coin as her label.

    offsets: (C + 1,) where the clusters begin and end. coins: (C,).
    """
    if isinstance(people, Population):
        labels = people.labels.copy()
        labels[offsets[:-1]] = coins
        return replace(people, labels=labels)
    drawn = cast(DrawnPeople, people)  # people who are no population are drawn shard by shard
    every = np.zeros(len(drawn.cluster_offsets) - 1, dtype=np.uint8)
    first = int(np.searchsorted(drawn.cluster_offsets, offsets[0]))
    every[first : first + len(coins)] = coins
    return CoinedPeople(drawn.law, drawn.counts, drawn.state, drawn.cluster_offsets, coins=every)


def _order(cluster: Ints, member: Ints, high: NDArray[np.bool_], arrival: Floats, clusters: int) -> Floats:
    """Features (clusters, 4) of the order of arrival; -1 where a cluster lacks the submissions for a feature.

    A submission's rank is its position among the cluster's submissions, divided by the number of these submissions. A
    submission of the high class is called a one, any other a zero. The features are: the rank of the target's
    submission; whether the first submission is a one; whether the last submission is a one; the mean rank of ones minus
    the mean rank of zeros.

    Args:
        cluster: (m,) the cluster of each of m submissions. member: (m,) the number of the user in the cluster; 0 is the
        target. high: (m,) whether the submission is a one. arrival: (m,) when the submission arrived. clusters: number
        of clusters.
    """
    order = np.lexsort((arrival, cluster))
    cluster, member, ones = cluster[order], member[order], high[order]
    # The rank of each submission in its cluster.
    counts = np.bincount(cluster, minlength=clusters)
    ends = np.cumsum(counts)
    rank = (np.arange(cluster.size) - (ends - counts)[cluster] + 0.5) / counts[cluster]
    features = np.full((clusters, 4), -1.0)
    target = member == 0
    features[cluster[target], 0] = rank[target]
    some = counts > 0
    features[some, 1], features[some, 2] = ones[(ends - counts)[some]], ones[ends[some] - 1]
    # The mean rank of ones minus the mean rank of zeros, in clusters with both.
    many = np.bincount(cluster, weights=ones, minlength=clusters)
    late = np.bincount(cluster, weights=rank * ones, minlength=clusters) / np.maximum(many, 1.0)
    early = np.bincount(cluster, weights=rank * ~ones, minlength=clusters) / np.maximum(counts - many, 1.0)
    mixed = (many > 0) & (many < counts)
    features[mixed, 3] = (late - early)[mixed]
    return features


def raw_view(sent: NDArray[np.int8], user: Ints, arrival: Floats) -> Floats:
    """All that the learner sees of c clusters of n users, as features (c, 3n). First comes each user's submission as a
    number, then the submission's time of arrival in seconds. Last come the n times of the cluster in ascending order. A
    user who submitted nothing has the time -1; among the ordered times, these entries come last.

    Args:
        sent: (c, n) each user's submission: 0 nothing, 1 the low class, 2 the high class, 3 another class. user: (m,)
        who submitted, numbered through all clusters from 0. arrival: (m,) when each of these submissions arrived, in
        seconds.
    """
    flat = np.full(sent.size, np.inf)
    flat[user] = arrival
    times = flat.reshape(sent.shape)
    return np.concatenate([sent, *(np.where(np.isfinite(t), t, -1.0) for t in (times, np.sort(times, axis=1)))], axis=1)
