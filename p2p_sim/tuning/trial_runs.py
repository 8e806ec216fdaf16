"""A search ready to run, and the replicates of its trials, run by the workers of sweeps and kept as rows."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from p2p_sim.base import EITHER, InputError, drop_key
from p2p_sim.replicate import Replicate, Row, default_directory
from p2p_sim.results import read_rows, write_manifest
from p2p_sim.scenario import MODEL_VERSION, Scenario
from p2p_sim.sweeps import Done, Executor, Perform, Session, Task, open_session, perform
from p2p_sim.tuning.goal import Goal
from p2p_sim.tuning.optuna_study import Trial
from p2p_sim.tuning.search import ByReplicate
from p2p_sim.tuning.search_space import Settings, Space

TRIAL, LOOK = "trial", "look"
"""Two columns that the rows of a search have besides those of a sweep: the trial's number, and what the search looks
at.
"""


def scenario_with(base: Scenario, settings: Settings) -> Scenario:
    """The base scenario with the settings of a trial. Kinds are set before the keys that belong to them."""
    ordered = sorted(settings, key=lambda key: not key.endswith(".kind"))
    return base.replace(**{key: settings[key] for key in ordered})


@dataclass(frozen=True)
class Tuning:
    """A search ready to run.

    base: the scenario; if ε fixes its noise, the noise is calibrated. space: the keys that are varied, with their
    values.
    goal: the score or ε by which settings are compared. look: what the choice looks at, one of "public", "released",
    "curator" and "oracle".
    data_dir: where data files are.
    """

    base: Scenario
    space: Space
    goal: Goal
    look: str = "public"
    data_dir: Path | None = None

    @property
    def identity(self) -> str:
        """Hash of everything on which the search depends except the number of trials, so that more trials extend it."""
        tree = self.base.canonical()
        for key in self.space.keys:
            for name in EITHER if key in EITHER else (key,):
                drop_key(tree, name)
        whole = {
            "base": tree,
            "data": list(Replicate(self.base, data_dir=self.data_dir).checksums),
            "model": MODEL_VERSION,
            "replicates": self.base.replicates,
            "search": self.described,
        }
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()

    @property
    def described(self) -> dict[str, Any]:
        """The search as its manifest states it, a dict with the goal (column, largest ε, least accuracy), the space
        (each key with its values), the batch (how many trials are chosen together), and the look (what the choice looks
        at).
        """
        goal = {"column": self.goal.column, "epsilon": self.goal.epsilon, "accuracy": self.goal.accuracy}
        space = [dimension.described() for dimension in self.space.dimensions]
        return {"goal": goal, "space": space, "batch": self.space.batch, "look": self.look}

    @property
    def searched(self) -> int:
        """The number of replicates on which the search compares settings. If the search looks at public data or true
        labels, it is the scenario's number. It is 1 if the search looks at released labels, since there is only one
        release. It is also 1 if the search is a curator's private selection, since there is only one group of users.
        """
        return self.base.replicates if self.look in ("public", "oracle") else 1

    @property
    def truth(self) -> Goal:
        """The search's goal (score, and condition on ε or accuracy), but with scores computed from users' true labels
        rather than estimated from released labels; only a simulation knows true labels.
        """
        return replace(self.goal, judged=False)

    @property
    def directory(self) -> Path:
        """The default results directory."""
        return default_directory(f"{self.base.name}-tune", self.identity)

    def write_manifest(self, directory: Path, identity: str, **extra: object) -> None:
        """Write the manifest of the search, the file that says what was run, into its results directory.

        Args:
            directory: of the results. identity: the hash that results of this search must have; a private selection
            adds its mean number of runs to the search's own `identity`. extra: further entries besides those of the
            scenario and of the search.
        """
        base, search = self.base, {**self.described, "kind": "tune", **extra}
        write_manifest(
            directory, base, name=base.name, identity=identity, replicates=base.replicates, packages=base.packages,
            extra=search,
        )  # fmt: skip

    def columns(self, trial: Trial) -> dict[str, Any]:
        """The columns that a trial's rows have besides those of its replicates: the values of the searched keys, the
        trial's number, and what the search looks at ("public", "released", "curator" or "oracle"). A trial is one
        setting that the search tries.
        """
        return {**trial.settings, TRIAL: trial.number, LOOK: self.look}

    def opened(
        self, directory: Path, identity: str, executor: Executor, wanted: int
    ) -> AbstractContextManager[Session]:
        """A context with an open results directory, in which tasks are run and their rows are kept; no other process
        can write to it meanwhile. An InputError is raised if a row on disk lacks a searched key or the columns of a
        search.

        Args:
            directory: of the results. identity: the hash that results already there must have. executor: runs the
            tasks. wanted: the total that messages on progress name.
        """

        def check(row: Row) -> None:
            if any(key not in row for key in (*self.space.keys, TRIAL, LOOK)):
                raise InputError(f"{directory}: holds a row of another search")

        return open_session(directory, identity, executor, check=check, wanted=wanted)


@dataclass
class TrialRuns:
    """The replicates of a search's trials, read from disk or run when they are asked for.

    tuning: the search. session: its open directory. work: runs a batch of tasks.
    """

    tuning: Tuning
    session: Session
    work: Perform = perform
    _points: dict[int, Task | None] = field(default_factory=dict)
    _rows: dict[tuple[str, int], Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = read_rows(self.session.store.directory)
        self._rows.update({(row["scenario"], row["replicate"]): row for row in rows})

    def measure(self, trials: Sequence[Trial], rung: range) -> Mapping[int, ByReplicate]:
        """The score and ε of some trials in some replicates: by the trial's number, then by the replicate's index; None
        for a replicate without a row, and nothing for a trial whose settings are not valid. A trial is one setting that
        the search tries. Replicates that are not on disk are run first, but only for trials with the state "running".

        Args:
            trials: the trials. rung: the replicates' indices. A search measures the first few replicates of all trials,
            then more replicates of those trials that are still hopeful.
        """
        points = {trial.number: self._point(trial) for trial in trials}
        # two trials with the same settings are one point; the later trial runs it
        owner = {point.point: trial for trial in trials if (point := points[trial.number]) is not None}
        running = [
            point for trial in trials if trial.state == "running" and (point := points[trial.number]) is not None
            and owner[point.point] is trial
        ]  # fmt: skip
        missing = [
            replace(point, replicate=index) for index in rung for point in running
            if (point.point, index) not in self._rows
        ]  # fmt: skip
        if missing:
            self.session.run(
                ((task,) for task in missing), self.work, noted=self._note,
                columns=lambda task: self.tuning.columns(owner[task.point]),
            )  # fmt: skip
        return {number: self._measured(point, rung) for number, point in points.items()}

    def rows(self, trial: Trial, replicates: range) -> list[Row]:
        """The rows of some replicates of a trial, as far as they are on disk."""
        point = self._point(trial)
        rows = [] if point is None else [self._rows.get((point.point, index)) for index in replicates]
        return [row for row in rows if row is not None]

    def _point(self, trial: Trial) -> Task | None:
        """The trial's scenario with its identity as a task, which a worker can run. The task has replicate 0, which is
        replaced for other replicates. None if the settings make no valid scenario; a failure is then written down.
        """
        if trial.number not in self._points:
            data_dir = self.tuning.data_dir
            try:
                scenario = scenario_with(self.tuning.base, trial.settings)
                identity = Replicate(scenario, data_dir=data_dir).identity[:16]
            except InputError as error:
                self.session.fail({"point": "", "replicate": 0, "error": str(error), **self.tuning.columns(trial)})
                self._points[trial.number] = None
            else:
                self._points[trial.number] = Task.of(scenario, identity, 0, data_dir)
        return self._points[trial.number]

    def _note(self, results: Sequence[Done]) -> None:
        """Remember the rows of finished tasks."""
        self._rows.update({(run.task.point, run.task.replicate): run.row for run in results if run.row is not None})

    def _measured(self, point: Task | None, rung: range) -> ByReplicate:
        """The score and ε of some replicates of a trial's scenario, by the replicate's index; None for a replicate
        without a row.

        Args:
            point: a task with the scenario's identity; None: the trial has no valid scenario, and the result is empty.
            rung: the replicates' indices.
        """
        if point is None:
            return {}
        rows = {index: self._rows.get((point.point, index)) for index in rung}
        return {index: None if row is None else self.tuning.goal.measured(row) for index, row in rows.items()}
