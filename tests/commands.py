"""The command line in this process: what a command prints and its exit status, without a start of Python."""

import contextlib
import io
import sys
from unittest import mock

from p2p_sim.cli.main import main


def command(*arguments: object) -> tuple[int, str, str]:
    """Status, standard output and standard error of `p2p-sim` with these arguments."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    program = mock.patch.object(sys, "argv", ["p2p-sim", *map(str, arguments)])
    with program, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ending:
            status = int(ending.code or 0)
    return status, out.getvalue(), err.getvalue()


def unwrapped(text: str) -> str:
    """What a command prints in one line: into a pipe it has lines of at most 100 columns."""
    return " ".join(text.split())
