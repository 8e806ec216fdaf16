"""Where runs and sweeps are done, as the options say it."""

import os
from collections.abc import Mapping

from p2p_sim.base.errors import InputError
from p2p_sim.replicate.memory_need import replicates_that_fit
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps.local_workers import LocalProcesses, at_a_time
from p2p_sim.sweeps.plan import SweepPlan
from p2p_sim.sweeps.tasks import Executor, Serial


def for_run(scenario: Scenario, workers: int | None, split: str | None) -> Executor:
    """What runs the replicates of a scenario: one per core at a time, or of a large scenario as many as fit into
    memory.
    """
    _check(workers, split)
    if split is not None:
        return _split(_processes(workers), scenario)
    return at_a_time(workers or min(os.cpu_count() or 1, replicates_that_fit(scenario)))


def for_sweep(plan: SweepPlan, workers: int | None, dask: str | None, split: str | None) -> Executor:
    """What runs the points of a sweep: this machine, or the Dask cluster at the address `dask`."""
    _check(workers, split, dask)
    chosen = _processes(workers) if dask is None else _dask(dask, plan.packages)
    return chosen if split is None else _split(chosen, plan.base)


def for_tune(scenario: Scenario, workers: int | None, dask: str | None) -> Executor:
    """What runs the replicates of a search: this machine, as for a scenario, or the Dask cluster at the address
    `dask`.
    """
    if dask is None:
        return for_run(scenario, workers, None)
    _check(workers, None, dask)
    return _dask(dask, scenario.packages)


def _check(workers: int | None, split: str | None, dask: str | None = None) -> None:
    if workers is not None and dask is not None:
        raise InputError(f"--workers {workers}: does not go with --dask, where the cluster says how many there are")
    if workers is not None and not 1 <= workers <= 1024:
        raise InputError(f"--workers {workers}: must lie in 1..1024")
    if split is not None and split != "shards":
        raise InputError(f'--split "{split}": must be shards')


def _processes(workers: int | None) -> Executor:
    count = workers or os.cpu_count() or 1
    return LocalProcesses(count) if count > 1 else Serial()


def _dask(address: str, packages: Mapping[str, str]) -> Executor:
    from p2p_sim.sweeps.dask_workers import DaskWorkers

    return DaskWorkers(address, packages=packages)


def _split(inner: Executor, scenario: Scenario) -> Executor:
    from p2p_sim.sweeps.split_replicate import SplitShards

    scenario.network.check_splittable()
    return SplitShards(inner)
