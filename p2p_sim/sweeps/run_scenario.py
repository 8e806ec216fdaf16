"""Many replicates of one scenario: run those that are missing, keep every finished one, end with table and figure."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from p2p_sim.base.errors import InputError, RunFailed, count_of, optional_path
from p2p_sim.base.notebook_view import count
from p2p_sim.base.whole_files import in_place_of, writing
from p2p_sim.measures.point_means import derived
from p2p_sim.privacy.statement_record import Terms, merged
from p2p_sim.replicate.advice import advice
from p2p_sim.replicate.replicate import Replicate, scenario_of
from p2p_sim.results.rows import ROWS, Row, Store, open_store, write_manifest
from p2p_sim.results.statements import read_terms
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps.default_directory import default_directory
from p2p_sim.sweeps.interrupts import counted
from p2p_sim.sweeps.local_workers import at_a_time
from p2p_sim.sweeps.tasks import Batch, Done, Executor, Serial, Task, perform

Progress = Callable[[int, int], None]
"""Called with (replicates done, replicates wanted) before the first and whenever some are done."""
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
        return f"Finished({str(self.directory)!r}, {count(len(self.rows), 'replicate')}, {self.more:,} more on disk)"


def run_point(
    scenario: Scenario,
    out: Path | None = None,
    data_dir: Path | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Finished:
    """Run every replicate that is not on disk yet, and draw the figure of those that were asked for.

    Args:
        scenario: what to run.
        out: results directory; default results/<name>-<hash8> below the current directory.
        data_dir: where data files are; default: the environment variable P2P_SIM_DATA.
        progress: told how many replicates are done.
        executor: where to run; default: here, one after another. The rows are the same everywhere.

    Raises:
        RunFailed, Interrupted: says how many replicates are kept.
        Exception: what the first replicate that failed raised; those that were under way beside it are lost.
    """
    case = Replicate(scenario, data_dir=data_dir)
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

    def has(index: int) -> bool:
        return store.has(hash_[:16], index)

    def standing() -> tuple[int, int]:
        return sum(map(has, range(scenario.replicates))), scenario.replicates

    with open_store(directory, hash_, check) as store, counted(standing):
        replicates = max(scenario.replicates, store.replicates)
        write_manifest(directory, scenario.name, scenario, hash_, replicates, scenario.packages)
        held, data = standing()[0], None if data_dir is None else str(data_dir)
        whole = Task(hash_[:16], 0, scenario.model_dump_json(), str(scenario.folder), data)
        missing = (replace(whole, replicate=index) for index in range(scenario.replicates) if not has(index))

        def told(fresh: int) -> None:
            if progress:
                progress(held + fresh, scenario.replicates)

        failure = _keep(store, executor or Serial(), ((task,) for task in missing), told)
        if failure is not None:
            raise failure.fault or RunFailed(f"replicate {failure.task.replicate} {failure.error}")
        rows = store.finish(lambda row: 0, lambda row: row["replicate"] < scenario.replicates)
        from p2p_sim.figures.privacy_utility import plot_privacy_utility  # beside the workers, not before them

        with writing(directory), in_place_of(directory / FIGURE) as partial:
            plot_privacy_utility(rows, scenario.name, partial)
        said = read_terms(directory)
    used = [said[name] for name in dict.fromkeys(rows.get("statement", ())) if name in said]
    return Finished(directory, rows, merged(used), store.size - len(rows))


def _keep(store: Store, executor: Executor, batches: Iterator[Batch], told: Callable[[int], None]) -> Done | None:
    """Write down what comes back, until a replicate fails; that one is returned, and what is under way is dropped."""
    kept = 0
    told(kept)
    for results in executor.run(batches, perform):
        good = [done for done in results if done.row is not None]
        if good:
            store.append([done.row for done in good], [done.wall_s for done in good], [done.terms for done in good])
            kept += len(good)
            told(kept)
        for done in results:
            if done.row is None:
                return done
    return None


def run_all(
    scenario: Scenario | str | Path,
    out: str | Path | None = None,
    data_dir: str | Path | None = None,
    workers: int = 1,
) -> pd.DataFrame:
    """Run every replicate of a scenario and return their rows; running again resumes.

    Replicates on disk beyond the scenario's count stay there; `load_results` returns them too. Workers do not import
    the caller's main module, so that a script needs no `if __name__ == "__main__"`.

    Args:
        scenario: what to run, the path of its file, or the name of a shipped one.
        out: results directory; default results/<name>-<hash8> below the current directory.
        data_dir: where data files are; default: the environment variable P2P_SIM_DATA.
        workers: local processes; 1: this one. The rows are the same.

    Returns:
        A frame, one row a replicate; its `attrs["directory"]` is the results directory.
    """
    place, data = optional_path("out", out), optional_path("data_dir", data_dir)
    executor = at_a_time(count_of("workers", workers, 1))
    finished = run_point(scenario_of(scenario), place, data, executor=executor)
    rows = derived(finished.rows)
    rows.attrs["directory"] = str(finished.directory)
    return rows
