"""Whole jobs in processes of their own, with today's code or an older one's."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.job import START

ROOT = Path(__file__).parent.parent
RUNNER = ROOT / "benchmarks" / "job.py"
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class JobError(RuntimeError):
    """A job that did not end well; the last line that it wrote."""


class CheckoutError(ValueError):
    """What is neither a commit nor a directory with the simulator's code."""


@dataclass(frozen=True)
class Job:
    """A run of a scenario, or a sweep of it.

    scenario: its tree. folder: of the files that it names. axes: of the sweep; None: a run.
    """

    scenario: Mapping[str, Any]
    folder: Path = ROOT / "scenarios"
    axes: Mapping[str, list[float]] | None = None


@dataclass(frozen=True)
class Measured:
    """What a job took.

    total: processor seconds of its process, as the system counts them. seconds: by part; what the process counts, and
    the exit, which counts as start-up. exit_s: the exit alone, in which Python frees what was imported.
    peak_bytes: most memory that the process had.
    """

    total: float
    seconds: dict[str, float]
    exit_s: float
    peak_bytes: int

    @property
    def without_start(self) -> float:
        """Processor seconds beside start-up and exit."""
        return self.total - self.seconds[START]


def measured(job: Job, checkout: Path = ROOT, cache: str = "off") -> Measured:
    """Run a job with the code of a checkout, in a fresh interpreter with one numerical thread.

    Args:
        job: what to run. checkout: whose `p2p_sim` runs it. cache: P2P_SIM_CACHE, where figures of ε are kept.

    Raises:
        JobError: it ended with an error.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        told = {"scenario": dict(job.scenario), "folder": str(job.folder), "axes": job.axes, "out": str(place / "out")}
        (place / "job.json").write_text(json.dumps(told), encoding="utf-8")
        settings = dict.fromkeys(THREADS, "1") | {"PYTHONPATH": str(checkout), "P2P_SIM_CACHE": cache}
        with (place / "errors").open("w+b") as errors:
            process = subprocess.Popen(
                [sys.executable, "-P", str(RUNNER), str(place / "job.json"), str(place / "result.json")],
                env={**os.environ, **settings},
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            errors.seek(0)
            said = errors.read().decode("utf-8", "replace").strip().splitlines()
        if process.returncode != 0:
            raise JobError(said[-1] if said else f"ended with status {process.returncode}")
        found = json.loads((place / "result.json").read_text(encoding="utf-8"))
    total, seconds = used.ru_utime + used.ru_stime, found["seconds"]
    exit_s = max(total - sum(seconds.values()), 0.0)
    return Measured(total, {**seconds, START: seconds[START] + exit_s}, exit_s, found["peak_bytes"])


@contextmanager
def checkout_of(named: str) -> Iterator[Path]:
    """The files of a commit, in a temporary work tree of git; or of a directory, as they are.

    Raises:
        CheckoutError: it is neither.
    """
    if Path(named).is_dir():
        if not (Path(named) / "p2p_sim").is_dir():
            raise CheckoutError(f"{named}: is no checkout; it has no p2p_sim")
        yield Path(named).resolve()
        return
    git = ["git", "-C", str(ROOT)]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "before"
        command = [*git, "worktree", "add", "--quiet", "--detach", str(place), named]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            raise CheckoutError(f"{named}: is neither a directory nor a commit")
        try:
            yield place
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(place)], capture_output=True, check=True)
