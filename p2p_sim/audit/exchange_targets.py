"""Targets of an audit in one run, one in each cluster: whose label is a fair coin, and what the learner sees of them.

In each cluster the first user is the target; everybody else's label is known to the attacker. The clusters are either
copies of one cluster, or those of a scenario's own users, run again with fresh noise until there are enough targets.
With more than two classes a coin is between two of them, the low and the high one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.local_attack import BINARY, ClassPair, scores_of
from p2p_sim.base import BLOCK, Streams
from p2p_sim.exchange import NetworkRecord
from p2p_sim.mechanisms import (
    Deployment,
    LabelExchangeMechanism,
    Outcome,
    RandomizedResponse,
    flipped_labels,
    target_deltas,
)
from p2p_sim.network import Network
from p2p_sim.population import DrawnPeople, People, Population, Shard
from p2p_sim.replicate import Replicate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SHARDS = 4
"""Shards of copies that are run at a time, which bounds the memory."""


class Round(NamedTuple):
    """Users of one run of an audit, one target in each cluster.

    people: without coins. part: the shards of them that are run; None: all. offsets: (C + 1,), where their clusters
    begin and end. holders: (2, C) how many users of each cluster but its first hold a coin's high and low class.
    """

    people: People
    part: tuple[int, int] | None
    offsets: Ints
    holders: Ints


@dataclass(frozen=True)
class Batch:
    """What the learner sees of some targets, one in each cluster; every array has an entry for each target, (c,).

    labels: the coins. sizes, ones, zeros: n, and how many of the others hold the high and the low class. sent,
    sent_ones, sent_zeros: submissions of the cluster, and those of the high and the low class among them. own, after,
    before: what the target, the user after her and the last one of the cluster submitted: 0 nothing, 1 the low class, 2
    the high one, 3 another one. times: (c, 4) of the order of arrival; None where it is not looked at. raw: (c, F) what
    each user of the cluster submitted, and when (`raw_view`); None where it is not looked at. claims: (J,) sums of the
    certified δ(ε) of the targets in the realised networks; None where all went well.
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
        """Features (c, F) that a classifier learns from, besides other scores; the raw view comes last."""
        states = [submitted == state for submitted in (self.own, self.after, self.before) for state in (1, 2)]
        some = np.maximum(self.sent, 1)
        shares = [self.sent / self.sizes, self.sent_ones / some, self.ones / self.sizes, self.sizes]
        if (self.zeros + self.ones + 1 < self.sizes).any():  # more than two classes
            shares += [self.sent_zeros / some, self.zeros / self.sizes]
        views = [part for part in (self.times, self.raw) if part is not None]
        return np.concatenate([np.stack([*states, *shares], axis=1), *views], axis=1).astype(np.float32)


@dataclass(frozen=True)
class CoinedPeople(DrawnPeople):
    """Users who are drawn shard by shard, with a coin as the label of each cluster's first user, (C,)."""

    coins: NDArray[np.uint8] = field(kw_only=True)

    def labels_of(self, shard: Shard) -> NDArray[np.uint8]:
        labels = super().labels_of(shard)
        first = int(np.searchsorted(self.cluster_offsets, shard.start))
        labels[shard.offsets[:-1]] = self.coins[first : first + len(shard.offsets) - 1]
        return labels


@dataclass(frozen=True)
class ClusterTargets:
    """The source of an audit's targets: one in each cluster, whose label is a coin.

    case: the scenario; its network carries the messages, if there are any. mechanism: what is attacked; a label counts
    as the class for which it speaks. rounds: gives the users of the replicates 0, 1, ... of the audit. pair: classes of
    a coin. looks_closely: whether the raw view is looked at, in clusters of one size.
    """

    case: Replicate
    mechanism: Deployment
    rounds: Callable[[int], Iterator[Round]]
    pair: ClassPair = BINARY
    looks_closely: bool = False

    def claims(self, facts: Sequence[NetworkRecord], epsilons: Sequence[float]) -> Floats | None:
        """Sums over the targets of the certified δ at each ε, (J,); None where they do not depend on the run."""
        return None

    def batches(self, trials: int, seed: int, epsilons: Sequence[float] = ()) -> Iterator[Batch]:
        """At least `trials` targets, batch by batch.

        Args:
            seed: root seed. epsilons: (J,) at which certified δ are summed, if networks may fail.
        """
        total, replicate = 0, 0
        while total < trials:
            for users in self.rounds(trials - total):
                streams, clusters = Streams(seed, replicate), len(users.offsets) - 1
                coins = streams.generator("audit-coin", users.part[0] if users.part else 0).random(clusters) < 0.5
                labels = np.where(coins, self.pair.high, self.pair.low).astype(np.uint8)
                people = _coined(users.people, users.offsets, labels)
                network = Network.open(self.case.scenario.network, people, streams, self.case.places)
                held = cast(Population, people)  # an exchange's users may be drawn shard by shard instead
                yield self._batch(self.mechanism.release_on(network, held, part=users.part), users, coins, epsilons)
                total, replicate = total + clusters, replicate + 1

    def _batch(self, outcome: Outcome, users: Round, coins: NDArray[np.bool_], epsilons: Sequence[float]) -> Batch:
        """What the learner sees of the targets of a round with these coins (C,)."""
        offsets, start, clusters = users.offsets, int(users.offsets[0]), len(coins)
        release, sizes = outcome.labels, np.diff(offsets)
        # What each user submitted: 0 nothing, 1 the low class, 2 the high one, 3 another one.
        user = release.user.astype(np.int64) - start
        sent = np.zeros(int(offsets[-1]) - start, dtype=np.int8)
        speaks = scores_of(release, *self.pair)
        sent[user] = np.where(speaks > 0.0, 2, np.where(speaks < 0.0, 1, 3))
        bounds, ends = offsets[:-1] - start, offsets[1:] - start - 1
        # Times are looked at unless the certified bound is one of a learner who does not see them.
        facts, times, raw = outcome.realised or (), None, None
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
            claims=self.claims(facts, epsilons) if epsilons else None,
            raw=raw,
        )


@dataclass(frozen=True)
class ExchangeTargets(ClusterTargets):
    """Targets of the label exchange, on either engine.

    realised: whether the certified δ depends on the network as it turned out. claimed: the noise it is claimed for.
    """

    mechanism: LabelExchangeMechanism
    realised: bool = False
    claimed: RandomizedResponse | None = None

    @property
    def noise(self) -> RandomizedResponse:
        """The noise of the messages."""
        return flipped_labels(self.mechanism.randomizer, "an audit")

    def claims(self, facts: Sequence[NetworkRecord], epsilons: Sequence[float]) -> Floats | None:
        if not self.realised:
            return None
        noise = self.claimed or self.noise
        return np.asarray(target_deltas(facts, noise, epsilons).sum(axis=0))


def copies(labels: NDArray[np.uint8]) -> Callable[[int], Iterator[Round]]:
    """Rounds of copies of one cluster with these labels (n,), whose first user is the target."""
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
    """Rounds of the users of a scenario's first replicate, the first of each cluster being a target."""

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
    """How many users of each cluster but its first hold the pair's high and low class, (2, C)."""
    first = offsets[:-1] - offsets[0]
    held = np.stack([labels == pair.high, labels == pair.low])
    return np.asarray(np.add.reduceat(held, first, axis=1, dtype=np.int64) - held[:, first])


def _coined(people: People, offsets: Ints, coins: NDArray[np.uint8]) -> People:
    """The people with a coin in place of the label of each cluster's first user."""
    if isinstance(people, Population):
        labels = people.labels.copy()
        labels[offsets[:-1]] = coins
        return replace(people, labels=labels)
    drawn = cast(DrawnPeople, people)  # users who are not held are drawn
    every = np.zeros(len(drawn.cluster_offsets) - 1, dtype=np.uint8)
    first = int(np.searchsorted(drawn.cluster_offsets, offsets[0]))
    every[first : first + len(coins)] = coins
    return CoinedPeople(drawn.law, drawn.counts, drawn.state, drawn.cluster_offsets, coins=every)


def _order(cluster: Ints, member: Ints, high: NDArray[np.bool_], arrival: Floats, clusters: int) -> Floats:
    """For each cluster, (clusters, 4), what the order of arrival says; -1 where there is nothing.

    These are: when the target's submission comes, as a share of the places; whether the first and the last to come is a
    one; and how much later ones come than zeros on average.

    Args:
        cluster, member, high, arrival: (m,) of each submission; member 0 of a cluster is the target.
    """
    order = np.lexsort((arrival, cluster))
    cluster, member, ones = cluster[order], member[order], high[order]
    # When each submission comes, as a share of its cluster's.
    counts = np.bincount(cluster, minlength=clusters)
    ends = np.cumsum(counts)
    rank = (np.arange(cluster.size) - (ends - counts)[cluster] + 0.5) / counts[cluster]
    features = np.full((clusters, 4), -1.0)
    target = member == 0
    features[cluster[target], 0] = rank[target]
    some = counts > 0
    features[some, 1], features[some, 2] = ones[(ends - counts)[some]], ones[ends[some] - 1]
    # The mean rank of ones less that of zeros, where there are both.
    many = np.bincount(cluster, weights=ones, minlength=clusters)
    late = np.bincount(cluster, weights=rank * ones, minlength=clusters) / np.maximum(many, 1.0)
    early = np.bincount(cluster, weights=rank * ~ones, minlength=clusters) / np.maximum(counts - many, 1.0)
    mixed = (many > 0) & (many < counts)
    features[mixed, 3] = (late - early)[mixed]
    return features


def raw_view(sent: NDArray[np.int8], user: Ints, arrival: Floats) -> Floats:
    """All that the learner sees of each cluster (c, 3n): what each user submitted, when, and all times in order.

    Args:
        sent: (c, n) states. user: (m,) who submitted, from 0. arrival: (m,) when it came, seconds.

    Returns:
        Times are -1 where nothing came.
    """
    flat = np.full(sent.size, np.inf)
    flat[user] = arrival
    times = flat.reshape(sent.shape)
    return np.concatenate([sent, *(np.where(np.isfinite(t), t, -1.0) for t in (times, np.sort(times, axis=1)))], axis=1)
