"""A study that is stopped goes on where it stopped, and ends as if it had not been."""

import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from analysis import closed_form as closed_form
from analysis import consistency as consistency
from analysis import privacy_tables as privacy
from analysis import study as frames
from analysis import vector as vector
from analysis.internet_scale import beyond
from analysis.stacking import __main__ as stacking
from p2p_sim.figures import Curve, Panel, plot_panels
from tests.conftest import ROOT

STUDIES = {
    "consistency": partial(consistency.main, sizes=(200,), replicates=1),
    "stacking": partial(stacking.main, replicates=1),
    "closed form": partial(closed_form.main, targets=1, largest=120),
    "privacy": privacy.main,
    "vector": vector.main,
    "10⁸ users": partial(beyond.main, users=100_000),
}
"""Every study that does more than run sweeps, which have tests of their own."""


class Stopped(BaseException):
    """Instead of a signal."""


def files(folder: Path) -> dict[str, bytes]:
    """Tables and rows of a study, without times."""
    kept = (path for pattern in ("*.csv", "*.parquet") for path in folder.rglob(pattern) if "timings" not in path.name)
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n != "10⁸ users" else ()) for n in STUDIES])
def test_a_stopped_study_goes_on(frame, tmp_path, monkeypatch, name):
    for setting, value in {"EPSILONS": (1.0, 4.0), "COUNTS": (2,), "SKEWS": (0.9,), "TUNING": 1}.items():
        monkeypatch.setattr(stacking, setting, value)
    monkeypatch.setattr(stacking, "PENALTIES", (0.01, 0.1))
    monkeypatch.setattr(vector, "SPREADS", {"scaled": "σ = 2/K"})
    written, whole = [], frames.write_whole

    def write(path, content, last=10**9):
        whole(path, content)
        written.append(path)
        if len(written) == last:
            raise Stopped

    monkeypatch.setattr(frames, "write_whole", partial(write, last=1))
    with pytest.raises(Stopped):
        STUDIES[name](frame)
    monkeypatch.setattr(frames, "write_whole", write)
    STUDIES[name](frame)
    assert len(written) == len(set(written)) > 1  # nothing twice
    again = len(written)
    STUDIES[name](frame)
    assert len(written) == again
    STUDIES[name](replace(frame, out=tmp_path / "other", work=tmp_path / "anew"))
    assert len(written) == 2 * again
    assert files(frame.out) == files(tmp_path / "other") != {}


KILLED = """
import os, sys
from pathlib import Path
from analysis.study import Frame

def tenfold(task):
    with open("done", "a") as file:
        file.write(f"{task}\\n")
    if task == 3 and not Path("again").exists():
        os.kill(os.getpid(), 9)
    return 10 * task

print(Frame(Path("out"), Path("work"), workers=1).each(tenfold, range(5)))
"""


@pytest.mark.slow
def test_a_killed_study_goes_on(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(KILLED)

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, script], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
        )

    assert run().returncode == -9
    (tmp_path / "again").touch()
    assert run().stdout == "[0, 10, 20, 30, 40]\n"
    assert (tmp_path / "done").read_text().split() == ["0", "1", "2", "3", "3", "4"]


def test_a_figure_may_be_the_first_file_of_a_study(frame):
    """It is drawn although the folder of the results does not exist yet."""
    curve = Curve("a", [1.0, 2.0], [1.0, 2.0])
    path = frame.figure(plot_panels, [Panel("x", "y", [curve])], "first.png")
    assert path == frame.out / "first.png"
    assert path.is_file()


def plus(number: int, task: int) -> int:
    """What is bound, and a task."""
    return number + task


def test_tasks_are_shared_out_and_kept_apart(frame):
    shared = replace(frame, workers=2)
    assert shared.each(partial(plus, 1), [1, 2]) == [2, 3]
    assert shared.each(partial(plus, 5), [1, 2]) == [6, 7]
    assert len(list((frame.work / "tasks").iterdir())) == 4
