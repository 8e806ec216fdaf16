"""The files of a finished search: tables of its trials, a figure, and the best scenario."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from p2p_sim.base import RunFailed, in_place_of, without_formulas, write_whole, writing
from p2p_sim.exchange import NOBODY
from p2p_sim.replicate import Row
from p2p_sim.report import toml
from p2p_sim.scenario import Scenario, load_scenario
from p2p_sim.tuning.goal import COSTS, SCORES, Goal, Measured
from p2p_sim.tuning.optuna_study import Trial
from p2p_sim.tuning.search import is_met
from p2p_sim.tuning.trial_runs import LOOK, TRIAL, Tuning, scenario_with

TRIALS_CSV, TRIALS_TABLE, FIGURE, SCENARIO = "trials.csv", "trials.parquet", "tune.png", "found.toml"


@dataclass(frozen=True)
class BestSetting:
    """The best setting of a search. In a *private selection*, each trial is one run on true labels, and the run with
    the best noisy score wins.

    trial: the best trial; in a private selection, the winning run. score: the mean score in the search; in a private
    selection, the winning run's noisy score. fresh: rows of replicates that the search did not use. epsilon: the
    largest certified ε over searched and fresh replicates; in a private selection, the ε of the whole selection.
    row: the row with this largest ε; in a private selection, the winning run's row.
    """

    trial: Trial
    score: float
    fresh: tuple[Row, ...]
    epsilon: float
    row: Row


def trials_table(
    trials: Sequence[Trial], measured: Mapping[int, Measured | None], goal: Goal, look: str
) -> pd.DataFrame:
    """A table with a row for each trial. The columns are trial (its number), state, replicates, the searched keys, the
    score (named as in `goal`), epsilon_upper, meets_goal and look.

    Args:
        trials: the trials. measured: by trial number, the mean score and the largest ε over replicates; None if the
        trial could not be run. goal: the goal of the search. look: the kind of data that the search used, such as
        "public".
    """
    rows = []
    for trial in trials:  # score and ε are empty if a trial could not be run
        figures = measured[trial.number]
        rows.append(
            {
                TRIAL: trial.number,
                "state": trial.state,
                "replicates": trial.replicates,
                **trial.settings,
                goal.column: None if figures is None else figures.score,
                "epsilon_upper": None if figures is None else figures.epsilon,
                "meets_goal": is_met(trial),
                LOOK: look,
            }
        )
    return pd.DataFrame(rows)


def write_outcome(
    directory: Path,
    tuning: Tuning,
    trials: Sequence[Trial],
    measured: Mapping[int, Measured | None],
    best: BestSetting | None,
) -> list[Path]:
    """Write the trials as two tables, trials.csv and trials.parquet, and a figure, tune.png. If a setting meets the
    goal, also write found.toml, the scenario with this setting. Otherwise an old found.toml is removed. Return the
    files.

    Args:
        directory: the results directory. tuning: the search. trials: the trials of the search. measured: by trial
        number, the mean score and the largest ε over replicates; None if the trial could not be run. best: the best
        setting that meets the goal; None if no setting meets the goal.
    """
    from p2p_sim.figures import plot_search

    goal, look = tuning.goal, tuning.look
    table = trials_table(trials, measured, goal, look)
    with writing(directory):
        with in_place_of(directory / TRIALS_CSV) as partial:
            without_formulas(table).to_csv(partial, index=False)
        with in_place_of(directory / TRIALS_TABLE) as partial:
            table.to_parquet(partial, index=False)
        with in_place_of(directory / FIGURE) as partial:
            plot_search(
                table, goal.column, more=SCORES[goal.column], least_epsilon=goal.accuracy is not None,
                title=f"{tuning.base.name}: {goal}", path=partial,
            )  # fmt: skip
        files = [directory / name for name in (TRIALS_CSV, TRIALS_TABLE, FIGURE)]
        (directory / SCENARIO).unlink(missing_ok=True)  # an earlier call may have written another setting
        if best is not None:
            files.append(directory / SCENARIO)
            write_scenario(files[-1], scenario_with(tuning.base, best.trial.settings), goal, look, best.epsilon)
    return files


def write_scenario(path: Path, scenario: Scenario, goal: Goal, look: str, epsilon: float) -> None:
    """Write a scenario file for `p2p-sim run`, with comments about the search.

    Args:
        path: the file. scenario: the scenario found. goal: the goal of the search. look: the kind of data that the
        search used. epsilon: the largest certified ε over all replicates; in a private selection, the ε of the whole
        selection.
    """
    comments = [f"Found by p2p-sim tune: {goal}.", f"The search's look: {look}: {COSTS[look]}."]
    if look == "oracle":
        comments.append("Do not publish the ε below as the ε of the whole procedure: no ε counts the search itself.")
    if look == "curator":
        comments.append(
            f"ε of the whole selection, score and choice included: {epsilon:.6g}. "
            "The key target_epsilon below is the ε of one run, without its score."
        )
    else:
        comments.append(f"Largest certified ε of the learner over the replicates that were run: {epsilon:.6g}.")
    if scenario.adversaries.coalition != NOBODY.coalition:
        comments.append("The search is about the learner alone, not about the learner together with the coalition.")
    # data files beside the scenario file get their whole path
    tree = _with_whole_paths(scenario.model_dump(mode="json"), scenario.folder)
    write_whole(path, ("".join(f"# {line}\n" for line in comments) + toml(tree) + "\n").encode())
    # read the file back: a file with another scenario would be worse than no file
    if load_scenario(path).content_hash() != scenario.content_hash():
        path.unlink()
        raise RunFailed(f"{path}: the scenario cannot be written as a file")


def _with_whole_paths(tree: Any, folder: Path) -> Any:
    """A scenario's tree of keys, with the whole path in every key `path` that names a file in `folder`."""
    if isinstance(tree, list):
        return [_with_whole_paths(entry, folder) for entry in tree]
    if not isinstance(tree, dict):
        return tree
    whole = {key: _with_whole_paths(value, folder) for key, value in tree.items()}
    path = whole.get("path")
    if isinstance(path, str) and (folder / path).exists():
        whole["path"] = str((folder / path).resolve())
    return whole
