"""An audit in one run of a protocol: every user is a target, by all noisy labels that she sends.

Every user's label is a fair coin between the two most frequent classes. Given the noisy labels of all users, all else
that anybody sees is independent of the coins, which are independent of each other, each as likely as her noisy label
says. So every score, whatever it looks at, is held against ε₀ by the tests of independent targets. Scores count the
labels in a user's messages, as noise that is drawn once makes all of them equal; held-out runs show what labels that
differ tell. What a protocol declares of its submissions is tested in further runs (`declared_submissions`).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.declared_submissions import HeldAndSubmitted, follows
from p2p_sim.audit.local_attack import ClassPair, frequent_pair, pure_delta
from p2p_sim.audit.one_run import (
    HELD_OUT_SEED,
    Account,
    OneRunAudit,
    RepeatedTargets,
    Scope,
    ScoredTargets,
    audited,
    pilot_of,
)
from p2p_sim.base import InputError, Streams, one_thread
from p2p_sim.exchange import LEARNER, Transcript
from p2p_sim.mechanisms import ProtocolMechanism
from p2p_sim.population import Population
from p2p_sim.privacy import PrivacyBound
from p2p_sim.replicate import Replicate, prepare

Floats = NDArray[np.float64]
MOST = 4
"""Counts from this one on are taken together."""
MOST_DECLARED = 100_000
"""Most users whose submissions are held against a declared law."""
DECLARED_SEED = 32_452_843


def audit_protocol(case: Replicate, trials: int, mechanism: ProtocolMechanism | None = None) -> OneRunAudit:
    """Attack the messages of a protocol.

    Args:
        case: the scenario, whose first replicate has the users. trials: targets, at least.
        mechanism: what is attacked, if it is not what the scenario claims.

    Raises:
        InputError: the mechanism is no protocol of noisy labels.
    """
    ready = prepare(case)
    claimed, people = ready.mechanism, ready.population
    if not isinstance(claimed, ProtocolMechanism):
        raise InputError(f"mechanism.kind = {case.scenario.mechanism.kind!r}: not a protocol of noisy labels")
    declares = claimed.declares and claimed.applies(case.scenario.situation(people.num_classes)) is None
    with one_thread():
        # runs that are not attacked teach which messages to count
        pair = frequent_pair(people)
        runs = SenderRuns(mechanism or claimed, case, people, pair)
        held_out = range(-(-pilot_of(trials) // people.num_users))
        sent = [runs.counts(Streams(case.scenario.seed + HELD_OUT_SEED, number)) for number in held_out]
        coins, counts = (np.concatenate(part) for part in zip(*sent, strict=True))
        targets = SenderTargets(runs, log_odds(counts, coins))
    account = NoisyLabelCurve(claimed, people.cluster_sizes, engine=case.scenario.engine)
    audit = audited(case.scenario, targets, account, trials=trials)
    if not declares:
        return audit
    law = claimed.protocol.law() if people.num_classes == 2 else None
    with one_thread():
        checks = follows(runs.submissions(min(trials, MOST_DECLARED)), law)
    return replace(audit, declared=tuple(checks))


def log_odds(counts: NDArray[np.int64], coins: NDArray[np.bool_]) -> Floats:
    """The score of each combination of counts that a target may show: ln of her coin's odds in held-out runs, (MOST +
    1)^4.

    Args:
        counts: (n, 4) of held-out users. coins: (n,) theirs.
    """
    cells, shape = tuple(np.minimum(counts, MOST).T), (MOST + 1,) * counts.shape[1]
    occurrences = np.ones((2, *shape))
    for coin in (0, 1):
        np.add.at(occurrences[coin], tuple(cell[coins == coin] for cell in cells), 1.0)
    return np.asarray(np.log(occurrences[1] / occurrences[0]))


class SentLabels(NamedTuple):
    """What users sent in one run. coins: (n,). counts: (n, 4) labels of the high and the low class sent to the learner,
    and to peers.
    """

    coins: NDArray[np.bool_]
    counts: NDArray[np.int64]


@dataclass(frozen=True)
class SenderRuns:
    """Runs of a protocol with fresh coins as labels. pair: classes of a coin."""

    mechanism: ProtocolMechanism
    case: Replicate
    people: Population
    pair: ClassPair

    def counts(self, streams: Streams) -> SentLabels:
        """The labels that users send in one run."""
        users = self.people.num_users
        coins = streams.generator("audit-coin").random(users) < 0.5
        people = self._labelled(coins)
        outcome = self.mechanism.run(people, self.case.scenario.network, streams, True, places=self.case.places)
        sent = cast(Transcript, outcome.transcript).messages  # this run records it
        counts = [
            np.bincount(sent.sender[rows & (sent.label == label)], minlength=users)
            for rows in (sent.receiver == LEARNER, sent.receiver != LEARNER)
            for label in (self.pair.high, self.pair.low)
        ]
        return SentLabels(coins, np.stack(counts, axis=1))

    def submissions(self, trials: int) -> list[HeldAndSubmitted]:
        """What users held and submitted in as many runs as have so many users, by cluster; duplicates are left out."""
        users, network = self.people.num_users, self.case.scenario.network.model_copy(update={"duplication": 0.0})
        runs = -(-trials // users)
        held = np.zeros((runs, users), dtype=np.bool_)
        ones, count = np.zeros((2, runs, users), dtype=np.int64)
        for run in range(runs):
            streams = Streams(self.case.scenario.seed + DECLARED_SEED, run)
            people = self._labelled(streams.generator("audit-coin").random(users) < 0.5)
            outcome = self.mechanism.run(people, network, streams, True, places=self.case.places)
            # the noisy labels are those that the run has drawn
            noisy = [
                self.mechanism.randomizer.randomize(people.labels_of(s), streams.generator("flip", s.index))
                for s in people.shards
            ]
            held[run] = np.concatenate(noisy) == self.pair.high
            view = cast(Transcript, outcome.transcript).view("learner")  # this run records it
            count[run] = np.bincount(view.sender, minlength=users)
            ones[run] = np.bincount(view.sender[view.label == self.pair.high], minlength=users)
        bounds = itertools.pairwise(self.people.cluster_offsets.tolist())
        return [HeldAndSubmitted(held[:, i:j], ones[:, i:j], count[:, i:j]) for i, j in bounds]

    def _labelled(self, coins: NDArray[np.bool_]) -> Population:
        return replace(self.people, labels=np.where(coins, self.pair.high, self.pair.low).astype(np.uint8))


@dataclass(frozen=True)
class SenderTargets(RepeatedTargets):
    """All users as targets, run again with fresh coins, noise and messages. odds: the scores of `log_odds`."""

    runs: SenderRuns
    odds: Floats

    exact = (False, False, False)
    scope = Scope(
        (
            "the learner's: labels submitted",
            "her peers': labels sent to them",
            "an eavesdropper's: what both tell together",
        ),
        looks_for="labels of a user with different noise, or with too little",
        overlooks="what times of messages tell, who asks whom, and labels under another's name",
    )

    def run(self, streams: Streams, number: int, missing: int) -> ScoredTargets:
        coins, counts = self.runs.counts(streams)
        scores = counts[:, 0] - counts[:, 1], counts[:, 2] - counts[:, 3], self.odds[tuple(np.minimum(counts, MOST).T)]
        return ScoredTargets(coins, np.stack(scores).astype(np.float32), len(coins))


@dataclass(frozen=True)
class NoisyLabelCurve(Account):
    """What is certified of a noisy label that is drawn once, against any observer and however often it is sent."""

    mechanism: ProtocolMechanism

    pure = "ε₀ of the noisy label"
    clusters = None

    def bound(self, delta: float) -> PrivacyBound:
        """The statement of ε₀ against whoever sees a user's messages; what a protocol declares is about the learner."""
        return self.mechanism.noise_alone("eavesdropper" if self.mechanism.declares else "learner", delta)

    @property
    def largest(self) -> float:
        """ε₀ of a noisy label."""
        return self.mechanism.randomizer.local_epsilon

    def reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """What a leak would reach: δ at each ε of binary randomised response whose ε₀ is `rise` times that of the noisy
        label.
        """
        return np.array([pure_delta(rise * self.largest, epsilon) for epsilon in epsilons])
