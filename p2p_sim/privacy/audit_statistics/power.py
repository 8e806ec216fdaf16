"""Statistics of an attack: what two counts prove about ε and δ, and what they could have proved.

Each event is fixed before the trials that count: one from the exact laws, one from a pilot run, which finds leaks that
the laws do not know. Its probabilities P and Q in the worlds of the target's two labels have Clopper-Pearson bounds.
At these bounds P - e^ε Q is a lower bound of δ(ε), whatever the mechanism really does; it fails with the stated error
probability at most. The events share that probability.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.audit_statistics.view_laws import ViewLaw, Views
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.randomized_response import local_epsilon

ERROR = 1e-9
"""Largest probability that a test refuses a mechanism that keeps its bound."""
SHARES = (0.25, 0.5, 0.75)
"""Shares of ε(δ = 1e-3) among which the ε of the δ-test is chosen."""
LARGEST_TEST_EPSILON = 4.0
"""Stands for ε(δ = 1e-3) where that is larger."""
_EVENTS = 24
"""Number of thresholds ε' that are tried for the ε-test."""


def clopper_pearson(hits: int, trials: int, error: float) -> Bracket:
    """Confidence bounds of a probability; each of the two fails with probability at most `error`.

    Args:
        hits: of the trials, 0 to `trials`.
        trials: independent ones, at least 1.
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
    """Lower bound P - e^ε Q of δ(ε), at least 0, that counts of an event prove; it fails with probability <= `error`.

    hits, misses: occurrences in `trials` with the target's label for which the event speaks, and with the other label.
    P and Q are confidence bounds of its probabilities there, from below and from above.
    """
    hit, miss = clopper_pearson(hits, trials, error / 2), clopper_pearson(misses, trials, error / 2)
    return max(0.0, hit.lower - math.exp(epsilon) * miss.upper)


def epsilon_lower(hits: int, misses: int, trials: int, delta: float, error: float) -> float:
    """Lower bound ln((P - δ)/Q) of ε at δ, at least 0, that counts prove; arguments, P and Q as of `delta_lower`."""
    hit, miss = clopper_pearson(hits, trials, error / 2), clopper_pearson(misses, trials, error / 2)
    return max(0.0, math.log((hit.lower - delta) / miss.upper)) if hit.lower > delta else 0.0


@dataclass(frozen=True)
class AuditResult:
    """What an attack proved about ε and δ, beside their exact values.

    observer: who attacked; ones: m, holders of label 1 among the others in the data set attacked.
    epsilon: at which δ is tested; delta_exact: the exact δ there; delta_lower_confidence: what the attack proves.
    delta: at which ε is tested; epsilon_exact, epsilon_lower_confidence: likewise.
    trials: independent clusters in each of the two worlds; error: probability that a test fails a sound mechanism.
    expected, expected_epsilon: the two lower bounds to expect if the mechanism is exactly right.
    detectable: the δ at `epsilon` that one of the attack's events must reach for the δ-test to fail (about).
    basis: where the exact figures come from.
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
        """Whether neither of the two proved lower bounds exceeds the exact upper bound: no leak is found."""
        return (
            self.delta_lower_confidence <= self.delta_exact.upper
            and self.epsilon_lower_confidence <= self.epsilon_exact.upper
        )


class EventPair(NamedTuple):
    """Two events for one label, as masks over the J views: for the test of δ and for the test of ε."""

    for_delta: NDArray[np.bool_]
    for_epsilon: NDArray[np.bool_]


class EventCounts(NamedTuple):
    """How often an event that speaks for a label occurred: where the target holds it, and where she does not."""

    hits: int
    misses: int


class LowerBounds(NamedTuple):
    """Lower bounds that counts prove: of δ at the tested ε, and of ε at the tested δ."""

    delta: float
    epsilon: float


@dataclass(frozen=True)
class AttackPlan:
    """An attack that is fixed before the first trial.

    views: what the observer may see; ones: m, the data set; epsilon: ε of the δ-test; delta: δ of the ε-test.
    epsilon_events: for evidence of label 0 and of label 1, the threshold ε' of the event that the ε-test uses.
    """

    views: Views
    ones: int
    epsilon: float
    delta: float
    epsilon_events: tuple[float, float]
    trials: int

    @property
    def law(self) -> ViewLaw:
        """The exact law of the view in the data set that is attacked."""
        return self.views.laws[self.ones]

    def judge(self, worlds: NDArray[np.int64], pilot: NDArray[np.int64] | None = None) -> AuditResult:
        """What the trials prove about ε and δ, beside the exact values.

        Args:
            worlds: (2, J) how often each of the J views was seen with the target's label 0 and with 1; rows sum to
                `trials`.
            pilot: (2, J) the same in other trials, from which events are chosen too; None: from the exact laws alone.
        """
        for counts in worlds:
            if counts.shape != self.law.a.shape or int(counts.sum()) != self.trials:
                raise ValueError(f"counts: need {self.law.a.size} cells and {self.trials} trials in each world")
        exact = self.views.delta(self.epsilon)
        # For each label the best events under the exact laws, then those of the pilot.
        thresholds = enumerate(self.epsilon_events)
        events = [[EventPair(self.law.event(self.epsilon, i), self.law.event(e, i)) for i, e in thresholds]]
        events += [] if pilot is None else [self._pilot_events(pilot)]
        expected = self._bounds(self.law.probabilities * self.trials, events)
        proved = self._bounds(worlds.astype(np.float64), events)
        # The least δ that the δ-test detects: the exact δ plus what the bounds lose, or the least that can be proved.
        surplus = exact.upper + (float(self.law.deltas(self.epsilon).max()) - expected.delta)
        low, high = 0, self.trials
        while high - low > 1:
            middle, error = (low + high) // 2, ERROR / (2 * len(events))
            proves = delta_lower(middle, 0, self.trials, self.epsilon, error) > exact.upper
            low, high = (low, middle) if proves else (middle, high)
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
            detectable=max(surplus, high / self.trials),
            basis=self.views.basis,
        )

    def _pilot_events(self, pilot: NDArray[np.int64]) -> list[EventPair]:
        """For each label the events that proved most in the pilot.

        The exact laws are added to its (2, J) counts with the weight of up to half a trial a view.
        """
        counts = pilot + min(0.5 * self.law.a.size, 0.1 * float(pilot[0].sum())) * self.law.probabilities
        scaled = counts * (self.trials / counts.sum(axis=1, keepdims=True))
        events = []
        for label in (0, 1):

            def reached(threshold: float, label: int = label) -> float:
                hits = _hits(evidence(counts, threshold, label), scaled, label)
                return epsilon_lower(*hits, self.trials, self.delta, ERROR / 4)

            best = max(_thresholds(self.law), key=reached)
            events.append(EventPair(evidence(counts, self.epsilon, label), evidence(counts, best, label)))
        return events

    def _bounds(self, counts: NDArray[np.float64], events: list[list[EventPair]]) -> LowerBounds:
        """The largest lower bounds of δ and ε that (2, J) counts of views prove by any of the events.

        events: for each source (exact laws, pilot) those for label 0 and for 1. They share each test's error.
        """
        deltas, epsilons, error = [], [], ERROR / (2 * len(events))
        for label, pair in (labelled for pairs in events for labelled in enumerate(pairs)):
            deltas.append(delta_lower(*_hits(pair.for_delta, counts, label), self.trials, self.epsilon, error))
            epsilons.append(epsilon_lower(*_hits(pair.for_epsilon, counts, label), self.trials, self.delta, error))
        return LowerBounds(max(deltas), max(epsilons))


def evidence(counts: NDArray[np.float64], epsilon: float, label: int) -> NDArray[np.bool_]:
    """A mask (J,) of the views that were seen more than e^ε times as often with this label as with the other.

    counts: (2, J) occurrences of each view with the target's label 0 and with 1.
    """
    return np.asarray(counts[label] > math.exp(epsilon) * counts[1 - label])


def plan(views: Views, delta: float, trials: int, epsilon: float | None = None) -> AttackPlan:
    """The attack with the best expected result if the mechanism is exactly right.

    The data set is the worst over all m and both directions at the ε of the δ-test. That ε, unless given, is the one
    among `SHARES` of ε(δ = 1e-3) at which the expected lower bound comes closest, relatively, to the exact δ.

    Args:
        delta: δ of the ε-test, in (0, 1).
        trials: in each world, at least 1.
        epsilon: ε of the δ-test, at least 0 and below ε₀; None: chosen.
    """
    largest = min(views.epsilon(1e-3).upper, LARGEST_TEST_EPSILON) if epsilon is None else 0.0
    grid = [largest * share for share in SHARES] if epsilon is None else [epsilon]
    # For each ε the worst data set, and which part of its δ the attack is expected to prove.
    choices = []
    for tested in grid:
        worst = [float(law.deltas(tested).max()) for law in views.laws]
        ones = int(np.argmax(worst))
        law = views.laws[ones]
        counts = law.probabilities * trials
        reached = max(delta_lower(*_hits(law.event(tested, i), counts, i), trials, tested, ERROR / 2) for i in (0, 1))
        choices.append((reached / worst[ones] if worst[ones] > 0 else 0.0, -tested, ones))
    _, minus, ones = max(choices)
    # For each label the threshold ε' of the event from which the ε-test expects most.
    law = views.laws[ones]
    counts, thresholds = law.probabilities * trials, _thresholds(law)

    def expected(threshold: float, label: int) -> float:
        return epsilon_lower(*_hits(law.event(threshold, label), counts, label), trials, delta, ERROR / 2)

    best = [max(thresholds, key=partial(expected, label=label)) for label in (0, 1)]
    return AttackPlan(views, ones, -minus, delta=delta, epsilon_events=(best[0], best[1]), trials=trials)


def _thresholds(law: ViewLaw) -> list[float]:
    """The thresholds ε' of events that are tried for the ε-test, from 0 to below ε₀."""
    largest = min(local_epsilon(law.flip_prob), LARGEST_TEST_EPSILON)
    return [float(e) for e in np.linspace(0.0, largest, _EVENTS, endpoint=False)]


def _hits(event: NDArray[np.bool_], counts: NDArray[np.float64], label: int) -> EventCounts:
    """How often an event for `label` occurred with that label and with the other, from (2, J) counts of views.

    event: (J,) mask of the views that belong to it.
    """
    return EventCounts(*(round(float(counts[world][event].sum())) for world in (label, 1 - label)))
