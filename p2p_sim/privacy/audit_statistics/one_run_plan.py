"""An attack in one run, fixed before its first guess: what is guessed at each ε, at which stake, and what to expect.

An attack gives each target a score, the larger the likelier her label is 1: the logarithm of the likelihood ratio where
the law is known, what a classifier has learnt from other runs where it is not. A pilot run, with a seed of its own,
picks for each ε the score and the thresholds from which most is expected. Then nothing is chosen any more.
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

Floats = NDArray[np.float64]
OF_ZERO = 0.5
"""Share of the error that the test at ε = 0 has; the other tests have the rest in equal parts."""
CLEARLY = 4.0
"""Standard deviations by which a later score must be better than an earlier one in the pilot to be preferred."""
_POINTS = 25
"""Thresholds at which the trade-off of the attack is drawn."""


@dataclass(frozen=True)
class AttackScores:
    """What several attacks say about some targets. labels: (N,), whether a target's label is 1. scores: (A, N), one by
    each attack.
    """

    labels: NDArray[np.bool_]
    scores: NDArray[np.floating]


@dataclass(frozen=True)
class GuessEvent:
    """A rule of guessing that is fixed before the labels are looked at, for the test of δ at one ε.

    attack: which attack's score is used. low, high: guess 0 below `low`, 1 from `high` on, else abstain. stake: λ;
    None: a binomial test. error: probability that the test fails a sound mechanism. right, wrong: probabilities to
    expect of a guess.
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
        """The δ(ε) that the guesses are expected to reach: Pr[right] - e^ε Pr[wrong]."""
        return self.right - math.exp(self.epsilon) * self.wrong

    def guesses(self, targets: AttackScores) -> Guesses:
        """How many labels of the targets are guessed right and wrong."""
        scores = targets.scores[self.attack]
        return right_and_wrong(scores >= self.high, scores < self.low, targets.labels)

    def expected(self, trials: int) -> Guesses:
        """The numbers of right and wrong guesses to expect among so many targets."""
        right = round(self.right * trials)
        wrong = trials - right if self.stake is None else min(round(self.wrong * trials), trials - right)
        return Guesses(right, wrong, trials)

    def power(self, claimed: float, leaked: float, trials: int) -> float:
        """Probability, about, that a claimed δ(ε) is refuted if the true one is `leaked`.

        The attack is supposed to achieve as large a part of `leaked` as it does of the claimed one.
        """
        reached = min(self.reached, claimed)
        if reached <= 0.0 or leaked <= claimed:
            return 0.0
        grown = reached * leaked / claimed
        if self.stake is None:
            return binomial_power(claimed, grown, trials, self.error)
        # The sum of ln(1 + λ(s - δ)) is taken as normal: Pr[sum >= -ln error].
        right = min(1.0, self.right + grown - reached)
        gains = log_factors(self.epsilon, claimed, self.stake)
        chances = np.array([right, self.wrong, max(0.0, 1.0 - right - self.wrong)])
        mean = float(chances @ gains)
        spread = math.sqrt(max(float(chances @ gains**2) - mean**2, 1e-300))
        lacking = (-math.log(self.error) - trials * mean) / (math.sqrt(trials) * spread)
        return 0.5 * math.erfc(lacking / math.sqrt(2.0))


class ProvedBounds(NamedTuple):
    """Lower bounds that guesses prove. deltas: (J,), of δ at each ε that is tested. epsilon: of ε at one δ."""

    deltas: Floats
    epsilon: float


@dataclass(frozen=True)
class OneRunPlan:
    """An attack in one run, with everything that has to be fixed before it.

    deltas: the rules of the tests of δ(ε), ascending ε. ratio: the rule of the test of ε(δ). delta: δ of that test.
    stake: its λ.
    """

    deltas: tuple[GuessEvent, ...]
    ratio: GuessEvent
    delta: float
    stake: float

    def bounds(self, guesses: Sequence[Guesses]) -> ProvedBounds:
        """The lower bounds that guesses prove; the guesses by each rule of `deltas` come first, those by
        `ratio` last.
        """
        *first, last = guesses
        pairs = zip(first, self.deltas, strict=True)
        deltas = [delta_lower(counts, event.epsilon, event.stake, event.error) for counts, event in pairs]
        return ProvedBounds(np.array(deltas), epsilon_lower(last, self.delta, self.stake, self.ratio.error))

    @property
    def events(self) -> tuple[GuessEvent, ...]:
        """All rules of guessing: those of the tests of δ(ε), then that of the test of ε(δ)."""
        return (*self.deltas, self.ratio)


def plan_one_run(
    pilot: AttackScores, epsilons: Sequence[float], delta: float, *, trials: int, error: float, exact: Sequence[bool]
) -> OneRunPlan:
    """Choose the rules of guessing that should prove most, by targets that will not count.

    Args:
        pilot: targets that are not counted. epsilons: at which δ is tested, ascending, 0 first.
        delta: δ of the ε-test. trials: targets that will count. error: of all tests together.
        exact: (A,) whether a score is the exact logarithm of the likelihood ratio: then its thresholds are ε and -ε.
    """
    rest = error * (1.0 - OF_ZERO) / len(epsilons)  # the tests of δ at ε > 0, and the one of ε
    # Each attack's scores in ascending order, and the labels in this order.
    orders = [np.argsort(scores, kind="stable") for scores in pilot.scores]
    ranked = [(s[order].astype(np.float64), pilot.labels[order]) for s, order in zip(pilot.scores, orders, strict=True)]

    # At each ε the attack that reaches most; a later one must be clearly better than those before it.
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
    # For ε(δ) the event at some ε from which the largest lower bound is expected.
    ratios = [best(epsilon, rest) for epsilon in (*epsilons[1:], 1.5 * epsilons[-1], 2.0 * epsilons[-1])]
    stakes = [best_epsilon_stake(event.right, event.wrong, trials, rest, delta) for event in ratios]
    ratio, stake = max(zip(ratios, stakes, strict=True), key=lambda pair: pair[1].epsilon)
    return OneRunPlan(deltas, replace(ratio, stake=stake.stake), delta, stake.stake)


def _event(
    epsilon: float, scores: Floats, labels: NDArray[np.bool_], *, attack: int, error: float, trials: int, exact: bool
) -> GuessEvent:
    """The thresholds on one attack's score that should prove most about δ(ε); scores ascend, with their labels."""
    n, ratio = labels.size, math.exp(epsilon)
    # Thresholds, each with how many labels of 1 and of 0 have scores below it.
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
    likely, unlikely = (right + 0.5) / (n + 1.0), (wrong + 0.5) / (n + 1.0)  # an event that was never wrong may be
    return event(stake=best_stake(likely, unlikely, trials, error, epsilon), right=likely, wrong=unlikely)


@dataclass(frozen=True)
class Drawn:
    """Bounds of the trade-off that an attack reached: type I and type II errors, (j,) each, that are not exceeded."""

    type_one: Floats
    type_two: Floats
    type_one_upper: Floats
    type_two_upper: Floats


def drawn_tradeoff(pilot: AttackScores, targets: AttackScores, attack: int, error: float) -> Drawn:
    """Upper bounds of the type I and II errors of tests of label 0 against 1 by one attack's score, at thresholds from
    the pilot.

    All bounds hold together with probability 1 - error.
    """
    levels = np.unique(np.quantile(pilot.scores[attack], np.linspace(0.0, 1.0, _POINTS + 2)[1:-1]))
    score = targets.scores[attack]
    world = [np.sort(score[targets.labels == label]) for label in (False, True)]
    false_one = [world[0].size - int(np.searchsorted(world[0], level)) for level in levels]
    false_zero = [int(np.searchsorted(world[1], level)) for level in levels]
    each = error / (2 * len(levels))
    upper = [
        np.array([clopper_pearson(hits, max(side.size, 1), each).upper for hits in errors])
        for side, errors in zip(world, (false_one, false_zero), strict=True)
    ]
    shares = [np.array(errors) / max(side.size, 1) for side, errors in zip(world, (false_one, false_zero), strict=True)]
    return Drawn(shares[0], shares[1], *upper)
