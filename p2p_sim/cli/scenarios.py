"""The command that lists what comes with p2p-sim, and how the other commands find it by name."""

import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2p_sim.base.errors import InputError
from p2p_sim.base.shipped_files import EXAMPLES, find_scenario, is_shipped
from p2p_sim.cli.options import AsJson, Note, Quiet

if TYPE_CHECKING:
    from p2p_sim import Scenario
    from p2p_sim.sweeps.run_scenario import Finished

EXAMPLE = EXAMPLES / "own_mechanism"


def located(name: Path, sweep: bool = False) -> Path:
    """The file that a command's argument means; says so where it is one of p2p-sim's own, found by its name."""
    path = find_scenario(name, sweep)
    if path != name and is_shipped(path):
        warnings.warn(f"{name.as_posix()}: comes with p2p-sim ({path})", Note, stacklevel=2)
    return path


def papers() -> list[str]:
    """The BibTeX keys of the papers, for completion."""
    from p2p_sim.sweeps.catalogue import PROJECT, references

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
            help="Only those that rest on this paper, by its BibTeX key in `p2p-sim cite`.",
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
    from p2p_sim.cli.printing.scenario_list import print_catalogue, print_catalogue_json
    from p2p_sim.sweeps.catalogue import catalogue, check_paper

    (print_catalogue_json if json_ else print_catalogue)(catalogue(paper and check_paper(paper)))


def _copy(directory: Path) -> None:
    """Copy the example to a directory that is not there yet."""
    import shutil

    if directory.exists():
        raise InputError(f"--copy-example {directory}: is there already; name a new directory")
    try:
        shutil.copytree(EXAMPLE, directory, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    except OSError as error:
        raise InputError(f"--copy-example {directory}: cannot be written ({error})") from None


def load(path: Path, overrides: list[str] | None, engine: str | None) -> "Scenario":
    """The scenario of a file, with `--set` and `--engine`."""
    where = located(path)  # says where it is before the rest is loaded
    from p2p_sim import load_scenario

    chosen = [*(overrides or ()), *([f'engine="{engine}"'] if engine else ())]
    return load_scenario(where, chosen)


def against_randomised_response(
    chosen: "Scenario", finished: "Finished", file: Path, *, overrides: list[str] | None, data_dir: Path | None
) -> str:
    """The commands that run randomised response with the α of an exchange on the same users, and compare the two.

    Args:
        chosen: the scenario that ran. finished: what came of it.
        file, overrides, data_dir: as `run` was given them.

    Returns:
        Empty where the scenario has no flipped labels, or does not run with another mechanism.
    """
    from p2p_sim import load_scenario
    from p2p_sim.replicate.replicate import directory_of

    alpha, target = finished.rows["flip_prob"], getattr(chosen.mechanism, "target_epsilon", None)
    if alpha.isna().any():
        return ""
    # the mechanism's own keys make way for α, or for the target if α was calibrated anew in each replicate
    changes = [change for change in overrides or () if not change.strip().startswith(("mechanism", "engine"))]
    changes.append("mechanism.kind=randomized_response")
    same = alpha.nunique() == 1
    changes.append(f"mechanism.{f'flip_prob={alpha.iloc[0]!s}' if same else f'target_epsilon={target}'}")
    changes += ["mechanism.debias=true"] * getattr(chosen.mechanism, "debias", False)
    # faults and adversaries are of messages, which randomised response does not have
    changes += [] if chosen.network.ideal else ["network={}"]
    changes += ["adversaries={}"] * bool(chosen.adversaries.active)
    try:
        if load_scenario(file, changes).engine != chosen.engine:
            changes.append(f"engine={chosen.engine}")
        other = directory_of(load_scenario(file, changes), data_dir)
    except InputError:
        return ""
    options = [word for change in changes for word in ("--set", change)]
    options += [] if data_dir is None else ["--data-dir", str(data_dir)]
    first = shlex.join(["p2p-sim", "run", str(file), *options, "--quiet"])
    return f"{first} && {shlex.join(['p2p-sim', 'compare', str(finished.directory), str(other)])}"
