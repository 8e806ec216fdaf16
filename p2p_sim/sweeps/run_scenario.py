"""All replicates of one scenario. Missing replicates are run; a table and a figure show all replicates."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from p2p_sim.base import count_of, in_place_of, optional_path, writing
from p2p_sim.replicate import scenario_of
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps.local_workers import at_a_time
from p2p_sim.sweeps.plan import SweepPlan
from p2p_sim.sweeps.run_sweep import Progress as Standing
from p2p_sim.sweeps.run_sweep import SweepResult, run_sweep
from p2p_sim.sweeps.tasks import Executor

Progress = Callable[[int, int], None]
"""A function of two numbers, finished and wanted replicates; called at the start and when replicates finish."""
FIGURE = "privacy-utility.png"


def run_point(
    scenario: Scenario,
    out: Path | None = None,
    data_dir: Path | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> SweepResult:
    """Run the replicates of a scenario that are not on disk yet. Then draw the figure of all replicates,
    privacy-utility.png in the results directory.

    Args:
        scenario: the scenario.
        out: results directory; default results/<name>-<hash8> below the current directory.
        data_dir: where data files are; default: the environment variable P2P_SIM_DATA.
        progress: called with the number of finished replicates and the number of wanted replicates.
        executor: runs the tasks; default: this process, one after another. The rows do not depend on the executor.

    Raises:
        RunFailed, Interrupted: the work was stopped. The message says how many replicates are kept.
        Exception: the error of the first replicate that failed. Other unfinished replicates are lost.
    """
    plan = SweepPlan(scenario.name, scenario, (), scenario.replicates, data_dir=data_dir)

    def finish(directory: Path, rows: pd.DataFrame) -> None:
        from p2p_sim.figures import plot_privacy_utility

        with writing(directory), in_place_of(directory / FIGURE) as partial:
            plot_privacy_utility(rows, scenario.name, partial)

    def report(state: Standing) -> None:
        if progress is not None:
            progress(state.finished, state.replicates)

    return run_sweep(plan, out, executor, report, finish=finish)


def run_all(
    scenario: Scenario | str | Path,
    out: str | Path | None = None,
    data_dir: str | Path | None = None,
    workers: int = 1,
) -> pd.DataFrame:
    """Run the replicates of a scenario that are not on disk yet. Return the rows of all its replicates.

    The disk may hold more replicates than the scenario asks for. They are kept, but only `load_results` returns them. A
    script needs no `if __name__ == "__main__"`, because workers do not import the caller's main module.

    Args:
        scenario: the scenario, the path of its file, or the name of a shipped one.
        out: results directory; default results/<name>-<hash8> below the current directory.
        data_dir: where data files are; default: the environment variable P2P_SIM_DATA.
        workers: number of worker processes on this machine; 1: this process alone. The rows do not depend on workers.

    Returns:
        A frame with a row for each replicate; its `attrs["directory"]` is the results directory.
    """
    directory, data = optional_path("out", out), optional_path("data_dir", data_dir)
    executor = at_a_time(count_of("workers", workers, 1))
    return run_point(scenario_of(scenario), directory, data, executor=executor).tidy
