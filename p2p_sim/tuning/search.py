"""The loop of a search: choose a batch of trials (settings), run replicates step by step, note the results."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from p2p_sim.tuning.goal import Goal, Measured
from p2p_sim.tuning.optuna_study import State, Trial, Trials
from p2p_sim.tuning.search_space import Space

ByReplicate = dict[int, Measured | None]
"""Measured replicates of a setting, by index; None: the replicate could not be run."""
Measure = Callable[[Sequence[Trial], range], Mapping[int, ByReplicate]]
"""A function that measures some replicates of some trials. The results come by the trial's number."""
FIRST_LOOK, ENOUGH = 2, 5
"""The fewest replicates before a trial may be stopped, and the fewest earlier trials for a comparison."""


@dataclass
class Search:
    """A search; `run` goes on from the trials that are already there.

    space: the settings that may be tried. goal: the goal by which trials are compared. replicates: number of replicates
    of each trial. trials: the trials chosen so far. measure: runs replicates of trials. early: whether hopeless trials
    are stopped. report: called with two numbers: how many trials have ended, and how many are wanted.
    """

    space: Space
    goal: Goal
    replicates: int
    trials: Trials
    measure: Measure
    early: bool = False
    report: Callable[[int, int], None] = lambda ended, wanted: None
    _measured: dict[int, list[Measured]] = field(default_factory=dict, init=False)

    def run(self, wanted: int) -> list[Trial]:
        """Run trials until there are `wanted`, and return these; a space with fewer settings gives fewer trials."""
        wanted = int(min(wanted, self.space.size))
        for first in range(0, wanted, self.space.batch):
            self.report(first, wanted)
            chosen = [self.trials.begin(number) for number in range(first, min(first + self.space.batch, wanted))]
            for ended in self._ended(chosen):
                if self.trials.all[ended.number].state == "running":
                    self.trials.end(ended)
        self.report(wanted, wanted)
        return self.trials.all[:wanted]

    @property
    def rungs(self) -> list[range]:
        """The steps in which a trial's replicates are run, as ranges of indices. A trial is judged after the last
        replicate. If hopeless trials are stopped, it is also judged after the first 2, 4, 8 and so on.
        """
        ends = [FIRST_LOOK if self.early else self.replicates]
        while ends[-1] < self.replicates:
            ends.append(2 * ends[-1])
        return [range(low, min(high, self.replicates)) for low, high in pairwise([0, *ends])]

    def _ended(self, chosen: Sequence[Trial]) -> list[Trial]:
        """Run a batch of trials until each has ended, and return the trials with their new states, sorted by number. A
        trial ends when all its replicates have run, or when one cannot be run (state "failed", without loss). If
        hopeless trials are stopped, a trial may also end after 2, 4, 8 and so on replicates.

        A resumed search reads the results of earlier trials from disk again, since later trials need them for
        comparison.
        """
        going, ended = list(chosen), list[Trial]()
        first = chosen[0].number
        for rung in self.rungs:
            measured = self.measure(going, rung)
            still = []
            for trial in going:
                latest = [measured[trial.number].get(index) for index in rung]
                replicates = self._measured.setdefault(trial.number, [])
                replicates += [replicate for replicate in latest if replicate is not None]
                # a trial goes on if it could be run, has replicates left, and is not hopeless
                if None in latest:
                    ended.append(replace(trial, state="failed"))
                elif len(replicates) == self.replicates:
                    ended.append(self._with_result(trial, "finished"))
                elif self.early and self._hopeless(replicates, first):
                    ended.append(self._with_result(trial, "stopped"))
                else:
                    still.append(trial)
            going = still
        return sorted(ended, key=lambda trial: trial.number)

    def _with_result(self, trial: Trial, state: State) -> Trial:
        """A trial that has ended, with loss and violation over the replicates that ran.

        state: "finished" if all replicates ran, or "stopped" if the trial was hopeless before its last replicate.
        """
        replicates = self._measured[trial.number]
        loss, violation = self.goal.loss(replicates), self.goal.violation(replicates)
        return replace(trial, state=state, loss=loss, violation=violation, replicates=len(replicates))

    def _hopeless(self, replicates: Sequence[Measured], first: int) -> bool:
        """Whether a trial should be stopped. If the least ε is searched, a trial is hopeless once its largest ε is not
        below the ε of an earlier successful trial. A trial is successful if it met the condition on accuracy. If ε is
        limited, a trial is hopeless once its ε exceeds the limit, or once its score is worse than the median of earlier
        trials. Each earlier trial is then judged by as many replicates as this trial has run. Only trials within the
        limit count, and there must be at least five.

        Args:
            replicates: the trial's replicates so far. first: number of the first trial of its batch; only trials before
            it count.
        """
        loss, count = self.goal.loss(replicates), len(replicates)
        if self.goal.epsilon is None:
            met = [trial.loss for trial in self.trials.all[:first] if is_met(trial) and trial.loss is not None]
            return bool(met) and loss >= min(met)
        if self.goal.violation(replicates) > 0:  # the largest ε over replicates can only grow
            return True
        earlier = [self._measured[n][:count] for n in range(first) if len(self._measured.get(n, ())) >= count]
        losses = [self.goal.loss(trial) for trial in earlier if self.goal.violation(trial) <= 0]
        return len(losses) >= ENOUGH and loss > statistics.median(losses)


def is_met(trial: Trial) -> bool:
    """Whether a trial ran all its replicates and meets the goal's condition."""
    return trial.state == "finished" and trial.violation is not None and trial.violation <= 0


def best(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that ran all their replicates and meet the goal's condition on ε or accuracy, the best first. The best
    trial has the best mean score or, if the least ε is searched, the smallest ε.
    """
    return sorted(filter(is_met, trials), key=lambda trial: (trial.loss or 0.0, trial.number))


def nearest(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that were measured, sorted by how far they miss the goal's condition, the nearest first."""
    measured = [trial for trial in trials if trial.violation is not None]
    return sorted(measured, key=lambda trial: (trial.violation or 0.0, trial.number))
