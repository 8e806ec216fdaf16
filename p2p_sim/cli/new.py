"""The command that writes a first scenario: it parses and prints; the rest happens in the packages below."""

from pathlib import Path
from typing import Annotated

import typer

from p2p_sim.base.errors import InputError
from p2p_sim.cli.options import Quiet


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the scenario.", show_default=False)],
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="SCENARIO", help="A shipped scenario, or a file, to begin with: quickstart."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="One's own table (.csv, .tsv, .csv.gz, .parquet, .feather).")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column that is to be protected, for --data.")
    ] = None,
    separator: Annotated[
        str | None, typer.Option(metavar="SIGN", help="What stands between two cells of the table, if it is not clear.")
    ] = None,
    decimal: Annotated[
        str | None, typer.Option(metavar="SIGN", help="Decimal sign of the table's numbers, if it is not clear.")
    ] = None,
    thousands: Annotated[
        str | None, typer.Option(metavar="SIGN", help="What stands between thousands in the table, if it is not clear.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Encoding of the table: utf-8, utf-16, latin-1, ...")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write a commented scenario, NAME.toml, here: a copy of one that exists, or one for a table of one's own.

    Example: p2p-sim new mine --from quickstart
    """
    from p2p_sim.cli.new_scenario import copied, from_table
    from p2p_sim.cli.printing.numbers import say
    from p2p_sim.replicate.replicate import default_directory

    if data is None:
        if label is not None:
            raise InputError(f"--label {label}: names a column of a table; give the table with --data FILE")
        made = copied(name, start or "quickstart")
    elif start is not None:
        raise InputError(f"--from {start}: does not go with --data {data}; choose one")
    else:
        given = {"separator": separator, "decimal": decimal, "thousands": thousands, "encoding": encoding}
        made = from_table(name, data, label, {key: value for key, value in given.items() if value is not None})
    print(made.path)
    if quiet:
        return
    for note in made.notes:
        say(f"  {note}")
    print(f"next: p2p-sim validate {made.path}   p2p-sim run {made.path}")
    if made.identity is not None:
        print(f"then: p2p-sim report {default_directory(made.path.stem, made.identity)}")
    if made.loss:
        say(made.loss)
