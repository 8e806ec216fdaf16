"""An audit in one run of PATE: in each run of all tests and answers one teacher's vote is a fair coin.

The users of a run are made up: there is one for each teacher, so that a label is a vote. The mechanism itself deals the
shards, lets the teachers vote and adds the noise. The attacker knows all other labels. Of the runs in which the labels
of the others are split between two classes in some proportion, the attack takes those that tell most by a rehearsal
with the claimed noise. It guesses by the likelihoods of results that the rehearsal found. Runs have noise of their own,
so that their targets are independent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.one_run import TYPE_ONE, Account, Asked, OneRunAudit, audited
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.base.threads import one_thread
from p2p_sim.mechanisms.pate import PateConfig, teachers_inputs
from p2p_sim.privacy.audit_statistics.one_run_plan import AttackScores
from p2p_sim.privacy.audit_statistics.power import ERROR
from p2p_sim.privacy.bound import PrivacyBound, worst_bound
from p2p_sim.privacy.rivals.pate import SMALLEST_NOISE, Pate
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare

Floats = NDArray[np.float64]
Votes = NDArray[np.int64]
SHARES = (0.0, 0.15, 0.3, 0.5, 0.7)
"""Parts of ε(δ) at which δ is tested."""
REHEARSED = 50_000
"""Queries from which the likelihoods of a query's results are estimated; a tenth to choose the votes of the others."""
SPLITS = 16
"""Numbers of votes for the leading class that are tried, about."""
TOGETHER = 500
"""Runs with the same shards."""


def audit_votes(case: Replicate, trials: int, error: float = ERROR, mechanism: PateConfig | None = None) -> OneRunAudit:
    """Attack the results of all tests and answers of PATE.

    Args:
        case: the scenario, whose first replicate has the classes. trials: runs, each with one target.
        error: probability that a sound mechanism fails.
        mechanism: what is attacked, if it is not what the scenario claims.

    Raises:
        InputError: the mechanism is not PATE.
    """
    ready = prepare(case)
    claimed = ready.mechanism
    if not isinstance(claimed, PateConfig):
        raise InputError(f"mechanism.kind = {case.scenario.mechanism.kind!r}: teachers do not vote")
    with one_thread():
        known = best_results(claimed, ready.population.num_classes, case.scenario.seed)
    account = VotesCurve(claimed, case.scenario.privacy.delta)
    targets = PateTargets(mechanism or claimed, known)
    return audited(Asked.of(case.scenario), targets, account, trials, error, claimed.parameters)


@dataclass(frozen=True)
class VoteResults:
    """What the attacker knows of a query's results.

    others: (K,) votes of all teachers but the target's; she votes for class 0 or for class 1.
    gains: (K+1,) ln Pr[result | class 1] - ln Pr[result | class 0] of each class as an answer, and last of no answer.
    told: how much all queries of a run tell, about: a symmetrised Kullback-Leibler divergence.
    """

    others: Votes
    gains: Floats
    told: float

    @property
    def both(self) -> tuple[Votes, Votes]:
        """(K,) votes if the target votes for class 0, and for class 1."""
        first, second = self.others.copy(), self.others.copy()
        first[0] += 1
        second[1] += 1
        return first, second


def best_results(mechanism: PateConfig, num_classes: int, seed: int) -> VoteResults:
    """The votes of the others that tell most of the target's."""
    rng = Streams(seed, 0).generator("audit-rehearsal")
    tried = (rehearsed(mechanism, others, REHEARSED // 10, rng) for others in splits(mechanism, num_classes))
    return rehearsed(mechanism, max(tried, key=lambda results: results.told).others, REHEARSED, rng)


def splits(mechanism: PateConfig, num_classes: int) -> Iterator[Votes]:
    """Votes (K,) of all teachers but one, to be tried: near ties, clear majorities, and votes about the threshold."""
    others, line = mechanism.teachers - 1, round(mechanism.threshold * mechanism.teachers)
    tried = [*np.linspace(0, others, SPLITS).round().astype(int).tolist(), others // 2, line - 1, line]
    for most in sorted({min(max(0, one), others) for one in tried}):
        for second in sorted({min(most, others - most), min(max(0, most - 1), others - most)}):
            rest = others - most - second
            if num_classes > 2:
                each, over = divmod(rest, num_classes - 2)
                yield np.array([most, second, *(each + (i < over) for i in range(num_classes - 2))])
            elif rest == 0:
                yield np.array([most, second])


def rehearsed(mechanism: PateConfig, others: Votes, queries: int, rng: np.random.Generator) -> VoteResults:
    """What so many single queries tell if the others vote like this."""
    endless = mechanism.model_copy(update={"answers": queries, "queries": queries})
    both = VoteResults(others, np.zeros(len(others) + 1), 0.0).both
    seen = [endless.answered(np.tile(votes, (queries, 1)), rng) for votes in both]
    shares = [(np.bincount(np.where(one < 0, len(others), one), minlength=len(others) + 1) + 1.0) for one in seen]
    low, high = (share / share.sum() for share in shares)
    gains = np.log(high) - np.log(low)
    answered = 1.0 - 0.5 * (low[-1] + high[-1])
    used = min(mechanism.queries, mechanism.answers / answered)
    return VoteResults(others, gains, float((high - low) @ gains) * used)


@dataclass(frozen=True)
class PateTargets:
    """Runs of all tests and answers. known: what the attacker knows of the results."""

    mechanism: PateConfig
    known: VoteResults
    exact: tuple[bool, ...] = (False,)

    def seen(self, trials: int, seed: int, epsilons: Sequence[float]) -> tuple[AttackScores, int, Floats | None]:
        """As `one_run.Targets` has it."""
        answers, coins, scores = self.mechanism.answers, [], []
        for batch in range(-(-trials // TOGETHER)):
            streams, runs = Streams(seed, batch), min(TOGETHER, trials - batch * TOGETHER)
            drawn = streams.generator("audit-coin").random(runs) < 0.5
            noise, both = streams.generator("pate-noise"), self._votes(streams)
            for coin in drawn:
                found = self.mechanism.answered(both[int(coin)], noise)
                open_still = np.cumsum(found >= 0) - (found >= 0) < answers
                scores.append(float(self.known.gains[found[open_still]].sum()))
            coins.append(drawn)
        labels = np.concatenate(coins)
        return (
            AttackScores(labels, np.array(scores, dtype=np.float32)[None, :]),
            trials * self.mechanism.teachers,
            None,
        )

    def _votes(self, streams: Streams) -> tuple[Votes, Votes]:
        """(Q, K) votes on all queries in both worlds, as the mechanism's teachers cast them."""
        users = self.mechanism.teachers
        labels = np.repeat(np.arange(len(self.known.others), dtype=np.uint8), self.known.others)
        asked = np.arange(self.mechanism.queries) % users
        inputs = teachers_inputs(np.zeros((users, 1)), np.array([users]), self.mechanism.clusters)
        first, second = (
            self.mechanism.votes(np.append(labels, np.uint8(own)), inputs, asked, streams.generator("pate-shards"))
            for own in (0, 1)
        )
        return first, second


@dataclass(frozen=True)
class VotesCurve(Account):
    """What is certified of all results together. delta: of the statement."""

    mechanism: PateConfig
    delta: float

    @property
    def _accountant(self) -> Pate:
        return self.mechanism.accountant(self.mechanism.setup, 1)

    def tested(self) -> list[float]:
        """Parts of ε(δ)."""
        return [share * min(self._accountant.epsilon(self.delta).epsilon_upper, 40.0) for share in SHARES]

    def deltas(self, epsilons: Sequence[float]) -> Floats:
        """Certified δ of every target at each ε."""
        return _deltas(self._accountant, epsilons)

    def bound(self, delta: float) -> PrivacyBound:
        """As the mechanism states it."""
        return worst_bound(self.mechanism.privacy(np.ones(1, dtype=np.int64), delta))

    def grown(self, epsilons: Sequence[float], rise: float, delta: float) -> Floats:
        """Of noise that is that much smaller, which makes ε about so much larger."""
        claimed = self._accountant
        answer, test = (max(sigma / rise, SMALLEST_NOISE) for sigma in (claimed.answer_noise, claimed.test_noise))
        more, less = _deltas(Pate(answer, test, claimed.answers, claimed.queries), epsilons), self.deltas(epsilons)
        return np.asarray(np.divide(more, less, out=np.ones_like(more), where=less > 0.0))

    def curves(self) -> dict[str, Floats]:
        """The Gaussian curve."""
        import scipy

        moved = scipy.special.ndtri(1.0 - TYPE_ONE) - self._accountant.mu
        return {"certified, Gaussian": np.asarray(scipy.special.ndtr(moved))}


def _deltas(accountant: Pate, epsilons: Sequence[float]) -> Floats:
    return np.array([accountant.delta(epsilon).upper for epsilon in epsilons])
