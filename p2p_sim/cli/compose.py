"""The command that adds up what happened to the same users: it parses and prints; the rest is in `releases`."""

from pathlib import Path
from typing import Annotated

import typer

from p2p_sim.base.errors import InputError
from p2p_sim.cli.options import AsJson, DataDir, Quiet, check_data_dir, check_figure


def compose(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Releases, in TOML.", show_default=False)],
    user: Annotated[
        int | None, typer.Option(metavar="N", help="Also the account of one user, by her number from 0.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw trade-off curves and δ against ε (.png, .pdf, .svg).")
    ] = None,
    data_dir: DataDir = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print what several releases about the same users cost together: exchanges, DP-SGD, scenarios, statements.

    Example: p2p-sim compose examples/releases/two-years.toml
    """
    from p2p_sim.cli.printing.compose import print_accounts, print_accounts_json
    from p2p_sim.cli.releases import accounts

    check_data_dir(data_dir)
    if figure is not None:
        check_figure(figure)
    if user is not None and user < 0:
        raise InputError(f"--user {user}: must be at least 0")
    found = accounts(file, user, data_dir)
    if figure is not None:
        from p2p_sim.analysis.figures.composition import plot_composition

        account = found[-1]
        parts = [(line.release.label, model) for line, model in zip(account.lines, account.total.releases, strict=True)]
        plot_composition(account.total, parts, account.delta, figure)
    if json_:
        print_accounts_json(found)
        return
    print_accounts(found)
    if figure is not None:
        print(figure)
