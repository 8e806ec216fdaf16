"""The audit of PATE. In each simulated run of the whole mechanism, one teacher's vote is a fair coin.

In PATE, teachers learn from disjoint parts of the users' labels, and vote on the class of each query. The audit invents
the users of a run, one for each teacher. A user's label is her teacher's vote. The target is the user whose teacher's
vote is the coin. The audited mechanism itself assigns the users to the teachers, collects the votes and adds the noise.
The attacker knows all labels except the target's. Before the attack, a rehearsal simulates queries with the claimed
noise. The rehearsal tries several splits of the other votes between the classes. The attack uses the split for which
the results depend most on the target's vote. The attack guesses this vote from the likelihoods of the results, as
estimated by the rehearsal. Runs have independent noise, so their targets are independent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.one_run import (
    TYPE_ONE,
    Account,
    Floats,
    OneRunAudit,
    RepeatedTargets,
    ScoredTargets,
    claim_of,
    perform_audit,
)
from p2p_sim.base import Streams, one_thread
from p2p_sim.mechanisms import PateConfig, teachers_inputs
from p2p_sim.privacy.rivals import Pate
from p2p_sim.privacy.rivals.pate import SMALLEST_NOISE
from p2p_sim.replicate import Replicate

Votes = NDArray[np.int64]
REHEARSED = 50_000
"""Number of simulated queries from which the likelihoods of a query's results are estimated, for the chosen split. For
each split that is only tried, the number is a tenth.
"""
SPLITS = 16
"""Approximate number of values tried for the number of votes for the leading class."""
TOGETHER = 500
"""Largest number of runs that share one assignment of users to teachers."""


def audit_votes(case: Replicate, trials: int, mechanism: PateConfig | None = None) -> OneRunAudit:
    """The audit of PATE. In PATE, teachers learn from disjoint parts of the labels and vote on queries. A query passes
    if its noisy number of votes for the leading class is above a threshold. The answer to such a query is the class
    with the largest noisy number of votes. In every run of the audit one teacher's vote is a fair coin. The attack
    guesses this coin from the results: which queries were answered, and with which class. The right guesses prove lower
    bounds of ε and δ, which the audit compares with the certified bounds.

    Args:
        case: one replicate of a scenario; its users give only the number of classes. trials: number of runs, each with
        one target. mechanism: what is attacked; None: the mechanism that the scenario claims.

    Raises:
        InputError: the mechanism is not PATE.
    """
    claimed, people = claim_of(case, "teachers do not vote", PateConfig)
    with one_thread():
        results = best_results(claimed, people.num_classes, case.scenario.seed)
    account = VotesCurve(claimed, np.ones(1, dtype=np.int64))
    return perform_audit(case.scenario, PateTargets(mechanism or claimed, results), account, trials=trials)


@dataclass(frozen=True)
class VoteResults:
    """What the attacker knows about a query: the other votes, and how the result depends on the target's vote (0 or 1).

    others: (K,) votes for each class, without the target's.
    gains: (K+1,) ln Pr[result | class 1] - ln Pr[result | class 0] for each class as the answer, and last for no
    answer.
    evidence: approximately the symmetrised Kullback-Leibler divergence of a run's results between the target's two
    votes.
    """

    others: Votes
    gains: Floats
    evidence: float


def best_results(mechanism: PateConfig, num_classes: int, seed: int) -> VoteResults:
    """The split of all other teachers' votes for which a query's noisy result reveals most about one teacher's vote (0
    or 1). Near ties, clear majorities and numbers of votes near the threshold are tried. Each split is tried by
    simulating queries with the claimed noise.

    The result also has what the attacker learns from each answer (see `VoteResults`).

    Args:
        mechanism: the claimed one. num_classes: K. seed: root seed of the simulation.
    """
    rng = Streams(seed, 0).generator("audit-rehearsal")
    tried = (rehearsed(mechanism, others, REHEARSED // 10, rng) for others in splits(mechanism, num_classes))
    return rehearsed(mechanism, max(tried, key=lambda results: results.evidence).others, REHEARSED, rng)


def splits(mechanism: PateConfig, num_classes: int) -> Iterator[Votes]:
    """Yields splits of the votes of all teachers except one. Each split (K,) has the number of votes for each of K
    classes. Some splits have near ties of classes 0 and 1, and some have clear majorities of class 0. In others, the
    number of votes for class 0 is near the threshold above which a query is answered.
    """
    others, line = mechanism.teachers - 1, round(mechanism.threshold * mechanism.teachers)
    tried = [*np.linspace(0, others, SPLITS).round().astype(int).tolist(), others // 2, line - 1, line]
    for most in sorted({min(max(0, votes), others) for votes in tried}):
        for second in sorted({min(most, others - most), min(max(0, most - 1), others - most)}):
            rest, further = others - most - second, num_classes - 2
            if further or rest == 0:
                each, over = divmod(rest, max(1, further))
                yield np.array([most, second, *(each + (i < over) for i in range(further))])


def rehearsed(mechanism: PateConfig, others: Votes, queries: int, rng: np.random.Generator) -> VoteResults:
    """What the result of one query reveals about one teacher's vote (0 or 1), estimated from simulated queries. The
    other teachers vote in the same way on all these queries.

    The fields of the result are explained in `VoteResults`. `evidence` depends on the largest numbers of queries and of
    answers in a run of the mechanism.

    Args:
        mechanism: the claimed PATE mechanism, with these two largest numbers. others: (K,) votes of the other teachers
        for each class. queries: number of simulated queries. rng: draws the noise.
    """
    endless, classes = mechanism.model_copy(update={"answers": queries, "queries": queries}), len(others)
    # How often each class is the answer, and last how often there is no answer. The first array is for the target's
    # vote 0, the second for vote 1.
    results = [endless.answered(np.tile(others + own, (queries, 1)), rng) for own in np.eye(2, classes, dtype=int)]
    counts = [np.bincount(np.where(got < 0, classes, got), minlength=classes + 1) + 1.0 for got in results]
    low, high = (count / count.sum() for count in counts)
    gains = np.log(high) - np.log(low)
    used = min(mechanism.queries, mechanism.answers / (1.0 - 0.5 * (low[-1] + high[-1])))
    return VoteResults(others, gains, float((high - low) @ gains) * used)


@dataclass(frozen=True)
class PateTargets(RepeatedTargets):
    """Targets, each in a whole run of the mechanism of her own.

    mechanism: what is attacked. rehearsal: what the attacker knows about the results.
    """

    mechanism: PateConfig
    rehearsal: VoteResults

    def run(self, streams: Streams, number: int, missing: int) -> ScoredTargets:
        """Up to 500 targets, but no more than are missing, each from a whole run of the mechanism. In a run, every
        query that passes the threshold is answered, until the largest number of answers is reached. The target's label
        is a fair coin. Her score is the sum of ln Pr[result | label 1] - ln Pr[result | label 0] over the run's
        results. All these runs share one assignment of users to teachers. So all votes except the target's are the
        same. Each run has fresh noise.

        Args:
            streams: random streams for coins, assignment and noise. number: number of this call, ignored here. missing:
            how many targets are still needed.
        """
        runs, answers, scores = min(TOGETHER, missing), self.mechanism.answers, list[float]()
        coins = streams.generator("audit-coin").random(runs) < 0.5
        noise, both = streams.generator("pate-noise"), self._votes(streams)
        for coin in coins:
            results = self.mechanism.answered(both[int(coin)], noise)
            open_still = np.cumsum(results >= 0) - (results >= 0) < answers
            scores.append(float(self.rehearsal.gains[results[open_still]].sum()))
        return ScoredTargets(coins, np.array(scores, dtype=np.float32)[None, :], runs * self.mechanism.teachers)

    def _votes(self, streams: Streams) -> list[Votes]:
        """Two arrays (Q, K): how many teachers vote for each of K classes on each of Q queries. The first is for the
        target's label 0, the second for label 1. Both have the same assignment of users to teachers, which `streams`
        determine.
        """
        users = self.mechanism.teachers
        labels = np.repeat(np.arange(len(self.rehearsal.others), dtype=np.uint8), self.rehearsal.others)
        queries = np.arange(self.mechanism.queries) % users
        inputs = teachers_inputs(np.zeros((users, 1)), np.array([users]), self.mechanism.clusters)
        return [
            self.mechanism.votes(np.append(labels, np.uint8(own)), inputs, queries, streams.generator("pate-shards"))
            for own in (0, 1)
        ]


@dataclass(frozen=True)
class VotesCurve(Account):
    """The certified ε and δ of a run's results together."""

    mechanism: PateConfig

    shares = (0.0, 0.15, 0.3, 0.5, 0.7)
    most = 40.0
    clusters = None

    @property
    def accountant(self) -> Pate:
        """The accountant of the claimed noise, which bounds ε and δ of a run's results."""
        return self.mechanism.accountant(self.mechanism.setup, 1)

    @property
    def largest(self) -> float:
        """The certified ε at the mechanism's δ."""
        return self.accountant.epsilon(self.mechanism.setup.delta).epsilon_upper

    def reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """δ (J,) of a run's results together at each of J values of ε, if all noise has its standard deviation divided
        by `rise`. Then ε grows at least about `rise` times. `rise` = 1 gives the certified δ. A larger value describes
        a mechanism that adds too little noise by mistake. The audit computes how likely it would detect this
        mistake.
        """
        claimed = self.accountant
        answer, test = (max(sigma / rise, SMALLEST_NOISE) for sigma in (claimed.answer_noise, claimed.test_noise))
        less = Pate(answer, test, claimed.answers, claimed.queries)
        return np.array([less.delta(epsilon).upper for epsilon in epsilons])

    def curves(self) -> dict[str, Floats]:
        """The trade-off curve of the Gaussian mechanism that bounds a run's results together, under its name in the
        picture. No test of the target's vote has a smaller type II error than the curve. The array (201,) has the
        curve's type II errors at 201 equally spaced type I errors from 0 to 1.
        """
        import scipy

        moved = scipy.special.ndtri(1.0 - TYPE_ONE) - self.accountant.mu
        return {"certified, Gaussian": np.asarray(scipy.special.ndtr(moved))}
