"""A search by a curator who holds true labels: runs of a private selection, the winner, and what all of it costs."""

import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from p2p_sim.base.errors import InputError
from p2p_sim.replicate.advice import advice
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.selection_scores import PRIVATE
from p2p_sim.results.rows import Row, Store, open_store, read_rows, write_manifest
from p2p_sim.sweeps.interrupts import counted
from p2p_sim.sweeps.tasks import Executor, Perform, Serial, Task, perform
from p2p_sim.tuning.goal import Measured
from p2p_sim.tuning.optuna_study import Trial
from p2p_sim.tuning.private_search import FIRST_RUN, TARGET, PrivateSearchPlan, candidates_of, perform_runs, plan_of
from p2p_sim.tuning.run_search import Found, Told, Tuned, Tuning
from p2p_sim.tuning.search_outcome import write_outcome
from p2p_sim.tuning.trial_runs import LOOK, TRIAL


def tune_privately(
    tuning: Tuning,
    mean_runs: int,
    out: Path | None = None,
    executor: Executor | None = None,
    told: Told = lambda done, total: None,
) -> Tuned:
    """Run a private selection: what is missing of it; the runs that are on disk are never drawn again.

    Every run draws its setting alike, and has its own noise. How many runs there are follows a public law. The one with
    the largest private score is chosen. ε is that of the whole: training, score and choice. Its settings then run again
    on other users, which only a simulation can do, to show what they are worth.

    Args:
        tuning: the search, of look "curator". mean_runs: how many runs there are on average.
        out, executor, told: as in `tune`.

    Raises:
        InputError: no noise is enough for ε, or no run could be run.
    """
    assert tuning.goal.epsilon is not None
    base, executor = tuning.base, executor or Serial()
    plan = plan_of(base, tuning.space, tuning.goal.epsilon, mean_runs, tuning.data_dir)
    for line in advice(Replicate(base, data_dir=tuning.data_dir)):
        warnings.warn(line, stacklevel=2)
    settings, drawn = candidates_of(base, tuning.space), plan.runs(base.seed)
    trials = [Trial(number, settings[place]) for number, place in enumerate(drawn)]
    directory, identity = out or tuning.directory, f"{tuning.identity} {mean_runs}"
    described = {**tuning.described, "kind": "tune", "mean_runs": mean_runs, "runs": len(trials)}

    def check(row: Row) -> None:
        if any(key not in row for key in (*tuning.space.keys, TRIAL, LOOK)):
            raise InputError(f"{directory}: holds a row of another search")

    with open_store(directory, identity, check) as store, ExitStack() as stop:
        stop.enter_context(counted(lambda: (len(store.done), len(trials))))
        write_manifest(directory, base.name, base, identity, base.replicates, base.packages, described)
        tasks = [_task(plan, place, FIRST_RUN + number, tuning) for number, place in enumerate(drawn)]
        work = partial(perform_runs, noise_scale=plan.score_scale)
        _run(store, executor, list(zip(tasks, trials, strict=True)), work, told)
        rows = {row["replicate"]: row for row in read_rows(directory) if row["replicate"] >= FIRST_RUN}
        ended = [_ended(trial, rows[FIRST_RUN + trial.number]) for trial in trials]
        winner = min(ended, key=lambda one: (one.loss or 0.0, one.number))
        fresh = [_task(plan, drawn[winner.number], 1 + index, tuning) for index in range(base.replicates)]
        _run(store, executor, [(task, winner) for task in fresh], perform, lambda done, total: None)
        worth = [row for row in read_rows(directory) if row["replicate"] < FIRST_RUN]
        store.finish(lambda row: row[TRIAL], lambda row: True)
        measured = {one.number: Measured(-(one.loss or 0.0), plan.bound.epsilon_upper) for one in ended}
        chosen = (winner.settings, plan.bound.epsilon_upper)
        own = replace(tuning, base=base.replace(**{TARGET: plan.run_epsilon}))
        files = write_outcome(directory, own.base, tuning.goal, tuning.look, ended, measured, chosen)
    row = {**rows[FIRST_RUN + winner.number], "basis": plan.bound.basis}
    found = Found(winner, -(winner.loss or 0.0), tuple(worth), plan.bound.epsilon_upper, row)
    return Tuned(directory, tuple(ended), found, tuple(files))


def _task(plan: PrivateSearchPlan, place: int, replicate: int, tuning: Tuning) -> Task:
    scenario = plan.calibrated[place]
    point = Replicate(scenario, data_dir=tuning.data_dir).identity[:16]
    data = None if tuning.data_dir is None else str(tuning.data_dir)
    return Task(point, replicate, scenario.model_dump_json(), str(scenario.folder), data)


def _run(store: Store, executor: Executor, wanted: list[tuple[Task, Trial]], work: Perform, told: Told) -> None:
    """Run tasks that are not on disk yet, and keep their rows."""
    missing = {task.replicate: (task, trial) for task, trial in wanted if not store.has(task.point, task.replicate)}
    ready = len(wanted) - len(missing)
    told(ready, len(wanted))

    def batches() -> Iterator[tuple[Task, ...]]:
        for task, _ in missing.values():
            yield (task,)

    for results in executor.run(batches(), work):
        for one in results:
            trial = missing[one.task.replicate][1]
            if one.row is None:
                raise one.fault or InputError(f"run {trial.number}: {one.error}")
            columns = {**trial.settings, TRIAL: trial.number, LOOK: "curator"}
            store.append([{**one.row, **columns}], [one.wall_s], [one.terms])
        ready += len(results)
        told(ready, len(wanted))


def _ended(trial: Trial, row: Row) -> Trial:
    return replace(trial, state="finished", loss=-row[PRIVATE], violation=0.0, replicates=1)
