"""Executors of runs, sweeps and searches. An executor is the object that does this work. A command's options choose the
executor.
"""

import os

from p2p_sim.base import InputError
from p2p_sim.replicate import replicates_that_fit
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps import DaskWorkers, Executor, LocalProcesses, Serial, SplitShards, SweepPlan, at_a_time


def for_run(scenario: Scenario, workers: int | None, split: str | None, dask: str | None = None) -> Executor:
    """The executor of a scenario's replicates (its random repetitions): this process, several local processes, or a
    Dask cluster.

    Args:
        scenario: what runs. workers: number of local processes; None: one for each core, but no more at a time than
        memory allows. split: "shards": the processes share the work of each replicate, in groups of whole clusters;
        None: each process works on its own replicates. dask: address, or scheduler's file, of a Dask cluster; None:
        this machine.

    Raises:
        InputError: a value is out of its range, or the options do not go together.
    """
    _check(workers, split, dask)
    if dask is not None:
        return DaskWorkers(dask, packages=scenario.packages)
    if split is not None:
        return _split(_processes(workers), scenario)
    return at_a_time(workers or min(os.cpu_count() or 1, replicates_that_fit(scenario)))


def for_sweep(plan: SweepPlan, workers: int | None, dask: str | None, split: str | None) -> Executor:
    """The executor of all replicates (random repetitions) of a sweep: this process, several local processes, or a Dask
    cluster.

    Args:
        plan: the sweep. workers: number of local processes; None: one per core. dask: address, or scheduler's file, of
        a Dask cluster; None: this machine. split: "shards": the workers share the work of each replicate, in groups of
        whole clusters; None: each worker works on its own replicates.

    Raises:
        InputError: a value is out of its range, or the options do not go together.
    """
    _check(workers, split, dask)
    chosen = _processes(workers) if dask is None else DaskWorkers(dask, packages=plan.packages)
    return chosen if split is None else _split(chosen, plan.base)


def _check(workers: int | None, split: str | None, dask: str | None) -> None:
    """Raise InputError if the values of the options --workers, --split and --dask cannot be used. The number of workers
    must lie in 1 to 1024, and must not be given with a Dask cluster. The only way to split is "shards". A value is None
    if its option is not given.
    """
    if workers is not None and dask is not None:
        raise InputError(f"--workers {workers}: does not go with --dask, whose cluster sets the number of workers")
    if workers is not None and not 1 <= workers <= 1024:
        raise InputError(f"--workers {workers}: must lie in 1..1024")
    if split is not None and split != "shards":
        raise InputError(f'--split "{split}": must be shards')


def _processes(workers: int | None) -> Executor:
    count = workers or os.cpu_count() or 1
    return LocalProcesses(count) if count > 1 else Serial()


def _split(inner: Executor, scenario: Scenario) -> Executor:
    scenario.network.check_splittable()
    return SplitShards(inner)
