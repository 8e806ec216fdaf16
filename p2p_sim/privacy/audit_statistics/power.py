"""Lower bounds of ε and δ that the counts of an attack prove, and the bounds that are to be expected.

The *target* is the user whose label is attacked. A *world* is a set of trials in which she holds one label, so there
are two worlds. A *view* is all that the observer sees of one cluster. An *event* is a set of views, fixed before the
trials that count. Some events come from the exact laws of the views. Others come from a pilot run, which can find leaks
that the exact laws do not contain.

Let P and Q be an event's probabilities in the two worlds. Replace P by a Clopper-Pearson lower bound and Q by an upper
bound. Then P - e^ε Q becomes a lower bound of δ(ε), whatever the mechanism really does. This lower bound fails with at
most the stated error probability, which is divided among the events. The *δ-test* bounds δ at one ε. The *ε-test*
bounds ε at one δ.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.audit_statistics.view_laws import ViewLaw, Views
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.randomized_response import local_epsilon

ERROR = 1e-9
"""Largest probability that a test rejects a mechanism that keeps its bound."""
SHARES = (0.25, 0.5, 0.75)
"""If no ε is given, the δ-test tries these multiples of ε(δ = 1e-3) as its ε. If ε(δ = 1e-3) exceeds
`LARGEST_TEST_EPSILON`, the δ-test tries multiples of this constant."""
LARGEST_TEST_EPSILON = 4.0
"""If ε(δ = 1e-3) is larger, the δ-test tries multiples of this number. All thresholds of the ε-test are smaller."""
_EVENTS = 24
"""Number of thresholds ε' that the ε-test tries; see `AttackPlan`."""


def clopper_pearson(hits: int, trials: int, error: float) -> Bracket:
    """A lower and an upper confidence bound of an event's probability; each fails with probability at most `error`.

    Args:
        hits: number of trials in which the event occurred, 0 to `trials`.
        trials: number of independent trials, at least 1.
        error: in (0, 1).

    >>> bounds = clopper_pearson(0, 1000, 1e-9)
    >>> bounds.lower, round(bounds.upper, 4)  # 1 - 1e-9 ** (1 / 1000)
    (0.0, 0.0205)
    """
    from scipy.special import betainccinv, betaincinv

    if not 0 <= hits <= trials or trials < 1:
        raise ValueError(f"hits = {hits}: must lie in 0..{trials}, and there must be a trial")
    if not 0.0 < error < 1.0:
        raise ValueError(f"error = {error}: must lie in (0, 1)")
    lower = 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, error))
    upper = 1.0 if hits == trials else float(betainccinv(hits + 1, trials - hits, error))
    return Bracket(lower, upper)


def delta_lower(hits: int, misses: int, trials: int, epsilon: float, error: float) -> float:
    """Lower bound P - e^ε Q of δ(ε), at least 0, that counts of an event prove.

    P is a lower confidence bound of the event's probability under one label of the target. Q is an upper confidence
    bound under the other label.

    Args:
        hits, misses: number of trials with the event, under the first label and under the other label. trials: number
        of trials for each label. epsilon: ε, at least 0. error: probability, in (0, 1), with which the bound may be too
        high.
    """
    hit, miss = clopper_pearson(hits, trials, error / 2), clopper_pearson(misses, trials, error / 2)
    return max(0.0, hit.lower - math.exp(epsilon) * miss.upper)


def epsilon_lower(hits: int, misses: int, trials: int, delta: float, error: float) -> float:
    """Lower bound ln((P - δ)/Q) of ε at δ, at least 0, that counts of an event prove.

    P is a lower confidence bound of the event's probability under one label of the target. Q is an upper confidence
    bound under the other label.

    Args:
        hits, misses: number of trials with the event, under the first label and under the other label. trials: number
        of trials for each label. delta: δ in [0, 1). error: probability, in (0, 1), with which the bound may be too
        high.
    """
    hit, miss = clopper_pearson(hits, trials, error / 2), clopper_pearson(misses, trials, error / 2)
    return max(0.0, math.log((hit.lower - delta) / miss.upper)) if hit.lower > delta else 0.0


@dataclass(frozen=True)
class AuditResult:
    """What an attack proved about ε and δ, beside the exact values.

    observer: who attacked. ones: m, how many other users hold label 1 in the attacked data set.
    epsilon: ε of the δ-test. delta_exact: exact δ at this ε. delta_lower_confidence: lower bound of δ that the attack
    proves.
    delta: δ of the ε-test. epsilon_exact: exact ε at this δ. epsilon_lower_confidence: lower bound of ε that the attack
    proves.
    trials: independent clusters in each of the two worlds. error: probability that a test rejects a sound mechanism.
    expected, expected_epsilon: the lower bounds of δ and ε that are expected if the mechanism is as claimed.
    detectable: approximately the smallest P - e^ε Q of an event, at ε = `epsilon`, with which the δ-test rejects the
    mechanism.
    basis: how the exact values were computed.
    """

    observer: str
    ones: int
    epsilon: float
    delta_exact: Bracket
    delta_lower_confidence: float
    delta: float
    epsilon_exact: Bracket
    epsilon_lower_confidence: float
    trials: int
    error: float
    expected: float
    expected_epsilon: float
    detectable: float
    basis: str

    @property
    def passed(self) -> bool:
        """Whether no leak is found: both proved lower bounds are at most the exact upper bounds."""
        return (
            self.delta_lower_confidence <= self.delta_exact.upper
            and self.epsilon_lower_confidence <= self.epsilon_exact.upper
        )


class EventPair(NamedTuple):
    """Two masks (J,) of the J views that are evidence of one label: for the δ-test and for the ε-test."""

    for_delta: NDArray[np.bool_]
    for_epsilon: NDArray[np.bool_]


class LowerBounds(NamedTuple):
    """Lower bounds that counts prove: a bound of δ at the tested ε, and a bound of ε at the tested δ."""

    delta: float
    epsilon: float


@dataclass(frozen=True)
class AttackPlan:
    """An attack that is fixed before the first trial.

    views: the laws of what the observer may see. ones: m, how many other users hold label 1 in the attacked data set.
    epsilon: ε of the δ-test. delta: δ of the ε-test. epsilon_events: the thresholds ε' of the ε-test for label 0 and
    label 1. The event of a threshold is all views that are more than e^ε' times as likely under this label as under the
    other label. trials: number of trials in each world.
    """

    views: Views
    ones: int
    epsilon: float
    delta: float
    epsilon_events: tuple[float, float]
    trials: int

    @property
    def law(self) -> ViewLaw:
        """The exact law of what the observer sees in the attacked data set, for both labels of the target."""
        return self.views.laws[self.ones]

    def judge(self, worlds: NDArray[np.int64], pilot: NDArray[np.int64] | None = None) -> AuditResult:
        """The bounds of ε and δ that the trials prove, beside the exact values.

        Args:
            worlds: (2, J) how often each of J views was seen, for the target's label 0 and 1. Each row sums to
            `trials`.
            pilot: (2, J) the same counts for a pilot run, from which further events are chosen; None: no further
            events.
        """
        for counts in worlds:
            if counts.shape != self.law.a.shape or int(counts.sum()) != self.trials:
                raise ValueError(f"counts: need {self.law.a.size} cells and {self.trials} trials in each world")
        exact = self.views.delta(self.epsilon)
        # For each label: the best events under the exact laws, then the events that the pilot suggests.
        law = self.law
        events = [[EventPair(law.event(self.epsilon, i), law.event(e, i)) for i, e in enumerate(self.epsilon_events)]]
        events += [] if pilot is None else [self._pilot_events(pilot)]
        expected = self._bounds(law.probabilities * self.trials, events)
        proved = self._bounds(worlds.astype(np.float64), events)
        # `detectable` is the larger of `surplus` and `fewest` / trials. `surplus` is the exact δ plus the expected gap
        # between δ and its proved lower bound. `fewest` is the least number of hits that, with no misses, proves a δ
        # above the exact δ.
        surplus = exact.upper + (float(law.deltas(self.epsilon).max()) - expected.delta)
        bound = partial(
            delta_lower, misses=0, trials=self.trials, epsilon=self.epsilon, error=ERROR / (2 * len(events))
        )
        fewest = 1 + bisect_left(range(1, self.trials), True, key=lambda hits: bound(hits) > exact.upper)
        return AuditResult(
            observer=self.views.observer,
            ones=self.ones,
            epsilon=self.epsilon,
            delta_exact=exact,
            delta_lower_confidence=proved.delta,
            delta=self.delta,
            epsilon_exact=self.views.epsilon(self.delta),
            epsilon_lower_confidence=proved.epsilon,
            trials=self.trials,
            error=ERROR,
            expected=expected.delta,
            expected_epsilon=expected.epsilon,
            detectable=max(surplus, fewest / self.trials),
            basis=self.views.basis,
        )

    def _pilot_events(self, pilot: NDArray[np.int64]) -> list[EventPair]:
        """For label 0 and for label 1, two events that a pilot run shows to be evidence of this label.

        The first event is for the lower bound of δ, the second for the lower bound of ε. The pilot's counts are
        smoothed first: for each label, some trials are added that come out exactly as expected. The number of added
        trials is the smaller of J/2 and a tenth of the label's trials in the pilot. The events should prove
        approximately the largest bounds if the views come as often as the smoothed counts say.

        Args:
            pilot: (2, J) how often each of J views came in the pilot, for the target's label 0 and 1.
        """
        counts = pilot + min(0.5 * self.law.a.size, 0.1 * float(pilot[0].sum())) * self.law.probabilities
        scaled = counts * (self.trials / counts.sum(axis=1, keepdims=True))
        events = []
        for label in (0, 1):
            tried = [evidence(counts, threshold, label) for threshold in _thresholds(self.law)]
            reached = [epsilon_lower(*_hits(e, scaled, label), self.trials, self.delta, ERROR / 4) for e in tried]
            events.append(EventPair(evidence(counts, self.epsilon, label), tried[int(np.argmax(reached))]))
        return events

    def _bounds(self, counts: NDArray[np.float64], events: list[list[EventPair]]) -> LowerBounds:
        """The lower bounds that the counts of an attack prove: of δ at the tested ε, and of ε at the tested δ.

        Each is the largest bound that an event proves. The events of a test share its error probability equally.

        Args:
            counts: (2, J) how often each of J views came, for the target's label 0 and 1. events: a list for each
            source of events (the exact laws, a pilot run). Each list has a pair of events for label 0, and a pair for
            label 1.
        """
        n, error = self.trials, ERROR / (2 * len(events))
        labelled = [(label, pair) for pairs in events for label, pair in enumerate(pairs)]
        return LowerBounds(
            max(delta_lower(*_hits(p.for_delta, counts, label), n, self.epsilon, error) for label, p in labelled),
            max(epsilon_lower(*_hits(p.for_epsilon, counts, label), n, self.delta, error) for label, p in labelled),
        )


def evidence(counts: NDArray[np.float64], epsilon: float, label: int) -> NDArray[np.bool_]:
    """A mask (J,) of the views that were seen more than e^ε times as often under `label` as under the other label.

    counts: (2, J) how often each of J views came, for the target's label 0 and 1.
    """
    return np.asarray(counts[label] > math.exp(epsilon) * counts[1 - label])


def plan(views: Views, delta: float, trials: int, epsilon: float | None = None) -> AttackPlan:
    """Plans the attack that should prove most if the mechanism is as claimed. It tests δ at one ε, and ε at one δ.

    The attacked data set has the largest δ(ε) at the ε of the first test. If no ε is given, three values are tried:
    1/4, 1/2 and 3/4 of ε(δ = 1e-3), or of 4 if 4 is smaller. The chosen ε has the largest ratio of the expected lower
    bound to the exact δ.

    Args:
        views: the exact laws of all that the observer may see, one for each data set. delta: δ of the second test, in
        (0, 1). trials: number of independent clusters for each label of the target, at least 1. epsilon: ε of the first
        test, at least 0 and below ε₀, the ε of the noisy label alone; None: chosen.
    """
    largest = min(views.epsilon(1e-3).upper, LARGEST_TEST_EPSILON) if epsilon is None else 0.0
    grid = [largest * share for share in SHARES] if epsilon is None else [epsilon]
    # For each ε: the data set with the largest δ, and the share of this δ that the attack should prove.
    choices = []
    for tested in grid:
        worst = [float(law.deltas(tested).max()) for law in views.laws]
        ones = int(np.argmax(worst))
        law = views.laws[ones]
        counts = law.probabilities * trials
        reached = max(delta_lower(*_hits(law.event(tested, i), counts, i), trials, tested, ERROR / 2) for i in (0, 1))
        choices.append((reached / worst[ones] if worst[ones] > 0 else 0.0, -tested, ones))
    _, minus, ones = max(choices)
    # For each label: the threshold ε' with the event that should prove the largest ε.
    law = views.laws[ones]
    counts, thresholds = law.probabilities * trials, _thresholds(law)
    for_zero, for_one = (
        max(thresholds, key=lambda e: epsilon_lower(*_hits(law.event(e, i), counts, i), trials, delta, ERROR / 2))
        for i in (0, 1)
    )
    return AttackPlan(views, ones, -minus, delta=delta, epsilon_events=(for_zero, for_one), trials=trials)


def _thresholds(law: ViewLaw) -> list[float]:
    """24 thresholds ε' that are tried for the test of ε, evenly spaced from 0 up to the smaller of ε₀ and 4 (excluded).

    ε₀ is the ε of the noisy label alone. `AttackPlan` explains the event of a threshold.
    """
    largest = min(local_epsilon(law.flip_prob), LARGEST_TEST_EPSILON)
    return [float(e) for e in np.linspace(0.0, largest, _EVENTS, endpoint=False)]


def _hits(event: NDArray[np.bool_], counts: NDArray[np.float64], label: int) -> tuple[int, int]:
    """How often an event occurred under `label` (hits), and under the target's other label (misses).

    event: (J,) mask of the views that belong to the event. counts: (2, J) occurrences of each view.
    """
    return round(float(counts[label][event].sum())), round(float(counts[1 - label][event].sum()))
