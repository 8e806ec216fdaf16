"""A search, whatever runs its trials: a batch is chosen, measured replicate by replicate, and its results are noted."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from p2p_sim.tuning.goal import Goal, Measured
from p2p_sim.tuning.optuna_study import Trial, Trials
from p2p_sim.tuning.search_space import Space

Found = dict[int, Measured | None]
"""Measured replicates of a setting, by index; None: it could not be run."""
Measure = Callable[[Sequence[Trial], range], Mapping[int, Found]]
"""Measures some replicates of some trials; by the trial's number."""
FIRST_LOOK, ENOUGH = 2, 5
"""Replicates before a trial may be stopped, and earlier trials that it must be compared with."""


@dataclass
class Search:
    """A search; `run` goes on where it stands.

    space: what is varied. goal: what for. replicates: of each trial. trials: so far. measure: runs them.
    early: whether hopeless trials are stopped. told: called with trials ended and trials wanted.
    """

    space: Space
    goal: Goal
    replicates: int
    trials: Trials
    measure: Measure
    early: bool = False
    told: Callable[[int, int], None] = lambda done, total: None

    def __post_init__(self) -> None:
        self._found: dict[int, list[Measured]] = {}

    def run(self, wanted: int) -> list[Trial]:
        """All trials up to a number of them; of a finite space at most as many as there are settings."""
        wanted = int(min(wanted, self.space.size))
        for first in range(0, wanted, self.space.batch):
            self.told(first, wanted)
            chosen = [self.trials.begin(number) for number in range(first, min(first + self.space.batch, wanted))]
            for ended in self._ended(chosen):
                if self.trials.all[ended.number].state == "running":
                    self.trials.end(ended)
        self.told(wanted, wanted)
        return self.trials.all[:wanted]

    def _ended(self, chosen: Sequence[Trial]) -> list[Trial]:
        """The trials of a batch with their results, in their order.

        Trials that ended before are measured again from what is on disk, since later trials are compared with them.
        """
        going, ended = list(chosen), list[Trial]()
        first = chosen[0].number
        for rung in self._rungs():
            got = self.measure(going, rung)
            still = []
            for trial in going:
                values = [got[trial.number].get(index) for index in rung]
                if None in values:
                    ended.append(replace(trial, state="failed"))
                    continue
                found = self._found.setdefault(trial.number, [])
                found.extend(value for value in values if value is not None)
                result = replace(
                    trial,
                    loss=self.goal.loss(found),
                    violation=self.goal.violation(found),
                    replicates=len(found),
                    state="finished",
                )
                if len(found) == self.replicates:
                    ended.append(result)
                elif self.early and self._hopeless(result, first):
                    ended.append(replace(result, state="stopped"))
                else:
                    still.append(trial)
            going = still
        return sorted(ended, key=lambda trial: trial.number)

    def _rungs(self) -> list[range]:
        """Replicates that are run before the next look at a trial: all, or 2, 4, 8 and so on."""
        if not self.early or self.replicates <= FIRST_LOOK:
            return [range(self.replicates)]
        ends = [FIRST_LOOK]
        while ends[-1] < self.replicates:
            ends.append(min(2 * ends[-1], self.replicates))
        return [range(low, high) for low, high in zip([0, *ends], ends, strict=False)]

    def _hopeless(self, trial: Trial, first: int) -> bool:
        """Whether a trial cannot win, or is worse than the median of earlier trials with as many replicates.

        Args:
            first: number of the first trial of its batch; results from it on are not looked at.
        """
        assert trial.loss is not None
        assert trial.violation is not None
        count = trial.replicates
        if self.goal.epsilon is not None:  # the largest ε over replicates can only grow
            if trial.violation > 0:
                return True
            earlier = [self._found[n][:count] for n in range(first) if len(self._found.get(n, ())) >= count]
            allowed = [self.goal.loss(found) for found in earlier if self.goal.violation(found) <= 0]
            return len(allowed) >= ENOUGH and trial.loss > statistics.median(allowed)
        met = [one.loss for one in self.trials.all[:first] if is_met(one) and one.loss is not None]
        return bool(met) and trial.loss >= min(met)


def is_met(trial: Trial) -> bool:
    """Whether a trial ran all its replicates and its condition holds."""
    return trial.state == "finished" and trial.violation is not None and trial.violation <= 0


def best(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that meet the goal, the best first."""
    return sorted(filter(is_met, trials), key=lambda one: (one.loss or 0.0, one.number))


def nearest(trials: Sequence[Trial]) -> Trial | None:
    """The trial that comes nearest to meeting the goal, preferably with all replicates; None if none could be run."""
    known = [one for one in trials if one.violation is not None]
    return min(known, key=lambda one: (one.violation or 0.0, one.number), default=None)
