"""`p2p-sim audit`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from p2p_sim.cli.options import AsJson, DataDir, Overrides, Quiet, ScenarioFile, check_data_dir, check_figure, one_of
from p2p_sim.cli.scenarios import load


def audit(
    scenario: ScenarioFile,
    overrides: Overrides = None,
    observer: Annotated[
        str, typer.Option(metavar="NAME", help="learner or coalition.", autocompletion=one_of("learner", "coalition"))
    ] = "learner",
    members: Annotated[
        int | None, typer.Option(metavar="C", help="Passive users in the coalition, 1 to 5.  [default: 1]")
    ] = None,
    trials: Annotated[
        int, typer.Option(metavar="N", help="Clusters in each of the two worlds, or targets in one run.")
    ] = 100_000,
    cluster_size: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Users a cluster, 2 to 1,000,000 (curator: 200), of copies of one cluster.  "
            "[default: the scenario's own clusters]",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="events or vectorised; overrides the scenario (of at most 30 users a cluster: always events).",
            autocompletion=one_of("events", "processes", "vectorised"),
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            metavar="E", help="ε at which δ is tested, in small clusters.  [default: the one with most power]"
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the trade-off of an audit in one run (.png, .pdf, .svg)."),
    ] = None,
    data_dir: DataDir = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Attack what a mechanism releases; exit status 1 if the attack proves more than the bound allows.

    Clusters of at most 30 users are attacked view by view. Larger clusters are attacked in one run, at the scenario's
    own size and on its engine.

    Example: p2p-sim audit quickstart --cluster-size 12
    """
    from p2p_sim.audit.small_exchange_attack import audit as attack
    from p2p_sim.cli.printing.small_audits import failure, print_audit

    check_data_dir(data_dir)
    if figure is not None:
        check_figure(figure)
    done = attack(load(scenario, overrides, engine), observer, members, trials, cluster_size, epsilon, data_dir)
    if figure is not None:
        from p2p_sim.cli.printing.one_run_audits import draw_one_run

        draw_one_run(done, figure)
    print_audit(done, json_, asked=cluster_size is not None)
    if not done.passed:
        print(f"p2p-sim: {failure(done)}", file=sys.stderr)
        raise typer.Exit(1)
