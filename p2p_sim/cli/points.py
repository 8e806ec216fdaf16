"""The commands that run many points: a sweep, and a search for good settings."""

from pathlib import Path
from typing import Annotated

import typer

from p2p_sim.base import InputError, progress_shown
from p2p_sim.cli.options import (
    AsJson,
    Dask,
    DataDir,
    Overrides,
    Quiet,
    ResultsDir,
    ScenarioFile,
    Split,
    Workers,
    interruptible,
    one_of,
)
from p2p_sim.cli.scenarios import load, located


def sweep(
    file: Annotated[
        Path, typer.Argument(metavar="SWEEP", help="File or name of a sweep, such as users.", show_default=False)
    ],
    *,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the base scenario, or replicates=N."),
    ] = None,
    out: ResultsDir = None,
    data_dir: DataDir = None,
    workers: Workers = None,
    dask: Dask = None,
    split: Split = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")] = False,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a base scenario with all combinations of values; the same command resumes a stopped sweep.

    Example: p2p-sim sweep privacy-utility --workers 2
    """
    where = located(file, sweep=True)  # this may print a note, so it comes before slow imports
    from p2p_sim.cli.executors import for_sweep
    from p2p_sim.cli.printing.sweep_progress import print_plan, print_sweep, print_sweep_json, progress
    from p2p_sim.replicate import default_directory
    from p2p_sim.results import draw_plots, held_replicates
    from p2p_sim.sweeps import load_sweep
    from p2p_sim.sweeps.run_sweep import run_sweep

    # the plan lists all points and replicates, and says which are on disk already
    plan = load_sweep(where, overrides or (), data_dir)
    directory = out or default_directory(plan.name, plan.sweep_identity)
    executor = for_sweep(plan, workers, dask, split)
    if not json_ and (dry_run or not quiet):
        print_plan(plan, held_replicates(directory, plan.sweep_identity), str(directory))
    if dry_run:
        return
    with interruptible(), progress(plan.name, plan.size * plan.replicates, quiet) as report:
        result = run_sweep(plan, directory, executor, report)
    figures = list(map(str, draw_plots(directory, result.rows)))
    if json_:
        print_sweep_json(plan, result, figures)
    else:
        print_sweep(plan, result, figures, quiet)
    if result.failed:
        raise typer.Exit(1)


def tune(
    scenario: ScenarioFile,
    *,
    overrides: Overrides = None,
    goal: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="What is made best within --epsilon: accuracy, error_rate, excess_risk, or half_l1 of densities.",
            autocompletion=one_of("accuracy", "error_rate", "excess_risk", "half_l1"),
        ),
    ] = "accuracy",
    epsilon: Annotated[
        float | None, typer.Option(metavar="E", help="Largest certified ε allowed, at the scenario's δ.")
    ] = None,
    accuracy: Annotated[
        float | None, typer.Option(metavar="A", help="Least mean accuracy allowed; searches for the least ε.")
    ] = None,
    search: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keys to search and their ranges.  [default: the usual keys]")
    ] = None,
    trials: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Number of settings to try; a larger one extends a search. With --look curator: mean number of runs.",
        ),
    ] = 40,
    look: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What the choice looks at: public, released, curator or oracle.",
            autocompletion=one_of("public", "released", "curator", "oracle"),
        ),
    ] = "public",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Results directory.  [default: results/NAME-tune-HASH]")
    ] = None,
    data_dir: DataDir = None,
    workers: Workers = None,
    dask: Dask = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Search the settings of a scenario: the best accuracy within an ε, or the least ε that reaches an accuracy.

    Example: p2p-sim tune quickstart --epsilon 0.5 --set replicates=5
    """
    if not 1 <= trials <= 100_000:
        raise InputError(f"--trials {trials}: must lie in 1..100000")
    chosen = load(scenario, overrides, None)
    from p2p_sim.cli.executors import for_run
    from p2p_sim.cli.printing.numbers import print_output
    from p2p_sim.cli.printing.tuning_trials import tuned_output
    from p2p_sim.tuning import Goal, make_tuning, read_search, tune_privately
    from p2p_sim.tuning import tune as run_search

    space = None if search is None else read_search(search)
    tuning = make_tuning(chosen, Goal(goal, epsilon, accuracy), space, look, data_dir)
    executor = for_run(chosen, workers, None, dask)
    # A curator's search looks at labels. The ε covers this, and the number of trials is random.
    search_with = tune_privately if look == "curator" else run_search
    with interruptible(), progress_shown(chosen.name, "trials", trials, quiet=quiet) as report:
        tuned = search_with(tuning, trials, out, executor, report=report)
    print_output(tuned_output(tuning, tuned, quiet), json_)
