"""Audits in one run of mechanisms without a model: every user's own message, and noisy counts of bags.

An audit in one run of mechanisms in which every user sends her own message: every user is a target.

Every user's label is a fair coin between the two most frequent classes, or between the two ends of a public grid of
numbers. A message depends on its user's label, on her own noise and perhaps on earlier messages. So, given all
messages, the coins are independent and each is as likely as its user's own message says: a guess may look at all
messages, and the tests of independent targets hold.

An audit in one run of noisy counts of bags: one user of each bag is a target, whose label is a fair coin.

The attacker knows all other labels and who is counted, and subtracts them from the counts. Bags have noise of their
own, so that the targets are independent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.one_run import Account, OneRunAudit, RepeatedTargets, ScoredTargets, audited, together
from p2p_sim.base import InputError, Streams, one_thread
from p2p_sim.mechanisms import (
    Aggregates,
    Bags,
    LabelRelease,
    LocalChannel,
    Outcome,
    RRWithPriorConfig,
    Table,
    VectorApproximation,
    one_hot,
)
from p2p_sim.population import Population, Shard
from p2p_sim.privacy.rivals import LEAST_SCALE, NoisyCounts, vector_delta
from p2p_sim.replicate import Replicate, prepare

Floats = NDArray[np.float64]
_TINY = 1e-30
SCORED = ("hard", "bits", "soft", "signed")
"""Kinds of labels that speak for one class against another."""


def audit_local(case: Replicate, trials: int, mechanism: LocalChannel | None = None) -> OneRunAudit:
    """Attack a local mechanism.

    Args:
        case: the scenario, whose first replicate has the users. trials: targets, at least.
        mechanism: what is attacked, if it is not what the scenario claims.

    Raises:
        InputError: the mechanism is no local one.
    """
    ready = prepare(case)
    claimed = ready.mechanism
    if not isinstance(claimed, LocalChannel):
        raise InputError(f"mechanism.kind = {case.scenario.mechanism.kind!r}: users do not send messages of their own")
    with one_thread():
        people = ready.population
        pair = frequent_pair(people) if people.values is None else ClassPair(0, people.num_classes - 1)
        targets = LocalTargets(mechanism or claimed, case, people, pair)
    return audited(case.scenario, targets, MessageCurve(claimed, people.cluster_sizes), trials=trials)


class ClassPair(NamedTuple):
    """The low and the high class between which a coin chooses; users who hold them, or submit them, are counted as
    zeros and ones.
    """

    low: int
    high: int


BINARY = ClassPair(0, 1)


def frequent_pair(people: Population) -> ClassPair:
    """The two most frequent classes of a population, between which coins choose."""
    counts = np.bincount(people.labels, minlength=people.num_classes)
    return ClassPair(*np.sort(np.argsort(-counts, kind="stable")[:2]).tolist())


@dataclass(frozen=True)
class LocalTargets(RepeatedTargets):
    """All users as targets, run again with fresh coins and noise until there are enough. pair: classes of a coin."""

    mechanism: LocalChannel
    case: Replicate
    people: Population
    pair: ClassPair

    exact = (False,)

    def run(self, streams: Streams, number: int, missing: int) -> ScoredTargets:
        coins = streams.generator("audit-coin").random(self.people.num_users) < 0.5
        people = replace(self.people, labels=np.where(coins, self.pair.high, self.pair.low).astype(np.uint8))
        outcome = self.mechanism.run(people, self.case.scenario.network, streams, places=self.case.places)
        score = np.zeros(people.num_users, dtype=np.float32)
        score[outcome.labels.user] = self._scores(outcome)
        return ScoredTargets(coins, score[None, :], people.num_users)

    def _scores(self, outcome: Outcome) -> Floats:
        """How much each user's message speaks for her label being the high class, (m,)."""
        law = self.mechanism.value_law(outcome)
        if law is not None:
            return law.scores(outcome.labels.payload.astype(np.float64), *self.pair)
        if isinstance(self.mechanism.noise, Table):
            low, high = self.mechanism.noise.transition[self.pair, :][:, outcome.labels.payload]
            return np.asarray(np.log(np.maximum(high, _TINY)) - np.log(np.maximum(low, _TINY)))
        return scores_of(outcome.labels, *self.pair)


def scores_of(release: LabelRelease, low: int, high: int) -> Floats:
    """How much each message speaks for class `high` against class `low`, (m,)."""
    payload = release.payload
    if release.kind == "hard":
        return np.asarray((payload == high).astype(np.float64) - (payload == low))
    if release.kind == "bits":
        bits = np.unpackbits(payload.astype(np.uint8, copy=False), axis=1)
        return np.asarray(bits[:, high].astype(np.float64) - bits[:, low])
    pair = payload[:, (low, high)].astype(np.float64)
    if release.kind == "soft":
        pair = np.log(np.maximum(pair, _TINY))
    return np.asarray(pair[:, 1] - pair[:, 0])


@dataclass(frozen=True)
class MessageCurve(Account):
    """What is certified of a message seen with its owner: its pure ε₀, and for one prior also what its randomizer knows
    of δ(ε).
    """

    mechanism: LocalChannel

    pure = "ε₀ of the message"
    clusters = None

    @property
    def largest(self) -> float:
        """ε₀ of a message."""
        return self.mechanism.accountant(self.mechanism.setup, 1).pure_epsilon

    def reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """δ at each ε of randomised response between two labels whose ε₀ is `rise` times as large."""
        return np.array([pure_delta(rise * self.largest, epsilon) for epsilon in epsilons])

    def deltas(self, epsilons: Sequence[float]) -> Floats:
        pure, noise = self.reached(epsilons, 1.0), self.mechanism.noise
        if isinstance(self.mechanism, RRWithPriorConfig):
            return pure  # a second stage's priors are other ones
        if isinstance(noise, VectorApproximation):
            return np.array([vector_delta(noise.bit_flip_prob, epsilon).upper for epsilon in epsilons])
        alone = np.array([noise.alone(epsilon).upper for epsilon in epsilons])
        return np.asarray(np.minimum(np.minimum(pure, alone), noise.total_variation))


def pure_delta(pure: float, epsilon: float) -> float:
    """The largest δ(ε) under a pure ε₀: (e^ε₀ - e^ε)/(1 + e^ε₀), rounded up.

    >>> round(pure_delta(math.log(9.0), 0.0), 12)
    0.8
    """
    if epsilon >= pure:
        return 0.0
    if math.isinf(pure):
        return 1.0
    return min(1.0, -math.expm1(epsilon - pure) / (1.0 + math.exp(-pure)) * (1.0 + 1e-14))


def audit_aggregates(case: Replicate, trials: int, mechanism: Aggregates | None = None) -> OneRunAudit:
    """Attack a mechanism that releases noisy counts of bags.

    Args:
        case: the scenario, whose first replicate has the users. trials: targets, at least.
        mechanism: what is attacked, if it is not what the scenario claims.

    Raises:
        InputError: the mechanism releases no counts.
    """
    ready = prepare(case)
    claimed = ready.mechanism
    if not isinstance(claimed, Aggregates):
        raise InputError(f"mechanism.kind = {case.scenario.mechanism.kind!r}: releases no noisy counts of bags")
    people = ready.population
    with one_thread():
        targets = BagTargets(mechanism or claimed, people, frequent_pair(people))
    return audited(case.scenario, targets, CountsCurve(claimed, people.cluster_sizes), trials=trials)


@dataclass(frozen=True)
class BagTargets(RepeatedTargets):
    """The first user of each bag as targets, run again with fresh bags, coins and noise until there are enough.

    pair: classes of a coin.
    """

    mechanism: Aggregates
    people: Population
    pair: ClassPair

    exact = (False,)

    def run(self, streams: Streams, number: int, missing: int) -> ScoredTargets:
        return together([self._shard(shard, streams) for shard in self.people.shards])

    def _shard(self, shard: Shard, streams: Streams) -> ScoredTargets:
        """The targets of a shard, scored by the counts of their bags less all other users: the target's own label and
        the noise.
        """
        streams = streams.within(shard.index)
        bags = Bags.dealt(shard.offsets, self.mechanism.bag_size, streams.generator("bags"))
        target = np.unique(bags.bag, return_index=True)[1]
        coins = streams.generator("audit-coin").random(len(target)) < 0.5
        labels = self.people.labels_of(shard).copy()
        labels[target] = np.where(coins, self.pair.high, self.pair.low)
        noisy, counted = self.mechanism.noisy_counts(labels, bags, streams)
        own = one_hot(labels, self.people.num_classes)
        own[~counted] = 0
        own[target] = 0
        for column in range(own.shape[1]):
            noisy[:, column] -= np.bincount(bags.bag, own[:, column], len(bags.sizes)).astype(np.int64)
        score = noisy[:, 0] * 2 - 1 if own.shape[1] == 1 else noisy[:, self.pair.high] - noisy[:, self.pair.low]
        scores = np.where(counted[target], score, 0).astype(np.float32)
        return ScoredTargets(coins, scores[None, :], shard.size)


@dataclass(frozen=True)
class CountsCurve(Account):
    """What is certified of the noisy counts of a bag; it is the same in all bags."""

    mechanism: Aggregates

    pure = "pure ε of the counts"

    @property
    def largest(self) -> float:
        """Pure ε of the counts."""
        return self.accountant(self.mechanism).pure_epsilon

    def accountant(self, mechanism: Aggregates) -> NoisyCounts:
        """The accountant of the counts, for a user of the smallest cluster."""
        return mechanism.accountant(mechanism.setup, int(self.sizes.min()))

    def reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """δ at each ε with noise whose scale is `rise` times smaller."""
        scale = max(self.mechanism.scale / rise, LEAST_SCALE)
        accountant = self.accountant(self.mechanism.model_copy(update={"noise_scale": scale}))
        return np.array([accountant.delta(epsilon).upper for epsilon in epsilons])
