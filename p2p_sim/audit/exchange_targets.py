"""Targets of an audit in one run, one in each cluster: whose label is a fair coin, and what the learner sees of them.

In each cluster the first user is the target; everybody else's label is known to the attacker. The clusters are either
copies of one cluster, or those of a scenario's own users, run again with fresh noise until there are enough targets.
With more than two classes a coin is between two of them, the low and the high one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.local_attack import scores_of
from p2p_sim.base.streams import BLOCK, Streams
from p2p_sim.exchange.network_record import NetworkRecord
from p2p_sim.mechanisms.deployment import Deployment
from p2p_sim.mechanisms.exchange_accounting import target_deltas
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.message_payloads import flipped_labels
from p2p_sim.mechanisms.outcome import Outcome
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network.network_config import Network
from p2p_sim.population.population import People, Population, Shard
from p2p_sim.population.synthetic import DrawnPeople
from p2p_sim.replicate.replicate import Replicate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SHARDS = 4
"""Shards of copies that are run at a time, which bounds the memory."""
Round = tuple[People, tuple[int, int] | None, Ints, Ints, Ints]
"""Users without coins, the shards of them that are run, where the clusters of these begin and end (C + 1,), and how
many ones and zeros there are in each cluster besides its first user, (C,) each."""
Pair = tuple[int, int]
"""The low and the high class of a coin; users who hold them, or submit them, are counted as zeros and ones."""


@dataclass(frozen=True)
class Batch:
    """What the learner sees of some targets, one in each cluster; every array (c,).

    labels: the coins. sizes, ones, zeros: n, and how many of the others hold the high and the low class. sent,
    sent_ones, sent_zeros: submissions of the cluster, and those of the high and the low class among them. own, after,
    before: what the target, the user after her and the last one of the cluster submitted: 0 nothing, 1 the low class,
    2 the high one, 3 another one. times: (c, 4) of the order of arrival; None where it is not looked at.
    raw: (c, F) what each user of the cluster submitted, and when (`raw_view`); None where it is not looked at.
    claims: (J,) sums of the certified δ(ε) of the targets in the realised networks; None where all went well.
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
    def raw_sizes(self) -> tuple[int, ...]:
        """n of clusters whose raw view is looked at."""
        return () if self.raw is None else (self.raw.shape[1] // 3,)

    @property
    def features(self) -> NDArray[np.float32]:
        """(c, F) what a classifier is told, besides other scores; the raw view comes last."""
        states = [state == what for state in (self.own, self.after, self.before) for what in (1, 2)]
        some = np.maximum(self.sent, 1)
        shares = [self.sent / self.sizes, self.sent_ones / some, self.ones / self.sizes, self.sizes]
        if (self.zeros + self.ones + 1 < self.sizes).any():  # more than two classes
            shares += [self.sent_zeros / some, self.zeros / self.sizes]
        seen = [part for part in (self.times, self.raw) if part is not None]
        return np.concatenate([np.stack([*states, *shares], axis=1), *seen], axis=1).astype(np.float32)


@dataclass(frozen=True)
class CoinedPeople(DrawnPeople):
    """Users who are drawn shard by shard, with a coin as the label of each cluster's first user, (C,)."""

    coins: NDArray[np.uint8] | None = None

    def labels_of(self, shard: Shard) -> NDArray[np.uint8]:
        labels = super().labels_of(shard)
        assert self.coins is not None
        first = int(np.searchsorted(self.cluster_offsets, shard.start))
        labels[shard.offsets[:-1]] = self.coins[first : first + len(shard.offsets) - 1]
        return labels


@dataclass(frozen=True)
class ClusterTargets:
    """Where targets come from.

    case: the scenario; its network carries the messages, if there are any. mechanism: what is attacked; a label counts
    as the class for which it speaks. rounds: gives the users of the replicates 0, 1, ... of the audit. pair: classes of
    a coin.
    looks_closely: whether the raw view is looked at, in clusters of one size.
    """

    case: Replicate
    mechanism: Deployment
    rounds: Callable[[int], Iterator[Round]]
    pair: Pair = (0, 1)
    looks_closely: bool = False

    def outcome(self, network: Network, people: People, part: tuple[int, int] | None) -> Outcome:
        """What the mechanism makes of these users, or of shards of them."""
        assert isinstance(people, Population)
        return self.mechanism.release_on(network, people, part=part)

    def claims(self, facts: Sequence[NetworkRecord], epsilons: Sequence[float]) -> Floats | None:
        """(J,) sums of the certified δ(ε) of the targets; None where they do not depend on the run."""
        return None

    def batches(self, trials: int, seed: int, epsilons: Sequence[float] = ()) -> Iterator[Batch]:
        """At least `trials` targets, batch by batch.

        Args:
            seed: root seed. epsilons: (J,) at which certified δ are summed, if networks may fail.
        """
        done, replicate = 0, 0
        while done < trials:
            for people, part, offsets, ones, zeros in self.rounds(trials - done):
                streams = Streams(seed, replicate)
                coins = streams.generator("audit-coin", part[0] if part else 0).random(len(ones)) < 0.5
                with_coins = _coined(people, offsets, np.where(coins, self.pair[1], self.pair[0]).astype(np.uint8))
                network = Network.open(self.case.scenario.network, with_coins, streams, self.case.places)
                yield self._batch(self.outcome(network, with_coins, part), offsets, (ones, zeros), coins, epsilons)
                done, replicate = done + len(ones), replicate + 1

    def _batch(
        self,
        outcome: Outcome,
        offsets: Ints,
        held: tuple[Ints, Ints],
        coins: NDArray[np.bool_],
        epsilons: Sequence[float],
    ) -> Batch:
        start, clusters = int(offsets[0]), len(coins)
        release, sizes = outcome.labels, np.diff(offsets)
        user = release.user.astype(np.int64) - start
        sent = np.zeros(int(offsets[-1]) - start, dtype=np.int8)
        speaks = scores_of(release, *self.pair)
        sent[user] = np.where(speaks > 0.0, 2, np.where(speaks < 0.0, 1, 3))
        bounds, ends = offsets[:-1] - start, offsets[1:] - start - 1
        kept, high, low = (
            np.add.reduceat(chosen, bounds, dtype=np.int64) for chosen in (sent > 0, sent == 2, sent == 1)
        )
        own, after, before = (sent[at].astype(np.int64) for at in (bounds, bounds + np.minimum(1, sizes - 1), ends))
        times, facts = None, outcome.realised or ()
        if outcome.arrival_s is not None and not any(fact.times_tell for fact in facts):
            cluster = np.repeat(np.arange(clusters), sizes)[user]
            times = _order(cluster, user - bounds[cluster], speaks > 0.0, outcome.arrival_s, clusters)
        raw = None
        if times is not None and self.looks_closely:
            assert outcome.arrival_s is not None
            raw = raw_view(sent.reshape(clusters, -1), user, outcome.arrival_s)
        claims = self.claims(facts, epsilons) if epsilons else None
        return Batch(coins, sizes, *held, kept, high, low, own, after, before, times, claims, raw)


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
        """Of the messages."""
        return flipped_labels(self.mechanism.randomizer, "an audit")

    def outcome(self, network: Network, people: People, part: tuple[int, int] | None) -> Outcome:
        return self.mechanism.release_on(network, people, part=part)

    def claims(self, facts: Sequence[NetworkRecord], epsilons: Sequence[float]) -> Floats | None:
        if not self.realised:
            return None
        noise = self.claimed or self.noise
        return np.asarray(target_deltas(facts, noise, epsilons).sum(axis=0))


def copies(labels: NDArray[np.uint8]) -> Callable[[int], Iterator[Round]]:
    """Copies of one cluster with these labels (n,), of which the first is replaced by coins."""
    together = max(1, SHARDS * BLOCK // labels.size)
    ones = int(labels[1:].sum())

    def rounds(missing: int) -> Iterator[Round]:
        clusters = min(together, missing)
        offsets = np.arange(clusters + 1, dtype=np.int64) * labels.size
        people = Population(np.zeros((clusters * labels.size, 0)), np.tile(labels, clusters), offsets, 2)
        yield people, None, offsets, np.full(clusters, ones), np.full(clusters, labels.size - 1 - ones)

    return rounds


def own_users(people: People, pair: Pair = (0, 1)) -> Callable[[int], Iterator[Round]]:
    """The users of a scenario's first replicate."""

    def rounds(missing: int) -> Iterator[Round]:
        if isinstance(people, Population):
            offsets = people.cluster_offsets
            yield people, None, offsets, *_holders(people.labels, offsets, pair)
            return
        done = 0
        for shard in people.shards:
            if done >= missing:
                return
            ones, zeros = _holders(people.labels_of(shard), shard.offsets, pair)
            yield people, (shard.index, shard.index + 1), shard.offsets + shard.start, ones, zeros
            done += len(ones)

    return rounds


def _holders(labels: NDArray[np.uint8], offsets: Ints, pair: Pair) -> tuple[Ints, Ints]:
    """Holders of the high and of the low class besides the first user of each cluster."""
    first = offsets[:-1] - offsets[0]
    low, high = (
        np.asarray(np.add.reduceat(held, first, dtype=np.int64) - held[first])
        for held in (labels == label for label in pair)
    )
    return high, low


def _coined(people: People, offsets: Ints, coins: NDArray[np.uint8]) -> People:
    """The same users, the first of each of these clusters with a coin as her label."""
    if isinstance(people, Population):
        labels = people.labels.copy()
        labels[offsets[:-1]] = coins
        return replace(people, labels=labels)
    assert isinstance(people, DrawnPeople)
    every = np.zeros(len(people.cluster_offsets) - 1, dtype=np.uint8)
    first = int(np.searchsorted(people.cluster_offsets, offsets[0]))
    every[first : first + len(coins)] = coins
    return CoinedPeople(people.users, people.cluster_offsets, people.law, coins=every)


def _order(cluster: Ints, place: Ints, one: NDArray[np.bool_], arrival: Floats, clusters: int) -> Floats:
    """Of each cluster (clusters, 4): when the target's submission comes, as a share of the places; whether the first
    and the last to come is a one; how much later ones come than zeros on average. -1 where there is none.

    Args:
        cluster, place, one, arrival: (m,) of each submission; place 0 is the target's.
    """
    order = np.lexsort((arrival, cluster))
    cluster, place, one = cluster[order], place[order], one[order]
    counts = np.bincount(cluster, minlength=clusters)
    ends = np.cumsum(counts)
    rank = (np.arange(cluster.size) - (ends - counts)[cluster] + 0.5) / counts[cluster]
    found = np.full((clusters, 4), -1.0)
    target = place == 0
    found[cluster[target], 0] = rank[target]
    some = counts > 0
    found[some, 1], found[some, 2] = one[(ends - counts)[some]], one[ends[some] - 1]
    high = np.bincount(cluster, weights=one, minlength=clusters)
    late = np.bincount(cluster, weights=rank * one, minlength=clusters) / np.maximum(high, 1.0)
    early = np.bincount(cluster, weights=rank * ~one, minlength=clusters) / np.maximum(counts - high, 1.0)
    mixed = (high > 0) & (high < counts)
    found[mixed, 3] = (late - early)[mixed]
    return found


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
