"""A search ready to run, and the replicates of its trials. A trial is one setting that the search tries."""

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
"""Columns that only the rows of a search have: the trial's number and the look (what data the search uses)."""


def scenario_with(base: Scenario, settings: Settings) -> Scenario:
    """The base scenario with the settings of a trial. A kind is set before the keys of this kind."""
    ordered = sorted(settings, key=lambda key: not key.endswith(".kind"))
    return base.replace(**{key: settings[key] for key in ordered})


@dataclass(frozen=True)
class Tuning:
    """A search ready to run.

    base: the scenario; noise that ε fixes is calibrated already. space: the searched keys and their values.
    goal: the score or ε by which settings are compared. look: the kind of data that the search uses: "public",
    "released", "curator" or "oracle".
    data_dir: where data files are.
    """

    base: Scenario
    space: Space
    goal: Goal
    look: str = "public"
    data_dir: Path | None = None

    @property
    def identity(self) -> str:
        """Hash of everything on which the search depends except the number of trials. More trials extend a search."""
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
        """The entries of the search in the manifest: goal, space, batch and look. The batch is the number of trials
        that are chosen together.
        """
        goal = {"column": self.goal.column, "epsilon": self.goal.epsilon, "accuracy": self.goal.accuracy}
        space = [dimension.described() for dimension in self.space.dimensions]
        return {"goal": goal, "space": space, "batch": self.space.batch, "look": self.look}

    @property
    def searched(self) -> int:
        """The number of replicates for each setting. The looks "public" and "oracle" use the scenario's number. For the
        looks "released" and "curator", the number is 1, because only one release or one group of users exists.
        """
        return self.base.replicates if self.look in ("public", "oracle") else 1

    @property
    def truth(self) -> Goal:
        """The goal of the search, but with scores on true labels, which only a simulation knows."""
        return replace(self.goal, judged=False)

    @property
    def directory(self) -> Path:
        """The default results directory."""
        return default_directory(f"{self.base.name}-tune", self.identity)

    def write_manifest(self, directory: Path, identity: str, **extra: object) -> None:
        """Write the manifest of the search, the file that states what was run.

        Args:
            directory: the results directory. identity: the hash that results must have; in a private selection,
            `self.identity` plus the mean number of runs. extra: further entries.
        """
        base, search = self.base, {**self.described, "kind": "tune", **extra}
        write_manifest(
            directory, base, name=base.name, identity=identity, replicates=base.replicates, packages=base.packages,
            extra=search,
        )  # fmt: skip

    def columns(self, trial: Trial) -> dict[str, Any]:
        """The additional columns of a trial's rows: the values of searched keys, the trial's number and the look."""
        return {**trial.settings, TRIAL: trial.number, LOOK: self.look}

    def opened(
        self, directory: Path, identity: str, executor: Executor, wanted: int
    ) -> AbstractContextManager[Session]:
        """Open a session in a results directory. Meanwhile no other process can write to the directory. A row on disk
        without the columns of this search raises an InputError.

        Args:
            directory: the results directory. identity: the hash that results on disk must have. executor: runs the
            tasks. wanted: the total number in messages on progress.
        """

        def check(row: Row) -> None:
            if any(key not in row for key in (*self.space.keys, TRIAL, LOOK)):
                raise InputError(f"{directory}: holds a row of another search")

        return open_session(directory, identity, executor, check=check, wanted=wanted)


@dataclass
class TrialRuns:
    """The replicates of a search's trials, which are read from disk or run.

    tuning: the search. session: the open results directory. work: runs a batch of tasks.
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
        """The score and ε of replicates, by trial number and then by replicate index. Missing replicates of trials with
        the state "running" are run first. A replicate without a row has None. A trial with invalid settings has an
        empty dict.

        Args:
            trials: the trials. rung: the indices of the replicates.
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
        """The rows on disk of some replicates of a trial, in the order of indices. Missing rows are left out."""
        point = self._point(trial)
        rows = [] if point is None else [self._rows.get((point.point, index)) for index in replicates]
        return [row for row in rows if row is not None]

    def _point(self, trial: Trial) -> Task | None:
        """The task of replicate 0 of a trial. Invalid settings give None, and this failure is written down."""
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
        """The score and ε of replicates, by index. A replicate without a row has None.

        Args:
            point: a task of the trial's scenario; None: the settings are invalid, and the result is empty. rung: the
            indices of the replicates.
        """
        if point is None:
            return {}
        rows = {index: self._rows.get((point.point, index)) for index in rung}
        return {index: None if row is None else self.tuning.goal.measured(row) for index, row in rows.items()}
