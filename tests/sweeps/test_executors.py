"""Executors on this machine: every task comes back exactly once, whatever happens to workers."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from p2p_sim.base.errors import InputError, RunFailed
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps.local_workers import LocalProcesses
from p2p_sim.sweeps.tasks import Serial, Task, TaskQueue, perform
from tests import stand_ins
from tests.conftest import ROOT
from tests.stand_ins import POISON, alive, batches, collect, pids, tasks, wait_until


def local(workers: int = 2, attempts: int = 3) -> LocalProcesses:
    """Workers that start quickly, since they do not import the simulator."""
    return LocalProcesses(workers, attempts, "tests.stand_ins")


def scenario_tasks(replicates: int) -> list[Task]:
    """A scenario that takes a few milliseconds."""
    tree = {"name": "tiny", "population": {"kind": "synthetic", "users": 500}, "mechanism": {"flip_prob": 0.1}}
    scenario = Scenario.from_tree({**tree, "learner": {"kind": "table"}})  # quick to start: it needs no scikit-learn
    return [Task("0" * 16, i, json.dumps(scenario.model_dump(mode="json")), ".") for i in range(replicates)]


@pytest.mark.parametrize("size", [1, 3, 4])
def test_every_task_comes_back_once_from_local_processes(size):
    assert collect(local(), tasks(30), stand_ins.square, size) == stand_ins.square(tuple(tasks(30)))


def test_no_process_is_started_for_nothing():
    begin = time.perf_counter()
    assert collect(local(4), [], stand_ins.square) == []
    assert time.perf_counter() - begin < 0.5


def test_batches_are_drawn_only_as_workers_become_free():
    drawn = []

    def watched():
        for batch in batches(tasks(20), 1):
            drawn.append(batch)
            yield batch

    ahead = []
    for _ in local().run(watched(), stand_ins.slow_square):
        ahead.append(len(drawn) - len(ahead))
    assert len(ahead) == 20
    assert max(ahead) <= 2 + 2


def test_local_processes_give_the_rows_of_serial():
    many = [*scenario_tasks(3), Task("0" * 16, 3, '{"name": "wrong"', ".")]
    serial, parallel = (
        [(done.task, done.row, done.error) for done in collect(executor, many, perform, 2)]
        for executor in (Serial(), LocalProcesses(2))
    )
    assert parallel == serial
    assert [row is None for _, row, _ in serial] == [False, False, False, True]
    assert serial[3][2].startswith("JSONDecodeError: ")


@pytest.mark.parametrize("work", [pytest.param(stand_ins.poisoned, marks=pytest.mark.slow), stand_ins.killed])
def test_a_task_that_kills_its_worker_is_given_up_and_no_other(work):
    done = collect(local(), tasks(16), work)
    assert done[POISON].error == "killed its worker 3 times"
    innocent = [d for d in done if d.task.replicate != POISON]
    assert innocent == [d for d in stand_ins.square(tuple(tasks(16))) if d.task.replicate != POISON]


def test_workers_killed_from_outside_lose_nothing(tmp_path):
    chance, killed, over = random.Random(1), set(), threading.Event()

    def kill():
        while len(killed) < 4 and not over.wait(chance.uniform(0.1, 0.4)):
            living = [pid for pid in pids(tmp_path) if alive(pid)]
            if living:
                victim = chance.choice(living)
                os.kill(victim, signal.SIGKILL)
                killed.add(victim)

    killer = threading.Thread(target=kill)
    killer.start()
    many = tasks(80, str(tmp_path))
    done = collect(local(attempts=5), many, stand_ins.remembered)
    over.set()
    killer.join()
    assert len(killed) == 4
    assert done == stand_ins.square(tuple(many))
    assert wait_until(lambda: not any(map(alive, pids(tmp_path))))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_their_driver(tmp_path, how):
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.stand_ins", str(tmp_path)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a test run in the background ignores it
    )
    try:
        assert wait_until(lambda: len(pids(tmp_path)) == 2)
        assert all(map(alive, pids(tmp_path)))
        driver.send_signal(how)
        assert wait_until(lambda: not any(map(alive, pids(tmp_path))), 3)
        _, errors = driver.communicate(timeout=5)
    finally:
        driver.kill()
    assert errors.count(b"Traceback") == (how == signal.SIGINT)  # the driver's own


def test_workers_end_when_nobody_wants_more_results(tmp_path):
    running = local().run(batches(tasks(40, str(tmp_path))), stand_ins.remembered)
    next(running)
    assert any(map(alive, pids(tmp_path)))
    running.close()
    assert not any(map(alive, pids(tmp_path)))


def test_workers_that_cannot_start_are_said(monkeypatch):
    monkeypatch.setattr("p2p_sim.sweeps.local_workers._START", "raise SystemExit(1)")
    with pytest.raises(RunFailed, match="6 worker processes ended while they started, with exit status 1"):
        collect(local(), tasks(8), stand_ins.square)


def test_no_workers_is_a_mistake_of_the_user():
    with pytest.raises(InputError, match="workers 0: must be at least 1"):
        LocalProcesses(0)


def test_only_a_task_that_was_alone_is_blamed():
    queue = TaskQueue(batches(tasks(4), 2), attempts=2)
    first = queue.fresh()
    assert queue.lost(first, True, 0.0, "why") == []  # a batch of two
    for task in tasks(2):
        assert queue.suspect() == (task,)
        assert queue.lost((task,), False, 0.0, "why") == []  # others ran beside it
    for given_up in (False, False, True, True):
        suspect = queue.suspect()
        assert bool(queue.lost(suspect, True, 0.0, "why")) == given_up
    assert queue.suspect() is None
    assert not queue.over
    assert queue.fresh() == tuple(tasks(4)[2:])
