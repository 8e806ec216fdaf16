"""The command that says what to cite."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2p_sim.cli.options import AsJson, Overrides, Quiet
from p2p_sim.cli.scenarios import load

if TYPE_CHECKING:
    from p2p_sim import Scenario


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
    from p2p_sim.cli.printing.references import print_citation, print_citation_json
    from p2p_sim.sweeps.catalogue import cited

    packages = {name: version for one in chosen for name, version in one.packages.items()}
    (print_citation_json if json_ else print_citation)(cited(chosen), packages)


def _scenarios(path: Path, overrides: list[str] | None) -> "list[Scenario]":
    """The scenario of a file; of a sweep, some whose parts are those of all its points."""
    from p2p_sim.base.shipped_files import find_scenario
    from p2p_sim.base.toml import read_toml

    if "axes" not in read_toml(find_scenario(path)):
        return [load(path, overrides, None)]
    from p2p_sim.sweeps.plan import load_sweep

    plan = load_sweep(path, overrides or ())
    return list(plan.examples())
