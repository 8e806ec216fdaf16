"""The command that runs sweeps."""

from pathlib import Path
from typing import Annotated

import typer

from p2p_sim.cli.options import AsJson, Dask, DataDir, Quiet, Split, Workers, check_data_dir, interrupted
from p2p_sim.cli.scenarios import located


def sweep(
    file: Annotated[
        Path, typer.Argument(metavar="SWEEP", help="File, or name of a sweep of p2p-sim: users.", show_default=False)
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the base scenario, or replicates=N."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Results directory.  [default: results/NAME-HASH]")
    ] = None,
    data_dir: DataDir = None,
    workers: Workers = None,
    dask: Dask = None,
    split: Split = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")] = False,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a base scenario over axes of values; the same command again resumes a stopped sweep.

    Example: p2p-sim sweep privacy-utility --workers 2
    """
    check_data_dir(data_dir)
    where = located(file, sweep=True)  # says where it is before the rest is loaded
    from p2p_sim.cli.executors import for_sweep
    from p2p_sim.cli.printing.sweep_progress import print_plan, print_sweep, print_sweep_json, progress
    from p2p_sim.replicate.replicate import default_directory
    from p2p_sim.results.plots import draw_plots
    from p2p_sim.results.rows import held_replicates
    from p2p_sim.sweeps.plan import load_sweep
    from p2p_sim.sweeps.run_sweep import run_sweep

    plan = load_sweep(where, overrides or (), data_dir)
    directory = out or default_directory(plan.name, plan.sweep_identity)
    executor = for_sweep(plan, workers, dask, split)
    if not json_ and (dry_run or not quiet):
        print_plan(plan, held_replicates(directory, plan.sweep_identity), str(directory))
    if dry_run:
        return
    try:
        with progress(plan.name, plan.size * plan.replicates, quiet) as report:
            result = run_sweep(plan, directory, executor, report)
    except KeyboardInterrupt as stop:
        raise interrupted(stop) from None
    figures = list(map(str, draw_plots(directory, result.rows)))
    if json_:
        print_sweep_json(plan, result, figures)
    else:
        print_sweep(plan, result, figures, quiet)
    if result.failed:
        raise typer.Exit(1)
