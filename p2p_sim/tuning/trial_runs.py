"""Replicates of trials, run by the workers of sweeps and kept as rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from p2p_sim.base.errors import InputError
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.results.rows import Row, Store, read_rows
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps.tasks import Executor, Perform, Task, perform
from p2p_sim.tuning.goal import Goal, Measured
from p2p_sim.tuning.optuna_study import Trial
from p2p_sim.tuning.search import Found
from p2p_sim.tuning.search_space import Settings

TRIAL, LOOK = "trial", "look"
"""Columns of the rows besides those of sweeps: number of the trial, and what the search looks at."""


def scenario_with(base: Scenario, settings: Settings) -> Scenario:
    """The scenario of a trial; kinds are set before the keys that belong to them."""
    ordered = sorted(settings, key=lambda key: not key.endswith(".kind"))
    return base.replace(**{key: settings[key] for key in ordered})


@dataclass
class TrialRuns:
    """What was run of a search.

    base: its scenario. goal: what is read from rows. look: what it looks at. store: where rows are kept.
    executor, work: who runs tasks, and how.
    """

    base: Scenario
    goal: Goal
    look: str
    store: Store
    executor: Executor
    data_dir: Path | None = None
    work: Perform = perform
    first_error: str = ""
    _points: dict[int, Task | None] = field(default_factory=dict)
    _rows: dict[tuple[str, int], Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for row in read_rows(self.store.directory):
            self._rows[row["scenario"], row["replicate"]] = row

    def measure(self, trials: Sequence[Trial], rung: range) -> Mapping[int, Found]:
        """Some replicates of some trials; those of trials that have ended are read and not run."""
        points = {trial.number: self._point(trial) for trial in trials}
        owner = {point.point: trial for trial in trials if (point := points[trial.number]) is not None}
        missing = [
            Task(point.point, index, point.scenario, point.folder, point.data_dir)
            for index in rung
            for trial in trials
            if trial.state == "running" and (point := points[trial.number]) is not None
            and owner[point.point] is trial and (point.point, index) not in self._rows
        ]  # fmt: skip
        if missing:
            self._run(missing, owner)
        return {
            number: {index: self._measured(point, index) for index in rung} if point is not None else {}
            for number, point in points.items()
        }

    def rows(self, trial: Trial, replicates: range) -> list[Row]:
        """The rows of a trial that are there."""
        point = self._point(trial)
        found = [] if point is None else [self._rows.get((point.point, index)) for index in replicates]
        return [row for row in found if row is not None]

    def _point(self, trial: Trial) -> Task | None:
        """The trial's scenario as a task; None where it is no scenario."""
        if trial.number not in self._points:
            try:
                scenario = scenario_with(self.base, trial.settings)
                identity = Replicate(scenario, data_dir=self.data_dir).identity[:16]
            except InputError as error:
                self._fail(trial, {"error": str(error)})
                self._points[trial.number] = None
            else:
                data = None if self.data_dir is None else str(self.data_dir)
                text, folder = scenario.model_dump_json(), str(scenario.folder)
                self._points[trial.number] = Task(identity, 0, text, folder, data)
        return self._points[trial.number]

    def _run(self, tasks: Sequence[Task], owner: Mapping[str, Trial]) -> None:
        for results in self.executor.run(((task,) for task in tasks), self.work):
            good = [done for done in results if done.row is not None]
            rows = [{**done.row, **self._columns(owner[done.task.point])} for done in good]
            if rows:
                self.store.append(rows, [done.wall_s for done in good], [done.terms for done in good])
                self._rows.update({(row["scenario"], row["replicate"]): row for row in rows})
            for done in results:
                if done.row is None:
                    fault = {"point": done.task.point, "replicate": done.task.replicate, "error": done.error}
                    self._fail(owner[done.task.point], fault)

    def _columns(self, trial: Trial) -> dict[str, Any]:
        return {**trial.settings, TRIAL: trial.number, LOOK: self.look}

    def _fail(self, trial: Trial, fault: dict[str, Any]) -> None:
        self.first_error = self.first_error or str(fault["error"])
        self.store.fail({"point": "", "replicate": 0, **fault, **self._columns(trial)})

    def _measured(self, point: Task, index: int) -> Measured | None:
        row = self._rows.get((point.point, index))
        return None if row is None else self.goal.measured(row)
