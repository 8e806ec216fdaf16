"""Parts that several commands share: the help's layout, options, checks of files, and the end of a stopped command."""

import os
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from p2p_sim.base import InputError, no_directory


class Command(TyperCommand):
    """A command. The help shows the paragraph that begins with "Example: " as lines for a shell."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The pieces of the usage line. Arguments have their names without braces. ctx: Click's context of the call."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the command's description, and the example as lines for a shell.

        Args:
            ctx: Click's context of the call, not used here. formatter: Click's writer of the help text.
        """
        text, _, example = (self.help or "").partition("Example: ")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text.strip())
        if example:
            with formatter.section("Example"):
                for line in shell_lines(example.strip(), formatter.width - 4):
                    formatter.write(f"  {line}\n")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options as two lists with descriptions. An option also has the name of its value.

        Args:
            ctx: Click's context of the call. formatter: Click's writer of the help text.
        """
        # a help record has an argument's name (metavar) twice, so the parameter gives the name
        parts: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                named = param.param_type_name == "option"
                name = record[0] if named else str(param.metavar or record[0])
                parts["Options" if named else "Arguments"].append((name, record[1]))
        for title, records in parts.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Commands(TyperGroup):
    """The group of all commands. The group's help shows the first paragraph of each command's own help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of all commands, each with the first paragraph of its help.

        Args:
            ctx: Click's context of the call, not used here. formatter: Click's writer of the help text.
        """
        with formatter.section("Commands"):
            formatter.write_dl([(name, first_sentence(command.help or "")) for name, command in self.commands.items()])


class App(typer.Typer):
    """The command line, in which every command is a `Command`."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """A decorator that makes a function a command, whose help shows the example as lines for a shell.

        name: the command's name; None: the function's name.
        """
        return super().command(name, **{"cls": Command, **settings})


def first_sentence(text: str) -> str:
    """The first paragraph of a text in one line.

    >>> first_sentence("Print what\\nis known.\\n\\nExample: p2p-sim")
    'Print what is known.'
    """
    return " ".join(text.strip().split("\n\n")[0].split())


def shell_lines(command: str, width: int) -> list[str]:
    """A command in lines of at most `width` columns; longer words stay whole. A shell reads the lines as one command.

    >>> shell_lines("p2p-sim run one.toml --set seed=2", 22)
    ['p2p-sim run one.toml \\\\', '    --set seed=2']
    """
    lines = textwrap.wrap(command, width - 2, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def _version(wanted: bool) -> None:
    """If `wanted`, print the versions of p2p-sim, Python and NumPy, and end the command without an error. The option
    --version sets `wanted`.
    """
    if wanted:
        from p2p_sim.base import versions

        print(", ".join(f"{name} {version}" for name, version in versions().items()))
        raise typer.Exit


def check_data_dir(data_dir: Path | None) -> Path | None:
    """The value of the option --data-dir. Raise InputError if the data directory does not exist; None is allowed."""
    if data_dir is not None and not data_dir.is_dir():
        raise InputError(f"--data-dir {data_dir}: {no_directory(data_dir)}")
    return data_dir


ScenarioFile = Annotated[
    Path,
    typer.Argument(metavar="SCENARIO", help="File or name of a scenario, such as quickstart.", show_default=False),
]
Version = Annotated[
    bool,
    typer.Option("--version", callback=_version, is_eager=True, help="Print p2p-sim's, Python's, NumPy's version."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key, in TOML syntax: mechanism.flip_prob=0.2"),
]
_data_dir = partial(
    typer.Option, "--data-dir", metavar="DIR", help="Directory of data files.  [default: $P2P_SIM_DATA]"
)
DataDir = Annotated[Path | None, _data_dir(callback=check_data_dir)]
NewDataDir = Annotated[Path | None, _data_dir()]
"""A data directory that need not exist yet."""
ResultsDir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Results directory.  [default: results/NAME-HASH]")
]


class Note(UserWarning):
    """A warning that is printed without the word "warning"."""


def _hush(quiet: bool) -> bool:
    """The value of the option --quiet. The option switches warnings off for the rest of the command."""
    if quiet:
        warnings.simplefilter("ignore")  # `main` restores the filters at its end
    return quiet


Workers = Annotated[
    int | None, typer.Option(metavar="N", help="Local processes.  [default: one per core]", show_default=False)
]
Dask = Annotated[
    str | None, typer.Option(metavar="ADDRESS|FILE", help="A Dask scheduler's address, or its scheduler file.")
]
Split = Annotated[
    str | None,
    typer.Option(
        metavar="shards",
        help='"shards": distribute every single replicate over the workers.',
        autocompletion=lambda: ["shards"],
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="No progress, plan or warnings; after a run, print only its files.", callback=_hush
    ),
]


def one_of(*names: str) -> Callable[[], list[str]]:
    """A function that returns a list of the given names. The shell offers these names when it completes an option."""
    return lambda: list(names)


FIGURES = (".png", ".pdf", ".svg")
"""Allowed endings of a figure's file."""


def check_file(option: str, path: Path | None, endings: tuple[str, ...]) -> None:
    """Raise InputError if an output file has an ending that is not allowed, or cannot be written.

    option: the option's name, for messages. path: the file; None is allowed. endings: the allowed endings, such as
    ".png".
    """
    if path is None:
        return
    if path.suffix.lower() not in endings:
        raise InputError(f"{option} {path}: must end in {', '.join(endings[:-1])} or {endings[-1]}")
    if path.is_dir():
        raise InputError(f"{option} {path}: is a directory, not a file")
    if not path.parent.is_dir():
        raise InputError(f"{option} {path}: there is no directory {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{option} {path}: cannot be written")


@contextmanager
def interruptible() -> Iterator[None]:
    """A context in which Ctrl-C ends the command with exit status 130 and a line that says what is finished."""
    try:
        yield
    except KeyboardInterrupt as stop:
        print(str(stop) or "interrupted", file=sys.stderr)
        raise typer.Exit(130) from None
