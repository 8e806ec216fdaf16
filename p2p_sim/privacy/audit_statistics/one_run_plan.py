"""The plan of an attack in one run: which labels are guessed at each ε, at which stake, and what guesses should prove.

An attack gives each target a score: the larger the score, the likelier her label is 1. The score is the log-likelihood
ratio where the law is known; elsewhere a classifier learns a score from other runs. From a pilot run, with a seed of
its own, the score and the thresholds are chosen for each ε: those that are expected to prove the largest bounds. After
the pilot nothing is chosen. A *stake* is the weight λ that a test gives to a guess (`one_run_guesses`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.audit_statistics.one_run_guesses import (
    Guesses,
    best_epsilon_stake,
    best_stake,
    binomial_power,
    delta_lower,
    epsilon_lower,
    log_factors,
    right_and_wrong,
)
from p2p_sim.privacy.audit_statistics.power import clopper_pearson
from p2p_sim.privacy.binomial_windows import Floats

OF_ZERO = 0.5
"""Share of the error probability that the test at ε = 0 gets; the other tests share the rest equally."""
CLEARLY = 4.0
"""A score replaces an earlier score if it is better in the pilot by more than this many standard deviations."""
_POINTS = 25
"""Largest number of thresholds at which the trade-off between an attack's two types of error is estimated."""


@dataclass(frozen=True)
class AttackScores:
    """Scores (A, N) that A attacks give to N targets, larger if label 1 is likelier. labels: (N,) whether the target's
    label is 1.
    """

    labels: NDArray[np.bool_]
    scores: NDArray[np.floating]


@dataclass(frozen=True)
class GuessEvent:
    """A rule for guessing labels that tests δ(ε) at one ε, fixed before the run.

    attack: index of the attack whose scores are used. low, high: label 0 is guessed for a score below `low`, label 1
    from `high` on, and none between.
    stake: λ of the test; None: a binomial test. error: probability that the test rejects a sound mechanism.
    right, wrong: expected probabilities of a right and of a wrong guess.
    """

    epsilon: float
    attack: int
    low: float
    high: float
    stake: float | None
    error: float
    right: float
    wrong: float

    @property
    def reached(self) -> float:
        """Pr[right] - e^ε Pr[wrong] of this rule's guesses, as estimated from the pilot run.

        For any guesses, the true value of this difference is at most the mechanism's δ(ε). So with many targets the
        guesses prove a lower bound of δ(ε) that is approximately equal to this difference.
        """
        return self.right - math.exp(self.epsilon) * self.wrong

    def guesses(self, targets: AttackScores) -> Guesses:
        """Applies the rule to targets, and returns how many of their labels it guesses right and wrong. A guess depends
        on the target's score from the attack that the rule uses.
        """
        scores = targets.scores[self.attack]
        return right_and_wrong(scores >= self.high, scores < self.low, targets.labels)

    def expected(self, trials: int) -> Guesses:
        """The expected numbers of right and wrong guesses among `trials` targets, rounded."""
        right = round(self.right * trials)
        wrong = trials - right if self.stake is None else min(round(self.wrong * trials), trials - right)
        return Guesses(right, wrong, trials)

    def power(self, claimed: float, leaked: float, trials: int) -> float:
        """The test's power: the approximate probability that it refuses a claimed δ(ε), if the true δ(ε) is `leaked`.

        Let r be the value of Pr[right] - e^ε Pr[wrong] that the rule's guesses reached in the pilot, or `claimed` if
        this is smaller. If more than `claimed` is leaked, the guesses are assumed to reach r · leaked / claimed. If
        not, or if r is not positive, the result is 0.

        Args:
            claimed, leaked: values of δ at this rule's ε. trials: number of targets.
        """
        reached = min(self.reached, claimed)
        if reached <= 0.0 or leaked <= claimed:
            return 0.0
        grown = reached * leaked / claimed
        if self.stake is None:
            return binomial_power(claimed, grown, trials, self.error)
        # Pr[Σ ln(1 + λ(s - δ)) >= -ln error], computed as if the sum over targets were normally distributed; s is 1 for
        # a right guess, -e^ε for a wrong one, and 0 without a guess.
        right = min(1.0, self.right + grown - reached)
        gains = log_factors(self.epsilon, claimed, self.stake)
        chances = np.array([right, self.wrong, max(0.0, 1.0 - right - self.wrong)])
        mean = float(chances @ gains)
        spread = math.sqrt(max(float(chances @ gains**2) - mean**2, 1e-300))
        lacking = (-math.log(self.error) - trials * mean) / (math.sqrt(trials) * spread)
        return 0.5 * math.erfc(lacking / math.sqrt(2.0))


class ProvedBounds(NamedTuple):
    """Lower bounds that guesses prove. deltas: (J,) bounds of δ, one at each tested ε. epsilon: bound of ε at a δ."""

    deltas: Floats
    epsilon: float


@dataclass(frozen=True)
class OneRunPlan:
    """All tests of an attack in one run, fixed before its first guess.

    deltas: rules of the tests of δ(ε), by ascending ε. ratio: rule of the test of ε at δ = `delta`. stake: λ of the
    rule `ratio`.
    """

    deltas: tuple[GuessEvent, ...]
    ratio: GuessEvent
    delta: float
    stake: float

    def bounds(self, guesses: Sequence[Guesses]) -> ProvedBounds:
        """Lower bounds that the guesses prove: one of δ(ε) for each tested ε, in an array, and one of ε at the tested
        δ.

        guesses: numbers of right and wrong guesses for each rule of `events`, in order.
        """
        *first, last = guesses
        deltas = [
            delta_lower(n, rule.epsilon, rule.stake, rule.error) for n, rule in zip(first, self.deltas, strict=True)
        ]
        return ProvedBounds(np.array(deltas), epsilon_lower(last, self.delta, self.stake, self.ratio.error))

    @property
    def events(self) -> tuple[GuessEvent, ...]:
        """All guessing rules: those that test δ at one ε each, by ascending ε, then the rule that tests ε at one δ."""
        return (*self.deltas, self.ratio)


def plan_one_run(
    pilot: AttackScores, epsilons: Sequence[float], delta: float, *, trials: int, error: float, exact: Sequence[bool]
) -> OneRunPlan:
    """Chooses the tests of an attack in one run from a pilot run: those that are expected to prove the largest lower
    bounds of ε and δ.

    An attack gives each target, a user whose label is guessed, a score, which is larger if label 1 is likelier. For
    each ε the plan states which attack's score is used, at which scores 0 or 1 is guessed, and the stake: how strongly
    one guess counts for or against the claim in the test. The stake is fixed here, because a stake that is chosen after
    the guesses would make the test invalid.

    Args:
        pilot: scores and labels of other targets, which do not count as evidence. epsilons: values at which δ(ε) is
        tested, ascending, 0 first. delta: δ at which ε is tested. trials: how many targets will count. error: error
        probability of all tests together; the test at ε = 0 gets half of it, the others share the rest equally. exact:
        for each attack, whether its score is the exact logarithm of the likelihood ratio; 1 is then guessed from ε on,
        0 below -ε.
    """
    rest = error * (1.0 - OF_ZERO) / len(epsilons)  # for each test of δ at ε > 0, and for the test of ε
    # Each attack's scores in ascending order, and the labels in this order.
    orders = [np.argsort(scores, kind="stable") for scores in pilot.scores]
    ranked = [(s[order].astype(np.float64), pilot.labels[order]) for s, order in zip(pilot.scores, orders, strict=True)]

    # The rule of the attack with the largest `reached` at ε; a later attack must be clearly better than the chosen one.
    def best(epsilon: float, share: float) -> GuessEvent:
        chosen, *others = (
            _event(epsilon, *ranked[attack], attack=attack, error=share, trials=trials, exact=exact[attack])
            for attack in range(len(ranked))
        )
        for event in others:
            doubt = math.sqrt((event.right + math.exp(2.0 * epsilon) * event.wrong) / pilot.labels.size)
            chosen = event if event.reached - CLEARLY * doubt > chosen.reached else chosen
        return chosen

    deltas = tuple(best(epsilon, rest if epsilon > 0.0 else error * OF_ZERO) for epsilon in epsilons)
    # For the test of ε at δ: among the rules for several ε, the one that is expected to prove the largest lower bound.
    ratios = [best(epsilon, rest) for epsilon in (*epsilons[1:], 1.5 * epsilons[-1], 2.0 * epsilons[-1])]
    stakes = [best_epsilon_stake(event.right, event.wrong, trials, rest, delta) for event in ratios]
    ratio, stake = max(zip(ratios, stakes, strict=True), key=lambda pair: pair[1].epsilon)
    return OneRunPlan(deltas, replace(ratio, stake=stake.stake), delta, stake.stake)


def _event(
    epsilon: float, scores: Floats, labels: NDArray[np.bool_], *, attack: int, error: float, trials: int, exact: bool
) -> GuessEvent:
    """The rule that tests δ(ε) by guesses of targets' labels from one attack's scores. A target is a user whose label,
    a coin, is guessed. The rule has two thresholds, chosen to make Pr[right] - e^ε Pr[wrong] of the guesses largest in
    the pilot run. Label 0 is guessed below the lower threshold, label 1 from the upper one on.

    Args:
        epsilon: ε. scores: (N,) scores of the pilot's targets, ascending. labels: (N,) the targets' labels, in the same
        order. attack: the attack's index, which the rule keeps to find the scores of other targets. error: error
        probability of the test. trials: how many targets will count. exact: whether the score is the exact logarithm of
        the likelihood ratio; the thresholds are then -ε and ε.
    """
    n, ratio = labels.size, math.exp(epsilon)
    # All thresholds (`levels`), and how many labels 1 (`ones`) and 0 (`zeros`) have scores below each of them.
    edges = np.flatnonzero(np.append(True, np.append(scores[1:] > scores[:-1], True)))
    ones = np.append(0, np.cumsum(labels))[edges]
    zeros = edges - ones
    levels = np.append(scores, np.inf)[edges]
    if exact:
        at = np.searchsorted(levels, [-epsilon, epsilon] if epsilon > 0.0 else [0.0, 0.0], side="left")
        low, high = np.minimum(at, len(edges) - 1).tolist()
        thresholds = (-epsilon, epsilon)
    else:
        low, high = int(np.argmax(zeros - ratio * ones)), int(np.argmin(ones - ratio * zeros))
        high = low if epsilon == 0.0 else max(low, high)
        thresholds = float(levels[low]), float(levels[high])
    right = int(zeros[low] + ones[-1] - ones[high])
    wrong = int(ones[low] + zeros[-1] - zeros[high])
    event = partial(GuessEvent, epsilon, attack, *thresholds, error=error)
    if epsilon == 0.0:
        return event(stake=None, right=right / n, wrong=1.0 - right / n)
    # half a guess is added to each count: a rule that was never wrong in the pilot may be wrong later
    likely, unlikely = (right + 0.5) / (n + 1.0), (wrong + 0.5) / (n + 1.0)
    return event(stake=best_stake(likely, unlikely, trials, error, epsilon), right=likely, wrong=unlikely)


@dataclass(frozen=True)
class Drawn:
    """The trade-off that an attack reached at j thresholds: shares of type I and II errors, with their upper bounds.

    All fields are (j,). Type I: 1 is guessed though the label is 0. Type II: 0 is guessed though the label is 1.
    """

    type_one: Floats
    type_two: Floats
    type_one_upper: Floats
    type_two_upper: Floats


def drawn_tradeoff(pilot: AttackScores, targets: AttackScores, attack: int, error: float) -> Drawn:
    """The shares of wrong guesses if 1 is guessed from a threshold of the score on and 0 below it, with upper bounds of
    the probabilities of both types of error.

    Type I: 1 is guessed for a target (a user whose label is guessed) with label 0. Type II: 0 is guessed for one with
    label 1. Each array of the result has an entry for each of up to 25 thresholds.

    Args:
        pilot: scores of other targets; their quantiles are the thresholds. targets: scores and labels of the targets
        that count. attack: index of the attack whose scores are used. error: probability that any of the upper bounds
        fails.
    """
    levels = np.unique(np.quantile(pilot.scores[attack], np.linspace(0.0, 1.0, _POINTS + 2)[1:-1]))
    zeros, ones = (np.sort(targets.scores[attack][targets.labels == label]) for label in (False, True))
    false_one, false_zero = zeros.size - np.searchsorted(zeros, levels), np.searchsorted(ones, levels)
    # the errors of each type, among targets with the label in question
    types = ((false_one, max(zeros.size, 1)), (false_zero, max(ones.size, 1)))
    each = error / (2 * len(levels))
    return Drawn(
        *(errors / trials for errors, trials in types),
        *(np.array([clopper_pearson(n, trials, each).upper for n in errors.tolist()]) for errors, trials in types),
    )
