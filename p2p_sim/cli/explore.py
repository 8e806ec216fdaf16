"""The command that opens the explorer in a browser."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from p2p_sim.base.errors import InputError, needs
from p2p_sim.cli.options import Quiet


def explore(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DIR]...", help="Results directories, or directories of them.", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option(metavar="N", help="Port on 127.0.0.1; 0: a free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address, and open no browser.")] = False,
    quiet: Quiet = False,
) -> None:
    """Open the explorer in the browser: how private an exchange is, what results are worth, how far a sweep is.

    It serves this machine alone, on 127.0.0.1, at an address with a secret token, until Ctrl-C.

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
