"""Statistics of an attack: what two counts prove about ε and δ, and what they could have proved.

Each event is fixed before the trials that count: one from the exact laws, one from a pilot run, which finds leaks that
the laws do not know. So its two proportions have Clopper-Pearson bounds, and P - e^ε Q at these bounds is a lower bound
of δ(ε) at the stated error probability, whatever the mechanism really does. The events share the error.
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
"""Probability that a test fails a mechanism that keeps its bound."""
SHARES = (0.25, 0.5, 0.75)
"""Parts of ε(δ = 1e-3) among which the ε of the δ-test is chosen."""
LARGEST_TEST_EPSILON = 4.0
"""Where ε(δ = 1e-3) is larger, the parts are of this."""
_EVENTS = 24
"""Thresholds ε' that are tried for the ε-test."""


def clopper_pearson(hits: int, trials: int, error: float) -> Bracket:
    """Bounds of a proportion, each of which fails with probability at most `error`.

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
    """A lower bound P - e^ε Q of δ(ε), at least 0, from how often an event occurred in the two worlds of the target's
    label.

    P is a lower confidence bound of its probability in its own world (`hits` of `trials`), Q an upper one in the other
    (`misses` of `trials`). error: the probability that the bound is too high.
    """
    hit, miss = clopper_pearson(hits, trials, error / 2), clopper_pearson(misses, trials, error / 2)
    return max(0.0, hit.lower - math.exp(epsilon) * miss.upper)


def epsilon_lower(hits: int, misses: int, trials: int, delta: float, error: float) -> float:
    """A lower bound ln((P - δ)/Q) of ε(δ), at least 0, from how often an event occurred in the two worlds of the
    target's label.

    P and Q are as in `delta_lower`: confidence bounds from `hits` and `misses` of `trials` each.
    """
    hit, miss = clopper_pearson(hits, trials, error / 2), clopper_pearson(misses, trials, error / 2)
    return max(0.0, math.log((hit.lower - delta) / miss.upper)) if hit.lower > delta else 0.0


@dataclass(frozen=True)
class AuditResult:
    """What an attack achieved, beside what is exactly possible.

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
        """Whether both lower bounds that the attack proves are at most the exact upper bounds."""
        return (
            self.delta_lower_confidence <= self.delta_exact.upper
            and self.epsilon_lower_confidence <= self.epsilon_exact.upper
        )


class EventPair(NamedTuple):
    """The events of an attack as sets of cells, (J,) bool each: that of the test of δ, and that of the test of ε."""

    for_delta: NDArray[np.bool_]
    for_epsilon: NDArray[np.bool_]


class EventCounts(NamedTuple):
    """How often an event that speaks for a label occurred: in that label's world, and in the other."""

    hits: int
    misses: int


class LowerBounds(NamedTuple):
    """What an attack proves: a lower bound of δ at ε, and one of ε at δ."""

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
        """The law of the view for the data set that is attacked."""
        return self.views.laws[self.ones]

    def judge(self, worlds: NDArray[np.int64], pilot: NDArray[np.int64] | None = None) -> AuditResult:
        """Compare what was seen with what is exactly possible.

        Args:
            worlds: (2, J) how often each cell was seen with the target's label 0 and with 1; `trials` in total each.
            pilot: (2, J) the same in other trials, which may suggest events; None: the exact laws alone do.
        """
        for counts in worlds:
            if counts.shape != self.law.a.shape or int(counts.sum()) != self.trials:
                raise ValueError(f"counts: need {self.law.a.size} cells and {self.trials} trials in each world")
        exact = self.views.delta(self.epsilon)
        # For each label the events that tell most under the exact laws, and those of the pilot.
        thresholds = enumerate(self.epsilon_events)
        events = [[EventPair(self.law.event(self.epsilon, i), self.law.event(e, i)) for i, e in thresholds]]
        events += [] if pilot is None else [self._pilot_events(pilot)]
        expected = self._bounds(self.law.probabilities * self.trials, events)
        proved = self._bounds(worlds.astype(np.float64), events)
        # The least δ that the δ-test detects: δ and what is lost on the way, or the least that some event proves.
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
        """The events that told most in the pilot, for each label.

        Up to half a trial is added to each cell's count, by the exact laws, so that rare cells do not decide by chance.
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
        """The lower bounds that counts (2, J) of cells in the two worlds prove.

        events: for each source of events those for label 0 and for label 1; the sources share each test's error.
        """
        deltas, epsilons, error = [], [], ERROR / (2 * len(events))
        for label, pair in (labelled for pairs in events for labelled in enumerate(pairs)):
            deltas.append(delta_lower(*_hits(pair.for_delta, counts, label), self.trials, self.epsilon, error))
            epsilons.append(epsilon_lower(*_hits(pair.for_epsilon, counts, label), self.trials, self.delta, error))
        return LowerBounds(max(deltas), max(epsilons))


def evidence(counts: NDArray[np.float64], epsilon: float, label: int) -> NDArray[np.bool_]:
    """Cells (J,) that seem evidence beyond e^ε for a label, by (2, J) counts in the two worlds."""
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
    """Thresholds ε' to try for the ε-test, from 0 to below ε₀."""
    largest = min(local_epsilon(law.flip_prob), LARGEST_TEST_EPSILON)
    return [float(e) for e in np.linspace(0.0, largest, _EVENTS, endpoint=False)]


def _hits(event: NDArray[np.bool_], counts: NDArray[np.float64], label: int) -> EventCounts:
    """How often an event for a label occurred in that label's world and in the other, by counts (2, J) of cells."""
    return EventCounts(*(round(float(counts[world][event].sum())) for world in (label, 1 - label)))
