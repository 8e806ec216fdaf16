"""The command about data sets that are read from files."""

from typing import Annotated

import typer

from p2p_sim.base.errors import InputError
from p2p_sim.cli.options import DataDir, Quiet, check_data_dir, one_of

ACTIONS = ("list", "where", "check", "fetch")


def data(
    action: Annotated[
        str,
        typer.Argument(
            metavar="ACTION", help="list, where, check or fetch.", show_default=False, autocompletion=one_of(*ACTIONS)
        ),
    ],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Data sets; without a name, all.", show_default=False)
    ] = None,
    data_dir: DataDir = None,
    quiet: Quiet = False,
) -> None:
    """Data sets that are read from files: list them, say where each file goes, check what is here, or fetch them.

    check compares every file with its check figure (SHA-256). Its exit status is 1 if a file differs, or if one of the
    named data sets is not complete. fetch gets the named data sets from their public sources and makes the directory,
    if there is none; it needs a network and pooch, which the extra "data" installs.

    Example: p2p-sim data list
    """
    from p2p_sim.cli.printing import data_set_list as printing
    from p2p_sim.population.data_sets import check, data_set, data_sets, fetch
    from p2p_sim.replicate.replicate import data_directory

    if action != "fetch":  # which makes the directory
        check_data_dir(data_dir)
    if action not in ACTIONS:
        raise InputError(f"data {action}: must be one of {', '.join(ACTIONS)}")
    chosen = [data_set(name) for name in names] if names else list(data_sets().values())
    directory = data_directory(data_dir)
    places = () if directory is None else (directory,)
    if action == "list":
        printing.print_list(chosen, in_full=bool(names))
    elif action == "where":
        printing.print_where([(one, check(one, places, read=False)) for one in chosen], directory)
    elif action == "check":
        if directory is None:
            raise InputError("data check: no directory of data files is named; use --data-dir DIR or set P2P_SIM_DATA")
        faults = printing.print_check(((one, check(one, places)) for one in chosen), directory, named=bool(names))
        if faults:
            raise typer.Exit(1)
    else:
        if directory is None or not names:
            raise InputError(
                "data fetch: needs the names of data sets, and their directory: --data-dir DIR or P2P_SIM_DATA"
            )
        for one in chosen:
            printing.print_fetched(one, fetch(one, directory))
