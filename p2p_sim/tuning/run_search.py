"""The driver of a search: runs what is missing, measures the best setting anew, and writes what was found."""

import json
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from p2p_sim.base.errors import InputError
from p2p_sim.base.notebook_view import count
from p2p_sim.base.toml import EITHER
from p2p_sim.replicate.selection_scores import row_judged
from p2p_sim.results.rows import Row, Store, write_manifest
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps.session import warn
from p2p_sim.sweeps.tasks import Batch, Done, Executor, Perform, Serial, done, perform
from p2p_sim.tuning.goal import Goal, Measured, check_goal, check_look
from p2p_sim.tuning.optuna_study import JOURNAL, Trial, Trials
from p2p_sim.tuning.search import Search, best, nearest
from p2p_sim.tuning.search_outcome import write_outcome
from p2p_sim.tuning.search_space import USUAL, Dimension, Space, calibrated, noise_key, usual_space
from p2p_sim.tuning.trial_runs import TRIAL, TrialRuns, Tuning

Told = Callable[[int, int], None]
"""Called with (trials ended, trials wanted)."""


@dataclass(frozen=True)
class Found:
    """The setting that was found.

    trial: the best one. score: its mean in the search. fresh: rows of replicates that the search did not look at.
    epsilon: the largest certified ε over the replicates of both; its statement is that of `row`.
    """

    trial: Trial
    score: float
    fresh: tuple[Row, ...]
    epsilon: float
    row: Row


@dataclass(frozen=True)
class Tuned:
    """A finished search: its directory, trials, what was found, the files that were written."""

    directory: Path
    trials: tuple[Trial, ...]
    found: Found
    files: tuple[Path, ...]


def make_tuning(
    scenario: Scenario, goal: Goal, space: Space | None, look: str = "public", data_dir: Path | None = None
) -> Tuning:
    """A search of a scenario, checked.

    With a largest ε, noise that is not searched is calibrated to it where the mechanism allows that.

    Args:
        space: what is varied; None: the usual keys.

    Raises:
        InputError: a key, a range or a look that does not fit; one line.
    """
    check_goal(look, goal)
    base, own = scenario, noise_key(scenario)
    noisy = space is not None and any(key in EITHER for key in space.keys)
    fixed = None if goal.epsilon is None or noisy else calibrated(scenario, goal.epsilon)
    if fixed is not None:
        base = fixed
    elif goal.epsilon is None and not noisy and space is not None and own is not None:
        warnings.warn(f"--accuracy: the search does not vary {own}, which decides ε", stacklevel=2)
    penalty = Space((Dimension("learner.l2", *USUAL["learner.l2"]),))  # all that one release leaves open
    chosen = space or (penalty if look == "released" else usual_space(scenario, noise=fixed is None))
    check_look(look, base, chosen.keys)
    if look == "released":  # one release, whatever learner a trial tries: nothing of it follows the learner any more
        base = base.replace(mechanism=base.mechanism.beside(base.learner).model_dump(mode="json"))
    chosen.check(base)
    return Tuning(base, chosen, replace(goal, judged=look == "released"), look, data_dir)


def tune(
    tuning: Tuning,
    trials: int,
    out: Path | None = None,
    executor: Executor | None = None,
    told: Told = lambda done, total: None,
    work: Perform | None = None,
) -> Tuned:
    """Run what is missing of a search and write what it found; running again goes on, more trials extend it.

    The result is the same for any number of workers and after any interruption.

    Args:
        tuning: the search. trials: how many. out: results directory. executor: where to run; default: here.
        told: called as trials end. work: what runs a batch of tasks; default: as the look asks.

    Raises:
        InputError: no setting that was tried meets the goal; says how near one comes. Its rows and tables are kept.
    """
    if tuning.look == "curator":
        raise InputError("tune: a curator's choice is a private selection; call tune_privately")
    directory, identity, base = out or tuning.directory, tuning.identity, tuning.base
    work = work or (perform_judged if tuning.look == "released" else perform)
    warn(base, tuning.data_dir)

    with tuning.opened(directory, identity, executor or Serial(), trials) as session, ExitStack() as stop:

        def noted(done: int, total: int) -> None:
            session.done, session.wanted = done, total
            told(done, total)

        store, manifest = session.store, (directory, base.name, base, identity, base.replicates, base.packages)
        if not store.done:
            write_manifest(*manifest, {**tuning.described, "kind": "tune"})
            stop.callback(_unless_begun, store, directory / JOURNAL)
        study = Trials(tuning.space, base.seed, directory / JOURNAL)
        runs = TrialRuns(tuning, session, work)
        early = tuning.look == "public"
        search = Search(tuning.space, tuning.goal, tuning.searched, study, runs.measure, early, noted)
        ended = search.run(trials)
        if not any(trial.replicates for trial in ended):
            raise InputError(f"{directory}: no trial could be run; the first error is: {session.first_error[:300]}")
        found = _confirmed(tuning, runs, ended)
        order = {trial.number: trial.number for trial in ended}
        axes = [{"keys": [key], "values": _taken(key, ended), "labels": None} for key in tuning.space.keys]
        write_manifest(*manifest, {**tuning.described, "kind": "tune", "axes": axes})
        store.finish(lambda row: order.get(row[TRIAL], len(order)), lambda row: row[TRIAL] in order)
        measured = {trial.number: _figures(tuning, runs, trial) for trial in ended}
        scenario = None if found is None else (found.trial.settings, found.epsilon)
        files = write_outcome(directory, tuning.base, tuning.goal, tuning.look, ended, measured, scenario)
    if found is None:
        raise InputError(f"--{_missed(tuning, runs, ended)}; {directory} holds all trials")
    return Tuned(directory, tuple(ended), found, tuple(files))


def perform_judged(batch: Batch) -> list[Done]:
    """Run tasks one after another, and judge each by released labels that are held back."""
    return [done(task, lambda one: row_judged(one.case)) for task in batch]


def _unless_begun(store: Store, journal: Path) -> None:
    """Remove the journal of a search of which no replicate could be run."""
    if not store.done:
        journal.unlink(missing_ok=True)


def _confirmed(tuning: Tuning, runs: TrialRuns, ended: list[Trial]) -> Found | None:
    """The best trial whose condition on ε holds in replicates that the search did not look at as well."""
    count = tuning.searched
    for trial in best(ended):
        fresh = range(count, count + tuning.base.replicates)
        got = runs.measure([replace(trial, state="running")], fresh)[trial.number]
        searched = runs.rows(trial, range(count))
        rows = runs.rows(trial, fresh)
        every = [*searched, *rows]
        worst = max(every, key=lambda row: tuning.goal.measured(row).epsilon)
        epsilon = tuning.goal.measured(worst).epsilon
        if None in got.values() or (tuning.goal.epsilon is not None and epsilon > tuning.goal.epsilon):
            continue
        score = tuning.goal.score([tuning.goal.measured(row) for row in searched])
        return Found(trial, score, tuple(rows), epsilon, worst)
    return None


def _figures(tuning: Tuning, runs: TrialRuns, trial: Trial) -> Measured | None:
    """Mean score and largest ε of a trial over the replicates that the search looked at."""
    found = [tuning.goal.measured(row) for row in runs.rows(trial, range(trial.replicates))]
    return Measured(tuning.goal.score(found), max(one.epsilon for one in found)) if found else None


def _taken(key: str, trials: list[Trial]) -> list[list[Any]]:
    """The values of a key that trials have, each once."""
    values = {json.dumps(trial.settings[key]): trial.settings[key] for trial in trials}.values()
    return [[value] for value in sorted(values, key=lambda value: (isinstance(value, str), value))]


def _missed(tuning: Tuning, runs: TrialRuns, ended: list[Trial]) -> str:
    """How near the trials come to a goal that none meets, and by what."""
    goal, close = tuning.goal, next(iter(best(ended)), nearest(ended))
    assert close is not None
    figures = _figures(tuning, runs, replace(close, replicates=tuning.searched + tuning.base.replicates))
    assert figures is not None
    by = ", ".join(f"{key} = {value}" for key, value in close.settings.items())
    near = f"none of {count(len(ended), 'trial')} meets it; the nearest is"
    if goal.epsilon is not None:
        return f"epsilon {goal.epsilon:g}: {near} {figures.epsilon:.4g}, by {by}"
    return f"accuracy {goal.accuracy:g}: {near} {figures.score:.4g}, by {by}"
