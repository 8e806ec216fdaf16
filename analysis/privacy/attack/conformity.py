"""Whether a simulated exchange keeps to the law of the protocol: exact binomial tests of a fixed family of events.

On a network without faults every event of a cluster has an exactly known probability. The family holds, in each data
set: each user's silence, zeros and ones; whose submission comes first and last, and what it is; who comes late; for
each known fault the event that tells most of it; and the cells of the view. All tests share one error probability
(Bonferroni).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from p2p_sim.analysis.privacy.attack.fault_laws import FAULTS, Fault, Seen, seen_of
from p2p_sim.analysis.privacy.attack.submission_law import Cluster, submission_law
from p2p_sim.analysis.privacy.statement.windows import Floats

FEWEST_EXPECTED = 20.0
"""Cells that are expected less often are taken together."""
TINIEST = 1e-15
"""Probabilities are taken to be at least this far from 0 and 1, which covers their rounding errors."""
REFERENCE = 0.1
"""Strength of a fault at which the event that tells most of it is looked for."""
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Tally:
    """What was counted in many clusters: as the learner saw them, and the cells of each view; misplaced: clusters
    whose submissions were not in ascending order of users."""

    seen: Seen
    cells: tuple[Counts, ...]
    misplaced: int

    def __add__(self, other: "Tally") -> "Tally":
        parts = (getattr(self.seen, field.name) + getattr(other.seen, field.name) for field in fields(Seen))
        cells = tuple(a + b for a, b in zip(self.cells, other.cells, strict=True))
        return Tally(Seen(*parts), cells, self.misplaced + other.misplaced)


@dataclass(frozen=True)
class Deviation:
    """An event that the simulated exchange shows too often or too seldom.

    what: the event. where: the data set. hits: of `trials`. expected: its probability under the protocol.
    error: probability at most, over all tests, that a sound exchange shows such a deviation.
    """

    what: str
    where: str
    hits: int
    trials: int
    expected: float
    error: float


@dataclass(frozen=True)
class Detection:
    """From which strength on a fault is seen with probability 1/2 or more.

    strength: None: not even at 1, which takes about `more` times as many trials, or None: no number would do.
    """

    fault: Fault
    strength: float | None
    more: float | None


@dataclass(frozen=True)
class Stage:
    """One data set that is simulated `trials` times.

    laws: (J,) probabilities of the cells of each view. describe: what a cell of a view is, in words.
    """

    cluster: Cluster
    trials: int
    laws: tuple[Floats, ...] = ()
    describe: tuple[Callable[[int], str], ...] = ()

    @property
    def where(self) -> str:
        """In words."""
        labels = self.cluster.labels
        return f"target's label {labels[0]}, {sum(labels[1:])} ones among the others"

    @cached_property
    def sound(self) -> Seen:
        """What is seen under the protocol."""
        return seen_of(self.cluster, submission_law(self.cluster))

    @cached_property
    def events(self) -> tuple[tuple[str, NDArray[np.bool_]], ...]:
        """For each fault with a known table, what it makes more frequent."""
        return tuple(
            (fault.name, fault.law(self.cluster, REFERENCE).table > self.sound.table * (1.0 + 1e-9) + TINIEST)
            for fault in FAULTS
            if fault.tabled
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the statistics."""
        people = ["the target" if i == 0 else f"user {i}" for i in range(self.cluster.size)]
        users = [f"{who} submits {what}" for who in people for what in ("nothing", "a zero", "a one")]
        order = [
            f"the {place} submission to arrive is {who}'s, a {what}"
            for place in ("first", "last")
            for who in people
            for what in ("zero", "one")
        ]
        ends = [f"the {place} submission to arrive is a one" for place in ("first", "last")]
        events = [f'a cluster submits what the fault "{name}" makes more frequent' for name, _ in self.events]
        late = ("ones arrive after zeros on average", "what holders of 1 submit arrives after the rest on average")
        peers = ("the target", "a member", "another user")
        fetched = [f"user {i + 1}, a member, fetches from {who}" for i in range(self.cluster.members) for who in peers]
        disorder = "the release is not in ascending order of users"
        return (*users, *order, *ends, *late, *fetched, *events, disorder)

    def statistics(self, seen: Seen, misplaced: float = 0.0) -> Floats:
        """Their counts, or probabilities."""
        events = [seen.table[event].sum() for _, event in self.events]
        ends = seen.order[..., 1].sum(axis=1)
        parts = (seen.users, seen.order, ends, seen.late, seen.fetched, np.array(events), np.array([misplaced]))
        return np.concatenate([part.ravel() for part in parts])

    @cached_property
    def expected(self) -> Floats:
        """Probabilities of the statistics under the protocol."""
        return self.statistics(self.sound)

    @cached_property
    def kept(self) -> tuple[NDArray[np.bool_], ...]:
        """Of each view, the cells that are tested each for itself; the others are one more event."""
        return tuple(law * self.trials >= FEWEST_EXPECTED for law in self.laws)

    @property
    def size(self) -> int:
        """Cells that are tested."""
        return sum(int(kept.sum()) + 1 for kept in self.kept)

    def cell_name(self, number: int) -> str:
        """What the cell that is tested at a place is, in words."""
        for kept, describe in zip(self.kept, self.describe, strict=True):
            which = np.flatnonzero(kept)
            if number <= which.size:
                rarest = "a cluster shows one of the rarest views"
                return describe(int(which[number])) if number < which.size else rarest
            number -= which.size + 1
        raise IndexError(number)

    def cells(self, counts: Sequence[NDArray[np.number]]) -> Floats:
        """Counts or probabilities of the cells that are tested."""
        parts = [np.append(c[kept], c[~kept].sum()) for c, kept in zip(counts, self.kept, strict=True)]
        return np.concatenate([*parts, np.zeros(0)])


def events_counted(stages: Sequence[Stage]) -> tuple[int, int]:
    """How many events are tested: of statistics, and of cells; each kind has half of the error."""
    return sum(len(stage.names) for stage in stages), sum(stage.size for stage in stages)


def worst_deviation(stages: Sequence[Stage], tallies: Sequence[Tally], error: float) -> Deviation | None:
    """The least likely deviation, if it is less likely than `error` over all tests and data sets."""
    many, few = events_counted(stages), []
    for stage, tally in zip(stages, tallies, strict=True):
        for name, counts, probabilities, number in (
            (stage.names.__getitem__, stage.statistics(tally.seen, tally.misplaced), stage.expected, many[0]),
            (stage.cell_name, stage.cells(tally.cells), stage.cells(stage.laws), many[1]),
        ):
            found = 2 * number * _tails(counts, stage.trials, probabilities)
            if not found.size:
                continue
            i = int(np.argmin(found))
            hits, expected = round(counts[i]), float(probabilities[i])
            few.append(Deviation(name(i), stage.where, hits, stage.trials, expected, float(found[i])))
    worst = min(few, key=lambda deviation: deviation.error)
    return worst if worst.error <= error else None


def detections(stages: Sequence[Stage], error: float) -> tuple[Detection, ...]:
    """For each fault that the observer may meet, from which strength on the tests of the statistics find it."""
    number = events_counted(stages)[0]
    limits = [_limits(stage, error / (2 * number)) for stage in stages]
    pairs = list(zip(stages, limits, strict=True))
    return tuple(_detection(fault, pairs) for fault in FAULTS if stages[0].cluster.members or not fault.members)


def _detection(fault: Fault, pairs: list[tuple[Stage, tuple[Floats, Floats]]]) -> Detection:
    """By regula falsi: how far a statistic moves is nearly proportional to the strength."""
    stage, limits = max(pairs, key=lambda pair: _reach(fault, REFERENCE, *pair))
    strength, reach = REFERENCE, 0.0
    for _ in range(20):
        reach = _reach(fault, strength, stage, limits)
        if 1.0 <= reach < 1.01 or (strength == 1.0 and reach < 1.0):
            break
        strength = min(1.0, strength * 1.005 / max(reach, 1e-3))
    if reach >= 1.0:
        return Detection(fault, strength, None)
    return Detection(fault, None, reach**-2 if reach > 1e-3 else None)


def _reach(fault: Fault, strength: float, stage: Stage, limits: tuple[Floats, Floats]) -> float:
    """How far the fault moves a statistic, as a share of what is needed; the largest over the statistics."""
    moved = stage.statistics(fault.law(stage.cluster, strength)) - stage.expected
    needed = np.where(moved > 0, limits[1] - stage.expected, stage.expected - limits[0])
    return float(np.nanmax(np.abs(moved) / np.maximum(needed, TINIEST)))


def _limits(stage: Stage, error: float) -> tuple[Floats, Floats]:
    """Frequencies at and beyond which a two-sided test fails; beyond 0 and 1 where none does."""
    n, p = stage.trials, stage.expected
    high = _first(lambda hits: _at_least(hits, n, p) <= error / 2, n, p.size)
    low = _first(lambda hits: _at_most(hits, n, p) > error / 2, n, p.size) - 1.0
    return np.where(low < 0, -np.inf, low / n), np.where(high > n, np.inf, high / n)


def _first(true: Callable[[Floats], NDArray[np.bool_]], trials: int, size: int) -> Floats:
    """The fewest hits (size,) from which on something is true; trials + 1 where it never is."""
    low, high = np.zeros(size), np.full(size, trials + 1.0)
    while (low < high).any():
        middle = np.floor((low + high) / 2)
        found = true(np.minimum(middle, trials)) | (middle > trials)
        low, high = np.where(found | (low >= high), low, middle + 1), np.where(found & (low < high), middle, high)
    return high


def _tails(counts: Floats, trials: int, probabilities: Floats) -> Floats:
    """Two-sided p-values: twice the smaller binomial tail."""
    tails = (tail(counts, trials, probabilities) for tail in (_at_most, _at_least))
    return np.asarray(2.0 * np.minimum(*tails))


def _at_least(hits: Floats, trials: int, probabilities: Floats) -> Floats:
    """Probability of as many hits, or more."""
    from scipy.special import betainc

    p = np.clip(probabilities, TINIEST, 1.0 - TINIEST)
    return np.where(hits <= 0, 1.0, betainc(np.maximum(hits, 1.0), trials - hits + 1.0, p))


def _at_most(hits: Floats, trials: int, probabilities: Floats) -> Floats:
    """Probability of as many hits, or fewer."""
    from scipy.special import betaincc

    p = np.clip(probabilities, TINIEST, 1.0 - TINIEST)
    return np.where(hits >= trials, 1.0, betaincc(hits + 1.0, np.maximum(trials - hits, 1.0), p))
