"""The command that runs sweeps."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2p_sim.base.errors import InputError
from p2p_sim.cli.options import AsJson, DataDir, Quiet, check_data_dir, interrupted, one_of
from p2p_sim.cli.scenarios import located

if TYPE_CHECKING:
    from p2p_sim.sweeps.plan import Plan
    from p2p_sim.sweeps.work import Executor


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
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Local processes.  [default: one per core]", show_default=False)
    ] = None,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS|FILE", help="A Dask scheduler's address, or its scheduler file.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="shards",
            help='"shards": distribute every single replicate over the workers.',
            autocompletion=one_of("shards"),
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard earlier results of this sweep.")] = False,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a base scenario over axes of values; the same command again resumes a stopped sweep.

    Example: p2p-sim sweep privacy-utility --workers 2
    """
    from p2p_sim.cli.printing.sweep import print_plan, print_sweep, print_sweep_json, progress
    from p2p_sim.outputs.plots import draw_plots
    from p2p_sim.storage.rows import discard, held_replicates
    from p2p_sim.sweeps.drive import run_sweep
    from p2p_sim.sweeps.plan import load_sweep
    from p2p_sim.sweeps.point import default_directory

    check_data_dir(data_dir)
    plan = load_sweep(located(file, sweep=True), overrides or (), data_dir)
    directory = out or default_directory(plan.name, plan.sweep_identity)
    executor = _executor(plan, workers, dask, split)
    if fresh and not dry_run:
        discard(directory, plan.sweep_identity)
    if not json_ and (dry_run or not quiet):
        print_plan(plan, held_replicates(directory, plan.sweep_identity), str(directory))
    if dry_run:
        return
    try:
        with progress(plan.name, quiet) as report:
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


def _executor(plan: "Plan", workers: int | None, dask: str | None, split: str | None) -> "Executor":
    """Where to run."""
    import os

    from p2p_sim.sweeps.work import Serial

    if workers is not None and dask is not None:
        raise InputError(f"--workers {workers}: does not go with --dask, where the cluster says how many there are")
    if workers is not None and not 1 <= workers <= 1024:
        raise InputError(f"--workers {workers}: must lie in 1..1024")
    if split is not None and split != "shards":
        raise InputError(f'--split "{split}": must be shards')
    chosen: Executor = Serial()
    if dask is not None:
        from p2p_sim.sweeps.on_dask import DaskWorkers

        chosen = DaskWorkers(dask, packages=plan.packages)
    elif (count := workers or os.cpu_count() or 1) > 1:
        from p2p_sim.sweeps.local import LocalProcesses

        chosen = LocalProcesses(count)
    if split is None:
        return chosen
    from p2p_sim.sweeps.split import SplitShards

    plan.base.network.check_splittable()
    return SplitShards(chosen)
