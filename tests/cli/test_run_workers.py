"""`p2p-sim run` on several cores: the same bytes, the same mistakes, and no process for nothing."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

import p2p_sim
from p2p_sim.base.errors import InputError, RunFailed
from p2p_sim.replicate import replicate as replicates
from p2p_sim.replicate.replicate import replicates_that_fit
from p2p_sim.sweeps import local_workers
from p2p_sim.sweeps.local_workers import LocalProcesses
from p2p_sim.sweeps.run_scenario import run_point
from p2p_sim.sweeps.split_replicate import SplitShards
from p2p_sim.sweeps.tasks import Done, failed, sent
from tests import stand_ins
from tests.commands import command
from tests.stand_ins import POISON, alive, collect, pids, tasks, wait_until

SMALL = """
name = "small"
replicates = 3
[population]
kind = "synthetic"
users = 400
num_clusters = 5
[mechanism]
flip_prob = 0.1
sampling_rate = 0.5
[learner]
kind = "table"  # quick to start: it needs no scikit-learn
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory with a scenario, and the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "timings.jsonl"}


@pytest.mark.slow
def test_the_results_are_the_same_bytes_wherever_replicates_are_run(here):
    scenario = p2p_sim.load_scenario("small.toml")
    ways = {
        "serial": None,
        "workers": LocalProcesses(2),
        "both": LocalProcesses(2, alone_s=0.01),
        "shards": SplitShards(LocalProcesses(2)),
    }
    for name, executor in ways.items():
        told = []
        run_point(scenario, here / name, None, lambda *counts, told=told: told.append(counts), executor)
        assert (told[0], told[-1], sorted(told)) == ((0, 3), (3, 3), told)
    assert len({str(contents(here / name)) for name in ways}) == 1


def test_the_options_of_the_command(here, monkeypatch):
    chosen = []
    monkeypatch.setattr("p2p_sim.sweeps.run_scenario.run_point", lambda *given: chosen.append(given[4]) or 1 / 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    for options in (
        (),
        ("--workers", 1),
        ("--workers", 3),
        ("--split", "shards"),
        ("--split", "shards", "--workers", 1),
    ):
        with pytest.raises(ZeroDivisionError):
            command("run", "small.toml", *options)
    assert [getattr(one, "workers", None) for one in chosen[:3]] == [6, 1, 3]
    assert [one.inner.workers for one in chosen[3:]] == [6, 1]
    for options, words in ((("--workers", 0), "must lie in 1..1024"), (("--split", "users"), "must be shards")):
        status, _, err = command("run", "small.toml", *options)
        assert (status, len(err.splitlines())) == (2, 1)
        assert words in err


def test_a_large_scenario_runs_as_many_replicates_at_a_time_as_fit(monkeypatch):
    scenario = p2p_sim.Scenario.from_tree(
        {"name": "x", "population": {"kind": "synthetic", "users": 10**8}, "mechanism": {"flip_prob": 0.1}}
    )
    for free, fit in ((10**9, 1), (40 * 10**9, 2), (200 * 10**9, 12)):
        monkeypatch.setattr(replicates, "free_memory", lambda free=free: free)
        assert replicates_that_fit(scenario) == fit
    assert replicates_that_fit(scenario.replace(**{"population.users": 1000})) > 1024


# -- processes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 8])
def test_a_run_that_is_over_soon_starts_no_worker(monkeypatch, count):
    started = []
    monkeypatch.setattr(local_workers, "start", lambda *_: started.append(_))
    executor = LocalProcesses(4, imports="tests.stand_ins", alone_s=60.0)
    assert len(collect(executor, tasks(count), stand_ins.square, 1)) == count
    assert started == []


def test_one_long_replicate_starts_no_worker(monkeypatch):
    started = []
    monkeypatch.setattr(local_workers, "start", lambda *_: started.append(_))
    executor = LocalProcesses(4, imports="tests.stand_ins", alone_s=0.01)
    assert len(collect(executor, tasks(1), stand_ins.slow_square, 1)) == 1
    assert started == []


def test_workers_take_over_from_this_process(tmp_path):
    executor = LocalProcesses(2, imports="tests.stand_ins", alone_s=0.1)
    many = tasks(100, str(tmp_path))
    assert len(collect(executor, many, stand_ins.remembered, 1)) == 100
    found = set(pids(tmp_path))
    assert os.getpid() in found
    assert len(found) == 3
    assert not any(map(alive, found - {os.getpid()}))


def test_what_waits_for_a_worker_is_run_here_when_there_is_nothing_else(tmp_path, monkeypatch):
    """Workers that need long to start cost a short run nothing."""
    monkeypatch.setattr(local_workers, "_START", "import time; time.sleep(60)")
    executor = LocalProcesses(3, imports="tests.stand_ins", alone_s=0.1)
    begin = time.perf_counter()
    assert len(collect(executor, tasks(8, str(tmp_path)), stand_ins.remembered, 1)) == 8
    assert pids(tmp_path) == [os.getpid()]
    assert time.perf_counter() - begin < 30


# -- what goes wrong -------------------------------------------------------------------------------------------------


class StubbornError(Exception):
    """Cannot be sent, not even where Dask has taught pickle about exceptions."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")
        self.kept = lambda: None


def raised(fault):
    """A result whose task raised something."""
    try:
        raise fault
    except Exception as caught:
        return failed(tasks(1)[0], caught, 0.0)


def test_a_fault_travels_as_what_it_is():
    same = sent(raised(InputError("clusters.count = 9: too many"))).fault
    assert (type(same), str(same)) == (InputError, "clusters.count = 9: too many")
    fault = sent(raised(ValueError("odd"))).fault
    assert isinstance(fault, ValueError)
    assert "raise fault" in fault.__notes__[0]
    named = sent(raised(StubbornError(1, 2))).fault
    assert (type(named), str(named)) == (RunFailed, "StubbornError: 1 and 2")
    assert sent(Done(tasks(1)[0], {}, None, 0.0)).fault is None


class Fails:
    """An executor in which a replicate fails."""

    workers = 2

    def __init__(self, fault, error=None):
        self.fault, self.error = fault, error

    def run(self, batches, perform):
        """The first replicate is well, the second is not."""
        yield perform(next(batches))
        (task,) = next(batches)
        yield [Done(task, None, self.error, 0.0) if self.fault is None else failed(task, self.fault, 0.0)]
        raise AssertionError("it went on")


def test_a_run_ends_as_its_replicate_did_and_keeps_the_others(here):
    scenario = p2p_sim.load_scenario("small.toml")
    for fault in (InputError("no"), ValueError("odd")):
        with pytest.raises(type(fault), match=str(fault)):
            run_point(scenario, here / str(fault), executor=Fails(fault))
        assert len(p2p_sim.load_results(here / str(fault))) == 1
    with pytest.raises(RunFailed, match="replicate 1 killed its worker 3 times; 1 of 3 replicates are finished"):
        run_point(scenario, here / "lost", executor=Fails(None, "killed its worker 3 times"))


def test_a_mistake_in_a_worker_is_one_line_and_status_2(here, monkeypatch):
    monkeypatch.setattr("p2p_sim.cli.executors.at_a_time", LocalProcesses)
    settings = ("--set", 'clusters={kind="given", min_size=300}', "--workers", 2)
    status, out, err = command("run", "small.toml", *settings)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert "clusters.min_size = 300" in err
    assert [path.name for path in here.iterdir()] == ["small.toml"]


def test_a_plug_in_that_fails_in_a_worker_is_named(here, installed, monkeypatch):
    monkeypatch.setattr("p2p_sim.cli.executors.at_a_time", LocalProcesses)
    monkeypatch.setenv("PYTHONSTARTUP", "")
    (here / "spoil.py").write_text("import own_learner\nown_learner.NearestMean = lambda *_: 1 / 0\n")
    monkeypatch.syspath_prepend(here)
    monkeypatch.setattr(LocalProcesses, "__post_init__", lambda one: object.__setattr__(one, "imports", "spoil"))
    status, out, err = command("run", "small.toml", "--set", 'learner={kind="nearest_mean"}', "--workers", 2)
    assert (status, out, len(err.splitlines())) == (1, "", 1)
    assert "plug-in own-mechanism 1.0: NearestMeanConfig.fit failed: ZeroDivisionError: division by zero" in err


def test_ctrl_c_ends_the_workers_and_says_what_is_kept(here):
    script = (  # a job in the background ignores the signal by default
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from p2p_sim.sweeps import local_workers; local_workers.ALONE_S = 0.01\n"
        "from p2p_sim.cli.main import main; main()"
    )
    arguments = ["run", "small.toml", "--out", "out", "--workers", "2", "--set", "replicates=100000"]
    process = subprocess.Popen([sys.executable, "-c", script, *arguments], stderr=subprocess.PIPE, text=True)
    rows = here / "out" / "rows.jsonl"
    wait_until(lambda: rows.exists() and rows.stat().st_size > 10_000, 120)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "of 100,000 replicates are finished and kept: run the same again to go on" in err


def test_the_poison_of_a_sweep_never_runs_in_this_process():
    """The control of `alone_s`: without it, every task is with a worker."""
    done = collect(LocalProcesses(2, 1, "tests.stand_ins"), tasks(POISON + 1), stand_ins.poisoned, 1)
    assert [one.task.replicate for one in done if one.error and "killed" in one.error] == [POISON]
    assert replace(LocalProcesses(2), alone_s=local_workers.ALONE_S) == local_workers.at_a_time(2)
