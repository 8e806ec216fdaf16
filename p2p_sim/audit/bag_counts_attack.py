"""An audit in one run of noisy counts of bags: one user of each bag is a target, whose label is a fair coin.

The attacker knows all other labels and who is counted, and subtracts them from the counts. Bags have noise of their
own, so that the targets are independent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.local_attack import LARGEST_TEST_EPSILON, SHARES
from p2p_sim.audit.one_run import TYPE_ONE, Asked, OneRunAudit, audited
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.base.threads import one_thread
from p2p_sim.mechanisms.noisy_aggregates import Aggregates, one_hot
from p2p_sim.population.population import Population
from p2p_sim.population.shards import Shard
from p2p_sim.privacy.audit_statistics.one_run_plan import AttackScores, OneRunPlan
from p2p_sim.privacy.audit_statistics.power import ERROR
from p2p_sim.privacy.bound import PrivacyBound, worst_bound
from p2p_sim.privacy.rivals.noisy_counts import LEAST_SCALE
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare

Floats = NDArray[np.float64]


def audit_aggregates(
    case: Replicate, trials: int, error: float = ERROR, mechanism: Aggregates | None = None
) -> OneRunAudit:
    """Attack noisy counts.

    Args:
        case: the scenario, whose first replicate has the users. trials: targets, at least.
        error: probability that a sound mechanism fails.
        mechanism: what is attacked, if it is not what the scenario claims.

    Raises:
        InputError: the mechanism releases no counts.
    """
    ready = prepare(case)
    claimed = ready.mechanism
    if not isinstance(claimed, Aggregates):
        raise InputError(f"mechanism.kind = {case.scenario.mechanism.kind!r}: releases no noisy counts of bags")
    people = ready.population
    sizes = np.unique(people.cluster_sizes)
    with one_thread():
        counts = np.bincount(people.labels, minlength=people.num_classes)
        low, high = (int(label) for label in np.sort(np.argsort(-counts, kind="stable")[:2]))
    targets = BagTargets(mechanism or claimed, people, (low, high))
    clusters = (int(sizes[0]), int(sizes[-1]))
    account = CountsCurve(claimed, sizes)
    return audited(Asked.of(case.scenario), targets, account, trials, error, claimed.parameters, clusters)


@dataclass(frozen=True)
class BagTargets:
    """The first user of each bag, run again with fresh bags, coins and noise until there are enough targets.

    pair: classes of a coin.
    """

    mechanism: Aggregates
    people: Population
    pair: tuple[int, int]
    exact: tuple[bool, ...] = (False,)

    def seen(self, trials: int, seed: int, epsilons: Sequence[float]) -> tuple[AttackScores, int, Floats | None]:
        """As `one_run.Targets` has it."""
        labels, scores, found, users = [], [], 0, 0
        while found < trials:
            streams = Streams(seed, users // self.people.num_users)
            for shard in self.people.shards:
                coins, score = self._shard(shard, streams)
                labels.append(coins)
                scores.append(score)
                found += len(coins)
            users += self.people.num_users
        return AttackScores(np.concatenate(labels), np.concatenate(scores)[None, :]), users, None

    def _shard(self, shard: Shard, streams: Streams) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Coins and scores (B,) of a shard's bags; the score is 0 where the target is not counted."""
        bags = self.mechanism.bags(shard, streams)
        target = np.unique(bags.bag, return_index=True)[1]
        coins = streams.generator("audit-coin", shard.index).random(len(target)) < 0.5
        labels = self.people.labels_of(shard).copy()
        labels[target] = np.where(coins, self.pair[1], self.pair[0])
        noisy, counted = self.mechanism.noisy_counts(labels, bags, shard, streams)
        own = one_hot(labels, self.people.num_classes)
        own[~counted] = 0
        own[target] = 0
        for column in range(own.shape[1]):
            noisy[:, column] -= np.bincount(bags.bag, own[:, column], len(bags.sizes)).astype(np.int64)
        score = noisy[:, 0] * 2 - 1 if own.shape[1] == 1 else noisy[:, self.pair[1]] - noisy[:, self.pair[0]]
        return coins, np.where(counted[target], score, 0).astype(np.float32)


@dataclass(frozen=True)
class CountsCurve:
    """What is certified of the counts of a bag."""

    mechanism: Aggregates
    sizes: NDArray[np.int64]

    def tested(self) -> list[float]:
        """Parts of the pure ε."""
        largest = min(self.mechanism.accountant(int(self.sizes[0])).pure_epsilon, LARGEST_TEST_EPSILON)
        return [share * largest for share in SHARES]

    def deltas(self, epsilons: Sequence[float]) -> Floats:
        """Certified δ of every target at each ε; it is the same in all bags."""
        return np.array([self.mechanism.accountant(int(self.sizes[0])).delta(epsilon).upper for epsilon in epsilons])

    def bound(self, delta: float) -> PrivacyBound:
        """As the mechanism states it."""
        return worst_bound(self.mechanism.privacy(self.sizes, delta))

    def grown(self, epsilons: Sequence[float], rise: float, delta: float) -> Floats:
        """Of noise whose scale is that much smaller."""
        scale = max(self.mechanism.noise_scale / rise, LEAST_SCALE)
        less = CountsCurve(replace(self.mechanism, noise_scale=scale), self.sizes)
        pairs = zip(less.deltas(epsilons), self.deltas(epsilons), strict=True)
        return np.array([more / now if now > 0.0 else 1.0 for more, now in pairs])

    def curves(self) -> dict[str, Floats]:
        """The pure ε alone."""
        kept = math.exp(min(self.mechanism.accountant(int(self.sizes[0])).pure_epsilon, 700.0))
        return {"pure ε of the counts": np.maximum(np.maximum(1.0 - kept * TYPE_ONE, (1.0 - TYPE_ONE) / kept), 0.0)}

    def refused(self, plan: OneRunPlan, certified: Floats, attacked: Floats) -> float | None:
        """Nothing is said of other parameters."""
        return None
