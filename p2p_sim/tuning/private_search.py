"""A curator's search as a private selection. Independent runs use true labels; the run with the best noisy score wins.

The ε of the search covers training, score and choice.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from cachetools import LRUCache, cached

from p2p_sim.base import InputError
from p2p_sim.mechanisms import Outcome, Setup, Tally
from p2p_sim.privacy import Accountant, Composition, PrivacyBound, WorstOf
from p2p_sim.privacy.rivals import NoisyScore, RunLaw, Selection, TruncatedNegativeBinomial
from p2p_sim.replicate import PRIVATE, Replicate, row_scored
from p2p_sim.results import read_rows
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps import Batch, Done, Executor, Perform, Serial, Session, Task, attempt, perform, warn
from p2p_sim.tuning.goal import Measured
from p2p_sim.tuning.optuna_study import Trial
from p2p_sim.tuning.run_search import Report, Tuned
from p2p_sim.tuning.search import best
from p2p_sim.tuning.search_outcome import BestSetting, write_outcome
from p2p_sim.tuning.search_space import Settings, Space
from p2p_sim.tuning.trial_runs import TRIAL, Tuning, scenario_with

FIRST_RUN = 1_000_000
"""Replicate index of the first run. All runs have the users of replicate 0, and each run has its own noise."""
SCORE_SHARE = 0.1
"""ε of one run's score, as a share of the ε of the whole selection."""
MOST_SETTINGS = 256
_STEPS = 12
TARGET = "mechanism.target_epsilon"
_NOTHING = Outcome(Tally(np.zeros((0, 0), dtype=np.int64)))


@dataclass(frozen=True)
class PrivateSearchPlan:
    """A private selection with an ε that is known before the first run.

    candidates: scenarios of all settings, with the same users. law: distribution of the number of runs. epsilon: the
    largest ε allowed for the whole selection. score_scale: scale of the noise on the number of right answers.
    run_epsilon: ε of each run's mechanism. bound: the privacy of the whole selection, score and choice included.
    """

    candidates: tuple[Scenario, ...]
    law: RunLaw
    epsilon: float
    score_scale: float
    run_epsilon: float
    bound: PrivacyBound

    @cached_property
    def calibrated(self) -> tuple[Scenario, ...]:
        """The candidate scenarios, with noise for the ε of one run."""
        return tuple(scenario.replace(**{TARGET: self.run_epsilon}) for scenario in self.candidates)

    def runs(self, seed: int, replicate: int = 0) -> list[int]:
        """For each run, the index of a random candidate. The number of runs is drawn from `law`.

        `seed` and `replicate` decide all random numbers: equal pairs give equal runs.
        """
        rng = np.random.default_rng([seed, replicate, 0x5E1EC7])
        return [int(index) for index in rng.integers(len(self.candidates), size=self.law.draw(rng))]


def planned(
    candidates: Sequence[Scenario], epsilon: float, mean_runs: float, data_dir: Path | None = None
) -> PrivateSearchPlan:
    """The plan of a private selection. The selection runs random candidates on the same users, and releases only the
    run with the best noisy score. The noise of each run is chosen such that the whole selection has at most the
    given ε, at the scenarios' δ.

    A run trains and scores on the same users, so the ε of a run counts both. Every run is charged like the worst
    candidate.

    Args:
        candidates: scenarios, at least one, with the key `mechanism.target_epsilon`. epsilon: ε of the whole selection.
        mean_runs: mean number of runs, above 1. The number k ≥ 1 of runs has probability ∝ (1-γ)^k/k, the logarithmic
        distribution; the mean fixes γ in (0, 1). data_dir: where data files are.

    Raises:
        InputError: a mechanism does not fit, the mean number of runs is out of its range, or no noise is enough. A
        mechanism needs a curator, a target ε and an ε at every δ. No parameter may be computed from true labels.
    """
    if mean_runs <= 1.0:
        raise InputError(f"--trials {mean_runs:g}: is the mean number of runs of a private selection; must be above 1")
    scenarios, plan = tuple(candidates), None
    law, scale = TruncatedNegativeBinomial.of_mean(mean_runs, 0.0), 1.0 / (SCORE_SHARE * epsilon)
    # bisection on a logarithmic scale; a run's ε has four digits, so that a file can show it in full
    low, high = epsilon / 100.0, epsilon
    for _ in range(_STEPS):
        middle = float(f"{(low * high) ** 0.5:.4g}")
        bound = _whole(scenarios, middle, scale, law, data_dir)
        if bound.epsilon_upper <= epsilon:
            plan = PrivateSearchPlan(scenarios, law, epsilon, score_scale=scale, run_epsilon=middle, bound=bound)
            low = middle
        else:
            high = middle
    if plan is None:
        raise InputError(f"--epsilon {epsilon:g}: too small for a private selection with {mean_runs:g} runs on average")
    return plan


def _whole(
    candidates: tuple[Scenario, ...], run_epsilon: float, scale: float, law: RunLaw, data_dir: Path | None
) -> PrivacyBound:
    """The privacy bound of a whole selection. At each ε, a run is charged the largest δ of any candidate, composed with
    the privacy of the noisy score.

    Args:
        candidates: scenarios that may be drawn. run_epsilon: ε of each run's mechanism. scale: scale of the noise on
        the score, the number of right answers; the score alone has ε = 1/scale. law: distribution of the number of
        runs. data_dir: where data files are.
    """
    scenarios = [candidate.replace(**{TARGET: run_epsilon}) for candidate in candidates]
    accountants = dict.fromkeys(_accountant(s.model_dump_json(exclude={"learner"}), s, data_dir) for s in scenarios)
    run = Composition((WorstOf(tuple(accountants)), NoisyScore(scale)), (1, 1))
    return Selection(run, law).epsilon(candidates[0].privacy.delta)


@cached(LRUCache(4096), key=lambda text, scenario, data_dir: (text, scenario.folder, data_dir))
def _accountant(text: str, scenario: Scenario, data_dir: Path | None) -> Accountant:
    """The accountant of a scenario's mechanism for the users of replicate 0. An accountant computes ε and δ. A
    mechanism that does not fit a private selection raises an InputError.

    Args:
        text: the scenario as JSON without the learner, which does not affect privacy; part of the cache key.
        scenario: the scenario. data_dir: where data files are.
    """
    people = Replicate(scenario, data_dir=data_dir).people()
    setup = Setup(
        people.cluster_sizes, people.num_classes, scenario.privacy.delta, scenario.engine, scenario.adversaries
    )
    if scenario.mechanism.asks_oracle:
        raise InputError(
            "--look curator: a parameter is computed from true labels, and no ε counts that; set the parameter"
        )
    # runs are scored by true labels, which only a curator sees
    mechanism = scenario.mechanism.deployed(setup)
    if mechanism.trust != "curator":
        raise InputError(
            f"--look curator: mechanism.kind = {scenario.mechanism.kind!r} has no curator who holds true labels and "
            "could score runs; choose released or public"
        )
    accountant = mechanism.accountant_of(_NOTHING, people.cluster_sizes, scenario.situation(people.num_classes))
    if accountant is None:
        raise InputError(f"--look curator: mechanism.kind = {scenario.mechanism.kind!r} states ε at one δ only")
    return accountant


def candidates_of(base: Scenario, space: Space) -> list[Settings]:
    """All settings of a search: every combination of the values. Every searched key needs a list of values.

    Raises:
        InputError: the mechanism takes no target ε, there are too many settings, or a key is not allowed. Keys with a
        range and keys of the noise or the population are not allowed. The message is one line.
    """
    if "target_epsilon" not in type(base.mechanism).model_fields:
        raise InputError(f"--look curator: mechanism.kind = {base.mechanism.kind!r} takes no mechanism.target_epsilon")
    for dimension in space.dimensions:
        key = dimension.key
        if not dimension.values:
            raise InputError(f"--look curator: {key}: must be a list of values, in the table [values] of --search")
        if key.startswith(("population.", "mechanism.target_epsilon", "mechanism.noise")):
            raise InputError(f"--look curator: {key}: cannot be chosen; ε fixes the noise, and users stay the same")
    if space.size > MOST_SETTINGS:
        raise InputError(f"--search: has {space.size:g} settings; at most {MOST_SETTINGS} are allowed here")
    every = itertools.product(*(dimension.values for dimension in space.dimensions))
    return [dict(zip(space.keys, values, strict=True)) for values in every]


def perform_runs(batch: Batch, noise_scale: float) -> list[Done]:
    """Run the tasks of a private selection one after another. Each result has a row, with the model's noisy score as a
    further column, or an error. All tasks have the users of replicate 0. The task's replicate index decides only the
    noise.

    Args:
        batch: the tasks. noise_scale: scale of the noise on the score, the number of labels that the model predicts
        correctly.
    """
    return [attempt(task, lambda task: row_scored(task.case, noise_scale)) for task in batch]


def tune_privately(
    tuning: Tuning,
    mean_runs: int,
    out: Path | None = None,
    executor: Executor | None = None,
    report: Report = lambda ended, wanted: None,
) -> Tuned:
    """Perform the missing runs of a private selection. A run on disk never gets new noise.

    The number of runs is drawn from a public distribution. Every run has a random setting and independent noise. The
    run with the largest noisy score wins. ε covers training, score and choice. At the end the winning setting runs on
    other users, which shows how good the setting is. Only a simulation can do this.

    Args:
        tuning: the search, with look "curator". mean_runs: mean number of runs. out: results directory; None: a
        directory named after the scenario. executor: runs the tasks; default: this process. report: called with the
        numbers of finished and of all runs.

    Raises:
        InputError: the search is not allowed, or no noise is enough for ε.
        Exception: the error of the first run that failed.
    """
    base = tuning.base
    settings, epsilon = candidates_of(base, tuning.space), tuning.goal.largest_epsilon
    targeted = base.replace(**{TARGET: epsilon})
    plan = planned([scenario_with(targeted, each) for each in settings], epsilon, mean_runs, tuning.data_dir)
    warn(base, tuning.data_dir)
    drawn = plan.runs(base.seed)
    trials = [Trial(number, settings[candidate]) for number, candidate in enumerate(drawn)]
    directory, identity = out or tuning.directory, f"{tuning.identity} {mean_runs}"

    with tuning.opened(directory, identity, executor or Serial(), len(trials)) as session:

        def note(ended: int, wanted: int) -> None:
            session.finished = ended
            report(ended, wanted)

        tuning.write_manifest(directory, identity, mean_runs=mean_runs, runs=len(trials))
        # the runs of the selection: the same users, independent noise
        runs = [_task(plan, drawn[trial.number], FIRST_RUN + trial.number, tuning) for trial in trials]
        _run(
            session,
            tuning,
            dict(zip(runs, trials, strict=True)),
            partial(perform_runs, noise_scale=plan.score_scale),
            note,
        )
        rows = {row["replicate"]: row for row in read_rows(directory)}
        # the loss of a run is the negative noisy score
        ended = [
            replace(trial, state="finished", loss=-rows[FIRST_RUN + trial.number][PRIVATE], violation=0.0, replicates=1)
            for trial in trials
        ]
        winner = best(ended)[0]
        # the winner's settings on the users of other replicates
        fresh = [_task(plan, drawn[winner.number], 1 + index, tuning) for index in range(base.replicates)]
        _run(session, tuning, dict.fromkeys(fresh, winner), perform, lambda ended, wanted: None)
        worth = tuple(row for row in read_rows(directory) if row["replicate"] < FIRST_RUN)
        session.store.finish(lambda row: row[TRIAL], lambda row: True)
        # every run is stated with the ε of the whole selection
        total_epsilon = plan.bound.epsilon_upper
        measured = {trial.number: Measured(-(trial.loss or 0.0), total_epsilon) for trial in ended}
        row = {**rows[FIRST_RUN + winner.number], "basis": plan.bound.basis}
        chosen = BestSetting(winner, measured[winner.number].score, worth, total_epsilon, row)
        run_tuning = replace(tuning, base=base.replace(**{TARGET: plan.run_epsilon}))
        files = write_outcome(directory, run_tuning, ended, measured, chosen)
    return Tuned(directory, tuple(ended), chosen, tuple(files))


def _task(plan: PrivateSearchPlan, candidate: int, replicate: int, tuning: Tuning) -> Task:
    """One replicate of a candidate as a task for a worker, with noise for the ε of one run.

    Args:
        plan: the selection. candidate: index of the candidate. replicate: index of the replicate. tuning: the search,
        for the data directory.
    """
    scenario = plan.calibrated[candidate]
    point = Replicate(scenario, data_dir=tuning.data_dir).identity[:16]
    return Task.of(scenario, point, replicate, tuning.data_dir)


def _run(session: Session, tuning: Tuning, trials: dict[Task, Trial], work: Perform, report: Report) -> None:
    """Run the missing tasks, and keep their rows. The first failure ends the selection.

    Args:
        session: the open results directory, with the executor that runs the tasks. tuning: the search. trials: the
        trial of each task. work: takes a batch of tasks and returns a result for each task, a row or an error. report:
        called with the numbers of finished and of all tasks.
    """
    missing = [task for task in trials if not session.store.has(task.point, task.replicate)]
    finished = len(trials) - len(missing)
    report(finished, len(trials))

    def noted(results: Sequence[Done]) -> None:
        nonlocal finished
        finished += len(results)
        report(finished, len(trials))

    failure = session.run(
        ((task,) for task in missing), work, columns=lambda task: tuning.columns(trials[task]), noted=noted, stop=True
    )  # a failure stops the selection: without this run, the privacy bound would not hold
    if failure is not None:
        raise failure.fault or InputError(f"run {trials[failure.task].number}: {failure.error}")
