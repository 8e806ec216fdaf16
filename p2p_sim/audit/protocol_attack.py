"""A one-run audit of a protocol. Every user is a target, and her score depends on her noisy labels in all messages.

Every user's label is a fair coin between the two most frequent classes. Given the noisy labels of all users, the coins
are independent of each other and of everything that anybody sees. A coin's probability then depends only on the noisy
label of its user. So the tests for independent targets are valid for every score. The tests check ε₀, the ε of a single
noisy label. A score counts the labels in a user's messages. If a user's noise is drawn once, as claimed, all her labels
in messages are equal. The attack learns from separate, held-out runs what the counts reveal if the labels differ.
Further runs test what a protocol declares about its submissions (`declared_submissions`).
"""

import itertools
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.declared_submissions import HeldAndSubmitted, follows
from p2p_sim.audit.local_attack import AllUsers, frequent_pair
from p2p_sim.audit.one_run import (
    HELD_OUT_SEED,
    Account,
    Floats,
    OneRunAudit,
    Scope,
    ScoredTargets,
    claim_of,
    perform_audit,
    pilot_of,
)
from p2p_sim.base import Streams, one_thread
from p2p_sim.exchange import LEARNER, Transcript
from p2p_sim.mechanisms import ProtocolMechanism
from p2p_sim.privacy import PrivacyBound
from p2p_sim.replicate import Replicate

MOST = 4
"""Largest count of labels in the attack. A larger count is replaced by this count."""
MOST_DECLARED = 100_000
"""Largest number of users requested for the test of what a protocol declares. The test makes whole runs, so it may use
more users.
"""
DECLARED_SEED = 32_452_843
"""Number added to the root seed for the runs that test what a protocol declares."""


def audit_protocol(case: Replicate, trials: int, mechanism: ProtocolMechanism | None = None) -> OneRunAudit:
    """The audit of a protocol by which users exchange noisy labels. Every user is a target whose label is a fair coin
    between the high and the low class. The attack guesses a user's coin from the number of noisy labels of each class
    in her messages. The right guesses prove lower bounds of ε and δ. The audit compares these with the certified bounds
    for a noisy label that is drawn once. A protocol may declare the law (distribution) of submissions given the noisy
    labels, or a symmetry among all users. The audit tests this declaration too.

    Args:
        case: one replicate (random repetition) of a scenario, with its users. trials: the least number of targets.
        mechanism: what is attacked; None: the mechanism that the scenario claims.

    Raises:
        InputError: the mechanism is no protocol of noisy labels.
    """
    claimed, people = claim_of(case, "not a protocol of noisy labels", ProtocolMechanism)
    declares = claimed.declares and claimed.applies(case.scenario.situation(people.num_classes)) is None
    with one_thread():
        # The log-odds of each combination of counts are learned from held-out runs.
        targets = SenderTargets(mechanism or claimed, case, people, frequent_pair(people))
        held_out = range(-(-pilot_of(trials) // people.num_users))
        sent = [targets.counts(Streams(case.scenario.seed + HELD_OUT_SEED, number)) for number in held_out]
        coins, counts = (np.concatenate(part) for part in zip(*sent, strict=True))
        targets = replace(targets, odds=log_odds(counts, coins))
    account = NoisyLabelCurve(claimed, people.cluster_sizes, engine=case.scenario.engine)
    audit = perform_audit(case.scenario, targets, account, trials=trials)
    if not declares:
        return audit
    law = claimed.protocol.law() if people.num_classes == 2 else None
    with one_thread():
        checks = follows(targets.submissions(min(trials, MOST_DECLARED)), law)
    return replace(audit, declared=tuple(checks))


def log_odds(counts: NDArray[np.int64], coins: NDArray[np.bool_]) -> Floats:
    """The estimated log-odds of a user's coin (1 against 0) for each combination of four counts of labels that she
    sent. The result is an array (5, 5, 5, 5) with an axis for each count. The counts are, in order: high-class labels
    to the learner, low-class labels to the learner, high-class labels to peers, low-class labels to peers. Coin 1 gives
    a user the high class as her label, and coin 0 the low class. A count above 4 is taken as 4. The number of
    occurrences of each combination with each coin is increased by 1, so all logarithms are finite.

    Args:
        counts: (n, 4) the four counts of each of n users, in runs that serve only for learning. coins: (n,) the users'
        coins.
    """
    cells, shape = tuple(np.minimum(counts, MOST).T), (MOST + 1,) * counts.shape[1]
    occurrences = np.ones((2, *shape))
    for coin in (0, 1):
        np.add.at(occurrences[coin], tuple(cell[coins == coin] for cell in cells), 1.0)
    return np.asarray(np.log(occurrences[1] / occurrences[0]))


class SentLabels(NamedTuple):
    """What n users sent in one run. coins: (n,) whether each user's label was of the high class.

    counts: (n, 4) for each user, the number of high-class and of low-class labels to the learner, then to peers.
    """

    coins: NDArray[np.bool_]
    counts: NDArray[np.int64]


@dataclass(frozen=True)
class SenderTargets(AllUsers):
    """All users as targets in runs of a protocol. A user's scores depend on the labels that she sends.

    odds: the log-odds for each combination of counts, made by `log_odds`; all 0 before anything is learned.
    """

    mechanism: ProtocolMechanism
    odds: Floats = field(default_factory=lambda: np.zeros((MOST + 1,) * 4))

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
        coins, counts = self.counts(streams)
        scores = counts[:, 0] - counts[:, 1], counts[:, 2] - counts[:, 3], self.odds[tuple(np.minimum(counts, MOST).T)]
        return ScoredTargets(coins, np.stack(scores).astype(np.float32), len(coins))

    def counts(self, streams: Streams) -> SentLabels:
        """The coins and the counts of labels of n users in one run. The coins (n,) were the users' labels. The counts
        (n, 4) are, for each user, the number of high-class and of low-class labels to the learner, then to peers.
        streams: random streams of the run.
        """
        coins, _, outcome = self.coined_run(streams, True)
        sent = cast(Transcript, outcome.transcript).messages  # this run records it
        counts = [
            np.bincount(sent.sender[rows & (sent.label == label)], minlength=len(coins))
            for rows in (sent.receiver == LEARNER, sent.receiver != LEARNER)
            for label in (self.pair.high, self.pair.low)
        ]
        return SentLabels(coins, np.stack(counts, axis=1))

    def submissions(self, trials: int) -> list[HeldAndSubmitted]:
        """What the users of each cluster held and submitted in R runs, for the test of what a protocol declares. The
        list has three arrays (R, n) for each cluster of n users. `held` says whether a user's noisy label is of the
        high class. `ones` is the number of high-class labels that she submitted. `count` is the number of all labels
        that she submitted. In each run a coin gives each user the high or the low class as her label. In these runs the
        network duplicates no message.

        trials: the least number of users of all R runs together; R is as small as this allows.
        """
        users, runs = self.people.num_users, -(-trials // self.people.num_users)
        held = np.zeros((runs, users), dtype=np.bool_)
        ones, count = np.zeros((2, runs, users), dtype=np.int64)
        for run in range(runs):
            streams = Streams(self.case.scenario.seed + DECLARED_SEED, run)
            _, people, outcome = self.coined_run(streams, True, duplication=0.0)
            # The run's random streams give the same noisy labels again.
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


@dataclass(frozen=True)
class NoisyLabelCurve(Account):
    """The certified bound for a noisy label that is drawn once, against any observer and however often the label is
    sent.
    """

    mechanism: ProtocolMechanism

    pure = "ε₀ of the noisy label"
    clusters = None

    def bound(self, delta: float) -> PrivacyBound:
        """The stated bound ε₀ of what anybody can learn of a user's label from her noisy label, however often she sends
        the noisy label. The bound names the learner as its observer. If the protocol declares something about its
        submissions, the bound names an eavesdropper instead, who sees all messages. ε₀ holds with δ = 0; `delta` is
        only recorded in the bound.
        """
        return self.mechanism.noise_alone("eavesdropper" if self.mechanism.declares else "learner", delta)

    @property
    def largest(self) -> float:
        """ε₀ of a noisy label."""
        return self.mechanism.randomizer.local_epsilon
