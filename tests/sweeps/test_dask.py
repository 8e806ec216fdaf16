"""The Dask executor on this machine: every task comes back exactly once, whatever happens to workers."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from p2p_sim.base.errors import InputError, RunFailed
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps.dask_workers import DaskWorkers, OtherModelError, compare, perform_there, versions
from p2p_sim.sweeps.split_replicate import SplitShards
from p2p_sim.sweeps.tasks import Serial, Task, perform
from tests import stand_ins
from tests.conftest import ROOT
from tests.stand_ins import POISON, alive, collect, pids, tasks, wait_until
from tests.sweeps.test_executors import scenario_tasks
from tests.validation.test_kills import workers
from tests.written_sweeps import base

pytest.importorskip("distributed")
LOOPBACK = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0", "--no-dashboard")


def start(folder: Path, *command: str) -> subprocess.Popen:
    """A `dask` command, in a process group of its own."""
    with open(folder / f"{command[0]}.log", "ab") as log:
        line = [sys.executable, "-m", "dask", *command, "--scheduler-file", str(folder / "scheduler.json")]
        return subprocess.Popen(line, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)


def start_workers(folder: Path, *options: str) -> subprocess.Popen:
    """Workers that a nanny restarts."""
    return start(folder, "worker", *LOOPBACK, "--nthreads", "1", "--local-directory", str(folder), *options)


def stop(*groups: subprocess.Popen) -> None:
    """End them with all their children."""
    for group in groups:
        os.killpg(group.pid, signal.SIGKILL)
        group.wait()


@contextmanager
def scheduler(folder: Path):
    """A scheduler on loopback; its process."""
    process = start(folder, "scheduler", *LOOPBACK, "--port", "0")
    try:
        assert wait_until((folder / "scheduler.json").exists)
        yield process
    finally:
        stop(process)


@contextmanager
def cluster(folder: Path, *options: str):
    """A scheduler and two workers; the process of the scheduler."""
    with scheduler(folder) as process:
        workers = start_workers(folder, "--nworkers", "2", *options)
        try:
            yield process
        finally:
            stop(workers)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A scheduler file with two workers behind it."""
    folder = tmp_path_factory.mktemp("dask")
    with cluster(folder):
        executor = DaskWorkers(str(folder / "scheduler.json"), connect_s=10)
        assert wait_until(lambda: executor.workers == 2)
        executor.close()
        yield str(folder / "scheduler.json")


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_every_task_comes_back_once_from_dask(here, size):
    assert collect(DaskWorkers(here), tasks(50), stand_ins.square, size) == stand_ins.square(tuple(tasks(50)))


def test_dask_gives_the_rows_of_serial(here):
    many = scenario_tasks(3)
    serial, dask = (
        [(done.task, done.row, done.error) for done in collect(executor, many, perform, 2)]
        for executor in (Serial(), DaskWorkers(here))
    )
    assert dask == serial
    assert all(error is None for _, _, error in dask)


def test_shards_on_dask_give_the_row_of_serial(here):
    """150,000 users in three shards, of whom no worker holds more than one."""
    tree = {
        "name": "shards",
        "population": {"kind": "synthetic", "users": 150_000, "num_clusters": 3},
        "mechanism": {"flip_prob": 0.1},
        "network": {"loss": 0.05, "request_timeout_s": 0.2},
    }
    task = Task("0" * 16, 0, Scenario.from_tree(tree).model_dump_json(), ".")
    [[serial]] = Serial().run(iter([(task,)]), perform)
    [[parts]] = SplitShards(DaskWorkers(here)).run(iter([(task,)]), perform)
    assert (parts.row, parts.error) == (serial.row, None)


def test_batches_in_flight_are_bounded(here):
    drawn, came = [], 0

    def watched():
        for batch in stand_ins.batches(tasks(30), 1):
            drawn.append(batch)
            yield batch

    for _ in DaskWorkers(here).run(watched(), stand_ins.slow_square):
        came += 1
        assert len(drawn) - came <= 2 * 2 + 4  # and those that landed together
    assert came == 30


@pytest.mark.slow
def test_workers_killed_from_outside_lose_nothing_on_dask(here, tmp_path):
    chance, killed = random.Random(2), set()

    def kill():
        for _ in range(3):
            time.sleep(chance.uniform(0.2, 0.6))
            if living := [pid for pid in pids(tmp_path) if alive(pid)]:
                os.kill(victim := chance.choice(living), signal.SIGKILL)
                killed.add(victim)

    killer = threading.Thread(target=kill)
    killer.start()
    many = tasks(100, str(tmp_path))
    done = collect(DaskWorkers(here), many, stand_ins.remembered)
    killer.join()
    assert killed
    assert done == stand_ins.square(tuple(many))


@pytest.mark.slow
def test_a_task_that_kills_its_dask_worker_is_given_up_and_no_other(tmp_path, monkeypatch):
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")  # the scheduler blames at once
    with cluster(tmp_path):
        done = collect(DaskWorkers(str(tmp_path / "scheduler.json"), connect_s=10), tasks(12), stand_ins.killed)
    assert done[POISON].error == "killed its worker 1 times"
    innocent = [d for d in done if d.task.replicate != POISON]
    assert innocent == [d for d in stand_ins.square(tuple(tasks(12))) if d.task.replicate != POISON]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_the_loss_of_the_scheduler_is_said_at_once(tmp_path, how):
    with cluster(tmp_path, "--nworkers", "1") as process:
        running = DaskWorkers(str(tmp_path / "scheduler.json"), connect_s=10).run(
            stand_ins.batches(tasks(1000)), stand_ins.slow_square
        )
        next(running)
        process.send_signal(how)
        begin = time.perf_counter()
        with pytest.raises(RunFailed, match=r"dask: lost the scheduler at \S+$"):
            list(running)
        assert time.perf_counter() - begin < 10


def test_no_scheduler_no_worker_and_no_dask_are_said_in_one_line(tmp_path, monkeypatch):
    def said(address: str) -> str:
        with pytest.raises(InputError) as error:
            _ = DaskWorkers(address, connect_s=0.5).workers
        return str(error.value)

    begin = time.perf_counter()
    assert said("tcp://127.0.0.1:9").startswith("dask tcp://127.0.0.1:9: no scheduler can be reached there (OSError: ")
    assert time.perf_counter() - begin < 3
    wanted = "must be tcp://HOST:PORT, tls://HOST:PORT or a file that dask scheduler --scheduler-file wrote"
    assert said("tls://127.0.0.1:9") == "dask tls://127.0.0.1:9: needs certificates, see docs/many-machines.md"
    assert said("nowhere") == f"dask nowhere: {wanted}"
    with scheduler(tmp_path):
        assert "has no workers; start some: dask worker" in said(str(tmp_path / "scheduler.json"))
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert said("tcp://127.0.0.1:9").endswith(
        "needs Dask's distributed: pip install -e '.[dask]' in the project's directory"
    )


@pytest.mark.slow
def test_workers_without_the_simulator_are_refused(tmp_path):
    (tmp_path / "planted.py").write_text("import sys\nsys.modules['p2p_sim'] = None\n", encoding="utf-8")
    options = ("--nworkers", "1", "--preload", str(tmp_path / "planted.py"))
    with cluster(tmp_path, *options), pytest.raises(InputError) as error:
        collect(DaskWorkers(str(tmp_path / "scheduler.json"), connect_s=10), tasks(4), stand_ins.square)
    assert re.search(r"tcp://127.0.0.1:\d+ cannot run p2p-sim \(.*ModuleNotFoundError.*'p2p_sim", str(error.value))
    assert str(error.value).endswith("install the same version everywhere")


def test_workers_with_another_model_are_refused():
    here = versions()
    with pytest.raises(InputError, match=r"dask x: tcp://b has model version 0, this process [1-9]"):
        compare("x", here, {"tcp://a": here, "tcp://b": {**here, "model version": "0"}})
    with pytest.raises(OtherModelError, match="instead of 0"):  # one that joined late
        perform_there(stand_ins.square, tuple(tasks(1)), 0)


def test_other_libraries_on_a_worker_are_worth_a_warning():
    here = versions()
    compare("x", here, {"tcp://a": here})
    with pytest.warns(UserWarning, match="tcp://a has numpy 1.0, this process"):
        compare("x", here, {"tcp://a": {**here, "numpy": "1.0"}})


@pytest.mark.slow
def test_a_run_ends_when_all_workers_stay_away(tmp_path):
    folder = tmp_path / "pids"
    folder.mkdir()
    with cluster(tmp_path, "--nworkers", "1", "--no-nanny"):
        executor = DaskWorkers(str(tmp_path / "scheduler.json"), connect_s=10, patience_s=0.5)
        threading.Thread(target=lambda: wait_until(lambda: any(pids(folder))) and os.kill(*pids(folder), 9)).start()
        with pytest.raises(RunFailed, match=r"dask: no worker at \S+ for 0.5 s; start some$"):
            collect(executor, tasks(8, str(folder)), stand_ins.endless)


@pytest.mark.slow
def test_a_search_on_dask_whose_workers_are_killed_is_that_of_one_process(tmp_path):
    pytest.importorskip("optuna")
    from p2p_sim.tuning.goal import Goal
    from p2p_sim.tuning.run_search import make_tuning, tune
    from p2p_sim.tuning.search_space import Dimension, Space

    space = Space((Dimension("mechanism.sampling_rate", 0.2, 1.0), Dimension("learner.l2", 0.01, 100.0, log=True)))
    tuning = make_tuning(base("small").replace(replicates=4), Goal("accuracy", 0.5), space)
    whole = tune(tuning, 12, tmp_path / "whole")
    chance, killed = random.Random(4), []

    def strike(parent: int) -> None:
        if victims := workers(parent):
            os.kill(victim := chance.choice(victims), signal.SIGKILL)
            killed.append(victim)

    with scheduler(tmp_path):
        nannies = start_workers(tmp_path, "--nworkers", "2")
        try:

            def told(done: int, total: int) -> None:
                threading.Timer(chance.uniform(0.0, 0.3), strike, [nannies.pid]).start()

            on_dask = DaskWorkers(str(tmp_path / "scheduler.json"), connect_s=20)
            again = tune(tuning, 12, tmp_path / "dask", on_dask, report=told)
        finally:
            stop(nannies)
    assert len(set(killed)) >= 3
    assert again.trials == whole.trials
    for name in ("rows.jsonl", "trials.csv", "found.toml"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "dask" / name).read_bytes()
