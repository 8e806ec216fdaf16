"""A 200-point sweep whose driver and workers are killed 20 times ends with the table of an undisturbed run.

`make validate` runs this; it takes some minutes.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

BASE = """
name = "tiny"
engine = "vectorised"
replicates = 1
[population]
kind = "synthetic"
users = 120
num_clusters = 2
[mechanism]
kind = "label_exchange"
flip_prob = 0.2
"""
SWEEP = """
name = "kills"
base = "tiny.toml"
[[axes]]
key = "mechanism.flip_prob"
linear = [0.05, 0.45, 20]
[[axes]]
key = "mechanism.sampling_rate"
linear = [0.1, 1.0, 10]
"""
COMMAND = "from p2p_sim.cli.main import main; main()"


def start(folder: Path, out: Path, *options: str) -> "subprocess.Popen[bytes]":
    arguments = ["sweep", str(folder / "sweep.toml"), "--out", str(out), "--json", *options]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def descendants(pid: int) -> list[int]:
    """All processes below one, workers among them."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(p) for thread in threads for p in thread.read_text().split()]
    return children + [below for child in children for below in descendants(child)]


def workers(pid: int) -> list[int]:
    """Descendants that have been at work for a while."""
    try:
        lines = {p: Path(f"/proc/{p}/cmdline").read_bytes() for p in descendants(pid)}
    except OSError:
        return []
    marks = (b"sweeps.worker import serve", b"spawn_main")  # of local workers, and of Dask's
    return [p for p, line in lines.items() if any(mark in line for mark in marks)]


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def finished(out: Path) -> int:
    rows = out / "rows.jsonl"
    return rows.read_bytes().count(b"\n") if rows.exists() else 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("kills")
    (place / "tiny.toml").write_text(BASE)
    (place / "sweep.toml").write_text(SWEEP)
    return place


@pytest.fixture(scope="module")
def undisturbed(folder) -> bytes:
    assert start(folder, folder / "calm", "--workers", "2").wait() == 0
    return (folder / "calm" / "rows.jsonl").read_bytes()


def until_done(folder: Path, out: Path, *options: str) -> None:
    for _ in range(3):
        if start(folder, out, *options).wait() == 0:
            return
    raise AssertionError("the sweep did not finish")


def test_the_driver_is_killed_seven_times(folder, undisturbed):
    """At random moments once some rows are there; its workers end with it."""
    chance, out = random.Random(1), folder / "driver"
    killed = 0
    while killed < 7 and finished(out) < 190:
        before = finished(out)
        driver = start(folder, out, "--workers", "2")
        while finished(out) <= before and driver.poll() is None:
            time.sleep(0.02)
        time.sleep(chance.uniform(0.0, 0.5))
        below = workers(driver.pid)
        kill(driver.pid)
        driver.wait()
        killed += 1
        deadline = time.monotonic() + 10.0
        while any(Path(f"/proc/{p}/cmdline").exists() for p in below) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(Path(f"/proc/{p}/cmdline").exists() for p in below)
    assert killed >= 5
    until_done(folder, out, "--workers", "2")
    assert (out / "rows.jsonl").read_bytes() == undisturbed


def test_a_local_worker_is_killed_seven_times(folder, undisturbed):
    chance, out = random.Random(2), folder / "worker"
    driver, killed = start(folder, out, "--workers", "2"), 0
    while killed < 7 and driver.poll() is None:
        before = finished(out)
        while finished(out) <= before and driver.poll() is None:
            time.sleep(0.02)
        time.sleep(chance.uniform(0.0, 0.3))
        victims = workers(driver.pid)
        if victims:
            kill(chance.choice(victims))
            killed += 1
    assert killed == 7
    assert driver.wait() == 0
    assert (out / "rows.jsonl").read_bytes() == undisturbed


@contextmanager
def dask_cluster(folder: Path) -> Iterator[tuple[Path, int]]:
    """A scheduler and two workers with nannies on loopback: the scheduler file, and the workers' parent."""
    file = folder / "scheduler.json"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    common = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    dask = [sys.executable, "-m", "dask"]
    scheduler = subprocess.Popen(
        [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)],
        **common,
    )
    while not file.exists():
        time.sleep(0.1)
    nannies = subprocess.Popen(
        [*dask, "worker", "--scheduler-file", str(file), "--nthreads", "1", "--nworkers", "2", "--no-dashboard",
         "--host", "127.0.0.1"],
        **common,
    )  # fmt: skip
    try:
        yield file, nannies.pid
    finally:
        nannies.terminate()
        scheduler.terminate()
        nannies.wait(20)
        scheduler.wait(20)


def test_a_dask_worker_is_killed_six_times(folder, undisturbed):
    pytest.importorskip("distributed")
    chance, out = random.Random(3), folder / "dask"
    with dask_cluster(folder) as (file, parent):
        driver, killed = start(folder, out, "--dask", str(file)), 0
        while killed < 6 and driver.poll() is None:
            before = finished(out)
            while finished(out) <= before and driver.poll() is None:
                time.sleep(0.02)
            time.sleep(chance.uniform(0.0, 0.3))
            victims = workers(parent)
            if victims:
                kill(chance.choice(victims))
                killed += 1
        assert killed == 6
        assert driver.wait(300) == 0
    assert (out / "rows.jsonl").read_bytes() == undisturbed


def test_a_killed_scheduler_leaves_a_directory_that_goes_on(folder, undisturbed):
    pytest.importorskip("distributed")
    out = folder / "scheduler"
    with dask_cluster(folder / "..") as (file, _):
        driver = subprocess.Popen(
            [
                sys.executable,
                "-c",
                COMMAND,
                "sweep",
                str(folder / "sweep.toml"),
                "--out",
                str(out),
                "--dask",
                str(file),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        while finished(out) < 20:
            time.sleep(0.05)
        subprocess.run(["pkill", "-9", "-f", f"scheduler-file {file}"], check=False)
        _, text = driver.communicate(timeout=60)
    assert driver.returncode == 1
    assert b"Traceback" not in text
    assert b"replicates are finished and kept" in text
    until_done(folder, out, "--workers", "2")
    assert (out / "rows.jsonl").read_bytes() == undisturbed
