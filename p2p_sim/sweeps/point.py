"""Many replicates of one scenario: run those that are missing, keep every finished one, end with table and figure."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from p2p_sim.analysis.privacy.statement.record import Terms, merged
from p2p_sim.analysis.utility.points import derived
from p2p_sim.base.arguments import optional_path
from p2p_sim.base.errors import InputError
from p2p_sim.base.files import in_place_of, writing
from p2p_sim.replicate.advice import advice
from p2p_sim.replicate.case import Case, identity, scenario_of
from p2p_sim.replicate.run import run
from p2p_sim.scenario import Scenario
from p2p_sim.storage.rows import ROWS, Row, open_store, write_manifest
from p2p_sim.storage.statements import read_terms
from p2p_sim.sweeps.stopped import counted

Progress = Callable[[int, int], None]
"""Called with (replicates done, replicates wanted) before the first and after each."""
FIGURE = "privacy-utility.png"


@dataclass(frozen=True, repr=False)
class Finished:
    """A finished run.

    directory: of the results. rows: of the replicates that were asked for, one each. terms: what is said of their
    figures. more: replicates on disk that were not asked for.
    """

    directory: Path
    rows: pd.DataFrame
    terms: Terms
    more: int = 0

    def __repr__(self) -> str:
        """What is where, in one line."""
        return f"Finished({str(self.directory)!r}, {len(self.rows):,} replicates, {self.more:,} more on disk)"


def default_directory(name: str, hash_: str) -> Path:
    """results/<name>-<first 8 digits of the hash>, below the current directory."""
    return Path("results") / f"{name}-{hash_[:8]}"


def directory_of(scenario: Scenario, data_dir: Path | None = None) -> Path:
    """Where the results of a scenario go if nothing else is said."""
    return default_directory(scenario.name, identity(scenario, data_dir))


def run_point(
    scenario: Scenario,
    out: Path | None = None,
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> Finished:
    """Run every replicate that is not on disk yet, and draw the figure of those that were asked for.

    Raises:
        RunFailed, Interrupted: says how many replicates are kept.
    """
    from p2p_sim.analysis.figures.privacy_utility import plot_privacy_utility

    case = Case(scenario, data_dir=data_dir)
    for line in advice(case):
        warnings.warn(line, stacklevel=2)
    hash_ = case.identity
    directory = out or default_directory(scenario.name, hash_)

    def check(row: Row) -> None:
        if not hash_.startswith(str(row["scenario"])):
            raise InputError(
                f"{directory / ROWS}: replicate {row['replicate']} is of another scenario or of other data "
                f"(hash {str(row['scenario'])[:8]}, not {hash_[:8]})"
            )

    def standing() -> tuple[int, int]:
        return sum(store.has(hash_[:16], index) for index in range(scenario.replicates)), scenario.replicates

    with open_store(directory, hash_, check) as store, counted(standing):
        replicates = max(scenario.replicates, store.replicates)
        write_manifest(directory, scenario.name, scenario, hash_, replicates, scenario.packages)
        missing = [index for index in range(scenario.replicates) if not store.has(hash_[:16], index)]
        for position, replicate in enumerate(missing):
            if progress:
                progress(scenario.replicates - len(missing) + position, scenario.replicates)
            begin = time.perf_counter()
            result = run(scenario, replicate, data_dir)
            store.append([result.row], [time.perf_counter() - begin], [result.terms])
        if progress:
            progress(scenario.replicates, scenario.replicates)
        rows = store.finish(lambda row: 0, lambda row: row["replicate"] < scenario.replicates)
        with writing(directory), in_place_of(directory / FIGURE) as partial:
            plot_privacy_utility(rows, scenario.name, partial)
        said = read_terms(directory)
    used = [said[name] for name in dict.fromkeys(rows.get("statement", ())) if name in said]
    return Finished(directory, rows, merged(used), store.size - len(rows))


def run_all(
    scenario: Scenario | str | Path, out: str | Path | None = None, data_dir: str | Path | None = None
) -> pd.DataFrame:
    """Run every replicate of a scenario and return their rows; running again resumes.

    Replicates on disk beyond the scenario's count stay there; `load_results` returns them too.

    Args:
        scenario: what to run, the path of its file, or the name of a shipped one.
        out: results directory; default results/<name>-<hash8> below the current directory.
        data_dir: where data files are; default: the environment variable P2P_SIM_DATA.
    """
    place, data = optional_path("out", out), optional_path("data_dir", data_dir)
    return derived(run_point(scenario_of(scenario), place, data).rows)
