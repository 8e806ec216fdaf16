"""The commands about what comes with p2p-sim: scenarios, data sets and references."""

import shlex
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2p_sim.base import EXAMPLES, InputError, find_scenario, is_shipped, read_toml
from p2p_sim.cli.options import AsJson, NewDataDir, Note, Overrides, Quiet, check_data_dir, one_of

if TYPE_CHECKING:
    from p2p_sim import Scenario
    from p2p_sim.population import DataSet
    from p2p_sim.sweeps import SweepResult

EXAMPLE = EXAMPLES / "own_mechanism"


def located(name: Path, sweep: bool = False) -> Path:
    """The path of the file that a command's argument names. If a name stands for a shipped file, a note on standard
    error gives the path.

    name: name of a scenario or sweep, or a path. sweep: whether the sweep is meant if a shipped sweep and a shipped
    scenario have the same name.
    """
    path = find_scenario(name, sweep)
    if path != name and is_shipped(path):
        warnings.warn(f"{name.as_posix()}: comes with p2p-sim ({path})", Note, stacklevel=2)
    return path


def papers() -> list[str]:
    """The BibTeX keys of the papers. The shell offers these keys when it completes the option --paper."""
    from p2p_sim.sweeps import PROJECT, references

    return [key for key in references() if key != PROJECT]


def scenarios(
    copy_example: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Copy the example of a plug-in to a new directory, to install and change."),
    ] = None,
    paper: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Only scenarios and sweeps that rest on this paper; KEY: its BibTeX key.",
            autocompletion=papers,
        ),
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List the scenarios and sweeps that come with p2p-sim and run by name: what each shows, and what it needs.

    Example: p2p-sim scenarios --paper yao2019stacking
    """
    if copy_example is not None:
        _copy(copy_example)
        print(f"{copy_example}: install it with `pip install --editable {copy_example}`", file=sys.stderr)
        return
    from p2p_sim.cli.printing.lists import catalogue_output
    from p2p_sim.cli.printing.numbers import print_output
    from p2p_sim.sweeps.catalogue import catalogue, check_paper

    print_output(catalogue_output(catalogue(paper and check_paper(paper))), json_)


def _copy(directory: Path) -> None:
    """Copy the shipped example of a plug-in to a new directory.

    Raises:
        InputError: the directory exists already or cannot be written.
    """
    import shutil

    if directory.exists():
        raise InputError(f"--copy-example {directory}: is there already; name a new directory")
    try:
        shutil.copytree(EXAMPLE, directory, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    except OSError as error:
        raise InputError(f"--copy-example {directory}: cannot be written ({error})") from None


def load(path: Path, overrides: list[str] | None, engine: str | None) -> "Scenario":
    """The scenario of a file.

    path: the file, or a shipped scenario's name. overrides: texts KEY=VALUE that change keys; None: no changes. engine:
    name of the engine that simulates the exchange, from a command's option; None: the scenario's own engine.
    """
    where = located(path)  # the note on the path comes before slow imports
    from p2p_sim import load_scenario

    return load_scenario(where, [*(overrides or ()), *([f'engine="{engine}"'] if engine else ())])


def against_randomised_response(
    chosen: "Scenario", finished: "SweepResult", file: Path, *, overrides: list[str] | None, data_dir: Path | None
) -> str:
    """A line for the shell with two commands. The first command runs randomised response on the same users, with the α
    of a finished exchange. The second command compares the two results. The line is empty if some replicate has no α,
    or if the scenario cannot run with randomised response.

    Args:
        chosen: the scenario that ran. finished: its results. file: the scenario's file. overrides: the texts KEY=VALUE
        of --set with which the scenario ran; texts on mechanism and engine are replaced. data_dir: where data files
        are; None: not named.
    """
    from p2p_sim import load_scenario
    from p2p_sim.replicate import directory_of

    alpha, target = finished.rows["flip_prob"], getattr(chosen.mechanism, "target_epsilon", None)
    if alpha.isna().any():
        return ""
    # α replaces the mechanism's own keys; if α differs between replicates, the target ε replaces these keys
    changes = [change for change in overrides or () if not change.strip().startswith(("mechanism", "engine"))]
    changes.append("mechanism.kind=randomized_response")
    same = alpha.nunique() == 1
    changes.append(f"mechanism.{f'flip_prob={alpha.iloc[0]!s}' if same else f'target_epsilon={target}'}")
    changes += ["mechanism.debias=true"] * getattr(chosen.mechanism, "debias", False)
    # randomised response sends no messages: faults and adversaries have nothing to act on
    changes += ["network={}"] * (not chosen.network.ideal)
    changes += ["adversaries={}"] * bool(chosen.adversaries.active)
    try:
        if load_scenario(file, changes).engine != chosen.engine:
            changes.append(f"engine={chosen.engine}")
        rival_directory = directory_of(load_scenario(file, changes), data_dir)
    except InputError:
        return ""
    options = [word for change in changes for word in ("--set", change)]
    options += [] if data_dir is None else ["--data-dir", str(data_dir)]
    first = shlex.join(["p2p-sim", "run", str(file), *options, "--quiet"])
    return f"{first} && {shlex.join(['p2p-sim', 'compare', str(finished.directory), str(rival_directory)])}"


def cite(
    scenario: Annotated[
        Path | None,
        typer.Argument(
            metavar="SCENARIO", help="File or name of a scenario or sweep; absent: p2p-sim alone.", show_default=False
        ),
    ] = None,
    overrides: Overrides = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print what to cite, as BibTeX: p2p-sim, and the papers behind what a scenario uses.

    Example: p2p-sim cite quickstart > quickstart.bib
    """
    chosen = [] if scenario is None else _scenarios(scenario, overrides)
    from p2p_sim.cli.printing.lists import print_citation, print_citation_json
    from p2p_sim.sweeps import cited

    packages = {name: version for scenario in chosen for name, version in scenario.packages.items()}
    (print_citation_json if json_ else print_citation)(cited(chosen), packages)


def _scenarios(path: Path, overrides: list[str] | None) -> "list[Scenario]":
    """The scenario of a file, in a list. For a sweep file, the list has several scenarios. Together these scenarios use
    every kind of mechanism, learner, network and so on that the sweep uses. So everything behind the sweep is cited.

    path: file or name. overrides: texts KEY=VALUE that change keys; None: no changes.
    """
    if "axes" not in read_toml(find_scenario(path)):
        return [load(path, overrides, None)]
    from p2p_sim.sweeps import load_sweep

    return list(load_sweep(path, overrides or ()).examples())


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
    data_dir: NewDataDir = None,
    quiet: Quiet = False,
) -> None:
    """List the data sets that are read from files, say where each file goes, check the files, or fetch data sets.

    check compares every file with its check figure (SHA-256). The exit status is 1 if a file differs or is missing.
    A data set without any file counts only if it is named. fetch gets the named data sets from public sources, and
    makes the directory if necessary. fetch needs a network and pooch, which the extra "data" installs.

    Example: p2p-sim data list
    """
    from p2p_sim.cli.printing.lists import print_list, print_where
    from p2p_sim.population import check, data_set
    from p2p_sim.population.data_sets import data_sets
    from p2p_sim.replicate import data_directory

    if action != "fetch":  # fetch makes the directory
        check_data_dir(data_dir)
    if action not in ACTIONS:
        raise InputError(f"data {action}: must be one of {', '.join(ACTIONS)}")
    chosen = list(map(data_set, names)) if names else list(data_sets().values())
    directory = data_directory(data_dir)
    places = () if directory is None else (directory,)
    if action == "list":
        print_list(chosen, in_full=bool(names))
    elif action == "where":
        print_where([(data_set, check(data_set, places, read=False)) for data_set in chosen], directory)
    elif action == "check":
        _check_files(chosen, directory, named=bool(names))
    else:
        _fetch_files(chosen if names else [], directory)


def _check_files(data_sets: "Sequence[DataSet]", directory: Path | None, named: bool) -> None:
    """Compare the files of data sets with their check figures (SHA-256). If there are faults, end the command with
    status 1.

    directory: where the files are; None is refused. named: whether the caller named the data sets. If not, a data set
    without any file is no fault.
    """
    from p2p_sim.cli.printing.lists import print_check
    from p2p_sim.population import check

    if directory is None:
        raise InputError("data check: no directory of data files is named; use --data-dir DIR or set P2P_SIM_DATA")
    checks = (
        (data_set, check(data_set, (directory,))) for data_set in data_sets
    )  # lazy: each data set is printed as soon as it is read
    if print_check(checks, directory, named):
        raise typer.Exit(1)


def _fetch_files(data_sets: "Sequence[DataSet]", directory: Path | None) -> None:
    """Get the files of data sets that the directory lacks. Raise InputError if no directory or no data set is named."""
    from p2p_sim.cli.printing.lists import print_fetched
    from p2p_sim.population import fetch

    if directory is None or not data_sets:
        raise InputError(
            "data fetch: needs the names of data sets, and their directory: --data-dir DIR or P2P_SIM_DATA"
        )
    for data_set in data_sets:
        print_fetched(data_set, fetch(data_set, directory))
