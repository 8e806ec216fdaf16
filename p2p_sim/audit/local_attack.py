"""One-run audits of local mechanisms, whose users send messages of their own, and of noisy counts of bags of users.

**Messages.** Every user is a target. Her label is a fair coin between the two most frequent classes. If labels are
numbers, the coin chooses between the two ends of their public grid. A message depends on its user's label, on her own
noise and perhaps on earlier messages. So the coins are independent given all messages. Tests that need independent
targets are therefore valid even if a guess looks at all messages.

**Bags.** A bag is a random group of users of one cluster. One user of each bag is a target, whose label is a fair coin.
The attacker knows all other labels and who is counted, and subtracts the other labels from the counts. Bags have
independent noise, so targets are independent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.one_run import (
    Account,
    Floats,
    OneRunAudit,
    RepeatedTargets,
    ScoredTargets,
    claim_of,
    join_targets,
    perform_audit,
)
from p2p_sim.base import Streams
from p2p_sim.mechanisms import (
    Aggregates,
    Bags,
    Deployment,
    LabelRelease,
    LocalChannel,
    Outcome,
    RRWithPriorConfig,
    Table,
    VectorApproximation,
    one_hot,
)
from p2p_sim.population import Population, Shard
from p2p_sim.privacy.rivals import LEAST_SCALE, vector_delta
from p2p_sim.replicate import Replicate

TINY = 1e-30
"""Smaller probabilities are replaced by this number, so that logarithms are finite."""
SCORED = ("hard", "bits", "soft", "signed")
"""Kinds of released labels that `scores_of` compares between two classes."""


def audit_local(case: Replicate, trials: int, mechanism: LocalChannel | None = None) -> OneRunAudit:
    """Attacks a local mechanism, in which each user sends a message that depends on her own label and noise. Every user
    is a target: her label is a fair coin, which the attack guesses from her message. The result has the lower bounds of
    ε and δ that the right guesses prove, and the certified ε and δ.

    Args:
        case: one random repetition of the scenario, with its users. trials: the least number of targets; the run is
        repeated with all users until there are so many. mechanism: the mechanism that is attacked; None: the one that
        the scenario declares.

    Raises:
        InputError: the mechanism is not local.
    """
    claimed, people = claim_of(case, "users do not send messages of their own", LocalChannel)  # type: ignore[type-abstract]
    pair = frequent_pair(people) if people.values is None else ClassPair(0, people.num_classes - 1)
    targets = LocalTargets(mechanism or claimed, case, people, pair)
    return perform_audit(case.scenario, targets, MessageCurve(claimed, people.cluster_sizes), trials=trials)


class ClassPair(NamedTuple):
    """The two classes between which a coin chooses: 0 stands for `low`, 1 for `high`."""

    low: int
    high: int

    def labels(self, coins: NDArray[np.bool_]) -> NDArray[np.uint8]:
        """The labels (n,) that coins (n,) choose."""
        return np.where(coins, self.high, self.low).astype(np.uint8)


BINARY = ClassPair(0, 1)


def frequent_pair(people: Population) -> ClassPair:
    """The two most frequent classes of a population, between which coins choose. `low` is the class with the smaller
    number. Of equally frequent classes, the smaller number is preferred.
    """
    by_count = np.argsort(-np.bincount(people.labels, minlength=people.num_classes), kind="stable")
    return ClassPair(*sorted(by_count[:2].tolist()))


class CoinedRun(NamedTuple):
    """A run in which the users' labels are coins (n,)."""

    coins: NDArray[np.bool_]
    people: Population
    outcome: Outcome


@dataclass(frozen=True)
class AllUsers(RepeatedTargets):
    """All users as targets, run again with fresh coins and noise until there are enough targets.

    mechanism: the mechanism that is attacked. case: one random repetition of the scenario. people: the users; coins
    replace their labels. pair: the classes between which a coin chooses.
    """

    mechanism: Deployment
    case: Replicate
    people: Population
    pair: ClassPair

    def coined_run(self, streams: Streams, record: bool = False, **changes: float) -> CoinedRun:
        """One run of the mechanism in which every user's label is a fair coin between two classes. Returns the coins
        (n,), the users with these labels, and the outcome. The outcome has what the mechanism releases, and the
        messages of the run.

        Args:
            streams: random streams of the run, also of the coins. record: whether every message is kept. changes:
            values that replace settings of the scenario's network, by name. For example, duplication=0.0 lets the
            network duplicate no message.
        """
        coins = streams.generator("audit-coin").random(self.people.num_users) < 0.5
        people = replace(self.people, labels=self.pair.labels(coins))
        network = self.case.scenario.network.model_copy(update=changes)
        return CoinedRun(coins, people, self.mechanism.run(people, network, streams, record, places=self.case.places))


@dataclass(frozen=True)
class LocalTargets(AllUsers):
    """All users as targets of a local mechanism, scored by their own messages."""

    mechanism: LocalChannel

    def run(self, streams: Streams, number: int, missing: int) -> ScoredTargets:
        coins, people, outcome = self.coined_run(streams)
        score = np.zeros(people.num_users, dtype=np.float32)
        score[outcome.labels.user] = self._scores(outcome)
        return ScoredTargets(coins, score[None, :], people.num_users)

    def _scores(self, outcome: Outcome) -> Floats:
        """How much each of m messages speaks for the high class, (m,); below 0 for the low class."""
        law = self.mechanism.value_law(outcome)
        if law is not None:
            return law.scores(outcome.labels.payload.astype(np.float64), *self.pair)
        if isinstance(self.mechanism.noise, Table):
            low, high = self.mechanism.noise.transition[self.pair, :][:, outcome.labels.payload]
            return np.asarray(np.log(np.maximum(high, TINY)) - np.log(np.maximum(low, TINY)))
        return scores_of(outcome.labels, *self.pair)


def scores_of(release: LabelRelease, low: int, high: int) -> Floats:
    """How much each of m messages speaks for class `high` against class `low`, (m,). For a class as message this is 1
    (high), -1 (low) or 0. Otherwise it is the message's entry for `high` minus its entry for `low`; soft labels use
    logarithms.
    """
    payload = release.payload
    if release.kind == "hard":
        return np.asarray((payload == high).astype(np.float64) - (payload == low))
    if release.kind == "bits":
        bits = np.unpackbits(payload.astype(np.uint8, copy=False), axis=1)
        return np.asarray(bits[:, high].astype(np.float64) - bits[:, low])
    pair = payload[:, (low, high)].astype(np.float64)
    if release.kind == "soft":
        pair = np.log(np.maximum(pair, TINY))
    return np.asarray(pair[:, 1] - pair[:, 0])


@dataclass(frozen=True)
class MessageCurve(Account):
    """What is certified of a message whose sender the observer knows: the pure ε₀ of the message.

    If one randomizer draws all messages, its own δ(ε) holds as well as that of ε₀; the smaller one is certified.
    """

    mechanism: LocalChannel

    pure = "ε₀ of the message"
    clusters = None

    def deltas(self, epsilons: Sequence[float]) -> Floats:
        pure, noise = self.reached(epsilons, 1.0), self.mechanism.noise
        if isinstance(self.mechanism, RRWithPriorConfig):
            return pure  # the second stage has priors of its own, and so another randomizer
        if isinstance(noise, VectorApproximation):
            return np.array([vector_delta(noise.bit_flip_prob, epsilon).upper for epsilon in epsilons])
        alone = np.array([noise.alone(epsilon).upper for epsilon in epsilons])
        return np.asarray(np.minimum(np.minimum(pure, alone), noise.total_variation))


def audit_aggregates(case: Replicate, trials: int, mechanism: Aggregates | None = None) -> OneRunAudit:
    """Attacks a mechanism that releases noisy counts of the labels in bags (random groups of users).

    Args:
        case: the replicate whose users are attacked. trials: the least number of targets.
        mechanism: the mechanism that is attacked; None: the one that the scenario declares.

    Raises:
        InputError: the mechanism releases no counts.
    """
    claimed, people = claim_of(case, "releases no noisy counts of bags", Aggregates)  # type: ignore[type-abstract]
    targets = BagTargets(mechanism or claimed, people, frequent_pair(people))
    return perform_audit(case.scenario, targets, CountsCurve(claimed, people.cluster_sizes), trials=trials)


@dataclass(frozen=True)
class BagTargets(RepeatedTargets):
    """The first user of each bag as target, run again with fresh bags, coins and noise until there are enough targets.

    mechanism: the mechanism that is attacked. people: the users. pair: the classes between which a coin chooses.
    """

    mechanism: Aggregates
    people: Population
    pair: ClassPair

    def run(self, streams: Streams, number: int, missing: int) -> ScoredTargets:
        return join_targets([self._shard(shard, streams) for shard in self.people.shards])

    def _shard(self, shard: Shard, streams: Streams) -> ScoredTargets:
        """The scored targets of one shard, a part of the clusters that is processed at once. The shard's users are
        dealt at random into bags. The first user of each bag is the target, and her label is a coin between a low and a
        high class.

        The attacker knows all other labels. From the bag's noisy counts of each class she subtracts the labels of the
        other counted users. The target's label and the noise are left. The score is the rest of the high class minus
        the rest of the low class. If only ones are counted, there is a single rest c, and the score is 2c - 1. The
        score is 0 if the target is not counted.

        streams: random numbers of the run.
        """
        streams = streams.within(shard.index)
        bags = Bags.dealt(shard.offsets, self.mechanism.bag_size, streams.generator("bags"))
        target = np.unique(bags.bag, return_index=True)[1]
        coins = streams.generator("audit-coin").random(len(target)) < 0.5
        labels = self.people.labels_of(shard).copy()
        labels[target] = self.pair.labels(coins)
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
    """What is certified of the noisy counts of a bag, for a user of the smallest cluster."""

    mechanism: Aggregates

    pure = "pure ε of the counts"

    def reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """δ against the learner at each of J values of ε, (J,), for a user of the smallest cluster. The learner sees
        the noisy counts of the labels in the user's bag, a random group of users of her cluster. `rise` divides the
        scale of the noise on the counts. 1 gives the certified δ. A larger `rise` describes a leak by too little noise,
        with approximately `rise` times the ε. From this δ the audit computes how likely it would detect the leak.
        """
        scale = max(self.mechanism.scale / rise, LEAST_SCALE)
        weaker = self.mechanism.model_copy(update={"noise_scale": scale})
        accountant = weaker.accountant(weaker.setup, int(self.sizes.min()))
        return np.array([accountant.delta(epsilon).upper for epsilon in epsilons])
