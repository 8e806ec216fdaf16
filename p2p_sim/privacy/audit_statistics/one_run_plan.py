"""The plan of an attack in one run: which labels are guessed at each ε, at which stake, and what guesses should prove.

A *target* is a user whose label is guessed. An attack gives each target a score. A larger score means that label 1 is
likelier. If the law is known, the score is the log-likelihood ratio. Otherwise a classifier learns a score from other
runs. A pilot run with its own seed selects, for each ε, the score and the thresholds that should prove the largest
bounds. After the pilot nothing is chosen. A *stake* is the weight λ of a guess in a test (`one_run_guesses`).
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
"""The test at ε = 0 gets this share of the error probability. The other tests share the rest equally."""
CLEARLY = 4.0
"""A score replaces an earlier score if it is better in the pilot by more than this many standard deviations."""
_POINTS = 25
"""Largest number of thresholds at which the two types of error of an attack are estimated."""


@dataclass(frozen=True)
class AttackScores:
    """Scores (A, N) that A attacks give to N targets; a larger score means that label 1 is likelier. labels: (N,)
    whether the target's label is 1.
    """

    labels: NDArray[np.bool_]
    scores: NDArray[np.floating]


@dataclass(frozen=True)
class GuessEvent:
    """A rule for guessing labels that tests δ(ε) at one ε, fixed before the run.

    attack: index of the attack whose scores are used. low, high: label 0 is guessed for a score below `low`, label 1
    for a score of at least `high`, and no label between.
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

        The true value is at most the mechanism's δ(ε). So with many targets, the guesses prove a lower bound of δ(ε)
        that is approximately equal to this value.
        """
        return self.right - math.exp(self.epsilon) * self.wrong

    def guesses(self, targets: AttackScores) -> Guesses:
        """Applies the rule to the targets' scores, and returns how many labels it guesses right and wrong."""
        scores = targets.scores[self.attack]
        return right_and_wrong(scores >= self.high, scores < self.low, targets.labels)

    def expected(self, trials: int) -> Guesses:
        """The expected numbers of right and wrong guesses among `trials` targets, rounded."""
        right = round(self.right * trials)
        wrong = trials - right if self.stake is None else min(round(self.wrong * trials), trials - right)
        return Guesses(right, wrong, trials)

    def power(self, claimed: float, leaked: float, trials: int) -> float:
        """The test's power: the approximate probability that it refuses a claimed δ(ε), if the true δ(ε) is `leaked`.

        Let r be `reached`, or `claimed` if this is smaller. The guesses are assumed to reach r · leaked / claimed. The
        result is 0 if r is not positive, or `leaked` is at most `claimed`.

        Args:
            claimed, leaked: values of δ at this rule's ε. trials: number of targets.
        """
        reached = min(self.reached, claimed)
        if reached <= 0.0 or leaked <= claimed:
            return 0.0
        grown = reached * leaked / claimed
        if self.stake is None:
            return binomial_power(claimed, grown, trials, self.error)
        # Pr[Σ ln(1 + λ(s - δ)) >= -ln error]. The sum over targets is treated as normally distributed. s is 1 for a
        # right guess, -e^ε for a wrong guess, and 0 without a guess.
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

    deltas: rules that test δ(ε), by ascending ε. ratio: rule that tests ε at δ = `delta`. stake: λ of the rule `ratio`.
    """

    deltas: tuple[GuessEvent, ...]
    ratio: GuessEvent
    delta: float
    stake: float

    def bounds(self, guesses: Sequence[Guesses]) -> ProvedBounds:
        """Lower bounds that the guesses prove: a bound of δ(ε) for each tested ε, ascending, and one of ε at `delta`.

        guesses: numbers of right and wrong guesses for each rule of `events`, in order.
        """
        *first, last = guesses
        deltas = [
            delta_lower(n, rule.epsilon, rule.stake, rule.error) for n, rule in zip(first, self.deltas, strict=True)
        ]
        return ProvedBounds(np.array(deltas), epsilon_lower(last, self.delta, self.stake, self.ratio.error))

    @property
    def events(self) -> tuple[GuessEvent, ...]:
        """All guessing rules: first the rules that test δ, by ascending ε; then the rule that tests ε."""
        return (*self.deltas, self.ratio)


def plan_one_run(
    pilot: AttackScores, epsilons: Sequence[float], delta: float, *, trials: int, error: float, exact: Sequence[bool]
) -> OneRunPlan:
    """Chooses the tests of an attack in one run: those that should prove the largest lower bounds of ε and δ.

    The choice is made from a pilot run. For each ε the plan states which attack's score is used, at which scores 0 or 1
    is guessed, and the stake (weight of a guess). The stake is fixed here: a stake that is chosen after the guesses
    would make the test invalid.

    Args:
        pilot: scores and labels of other targets, which do not count as evidence. epsilons: values at which δ(ε) is
        tested, ascending, 0 first. delta: δ at which ε is tested. trials: how many targets will count. error: error
        probability of all tests together. The test at ε = 0 gets half; the other tests share the rest equally. exact:
        for each attack, whether its score is the exact log-likelihood ratio. If so, 1 is guessed from ε on, and 0 below
        -ε.
    """
    rest = error * (1.0 - OF_ZERO) / len(epsilons)  # for each test except the test at ε = 0
    # Each attack's scores in ascending order, and the labels in this order.
    orders = [np.argsort(scores, kind="stable") for scores in pilot.scores]
    ranked = [(s[order].astype(np.float64), pilot.labels[order]) for s, order in zip(pilot.scores, orders, strict=True)]

    # The rule with the largest `reached` at ε. A later attack must be clearly better than the chosen attack.
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
    # The test of ε at δ: of the rules for several ε, take the rule that should prove the largest lower bound.
    ratios = [best(epsilon, rest) for epsilon in (*epsilons[1:], 1.5 * epsilons[-1], 2.0 * epsilons[-1])]
    stakes = [best_epsilon_stake(event.right, event.wrong, trials, rest, delta) for event in ratios]
    ratio, stake = max(zip(ratios, stakes, strict=True), key=lambda pair: pair[1].epsilon)
    return OneRunPlan(deltas, replace(ratio, stake=stake.stake), delta, stake.stake)


def _event(
    epsilon: float, scores: Floats, labels: NDArray[np.bool_], *, attack: int, error: float, trials: int, exact: bool
) -> GuessEvent:
    """The rule that tests δ(ε) by guesses from one attack's scores.

    Its two thresholds maximise Pr[right] - e^ε Pr[wrong] in the pilot run, unless `exact` is true. Label 0 is guessed
    below the lower threshold, and label 1 from the upper threshold on.

    Args:
        scores: (N,) scores of the pilot's targets, ascending. labels: (N,) the targets' labels, in the same order.
        attack: the attack's index, kept in the rule. error: error probability of the test. trials: how many targets
        will count. exact: whether the score is the exact log-likelihood ratio; the thresholds are then -ε and ε.
    """
    n, ratio = labels.size, math.exp(epsilon)
    # `levels`: all thresholds. `ones`, `zeros`: how many targets with label 1, or 0, have scores below each threshold.
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
    """The trade-off that an attack reached at j thresholds: shares of type I and II errors, with upper bounds.

    All fields are (j,). Type I: 1 is guessed though the label is 0. Type II: 0 is guessed though the label is 1.
    """

    type_one: Floats
    type_two: Floats
    type_one_upper: Floats
    type_two_upper: Floats


def drawn_tradeoff(pilot: AttackScores, targets: AttackScores, attack: int, error: float) -> Drawn:
    """The shares of wrong guesses at up to 25 thresholds of the score, with upper bounds of the error probabilities.

    Label 1 is guessed for scores from the threshold on, and label 0 for scores below. `Drawn` explains the two types of
    error.

    Args:
        pilot: scores of other targets; their quantiles are the thresholds. targets: scores and labels of the targets
        that count. attack: index of the attack whose scores are used. error: probability that any of the upper bounds
        fails.
    """
    levels = np.unique(np.quantile(pilot.scores[attack], np.linspace(0.0, 1.0, _POINTS + 2)[1:-1]))
    zeros, ones = (np.sort(targets.scores[attack][targets.labels == label]) for label in (False, True))
    false_one, false_zero = zeros.size - np.searchsorted(zeros, levels), np.searchsorted(ones, levels)
    # for each type: the errors, and the number of targets with the label that the type concerns
    types = ((false_one, max(zeros.size, 1)), (false_zero, max(ones.size, 1)))
    each = error / (2 * len(levels))
    return Drawn(
        *(errors / trials for errors, trials in types),
        *(np.array([clopper_pearson(n, trials, each).upper for n in errors.tolist()]) for errors, trials in types),
    )
