"""The commands that read results directories, and the command that opens the explorer."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from p2p_sim.base import InputError, needs
from p2p_sim.cli.options import AsJson, Quiet, one_of

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Results directory.", show_default=False)]


def plot(
    directory: Directory,
    *,
    x: Annotated[
        str | None, typer.Option(metavar="COL", help="Column on the x axis.  [default: epsilon_upper]")
    ] = None,
    y: Annotated[
        str | None,
        typer.Option(
            metavar="COL", help="Column on the y axis, such as accuracy.  [default: excess_risk, else accuracy]"
        ),
    ] = None,
    group: Annotated[str | None, typer.Option(metavar="COL", help="One line for each value.")] = None,
    facet: Annotated[str | None, typer.Option(metavar="COL", help="One panel for each value.")] = None,
    heat: Annotated[str | None, typer.Option(metavar="COL", help="Draw this column as colours over two axes.")] = None,
    fit: Annotated[bool, typer.Option("--fit", help="Fit theoretical curves and slopes to the excess risk.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The figure.  [default: in DIR]")] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="png|svg|pdf",
            help="Kind of file.  [default: png]",
            autocompletion=one_of("png", "svg", "pdf"),
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Draw columns of results, or by default the figures of the sweep file.

    At each point, ε is the largest value of all replicates. Other columns are means with 95% intervals.

    Example: p2p-sim plot results/my-sweep --x mechanism.flip_prob --y excess_risk --group population.users
    """
    from p2p_sim.results import FigureRequest
    from p2p_sim.results.plots import plot

    for path in plot(directory, FigureRequest(x, y, group, facet, heat=heat, fit=fit), out, format_):
        print(path)


def compare(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="Results directory.", show_default=False)],
    second: Annotated[
        Path, typer.Argument(metavar="SECOND", help="Results directory to compare with FIRST.", show_default=False)
    ],
    y: Annotated[list[str] | None, typer.Option(metavar="COL", help="Column to compare; may be repeated.")] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print differences between two results directories, second minus first, paired by replicate if seeds agree.

    Example: p2p-sim compare results/one results/two --y error_rate
    """
    from p2p_sim.cli.printing.differences import comparison_output
    from p2p_sim.cli.printing.numbers import print_output
    from p2p_sim.results import compare

    print_output(comparison_output(compare(first, second, y or ())), json_)


def report(
    directory: Directory,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The file.  [default: DIR/report.html]")] = None,
    crate: Annotated[
        bool, typer.Option("--crate", help="Describe DIR for archives too: DIR/ro-crate-metadata.json.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write the report on a results directory: one HTML file that opens anywhere, without a network.

    Example: p2p-sim report results/quickstart-540585b2
    """
    from p2p_sim.report import write_crate, write_report

    print(write_report(directory, out))
    if crate:
        print(write_crate(directory))


def explore(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[DIR]...", help="Results directories, or directories that contain some.", show_default=False
        ),
    ] = None,
    port: Annotated[int, typer.Option(metavar="N", help="Port on 127.0.0.1; 0: a free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address, and open no browser.")] = False,
    quiet: Quiet = False,
) -> None:
    """Open the explorer in the browser: how private an exchange is, how good results are, how far a sweep has come.

    The explorer serves this machine alone, on 127.0.0.1, until Ctrl-C. The address has a secret token.

    Example: p2p-sim explore results
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise InputError(f"explore: {needs('Starlette and uvicorn', 'explore')}")
    from p2p_sim.explorer.serve import serve

    def say(address: str) -> None:
        print(address, flush=True)
        if not quiet:
            typer.echo("The explorer runs until Ctrl-C. Keep its address to yourself.", err=True)

    serve(tuple(directories or ()), port, not no_open, say)
