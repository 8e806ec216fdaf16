"""Runs a search, and writes the outcome. A trial is one setting that the search tries; replicates on disk are not run
again. Finally, the best setting is run on fresh replicates.
"""

import json
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from p2p_sim.base import EITHER, InputError, count
from p2p_sim.replicate import row_judged
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps import Batch, Done, Executor, Perform, Serial, attempt, perform, warn
from p2p_sim.tuning.goal import Goal, Measured, check_goal, check_look
from p2p_sim.tuning.optuna_study import JOURNAL, Trial, Trials
from p2p_sim.tuning.search import Search, best, nearest
from p2p_sim.tuning.search_outcome import BestSetting, write_outcome
from p2p_sim.tuning.search_space import USUAL, Dimension, Space, calibrated, noise_key, usual_space
from p2p_sim.tuning.trial_runs import TRIAL, TrialRuns, Tuning

Report = Callable[[int, int], None]
"""A function that is called with two numbers: how many trials have ended, and how many are wanted."""


@dataclass(frozen=True)
class Tuned:
    """A finished search: the directory, the trials, the best setting, and the files that were written."""

    directory: Path
    trials: tuple[Trial, ...]
    best: BestSetting
    files: tuple[Path, ...]


def make_tuning(
    scenario: Scenario, goal: Goal, space: Space | None, look: str = "public", data_dir: Path | None = None
) -> Tuning:
    """The search of a scenario's settings for a goal, checked.

    If the goal has a largest ε and the noise is not searched, the noise is calibrated to this ε where possible.

    Args:
        space: the keys that are varied, with their values; None: the usual keys. look: at which data the choice may
        look, such as "public" or "released".

    Raises:
        InputError: a key, a range or `look` is not allowed; the message is one line.
    """
    check_goal(look, goal)
    noisy = space is not None and any(key in EITHER for key in space.keys)
    fixed = None if goal.epsilon is None or noisy else calibrated(scenario, goal.epsilon)
    own = noise_key(scenario)
    if space is not None and not noisy and goal.epsilon is None and own is not None:
        warnings.warn(f"--accuracy: the search does not vary {own}, which decides ε", stacklevel=2)
    # after a release, only the learner's penalty is left to choose
    penalty = Space((Dimension("learner.l2", *USUAL["learner.l2"]),))
    base = fixed or scenario
    chosen = space or (penalty if look == "released" else usual_space(scenario, noise=fixed is None))
    check_look(look, base, chosen.keys)
    if look == "released":  # all trials share one release: its settings that depend on the learner are fixed here
        base = base.replace(mechanism=base.mechanism.beside(base.learner).model_dump(mode="json"))
    chosen.check(base)
    return Tuning(base, chosen, replace(goal, judged=look == "released"), look, data_dir)


def tune(
    tuning: Tuning,
    trials: int,
    out: Path | None = None,
    executor: Executor | None = None,
    *,
    report: Report = lambda ended, wanted: None,
    work: Perform | None = None,
) -> Tuned:
    """Run the trials of a search that are not on disk, and write its outcome. A later call with more trials extends the
    search. The result is the same for any number of workers and after any interruption.

    Args:
        tuning: the search. trials: number of trials. out: results directory; None: a directory named after the
        scenario. executor: runs the tasks; default: this process. report: called with the numbers of ended and of
        wanted trials. work: runs a batch of tasks and returns a result for each. By default, a result is the task's
        row. In a search that looks at released labels, the row also has an accuracy estimated from these labels.

    Raises:
        InputError: no setting that was tried meets the goal. The message gives the nearest setting; rows and tables are
        kept. Or no trial could be run, or the search is a curator's.
    """
    if tuning.look == "curator":
        raise InputError("tune: a curator's choice is a private selection; call tune_privately")
    directory, identity = out or tuning.directory, tuning.identity
    work = work or (perform_judged if tuning.look == "released" else perform)
    warn(tuning.base, tuning.data_dir)

    with tuning.opened(directory, identity, executor or Serial(), trials) as session, ExitStack() as stop:

        def note(ended: int, wanted: int) -> None:
            session.finished, session.wanted = ended, wanted
            report(ended, wanted)

        store, journal = session.store, directory / JOURNAL
        if not store.stored:
            tuning.write_manifest(directory, identity)
            # delete the journal if no replicate could be run
            stop.push(lambda *_: None if store.stored else journal.unlink(missing_ok=True))
        runs, study = TrialRuns(tuning, session, work), Trials(tuning.space, tuning.base.seed, journal)
        ended = _run_trials(runs, study, trials, report=note)
        # measure the best setting on fresh replicates; write all rows in the order of the trials
        best = _confirmed(tuning, runs, ended)
        tuning.write_manifest(directory, identity, axes=_axes(tuning.space, ended))
        store.finish(lambda row: min(row[TRIAL], len(ended)), lambda row: row[TRIAL] < len(ended))
        measured = {trial.number: _figures(tuning, runs, trial) for trial in ended}
        files = write_outcome(directory, tuning, ended, measured, best)
    if best is None:
        raise InputError(f"--{_missed(tuning, runs, ended)}; {directory} holds all trials")
    return Tuned(directory, tuple(ended), best, tuple(files))


def _run_trials(runs: TrialRuns, study: Trials, wanted: int, *, report: Report) -> list[Trial]:
    """Run the trials of a search in batches, replicate by replicate, and return the trials.

    Raises:
        InputError: no trial could be run.
    """
    tuning, session = runs.tuning, runs.session
    search = Search(
        tuning.space, tuning.goal, tuning.searched, study, runs.measure, early=tuning.look == "public", report=report
    )
    ended = search.run(wanted)
    if not any(trial.replicates for trial in ended):
        raise InputError(
            f"{session.store.directory}: no trial could be run; the first error is: {session.first_error[:300]}"
        )
    return ended


def _axes(space: Space, trials: list[Trial]) -> list[dict[str, Any]]:
    """The searched keys as the axes of a sweep, each with the values of the trials."""
    axes: list[dict[str, Any]] = []
    for key in space.keys:
        # each value once: numbers in ascending order, then texts
        values = {json.dumps(trial.settings[key]): trial.settings[key] for trial in trials}.values()
        ordered = sorted(values, key=lambda value: (isinstance(value, str), value))
        axes.append({"keys": [key], "values": [[value] for value in ordered], "labels": None})
    return axes


def perform_judged(batch: Batch) -> list[Done]:
    """Runs tasks one after another and returns a row or an error for each. A row also has an estimate of the accuracy
    (`validated`) and the ends of its interval (`validated_lower`, `validated_upper`). The estimate uses no true labels:
    a model learns from two thirds of the released noisy labels, and the other third judges the model.
    """
    return [attempt(task, lambda task: row_judged(task.case)) for task in batch]


def _confirmed(tuning: Tuning, runs: TrialRuns, ended: list[Trial]) -> BestSetting | None:
    """The best trial that can also be run in fresh replicates, at which the search did not look; None: there is no such
    trial. The trial's ε must stay within the goal's largest ε in all replicates. The goal's condition on accuracy is
    not checked again.
    """
    count = tuning.searched
    for trial in best(ended):
        fresh = range(count, count + tuning.base.replicates)
        measured = runs.measure([replace(trial, state="running")], fresh)[trial.number]
        searched, rows = runs.rows(trial, range(count)), runs.rows(trial, fresh)
        worst = max([*searched, *rows], key=lambda row: tuning.goal.measured(row).epsilon)
        epsilon = tuning.goal.measured(worst).epsilon
        if None not in measured.values() and epsilon <= tuning.goal.largest_epsilon:
            score = tuning.goal.score([tuning.goal.measured(row) for row in searched])
            return BestSetting(trial, score, tuple(rows), epsilon, worst)
    return None


def _figures(tuning: Tuning, runs: TrialRuns, trial: Trial) -> Measured | None:
    """Mean score and largest ε of a trial over the replicates that the search looked at; None: it looked at no
    replicate.
    """
    replicates = [tuning.goal.measured(row) for row in runs.rows(trial, range(trial.replicates))]
    if not replicates:
        return None
    return Measured(tuning.goal.score(replicates), max(replicate.epsilon for replicate in replicates))


def _missed(tuning: Tuning, runs: TrialRuns, ended: list[Trial]) -> str:
    """An error's message if no trial meets the goal, such as "epsilon 1: none of 8 trials meets it; the nearest is
    ...". The message states the goal, the nearest ε or accuracy, and the settings of that trial. At least one trial in
    `ended` has results.
    """
    goal, close = tuning.goal, [*best(ended), *nearest(ended)][0]
    rows = runs.rows(close, range(tuning.searched + tuning.base.replicates))
    replicates = [goal.measured(row) for row in rows]
    by = ", ".join(f"{key} = {value}" for key, value in close.settings.items())
    near = f"none of {count(len(ended), 'trial')} meets it; the nearest is"
    if goal.epsilon is not None:
        epsilon = max(replicate.epsilon for replicate in replicates)
        return f"epsilon {goal.epsilon:g}: {near} {epsilon:.4g}, by {by}"
    return f"accuracy {goal.accuracy:g}: {near} {goal.score(replicates):.4g}, by {by}"
