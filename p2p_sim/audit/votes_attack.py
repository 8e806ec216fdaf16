"""An audit in one run of PATE: in each run of all tests and answers one teacher's vote is a fair coin.

The users of a run are invented, one for each teacher, so that a user's label is her teacher's vote. The mechanism
itself deals the shards, lets the teachers vote and adds the noise. The attacker knows all other labels. A rehearsal
with the claimed noise tries several splits of the other votes between the classes; the attack takes the split whose
results depend most on the target's vote, and guesses by the likelihoods of results that the rehearsal estimates. Runs
have independent noise, so that their targets are independent.
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
"""Queries from which the likelihoods of a query's results are estimated; a tenth of them for each split that is tried.
"""
SPLITS = 16
"""About how many numbers of votes for the leading class are tried."""
TOGETHER = 500
"""Runs that share the teachers' shards."""


def audit_votes(case: Replicate, trials: int, mechanism: PateConfig | None = None) -> OneRunAudit:
    """The audit of PATE: teachers learn from disjoint parts of the labels and vote on queries; a query passes if its
    noisy number of votes for the leading class is above a threshold, and is answered with the class with the most noisy
    votes. In every run one teacher's vote is a fair coin, which the attack guesses from which queries were answered and
    how. It proves lower bounds of ε and δ beside the certified ones.

    Args:
        case: one replicate of a scenario; its users give only the number of classes. trials: number of runs, each
        with one target. mechanism: what is attacked; None: the mechanism that the scenario claims.

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
    """What the attacker knows about the results of a query, if the target votes for class 0 or for class 1.

    others: (K,) votes for each class, without the target's.
    gains: (K+1,) ln Pr[result | class 1] - ln Pr[result | class 0] of each class as an answer, and last of no answer.
    evidence: about the symmetrised Kullback-Leibler divergence of all results of a run.
    """

    others: Votes
    gains: Floats
    evidence: float


def best_results(mechanism: PateConfig, num_classes: int, seed: int) -> VoteResults:
    """The votes of all teachers but one, (K,) for K classes, from whose noisy results the last teacher's vote, class 0
    or 1, can be told best, with the evidence of each possible result. It is searched among near ties, clear majorities
    and votes near the threshold, by simulating queries with the claimed noise.

    Args:
        mechanism: the claimed one. num_classes: K. seed: root seed of the simulation.
    """
    rng = Streams(seed, 0).generator("audit-rehearsal")
    tried = (rehearsed(mechanism, others, REHEARSED // 10, rng) for others in splits(mechanism, num_classes))
    return rehearsed(mechanism, max(tried, key=lambda results: results.evidence).others, REHEARSED, rng)


def splits(mechanism: PateConfig, num_classes: int) -> Iterator[Votes]:
    """Yields votes (K,), the numbers of votes for each of K classes by all teachers but one: near ties of classes 0 and
    1, clear majorities of class 0, and numbers of votes for class 0 near the threshold that decides whether a query is
    answered.
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
    """What the result of one query reveals about one teacher's vote, class 0 or 1, estimated from `queries` simulated
    queries on which the other teachers always vote in the same way.

    The gains are ln Pr[result | vote 1] - ln Pr[result | vote 0], (K + 1,), for each of K classes as the answer, and
    last for no answer. The evidence is about the symmetrised Kullback-Leibler divergence of all results of a run.

    Args:
        mechanism: has the noise, the threshold and the numbers of queries and answers. others: (K,) votes of the
        other teachers for each class. rng: draws the noise.
    """
    endless, classes = mechanism.model_copy(update={"answers": queries, "queries": queries}), len(others)
    # How often each class is the answer, and last how often there is none, if the target votes for class 0 or class 1.
    results = [endless.answered(np.tile(others + own, (queries, 1)), rng) for own in np.eye(2, classes, dtype=int)]
    counts = [np.bincount(np.where(got < 0, classes, got), minlength=classes + 1) + 1.0 for got in results]
    low, high = (count / count.sum() for count in counts)
    gains = np.log(high) - np.log(low)
    used = min(mechanism.queries, mechanism.answers / (1.0 - 0.5 * (low[-1] + high[-1])))
    return VoteResults(others, gains, float((high - low) @ gains) * used)


@dataclass(frozen=True)
class PateTargets(RepeatedTargets):
    """Runs of all tests and answers, with one target each.

    mechanism: what is attacked. rehearsal: what the attacker knows about the results.
    """

    mechanism: PateConfig
    rehearsal: VoteResults

    def run(self, streams: Streams, number: int, missing: int) -> ScoredTargets:
        """Up to 500 targets, but no more than are missing, one in each of as many runs of all tests and answers: her
        label is a fair coin, and her score the sum of the evidence of the run's results. The runs have the same
        assignment of users to teachers, and thus the same votes but for the target's; each has fresh noise.

        Args:
            streams: for coins, assignment and noise. number: not used. missing: how many targets are still needed.
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
        """Two arrays (Q, K): how many of the teachers vote for each of K classes on each of Q queries, first if the
        target's label is 0, then if it is 1. Both have the same assignment of users to teachers. streams: draw this
        assignment.
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
    """What is certified of all results of a run together."""

    mechanism: PateConfig

    shares = (0.0, 0.15, 0.3, 0.5, 0.7)
    most = 40.0
    clusters = None

    @property
    def accountant(self) -> Pate:
        """The accountant of the claimed noise."""
        return self.mechanism.accountant(self.mechanism.setup, 1)

    @property
    def largest(self) -> float:
        """The certified ε at the mechanism's δ."""
        return self.accountant.epsilon(self.mechanism.setup.delta).epsilon_upper

    def reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """δ of all results of a run together at each of J values of ε, (J,), if the noise of tests and answers is
        divided by `rise`, which makes ε about `rise` times as large. `rise` = 1 gives the certified δ; a larger one
        describes a leak by too little noise, for which the audit computes how likely it would detect it.
        """
        claimed = self.accountant
        answer, test = (max(sigma / rise, SMALLEST_NOISE) for sigma in (claimed.answer_noise, claimed.test_noise))
        less = Pate(answer, test, claimed.answers, claimed.queries)
        return np.array([less.delta(epsilon).upper for epsilon in epsilons])

    def curves(self) -> dict[str, Floats]:
        """The trade-off curve of the Gaussian mechanism that bounds all results together, by its name in the figure."""
        import scipy

        moved = scipy.special.ndtri(1.0 - TYPE_ONE) - self.accountant.mu
        return {"certified, Gaussian": np.asarray(scipy.special.ndtr(moved))}
